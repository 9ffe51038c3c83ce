"""Alembic migrations of Prudent's schema, shipped with the package."""
