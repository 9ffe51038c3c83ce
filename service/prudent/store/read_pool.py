"""A small pool of threads that read on the read-only engine, off the event loop and apart from the ledger."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from prudent.errors import DatabaseUnavailableError, OverloadedError
from prudent.store.engines import READERS_MAX
from prudent.store.failures import Failure, classify

Connect = Callable[[], AbstractContextManager[Connection]]
"""Opens a connection of the read engine."""
P = ParamSpec("P")
R = TypeVar("R")

LONG_READS_MAX = 16
"""Long reads that may run or wait for their turn; beyond that, 503."""


class Reader:
    """Runs functions that read the database, off the event loop.

    lag_seconds: how far behind what it reads was when last looked at; None where it is the database itself, or unknown.
    """

    lag_seconds: float | None = None

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._threads = ThreadPoolExecutor(READERS_MAX, thread_name_prefix="reader")
        self._long = ThreadPoolExecutor(1, thread_name_prefix="long-reader")
        self._long_reads = 0
        self._is_closing = False

    async def __call__(self, read: Callable[Concatenate[Connection, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The function's result, on a connection of its own. Raises DatabaseUnavailableError."""

        def run() -> R:
            with self._engine.connect() as connection:
                return read(connection, *args, **kwargs)

        return await self._run(self._threads, run)

    async def in_pages(
        self, read: Callable[Concatenate[Callable[[], Connection], P], R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """The result of a function that takes long and opens a connection for each of its pages.

        Long reads run one at a time on a thread of their own, so that short ones always find a thread and a connection.
        Raises DatabaseUnavailableError, and OverloadedError if too many are waiting.
        """
        if self._long_reads >= LONG_READS_MAX:
            raise OverloadedError("too many reports are in progress: try again")
        self._long_reads += 1
        try:
            return await self._run(self._long, lambda: read(self._connect, *args, **kwargs))
        finally:
            self._long_reads -= 1

    def _connect(self) -> Connection:
        if self._is_closing:
            raise DatabaseUnavailableError("the service is stopping: try again")
        return self._engine.connect()

    async def _run(self, threads: ThreadPoolExecutor, run: Callable[[], R]) -> R:
        try:
            return await asyncio.get_running_loop().run_in_executor(threads, run)
        except SQLAlchemyError as error:
            if classify(error) is Failure.DEFECT:
                raise
            raise DatabaseUnavailableError("the database is not available: try again") from error

    async def catch_up(self) -> None:
        """Wait until what this reads has what has been written: no time at all where it is the database itself."""

    def close(self) -> None:
        """End the threads; a long read ends at its next page."""
        self._is_closing = True
        self._long.shutdown(cancel_futures=True)
        self._threads.shutdown()
