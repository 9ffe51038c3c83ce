"""A process that plays cells, one after the other, on a server of its own for each or on one that is there.

A fresh database for every cell keeps the disk small, and its index of decisions grows at one end only, which is fast.
"""

import resource
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Literal, NoReturn

from prudent_client import ClientError
from prudent_simulator.client import Client
from prudent_simulator.paper.cells import Archive, Cell, CellResult, Costs, PaperError
from prudent_simulator.processes import ServerStartError
from prudent_simulator.runner import RunError, RunResult, run
from prudent_simulator.server import database_bytes, sqlite_server

SERVER_FOLDER_PREFIX = ".server-"
_REPORT_SECONDS = 0.25


@dataclass(frozen=True)
class Target:
    """Where to play: on the service at this address, or (None) on servers of our own."""

    url: str | None = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Message:
    """From a worker: progress (pairs since the last message), done, or failed (why)."""

    kind: Literal["progress", "done", "failed"]
    pairs: int = 0
    reason: str = ""


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def play(cell: Cell, target: Target, folder: Path, on_pairs: Callable[[int], None]) -> CellResult:
    """Play a cell and return its outcome; databases of servers of our own live in the folder, and are deleted."""
    server_before, client_before = _children_seconds(), time.process_time()
    size = None
    if target.url is not None:
        result = _run(cell, target.url, target.headers, on_pairs, keep=False)
    else:
        with (
            tempfile.TemporaryDirectory(prefix=SERVER_FOLDER_PREFIX, dir=folder) as name,
            sqlite_server(Path(name)) as url,
        ):
            result = _run(cell, url, {}, on_pairs, keep=True)
            size = database_bytes(Path(name))
    timings = result.timings
    costs = Costs(
        total_seconds=timings.total_seconds,
        select_seconds=timings.select_seconds,
        reward_seconds=timings.reward_seconds,
        client_cpu_seconds=time.process_time() - client_before,
        server_cpu_seconds=_children_seconds() - server_before if target.url is None else None,
        database_bytes=size,
    )
    return CellResult.of(cell, result, costs)


def _run(cell: Cell, url: str, headers: dict[str, str], on_pairs: Callable[[int], None], *, keep: bool) -> RunResult:
    with Client(url, headers=headers) as client:
        return run(
            client,
            cell.plan(),
            clock=time.perf_counter,
            on_round=lambda done: on_pairs(done * cell.count),
            keep=keep,
        )


def _interrupt(signum: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 - the signature of a handler
    raise KeyboardInterrupt


class _Reporter:
    """Tells how many pairs are done, a few times a second; fails, and so ends the worker, if nobody listens."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._told, self._at = 0, time.monotonic()

    def __call__(self, pairs: int) -> None:
        now = time.monotonic()
        if now - self._at >= _REPORT_SECONDS:
            self._connection.send(Message("progress", pairs=pairs - self._told))
            self._told, self._at = pairs, now

    def done(self, pairs: int) -> None:
        self._connection.send(Message("done", pairs=pairs - self._told))


def work(connection: Connection, directory: Path, target: Target) -> None:
    """Play the cells that come through the connection until it is closed or SIGTERM comes.

    Ctrl-C reaches every process of the terminal; it is the parent that decides then, so it is ignored here.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _interrupt)
    archive = Archive(directory)
    try:
        while True:
            cell: Cell = connection.recv()
            reporter = _Reporter(connection)
            archive.save(cell, play(cell, target, directory, reporter))
            reporter.done(cell.pairs)
    except (EOFError, BrokenPipeError, ConnectionResetError, KeyboardInterrupt):
        return  # the parent has closed the connection, is gone, or asked us to stop
    except (ClientError, RunError, ServerStartError, PaperError, OSError) as error:
        with suppress(OSError):  # the parent may have stopped listening because another worker failed
            connection.send(Message("failed", reason=str(error)))
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a signal while the interpreter ends would print a traceback
