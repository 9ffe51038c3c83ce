"""The command line's part that moves campaigns: export and import, on a database or through a server."""

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
        typer.Option("--output", "-o", help="Write to this file, once all of it is there; default standard output."),
    ] = None,
    database_url: DatabaseUrl = None,
    url: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Write a campaign with its log and its decisions to a file (NDJSON): a header line, and a trailer at the end.

    It is the campaign as it is when the export begins; what is answered later is not in it. It only reads, and
    servers may be running on the database, of either kind. With --url it needs a reader's key.
    """
    from prudent.cli.moving import export_from_database, export_from_server

    refuse_both(database_url, url)
    with _writing(output) as file, _progress() as progress:
        if url is not None:
            export_from_server(url, api_key, campaign, file, progress)
        else:
            export_from_database(database_url, campaign, file, progress)


def import_command(
    file: Annotated[str, typer.Argument(metavar="FILE", help="What prudent export has written; - is standard input.")],
    database_url: DatabaseUrl = None,
    url: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Import an exported campaign under its own id, which must be free: all of it or, if a line is wrong, nothing.

    The file may be of any size; with --url it may have at most the server's PRUDENT_IMPORT_BODY_BYTES_MAX, and the key
    must be an admin's. Servers may be running on the database, a SQLite file's one server included: the rows are
    written in short transactions, with pauses, and nobody sees the campaign before the last one. An import that was
    interrupted leaves nothing that can be seen, and can simply be started again; a server removes its rows.
    """
    from prudent.cli.moving import import_into_database, import_into_server

    refuse_both(database_url, url)
    with _reading(file) as (source, size), _progress() as progress:
        pieces = _pieces(source, size, progress)
        if url is not None:
            campaign_id, head = import_into_server(url, api_key, pieces)
        else:
            campaign_id, head = import_into_database(database_url, pieces)
    console.print(f"imported {campaign_id}: {head} observations", markup=False, highlight=False)


@contextmanager
def _writing(output: Path | None) -> Iterator[IO[bytes]]:
    """The file, which has its name only once it is complete; or standard output."""
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
def _reading(file: str) -> Iterator[tuple[IO[bytes], int | None]]:
    """The file and its size in bytes, if that is known."""
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


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
