"""PgBouncer between the service and PostgreSQL, in each of its modes."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Literal

import pytest
from sqlalchemy import text

from prudent.store.engines import create_read_engine, create_write_engine, parse_database_url
from tests.conftest import MakeServer, migrate_empty
from tests.machine import missing
from tests.promises import Promise, length
from tests.servers import Postgres, ServerError
from tests.trust.clusters import PgBouncer
from tests.trust.invariants import check, prudent_verify
from tests.trust.load import Load, Record, create_campaigns, send_again
from tests.trust.test_starting import refusal

Mode = Literal["session", "transaction", "statement"]
POOL = {"session": 40, "transaction": 3, "statement": 3}
"""A client of a session pool keeps its connection; in a transaction pool three are shared by twelve."""


@pytest.fixture
def pool(lone_postgres: Postgres) -> Iterator[Callable[[Mode], PgBouncer]]:
    try:
        PgBouncer(lone_postgres, "session", 1).remove()
    except ServerError as error:
        missing(str(error))
    with ExitStack() as stack:

        def start(mode: Mode) -> PgBouncer:
            pooler = PgBouncer(lone_postgres, mode, POOL[mode])
            stack.callback(pooler.remove)
            return pooler

        yield start


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_two_workers_through_a_pooler(
    pool: Callable[[Mode], PgBouncer], mode: Mode, make_server: MakeServer, lone_database: str, promise: Promise
) -> None:
    """F8. At a92648e a session pool is refused, and a transaction pool mixes up prepared statements: 500."""
    url = pool(mode).url(lone_database)
    servers = [make_server(url) for _ in range(2)]
    create_campaigns(servers[0].url)
    record = Record()

    async def run() -> None:
        loads = [Load(server.url, record).run(length("POOLED_SECONDS", 1)) for server in servers]
        await asyncio.gather(*loads)

    asyncio.run(run())
    send_again(servers[0].url, record)
    found = check(lone_database, record)
    promise("poolers", f"{mode}: {record.acknowledged:,} acknowledged by two workers, {dict(record.statuses)}, {found}")
    assert record.acknowledged > 0
    assert not record.wrong_statuses
    assert found.none, found.faults
    for server in servers:
        prudent_verify(lone_database, server.url)


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_limits_hold_in_every_transaction(pool: Callable[[Mode], PgBouncer], mode: Mode, lone_database: str) -> None:
    """A pooler that ignores the startup's settings left writers without a limit on locks, and readers able to write."""
    url = parse_database_url(pool(mode).url(lone_database))
    write, read = create_write_engine(url), create_read_engine(url)
    names = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout", "transaction_read_only")
    try:
        for _ in range(3):
            with write.connect() as one, write.connect() as two, read.connect() as three:
                found = [[c.execute(text(f"SHOW {name}")).scalar() for name in names] for c in (one, two, three)]
            limits = ["500ms", "10s", "2s", "off"]
            assert found == [limits, limits, ["0", "10s", "10s", "on"]]
    finally:
        write.dispose()
        read.dispose()


def test_a_statement_pool_is_refused(pool: Callable[[Mode], PgBouncer], lone_database: str) -> None:
    """It has no transactions: half of a batch could be recorded."""
    migrate_empty(lone_database)
    assert "statement pooling mode" in refusal(pool("statement").url(lone_database))
