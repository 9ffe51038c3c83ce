"""Inserts of many rows, compiled once: the compiler's work for each row costs more than the row itself."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Table, insert


class Insertion:
    """INSERT of named tuples whose fields are columns of the table, in its order and as the drivers take them."""

    def __init__(self, table: Table, fields: Sequence[str]) -> None:
        self._fields = list(fields)
        if [column.name for column in table.columns if column.name in self._fields] != self._fields:
            raise ValueError(f"the fields must be columns of {table.name}, in the table's order")
        self._statement = insert(table)
        self._texts: dict[str, str] = {}

    def execute(self, connection: Connection, rows: Sequence[Any]) -> None:
        """Insert the rows in their order. No round trip for none."""
        if not rows:
            return
        dialect = connection.dialect
        if dialect.name not in self._texts:
            self._texts[dialect.name] = str(self._statement.compile(dialect=dialect, column_keys=self._fields))
        values = rows if dialect.positional else [row._asdict() for row in rows]
        connection.exec_driver_sql(self._texts[dialect.name], values)
