"""Erasure on several workers, and in the database itself."""

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
import pytest

from prudent.errors import NotFoundError
from prudent.ledger.commands import ChangeCampaign, Correct, Describe, EraseDecisions, Reward, Select
from prudent.ledger.erasing import find_decisions_of
from prudent.ledger.verification import verify
from prudent.settings import Limits
from tests.ledger.conftest import Worker
from tests.ledger.replays import assert_live_equals_replay
from tests.servers import Postgres

STICKY = {"sticky_seconds": 366 * 86_400}
MODEL = {"type": "disjoint", "dimension": 2}


def play(worker: Worker, subject: str, features: list[float], campaign_id: str = "c", arm_id: str | None = None) -> str:
    """A rewarded decision; its id."""
    made = worker.one(Select(campaign_id, subject=subject, context=np.array(features), chosen_arm_id=arm_id))
    worker.one(Reward(None, features[0], campaign_id=campaign_id, subject=subject))
    return str(made.row.decision_id)


def erase(worker: Worker, subject: str) -> Any:
    ids = find_decisions_of(worker.read.connect, "c", subject)
    return worker.administer(EraseDecisions("c", ids or []))


@pytest.mark.parametrize("algorithm", ["linucb", "linucb-cr", "linucb-onepass-cr"])
def test_every_worker_forgets(make_worker: Callable[..., Worker], algorithm: str) -> None:
    """A worker that has learned of the person would go on as if nothing had happened, or take the log for another."""
    limits = Limits(snapshot_observations=2)
    first, second = make_worker(limits), make_worker(limits)
    first.create("c", assignment=STICKY, model=MODEL, algorithm={"name": algorithm})
    for number in range(8):
        play((first, second)[number % 2], f"u{number}", [float(number), 1.0])
    last = play(second, "last", [99.0, 1.0])
    for worker in (first, second):
        worker.one(Describe("c"))
    receipt = erase(first, "last")  # the last row that either has learned
    assert (receipt.decisions, receipt.rows) == (1, 1)
    (refused,) = second.run(Reward(last, 99.0))
    assert isinstance(refused, NotFoundError)
    reports = [worker.one(Describe("c")) for worker in (first, second)]
    assert reports[0].arms == reports[1].arms
    erase(second, "u3")
    for worker in (first, second):
        play(worker, f"new {id(worker)}", [1.0, 1.0])
    assert_live_equals_replay(first)
    assert_live_equals_replay(second)
    assert [(one.digest, one.faults) for one in verify(first.read, deep=True)] == [("unbroken", [])]


def test_a_paused_campaign_forgets_as_well(make_worker: Callable[..., Worker]) -> None:
    """Its state would keep the person for as long as the pause lasts."""
    first, second = make_worker(), make_worker()
    first.create("c", assignment=STICKY, model=MODEL)
    for number in range(4):
        play(first, f"u{number}", [float(number), 1.0])
    first.administer(ChangeCampaign("c", status="paused"))
    before = [worker.one(Describe("c")).arms for worker in (first, second)]
    erase(first, "u2")
    after = [worker.one(Describe("c")).arms for worker in (first, second)]
    assert after[0] == after[1]
    assert after != before
    assert_live_equals_replay(first)
    assert_live_equals_replay(second)
    first.administer(ChangeCampaign("c", status="active"))
    assert_live_equals_replay(first)


def test_nothing_is_left_in_the_files(
    make_worker: Callable[..., Worker], database_url: str, postgres: Postgres
) -> None:
    """Whoever gets a backup could read what was to be forgotten, or see it in what was learned."""
    worker = make_worker(Limits(snapshot_observations=1))
    for name in ("c", "twin"):
        worker.create(name, assignment=STICKY, model=MODEL, algorithm={"name": "linucb"})
    secret = [-123.456789, 0.987654321]
    for name in ("c", "twin"):
        play(worker, "kept", [1.0, 2.0], name, "a")
        if name == "c":
            decision_id = play(worker, "somebody@example.org", secret, name, "a")
        play(worker, "kept, too", [3.0, 2.0], name, "a")
    correction = Correct(decision_id, secret[1], "somebody called about it")
    worker.administer(correction)
    traces = {
        "subject": b"somebody@example.org",
        "digest": decision_id[-32:].encode(),
        "features": np.array(secret).tobytes(),
        "words": correction.reason.encode(),
    }
    assert traces_in(database_url, postgres, traces) == {"digest", "features", "words"}  # the subject itself never is
    assert described(worker, "c") != described(worker, "twin")
    erase(worker, "somebody@example.org")
    assert described(worker, "c") == described(worker, "twin")
    assert_live_equals_replay(worker)
    assert [one.faults for one in verify(worker.read, deep=True)] == [[], []]
    worker.stop()
    assert traces_in(database_url, postgres, traces) == set()


def described(worker: Worker, campaign_id: str) -> tuple[Any, ...]:
    """What a campaign has learned."""
    report = worker.one(Describe(campaign_id))
    return report.arms, report.center, report.noise_scale, report.parameter_bound


def traces_in(database_url: str, postgres: Postgres, traces: dict[str, bytes]) -> set[str]:
    """Which of these are in the database's files, once it was vacuumed."""
    if database_url.startswith("sqlite"):
        content = _vacuumed_file(database_url.removeprefix("sqlite:///"))
    else:
        content = _vacuumed_folder(database_url, postgres)
    return {name for name, trace in traces.items() if trace in content}


def _vacuumed_file(path: str) -> bytes:
    copy = Path(f"{path}.copy")
    with contextlib.closing(sqlite3.connect(path)) as source:
        source.execute("VACUUM INTO ?", (str(copy),))
    content = copy.read_bytes()
    copy.unlink()
    return content


def _vacuumed_folder(database_url: str, postgres: Postgres) -> bytes:
    """The files of the database's own folder: all but the write-ahead log, which PostgreSQL recycles."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("VACUUM FULL")
        connection.execute("CHECKPOINT")  # until then the files from before the vacuum are kept
        found = connection.execute("SELECT oid FROM pg_database WHERE datname = current_database()").fetchone()
    assert found is not None
    return b"".join(path.read_bytes() for path in (postgres.data / "base" / str(found[0])).iterdir() if path.is_file())


def test_plays_of_the_warm_up_are_those_that_are_left(worker: Worker) -> None:
    """An arm would count as tried because of somebody who has never been there."""
    worker.create("c", assignment=STICKY, algorithm={"name": "linucb", "warmup": 1})
    first = worker.one(Select("c", subject="u")).row
    assert worker.one(Select("c", "d1")).row.arm_id != first.arm_id
    erase(worker, "u")
    again = worker.one(Select("c", "d2")).row
    assert (again.arm_id, again.reason) == (first.arm_id, "warmup")


def test_a_snapshot_of_before_is_not_written_afterwards(make_worker: Callable[..., Worker]) -> None:
    """A worker that has not looked at a paused campaign since would bring the person back when it stops."""
    first, second = make_worker(), make_worker(Limits(snapshot_observations=1))
    first.create("c", assignment=STICKY, model=MODEL)
    for number in range(4):
        play(first, f"u{number}", [float(number), 1.0])
    first.administer(ChangeCampaign("c", status="paused"))
    before = second.one(Describe("c")).arms
    erase(first, "u2")
    second.stop()
    third = make_worker()
    assert third.one(Describe("c")).arms == first.one(Describe("c")).arms
    assert third.one(Describe("c")).arms != before
    assert_live_equals_replay(third)
