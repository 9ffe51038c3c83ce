"""Reports about campaigns, read from the tables alone: no state, no command, no lock."""
