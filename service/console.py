"""What the commands share: where they print, the options that name a database or a server, and how they fail."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import httpx
import typer
from rich.console import Console
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from service.campaigns.values import ID_PATTERN
from service.serving import NotServableError, check_schema
from service.settings import API_KEY_VARIABLE, InvalidSettingError, Settings, read_settings
from service.store.engines import (
    UnsupportedDatabaseError,
    create_read_engine,
    create_write_engine,
    parse_database_url,
)
from service.store.schema import UnknownRevisionError, check_revision

console = Console()
SERVER_SECONDS_MAX = 60.0
"""For one answer of a server."""

DatabaseUrl = Annotated[
    str | None,
    typer.Option(help="sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME; default PRUDENT_DATABASE_URL."),
]
ServerUrl = Annotated[
    str | None,
    typer.Option("--url", help="Ask this server, for example http://127.0.0.1:8000, and not the database."),
]
ApiKey = Annotated[str | None, typer.Option(envvar=API_KEY_VARIABLE, help="A key for --url.")]


def settings_or_fail() -> Settings:
    """The settings of the environment; ends the program if one of them is wrong."""
    try:
        return read_settings()
    except InvalidSettingError as error:
        fail(str(error))


def fail(message: str) -> NoReturn:
    """End the program with one line about what is wrong."""
    Console(stderr=True).print(f"prudent: {message}", style="bold red", markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(1)


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


@contextmanager
def opened_server(url: str, api_key: str | None) -> Iterator[httpx.Client]:
    """A client of a server; ends the program, in one line, where it cannot be reached."""
    headers = {} if api_key is None else {"X-API-Key": api_key}
    try:
        with httpx.Client(base_url=url, headers=headers, timeout=SERVER_SECONDS_MAX) as client:
            yield client
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        fail(f"the server does not answer: {error}")


def checked_id(campaign_id: str) -> str:
    """A campaign's id, which becomes part of an address; ends the program for what cannot be one."""
    if not re.fullmatch(ID_PATTERN, campaign_id) or campaign_id in {".", ".."}:
        fail("an id has 1 to 128 letters, digits and . _ ~ -")
    return campaign_id


def refuse_both(database_url: str | None, url: str | None) -> None:
    """End the program where both a database and a server are named."""
    if database_url is not None and url is not None:
        fail("give --database-url or --url, not both")


def refuse_problem(reply: httpx.Response) -> None:
    """End the program with what the server says is wrong."""
    if reply.is_success:
        return
    reply.read()
    try:
        detail = reply.json()["detail"]
    except (ValueError, KeyError, TypeError):
        detail = "this is not how Prudent answers"
    fail(f"the server answered {reply.status_code}: {detail}")
