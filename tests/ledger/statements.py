"""Statements as they reach the driver: seen there, and made to fail there."""

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
from sqlalchemy import Engine, event

Listener = Callable[[Any, str], None]
"""Takes the driver's cursor and the statement that it is about to execute; what it raises, the driver has raised."""


def watch(engine: Engine, listeners: list[Listener]) -> None:
    """Tell the listeners, whoever they are at the time, of every statement of connections made from now on."""

    def tell(cursor: Any, statement: str) -> None:
        for listener in listeners:
            listener(cursor, statement)

    class SqliteCursor(sqlite3.Cursor):
        def execute(self, statement: str, *parameters: Any) -> Any:
            tell(self, statement)
            return super().execute(statement, *parameters)

        def executemany(self, statement: str, rows: Any) -> Any:
            tell(self, statement)
            return super().executemany(statement, rows)

    class SqliteConnection(sqlite3.Connection):
        def cursor(self, *_: Any) -> Any:
            return super().cursor(SqliteCursor)

    class PostgresCursor(psycopg.Cursor[Any]):
        def execute(self, statement: Any, *parameters: Any, **options: Any) -> Any:
            tell(self, statement)
            return super().execute(statement, *parameters, **options)

        def executemany(self, statement: Any, rows: Any, **options: Any) -> Any:
            tell(self, statement)
            return super().executemany(statement, rows, **options)

    if engine.dialect.name == "sqlite":
        event.listen(engine, "do_connect", lambda _d, _r, _arguments, options: options.update(factory=SqliteConnection))
    else:
        event.listen(engine, "connect", lambda connection, _: setattr(connection, "cursor_factory", PostgresCursor))


def before_each(engine: Engine, change: Callable[[], None]) -> Iterator[int]:
    """1, 2 and so on: the change happens before this statement of what comes next. Ends when that has fewer.

    The engine must not have connected before.
    """
    left = 0

    def count(*_: Any) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            change()

    watch(engine, [count])
    for place in range(1, 100):
        left = place
        yield place
        if left > 0:
            return
