"""The schema that tests have: with TEST_PARTITIONS=8, PostgreSQL's largest tables are in so many partitions."""

import os

from sqlalchemy import Engine

from prudent.store import schema

PARTITIONS = int(os.environ.get("TEST_PARTITIONS", "0")) or None


def migrate(engine: Engine) -> tuple[str | None, str]:
    """As `prudent.store.schema.migrate`."""
    return schema.migrate(engine, partitions=PARTITIONS if engine.dialect.name == "postgresql" else None)
