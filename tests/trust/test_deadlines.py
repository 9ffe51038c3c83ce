"""Default rewards: learned exactly once, by the deadline and not by the sweep, whoever comes first."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection, text

from prudent.clock import steady_clock
from prudent.errors import LateRewardError
from prudent.ledger.commands import Describe, Expire, Reward, Select
from prudent.ledger.outcomes import RewardReceipt
from prudent.ledger.verification import verify
from prudent.settings import Limits
from prudent.store import campaigns
from tests.ledger.conftest import Worker
from tests.promises import Promise

TIMEOUT_SECONDS = 60.0
MICROSECONDS = 1_000_000
START = 1_700_000_000 * MICROSECONDS
HOUR = 3_600 * MICROSECONDS
MakeWorker = Callable[..., Worker]


class Time:
    """A clock that the test sets; on Postgres it stands in for the database's own."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += round(seconds * MICROSECONDS)


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Time:
    """Passed in on SQLite. The database's clock cannot be set, so on Postgres what is read of it is replaced."""
    clock = Time()
    read = campaigns.read_standings

    def standings(connection: Connection, keys: Any) -> Any:
        return {key: one._replace(now=clock()) for key, one in read(connection, keys).items()}

    monkeypatch.setattr(campaigns, "read_standings", standings)
    monkeypatch.setattr(campaigns, "read_clock", lambda _: clock())
    return clock


def create(worker: Worker, **changes: Any) -> None:
    reward = {"timeout_seconds": TIMEOUT_SECONDS, "default": -1.0}
    worker.create("c", reward=reward, algorithm={"name": "linucb", "warmup": 0}, **changes)


def learned(worker: Worker) -> list[tuple[str, float, str]]:
    statement = "SELECT decision_id, reward, source FROM observations ORDER BY decision_id"
    with worker.read.connect() as connection:
        return [(row[0], row[1], row[2]) for row in connection.execute(text(statement))]


def quiet(make: MakeWorker, clock: Callable[[], int], monkeypatch: pytest.MonkeyPatch) -> Worker:
    """A worker whose sweep never runs by itself."""
    monkeypatch.setattr("prudent.ledger.ledger.MAINTENANCE_SECONDS", 3_600.0)
    return make(Limits(), clock)


@pytest.mark.parametrize(("seconds", "punctual"), [(0, True), (59.999999, True), (60, False), (1e6, False)])
def test_the_deadline_decides_and_not_the_sweep(
    make_worker: MakeWorker,
    now: Time,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    punctual: bool,
) -> None:
    """Whether a reward counts would depend on when a chore ran last."""
    worker = quiet(make_worker, now, monkeypatch)
    create(worker)
    worker.one(Select("c", "d"))
    now.pass_by(seconds)
    (outcome,) = worker.run(Reward("d", 0.5))
    assert isinstance(outcome, RewardReceipt if punctual else LateRewardError)
    assert learned(worker) == [("d", 0.5, "reward") if punctual else ("d", -1.0, "default")]


