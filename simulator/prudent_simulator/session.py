"""What the commands have in common: where they print, the client, and the progress bar."""

import math
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from prudent_simulator.client import Client
from prudent_simulator.server import Database, own_server


def load_key_file() -> None:
    """Take the service's key from the file that PRUDENT_API_KEY_FILE names, unless PRUDENT_API_KEY is set.

    Raises OSError where it cannot be read.
    """
    path = os.environ.get("PRUDENT_API_KEY_FILE")
    if path and not os.environ.get("PRUDENT_API_KEY"):
        try:
            os.environ["PRUDENT_API_KEY"] = Path(path).read_text(encoding="utf-8").strip()
        except UnicodeDecodeError as error:
            raise OSError(f"PRUDENT_API_KEY_FILE names {path}, which is not UTF-8 text") from error


@contextmanager
def _service(url: str | None, server: Database | None) -> Iterator[str]:
    if url is not None:
        yield url
    elif server is not None:
        with own_server(server) as address:
            yield address


@contextmanager
def open_client(url: str | None, server: Database | None, api_key: str | None) -> Iterator[Client]:
    """Connect to the service at a URL, or to one of our own that is started for it; it is ready for work."""
    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
    with _service(url, server) as address, Client(address, headers=headers) as client:
        client.health()
        yield client


def output_console() -> Console:
    """Give standard output as it prints names of users' own: as they are, whatever brackets and colons they have."""
    return Console(markup=False, emoji=False)


def finite(value: float | None) -> float | None:
    """An option's number. Raises typer.BadParameter for nan and inf, which JSON would say as null: as not given."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"must be a finite number, not {value}")
    return value


def progress_bar() -> Progress:
    """Give a bar on standard error with counts, time elapsed and time left."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=Console(stderr=True))


def run_id_of(given: str | None, stem: str, server: Database | None) -> str:
    """Choose a run id: fixed on a fresh database, so that the run repeats; random where others may be at work."""
    if given is not None:
        return given
    return stem if server is not None else f"{stem}.{secrets.token_hex(4)}"
