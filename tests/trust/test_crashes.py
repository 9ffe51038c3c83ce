"""R1, R8 and R13: servers and databases end under load, at random, and come back."""

import asyncio
import time

import numpy as np
import pytest

from tests.conftest import MakeServer, migrate_empty
from tests.promises import Promise, length
from tests.servers import Postgres, Server, ServerError
from tests.trust.invariants import Findings, check, prudent_verify
from tests.trust.load import Load, Record, create_campaigns, send_again, working

ROUNDS = length("ROUNDS", 4)
STOPS = length("STOPS", 2)
RESTARTS = length("RESTARTS", 2)
ROUND_ACKNOWLEDGED_MIN = 20
LOAD_SECONDS_MAX = 10.0
STOP_SECONDS_MAX = 10.0
RECOVERY_SECONDS_MAX = 5.0
SEED = 20261128


def rounds_of(server: Server, record: Record, rounds: int, end: str) -> tuple[list[Findings], int, float]:
    """Load, then the end, again and again; what was found after each, failed starts, and the longest stop."""
    draw = np.random.default_rng(SEED)
    findings, failed_starts, slowest = [], 0, 0.0

    async def one_round() -> None:
        nonlocal slowest
        enough, deadline = record.acknowledged + ROUND_ACKNOWLEDGED_MIN, time.monotonic() + LOAD_SECONDS_MAX
        async with working(Load(server.url, record)):
            while record.acknowledged < enough and time.monotonic() < deadline:  # however slow the machine is
                await asyncio.sleep(0.01)
            await asyncio.sleep(float(draw.uniform(0.0, 0.5)))
            started = time.monotonic()
            try:
                await asyncio.to_thread(
                    server.kill if end == "kill" else server.stop, *(() if end == "kill" else (30,))
                )
            finally:
                slowest = max(slowest, time.monotonic() - started)

    for number in range(rounds):
        try:
            server.start()
        except ServerError:
            failed_starts += 1
            continue
        if number == 0:
            create_campaigns(server.url)
        send_again(server.url, record)
        asyncio.run(one_round())
        findings.append(check(server.database_url, record))
    return findings, failed_starts, slowest


def total(findings: list[Findings]) -> Findings:
    faults = [fault for one in findings for fault in one.faults]
    return Findings(sum(one.lost for one in findings), sum(one.doubled for one in findings), faults)


def make(make_server: MakeServer, database_url: str) -> Server:
    if database_url.startswith("postgresql"):
        migrate_empty(database_url)
    return make_server(database_url, workers=2, start=False, environment={"PRUDENT_SNAPSHOT_OBSERVATIONS": "50"})


def test_what_is_acknowledged_survives_a_crash(make_server: MakeServer, database_url: str, promise: Promise) -> None:
    """R1. A decision that a client acted on, or a reward that it was thanked for, would be gone or count twice."""
    server, record = make(make_server, database_url), Record()
    findings, failed_starts, _ = rounds_of(server, record, ROUNDS, "kill")
    found = total(findings)
    name = database_url.partition(":")[0]
    promise(
        "R1",
        f"{name}: {ROUNDS} rounds, {record.acknowledged:,} acknowledged: {found}, failed starts {failed_starts}",
    )
    assert found.none, found.faults
    assert failed_starts == 0
    assert record.acknowledged >= ROUND_ACKNOWLEDGED_MIN * ROUNDS
    assert not record.wrong_statuses
    server.start()
    send_again(server.url, record)
    prudent_verify(database_url, server.url)
    assert check(database_url, record).none


def test_a_stop_loses_nothing_and_ends_soon(make_server: MakeServer, database_url: str, promise: Promise) -> None:
    """R13. Each deployment of a new version would cost answers, or hang until it is killed."""
    server, record = make(make_server, database_url), Record()
    findings, failed_starts, slowest = rounds_of(server, record, STOPS, "stop")
    found = total(findings)
    name = database_url.partition(":")[0]
    promise("R13", f"{name}: {STOPS} stops, {record.acknowledged:,} acknowledged: {found}, longest {slowest:.1f} s")
    assert found.none, found.faults
    assert (failed_starts, dict(record.wrong_statuses)) == (0, {})
    assert record.acknowledged >= ROUND_ACKNOWLEDGED_MIN * STOPS
    assert slowest < STOP_SECONDS_MAX
    assert "Traceback" not in server.log()


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_database_restart_is_survived(
    make_server: MakeServer, lone_postgres: Postgres, lone_database: str, promise: Promise, mode: str
) -> None:
    """R8. An update of the database would answer 500, or the service would have to be restarted after it."""
    server, record = make_server(lone_database), Record()
    create_campaigns(server.url)
    recoveries: list[float] = []

    async def run() -> None:
        clock = asyncio.get_running_loop().time
        async with working(Load(server.url, record)):
            for _ in range(RESTARTS):
                await asyncio.sleep(0.5)
                await asyncio.to_thread(lone_postgres.restart, mode)
                back = clock()
                while record.last_success < back and clock() < back + 30:
                    await asyncio.sleep(0.02)
                recoveries.append(clock() - back)

    asyncio.run(run())
    send_again(server.url, record)
    found = check(lone_database, record)
    others = sum(record.wrong_statuses.values())
    promise(
        "R8",
        f"{RESTARTS} {mode} restarts, {record.acknowledged:,} acknowledged: {found}, "
        f"errors other than 503: {others}, longest recovery {max(recoveries):.1f} s",
    )
    assert found.none, found.faults
    assert (others, record.without_retry_after) == (0, 0)
    assert record.statuses[503] > 0
    assert max(recoveries) <= RECOVERY_SECONDS_MAX
    prudent_verify(lone_database, server.url)
