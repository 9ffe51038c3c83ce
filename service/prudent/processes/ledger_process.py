"""The process that has the ledger, and serves it to the processes that speak HTTP."""

import asyncio
import signal
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

import structlog
from uvicorn.loops.auto import auto_loop_factory

from prudent.clock import steady_clock
from prudent.errors import CommandError, UnavailableError
from prudent.ledger.ledger import Ledger
from prudent.ledger.outcomes import Failed
from prudent.observability import logs
from prudent.observability.metrics import Metrics
from prudent.processes.remote_ledger import Answer, Condition, Question
from prudent.processes.runtime import tuned
from prudent.processes.wire import Wire
from prudent.settings import Settings, read_settings
from prudent.store.engines import create_read_engine, create_write_engine, parse_database_url

logger = structlog.get_logger(__name__)

CONDITION_SECONDS = 0.2
"""Between two looks at how the ledger is."""
HEARTBEATS = 5
"""After so many looks it is said again, though nothing has changed."""


class Front:
    """A process that speaks HTTP, as the ledger's sees it."""

    def __init__(self, ledger: Ledger, fronts: set["Front"]) -> None:
        self._ledger, self._fronts = ledger, fronts
        self.wire = Wire(self._receive, lambda: fronts.discard(self))
        fronts.add(self)

    def _receive(self, questions: list[Question]) -> None:
        futures = self._ledger.enqueue_together([question.commands for question in questions])
        for question, future in zip(questions, futures, strict=True):
            future.add_done_callback(partial(self._answer, question.number))

    def _answer(self, number: int, future: asyncio.Future[list[Any]]) -> None:
        error = cast("UnavailableError | None", future.exception())
        outcomes = [_portable(one) for one in future.result()] if error is None else error
        self.wire.send(Answer(number, outcomes))


def _portable(outcome: Any) -> Any:
    """The outcome, with a word in place of an error that is not ours, and may not survive a pickle."""
    if isinstance(outcome, Failed) and not isinstance(outcome.error, CommandError | UnavailableError):
        return Failed(RuntimeError(f"{type(outcome.error).__name__} in the ledger's process, whose log has it"))
    return outcome


async def _serve(settings: Settings, path: Path, metrics: Metrics, control: Connection) -> None:
    url, loop = parse_database_url(settings.database_url), asyncio.get_running_loop()
    write, read = create_write_engine(url), create_read_engine(url)
    ledger = Ledger(write, read, limits=settings.limits, metrics=metrics, clock=steady_clock())
    fronts: set[Front] = set()
    stopping = asyncio.Event()
    loop.add_reader(control.fileno(), stopping.set)
    with tuned():
        ledger.start()
        path.unlink(missing_ok=True)
        server = await loop.create_unix_server(lambda: Front(ledger, fronts).wire, str(path))
        control.send(True)
        told = asyncio.create_task(_tell_condition(ledger, fronts))
        await stopping.wait()
        loop.remove_reader(control.fileno())
        told.cancel()
        await loop.run_in_executor(None, ledger.stop)  # meanwhile the fronts get their answers
        await asyncio.sleep(0)
        server.close()
        write.dispose()
        read.dispose()


async def _tell_condition(ledger: Ledger, fronts: set[Front]) -> None:
    said, looks = Condition(None, None), 0
    while True:
        condition = Condition(ledger.fault, ledger.remark)
        if condition != said or looks % HEARTBEATS == 0:
            for front in fronts:
                front.wire.send(condition)
        said, looks = condition, looks + 1
        await asyncio.sleep(CONDITION_SECONDS)


def run(path: Path, metrics_folder: Path, control: Connection) -> None:
    """Serve the ledger on this socket until `control` is closed at its other end, also by the end of the parent.

    It is sent True once the ledger can be reached. Signals that reach the whole group are left to the parent, so that
    the processes that speak HTTP stop before the ledger does. Settings come from the environment.
    """
    for kind in (signal.SIGINT, signal.SIGTERM):
        signal.signal(kind, signal.SIG_IGN)
    settings = read_settings()
    logs.configure(settings.log_level)
    with asyncio.Runner(loop_factory=auto_loop_factory()) as runner:
        runner.run(_serve(settings, path, Metrics(metrics_folder), control))
