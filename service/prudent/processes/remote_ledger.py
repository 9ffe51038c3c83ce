"""The ledger as a process that speaks HTTP sees it: at the other end of a socket."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count, takewhile
from pathlib import Path
from typing import Any, NamedTuple

import structlog

from prudent.errors import DatabaseUnavailableError, OverloadedError, UnavailableError, UnknownOutcomeError
from prudent.ledger.access import LedgerAccess
from prudent.ledger.administration import Administration
from prudent.ledger.commands import Command
from prudent.ledger.trail import Authored
from prudent.observability.metrics import Metrics
from prudent.processes.wire import Wire
from prudent.settings import Limits

logger = structlog.get_logger(__name__)

RECONNECT_SECONDS = 0.05
SWEEP_SECONDS = 0.5
"""Between two looks for commands that have waited too long."""
SILENCE_SECONDS_MAX = 5.0
"""The ledger's process says every second how it is."""


class Question(NamedTuple):
    """What is sent to the ledger's process. number: of one connection's questions, to tell the answers apart."""

    number: int
    commands: Sequence[Command | Administration | Authored]


class Answer(NamedTuple):
    """What comes back. outcomes: of the commands, in their order, or why there are none."""

    number: int
    outcomes: list[Any] | UnavailableError


class Condition(NamedTuple):
    """How the ledger's process is; see `LedgerAccess`."""

    fault: str | None
    remark: str | None


class _Waiting(NamedTuple):
    """Who waits for a request's outcomes, of so many commands, and until when."""

    future: asyncio.Future[list[Any]]
    commands: int
    until: float


class RemoteLedger(LedgerAccess):
    """Connects again whenever the ledger's process was started anew."""

    def __init__(self, path: Path, *, limits: Limits, metrics: Metrics) -> None:
        self._path, self._limits, self._metrics = path, limits, metrics
        for reason in ("overloaded", "late"):
            metrics.unavailable.labels(reason)  # Prometheus misses the increase with which a counter first appears
        self._numbers = count()
        self._waiting: dict[int, _Waiting] = {}
        """By number, which is by age."""
        self._wire: Wire | None = None
        self._condition, self._heard = Condition(None, None), 0.0

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Within it this end stays connected. Raises TimeoutError if the other one does not answer at the beginning."""
        connected = asyncio.Event()
        tasks = [asyncio.create_task(self._stay_connected(connected)), asyncio.create_task(self._sweep())]
        try:
            async with asyncio.timeout(self._limits.answer_seconds_max):
                await connected.wait()
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def fault(self) -> str | None:
        """As the ledger's process last said, unless it is silent."""
        if self._wire is None:
            return "the ledger's process has ended, and is being started again"
        if time.monotonic() - self._heard > SILENCE_SECONDS_MAX:
            return "the ledger's process does not answer"
        return self._condition.fault

    @property
    def remark(self) -> str | None:
        """As the ledger's process last said."""
        return self._condition.remark

    def enqueue(self, commands: Sequence[Command | Administration | Authored]) -> asyncio.Future[list[Any]]:
        """The commands' outcomes in their order, once they are committed. It fails with UnavailableError."""
        future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        wire = self._wire
        if wire is None:
            future.set_exception(DatabaseUnavailableError("the service is starting or stopping: try again"))
        elif wire.unsent_bytes > self._limits.queue_bytes_max:
            self._metrics.unavailable.labels("overloaded").inc(len(commands))
            future.set_exception(OverloadedError("too many requests are waiting: try again"))
        else:
            number = next(self._numbers)
            until = time.monotonic() + self._limits.answer_seconds_max
            self._waiting[number] = _Waiting(future, len(commands), until)
            wire.send(Question(number, commands))
        return future

    def _receive(self, messages: list[Answer | Condition]) -> None:
        for message in messages:
            if isinstance(message, Condition):
                self._condition, self._heard = message, time.monotonic()
                continue
            waiting = self._waiting.pop(message.number, None)
            if waiting is None or waiting.future.done():
                continue
            if isinstance(message.outcomes, UnavailableError):
                waiting.future.set_exception(message.outcomes)
            else:
                waiting.future.set_result(message.outcomes)

    async def _stay_connected(self, connected: asyncio.Event) -> None:
        loop = asyncio.get_running_loop()
        while True:
            gone = asyncio.Event()
            try:
                transport, wire = await loop.create_unix_connection(
                    lambda gone=gone: Wire(self._receive, gone.set),  # type: ignore[misc]  # mypy does not see the default
                    str(self._path),
                )
            except OSError:
                await asyncio.sleep(RECONNECT_SECONDS)
                continue
            self._wire, self._heard = wire, time.monotonic()
            connected.set()
            try:
                await gone.wait()
            finally:
                self._wire = None
                transport.close()
                self._give_up(len(self._waiting), "the ledger's process has ended")
            logger.error("the connection to the ledger's process is lost")

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            now = time.monotonic()
            late = takewhile(lambda waiting: waiting.until < now, self._waiting.values())  # noqa: B023  # used at once
            self._give_up(len(list(late)), "the outcome was not known in time")

    def _give_up(self, number: int, reason: str) -> None:
        """Tell the oldest so many that their outcome is unknown."""
        for key in list(self._waiting)[:number]:
            waiting = self._waiting.pop(key)
            if not waiting.future.done():
                self._metrics.unavailable.labels("late").inc(waiting.commands)
                waiting.future.set_exception(UnknownOutcomeError(f"{reason}: send the same request again"))
