"""Checks before serving: a known schema, a durable database, one server per SQLite file, no access without keys."""

import fcntl
import ipaddress
import os
import resource
from pathlib import Path
from typing import IO

from sqlalchemy import Connection, Engine, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from prudent.settings import Settings
from prudent.store.engines import create_write_engine, parse_database_url
from prudent.store.keys import valid_keys
from prudent.store.schema import current_revision, latest_revision, migrate

FILES_BESIDES_CONNECTIONS = 256
QUICK_CHECK_BYTES_MAX = 2**30
"""A larger SQLite file is not checked at the start; prudent verify reads all of it."""


class NotServableError(RuntimeError):
    """Why the service refuses to start, and what to do."""


def prepare(settings: Settings) -> IO[str] | None:
    """Check the database, and create the schema of an empty SQLite file; returns the lock to hold while serving.

    Raises NotServableError, UnknownRevisionError or UnsupportedDatabaseError.
    """
    _allow_files(settings.limits.connections_max + FILES_BESIDES_CONNECTIONS)
    url = parse_database_url(settings.database_url)
    lock = _lock_file(url, settings.workers) if url.get_backend_name() == "sqlite" else None
    engine = create_write_engine(url)
    try:
        _check_durability(engine)
        _check_schema(engine)
        _check_access(settings, engine)
    except SQLAlchemyError as error:
        raise NotServableError(f"the database does not answer: {error.__cause__ or error}") from error
    finally:
        engine.dispose()
    return lock


def _lock_file(url: URL, workers: int) -> IO[str]:
    if workers > 1:
        raise NotServableError("SQLite supports only one worker: use PostgreSQL for more")
    path = Path(url.database or "")
    if not path.parent.is_dir():
        raise NotServableError(
            f"the folder {path.parent.absolute()} of the database does not exist: create it, or choose another database"
        )
    lock = Path(f"{path}.lock").open("a+")  # noqa: SIM115  # held while serving
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise NotServableError(f"another server is using {path}: only one server can use a SQLite file") from None
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    return lock


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
    found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
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
        for setting in ("fsync", "synchronous_commit"):
            if connection.execute(text(f"SHOW {setting}")).scalar_one() == "off":
                raise NotServableError(f"PostgreSQL runs with {setting}=off, so commits may be lost: turn it on")


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