def test_the_sweep_of_two_workers_and_a_late_reward_race(
    make_worker: MakeWorker,
    now: Time,
    monkeypatch: pytest.MonkeyPatch,
    promise: Promise,
) -> None:
    """Each of them may come first; together they must teach each default once."""
    workers = [quiet(make_worker, now, monkeypatch) for _ in range(2)]
    create(workers[0])
    ids = [f"d{number:02d}" for number in range(40)]
    workers[0].run(*(Select("c", name) for name in ids))
    now.pass_by(TIMEOUT_SECONDS)
    outcomes: list[list[Any]] = [[], [], []]

    def race(place: int) -> None:
        for name in ids if place else reversed(ids):
            command = Reward(name, 0.5) if place == 2 else Expire("c", name)
            outcomes[place] += workers[place % 2].run(command)

    threads = [threading.Thread(target=race, args=(place,)) for place in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = learned(workers[0])
    name = workers[0].write.dialect.name
    promise("defaults", f"{name}: 2 workers and late rewards race for {len(ids)} deadlines: {len(found)} learned")
    assert found == [(name, -1.0, "default") for name in ids]
    assert {type(one) for one in outcomes[2]} == {LateRewardError}
    assert outcomes[0] == outcomes[1] == [None] * len(ids)
    assert workers[1].one(Describe("c")).observations == len(ids)
    assert not [fault for one in verify(workers[0].read) for fault in one.faults]


def test_without_a_default_a_late_reward_is_learned(
    make_worker: MakeWorker,
    now: Time,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The timeout then only says that nobody waits for it any more."""
    worker = quiet(make_worker, now, monkeypatch)
    worker.create("c", reward={"timeout_seconds": TIMEOUT_SECONDS})
    worker.one(Select("c", "d"))
    now.pass_by(TIMEOUT_SECONDS + 1)
    assert worker.run(Expire("c", "d")) == [None]
    assert learned(worker) == []
    assert worker.one(Reward("d", 0.5)).learned
    assert learned(worker) == [("d", 0.5, "reward")]


def test_deadlines_hold_over_a_restart(
    make_worker: MakeWorker,
    now: Time,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A deployment would lengthen every deadline, or forget it."""
    first = quiet(make_worker, now, monkeypatch)
    create(first)
    first.run(Select("c", "late"), Select("c", "punctual"))
    now.pass_by(TIMEOUT_SECONDS / 2)
    first.stop()
    second = quiet(make_worker, now, monkeypatch)
    assert second.one(Reward("punctual", 0.5)).learned
    assert second.ledger._maintenance.run() == []
    now.pass_by(TIMEOUT_SECONDS / 2)
    assert second.ledger._maintenance.run() == [Expire("c", "late")]
    second.run(Expire("c", "late"))
    assert learned(second) == [("late", -1.0, "default"), ("punctual", 0.5, "reward")]
    assert second.ledger._maintenance.run() == []


@pytest.mark.parametrize("jump", [-HOUR, 24 * HOUR])
def test_setting_the_wall_clock_moves_no_deadline(
    make_worker: MakeWorker,
    monkeypatch: pytest.MonkeyPatch,
    jump: int,
) -> None:
    """W47. A time server's correction would expire every pending decision at once, or none for an hour."""
    wall, elapsed = Time(), Time()
    clock = steady_clock(lambda: wall() * 1_000, lambda: elapsed() * 1_000)
    worker = quiet(make_worker, clock, monkeypatch)
    if worker.write.dialect.name != "sqlite":
        pytest.skip("on Postgres the database's clock decides; see the next test")
    create(worker)
    worker.run(Select("c", "punctual"), Select("c", "late"))
    wall.now += jump
    elapsed.pass_by(TIMEOUT_SECONDS - 1)
    wall.pass_by(TIMEOUT_SECONDS - 1)
    assert worker.one(Reward("punctual", 0.5)).learned
    elapsed.pass_by(1)
    assert isinstance(worker.run(Reward("late", 0.5))[0], LateRewardError)
    restarted = steady_clock(lambda: wall() * 1_000, lambda: elapsed() * 1_000)
    assert restarted() == wall()  # a restart takes the wall clock's word again


@pytest.mark.parametrize("jump", [-HOUR, 24 * HOUR])
def test_on_postgres_a_workers_clock_does_not_matter(
    make_worker: MakeWorker,
    monkeypatch: pytest.MonkeyPatch,
    jump: int,
) -> None:
    """Two machines whose clocks differ would disagree about every deadline."""
    true_clock = steady_clock()
    workers = [quiet(make_worker, clock, monkeypatch) for clock in (true_clock, lambda: true_clock() + jump)]
    if workers[0].write.dialect.name != "postgresql":
        pytest.skip("one process serves a SQLite file")
    create(workers[0])
    for number, selecting in enumerate(workers):
        selecting.one(Select("c", f"d{number}"))
        for asked in workers:
            assert asked.ledger._maintenance.run() == []
        assert workers[1 - number].one(Reward(f"d{number}", 0.5)).learned
    with workers[0].write.begin() as connection:
        shifted = "UPDATE decisions SET due_at = created_at + :timeout WHERE decision_id = 'd0'"
        connection.execute(text(shifted), {"timeout": 0})
    for asked in workers:
        assert asked.ledger._maintenance.run() == [Expire("c", "d0")]
