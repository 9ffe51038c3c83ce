"""What an id may look like: of campaigns, arms and decisions, and the names of keys."""

import re

ID_PATTERN = r"^[A-Za-z0-9._~-]{1,128}$"


def is_id(text: str) -> bool:
    """Whether anything could have this id."""
    return re.fullmatch(ID_PATTERN, text) is not None
