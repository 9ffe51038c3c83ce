"""R10 and F9: tables and rows that others hold: 503 for whom it concerns, and a readiness that tells the truth."""

import asyncio
import secrets
import time

import httpx
import numpy as np
import psutil
import psycopg
import pytest

from tests.conftest import MakeServer
from tests.promises import Promise, length
from tests.servers import Postgres
from tests.trust.invariants import check, prudent_verify
from tests.trust.load import Load, Record, create_campaigns, send_again, working
from tests.trust.test_disks import ready
from tests.trust.test_faults import assert_refused, get, post, stopped
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

HELD_SECONDS_MAX = 1.5
"""Shorter than what ends an idle transaction of a worker."""


WRITES = {
    "decisions": ("/select", {"campaign_id": "ridge", "decision_id": "d"}),
    "observations": ("/reward", {"decision_id": "before", "reward": 0.5}),
}


@pytest.mark.parametrize("table", WRITES)
def test_a_table_that_somebody_has_locked(
    make_server: MakeServer, lone_database: str, table: str, promise: Promise
) -> None:
    """F9. An index that is built, or a forgotten console: at a92648e every write is 503, and the worker says ready."""
    server, idle = make_server(lone_database), make_server(lone_database)
    create_campaigns(server.url)
    assert post(server, "/select", campaign_id="ridge", decision_id="before").status_code == 200
    path, body = WRITES[table]
    with psycopg.connect(lone_database) as other:
        other.execute(f"LOCK TABLE {table} IN SHARE MODE".encode())
        refused = post(server, path, **body)
        reads = [get(server, "/campaigns/ridge"), get(server, "/health/live")]
        for one in (server, idle):
            wait_for(lambda one=one: not ready(one), "ready though nothing can be written")
        other.rollback()
    for one in (server, idle):
        wait_for(lambda one=one: ready(one), "not ready though the lock is gone")
    again = post(server, path, **body).status_code
    promise(
        "faults",
        f"{table} locked: {refused.status_code}, reads {reads}, a busy and an idle worker unready, afterwards {again}",
    )
    assert_refused(refused)
    assert reads == [200, 200]
    assert again == 200


def test_pressure_of_locks(make_server: MakeServer, lone_database: str, promise: Promise) -> None:
    """R10. Reports, backups and consoles lock rows and tables: only who waits for too long may be refused."""
    servers, record = [make_server(lone_database) for _ in range(2)], Record()
    create_campaigns(servers[0].url)
    seed = secrets.randbits(32)
    print(f"seed {seed}")  # noqa: T201
    chance = np.random.default_rng(seed)
    seconds = length("LOCK_SECONDS", 3)
    locks = (
        "SELECT * FROM heads FOR UPDATE",
        "SELECT * FROM campaigns FOR UPDATE",
        "SELECT * FROM decisions ORDER BY decision_id DESC LIMIT 50 FOR UPDATE",
        "LOCK TABLE observations IN SHARE MODE",
        "LOCK TABLE decisions IN ACCESS EXCLUSIVE MODE",
    )

    def press(stop: float) -> int:
        count = 0
        with psycopg.connect(lone_database) as other:
            other.execute("SET lock_timeout = '1s'")
            other.commit()
            while time.monotonic() < stop:
                try:
                    other.execute(str(chance.choice(locks)).encode())
                    count += 1
                    time.sleep(chance.random() * HELD_SECONDS_MAX)
                except psycopg.errors.LockNotAvailable:
                    pass
                other.rollback()
                time.sleep(chance.random() * 0.2)
        return count

    async def run() -> int:
        loads = [Load(server.url, record, clients=4).run(seconds) for server in servers]
        pressing = asyncio.to_thread(press, time.monotonic() + seconds)
        *_, count = await asyncio.gather(*loads, pressing)
        return count

    count = asyncio.run(run())
    for server in servers:
        wait_for(lambda server=server: ready(server), "not ready though nothing is locked")
    send_again(servers[0].url, record)
    found = check(lone_database, record)
    promise("R10", f"{count} locks in {seconds} s, statuses {dict(record.statuses)}, {found}")
    assert count > 0
    assert record.statuses[200] > 0
    assert not record.wrong_statuses
    assert found.none, found.faults
    for server in servers:
        prudent_verify(lone_database, server.url)


def stall(server: Postgres, seconds: float) -> None:
    """Stop the server with all its processes for a while."""
    assert server.process is not None
    main = psutil.Process(server.process.pid)
    with stopped([main, *main.children()]):
        time.sleep(seconds)


def test_a_database_that_stalls_again_and_again(
    make_server: MakeServer, lone_postgres: Postgres, lone_database: str, promise: Promise
) -> None:
    """R9. A disk that pauses under the database: requests wait or get 503, and nothing is lost or left behind."""
    server, record = make_server(lone_database, environment={"PRUDENT_ANSWER_SECONDS_MAX": "2"}), Record()
    create_campaigns(server.url)
    recoveries = []

    async def run() -> None:
        async with working(Load(server.url, record, clients=4)):
            for _ in range(length("STALLS", 1)):
                await asyncio.sleep(0.3)
                await asyncio.to_thread(stall, lone_postgres, length("STALL_ROUND_SECONDS", 4))
                started, before = time.monotonic(), record.acknowledged
                while record.acknowledged == before:
                    assert time.monotonic() < started + 60, "nothing is acknowledged any more"
                    await asyncio.sleep(0.02)
                recoveries.append(time.monotonic() - started)

    asyncio.run(run())
    send_again(server.url, record)
    found = check(lone_database, record)
    with psycopg.connect(lone_database) as watcher:
        query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'prudent' AND state LIKE 'idle in%'"
        wait_for(lambda: watcher.execute(query).fetchone() == (0,), "transactions are left open")
    promise(
        "R9",
        f"{len(recoveries)} stalls, statuses {dict(record.statuses)}, longest recovery {max(recoveries):.1f} s, "
        f"{found}, transactions left open 0",
    )
    assert record.statuses[503] > 0
    assert not record.wrong_statuses
    assert found.none, found.faults
    assert httpx.get(f"{server.url}/health/ready", trust_env=False).status_code == 200
