"""Databases that fail: what an error means for a batch, whether rows are taken again, whether a file is damaged."""

from enum import Enum, auto

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from prudent.errors import LostFileError

_CONFLICTS = {"40001", "40P01"}
"""Serialization failure, deadlock."""
_LOCK_TIMEOUT = "55P03"
_CORRUPT = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
"""Permanent, but not the command's fault: nobody can write until somebody has repaired the file."""
_PASSING_CLASSES = ("08", "53", "57", "58", "25P")
"""Connection, resources, operator intervention (shutdown, statement timeout), system, idle-in-transaction."""
_PROBE_ROWS = 2_000
"""Of 36 bytes: as much room as a few batches need, so that a database found writable stays so for a while."""


class Failure(Enum):
    """What to do about an error."""

    RERUN = auto()
    """Run the batch again: it conflicted with another transaction, or the connection was lost."""
    LOCKED = auto()
    """Another worker holds a lock: leave its campaign out."""
    UNAVAILABLE = auto()
    """Give up for now: the database is gone, locked, full, damaged or too slow."""
    DEFECT = auto()
    """Not the database's doing, or a wrong statement: a bug of ours."""


def classify(error: Exception) -> Failure:
    """What an exception raised before COMMIT means."""
    if isinstance(error, PoolTimeoutError | LostFileError):
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
    # SQLite: locked, full, read-only, I/O; Postgres: no connection. A wrong statement is an OperationalError there,
    # too, but migrations make that impossible and tests would meet it.
    return Failure.UNAVAILABLE if isinstance(error, OperationalError) else Failure.DEFECT


def probe_writes(connection: Connection) -> None:
    """Fill a table that is gone again at the end of the transaction. Raises what the database raises."""
    kind = "TABLE" if connection.dialect.name == "sqlite" else "TEMPORARY TABLE"
    connection.execute(text(f"CREATE {kind} prudent_probe (filler TEXT)"))
    connection.execute(
        text(
            "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :rows) "
            "INSERT INTO prudent_probe SELECT '0123456789abcdef0123456789abcdef0123' FROM numbers"
        ),
        {"rows": _PROBE_ROWS},
    )
    connection.execute(text("DROP TABLE prudent_probe"))


def find_damage(connection: Connection) -> list[str]:
    """What SQLite finds wrong with its file; nothing on Postgres, which has its own tools (pg_amcheck)."""
    if connection.dialect.name != "sqlite":
        return []
    found = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check(5)")]
    return [] if found == ["ok"] else found
