"""Checks before serving: a free port, a known schema, a durable database, one server on a SQLite file, access."""

import errno
import fcntl
import ipaddress
import os
import resource
import socket
import struct
from pathlib import Path

import structlog
from sqlalchemy import Connection, Engine, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from prudent.settings import Settings
from prudent.store.engines import (
    NEW_FILE_MODE,
    check_encoding,
    create_read_engine,
    create_write_engine,
    parse_database_url,
)
from prudent.store.keys import valid_keys, was_key_made
from prudent.store.replica import check_replica
from prudent.store.schema import current_revision, latest_revision, migrate

logger = structlog.get_logger(__name__)

FILES_BESIDES_CONNECTIONS = 256
QUICK_CHECK_BYTES_MAX = 2**30
"""A larger SQLite file is not checked at the start; prudent verify reads all of it."""


_LOCK_BYTE = 2**62
"""Past every byte that SQLite locks, and every file's end."""


class NotServableError(RuntimeError):
    """Why the service refuses to start, and what to do."""


class FileLock:
    """What keeps a second server off a SQLite file while it is held."""

    def __init__(self, files: list[int]) -> None:
        self._files = files

    def close(self) -> None:
        """Let go, once no connection to the file is open."""
        for file in self._files:
            os.close(file)


def prepare(settings: Settings) -> FileLock | None:
    """Check the database, and create the schema of an empty SQLite file; returns the lock to hold while serving.

    Raises NotServableError, UnknownRevisionError or UnsupportedDatabaseError.
    """
    _check_address(settings.host, settings.port)
    _allow_files(settings.limits.connections_max + FILES_BESIDES_CONNECTIONS)
    url = parse_database_url(settings.database_url)
    lock = _lock_file(url) if url.get_backend_name() == "sqlite" else None
    engine = create_write_engine(url)
    try:
        _check_durability(engine)
        _check_schema(engine)
        _check_access(settings, engine)
        if settings.read_database_url:
            _check_replica(settings.read_database_url, engine)
    except SQLAlchemyError as error:
        raise NotServableError(_explain(str(error.__cause__ or error))) from error
    finally:
        engine.dispose()
    return lock


def _check_address(host: str, port: int) -> None:
    """Refuse a port that another program listens on, before anything is said of serving there."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does
            probe.bind(address)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise NotServableError(
                f"port {port} of {host} is in use by another program: choose another one with --port or PRUDENT_PORT"
            ) from None
        raise NotServableError(f"cannot listen on port {port} of {host}: {error.strerror or error}") from None


def _explain(error: str) -> str:
    """What a database that cannot be used says, and what to do if it is only read."""
    if "read-only" not in error:
        return f"the database does not answer: {error}"
    return f"the database is read-only, so nothing could be recorded: name the primary, or make it writable ({error})"


def _lock_file(url: URL) -> FileLock:
    path = Path(url.database or "")
    if not path.parent.is_dir():
        raise NotServableError(
            f"the folder {path.parent.absolute()} of the database does not exist: create it, or choose another database"
        )
    path = path.resolve()
    files: list[int] = []
    try:
        # beside the file, for older versions and for systems without locks of the second kind
        files.append(os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))
        fcntl.flock(files[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
        files.append(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, NEW_FILE_MODE))
        _lock_inode(files[1])
    except OSError as error:
        for file in files:
            os.close(file)
        if error.errno == errno.EAGAIN:
            raise NotServableError(f"another server is using {path}: only one server can use a SQLite file") from None
        raise NotServableError(f"the database file {path} cannot be locked: {error.strerror}") from None
    os.truncate(files[0], 0)
    os.write(files[0], f"{os.getpid()}\n".encode())
    names = os.fstat(files[1]).st_nlink
    if names != 1:
        raise NotServableError(f"{path} has {names} names (hard links), and SQLite one log for each: remove the others")
    return FileLock(files)


def _lock_inode(file: int) -> None:
    """Lock the file itself, whatever name led to it. Raises OSError.

    A lock of this open file, not of the process, since SQLite would release that; and of a byte of our own, since a
    lock of the whole file would keep SQLite out, too, on some systems.
    """
    kind = getattr(fcntl, "F_OFD_SETLK", None)
    if kind is not None:
        fcntl.fcntl(file, kind, struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, _LOCK_BYTE, 1, 0))


def _allow_files(count: int) -> None:
    """Raise the limit of open files as far as the system allows: at the limit, no client could connect."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (count if hard == resource.RLIM_INFINITY else min(count, hard), hard)
        )


