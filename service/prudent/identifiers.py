"""What an id may look like: of campaigns, arms and decisions, and the names of keys."""

ID_PATTERN = r"^[A-Za-z0-9._~-]{1,128}$"
