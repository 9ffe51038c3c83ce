"""Statements handed to the driver itself: SQLAlchemy's way there costs several times what a small statement does.

Connections, transactions and errors stay SQLAlchemy's: what the driver raises comes out as its exceptions, and a
connection that is lost is known to be. Values go in and come out as the driver has them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

Parameters = Sequence[Any] | Mapping[str, Any]


def fetch(connection: Connection, text: str, parameters: Parameters) -> list[Any]:
    """The rows of a statement that has some. Raises DBAPIError."""
    try:
        cursor = connection.connection.cursor()
        cursor.execute(text, parameters)
        return cursor.fetchall()  # type: ignore[return-value]  # both drivers make lists
    except Exception as error:  # noqa: BLE001  # raised again
        _raise(connection, text, error)


def execute(connection: Connection, text: str, parameters: Parameters = ()) -> None:
    """Execute a statement without rows. Raises DBAPIError."""
    try:
        connection.connection.cursor().execute(text, parameters)
    except Exception as error:  # noqa: BLE001  # raised again
        _raise(connection, text, error)


def execute_many(connection: Connection, text: str, rows: Sequence[Any]) -> None:
    """Execute a statement without rows, once for each row of parameters. Raises DBAPIError."""
    if len(rows) == 1:  # for Postgres' driver many are a pipeline, and a pipeline of one costs more than one statement
        execute(connection, text, rows[0])
        return
    try:
        connection.connection.cursor().executemany(text, rows)
    except Exception as error:  # noqa: BLE001  # raised again
        _raise(connection, text, error)


def _raise(connection: Connection, text: str, error: Exception) -> NoReturn:
    """As SQLAlchemy does for the statements that it executes. Parameters are never shown: they are clients' data."""
    dialect = connection.dialect
    drivers = dialect.loaded_dbapi.Error
    if not isinstance(error, drivers):
        raise error
    lost = dialect.is_disconnect(error, connection.connection, None)
    if lost:
        connection.invalidate(error)
    raise DBAPIError.instance(
        text, None, error, drivers, hide_parameters=True, connection_invalidated=lost, dialect=dialect
    ) from error
