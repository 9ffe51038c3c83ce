"""What a database error means for a batch: run it again, wait for a lock elsewhere, or give up for now."""

from enum import Enum, auto

from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

_CONFLICTS = {"40001", "40P01"}
"""Serialization failure, deadlock."""
_LOCK_TIMEOUT = "55P03"
_CORRUPT = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
"""Not passing, but not the command's fault either: nobody can write until somebody has repaired the file."""
_PASSING_CLASSES = ("08", "53", "57", "58", "25P")
"""Connection, resources, operator intervention (shutdown, statement timeout), system, idle-in-transaction."""


class Failure(Enum):
    """What to do."""

    RERUN = auto()
    LOCKED = auto()
    UNAVAILABLE = auto()
    DEFECT = auto()


def classify(error: Exception) -> Failure:
    """What an exception raised before COMMIT means. DEFECT: not the database's doing, or a wrong statement."""
    if isinstance(error, PoolTimeoutError):
        return Failure.UNAVAILABLE
    if not isinstance(error, DBAPIError):
        return Failure.DEFECT
    if isinstance(error, IntegrityError) or error.connection_invalidated:
        return Failure.RERUN
    state = getattr(error.orig, "sqlstate", None)
    if state in _CONFLICTS:
        return Failure.RERUN
    if state == _LOCK_TIMEOUT:
        return Failure.LOCKED
    if state is not None:
        return Failure.UNAVAILABLE if state.startswith(_PASSING_CLASSES) else Failure.DEFECT
    if getattr(error.orig, "sqlite_errorname", "").startswith(_CORRUPT):
        return Failure.UNAVAILABLE
    # SQLite: locked, full, read-only, I/O; Postgres: no connection. A wrong statement there is also an
    # OperationalError, but migrations make that impossible and tests would meet it.
    return Failure.UNAVAILABLE if isinstance(error, OperationalError) else Failure.DEFECT
