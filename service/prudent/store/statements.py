"""Statements compiled once and handed to the driver itself, past SQLAlchemy's execution, on a connection that is kept.

SQLAlchemy's own way from a statement to the driver costs several times what a small statement does, and so do its
look-up of what it has compiled and its pool. Connections, transactions and errors stay SQLAlchemy's: what the driver
raises comes out as SQLAlchemy's exceptions, and a lost connection is invalidated. Values pass unconverted in both
directions, so only columns whose Python values the drivers take and return as they are belong here; features are made
such values first.
"""

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, NoReturn

import numpy as np
import orjson
from numpy.typing import NDArray
from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    Engine,
    Executable,
    Select,
    Table,
    Text,
    any_,
    bindparam,
    column,
    func,
    insert,
    literal_column,
    select,
    true,
)
from sqlalchemy import cast as sql_cast
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.compiler import SQLCompiler

from prudent.errors import LostFileError
from prudent.store.failures import ends_session

Parameters = Sequence[Any] | Mapping[str, Any]

PARAMETERS_MAX = 999
"""Of one SQLite statement, in every version; there is a prepared statement for each number of rows up to there."""

ARRAYS_ROWS_MIN = 8
"""From so many rows on, PostgreSQL gets columns as arrays; making and reading those costs more than a few rows."""

_FLOAT64 = np.dtype("<f8")
_FILE = "prudent-file"
"""Where a SQLite connection keeps what it has opened."""
_FILES = ("the database file", "the database file's -wal", "the database file's -shm")
_WAL_HEADER_BYTES = 32
_WAL_MAGIC = (b"\x37\x7f\x06\x82", b"\x37\x7f\x06\x83")


def features_to_bytes(features: NDArray[np.float64]) -> bytes:
    """(d,) features as the tables hold them: little-endian float64."""
    return features.astype(_FLOAT64, copy=False).tobytes()


def features_from_bytes(data: bytes) -> NDArray[np.float64]:
    """(d,) what ``features_to_bytes`` was given, read-only."""
    return np.frombuffer(data, _FLOAT64)


def fetch(connection: Connection, text: str, parameters: Parameters) -> list[Any]:
    """The rows that a query returns. Raises DBAPIError."""
    try:
        cursor = connection.connection.cursor()
        cursor.execute(text, parameters)
        return cursor.fetchall()  # type: ignore[return-value]  # both drivers make lists
    except Exception as error:  # noqa: BLE001  # raised again
        _raise(connection, text, error)


def execute(connection: Connection, text: str, parameters: Parameters = ()) -> None:
    """Execute a statement that returns no rows. Raises DBAPIError."""
    try:
        connection.connection.cursor().execute(text, parameters)
    except Exception as error:  # noqa: BLE001  # raised again
        _raise(connection, text, error)


def execute_many(connection: Connection, text: str, rows: Sequence[Any]) -> None:
    """Execute a statement that returns no rows once per row of parameters. Raises DBAPIError."""
    if len(rows) == 1:  # psycopg sends many rows as a pipeline, which costs more than one statement for one row
        execute(connection, text, rows[0])
        return
    try:
        connection.connection.cursor().executemany(text, rows)
    except Exception as error:  # noqa: BLE001  # raised again
        _raise(connection, text, error)


def begin(connection: Connection) -> None:
    """Begin a transaction that reads, on SQLite, whose driver is told not to begin any by itself."""
    execute(connection, "BEGIN")


def begin_immediate(connection: Connection) -> None:
    """Begin a transaction that writes: SQLite takes the write lock before anything is read."""
    execute(connection, "BEGIN IMMEDIATE")


