"""The command line's part that moves campaigns: export and import, on a database or through a server."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated

import orjson
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from service.api.bodies import NDJSON
from service.console import (
    ApiKey,
    DatabaseUrl,
    ServerUrl,
    checked_id,
    console,
    fail,
    opened_database,
    opened_server,
    refuse_both,
    refuse_problem,
    settings_or_fail,
)
from service.ledger.administration import CampaignRecord, administer
from service.ledger.errors import CommandError, UnavailableError
from service.ledger.failures import Failure, classify
from service.ledger.import_steps import GiveUpImport, Import
from service.store.campaigns import read_clock
from service.transfer.exporting import begin_export
from service.transfer.reading import ImportReader

PIECE_BYTES = 2**18
ATTEMPTS_MAX = 5
"""At a step, while others hold the database."""
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
    refuse_both(database_url, url)
    with _writing(output) as file, _progress() as progress:
        if url is not None:
            _export_from_server(url, api_key, campaign, file, progress)
        else:
            with opened_database(database_url, read_only=True) as engine:
                _export_from_database(engine, campaign, file, progress)


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
    refuse_both(database_url, url)
    with _reading(file) as (source, size), _progress() as progress:
        pieces = _pieces(source, size, progress)
        if url is not None:
            with opened_server(url, api_key) as client:
                reply = client.post("/import", content=pieces, headers={"Content-Type": NDJSON}, timeout=None)
            refuse_problem(reply)
            campaign_id, observations = reply.json()["campaign_id"], reply.json()["observations"]
        else:
            with opened_database(database_url) as engine:
                record = _import_into_database(engine, pieces)
            campaign_id, observations = record.row.campaign_id, record.row.head
    console.print(f"imported {campaign_id}: {observations} observations", markup=False, highlight=False)


def _export_from_database(engine: Engine, campaign: str, file: IO[bytes], progress: Progress) -> None:
    with engine.connect() as connection:
        export = begin_export(connection, campaign, _wall_clock)
    if export is None:
        fail("there is no such campaign: see prudent campaigns list")
    task = progress.add_task("exporting", total=export.rows)
    while True:
        try:
            with engine.connect() as connection:
                page = export.next_page(connection)
        except UnavailableError as error:
            fail(error.message)
        if page is None:
            return
        file.write(page)
        progress.update(task, completed=export.rows_written)


def _export_from_server(url: str, api_key: str | None, campaign: str, file: IO[bytes], progress: Progress) -> None:
    task = progress.add_task("exporting", total=None)
    last = b""
    with (
        opened_server(url, api_key) as client,
        client.stream("GET", f"/campaigns/{checked_id(campaign)}/export") as reply,
    ):
        refuse_problem(reply)
        for line in _whole_lines(reply.iter_bytes()):
            if not last:
                header = orjson.loads(line)
                progress.update(task, total=header["head"] + header["decisions"] + header["arms"])
            file.write(line)
            progress.advance(task)
            last = line
    if not last.startswith(b'{"kind":"trailer"'):
        fail("the export broke off: start it again")


def _import_into_database(engine: Engine, pieces: Iterator[bytes]) -> CampaignRecord:
    reader = ImportReader(settings_or_fail().limits.body_bytes_max)
    record = None
    try:
        for piece in pieces:
            for step in reader.feed(piece):
                reader.key = _take(engine, step).row.key
        for step in reader.close():
            record = _take(engine, step)
    except CommandError as error:
        _give_up(engine, reader.key)
        fail(error.message if error.field is None else f"{error.field}: {error.message}")
    except BaseException:
        _give_up(engine, reader.key)
        raise
    assert record is not None  # noqa: S101  # close() ends with a step, or raises
    return record


def _take(engine: Engine, step: Import) -> CampaignRecord:
    """One step, repeated while others hold the database; then a pause as long as it took, in which they get it."""
    for attempt in range(1, ATTEMPTS_MAX + 1):
        started = time.monotonic()
        try:
            with engine.begin() as connection:
                record = administer(connection, step, read_clock(connection) or _wall_clock())
        except SQLAlchemyError as error:
            if attempt == ATTEMPTS_MAX or classify(error) is Failure.DEFECT:
                raise
        else:
            assert record is not None  # noqa: S101  # only giving up has none
            return record
        finally:
            time.sleep(time.monotonic() - started)
    raise AssertionError  # the last attempt returns or raises


def _give_up(engine: Engine, key: int) -> None:
    if key:
        with engine.begin() as connection:
            administer(connection, GiveUpImport(key), _wall_clock())


def _wall_clock() -> int:
    return time.time_ns() // 1_000


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


def _whole_lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).splitlines(keepends=True) or [b""]
        if rest.endswith(b"\n"):
            whole, rest = [*whole, rest], b""
        yield from whole
    if rest:
        yield rest


def _progress() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
