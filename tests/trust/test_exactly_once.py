"""R3 and R5: the same reward from everywhere at once, and two workers that teach one campaign."""

import asyncio
import threading
from collections import Counter
from typing import Any

import httpx
import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from prudent.clock import steady_clock
from prudent.ledger.commands import Observe, Reward, Select, WarmStart
from prudent.settings import Limits
from prudent.store.engines import create_write_engine, parse_database_url
from tests.conftest import MakeServer
from tests.databases import migrate
from tests.ledger.conftest import Worker
from tests.promises import Promise, length
from tests.trust.invariants import check, prudent_verify
from tests.trust.load import CAMPAIGNS, Record, create_campaigns

DECISIONS = length("DECISIONS", 8)
COPIES = 50
REWARDS = length("REWARDS", 150)
"""Of each worker."""
CONNECTIONS = 32


async def post_all(urls: list[str], requests: list[tuple[str, dict[str, Any]]], record: Record) -> None:
    """Send requests, each to the server whose turn it is, so many at once."""
    limits = httpx.Limits(max_connections=CONNECTIONS, max_keepalive_connections=CONNECTIONS)
    async with httpx.AsyncClient(limits=limits, timeout=60, trust_env=False) as http:
        pending = iter(enumerate(requests))

        async def one_client() -> None:
            for number, (path, body) in pending:
                record.note((path, body), await http.post(urls[number % len(urls)] + path, json=body))

        await asyncio.gather(*(one_client() for _ in range(CONNECTIONS)))


def test_identical_rewards_at_once_are_one_observation(
    make_server: MakeServer, database_url: str, promise: Promise
) -> None:
    """R3. A retry that overtakes its original would teach the same outcome twice, or be answered 500."""
    server = make_server(database_url, workers=2)
    create_campaigns(server.url)
    record = Record()
    names = list(CAMPAIGNS)
    ids = [f"d{number}" for number in range(DECISIONS)]
    selects = [
        ("/select", {"campaign_id": names[number % len(names)], "decision_id": name}) for number, name in enumerate(ids)
    ]
    asyncio.run(post_all([server.url], selects, record))
    rewards = [("/reward", {"decision_id": name, "reward": 0.5}) for name in ids for _ in range(COPIES)]
    asyncio.run(post_all([server.url], rewards, record))
    found = check(database_url, record)
    observations = sum(one["observations"] for one in listed(server.url))
    errors = sum(n for status, n in record.statuses.items() if status >= 500)
    name = database_url.partition(":")[0]
    promise("R3", f"{name}: {COPIES} x {DECISIONS} rewards: {observations} observations, {found}, 5xx {errors}")
    assert (observations, errors) == (DECISIONS, 0)
    assert record.statuses == Counter({200: DECISIONS * (1 + COPIES)})
    assert found.none, found.faults


def listed(url: str) -> list[dict[str, Any]]:
    campaigns: list[dict[str, Any]] = httpx.get(f"{url}/campaigns", trust_env=False).json()["items"]
    return campaigns


def reruns(urls: list[str]) -> int:
    lines = [line for url in urls for line in httpx.get(f"{url}/metrics", trust_env=False).text.splitlines()]
    return sum(int(float(line.split()[1])) for line in lines if line.startswith("prudent_batch_reruns_total "))


def test_two_workers_teach_one_campaign(make_server: MakeServer, postgres_database: str, promise: Promise) -> None:
    """R5. Of two rewards at once only one would be learned, or both would fight until one is refused."""
    servers = [make_server(postgres_database) for _ in range(2)]
    urls = [server.url for server in servers]
    create_campaigns(urls[0])
    record = Record()
    ids = [f"d{number:05d}" for number in range(2 * REWARDS)]
    selects: list[dict[str, Any]] = [{"campaign_id": "streamed", "decision_id": name} for name in ids]
    with httpx.Client(base_url=urls[0], timeout=60, trust_env=False) as http:
        for start in range(0, len(selects), 500):
            http.post("/select/batch", json={"items": selects[start : start + 500]}).raise_for_status()
    before = reruns(urls)
    rewards = [("/reward", {"decision_id": name, "reward": n * 0.37 % 1}) for n, name in enumerate(ids)]
    asyncio.run(post_all(urls, rewards, record))
    found = check(postgres_database, record)
    conflicts = reruns(urls) - before
    sequences = sorted(sequence for _, sequence in record.rewards.values())
    promise("R5", f"2 x {REWARDS:,} rewards: {len(sequences):,} learned, {found}, batches run again {conflicts}")
    assert record.statuses == Counter({200: len(ids)})
    assert sequences == list(range(1, len(ids) + 1))
    assert found.none, found.faults
    assert conflicts <= len(ids) // 100  # with the lock nobody meets another's sequence number
    for url in urls:
        assert "equal" in prudent_verify(postgres_database, url)


@pytest.mark.parametrize("column", ["decision_id", "observation_id", "sequence"])
def test_the_database_itself_refuses_a_second_row(worker: Worker, column: str) -> None:
    """R3. If the service were wrong about what is recorded, the last thing between it and a double is UNIQUE."""
    worker.create("c")
    worker.run(Select("c", "d"), Reward("d", 1.0), Observe("c", [WarmStart("a", 1.0, observation_id="o")]))
    sequence = "sequence" if column == "sequence" else "sequence + 10"
    name = {"decision_id": "decision_id, NULL", "observation_id": "NULL, observation_id"}.get(column, "NULL, NULL")
    copied = (
        "INSERT INTO observations (key, sequence, kind, decision_id, observation_id, arm_id, features, reward, source, "  # noqa: S608
        f"observed_at) SELECT key, {sequence}, kind, {name}, arm_id, features, reward, source, observed_at "
        f"FROM observations WHERE {column} IS NOT NULL"
    )
    with worker.write.begin() as connection, pytest.raises(IntegrityError):
        connection.execute(text(copied))


def test_two_workers_that_insert_the_same_ids_do_not_deadlock(lone_database: str) -> None:
    """R5. In the order of arrival each would wait for the other, until one is refused."""
    engine = create_write_engine(parse_database_url(lone_database))
    migrate(engine)
    engine.dispose()
    worker = Worker(lone_database, Limits(), steady_clock())
    worker.ledger.start()
    worker.create("c", algorithm={"name": "linucb", "warmup": 0})
    worker.run(Select("c", "first"))
    copied = (
        "INSERT INTO decisions SELECT %s, key, arm_id, features, estimate, bonus, index_value, reason, greedy_arm_id, "
        "recommended_arm_id, propensity, seen, request_digest, explanation, created_at, due_at "
        "FROM decisions WHERE decision_id = 'first'"
    )
    try:
        with psycopg.connect(lone_database) as other:
            other.execute(copied, ["a"])
            thread = threading.Thread(target=worker.run, args=(Select("c", "z"), Select("c", "a")))
            thread.start()
            waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = %s"
            with psycopg.connect(lone_database, autocommit=True) as watcher:
                while watcher.execute(waits, [lone_database.rpartition("/")[2]]).fetchone() == (0,):
                    assert thread.is_alive()
            other.execute("SET lock_timeout = '100ms'")
            other.execute(copied, ["z"])  # the worker waits for "a", and must not hold "z"
            other.rollback()
            thread.join()
    finally:
        worker.stop()
