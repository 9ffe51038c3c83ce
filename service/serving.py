"""Checks before serving: a known schema, a durable database, one server a SQLite file."""

import fcntl
import os
from pathlib import Path
from typing import IO

from sqlalchemy import Connection, Engine, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from service.settings import Settings
from service.store.engines import create_write_engine, parse_database_url
from service.store.schema import current_revision, latest_revision, migrate

QUICK_CHECK_BYTES_MAX = 2**30
"""A larger SQLite file is not read through at the start; prudent verify reads all of it."""


class NotServableError(RuntimeError):
    """Why the service refuses to start, and what to do."""


def prepare(settings: Settings) -> IO[str] | None:
    """Check the database, and migrate an empty SQLite file; the lock to hold while serving, if there is one.

    Raises NotServableError, UnknownRevisionError or UnsupportedDatabaseError.
    """
    url = parse_database_url(settings.database_url)
    lock = _lock_file(url, settings.workers) if url.get_backend_name() == "sqlite" else None
    engine = create_write_engine(url)
    try:
        _check(engine, is_sqlite=lock is not None)
    except SQLAlchemyError as error:
        raise NotServableError(f"the database does not answer: {error.__cause__ or error}") from error
    finally:
        engine.dispose()
    return lock


def _lock_file(url: URL, workers: int) -> IO[str]:
    if workers > 1:
        raise NotServableError("SQLite takes one worker: use Postgres for more")
    path = Path(url.database or "")
    if not path.parent.is_dir():
        raise NotServableError(f"the folder {path.parent} does not exist")
    lock = Path(f"{path}.lock").open("a+")  # noqa: SIM115  # held while serving
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise NotServableError(f"another server is using {path}: one server a SQLite file") from None
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    return lock


def _check_pages(connection: Connection) -> None:
    """Refuse a damaged file, as far as a short look can tell."""
    size = connection.exec_driver_sql("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
    if size.scalar_one() > QUICK_CHECK_BYTES_MAX:
        return
    found = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar_one()
    if found != "ok":
        raise NotServableError(f"the database file is damaged, restore a backup: {found}")


def _check_durable(connection: Connection) -> None:
    for setting in ("fsync", "synchronous_commit"):
        if connection.execute(text(f"SHOW {setting}")).scalar_one() == "off":
            raise NotServableError(f"Postgres runs with {setting}=off: what it acknowledges is not durable")


def _check(engine: Engine, *, is_sqlite: bool) -> None:
    with engine.connect() as connection:
        revision = current_revision(connection)
        if is_sqlite:
            _check_pages(connection)
        else:
            _check_durable(connection)
    if revision == latest_revision():
        return
    if revision is None and is_sqlite:
        migrate(engine)
        return
    raise NotServableError(
        f"the database's schema is at revision {revision or 'none'}, needed is {latest_revision()}: run prudent migrate"
    )
