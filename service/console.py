"""What the commands share: where they print, the option that names the database, and how they fail."""

from typing import Annotated, NoReturn

import typer
from rich.console import Console

from service.settings import InvalidSettingError, Settings, read_settings

console = Console()

DatabaseUrl = Annotated[
    str | None,
    typer.Option(help="sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME; default PRUDENT_DATABASE_URL."),
]


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
