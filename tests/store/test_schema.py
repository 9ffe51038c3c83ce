"""Migrations make the schema that the code declares, once, whoever starts them."""

import threading
import time

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from prudent.store import engines, schema
from prudent.store.engines import create_read_engine, create_write_engine, parse_database_url
from prudent.store.partitions import PARTITIONED
from prudent.store.schema import UnknownRevisionError, current_revision, latest_revision
from prudent.store.tables import metadata
from tests.databases import PARTITIONS, migrate


# PostgreSQL's "not valid" is reflected as an option that SQLAlchemy's own constraint does not know
@pytest.mark.filterwarnings("ignore:Can't validate argument 'dialect_options'")
def test_migrations_make_the_declared_tables(database_url: str) -> None:
    """A column in the code that no migration makes would fail on the first upgrade."""
    engine = create_write_engine(parse_database_url(database_url))
    assert migrate(engine) == (None, latest_revision())
    assert migrate(engine) == (latest_revision(), latest_revision())
    parts = {f"{table}_{number}" for table in PARTITIONED for number in range(PARTITIONS or 0)}
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"include_name": lambda name, *_: name not in parts})
        assert compare_metadata(context, metadata) == []
        assert connection.dialect.name != "sqlite" or connection.execute(text("PRAGMA foreign_key_check")).all() == []
    engine.dispose()


def test_the_revisions_are_those_of_the_files() -> None:
    """A migration that is not told of would leave servers on the old schema, or refuse the new one."""
    files = ScriptDirectory.from_config(schema._configuration())
    assert tuple(script.revision for script in files.walk_revisions())[::-1] == schema.REVISIONS
    assert files.get_heads() == [latest_revision()]


def test_a_migration_may_be_slow_between_statements(postgres_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Alembic is imported inside the transaction: on a slow machine PostgreSQL would end it as idle."""
    read = schema.current_revision

    def read_slowly(connection: Connection) -> str | None:
        time.sleep(0.7)
        return read(connection)

    monkeypatch.setattr(engines, "IDLE_IN_TRANSACTION_TIMEOUT_MS", 500)
    monkeypatch.setattr(schema, "current_revision", read_slowly)
    engine = create_write_engine(parse_database_url(postgres_database))
    assert migrate(engine) == (None, latest_revision())
    engine.dispose()


def test_down_and_up_again(database_url: str) -> None:
    """A downgrade must leave nothing that blocks the next upgrade."""
    engine = create_write_engine(parse_database_url(database_url))
    schema.migrate(engine)
    with engine.begin() as connection:
        command.downgrade(schema._configuration(connection), "base")
        assert current_revision(connection) is None
    assert schema.migrate(engine) == (None, latest_revision())
    engine.dispose()


def test_many_starters_migrate_once(database_url: str) -> None:
    """Replicas that start together must not run the same DDL twice (W23)."""
    results: list[tuple[str | None, str]] = []

    def start() -> None:
        engine = create_write_engine(parse_database_url(database_url))
        results.append(migrate(engine))
        engine.dispose()

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(before is None for before, _ in results) == [False, False, False, True]


def test_a_newer_schema_is_refused(database_url: str) -> None:
    """An old version must not write into a schema that it does not know."""
    engine = create_write_engine(parse_database_url(database_url))
    migrate(engine)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(UnknownRevisionError, match="9999"):
        migrate(engine)
    engine.dispose()


def test_the_read_engine_cannot_write(database_url: str) -> None:
    """A GET route must not be able to change anything, whatever its code does."""
    url = parse_database_url(database_url)
    write = create_write_engine(url)
    migrate(write)
    read = create_read_engine(url)
    with read.connect() as connection, pytest.raises(Exception, match=r"readonly|read-only"):
        connection.execute(text("DELETE FROM campaigns"))
    write.dispose()
    read.dispose()


def test_sqlite_is_durable_and_locks_before_it_reads(sqlite_database: str) -> None:
    """With a lazy BEGIN two writers would both read, and one would then learn from a stale state."""
    url = parse_database_url(sqlite_database)
    first, second = create_write_engine(url), create_write_engine(url.update_query_dict({"timeout": "0.05"}))
    migrate(first)
    with first.connect() as connection:
        settings = [connection.execute(text(f"PRAGMA {name}")).scalar() for name in ("synchronous", "journal_mode")]
        assert settings == [2, "wal"]
        assert connection.execute(text("PRAGMA foreign_keys")).scalar() == 1
        with second.connect() as other, pytest.raises(Exception, match="locked"):
            other.execute(text("SELECT 1"))
    first.dispose()
    second.dispose()


def test_postgres_is_read_committed_with_timeouts(postgres_database: str) -> None:
    """REPEATABLE READ would fail two workers against each other; no timeout would let one stop the other."""
    engine = create_write_engine(parse_database_url(postgres_database))
    names = ("transaction_isolation", "lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")
    with engine.connect() as connection:
        found = [connection.execute(text(f"SHOW {name}")).scalar() for name in names]
    assert found == ["read committed", "500ms", "10s", "2s"]
    engine.dispose()
