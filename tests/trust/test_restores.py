"""R16: an older backup is restored under running workers; memory must not be ahead of the database, nor poison it."""

import asyncio
from collections.abc import Callable
from copy import deepcopy

import pytest
from sqlalchemy import text

from prudent.errors import NotFoundError
from prudent.ledger.commands import Describe, Observe, Reward, Select, WarmStart
from prudent.ledger.verification import verify
from prudent.settings import Limits
from tests.conftest import MakeServer
from tests.databases import PARTITIONS
from tests.ledger.conftest import Worker
from tests.promises import Promise, length
from tests.servers import Postgres, Server
from tests.trust.clusters import ask
from tests.trust.invariants import Findings, check, prudent_verify
from tests.trust.load import Load, Record, create_campaigns, send_again, working
from tests.trust.test_disks import ready
from tests.trust.test_faults import make_worker_on  # noqa: F401  # a fixture
from tests.waiting import wait_for

SNAPSHOTS = Limits(snapshot_observations=100)


def restore_in_place(postgres: Postgres, url: str, dump: str) -> None:
    """Into the database that is served: tables are dropped and created, connections stay."""
    if PARTITIONS:
        pytest.skip("pg_restore --clean cannot drop what a partition has of its table's key")
    postgres.program("pg_restore", "--clean", "--if-exists", "--single-transaction", f"--dbname={url}", dump)


def restore_as_new(postgres: Postgres, url: str, dump: str) -> None:
    """Into a new database, which then gets the name of the old one, whose connections are ended."""
    name = url.rpartition("/")[2]
    fresh = postgres.create_database()
    postgres.program("pg_restore", f"--dbname={fresh}", dump)
    ask(postgres.url(), f'DROP DATABASE "{name}" WITH (FORCE)')
    ask(postgres.url(), f'ALTER DATABASE "{fresh.rpartition("/")[2]}" RENAME TO "{name}"')


@pytest.mark.parametrize("restore", [restore_in_place, restore_as_new])
def test_a_restore_under_load(
    make_server: MakeServer,
    lone_postgres: Postgres,
    lone_database: str,
    restore: Callable[[Postgres, str, str], None],
    promise: Promise,
) -> None:
    """F6. At a92648e workers answer from memory for decisions that are gone, and log rewards without decisions."""
    environment = {"PRUDENT_SNAPSHOT_OBSERVATIONS": "20"}
    servers = [make_server(lone_database, environment=environment) for _ in range(2)]
    create_campaigns(servers[0].url)
    folder = lone_postgres.directory / "restores"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    dump = f"{folder}/{lone_database.rpartition('/')[2]}.dump"
    record, total, lost = Record(), Findings(), 0
    for _ in range(length("RESTORES", 1)):
        safe = asyncio.run(_restore_under_load(servers, record, lone_postgres, lone_database, dump, restore))
        wait_for(lambda: all(ready(server) for server in servers), "not ready though the backup is restored")
        send_again(servers[0].url, record, gone=True)
        found = check(lone_database, safe)
        lost += check(lone_database, record).lost
        total.lost, total.doubled = total.lost + found.lost, total.doubled + found.doubled
        total.faults += found.faults
        for server in servers:
            prudent_verify(lone_database, server.url)
        record = Record(numbers=record.numbers, statuses=record.statuses)
    promise(
        "R16",
        f"{restore.__name__.replace('_', ' ')}: of what the backup has {total}; {lost} acknowledged after it are gone; "
        f"statuses {sorted(record.statuses)}; both workers equal to the replay, no reward without its decision",
    )
    assert total.none, total.faults
    assert set(record.statuses) <= {200, 404, 503}
    assert lost > 0, "nothing was acknowledged between the backup and its restore: this shows nothing"
    wait_for(lambda: any("restored or failed over" in server.log() for server in servers), "no worker says it")


async def _restore_under_load(
    servers: list[Server],
    record: Record,
    postgres: Postgres,
    url: str,
    dump: str,
    restore: Callable[[Postgres, str, str], None],
) -> Record:
    """Load on both workers all the time; what was acknowledged when the backup began."""
    async with working(*(Load(server.url, record, clients=4) for server in servers)):
        await asyncio.sleep(0.5)
        safe = deepcopy((record.decisions, record.rewards))
        await asyncio.to_thread(postgres.program, "pg_dump", "--format=custom", f"--file={dump}", url)
        await asyncio.sleep(0.5)
        await asyncio.to_thread(restore, postgres, url, dump)
        await asyncio.sleep(0.5)
    return Record(decisions=safe[0], rewards=safe[1])


