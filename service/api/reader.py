"""Reads for GET routes: a small pool of threads on the read-only engine, apart from the ledger's thread."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from service.ledger.errors import DatabaseUnavailableError
from service.ledger.failures import Failure, classify
from service.store.engines import READERS_MAX

P = ParamSpec("P")
R = TypeVar("R")


class Reader:
    """Runs a function on a connection of its own, off the event loop."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._threads = ThreadPoolExecutor(READERS_MAX, thread_name_prefix="reader")

    async def __call__(self, read: Callable[Concatenate[Connection, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The function's result. Raises DatabaseUnavailableError."""

        def run() -> R:
            with self._engine.connect() as connection:
                return read(connection, *args, **kwargs)

        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, run)
        except SQLAlchemyError as error:
            if classify(error) is Failure.DEFECT:
                raise
            raise DatabaseUnavailableError("the database is not available: try again") from error

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown()
