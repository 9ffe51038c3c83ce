"""Alembic migrations of Prudent's schema, shipped with the package."""

REVISIONS = ("0001", "0002")
"""Of the files in versions/, oldest first. They are told here as well, so that a start need not load all of them."""
