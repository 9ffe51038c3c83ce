"""Statements that pass SQLAlchemy by, and the connection that is not given back."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from sqlalchemy import BigInteger, Column, Connection, Double, Engine, LargeBinary, MetaData, Table, Text
from sqlalchemy.exc import DBAPIError

from prudent.store import decisions, log, statements
from prudent.store.engines import create_write_engine, parse_database_url
from prudent.store.failures import Failure, classify
from prudent.store.schema import migrate
from prudent.store.statements import ARRAYS_ROWS_MIN, HeldConnection, Insertion, PairLookup

SENT = "a reward that nobody may read"
WRONG = {
    "duplicate": "INSERT INTO things VALUES ('there', {0})",
    "missing": "INSERT INTO nothing VALUES ('there', {0})",
}


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = create_write_engine(parse_database_url(database_url))
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE things (name VARCHAR(200) PRIMARY KEY NOT NULL, size VARCHAR(200))")
        connection.exec_driver_sql("INSERT INTO things VALUES ('there', 'big')")
    yield engine
    engine.dispose()


def names(connection: Connection) -> list[str]:
    return [row[0] for row in statements.fetch(connection, "SELECT name FROM things ORDER BY name", ())]


def fail_in_a_transaction(connection: Connection, expected: Any) -> None:
    assert connection.connection.driver_connection is expected
    connection.begin()
    statements.execute(connection, "INSERT INTO things VALUES ('lost', 'small')")
    statements.execute(connection, "INSERT INTO things VALUES ('lost', 'twice')")


def place(engine: Engine) -> str:
    return "?" if engine.dialect.positional else "%s"


@pytest.mark.parametrize("kind", WRONG)
def test_errors_are_those_that_sqlalchemy_raises(engine: Engine, kind: str) -> None:
    """They decide whether a batch runs again or is given up; and a log would show what clients sent."""
    text = WRONG[kind].format(place(engine))
    ways = [
        Connection.exec_driver_sql,
        statements.fetch,
        statements.execute,
        lambda connection, text, row: statements.execute_many(connection, text, [row, row]),
    ]
    raised = []
    for way in ways:
        with pytest.raises(DBAPIError) as caught, engine.connect() as connection, connection.begin():
            way(connection, text, (SENT,))
        raised.append(caught.value)
    expected = raised[0]
    for error in raised[1:]:
        assert type(error) is type(expected)
        assert type(error.orig) is type(expected.orig)
        assert error.statement == text
        assert classify(error) is classify(expected)
        assert SENT not in str(error)


def test_what_is_no_error_of_the_driver_stays_what_it_is(engine: Engine) -> None:
    """A defect of ours would pass for a database that is away."""
    with engine.begin() as connection, pytest.raises(TypeError):
        statements.execute(connection, 5)  # type: ignore[arg-type]


def test_a_lost_connection_is_replaced(engine: Engine) -> None:
    """The pool would hand it out again, and every batch after it would fail."""
    with engine.connect() as connection:
        connection.begin()
        connection.connection.driver_connection.close()  # type: ignore[union-attr]  # it is there
        with pytest.raises(DBAPIError) as caught:
            names(connection)
        assert caught.value.connection_invalidated
        assert classify(caught.value) is Failure.RERUN
        assert connection.invalidated
    with engine.begin() as connection:
        assert names(connection) == ["there"]


def test_a_held_connection_stays_and_is_given_back_after_an_error(engine: Engine) -> None:
    """Taken anew it costs more than the transaction; kept after an error it would go on inside the failed one."""
    held = HeldConnection(engine)
    with held.use() as connection, connection.begin():
        first = connection.connection.driver_connection
        statements.execute(connection, "INSERT INTO things VALUES ('kept', 'small')")
    with pytest.raises(DBAPIError), held.use() as connection:
        fail_in_a_transaction(connection, first)
    assert engine.pool.checkedout() == 0  # type: ignore[attr-defined]  # a pool that counts
    with held.use() as connection, connection.begin():
        assert names(connection) == ["kept", "there"]
    held.release()
    held.release()
    assert engine.pool.checkedout() == 0  # type: ignore[attr-defined]


class Row(NamedTuple):
    """A value of each kind that our tables have."""

    place: int
    name: str
    data: bytes | None
    size: float | None
    note: str | None


AWKWARD = (
    Row(0, 'a "quoted", {braced} \\ NULL', b"\\x00", 0.1 + 0.2, None),
    Row(0, "", b"", -math.inf, "NULL"),
    Row(0, " straße \n\t\U0001f600", None, 5e-324, "%s %(name)s"),
    Row(0, "{1,2}", b'",\x00\xff', None, ""),
)


@pytest.mark.parametrize("count", [0, 1, 2, ARRAYS_ROWS_MIN - 1, ARRAYS_ROWS_MIN, 500])
def test_rows_arrive_as_they_are_however_many(engine: Engine, count: int) -> None:
    """A comma or a null in a column of many rows would move the values of others."""
    columns = zip(Row._fields, (BigInteger, Text, LargeBinary, Double, Text), strict=True)
    table = Table("rows", MetaData(), *(Column(name, kind()) for name, kind in columns))
    rows = [AWKWARD[number % len(AWKWARD)]._replace(place=number * 2**40) for number in range(count)]
    with engine.begin() as connection:
        table.create(connection)
        Insertion(table, Row._fields).execute(connection, rows)
        found = statements.fetch(connection, "SELECT * FROM rows ORDER BY place", ())
    assert [Row(*row) for row in found] == rows


@pytest.mark.parametrize("look_up", [decisions._BY_KEY, log._BY_DECISION])
def test_sqlite_finds_each_pair_by_the_index_that_has_both(sqlite_database: str, look_up: PairLookup) -> None:
    """Each look-up would read all that a campaign has."""
    engine = create_write_engine(parse_database_url(sqlite_database))
    migrate(engine)
    with engine.connect() as connection:
        statement, order, constants = look_up._sqlite._text(connection)
        values = {"pairs": '[[1, "x"]]', **constants}
        plan = statements.fetch(connection, f"EXPLAIN QUERY PLAN {statement}", [values[name] for name in order or ()])
    engine.dispose()
    searches = [row[-1] for row in plan if row[-1].startswith("SEARCH")]
    assert len(searches) == 1
    assert searches[0].endswith("(key=? AND decision_id=?)")
