"""What the commands share: where they print, the options that name a database or a server, and how they fail."""

import re
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from prudent.identifiers import ID_PATTERN
from prudent.settings import API_KEY_VARIABLE, InvalidSettingError, Settings, read_settings

console = Console()

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


def checked_id(campaign_id: str) -> str:
    """A campaign's id, which becomes part of an address; ends the program for what cannot be one."""
    if not re.fullmatch(ID_PATTERN, campaign_id) or campaign_id in {".", ".."}:
        fail("an id has 1 to 128 letters, digits and . _ ~ -")
    return campaign_id


def refuse_both(database_url: str | None, url: str | None) -> None:
    """End the program where both a database and a server are named."""
    if database_url is not None and url is not None:
        fail("give --database-url or --url, not both")
