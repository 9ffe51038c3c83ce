"""Statements compiled once a dialect: SQLAlchemy's look-up of what it has compiled costs more than small statements."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Executable
from sqlalchemy.sql.compiler import SQLCompiler

from prudent.store import driver
from prudent.store.driver import Parameters


class Prepared:
    """A statement whose values go to the driver as they are, and come back so: no types that need conversion."""

    def __init__(self, statement: Executable) -> None:
        self._statement = statement
        self._compiled: dict[str, tuple[str, list[str] | None, dict[str, Any]]] = {}

    def rows(self, connection: Connection, values: Mapping[str, Any]) -> list[Any]:
        """Execute it once; the rows it finds."""
        text, (parameters,) = self._bind(connection, [values])
        return driver.fetch(connection, text, parameters)

    def execute_many(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Execute it for each row. No round trip for none."""
        if not rows:
            return
        text, parameters = self._bind(connection, rows)
        driver.execute_many(connection, text, parameters)

    def _bind(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> tuple[str, Sequence[Parameters]]:
        """The SQL, and each row's parameters as the driver takes them."""
        text, order, constants = self._text(connection)
        if constants:
            rows = [{**constants, **row} for row in rows]
        return text, rows if order is None else [tuple([row[name] for name in order]) for row in rows]

    def _text(self, connection: Connection) -> tuple[str, list[str] | None, dict[str, Any]]:
        """The SQL, the order of its parameters where they have no names, and those that the statement itself gives."""
        dialect = connection.dialect
        known = self._compiled.get(dialect.name)
        if known is None:
            compiled = self._statement.compile(dialect=dialect)  # type: ignore[attr-defined]  # all of ours can
            assert isinstance(compiled, SQLCompiler)  # noqa: S101  # the only kind that there is for statements
            order = list(compiled.positiontup or ()) if dialect.positional else None
            constants = {name: value for name, value in compiled.params.items() if value is not None}
            known = self._compiled[dialect.name] = str(compiled), order, constants
        return known