def _raise(connection: Connection, text: str, error: Exception) -> NoReturn:
    """As SQLAlchemy does for the statements that it executes. Parameters are clients' data and never shown."""
    dialect = connection.dialect
    drivers = dialect.loaded_dbapi.Error
    if not isinstance(error, drivers):
        raise error
    is_over = ends_session(error)
    lost = is_over or dialect.is_disconnect(error, connection.connection, None)
    if lost:
        connection.invalidate(error)
    if is_over:
        connection.engine.dispose()  # the pool's others lead to the same server
    raise DBAPIError.instance(
        text, None, error, drivers, hide_parameters=True, connection_invalidated=lost, dialect=dialect
    ) from error


class Prepared:
    """A statement compiled once per dialect."""

    def __init__(self, statement: Executable) -> None:
        self._statement = statement
        self._compiled: dict[str, tuple[str, list[str] | None, dict[str, Any]]] = {}

    def rows(self, connection: Connection, values: Mapping[str, Any]) -> list[Any]:
        """Execute it once, in a transaction; the rows it returns."""
        if not connection.in_transaction():  # or SQLite would read these rows at one instant, and the next at another
            connection.begin()
        text, (parameters,) = self._bind(connection, [values])
        return fetch(connection, text, parameters)

    def execute_many(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Execute it once per row. No rows, no round trip."""
        if not rows:
            return
        text, parameters = self._bind(connection, rows)
        execute_many(connection, text, parameters)

    def _bind(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> tuple[str, Sequence[Parameters]]:
        """The SQL, and each row's parameters as the driver takes them."""
        text, order, constants = self._text(connection)
        if constants:
            rows = [{**constants, **row} for row in rows]
        return text, rows if order is None else [tuple([row[name] for name in order]) for row in rows]

    def _text(self, connection: Connection) -> tuple[str, list[str] | None, dict[str, Any]]:
        """The SQL, the order of its parameters where they have no names, and the statement's own constants."""
        dialect = connection.dialect
        known = self._compiled.get(dialect.name)
        if known is None:
            compiled = self._statement.compile(dialect=dialect)  # type: ignore[attr-defined]  # all of ours can
            assert isinstance(compiled, SQLCompiler)  # noqa: S101  # the only kind that there is for statements
            order = list(compiled.positiontup or ()) if dialect.positional else None
            constants = {name: value for name, value in compiled.params.items() if value is not None}
            known = self._compiled[dialect.name] = str(compiled), order, constants
        return known


class Lookup:
    """``statement`` restricted to the rows whose column ``among`` is one of the ids given at each call.

    All ids are one parameter (a JSON array on SQLite, an array on Postgres): one text and one plan for any number.
    """

    def __init__(self, statement: Select[Any], among: ColumnElement[Any]) -> None:
        members: Select[Any] = select(column("value")).select_from(func.json_each(bindparam("ids", type_=Text)))
        array = bindparam("ids", type_=ARRAY(among.type))
        self._sqlite = Prepared(statement.where(among.in_(members)))
        self._postgres = Prepared(statement.where(among == any_(sql_cast(array, ARRAY(among.type)))))

    def rows(self, connection: Connection, ids: Collection[str] | Collection[int], **parameters: Any) -> Sequence[Any]:
        """The rows found, in the statement's own order. No ids, no round trip."""
        if not ids:
            return []
        if connection.dialect.name == "postgresql":
            return self._postgres.rows(connection, {"ids": list(ids), **parameters})
        encoded = orjson.dumps(list(ids)).decode()
        return self._sqlite.rows(connection, {"ids": encoded, **parameters})


class PairLookup:
    """As `Lookup`, of rows by two columns: a campaign's key and an id within the campaign.

    PostgreSQL finds each pair's row by itself, through the index that has both, in the partition that the key is in. A
    join could be planned while the table is nearly empty, to read all of it, and kept while the table grows.
    """

    def __init__(self, statement: Select[Any], key: ColumnElement[Any], name: ColumnElement[Any]) -> None:
        pairs = func.json_each(bindparam("pairs", type_=Text)).table_valued("value", name="pairs")
        is_given = [part == func.json_extract(pairs.c.value, place) for part, place in ((key, "$[0]"), (name, "$[1]"))]
        self._sqlite = Prepared(statement.select_from(pairs).where(*is_given))
        arrays = [bindparam(array, type_=ARRAY(of.type)) for array, of in (("keys", key), ("names", name))]
        given = func.unnest(*arrays).table_valued("key", "name").render_derived(name="given")
        one = statement.where(key == given.c.key, name == given.c.name).correlate(given)
        found = one.offset(literal_column("0")).lateral("found")  # which keeps it from becoming a join
        self._postgres = Prepared(select(*found.c).select_from(given.join(found, true())))

    def rows(self, connection: Connection, pairs: Collection[tuple[int, str]]) -> Sequence[Any]:
        """The rows found, in no order. No pairs, no round trip."""
        if not pairs:
            return []
        if connection.dialect.name == "postgresql":
            keys, names = zip(*pairs, strict=True)
            return self._postgres.rows(connection, {"keys": list(keys), "names": list(names)})
        return self._sqlite.rows(connection, {"pairs": orjson.dumps(list(pairs)).decode()})


class Insertion:
    """INSERT of named tuples whose fields are columns of the table, in the table's order.

    Compiled once: SQLAlchemy's compiler would do work for each row that costs more than the row itself. Many rows are
    one statement: each costs PostgreSQL more than its row, as conditions of indexes are prepared anew; and for each one
    sqlite3 releases the interpreter's lock, and waits for it while requests are parsed.
    """

    def __init__(self, table: Table, fields: Sequence[str]) -> None:
        self._fields = list(fields)
        own = [column for column in table.columns if column.name in self._fields]
        if [column.name for column in own] != self._fields:
            raise ValueError(f"the fields must be columns of {table.name}, in the table's order")
        self._statement = insert(table)
        self._rows_max = PARAMETERS_MAX // len(self._fields)
        self._texts: dict[str, str] = {}
        arrays = [bindparam(one.name, type_=ARRAY(one.type)) for one in own]
        given = func.unnest(*arrays).table_valued(*fields).render_derived(name="given")
        self._from_arrays = Prepared(self._statement.from_select(self._fields, select(*given.c)))

    def execute(self, connection: Connection, rows: Sequence[Any]) -> None:
        """Insert the rows in their order. No rows, no round trip."""
        dialect = connection.dialect
        if not dialect.positional and len(rows) >= ARRAYS_ROWS_MIN:
            columns = dict(zip(self._fields, map(list, zip(*rows, strict=True)), strict=True))
            self._from_arrays.execute_many(connection, [columns])
            return
        if dialect.name not in self._texts:
            self._texts[dialect.name] = str(self._statement.compile(dialect=dialect, column_keys=self._fields))
        text = self._texts[dialect.name]
        if not dialect.positional:
            if rows:
                execute_many(connection, text, [row._asdict() for row in rows])
            return
        head, _, places = text.rpartition("VALUES ")
        for first in range(0, len(rows), self._rows_max):
            part = rows[first : first + self._rows_max]
            values = ", ".join([places] * len(part))
            execute(connection, f"{head}VALUES {values}", tuple(chain.from_iterable(part)))


class HeldConnection:
    """A connection that one thread keeps from transaction to transaction.

    Taking one from the pool and returning it costs more than a small transaction.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Connection | None = None

    @contextmanager
    def use(self) -> Iterator[Connection]:
        """The connection, outside of any transaction. After an error it is returned, and the next use takes another."""
        if self._connection is None:
            self._connection = self._engine.connect()
        try:
            yield self._connection
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Return it to the pool, which rolls back what is not committed."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class OpenedFile:
    """A SQLite file as a connection has opened it, with the log and the index beside it.

    Whatever happens to their names, SQLite goes on in the files that it has open: it would commit into one that is
    removed, or share one that has a second name with somebody who looks for another log. So the names are compared with
    what was opened before a transaction and after its commit, before anything is acknowledged.
    """

    def __init__(self, name: str, info: dict[Any, Any]) -> None:
        """After the connection's first read, which opens the log. Raises OSError."""
        resolved = os.path.realpath(name)
        self._names = (os.path.abspath(name), f"{resolved}-wal", f"{resolved}-shm")  # noqa: PTH100  # keeps links
        self._opened = [identity_of(os.stat(one)) for one in self._names]  # noqa: PTH116  # the check's own call
        self._log = os.open(self._names[1], os.O_RDONLY)  # SQLite locks the other two files only
        self._bytes = self._log_bytes = 0
        self._log_header = b""
        info[_FILE] = self

    def close(self) -> None:
        """When the connection is closed."""
        os.close(self._log)

    def is_longer(self) -> bool:
        """Whether the log is at least as long as at the last check: what is cut off now, the next commit would hide."""
        return os.fstat(self._log).st_size >= self._log_bytes

    def check(self, connection: Connection) -> None:
        """Raise LostFileError unless the names still lead to what was opened, and nothing of it is cut off."""
        database = self._look(0)
        if database.st_nlink != 1:
            raise LostFileError(f"the database file has {database.st_nlink} names (hard links): remove the others")
        # before the log: whoever opens an emptied file next removes its log, and to put that back would not help
        if database.st_size < self._bytes and (not database.st_size or _bytes_of(connection) > database.st_size):
            raise LostFileError("the database file was truncated: restore a backup and restart")
        log = self._look(1)
        self._look(2)
        header = os.pread(self._log, _WAL_HEADER_BYTES, 0)
        if not log.st_size and self._log_bytes:  # emptied by a checkpoint, which leaves no frames, or by somebody else
            is_cut = _has_frames(connection)
        else:  # a log that begins anew may be shorter, and has another header
            is_cut = log.st_size < self._log_bytes and header == self._log_header
        if is_cut or (log.st_size and header[:4] not in _WAL_MAGIC):
            raise LostFileError("the database's write-ahead log was truncated: restore a backup and restart")
        self._bytes, self._log_bytes, self._log_header = database.st_size, log.st_size, header

    def _look(self, place: int) -> os.stat_result:
        try:
            found = os.stat(self._names[place])  # noqa: PTH116  # a third of the cost of Path.stat
        except FileNotFoundError:
            what = _FILES[place]
            raise LostFileError(f"{what} was removed: put it back, or restore a backup and restart") from None
        except OSError as error:
            raise LostFileError(f"{_FILES[place]} cannot be reached: {error.strerror}") from error
        if (found.st_dev, found.st_ino) != self._opened[place]:
            raise LostFileError(f"{_FILES[place]} was replaced by another: restart to use that one")
        return found


def _bytes_of(connection: Connection) -> int:
    """What SQLite believes its file to take. A VACUUM by somebody else makes that less."""
    return int(fetch(connection, "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size", ())[0][0])


def _has_frames(connection: Connection) -> bool:
    """Whether SQLite believes that its log has any. It would copy them, and fails where they are gone."""
    try:
        return bool(fetch(connection, "PRAGMA wal_checkpoint(PASSIVE)", ())[0][1])
    except DBAPIError:
        return True


def identity_of(found: os.stat_result) -> tuple[int, int]:
    """Device and inode: which file it is, whatever its names."""
    return found.st_dev, found.st_ino


def close_file(_dbapi: object, record: Any) -> None:
    """When a connection is closed, whatever it had opened; an event of the pool."""
    opened = record.info.pop(_FILE, None)
    if opened is not None:
        opened.close()


def check_file(connection: Connection, *, briefly: bool = False) -> None:
    """Raise LostFileError unless the database is still the file that was opened. Only SQLite has one.

    briefly: before a transaction whose commit is followed by a whole check, look only for what it would not find.
    """
    opened = connection.info.get(_FILE)
    if opened is not None and not (briefly and opened.is_longer()):
        opened.check(connection)
