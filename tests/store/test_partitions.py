"""PostgreSQL's tables in partitions: the same service, made so at first or later, and kept so."""

import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from sqlalchemy import Connection, text

from prudent.ledger.commands import Correct, EraseDecisions, Reward, Select
from prudent.ledger.outcomes import RewardReceipt
from prudent.ledger.verification import verify
from prudent.settings import Limits
from prudent.store import campaigns, decisions, log
from prudent.store.engines import create_write_engine, parse_database_url
from prudent.store.partitions import PARTITIONED, PartitionsError
from prudent.store.schema import migrate
from prudent.store.statements import fetch
from tests.commands import prudent
from tests.conftest import MakeServer
from tests.ledger.conftest import Worker
from tests.transfer.campaigns import bring

CAMPAIGNS = [f"c{number}" for number in range(6)]
PAIRS = 20
FOUND = text("SELECT count(*) FROM pg_inherits WHERE inhparent = to_regclass(:table)")
DEFINITION = text(
    "SELECT regexp_replace(pg_get_indexdef(indexrelid), ' ON (ONLY )?', ' ON ') AS line FROM pg_index "
    "WHERE indrelid = to_regclass(:table) UNION ALL SELECT conname || ' ' || pg_get_constraintdef(oid) "
    "FROM pg_constraint WHERE conrelid = to_regclass(:table) UNION ALL SELECT attname || ' ' || atttypid::regtype || "
    "attnotnull || attcollation FROM pg_attribute WHERE attrelid = to_regclass(:table) AND attnum > 0 ORDER BY line"
)


def changed(database_url: str, partitions: int | None = None) -> None:
    """Migrate a database."""
    engine = create_write_engine(parse_database_url(database_url))
    try:
        migrate(engine, partitions=partitions)
    finally:
        engine.dispose()


@pytest.fixture
def make(postgres_database: str) -> Iterator[Callable[[], Worker]]:
    """Workers on one database."""
    made: list[Worker] = []

    def make() -> Worker:
        worker = Worker(postgres_database, Limits(), lambda: 0)
        worker.ledger.start()
        made.append(worker)
        return worker

    yield make
    for worker in made:
        worker.stop()


def read(worker: Worker, statement: Any, **parameters: Any) -> list[Any]:
    with worker.read.connect() as connection:
        return list(connection.execute(statement, parameters).all())


def definitions(worker: Worker) -> list[list[Any]]:
    return [read(worker, DEFINITION, table=table) for table in PARTITIONED]


def use(worker: Worker) -> None:
    """Pairs in several campaigns, with one id in all of them."""
    for name in CAMPAIGNS:
        worker.create(name)
        decided = worker.run(Select(name, "same"), *(Select(name, f"{name}-{number}") for number in range(PAIRS)))
        worker.run(*(Reward(one.row.decision_id, 0.5, campaign_id=name) for one in decided[1:]))


def contents(worker: Worker) -> list[Any]:
    tables = ("campaigns", "heads", *PARTITIONED)
    return [sorted(map(repr, read(worker, text(f"SELECT * FROM {table}")))) for table in tables]  # noqa: S608


def assert_sound(worker: Worker) -> None:
    assert [(one.observations > 0, one.digest, one.faults) for one in verify(worker.read, deep=True)] == [
        (True, "unbroken", [])
    ] * len(CAMPAIGNS)


