"""The work of prudent export and prudent import: pages read from a database or a server, and rows written to one."""

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import IO

import orjson
from rich.progress import Progress
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from prudent.cli.console import checked_id, fail, settings_or_fail
from prudent.cli.database import opened_database
from prudent.cli.server import opened_server, refuse_problem
from prudent.errors import CommandError, UnavailableError
from prudent.ledger.administration import CampaignRecord
from prudent.ledger.commands import ON_COMMAND_LINE
from prudent.ledger.importing import AbandonImport, Import
from prudent.ledger.trail import Authored, execute
from prudent.store.campaigns import read_clock
from prudent.store.failures import Failure, classify
from prudent.store.schema import analyse
from prudent.transfer.decision_table import FORMATS, DecisionTable, begin_table
from prudent.transfer.exporting import Export, begin_export
from prudent.transfer.lines import MEDIA_TYPE
from prudent.transfer.reading import ImportReader
from prudent.transfer.table_formats import TableFormat

ATTEMPTS_MAX = 5
"""Per step, while other writers hold the database."""


def checked_format(name: str) -> TableFormat:
    """The format of this name; ends the program if there is none."""
    known = {one: one for one in FORMATS}
    if name not in known:
        fail(f"--format: must be one of {', '.join(known)}, not {name!r}")
    return known[name]


def export_from_database(
    database_url: str | None, campaign: str, file: IO[bytes], progress: Progress, form: TableFormat | None = None
) -> None:
    """Write a campaign from a database, page by page, each in its own transaction. form: of a table of decisions."""
    with opened_database(database_url, read_only=True) as engine:
        try:
            with engine.connect() as connection:
                export: Export | DecisionTable | None
                if form is None:
                    export = begin_export(connection, campaign, _wall_clock)
                else:
                    export = begin_table(connection, campaign, _wall_clock, form)
        except CommandError as error:
            fail(f"--{error.field}: {error.message}")
        if export is None:
            fail(f"no such campaign: {campaign}; see prudent campaigns list")
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


def export_from_server(
    url: str, api_key: str | None, campaign: str, file: IO[bytes], progress: Progress, form: TableFormat | None = None
) -> None:
    """Write a campaign from a server; ends the program if its end is missing. form: of a table of decisions."""
    task = progress.add_task("exporting", total=None)
    last = b""
    parameters = {} if form is None else {"format": form}
    with (
        opened_server(url, api_key) as client,
        client.stream("GET", f"/campaigns/{checked_id(campaign)}/export", params=parameters) as reply,
    ):
        refuse_problem(reply)
        if form is not None:
            written = 0
            for piece in reply.iter_bytes():  # httpx raises if it was cut off
                written += file.write(piece)
                progress.update(task, completed=written)
            progress.update(task, total=written)
            return
        for line in _whole_lines(reply.iter_bytes()):
            if not last:
                header = orjson.loads(line)
                progress.update(task, total=header["head"] + header["decisions"] + header["arms"])
            file.write(line)
            progress.advance(task)
            last = line
    if not last.startswith(b'{"kind":"trailer"'):
        fail("the export was cut off before its end: start it again")


def import_into_server(url: str, api_key: str | None, pieces: Iterator[bytes]) -> tuple[str, int]:
    """Send a file to a server; returns the campaign's id and the length of its log."""
    with opened_server(url, api_key) as client:
        reply = client.post("/import", content=pieces, headers={"Content-Type": MEDIA_TYPE}, timeout=None)
    refuse_problem(reply)
    imported = reply.json()
    return imported["campaign_id"], imported["head"]


def import_into_database(database_url: str | None, pieces: Iterator[bytes]) -> tuple[str, int]:
    """Write a file's rows to a database; returns the campaign's id and the length of its log."""
    with opened_database(database_url) as engine:
        record = _import(engine, pieces)
        with suppress(SQLAlchemyError):  # all is there: the database looks at it by itself, only later
            analyse(engine)
    return record.row.campaign_id or "", record.row.head


def _import(engine: Engine, pieces: Iterator[bytes]) -> CampaignRecord:
    reader = ImportReader(settings_or_fail().limits.body_bytes_max)
    record = None
    try:
        for piece in pieces:
            for step in reader.feed(piece):
                reader.key = _take(engine, step).row.key
        for step in reader.close():
            record = _take(engine, step)
    except CommandError as error:
        _abandon(engine, reader.key)
        fail(error.message if error.field is None else f"{error.field}: {error.message}")
    except BaseException:
        _abandon(engine, reader.key)
        raise
    assert record is not None  # noqa: S101  # close() ends with a step, or raises
    return record


def _take(engine: Engine, step: Import) -> CampaignRecord:
    """Write one step, retried while other writers hold the database; then pause as long as it took, for them."""
    for attempt in range(1, ATTEMPTS_MAX + 1):
        started = time.monotonic()
        try:
            with engine.begin() as connection:
                record = execute(Authored(step, ON_COMMAND_LINE), connection, read_clock(connection) or _wall_clock())
        except SQLAlchemyError as error:
            if attempt == ATTEMPTS_MAX or classify(error) is Failure.DEFECT:
                raise
        else:
            assert isinstance(record, CampaignRecord)  # noqa: S101  # only abandoning has none
            return record
        finally:
            time.sleep(time.monotonic() - started)
    raise AssertionError  # the last attempt returns or raises


def _abandon(engine: Engine, key: int) -> None:
    if key:
        with engine.begin() as connection:
            execute(AbandonImport(key), connection, _wall_clock())


def _wall_clock() -> int:
    return time.time_ns() // 1_000


def _whole_lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).splitlines(keepends=True) or [b""]
        if rest.endswith(b"\n"):
            whole, rest = [*whole, rest], b""
        yield from whole
    if rest:
        yield rest
