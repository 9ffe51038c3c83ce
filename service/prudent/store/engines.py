"""Engines: one for writing, used by the ledger's thread and migrations; a read-only one for everything else."""

import sqlite3
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, ExceptionContext, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import QueuePool

from prudent.store import statements
from prudent.store.failures import ends_session

BUSY_TIMEOUT_MS = 5_000
LOCK_TIMEOUT_MS = 500
STATEMENT_TIMEOUT_MS = 10_000
IDLE_IN_TRANSACTION_TIMEOUT_MS = 2_000
"""Of a writer that stands still between two statements: others may wait for its locks."""
IDLE_READER_TIMEOUT_MS = 10_000
"""Of a reader: nobody waits for it."""
WAL_SIZE_MAX = 64 * 2**20
NEW_FILE_MODE = 0o600
"""Of a SQLite file that we create, and so of those beside it: other users of the machine must not read features."""
WRITERS_MAX = 3
"""One is held for batches, one serves what the same thread writes between them, one writes large snapshots."""
READERS_MAX = 4


class UnsupportedDatabaseError(ValueError):
    """A database URL that is neither a SQLite file nor Postgres."""


def parse_database_url(given: str) -> URL:
    """The URL with the driver that Prudent uses, also for several hosts. Raises UnsupportedDatabaseError."""
    try:
        url = make_url(_with_hosts_as_options(given))
    except (ArgumentError, ValueError):
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


def _with_hosts_as_options(given: str) -> str:
    """postgresql://USER@HOST1:PORT1,HOST2:PORT2/NAME as SQLAlchemy writes it: with an option for each host."""
    scheme, _, rest = given.partition("://")
    authority, _, name = rest.partition("/")
    user, at, hosts = authority.rpartition("@")
    if "," not in hosts or scheme.startswith("sqlite"):
        return given
    options = "&".join(f"host={host}" for host in hosts.split(","))
    return f"{scheme}://{user}{at}/{name}{'&' if '?' in name else '?'}{options}"


def check_encoding(connection: Connection) -> None:
    """Raise UnsupportedDatabaseError for a database of Postgres that cannot hold every text."""
    if connection.dialect.name != "postgresql":
        return
    encoding = connection.execute(text("SHOW server_encoding")).scalar_one()
    if encoding != "UTF8":
        raise UnsupportedDatabaseError(
            f"the database's encoding is {encoding}, but it must be UTF8: create one with "
            "CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0, and restore a dump of this one there"
        )


def create_write_engine(url: URL) -> Engine:
    """An engine for writing. On SQLite a transaction takes the write lock before it reads anything.

    On Postgres, of several hosts it finds the one that takes rows, and it refuses a server that is read-only.
    """
    if url.get_backend_name() == "sqlite":
        engine = _create_sqlite(url, pool_size=WRITERS_MAX)
        event.listen(engine, "connect", _remember_file(url))
        event.listen(engine, "close", statements.close_file)
        event.listen(engine, "begin", statements.begin_immediate)
        return engine
    limits = {
        "statement_timeout": STATEMENT_TIMEOUT_MS,
        "idle_in_transaction_session_timeout": IDLE_IN_TRANSACTION_TIMEOUT_MS,
        "lock_timeout": LOCK_TIMEOUT_MS,
    }
    return _create_postgres(url, WRITERS_MAX, limits, target="read-write")


def create_read_engine(url: URL, *, may_be_standby: bool = False) -> Engine:
    """A read-only engine: the database itself refuses to write. All that one transaction reads is of one instant.

    may_be_standby: a standby of Postgres will do, which may be behind. Otherwise it is refused.
    """
    if url.get_backend_name() == "sqlite":
        engine = _create_sqlite(url, pool_size=READERS_MAX)
        event.listen(engine, "connect", lambda dbapi, _: dbapi.execute("PRAGMA query_only = ON").close())
        event.listen(engine, "begin", statements.begin)
        return engine
    limits = {
        "statement_timeout": STATEMENT_TIMEOUT_MS,
        "idle_in_transaction_session_timeout": IDLE_READER_TIMEOUT_MS,
    }
    target = "any" if may_be_standby else "primary"
    return _create_postgres(url, READERS_MAX, limits, target=target, read_only=True)


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


def _create_postgres(
    url: URL, pool_size: int, limits_ms: dict[str, int], *, target: str, read_only: bool = False
) -> Engine:
    engine = create_engine(
        url,
        hide_parameters=True,  # errors are logged; features and rewards must not be
        pool_size=pool_size,
        max_overflow=0,
        pool_timeout=STATEMENT_TIMEOUT_MS / 1000,
        # whoever writes must see, once a lock is taken, what those before have written; whoever reads must not see half
        isolation_level="REPEATABLE READ" if read_only else "READ COMMITTED",
        # no `options` among them: poolers refuse it
        connect_args={
            "connect_timeout": 5,
            "keepalives": 1,
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "keepalives_count": 3,
            "application_name": "prudent",
            "client_encoding": "utf8",  # whatever PGCLIENTENCODING says
            "target_session_attrs": target,
        },
    )

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: object, _record: object, arguments: tuple[str, ...], options: dict[str, Any]) -> Any:
        from prudent.store.postgres import LimitedConnection  # it loads psycopg, which SQLite does without

        connection = LimitedConnection.connect(*arguments, **options)
        try:
            connection.set_limits(limits_ms)
        except BaseException:
            connection.close()
            raise
        if read_only:  # False would be more than the default: it overrides a server that is set to read only
            connection.read_only = True
        return connection

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        statement = connection.connection.driver_connection.at_begin  # type: ignore[union-attr]  # our own class
        if statement is not None:
            statements.execute(connection, statement)

    @event.listens_for(engine, "handle_error")
    def replace_connections(context: ExceptionContext) -> None:
        """A server that cannot serve is left by all connections: a new one may find another that can."""
        if ends_session(context.original_exception):
            context.is_disconnect = True

    return engine
