"""What the commands share: where they print, the options that name a database or a server, and how they fail."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from prudent.environment import API_KEY_FILE_VARIABLE, API_KEY_VARIABLE, ENVIRONMENT_FILE_VARIABLE, PREFIX
from prudent.identifiers import is_id

if TYPE_CHECKING:
    from prudent.settings import Settings

_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class SafeConsole(Console):
    """Prints what others wrote without the characters by which a terminal is told what to do."""

    def render_str(self, text: str, **options: Any) -> Text:
        """As rich's own."""
        return super().render_str(_CONTROLS.sub("\ufffd", text), **options)


console = SafeConsole(markup=False, emoji=False)  # names and notes are printed as they are

DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        help="sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME; default PRUDENT_DATABASE_URL, "
        "from the environment or from .env, else sqlite:///prudent.db."
    ),
]
ServerUrl = Annotated[
    str | None,
    typer.Option("--url", help="Use this server, for example http://127.0.0.1:8000, instead of the database."),
]
ApiKey = Annotated[str | None, typer.Option(envvar=API_KEY_VARIABLE, help="API key for --url.")]


def load_environment_file() -> None:
    """Take PRUDENT_* variables from .env in the current folder; variables that are already set win.

    `make run` writes the URL of the database it serves there. PRUDENT_ENV_FILE names another file; if it is empty, no
    file is read. Ends the program if the file that it names does not exist.
    """
    named = os.environ.get(ENVIRONMENT_FILE_VARIABLE)
    path = Path(".env" if named is None else named)
    if named == "" or (named is None and not path.is_file()):
        return
    if not path.is_file():
        fail(f"{ENVIRONMENT_FILE_VARIABLE} names the file {path}, which does not exist")
    from dotenv import dotenv_values

    try:
        values = dotenv_values(path, interpolate=False)
    except UnicodeDecodeError:
        fail(f"{path} is not UTF-8 text")
    for name, value in values.items():
        if name.startswith(PREFIX) and value is not None:
            os.environ.setdefault(name, value)


def load_key_file() -> None:
    """Take the API key for --url from the file that PRUDENT_API_KEY_FILE names, unless PRUDENT_API_KEY is set."""
    path = os.environ.get(API_KEY_FILE_VARIABLE)
    if path and not os.environ.get(API_KEY_VARIABLE):
        try:
            os.environ[API_KEY_VARIABLE] = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            fail(f"{API_KEY_FILE_VARIABLE} names {path}, which cannot be read")


def settings_or_fail(**given: Any) -> "Settings":
    """The settings of the environment, except what is given; ends the program if one of them is wrong."""
    from prudent.settings import InvalidSettingError, read_settings

    try:
        return read_settings(**given)
    except InvalidSettingError as error:
        fail(str(error))


def inform(message: str) -> None:
    """Print a line on standard error, which leaves standard output to results."""
    SafeConsole(stderr=True).print(message, markup=False, highlight=False, soft_wrap=True)


def fail(message: str) -> NoReturn:
    """End the program with a one-line error message and exit code 1."""
    errors = SafeConsole(stderr=True)
    errors.print(f"prudent: {message}", style="bold red", markup=False, highlight=False, soft_wrap=True)
    raise typer.Exit(1)


def checked_id(campaign_id: str) -> str:
    """A campaign's id, which becomes part of a URL; ends the program if it is not valid."""
    if not is_id(campaign_id) or campaign_id in {".", ".."}:
        fail(f"{campaign_id!r} is not a valid id: use 1 to 128 letters, digits and . _ ~ -")
    return campaign_id


def refuse_both(database_url: str | None, url: str | None) -> None:
    """End the program if both a database and a server are named."""
    if database_url is not None and url is not None:
        fail("give either --database-url or --url, not both")
