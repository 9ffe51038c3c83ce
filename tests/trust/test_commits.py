"""R6: failures before, at and after the commit, seeded; nobody is told "done" of what is not."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from sqlalchemy import text

from prudent.errors import UnavailableError
from prudent.ledger.commands import Describe, Reward, Select
from prudent.ledger.outcomes import Decision, RewardReceipt
from prudent.ledger.verification import verify
from tests.ledger.conftest import Worker
from tests.promises import Promise, length

RUNS = length("FAIL_POINTS", 60)
"""For each database."""
POINTS = ("statement", "before commit", "commit not done", "commit done", "connection lost")
STATEMENTS_MAX = 9
COMMANDS_MAX = 6
ALGORITHMS = ["linucb", "linucb-cr", "linucb-ogd-cr", "linucb-onepass-cr"]


class FailPoint:
    """Breaks the next transaction of a worker at one place, once."""

    def __init__(self, worker: Worker) -> None:
        self._engine = worker.write
        self._place: str | None = None
        self._countdown = 0
        self.fired = 0
        self._commit = worker.write.dialect.do_commit
        worker.on_statement.append(self._before_statement)
        worker.write.dialect.do_commit = self._do_commit  # type: ignore[method-assign]

    def arm(self, place: str, statements: int) -> None:
        self._place, self._countdown = place, statements

    def _fire(self) -> None:
        self._place = None
        self.fired += 1
        raise self._engine.dialect.loaded_dbapi.OperationalError("made by the test")

    def _before_statement(self, cursor: Any, _statement: str) -> None:
        if self._place not in {"statement", "connection lost"}:
            return
        self._countdown -= 1
        if self._countdown == 0:
            if self._place == "connection lost":
                self._place = None
                self.fired += 1
                cursor.connection.close()
                return
            self._fire()

    def _do_commit(self, connection: Any) -> None:
        place = self._place
        if place == "before commit":
            self._place = None
            self.fired += 1
            connection.rollback()
            raise OSError("made by the test")
        if place == "commit not done":
            self._fire()
        self._commit(connection)
        if place == "commit done":
            self._fire()


@pytest.fixture
def breakable(make_worker: Callable[..., Worker]) -> tuple[Worker, FailPoint]:
    worker = make_worker()
    for name in ALGORITHMS:
        risk = {"measure": "mean"} if name == "linucb" else {"measure": "expectile", "level": 0.2}
        worker.create(name, algorithm={"name": name, "warmup": 0}, risk=risk)
    worker.run(*(Select(name) for name in ALGORITHMS))
    return worker, FailPoint(worker)


def commands_of(run: int, draw: np.random.Generator) -> list[Select | Reward]:
    commands: list[Select | Reward] = []
    for number in range(int(draw.integers(1, COMMANDS_MAX))):
        name = f"d{run}-{number}"
        commands.append(Select(ALGORITHMS[int(draw.integers(len(ALGORITHMS)))], name))
        if draw.random() < 0.7:
            commands.append(Reward(name, float(np.round(draw.standard_normal(), 3))))
    return commands


def acknowledged_falsely(worker: Worker, outcomes: list[Any]) -> int:
    """How many successes another connection does not see."""
    with worker.read.connect() as connection:
        decided, rewarded = (
            {row[0] for row in connection.execute(text(f"SELECT decision_id FROM {table}"))}  # noqa: S608
            for table in ("decisions", "observations")
        )
    lost = [one for one in outcomes if isinstance(one, Decision) and one.row.decision_id not in decided]
    lost += [one for one in outcomes if isinstance(one, RewardReceipt) and one.decision_id not in rewarded]
    return len(lost)


def test_a_success_is_committed(breakable: tuple[Worker, FailPoint], promise: Promise) -> None:
    """R6. A client would act on a decision that a failing disk has already forgotten."""
    worker, point = breakable
    draw = np.random.default_rng(6)
    false, successes, refusals = 0, 0, 0
    for run in range(RUNS):
        commands = commands_of(run, draw)
        point.arm(POINTS[run % len(POINTS)], int(draw.integers(1, STATEMENTS_MAX)))
        outcomes = worker.run(*commands)
        false += acknowledged_falsely(worker, outcomes)
        successes += sum(isinstance(one, Decision | RewardReceipt) for one in outcomes)
        refusals += sum(isinstance(one, UnavailableError) for one in outcomes)
        point.arm("", 0)
        again = worker.run(*commands)  # the same commands are safe, whatever has happened
        assert not [one for one in again if isinstance(one, Exception)]
        assert len(outcomes) == len(commands)
    verdicts = list(verify(worker.read, lambda name: asdict(worker.one(Describe(name)))))
    name = worker.write.dialect.name
    promise(
        "R6",
        f"{name}: {RUNS:,} runs, {point.fired:,} failures, {successes:,} acknowledged, {refusals:,} refused: "
        f"false acknowledgements {false}",
    )
    assert false == 0
    assert point.fired > RUNS * 0.8
    assert refusals > RUNS
    assert [fault for one in verdicts for fault in one.faults] == []
