"""A database that is locked, gone, stalled, or held by a frozen worker: 503 where it concerns you, nowhere else."""

import contextlib
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import psutil
import psycopg
import pytest

from prudent.ledger.commands import Select
from prudent.ledger.outcomes import Decision
from prudent.settings import Limits
from prudent.store.engines import create_write_engine, parse_database_url
from prudent.store.postgres import LimitedConnection
from prudent.store.schema import migrate as migrate_schema
from tests.conftest import MakeServer
from tests.ledger.conftest import Worker
from tests.promises import Promise, length
from tests.servers import Postgres, Server
from tests.trust.invariants import check, prudent_verify
from tests.trust.load import Record, create_campaigns, send_again
from tests.trust.test_disks import ready
from tests.waiting import wait_for

pytestmark = pytest.mark.slow


def post(server: Server, path: str, **body: Any) -> httpx.Response:
    return httpx.post(server.url + path, json=body, timeout=60, trust_env=False)


def get(server: Server, path: str) -> int:
    return httpx.get(server.url + path, timeout=60, trust_env=False).status_code


def assert_refused(reply: httpx.Response) -> None:
    assert reply.status_code == 503, reply.text
    assert int(reply.headers["retry-after"]) >= 1
    assert reply.headers["content-type"] == "application/problem+json"


