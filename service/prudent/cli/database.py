"""The database that a command of the command line works on."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from prudent.cli.console import fail, settings_or_fail
from prudent.preflight import NotServableError, check_schema
from prudent.store.engines import (
    UnsupportedDatabaseError,
    create_read_engine,
    create_write_engine,
    parse_database_url,
)
from prudent.store.schema import UnknownRevisionError, check_revision


@contextmanager
def opened_database(database_url: str | None, *, read_only: bool = False) -> Iterator[Engine]:
    """An engine on a database with this version's schema; ends the program, in one line, if there is none.

    An empty SQLite file is migrated, unless it is only to be read.
    """
    settings = settings_or_fail()
    try:
        url = parse_database_url(database_url or settings.database_url)
        if read_only and url.get_backend_name() == "sqlite" and not Path(url.database or "").is_file():
            fail(f"there is no file {url.database}")  # SQLite would make one
        engine = create_read_engine(url) if read_only else create_write_engine(url)
        try:
            if read_only:
                with engine.connect() as connection:
                    check_revision(connection)
            else:
                check_schema(engine)
            yield engine
        finally:
            engine.dispose()
    except (NotServableError, UnknownRevisionError, UnsupportedDatabaseError) as error:
        fail(str(error))
    except SQLAlchemyError as error:
        fail(f"the database does not answer: {error.__cause__ or error}")
