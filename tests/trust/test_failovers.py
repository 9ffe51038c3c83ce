"""R15: the primary is lost under load and a standby takes over; what two workers hold in memory must follow it."""

import asyncio
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy

import psycopg
import pytest

from prudent.errors import UnknownOutcomeError
from prudent.ledger.commands import Select
from prudent.settings import Limits
from tests.conftest import MakeServer, migrate_empty
from tests.ledger.conftest import Worker
from tests.promises import Promise, length
from tests.servers import Server
from tests.trust.clusters import Pair, ask
from tests.trust.invariants import Findings, check, prudent_verify
from tests.trust.load import Load, Record, create_campaigns, send_again, working
from tests.trust.test_disks import ready
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

LOADED_SECONDS = 0.5
NOT_FOUND = 404
LOSSES = re.compile(r'"(rewards|decisions)_lost": (\d+)')


@pytest.fixture(params=[True, False], ids=["synchronous", "asynchronous"])
def pair(request: pytest.FixtureRequest) -> Iterator[Pair]:
    made = Pair(synchronous=request.param)
    yield made
    made.remove()


def losses(server: Server) -> int:
    """How many rewards and decisions the server says were lost, in all lines of its log."""
    return sum(int(found[1]) for found in LOSSES.findall(server.log_path.read_text(encoding="utf-8")))


async def fail_over_under_load(pair: Pair, servers: list[Server], record: Record, *, lose_tail: bool) -> Record:
    """Load on both workers all the time; what was acknowledged and had reached the standby when it was cut off."""
    async with working(*(Load(server.url, record, clients=4) for server in servers)):
        await asyncio.sleep(LOADED_SECONDS)
        safe = deepcopy((record.decisions, record.rewards))
        if lose_tail:
            await asyncio.to_thread(pair.wait_for_standby)
            await asyncio.to_thread(pair.cut_off)
            await asyncio.sleep(LOADED_SECONDS)
        acknowledged = record.acknowledged
        await asyncio.to_thread(pair.fail_over)
        if not lose_tail:
            safe = deepcopy((record.decisions, record.rewards))
        while record.acknowledged < acknowledged + 20:
            await asyncio.sleep(0.02)
    return Record(decisions=safe[0], rewards=safe[1])


def test_a_standby_takes_over(
    make_server: MakeServer, pair: Pair, request: pytest.FixtureRequest, promise: Promise
) -> None:
    """F6. At a92648e a worker answers from memory for decisions that are gone, and stores a wrong state for good."""
    synchronous = request.node.callspec.params["pair"]
    ask(pair.primary.url(), "CREATE DATABASE prudent")
    migrate_empty(pair.url("prudent"))
    environment = {"PRUDENT_SNAPSHOT_OBSERVATIONS": "20"}
    servers = [make_server(pair.url("prudent"), environment=environment) for _ in range(2)]
    create_campaigns(servers[0].url)
    if not synchronous:
        pair.wait_for_standby()
    numbers, total, tail, said = Record().numbers, Findings(), 0, 0
    statuses: set[int] = set()
    rounds = length("PROMOTIONS", 1)
    for place in range(rounds):
        record = Record(numbers=numbers)
        safe = asyncio.run(fail_over_under_load(pair, servers, record, lose_tail=not synchronous))
        url = pair.url("prudent")
        wait_for(lambda: all(ready(server) for server in servers), "not ready though the standby has taken over")
        send_again(servers[0].url, record, gone=not synchronous)
        found = check(url, safe)
        tail += check(url, record).lost
        total.lost, total.doubled = total.lost + found.lost, total.doubled + found.doubled
        total.faults += found.faults
        statuses |= set(record.statuses)
        for server in servers:
            prudent_verify(url, server.url)
        if place < rounds - 1:
            pair.repair()
    wait_for(lambda: synchronous or any(losses(server) for server in servers), "nobody says what was lost")
    said = max(losses(server) for server in servers)
    kind = "synchronous" if synchronous else "asynchronous"
    promise(
        "R15",
        f"{kind}: {rounds} promotions: of what had reached the standby {total}; lost tail {tail}, "
        f"of which a worker says {said} in its log; statuses {sorted(statuses)}; both workers equal to the replay",
    )
    assert total.none, total.faults
    assert statuses <= ({200, 503} if synchronous else {200, 503, NOT_FOUND})
    assert (tail == 0) if synchronous else (tail > 0)


def test_a_commit_that_no_standby_has_is_not_acknowledged() -> None:
    """PostgreSQL commits with a mere warning when its wait for the standby is cancelled; a failover would lose it."""
    pair = Pair(synchronous=True)
    try:
        ask(pair.primary.url(), "CREATE DATABASE prudent")
        url = pair.primary.url("prudent")
        migrate_empty(url)
        worker = Worker(url, Limits(), lambda: 0)
        worker.ledger.start()
        worker.create("c")
        pair.cut_off()
        with ThreadPoolExecutor(1) as thread:
            answer = thread.submit(worker.run, Select("c", "d"))
            with psycopg.connect(pair.primary.url(), autocommit=True) as connection:
                cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
                wait_for(lambda: bool(connection.execute(cancel).fetchall()), "nobody waits for the standby")
                (outcome,) = answer.result()
        pair.configure("synchronous_standby_names", "")
        worker.stop()
        assert isinstance(outcome, UnknownOutcomeError), outcome
        assert ask(url, "SELECT count(*) FROM decisions") == "1", "it is committed here, and nowhere else"
    finally:
        pair.remove()
