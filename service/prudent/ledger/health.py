"""Whether a worker can record commands, as its readiness says it."""

import time
from collections.abc import Callable

import structlog
from sqlalchemy import Connection, Engine

from prudent.errors import DatabaseUnavailableError, LostFileError
from prudent.store.failures import check_writable, probe_writes
from prudent.store.statements import HeldConnection, check_file

logger = structlog.get_logger(__name__)

STALL_SECONDS = 5.0
"""If a batch takes longer, the worker reports that it is not ready."""


class Health:
    """What the ledger's thread knows. refused: why the last write was refused; wrote: whether one succeeded lately."""

    def __init__(self, write: Engine, held: HeldConnection) -> None:
        self._write, self._held = write, held
        self.refused: str | None = None
        self.wrote = False
        self.busy_since: float | None = None

    @property
    def fault(self) -> str | None:
        """Why commands cannot be recorded at the moment; None if nothing prevents it, as far as is known."""
        busy_since = self.busy_since
        if busy_since is not None and time.monotonic() - busy_since > STALL_SECONDS:
            return "a transaction has been running for too long"
        return self.refused

    def refuse(self, error: Exception) -> DatabaseUnavailableError:
        """The error for callers; readiness reports it until something is written again."""
        if isinstance(error, MemoryError):
            self.refused = "memory is exhausted"
            return DatabaseUnavailableError("memory is exhausted: try again")
        logger.warning("the database is not available", error=str(getattr(error, "orig", error)))
        self.refused = error.message if isinstance(error, LostFileError) else "the database refused to write"
        return DatabaseUnavailableError("the database is not available: try again")

    def probe(self) -> None:
        """Check whether rows can be written, where no request has shown it since the last time. About once a second.

        A worker that is not ready gets no requests, and one that gets none must not say that it is ready if it is not.
        """
        wrote, self.wrote = self.wrote, False
        if self.refused is None:
            obstacle = None if wrote and self._write.dialect.name != "sqlite" else self.find_obstacle()
            if obstacle is not None:
                self.refuse(obstacle)
            return
        error = self._attempt(probe_writes)
        if error is None:
            self.refused = None
            logger.info("the database is writable again")
        else:
            logger.warning("the database is still not writable", error=str(getattr(error, "orig", error)))

    def find_obstacle(self) -> Exception | None:
        """What would keep every command from being recorded, such as locked tables; None if nothing would.

        On SQLite it is only whether the file is still there: more would take the lock that others wait for.
        """
        if self._write.dialect.name != "sqlite":
            return self._attempt(check_writable)
        try:
            with self._held.use() as connection:
                check_file(connection)
        except Exception as error:  # noqa: BLE001  # returned
            return error
        return None

    def _attempt(self, check: Callable[[Connection], None]) -> Exception | None:
        try:
            with self._write.begin() as connection:
                check_file(connection)
                check(connection)
        except Exception as error:  # noqa: BLE001  # returned
            return error
        return None
