"""A PostgreSQL that reads and does not write: a standby, a demoted primary, a managed server whose disk is full."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest
from sqlalchemy import text

from prudent.ledger.commands import Select
from prudent.ledger.outcomes import Decision
from tests.conftest import MakeServer, migrate_empty
from tests.promises import Promise, length
from tests.servers import Postgres
from tests.trust.clusters import ask
from tests.trust.invariants import check, prudent_verify
from tests.trust.load import Load, Record, create_campaigns, send_again, working
from tests.trust.test_disks import ready
from tests.trust.test_faults import Worker, make_worker_on  # noqa: F401  # a fixture
from tests.trust.test_starting import refusal
from tests.waiting import wait_for

SECONDS_MAX = 2.0


@contextmanager
def read_only(server: Postgres) -> Iterator[None]:
    """As a managed server does it when its disk is full: for the sessions that there are, too."""
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute("ALTER SYSTEM SET default_transaction_read_only = on")
        connection.execute("SELECT pg_reload_conf()")
        try:
            yield
        finally:
            connection.execute("ALTER SYSTEM RESET default_transaction_read_only")
            connection.execute("SELECT pg_reload_conf()")


def seconds_until(condition: Callable[[], bool], what: str) -> float:
    started = time.monotonic()
    wait_for(condition, what)
    return time.monotonic() - started


@pytest.mark.parametrize("busy", [True, False], ids=["under load", "idle"])
def test_a_server_that_is_read_only_for_a_while(
    make_server: MakeServer, lone_postgres: Postgres, lone_database: str, busy: bool, promise: Promise
) -> None:
    """F5. At a92648e: 500 until a restart, on a connection that is kept, and ready 200 all the time."""
    server, record = make_server(lone_database), Record()
    create_campaigns(server.url)
    figures: list[float] = []

    async def run() -> None:
        loads = [Load(server.url, record, clients=4)] if busy else []
        async with working(*loads):
            await asyncio.sleep(0.3)
            with read_only(lone_postgres):
                seconds = await asyncio.to_thread(seconds_until, lambda: not ready(server), "ready though read-only")
                figures.append(seconds)
                await asyncio.sleep(length("READ_ONLY_SECONDS", 1))
                assert not ready(server)
            figures.append(await asyncio.to_thread(seconds_until, lambda: ready(server), "not ready though writable"))
            await asyncio.sleep(0.3)

    asyncio.run(run())
    send_again(server.url, record)
    found = check(lone_database, record)
    promise(
        "read-only",
        f"{'under load' if busy else 'idle'}: statuses {dict(record.statuses)}, unready after {figures[0]:.1f} s, "
        f"ready again after {figures[1]:.1f} s, without a restart, {found}",
    )
    assert not record.wrong_statuses
    assert record.without_retry_after == 0
    assert bool(record.statuses[503]) == busy
    assert found.none, found.faults
    assert max(figures) <= SECONDS_MAX
    prudent_verify(lone_database, server.url)


def test_a_read_only_server_is_refused_at_the_start(lone_postgres: Postgres, lone_database: str) -> None:
    """It would serve reads and answer every write with an error; nobody would look at its database URL."""
    migrate_empty(lone_database)
    with read_only(lone_postgres):
        assert "the database is read-only" in refusal(lone_database)


def test_a_session_that_cannot_write_is_left(
    lone_database: str,
    make_worker_on: Callable[[str], Worker],  # noqa: F811
) -> None:
    """Behind one address a failover leaves the connections to the old server open: they would be used for ever."""
    worker = make_worker_on(lone_database)
    worker.create("c")
    with worker.write.connect() as one, worker.write.connect() as two:  # all of the pool
        for connection in (one, two):
            connection.execute(text("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"))
            connection.commit()
    worker.run(Select("c", "first"))  # finds out
    assert isinstance(worker.run(Select("c", "second"))[0], Decision)
    assert ask(lone_database, "SELECT count(*) FROM decisions WHERE decision_id = 'second'") == "1"
