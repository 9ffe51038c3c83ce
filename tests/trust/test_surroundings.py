"""F9: a slow machine, a database of another encoding, no memory, a parent that is gone."""

import os
import resource
import signal
import subprocess
import sys
import time

import httpx
import psutil
import psycopg
import pytest
from sqlalchemy import text

from prudent.store.engines import IDLE_IN_TRANSACTION_TIMEOUT_MS, create_write_engine, parse_database_url
from tests.conftest import MakeServer
from tests.promises import Promise
from tests.servers import ROOT, Postgres, clean_environment
from tests.trust.clusters import ask
from tests.trust.load import create_campaigns
from tests.trust.test_disks import ready
from tests.trust.test_faults import assert_refused, post
from tests.trust.test_starting import refusal
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

ROOM_BYTES = 16 * 2**20
LARGE = {
    "campaign_id": "large",
    "risk": {"measure": "mean"},
    "model": {"type": "disjoint", "dimension": 190},
    "algorithm": {"name": "linucb"},
    "arms": [{"arm_id": f"a{place}"} for place in range(100)],
}
MIGRATING = (
    "SELECT 1 FROM pg_stat_activity JOIN pg_locks USING (pid)"
    " WHERE state = 'idle in transaction' AND datname = %s AND locktype = 'advisory' AND granted"
)


def migration(database_url: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "prudent", "migrate", "--database-url", database_url],
        cwd=ROOT,
        env=clean_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_a_migration_that_pauses(lone_postgres: Postgres, lone_database: str) -> None:
    """A slow or suspended machine would find its migration ended by the limit on idle transactions, each time."""
    process = migration(lone_database)
    name = lone_database.rpartition("/")[2]
    with psycopg.connect(lone_postgres.url(), autocommit=True) as watcher:
        wait_for(lambda: watcher.execute(MIGRATING, (name,)).fetchone() is not None, "the migration was not seen")
    process.send_signal(signal.SIGSTOP)
    time.sleep(IDLE_IN_TRANSACTION_TIMEOUT_MS / 1000 + 0.5)
    process.send_signal(signal.SIGCONT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, said
    assert "schema migrated" in said


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_that_cannot_hold_every_text_is_refused(lone_postgres: Postgres, encoding: str) -> None:
    """At a92648e it is migrated and served, until a name does not fit (500) or comes back as bytes."""
    name = f"encoded_{encoding.lower()}"
    ask(lone_postgres.url(), f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0")
    url = lone_postgres.url(name)
    said, _ = migration(url).communicate(timeout=60)
    assert f"encoding is {encoding}" in said
    assert ask(url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == "0"
    assert f"encoding is {encoding}" in refusal(url)
    lone_postgres.drop_database(url)


def test_text_is_utf8_whatever_the_environment_says(lone_database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable is PostgreSQL's own, and some administrators set it for everybody."""
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    engine = create_write_engine(parse_database_url(lone_database))
    with engine.connect() as connection:
        assert connection.execute(text("SELECT :sent"), {"sent": "δ → ∞"}).scalar() == "δ → ∞"
    engine.dispose()


def test_memory_that_is_exhausted(make_server: MakeServer, sqlite_database: str, promise: Promise) -> None:
    """F9. At a92648e: 500, and the states that fill the memory stay, so that nothing else can be served either."""
    server = make_server(sqlite_database)
    create_campaigns(server.url)
    for name in ("ridge", "exact"):
        assert post(server, "/select", campaign_id=name, decision_id=f"{name}-before").status_code == 200
    assert post(server, "/campaigns", **LARGE).status_code == 201
    assert server.process is not None
    process, unlimited = psutil.Process(server.process.pid), (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    process.rlimit(resource.RLIMIT_AS, (process.memory_info().vms + ROOM_BYTES, resource.RLIM_INFINITY))
    context = [0.01 * place for place in range(190)]
    refused = post(server, "/select", campaign_id="large", decision_id="l", context=context)
    others = [post(server, "/select", campaign_id=name, decision_id=f"{name}-after") for name in ("ridge", "exact")]
    wait_for(lambda: ready(server), "not ready though others are served")
    process.rlimit(resource.RLIMIT_AS, unlimited)
    later = post(server, "/select", campaign_id="large", decision_id="l", context=context)
    codes = [refused.status_code, [reply.status_code for reply in others], later.status_code]
    promise("faults", f"memory exhausted: {codes[0]}, other campaigns {codes[1]}, with more memory {codes[2]}")
    assert_refused(refused)
    assert codes[1:] == [[200, 200], 200]
    assert "states were dropped" in server.log()


def test_workers_end_with_their_parent(make_server: MakeServer, lone_database: str, promise: Promise) -> None:
    """F9. Nobody could stop or replace them, and they would keep the port and the database's connections."""
    server = make_server(lone_database, workers=2)
    assert server.process is not None
    workers = psutil.Process(server.process.pid).children(recursive=True)
    assert len(workers) >= 2
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait()
    started = time.monotonic()
    _, alive = psutil.wait_procs(workers, timeout=30)
    seconds = time.monotonic() - started
    promise("faults", f"the parent killed: {len(workers)} processes ended after {seconds:.1f} s, {len(alive)} left")
    assert not alive
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{server.url}/health/live", trust_env=False)
