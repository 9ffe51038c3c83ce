"""The schema's revision: the database's, the one that this version needs, and the migration between them."""

import math
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, func, inspect, select, text

from prudent.store.engines import check_encoding
from prudent.store.partitions import partition
from prudent.store.tables import campaigns

if TYPE_CHECKING:
    from alembic.config import Config  # with the rest of Alembic a fifth of a start, and needed only to migrate

REVISIONS = tuple(f"{number:04}" for number in range(1, 20))
"""The revisions in migrations/versions/, oldest first: known here, so that a start need not load Alembic."""
ADVISORY_LOCK = 0x5072_7564_656E_74
"""One migration at a time on Postgres; on SQLite the write transaction is the lock."""


class UnknownRevisionError(RuntimeError):
    """The database's schema is not one that this version can use: a newer one, or one to migrate first."""


def _script_location() -> str:
    """The migrations: a folder of the installed package or, in a checkout, at its top."""
    package = Path(__file__).resolve().parents[1]
    installed = package / "migrations"
    return str(installed if installed.is_dir() else package.parents[1] / "migrations")


def _configuration(connection: Connection | None = None) -> "Config":
    from alembic.config import Config

    configuration = Config()
    configuration.set_main_option("script_location", _script_location().replace("%", "%%"))
    configuration.attributes["connection"] = connection
    return configuration


def latest_revision() -> str:
    """The revision that this version needs."""
    return REVISIONS[-1]


def current_revision(connection: Connection) -> str | None:
    """The database's revision; None if it has no schema. Raises UnknownRevisionError."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
    if revision is not None and revision not in REVISIONS:
        raise UnknownRevisionError(
            f"the database has schema revision {revision}, which this version does not know: use a newer Prudent"
        )
    return revision


def check_revision(connection: Connection) -> None:
    """Raise UnknownRevisionError unless the database has this version's schema."""
    if current_revision(connection) != latest_revision():
        raise UnknownRevisionError("the schema does not match this version: run prudent migrate")


def migrate(engine: Engine, *, partitions: int | None = None) -> tuple[str | None, str]:
    """Bring the schema to the latest revision, once however many start at the same time; (before, after).

    partitions: to have the largest tables in so many, on Postgres; None leaves them as they are. Raises
    UnknownRevisionError, UnsupportedDatabaseError for a database that cannot hold every text, and PartitionsError.
    """
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.connection.driver_connection.seconds_max = math.inf  # type: ignore[union-attr]  # our own class
            connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))  # while Alembic is imported
            connection.execute(text("SET LOCAL lock_timeout = 0"))
            connection.execute(text("SET LOCAL statement_timeout = 0"))
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": ADVISORY_LOCK})
        check_encoding(connection)
        before = current_revision(connection)
        if before != latest_revision():
            from alembic import command

            command.upgrade(_configuration(connection), "head")
        if partitions is not None:
            partition(connection, partitions)
        return before, latest_revision()


def analyse(engine: Engine) -> None:
    """Tell Postgres's planner of many rows that have just come: by itself it looks at them a minute later."""
    if engine.dialect.name == "postgresql":
        with engine.begin() as connection:
            connection.execute(text("ANALYZE decisions, observations"))


def campaigns_without_rule(engine: Engine) -> int:
    """How many campaigns were created before there were exploration rules, and explore as campaigns did then."""
    unsaid = campaigns.c.campaign_id.is_not(None) & ~campaigns.c.creation.contains('"exploration_rule":')
    with engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(campaigns).where(unsaid)).scalar_one()
