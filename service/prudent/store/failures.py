"""Databases that fail: what an error means for a batch, whether rows are taken again, whether a file is damaged."""

from enum import Enum, auto
from types import MappingProxyType

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from prudent.errors import LostFileError

_LOCK_TIMEOUT = "55P03"
_CORRUPT = ("SQLITE_CORRUPT", "SQLITE_NOTADB")
"""Permanent, but not the command's fault: nobody can write until somebody has repaired the file."""
_BAD_ROWS = {"SQLITE_CONSTRAINT_CHECK", "SQLITE_CONSTRAINT_NOTNULL"}
"""Not resolved by running the batch again, as a duplicate id is."""
_PROBE_ROWS = 2_000
"""Of 36 bytes: as much room as a few batches need, so that a database found writable stays so for a while."""


class Fault(Enum):
    """Whose fault an error of PostgreSQL is."""

    OURS = auto()
    """The statement or its values are wrong, and would be wrong everywhere."""
    PASSING = auto()
    """The transaction conflicted with another one, or its session ended: the next one may succeed."""
    CANNOT = auto()
    """This session or this server cannot do it, whatever is asked: not now, or not until somebody repairs it."""


OURS, PASSING, CANNOT = Fault

SQLSTATES = MappingProxyType(
    {
        # a class of the appendix "PostgreSQL Error Codes", then the codes that differ from their class
        "00": OURS,  # success, a warning, no data: never raised as errors
        "01": OURS,
        "02": OURS,
        "03": OURS,  # statement not yet complete
        "08": PASSING,  # connection: it is gone
        "09": CANNOT,  # a trigger failed: it is not ours
        "0A": OURS,  # not supported
        "0B": CANNOT,  # transaction initiation
        "0F": OURS,
        "0L": OURS,
        "0P": OURS,
        "0Z": OURS,
        "10": OURS,
        "20": OURS,
        "21": OURS,
        "22": OURS,  # data
        "23": OURS,  # a constraint: the row is wrong
        "23503": PASSING,  # the campaign was purged meanwhile
        "23505": PASSING,  # another worker has inserted the same id
        "24": CANNOT,  # cursor: not the session that it was
        "25": CANNOT,  # transaction state; 25006: the server is read-only, a standby or a primary that was demoted
        "25P03": PASSING,  # idle for too long, so the server ended the session
        "25P04": PASSING,  # its transaction took too long
        "26": CANNOT,  # unknown prepared statement: a pooler gave us another session
        "27": CANNOT,  # a trigger changed the row
        "28": CANNOT,  # authorization
        "2B": OURS,
        "2D": CANNOT,  # transaction termination
        "2F": CANNOT,  # functions: they are not ours
        "34": CANNOT,  # cursor name
        "38": CANNOT,
        "39": CANNOT,
        "3B": CANNOT,  # savepoint: we use none
        "3D": CANNOT,  # the database is gone
        "3F": CANNOT,  # the schema is gone
        "40": PASSING,  # serialization, deadlock
        "42": OURS,  # syntax and names
        "42501": CANNOT,  # rights were taken away
        "42703": CANNOT,  # the table is another one, or gone: a restore is in progress
        "42P01": CANNOT,
        "42P05": CANNOT,  # duplicate prepared statement: a pooler gave us another session
        "44": CANNOT,  # a view's check: it is not ours
        "53": CANNOT,  # disk full, out of memory, too many connections
        "54": OURS,  # statement too complex
        "55": CANNOT,  # not in the prerequisite state, as on a standby
        "55P03": PASSING,  # a lock was not free in time
        "57": CANNOT,  # an operator intervened; 57014: the statement took too long
        "57P01": PASSING,  # the session was ended: others can be opened, or not
        "57P02": PASSING,
        "57P05": PASSING,
        "58": CANNOT,  # the system: input and output, files
        "72": PASSING,  # snapshot too old
        "F0": CANNOT,  # configuration files
        "HV": CANNOT,  # foreign tables: they are not ours
        "P0": CANNOT,  # PL/pgSQL: it is not ours
        "XX": CANNOT,  # internal errors, corrupt tables and indexes
    }
)
"""Every class of the appendix. A code that is in no class of it is from a later version: see `fault_of`."""


def fault_of(sqlstate: str) -> Fault:
    """Whose fault an error with this code is. What nobody knows is taken for the server's: 503, and not ready."""
    return SQLSTATES.get(sqlstate) or SQLSTATES.get(sqlstate[:2], CANNOT)


def ends_session(error: BaseException | None) -> bool:
    """Whether the connection on which a driver raised this must be replaced: another one may reach a better server."""
    state = getattr(error, "sqlstate", None)
    return state is not None and fault_of(state) is CANNOT


class Failure(Enum):
    """What to do about an error."""

    RERUN = auto()
    """Run the batch again: it conflicted with another transaction, or the connection was lost."""
    LOCKED = auto()
    """Another worker holds a lock: leave its campaign out."""
    UNAVAILABLE = auto()
    """Give up for now: the database is gone, locked, full, damaged, read-only or too slow, or memory is exhausted."""
    DEFECT = auto()
    """Not the database's doing, or a wrong statement: a bug of ours."""


_MEANINGS = {OURS: Failure.DEFECT, PASSING: Failure.RERUN, CANNOT: Failure.UNAVAILABLE}


def classify(error: Exception) -> Failure:
    """What an exception raised before COMMIT means."""
    if isinstance(error, PoolTimeoutError | LostFileError | MemoryError):
        return Failure.UNAVAILABLE
    if not isinstance(error, DBAPIError):
        return Failure.DEFECT
    state = getattr(error.orig, "sqlstate", None)
    if state is not None:
        return Failure.LOCKED if state == _LOCK_TIMEOUT else _MEANINGS[fault_of(state)]
    name = getattr(error.orig, "sqlite_errorname", "")
    if isinstance(error, IntegrityError) and name in _BAD_ROWS:
        return Failure.DEFECT
    if isinstance(error, IntegrityError) or error.connection_invalidated:
        return Failure.RERUN
    if name.startswith(_CORRUPT):
        return Failure.UNAVAILABLE
    # SQLite: locked, full, read-only, I/O; Postgres: no connection. A wrong statement is an OperationalError there,
    # too, but migrations make that impossible and tests would meet it.
    return Failure.UNAVAILABLE if isinstance(error, OperationalError) else Failure.DEFECT


def check_writable(connection: Connection) -> None:
    """Raise what Postgres would raise if rows were written now; they are not.

    It finds a server that is read-only, and tables that somebody has locked, within the session's lock_timeout.
    """
    connection.execute(text("LOCK TABLE arms, decisions, heads, observations IN ROW EXCLUSIVE MODE"))
    connection.execute(text("SELECT key FROM heads LIMIT 0 FOR NO KEY UPDATE"))


def probe_writes(connection: Connection) -> None:
    """Fill a table that is gone again at the end of the transaction. Raises what the database raises."""
    if connection.dialect.name == "postgresql":
        check_writable(connection)
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
