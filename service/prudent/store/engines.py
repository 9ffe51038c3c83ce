"""Engines: one for writing, used by the ledger's thread and migrations; a read-only one for everything else."""

import sqlite3
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import QueuePool

from prudent.store import statements

BUSY_TIMEOUT_MS = 5_000
LOCK_TIMEOUT_MS = 500
STATEMENT_TIMEOUT_MS = 10_000
IDLE_IN_TRANSACTION_TIMEOUT_MS = 2_000
WAL_SIZE_MAX = 64 * 2**20
NEW_FILE_MODE = 0o600
"""Of a SQLite file that we create, and so of those beside it: other users of the machine must not read features."""
WRITERS_MAX = 3
"""One is held for batches, one serves what the same thread writes between them, one writes large snapshots."""
READERS_MAX = 4


class UnsupportedDatabaseError(ValueError):
    """A database URL that is neither a SQLite file nor Postgres."""


def parse_database_url(text: str) -> URL:
    """The URL with the driver that Prudent uses. Raises UnsupportedDatabaseError."""
    try:
        url = make_url(text)
    except ArgumentError:
        raise UnsupportedDatabaseError(
            "the database URL must have the form sqlite:///FILE or postgresql://USER@HOST/NAME"
        ) from None
    backend = url.get_backend_name()
    if backend in {"postgresql", "postgres"}:
        if find_spec("psycopg") is None:
            raise UnsupportedDatabaseError("PostgreSQL needs psycopg: pip install 'prudent[postgres]'")
        return url.set(drivername="postgresql+psycopg")
    if backend == "sqlite":
        if not url.database or url.database == ":memory:" or url.database.startswith("file:"):
            raise UnsupportedDatabaseError("SQLite needs a file: sqlite:///FILE")
        return url.set(drivername="sqlite+pysqlite")
    raise UnsupportedDatabaseError(f"{backend} is not supported: use sqlite:///FILE or postgresql://…")


def create_write_engine(url: URL) -> Engine:
    """An engine for writing. On SQLite a transaction takes the write lock before it reads anything."""
    if url.get_backend_name() == "sqlite":
        engine = _create_sqlite(url, pool_size=WRITERS_MAX)
        event.listen(engine, "connect", _remember_file(url))
        event.listen(engine, "close", statements.close_file)
        event.listen(engine, "begin", statements.begin_immediate)
        return engine
    return _create_postgres(url, pool_size=WRITERS_MAX, lock_timeout_ms=LOCK_TIMEOUT_MS)


def create_read_engine(url: URL) -> Engine:
    """A read-only engine: the database itself refuses to write."""
    if url.get_backend_name() == "sqlite":
        engine = _create_sqlite(url, pool_size=READERS_MAX)
        event.listen(engine, "connect", lambda dbapi, _: dbapi.execute("PRAGMA query_only = ON").close())
        event.listen(engine, "begin", statements.begin)
        return engine
    return _create_postgres(url, pool_size=READERS_MAX, default_transaction_read_only="on")


def _create_sqlite(url: URL, *, pool_size: int) -> Engine:
    engine = create_engine(
        url,
        hide_parameters=True,
        poolclass=QueuePool,
        pool_size=pool_size,
        max_overflow=0,
        # the driver must not open transactions by itself: it would do so after the reads
        connect_args={"isolation_level": None, "timeout": BUSY_TIMEOUT_MS / 1000, "check_same_thread": False},
    )

    @event.listens_for(engine, "connect")
    def configure(dbapi: Any, _record: object) -> None:
        for pragma in (
            "journal_mode = WAL",
            "synchronous = FULL",
            "foreign_keys = ON",
            f"journal_size_limit = {WAL_SIZE_MAX}",
        ):
            dbapi.execute(f"PRAGMA {pragma}").close()

    _keep_to_one_file(engine)
    return engine


def _keep_to_one_file(engine: Engine) -> None:
    """Refuse a connection to another file than the first one's. SQLite would create what is not there."""
    opened: set[tuple[int, int]] = set()

    @event.listens_for(engine, "do_connect")
    def refuse_another(_dialect: object, _record: object, arguments: tuple[str, ...], _options: object) -> None:
        path = Path(arguments[0])
        if opened and (not path.exists() or statements.identity_of(path.stat()) not in opened):
            raise sqlite3.OperationalError("the database file was removed or replaced")

    @event.listens_for(engine, "connect")
    def remember(_dbapi: object, _record: object) -> None:
        opened.add(statements.identity_of(Path(engine.url.database or "").stat()))


def _remember_file(url: URL) -> Callable[[Any, Any], None]:
    """Note what a connection opens; the ledger compares it before it acknowledges."""

    def remember(dbapi: Any, record: Any) -> None:
        dbapi.execute("SELECT count(*) FROM sqlite_schema").close()  # the first read opens the log
        statements.OpenedFile(url.database or "", record.info)

    return remember


def _create_postgres(url: URL, *, pool_size: int, **options: object) -> Engine:
    settings = {
        "statement_timeout": STATEMENT_TIMEOUT_MS,
        "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION_TIMEOUT_MS,
        **{name.removesuffix("_ms"): value for name, value in options.items()},
    }
    engine = create_engine(
        url,
        hide_parameters=True,  # errors are logged; features and rewards must not be
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=STATEMENT_TIMEOUT_MS / 1000,
        isolation_level="READ COMMITTED",
        connect_args={
            "options": " ".join(f"-c {name}={value}" for name, value in settings.items()),
            "connect_timeout": 5,
            "keepalives": 1,
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "application_name": "prudent",
        },
    )

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: object, _record: object, arguments: tuple[str, ...], options: dict[str, Any]) -> Any:
        from prudent.store.postgres import TimeLimitedConnection  # it loads psycopg, which SQLite does without

        return TimeLimitedConnection.connect(*arguments, **options)

    return engine