def test_a_locked_sqlite_file(make_server: MakeServer, sqlite_database: str, promise: Promise) -> None:
    """W17. A backup script that holds the lock would turn every request into a 500."""
    server = make_server(sqlite_database)
    create_campaigns(server.url)
    other = sqlite3.connect(sqlite_database.removeprefix("sqlite:///"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    reply = post(server, "/select", campaign_id="ridge", decision_id="d")
    reads = [get(server, "/campaigns/ridge"), get(server, "/health/live")]
    unready = not ready(server)
    other.execute("ROLLBACK")
    other.close()
    wait_for(lambda: ready(server), "not ready though the lock is free")
    promise("faults", f"sqlite locked: {reply.status_code}, reads {reads}, unready {unready}, ready again")
    assert_refused(reply)
    assert reads == [200, 200]
    assert unready
    assert post(server, "/select", campaign_id="ridge", decision_id="d").status_code == 200


def test_a_postgres_that_is_gone(
    make_server: MakeServer, lone_postgres: Postgres, lone_database: str, promise: Promise
) -> None:
    """A crash of the database must be told as what it is, and be over when it is over."""
    server = make_server(lone_database)
    create_campaigns(server.url)
    lone_postgres.kill()
    try:
        replies = [
            post(server, "/select", campaign_id="ridge", decision_id="d"),
            post(server, "/campaigns", campaign_id="new", risk={"measure": "mean"}, model={"type": "multi-armed"}),
            httpx.get(f"{server.url}/campaigns", timeout=60, trust_env=False),
        ]
        unready, live = not ready(server), get(server, "/health/live")
    finally:
        lone_postgres.start()
    wait_for(lambda: ready(server), "not ready though the database is back")
    promise(
        "faults",
        f"postgresql gone: {[reply.status_code for reply in replies]}, unready {unready}, live {live}, ready again",
    )
    for reply in replies:
        assert_refused(reply)
    assert (unready, live) == (True, 200)
    assert post(server, "/select", campaign_id="ridge", decision_id="d").status_code == 200


@contextlib.contextmanager
def stopped(processes: list[psutil.Process]) -> Iterator[None]:
    """SIGSTOP, and SIGCONT at the end."""
    for process in processes:
        process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGCONT)


def test_a_postgres_that_stalls(
    make_server: MakeServer, lone_postgres: Postgres, lone_database: str, promise: Promise
) -> None:
    """W50. Its connections stay open, so nothing but a clock can tell: requests would wait for ever."""
    server, record = make_server(lone_database, environment={"PRUDENT_ANSWER_SECONDS_MAX": "2"}), Record()
    create_campaigns(server.url)
    assert lone_postgres.process is not None
    main = psutil.Process(lone_postgres.process.pid)
    with stopped([main, *main.children()]):
        body = {"campaign_id": "ridge", "decision_id": "d0000001"}
        reply = post(server, "/select", **body)
        record.note(("/select", body), reply)
        unready, live = not ready(server), get(server, "/health/live")
        time.sleep(length("STALL_SECONDS", 0))
    started = time.monotonic()
    wait_for(lambda: ready(server), "not ready though the database goes on")
    seconds = time.monotonic() - started
    send_again(server.url, record)
    found = check(lone_database, record)
    promise(
        "faults",
        f"postgresql stalled: {reply.status_code}, unready {unready}, live {live}, recovery {seconds:.1f} s, {found}",
    )
    assert_refused(reply)
    assert "the outcome was not known in time" in reply.json()["detail"]  # the setting decides, not the connection
    assert (unready, live) == (True, 200)
    assert found.none, found.faults
    assert seconds <= 5


@pytest.fixture
def lone_worker(lone_database: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Worker]:
    monkeypatch.setattr(LimitedConnection, "seconds_max", 1.0)
    engine = create_write_engine(parse_database_url(lone_database))
    migrate_schema(engine)
    engine.dispose()
    worker = Worker(lone_database, Limits(), lambda: 0)
    worker.ledger.start()
    yield worker
    worker.stop()


def test_one_connection_that_stalls_is_given_up(lone_worker: Worker) -> None:
    """A proxy that forgets one connection, and takes new ones, would hold up a worker until it is restarted."""
    lone_worker.create("c")
    with lone_worker.write.connect() as connection:
        pid = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
    outcomes: list[Any] = []
    with stopped([psutil.Process(pid)]):
        outcomes += lone_worker.run(Select("c", "d"))
    assert isinstance(outcomes[0], Decision), outcomes


FROZEN = """
SELECT count(*) FROM pg_stat_activity JOIN pg_locks USING (pid)
WHERE state = 'idle in transaction' AND datname = current_database() AND relation = 'heads'::regclass
AND mode = 'RowShareLock'
"""


def freeze_inside_a_transaction(server: Server, database_url: str) -> psutil.Process:
    """Stop a server that has locked a campaign and not committed yet."""
    assert server.process is not None
    process = psutil.Process(server.process.pid)
    stop = threading.Event()

    def teach(place: int) -> None:
        number = 0
        with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as http:
            while not stop.is_set():
                name, number = f"frozen{place}-{number}", number + 1
                http.post("/select", json={"campaign_id": "exact", "decision_id": name})
                http.post("/reward", json={"decision_id": name, "reward": 0.5})

    threads = [threading.Thread(target=teach, args=(place,), daemon=True) for place in range(4)]
    for thread in threads:
        thread.start()
    try:
        with psycopg.connect(database_url, autocommit=True) as watcher:
            for _ in range(500):
                process.send_signal(signal.SIGSTOP)
                time.sleep(0.02)  # what the database was doing for it ends
                row = watcher.execute(FROZEN).fetchone()
                if row is not None and row[0]:
                    return process
                process.send_signal(signal.SIGCONT)
                time.sleep(0.01)
    finally:
        stop.set()
    raise AssertionError("the server was never caught inside a transaction")


def test_one_worker_frozen_inside_its_transaction(
    make_server: MakeServer, lone_database: str, promise: Promise
) -> None:
    """Other campaigns, on the healthy worker, must go on; the frozen one's must be free again soon."""
    frozen, healthy = make_server(lone_database), make_server(lone_database)
    create_campaigns(healthy.url)
    for name in ("ridge", "exact"):
        post(healthy, "/select", campaign_id=name, decision_id=f"{name}-before")
    process = freeze_inside_a_transaction(frozen, lone_database)
    try:
        batch = [{"decision_id": f"{name}-before", "reward": 0.5} for name in ("exact", "ridge")]
        mixed = post(healthy, "/reward/batch", items=batch).json()["items"]
        others = []
        for number in range(10):
            others.append(post(healthy, "/select", campaign_id="ridge", decision_id=f"r{number}").status_code)
            others.append(post(healthy, "/reward", decision_id=f"r{number}", reward=0.5).status_code)
        # an id that the frozen worker may have written already, uncommitted, and one that is free
        wait_for(
            lambda: post(healthy, "/reward", decision_id="exact-before", reward=0.5).status_code == 200,
            "the campaign of the frozen worker stays locked",
        )
        is_ready = ready(healthy)
    finally:
        process.send_signal(signal.SIGCONT)
    wait_for(lambda: ready(frozen), "the worker that was frozen is not ready")
    after = post(frozen, "/select", campaign_id="exact", decision_id="thawed").status_code
    found = check(lone_database, Record())
    statuses = [item["status"] for item in mixed]
    promise(
        "faults",
        f"one worker frozen: its campaign {statuses[0]}, another in the same batch {statuses[1]}, "
        f"others {sorted(set(others))}, afterwards {after}, {found}",
    )
    assert statuses[0] in {200, 503}
    assert statuses[1] == 200
    assert set(others) == {200}
    assert is_ready
    assert after == 200
    assert found.none, found.faults
    prudent_verify(lone_database, frozen.url)


def test_waiting_for_anothers_id_concerns_that_command_alone(
    lone_database: str, make_worker_on: Callable[[str], Worker]
) -> None:
    """Two workers insert the same decision, and the first is slow: what shares the second's batch must not suffer."""
    first = make_worker_on(lone_database)
    for name in ("c", "other"):
        first.create(name, algorithm={"name": "linucb", "warmup": 0})
    first.run(Select("c"), Select("other"))
    with first.write.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO decisions SELECT 'taken', key, arm_id, features, estimate, bonus, index_value, reason, "
            "greedy_arm_id, recommended_arm_id, propensity, seen, request_digest, explanation, created_at, due_at "
            "FROM decisions LIMIT 1"
        )
        outcomes = first.run(Select("other", "d1"), Select("c", "taken"), Select("other", "d2"))
        connection.rollback()
    assert [type(one).__name__ for one in outcomes] == ["Decision", "CampaignBusyError", "Decision"]


@pytest.fixture
def make_worker_on() -> Iterator[Callable[[str], Worker]]:
    made: list[Worker] = []

    def make(database_url: str) -> Worker:
        engine = create_write_engine(parse_database_url(database_url))
        migrate_schema(engine)
        engine.dispose()
        worker = Worker(database_url, Limits(), lambda: 0)
        worker.ledger.start()
        made.append(worker)
        return worker

    yield make
    for worker in made:
        worker.stop()