def test_a_decision_that_was_taken_back_is_not_rewarded(
    make_worker_on: Callable[[str], Worker],  # noqa: F811
    lone_database: str,
) -> None:
    """A worker remembers its decisions until their rewards; the reward would be logged, and belong to nothing."""
    worker = make_worker_on(lone_database)
    worker.create("c")
    worker.one(Select("c", "kept"))
    with worker.write.begin() as connection:
        connection.execute(text("CREATE TABLE backup AS SELECT * FROM decisions"))
    worker.one(Select("c", "lost"))
    with worker.write.begin() as connection:
        connection.execute(text("TRUNCATE decisions"))
        connection.execute(text("INSERT INTO decisions SELECT * FROM backup"))
    (outcome,) = worker.run(Reward("lost", 1.0))
    assert isinstance(outcome, NotFoundError), outcome
    assert [verdict.faults for verdict in verify(worker.read)] == [[]]


def forget_the_tail(worker: Worker, sequence: int) -> None:
    """What a restore does to a log, without anything that would show it but the log itself."""
    with worker.write.begin() as connection:
        connection.execute(text("DELETE FROM observations WHERE sequence > :last"), {"last": sequence})
        connection.execute(text("UPDATE heads SET head = :last"), {"last": sequence})


def teach(worker: Worker, rewards: list[float]) -> None:
    worker.one(Observe("c", [WarmStart("a", reward) for reward in rewards]))


def test_another_tail_of_the_log_is_noticed(make_worker: Callable[..., Worker]) -> None:
    """F6. Another worker has gone on with the restored log: the state would be of rows that exist nowhere."""
    first, second = make_worker(), make_worker()
    first.create("c")
    teach(first, [0.1] * 10)
    teach(first, [9.0] * 5)
    forget_the_tail(first, 10)
    teach(second, [0.2] * 8)
    assert first.one(Describe("c")).state_digest == second.one(Describe("c")).state_digest


def test_a_state_ahead_of_the_log_leaves_no_snapshot(make_worker: Callable[..., Worker]) -> None:
    """R15. Between a failover and the next batch a worker may find a snapshot due, of rows that exist nowhere."""
    worker = make_worker(SNAPSHOTS)
    worker.create("c")
    teach(worker, [0.1] * 50)
    teach(worker, [9.0] * 60)
    forget_the_tail(worker, 50)
    worker.stop()
    (verdict,) = verify(worker.read)
    assert (verdict.snapshot, verdict.faults) == ("none", [])


def test_a_snapshot_of_another_log_is_not_used(make_worker: Callable[..., Worker]) -> None:
    """F6. A wrong state would come back at each start, although the log is right."""
    first = make_worker(SNAPSHOTS)
    first.create("c")
    teach(first, [0.1] * 50)
    teach(first, [9.0] * 60)
    first.stop()  # writes the snapshot at 110
    forget_the_tail(first, 50)
    second = make_worker()  # which writes no snapshot so soon
    teach(second, [0.2] * 80)
    expected = second.one(Describe("c")).state_digest
    (verdict,) = verify(second.read)
    assert (verdict.snapshot, verdict.faults) == ("of another log: ignored", [])
    second.stop()
    third = make_worker(SNAPSHOTS)
    assert third.one(Describe("c")).state_digest == expected
    third.stop()
    (verdict,) = verify(third.read)
    assert verdict.faults == []


def test_verify_finds_rewards_without_decisions(worker: Worker) -> None:
    """F6. At a92648e it says ok: an auditor would take what belongs to nothing for evidence."""
    worker.create("c")
    worker.run(Select("c", "d"), Select("c", "e"))
    worker.run(Reward("d", 1.0), Reward("e", 1.0))
    assert [verdict.faults for verdict in verify(worker.read)] == [[]]
    with worker.write.begin() as connection:
        connection.execute(text("DELETE FROM decisions WHERE decision_id = 'd'"))
    assert [verdict.faults for verdict in verify(worker.read)] == [["1 rewards name a decision that is not there"]]
