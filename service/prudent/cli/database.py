"""The database that a command works on: found, named on standard error, and never created."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from prudent.cli.console import fail, inform, settings_or_fail
from prudent.store.engines import (
    UnsupportedDatabaseError,
    create_read_engine,
    create_write_engine,
    parse_database_url,
)
from prudent.store.partitions import PartitionsError
from prudent.store.schema import UnknownRevisionError, check_revision


def described(url: URL) -> str:
    """A database as messages name it: the absolute path of a SQLite file, or the URL without its password."""
    if url.get_backend_name() == "sqlite":
        return str(Path(url.database or "").absolute())
    return url.set(drivername="postgresql").render_as_string(hide_password=True)


@contextmanager
def reported_failures() -> Iterator[None]:
    """Ends the program with a one-line message where the database does not answer, or is not one of this version's."""
    try:
        yield
    except (UnknownRevisionError, UnsupportedDatabaseError, PartitionsError) as error:
        fail(str(error))
    except SQLAlchemyError as error:
        fail(f"the database does not answer: {error.__cause__ or error}")


@contextmanager
def opened_database(database_url: str | None, *, read_only: bool = False) -> Iterator[Engine]:
    """An engine on a database that has this version's schema; says on standard error which database it is.

    Ends the program with a one-line message if there is no such database: only `prudent serve` and `prudent migrate`
    create one.
    """
    settings = settings_or_fail()
    with reported_failures():
        url = parse_database_url(database_url or settings.database_url)
        _refuse_missing_file(url)
        inform(f"database: {described(url)}")
        engine = create_read_engine(url, may_be_standby=True) if read_only else create_write_engine(url)
        try:
            with engine.connect() as connection:
                check_revision(connection)
            yield engine
        finally:
            engine.dispose()


def _refuse_missing_file(url: URL) -> None:
    """SQLite would create the file, and the command would work on a database that nobody serves."""
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file():
        fail(
            f"no database at {described(url)}: start the server or run prudent migrate to create it, "
            "or name the database that is served, with --database-url or PRUDENT_DATABASE_URL"
        )
