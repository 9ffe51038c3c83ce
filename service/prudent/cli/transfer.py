"""Commands that move campaigns: export and import, on a database or through a server."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from prudent.cli.console import ApiKey, DatabaseUrl, ServerUrl, console, fail, refuse_both

PIECE_BYTES = 2**18
CAMPAIGN = typer.Argument(metavar="CAMPAIGN", help="The campaign's id.")
STANDARD = "-"


def export_command(
    campaign: Annotated[str, CAMPAIGN],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Write to this file, which appears once it is complete; default standard output."
        ),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="csv, ndjson, parquet or dsjson (of Vowpal Wabbit): one row per decision, with its features and its "
            "reward, which cannot be imported.",
        ),
    ] = None,
    database_url: DatabaseUrl = None,
    url: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Write a campaign with its log and its decisions to a file (NDJSON), or its decisions as a table.

    The file holds the campaign as it is when the export begins. Export only reads: servers may be running on the
    database. With --url it needs a reader's key.
    """
    from prudent.cli.moving import checked_format, export_from_database, export_from_server

    refuse_both(database_url, url)
    chosen = None if form is None else checked_format(form)
    with _writing(output) as file, progress_bar() as progress:
        if url is not None:
            export_from_server(url, api_key, campaign, file, progress, chosen)
        else:
            export_from_database(database_url, campaign, file, progress, chosen)


def import_command(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A file written by prudent export; - for standard input.")
    ],
    database_url: DatabaseUrl = None,
    url: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Import an exported campaign under its own id, which must be free: all of it or, if a line is invalid, nothing.

    The file may be of any size; with --url at most the server's PRUDENT_IMPORT_BODY_BYTES_MAX, and with an admin's key.
    Servers may be running on the database: rows are written in short transactions with pauses in between, and the
    campaign becomes visible with the last one. An interrupted import leaves nothing visible and can be started again; a
    server removes its rows.
    """
    from prudent.cli.moving import import_into_database, import_into_server

    refuse_both(database_url, url)
    with opened_file(file) as (source, size), progress_bar() as progress:
        pieces = _pieces(source, size, progress)
        if url is not None:
            campaign_id, head = import_into_server(url, api_key, pieces)
        else:
            campaign_id, head = import_into_database(database_url, pieces)
    console.print(f"imported {campaign_id}: {head} observations", markup=False, highlight=False)


@contextmanager
def _writing(output: Path | None) -> Iterator[IO[bytes]]:
    """The file, which gets its name once it is complete; or standard output."""
    if output is None or str(output) == STANDARD:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    part = output.with_name(f"{output.name}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(output)
    except OSError as error:
        fail(f"cannot write {output}: {error.strerror}")
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def opened_file(file: str) -> Iterator[tuple[IO[bytes], int | None]]:
    """The file, and its size in bytes if that is known."""
    if file == STANDARD:
        yield sys.stdin.buffer, None
        return
    try:
        with Path(file).open("rb") as source:
            yield source, Path(file).stat().st_size
    except OSError as error:
        fail(f"cannot read {file}: {error.strerror}")


def _pieces(source: IO[bytes], size: int | None, progress: Progress) -> Iterator[bytes]:
    task = progress.add_task("importing", total=size)
    while piece := source.read(PIECE_BYTES):
        yield piece
        progress.advance(task, len(piece))


def progress_bar() -> Progress:
    """Give a bar on standard error."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