def is_loopback(host: str) -> bool:
    """Whether a server that listens on this address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a name, or empty, which means every address


def _check_pages(connection: Connection) -> None:
    """Refuse a damaged file, as far as a quick check can tell."""
    size = connection.exec_driver_sql("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
    if size.scalar_one() > QUICK_CHECK_BYTES_MAX:
        return
    # a row that breaks a bound of its table is no damaged page: its campaign is quarantined, and others are served
    connection.exec_driver_sql("PRAGMA ignore_check_constraints = ON")
    found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
    connection.exec_driver_sql("PRAGMA ignore_check_constraints = OFF")
    if found != "ok":
        raise NotServableError(f"the database file is damaged: {found}; restore a backup")


def _check_schema(engine: Engine) -> None:
    """Migrate an empty SQLite file. Raises NotServableError if the schema does not match this version."""
    with engine.connect() as connection:
        revision = current_revision(connection)
    if revision == latest_revision():
        return
    if revision is None and engine.dialect.name == "sqlite":
        migrate(engine)
        return
    raise NotServableError(
        f"the database's schema is at revision {revision or 'none'}, but this version needs {latest_revision()}: "
        "run prudent migrate"
    )


def _check_durability(engine: Engine) -> None:
    with engine.connect() as connection:
        if engine.dialect.name == "sqlite":
            _check_pages(connection)
            return
        check_encoding(connection)
        for setting in ("fsync", "synchronous_commit"):
            if connection.execute(text(f"SHOW {setting}")).scalar_one() == "off":
                raise NotServableError(f"PostgreSQL runs with {setting}=off, so commits may be lost: turn it on")


def _check_replica(read_database_url: str, engine: Engine) -> None:
    """Raise UnsupportedDatabaseError for what is no standby of the database. One that is away may come back."""
    replica = create_read_engine(parse_database_url(read_database_url), may_be_standby=True)
    try:
        check_replica(replica, engine)
    except SQLAlchemyError as error:
        logger.warning("the replica does not answer", error=str(error.__cause__ or error))
    finally:
        replica.dispose()


def asks_for_keys(settings: Settings) -> bool:
    """Whether a request needs a key. The database has been prepared."""
    if not settings.auth:
        return False
    engine = create_write_engine(parse_database_url(settings.database_url))
    try:
        with engine.connect() as connection:
            return bool(settings.admin_key) or not is_loopback(settings.host) or was_key_made(connection)
    finally:
        engine.dispose()


def first_free_port(host: str, first: int, last: int) -> int:
    """The first port of a range that nothing listens on; the first if all are taken."""
    for port in range(first, last + 1):
        try:
            _check_address(host, port)
        except NotServableError:
            continue
        return port
    return first


def _check_access(settings: Settings, engine: Engine) -> None:
    """Refuse to serve other machines without authentication."""
    if is_loopback(settings.host):
        return
    reached = f"other machines can reach this server on {settings.host or 'every address'}"
    if not settings.auth:
        raise NotServableError(f"{reached}, but PRUDENT_AUTH is off: turn it on, or listen on 127.0.0.1")
    with engine.connect() as connection:
        has_key = bool(settings.admin_key or valid_keys(connection))
    if not has_key:
        raise NotServableError(
            f"{reached}, and there is no API key: create one with prudent keys create NAME --role admin, "
            "or set PRUDENT_ADMIN_KEY, or listen on 127.0.0.1"
        )
