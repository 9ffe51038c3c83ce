"""Tables that PostgreSQL has not looked at yet: nothing but the statement tells it which index to take."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, text

from prudent.store import log, reports, retention
from prudent.store.engines import create_write_engine, parse_database_url
from tests.conftest import migrate_empty
from tests.servers import Postgres

ROWS = 3_000
HEAD = (2**62, "")
KEYS = "INSERT INTO campaigns (key, campaign_id, configuration, creation, status, revision, created_at) VALUES "
DECISIONS = """
    INSERT INTO decisions (decision_id, key, arm_id, features, estimate, bonus, index_value, reason, greedy_arm_id,
        seen, created_at, held_out)
    SELECT 'd' || n, 1, 'a', convert_to(repeat('x', 160), 'UTF8'), 0, 0, 0, 'index', 'a', n, n, 0
    FROM generate_series(1, :rows) AS n
"""
REWARDS = """
    INSERT INTO observations (key, sequence, kind, decision_id, arm_id, features, reward, source,
        observed_at)
    SELECT 1, n, 'observation', 'd' || n, 'a', convert_to(repeat('x', 160), 'UTF8'), 1, 'reward', n
    FROM generate_series(1, :rows) AS n
"""


@pytest.fixture(scope="module")
def engine(postgres: Postgres) -> Iterator[Engine]:
    url = postgres.create_database()
    migrate_empty(url)
    made = create_write_engine(parse_database_url(url))
    with made.begin() as connection:
        for table in ("decisions", "observations"):
            connection.execute(text(f"ALTER TABLE {table} SET (autovacuum_enabled = off)"))
        connection.execute(text(f"{KEYS} (1, 'c', '', '', 'active', 1, 0)"))
        for statement in (DECISIONS, REWARDS):
            connection.execute(text(statement), {"rows": ROWS})
    yield made
    made.dispose()
    postgres.drop_database(url)


READS: dict[str, Callable[[Connection], object]] = {
    "plays": lambda connection: reports.read_plays(connection, 1, (-1, ""), 2**62, ROWS, ROWS),
    "newest plays": lambda connection: reports.newest_plays(connection, 1),
    "newest decisions": lambda connection: reports.newest_decisions(connection, 1, ROWS),
    "decision log": lambda connection: reports.read_decision_log(connection, 1, HEAD, ROWS, ROWS),
    "held": lambda connection: reports.read_held(connection, 1, 0, ROWS, ROWS),
    "compaction": lambda connection: retention.compact(connection, log.read_rows(connection, 1, ROWS - 1, ROWS, 1)[0]),
}


def touched(plan: dict[str, Any]) -> int:
    """How many rows a plan has looked at, those included that were looked at in vain."""
    seen = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Join Filter", 0)
    return int(seen * plan["Actual Loops"]) + sum(touched(part) for part in plan.get("Plans", []))


def plans_of(connection: Connection, read: Callable[[Connection], object]) -> list[dict[str, Any]]:
    """How the statements of a read were executed, on tables that are not known."""
    plans: list[dict[str, Any]] = []

    def explain(_connection: Any, cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if statement.startswith("SELECT"):
            cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", parameters)
            plans.append(cursor.fetchone()[0][0]["Plan"])

    unknown = text("SELECT max(reltuples) FROM pg_class WHERE relname IN ('decisions', 'observations')")
    assert connection.execute(unknown).scalar_one() < 0
    event.listen(connection, "before_cursor_execute", explain)
    read(connection)
    event.remove(connection, "before_cursor_execute", explain)
    return plans


@pytest.mark.parametrize("name", READS)
def test_a_decision_is_found_by_its_own_index(engine: Engine, name: str) -> None:
    """With another one each row is compared with all: a report of 20,000 new decisions took more than ten seconds."""
    with engine.connect() as connection:
        plans = plans_of(connection, READS[name])
        connection.rollback()
    assert max(touched(plan) for plan in plans) >= ROWS
    assert sum(touched(plan) for plan in plans) <= 10 * ROWS


def test_rewards_are_counted_without_reading_them(engine: Engine) -> None:
    """Each page of a dashboard would read the whole log to say how long it is."""
    with engine.connect() as connection:
        plans = plans_of(connection, lambda given: log.count_rewards(given, 1, 0, ROWS))
        assert log.count_rewards(connection, 1, 0, ROWS) == log.Counts(ROWS, 0)
    assert sum(touched(plan) for plan in plans) <= 10
