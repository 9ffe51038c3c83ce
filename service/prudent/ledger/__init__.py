"""Group commit: many commands, one transaction, one thread. See docs/decisions/0002-group-commit.md."""
