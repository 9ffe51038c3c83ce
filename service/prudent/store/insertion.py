"""Inserts of many rows, compiled once: the compiler's work for each row costs more than the row itself."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from sqlalchemy import Connection, Table, insert

from prudent.store import driver

PARAMETERS_MAX = 999
"""Of one SQLite statement, in every version; there is a prepared statement for each number of rows up to there."""


class Insertion:
    """INSERT of named tuples whose fields are columns of the table, in its order and as the drivers take them."""

    def __init__(self, table: Table, fields: Sequence[str]) -> None:
        self._fields = list(fields)
        if [column.name for column in table.columns if column.name in self._fields] != self._fields:
            raise ValueError(f"the fields must be columns of {table.name}, in the table's order")
        self._statement = insert(table)
        self._rows_max = PARAMETERS_MAX // len(self._fields)
        self._texts: dict[str, str] = {}

    def execute(self, connection: Connection, rows: Sequence[Any]) -> None:
        """Insert the rows in their order. No round trip for none."""
        dialect = connection.dialect
        if dialect.name not in self._texts:
            self._texts[dialect.name] = str(self._statement.compile(dialect=dialect, column_keys=self._fields))
        text = self._texts[dialect.name]
        if not dialect.positional:
            if rows:
                driver.execute_many(connection, text, [row._asdict() for row in rows])
            return
        # The driver gives up the interpreter's lock for every statement, and waits for it while requests are parsed:
        # many rows in one statement, instead of one statement many times.
        head, _, places = text.rpartition("VALUES ")
        for first in range(0, len(rows), self._rows_max):
            part = rows[first : first + self._rows_max]
            values = ", ".join([places] * len(part))
            driver.execute(connection, f"{head}VALUES {values}", tuple(chain.from_iterable(part)))
