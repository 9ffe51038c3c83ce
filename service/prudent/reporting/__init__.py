"""Reports about campaigns, read from the tables only: no state, no command, no lock."""