def test_a_database_in_partitions_serves_and_verifies(postgres_database: str, make: Callable[[], Worker]) -> None:
    """Rows would be lost between partitions, or a reward be learned twice by two workers."""
    changed(postgres_database, 4)
    one, other = make(), make()
    use(one)
    assert read(one, FOUND, table="decisions") == read(one, FOUND, table="observations") == [(4,)]
    receipts: list[Any] = []
    rewards = [Reward("same", 1.0, campaign_id=name) for name in CAMPAIGNS]
    threads = [
        threading.Thread(target=lambda worker=worker: receipts.extend(worker.run(*rewards)))
        for worker in (one, other, one, other)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {type(receipt) for receipt in receipts} == {RewardReceipt}
    assert sum(not receipt.duplicate for receipt in receipts) == len(CAMPAIGNS)
    other.administer(Correct("c1-1", 2.0, "a mistake"))
    other.administer(EraseDecisions("c2", ["c2-1"]))
    assert read(one, text("SELECT count(DISTINCT tableoid) > 1 FROM observations")) == [(True,)]
    assert_sound(one)


def test_a_plain_database_is_moved_with_what_it_has(postgres_database: str, make: Callable[[], Worker]) -> None:
    """Whoever has outgrown one table would have to export and import every campaign, or would lose something."""
    changed(postgres_database)
    worker = make()
    use(worker)
    before, rules = contents(worker), definitions(worker)
    changed(postgres_database, 4)
    assert contents(worker) == before
    assert definitions(worker) == rules
    assert read(worker, FOUND, table="decisions") == read(worker, FOUND, table="observations") == [(4,)]
    assert worker.run(Reward("same", 1.0, campaign_id="c0"), Reward("c1-1", 0.5))[1].duplicate
    assert worker.one(Select("c0", "new")).row.seen == PAIRS + 1
    assert_sound(worker)


def test_what_is_in_partitions_stays_so(postgres_database: str) -> None:
    """A start of the next version would fail, or copy everything once more."""
    changed(postgres_database, 4)
    for again in (None, 4):
        changed(postgres_database, again)
    with pytest.raises(PartitionsError, match="has 4 partitions"):
        changed(postgres_database, 8)


def plan(connection: Connection, look_up: Any) -> str:
    """How PostgreSQL finds two rows once it keeps the plan."""
    connection.exec_driver_sql("SET LOCAL plan_cache_mode = force_generic_plan")
    (statement, _, constants) = look_up._postgres._text(connection)
    values = {"keys": [1, 2], "names": ["c0-1", "c1-1"]}
    rows = fetch(connection, f"EXPLAIN (ANALYZE, COSTS OFF) {statement}", values | constants)
    return "\n".join(row[0] for row in rows)


@pytest.mark.parametrize("partitions", [None, 4])
def test_a_look_up_opens_one_partition_and_reads_one_row(
    postgres_database: str, make: Callable[[], Worker], partitions: int | None
) -> None:
    """Each reward would be looked for in every partition, or through an index that leads to all of a campaign."""
    changed(postgres_database, partitions)
    worker = make()
    use(worker)
    with worker.write.begin() as connection:
        found = [plan(connection, look_up) for look_up in (decisions._BY_KEY, log._BY_DECISION)]
        standing = campaigns.read_standings(connection, [1])[1]
    for one in found:
        scans = [line for line in one.splitlines() if " Scan " in line and "given" not in line]
        assert len(scans) == (partitions or 1)
        assert all(
            re.search(r"Index Scan using \w*(pkey|pk_decisions|key_decision_id(_idx)?) ", line) for line in scans
        ), one
        assert sum("never executed" not in line for line in scans) <= 2, one
    assert standing.epoch is not None
    assert len(standing.epoch.split("/")) == 4  # also of tables that have no file of their own


def test_a_campaign_moves_into_partitions(
    postgres_database: str, make_server: MakeServer, sqlite_database: str
) -> None:
    """An export of one deployment could not be used by the other."""
    changed(postgres_database, 3)
    servers = [make_server(url) for url in (sqlite_database, postgres_database)]
    clients = [httpx.Client(base_url=server.url, timeout=30, trust_env=False) for server in servers]
    body = {
        "campaign_id": "c",
        "risk": {"measure": "mean"},
        "model": {"type": "multi-armed"},
        "arms": [{"arm_id": "a"}],
    }
    clients[0].post("/campaigns", json=body).raise_for_status()
    for number in range(20):
        clients[0].post("/select", json={"campaign_id": "c", "decision_id": f"d{number}"}).raise_for_status()
        clients[0].post("/reward", json={"decision_id": f"d{number}", "reward": number}).raise_for_status()
    bring(clients[1], clients[0].get("/campaigns/c/export").content)
    models = [client.get("/campaigns/c/model").raise_for_status().json() for client in clients]
    assert models[0]["state_digest"] == models[1]["state_digest"]
    assert clients[1].post("/reward", json={"decision_id": "d3", "reward": 3}).json()["duplicate"] is True
    for client in clients:
        client.close()


def test_sqlite_has_none(sqlite_database: str) -> None:
    """A file would be made without what was asked for."""
    done = prudent("migrate", "--partitions", "4", "--database-url", sqlite_database)
    assert done.returncode == 2
    assert "SQLite has no partitions" in done.stderr
    refused = prudent("migrate", "--partitions", "1", "--database-url", sqlite_database)
    assert (refused.returncode, "2<=x<=256" in refused.stderr) == (2, True)


def test_the_command_says_what_it_has_done(postgres_database: str) -> None:
    """An operator would not know whether the tables were moved."""
    for _ in range(2):
        done = prudent("migrate", "--partitions", "4", "--database-url", postgres_database)
        assert (done.returncode, "in 4 partitions each" in done.stdout) == (0, True), done.stderr
    refused = prudent("migrate", "--partitions", "8", "--database-url", postgres_database)
    assert (refused.returncode, "has 4 partitions, which cannot become 8" in refused.stderr) == (1, True)
    assert "Traceback" not in refused.stderr
