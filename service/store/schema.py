"""The schema's revision: what the database has, what this version needs, and how to get there."""

import math
from contextlib import suppress
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy import Connection, Engine, text

import migrations

ADVISORY_LOCK = 0x5072_7564_656E_74
"""One migration at a time on Postgres; on SQLite the write transaction is the lock."""


class UnknownRevisionError(RuntimeError):
    """The database has a schema that this version does not know: it was made by a newer one."""


def _script_location() -> str:
    return str(Path(migrations.__file__).parent)


def _configuration(connection: Connection | None = None) -> Config:
    configuration = Config()
    configuration.set_main_option("script_location", _script_location().replace("%", "%%"))
    configuration.attributes["connection"] = connection
    return configuration


def latest_revision() -> str:
    """The revision that this version needs."""
    head = ScriptDirectory.from_config(_configuration()).get_current_head()
    if head is None:
        raise RuntimeError("the package ships no migrations")
    return head


def current_revision(connection: Connection) -> str | None:
    """The database's revision; None if it has no schema. Raises UnknownRevisionError."""
    revision = MigrationContext.configure(connection).get_current_revision()
    if revision is not None:
        with suppress(CommandError):
            if ScriptDirectory.from_config(_configuration()).get_revision(revision) is not None:
                return revision
        raise UnknownRevisionError(
            f"the database has schema revision {revision}, which this version does not know: use a newer Prudent"
        )
    return None


def check_revision(connection: Connection) -> None:
    """Raise UnknownRevisionError unless the database has this version's schema."""
    if current_revision(connection) != latest_revision():
        raise UnknownRevisionError("the database has not this version's schema: run prudent migrate")


def migrate(engine: Engine) -> tuple[str | None, str]:
    """Bring the schema to the latest revision, once however many start at the same time; (before, after)."""
    with engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.connection.driver_connection.seconds_max = math.inf  # type: ignore[union-attr]  # our own class
            connection.execute(text("SET LOCAL lock_timeout = 0"))
            connection.execute(text("SET LOCAL statement_timeout = 0"))
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": ADVISORY_LOCK})
        before = current_revision(connection)
        if before != latest_revision():
            command.upgrade(_configuration(connection), "head")
        return before, latest_revision()
