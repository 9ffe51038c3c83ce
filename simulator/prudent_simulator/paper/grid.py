"""Runs the cells of a grid on several worker processes."""

import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from prudent_simulator.paper.cells import Archive, Cell, PaperError
from prudent_simulator.paper.worker import SERVER_FOLDER_PREFIX, Message, Target, work

_STOP_SECONDS_MAX = 20.0


@dataclass
class _Worker:
    process: SpawnProcess
    connection: Connection
    cell: Cell | None = None


def _start(archive: Archive, target: Target) -> _Worker:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=work, args=(theirs, archive.directory, target), daemon=True)
    # A new process must not die of a Ctrl-C before it ignores them itself.
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process.start()
    finally:
        signal.signal(signal.SIGINT, previous)
    theirs.close()
    return _Worker(process, ours)


def _stop(workers: Sequence[_Worker]) -> None:
    """End the workers, and with them their servers."""
    for worker in workers:
        worker.connection.close()
        if worker.process.is_alive():
            worker.process.terminate()
    for worker in workers:
        worker.process.join(_STOP_SECONDS_MAX)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()


@contextmanager
def _workers(archive: Archive, target: Target, count: int) -> Iterator[list[_Worker]]:
    workers: list[_Worker] = []
    try:
        for _ in range(count):
            workers.append(_start(archive, target))  # noqa: PERF401 - those started must be known if one fails
        yield workers
    finally:
        _stop(workers)


def _receive(worker: _Worker) -> Message:
    try:
        message: Message = worker.connection.recv()
    except (EOFError, ConnectionResetError):
        worker.process.join(_STOP_SECONDS_MAX)
        name = worker.cell.name if worker.cell else "no cell"
        raise PaperError(f"a worker ended with status {worker.process.exitcode} at {name}") from None
    if message.kind == "failed":
        raise PaperError(f"{worker.cell.name if worker.cell else 'a worker'}: {message.reason}")
    return message


def run_cells(
    archive: Archive,
    cells: Sequence[Cell],
    target: Target,
    workers: int,
    on_progress: Callable[[int, Cell | None], None],
) -> None:
    """Play cells until all are done.

    workers: how many processes, each with a server of its own where the target has no address. on_progress: told of
    pairs that were played, and of the cell where that finished it. Raises PaperError when a worker fails; whatever
    ends it, also KeyboardInterrupt, ends all workers and servers.
    """
    for left in archive.directory.glob(f"{SERVER_FOLDER_PREFIX}*"):
        shutil.rmtree(left)  # of a run that was killed
    waiting = list(cells)
    with _workers(archive, target, min(workers, len(cells))) as started:
        by_connection = {worker.connection: worker for worker in started}
        for worker in started:
            worker.cell = waiting.pop(0)
            worker.connection.send(worker.cell)
        while any(worker.cell for worker in started):
            for ready in wait([worker.connection for worker in started if worker.cell]):
                worker = by_connection[ready]  # type: ignore[index] # only connections are waited for
                message = _receive(worker)
                finished = worker.cell if message.kind == "done" else None
                on_progress(message.pairs, finished)
                if finished is not None:
                    worker.cell = waiting.pop(0) if waiting else None
                    if worker.cell is not None:
                        worker.connection.send(worker.cell)
