"""The alarm that the world changed: raised alike on every worker and in every replay, and answered by a restart."""

import time
from collections.abc import Callable

import numpy as np
import pytest

from prudent.ledger.commands import Describe, EraseDecisions, RestartCampaign, Reward, Select
from prudent.ledger.outcomes import ArmChange
from prudent.reporting.changes import describe_changes
from prudent.settings import Limits
from tests.ledger.compacted import KEPT, age, beginning, tidy
from tests.ledger.conftest import Worker
from tests.ledger.replays import assert_live_equals_replay
from tests.ledger.test_amendments import ESTIMATORS, MEASURES, play

ALIKE = ("arm_id", "since", "raised", "stands")


def alike(changes: list[ArmChange]) -> list[tuple[object, ...]]:
    return [tuple(getattr(one, name) for name in ALIKE) for one in changes]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_worker_raises_the_same_alarm(make_worker: Callable[..., Worker], name: str) -> None:
    """Two workers, a snapshot and a replay, or the alarm would come and go with the worker that is asked."""
    limits = Limits(snapshot_observations=100)
    one, other = make_worker(limits), make_worker(limits)
    one.create("c", risk=MEASURES[name], algorithm=ESTIMATORS[name])
    rng = np.random.default_rng(8)
    rewards = rng.normal(size=900)
    rewards[500::2] -= 3.0
    for part in range(9):
        play((one, other)[part % 2], "c", rewards[100 * part : 100 * part + 100].tolist(), first=100 * part)
    found = one.one(Describe("c")).changes
    assert [(change.arm_id, change.stands) for change in found] == [("a", True)]
    assert 490 <= found[0].since <= 520
    assert alike(other.one(Describe("c")).changes) == alike(found)
    assert_live_equals_replay(other)
    one.ledger.stop()
    third = make_worker(limits)
    assert alike(third.one(Describe("c")).changes) == alike(found)
    third.administer(RestartCampaign("c", found[0].since))
    assert third.one(Describe("c")).changes == []
    assert other.one(Describe("c")).changes == []
    assert_live_equals_replay(third)


def test_a_change_has_a_date_although_its_rows_have_gone(make_worker: Callable[..., Worker]) -> None:
    """A report would say that the world had changed in 1970."""
    worker = make_worker()
    worker.create("c", **KEPT, assignment={"sticky_seconds": 86_400})
    play(worker, "c", [1.0] * 6)
    made = worker.one(Select("c", subject="ada"))
    worker.one(Reward(made.row.decision_id, 1.0))  # row 7
    worker.administer(EraseDecisions("c", [made.row.decision_id]))
    worker.stop()
    age(worker, "c", 6)
    tidy(worker)
    assert beginning(worker, "c") == 6
    now = time.time()
    with worker.read.connect() as connection:
        for since, days in ((2, 30), (6, 30), (7, 0)):
            change = ArmChange("a", since, raised=8, size=1.0, spread=1.0, stands=False)
            (found,) = describe_changes(connection, 1, [change])
            for at, ago in ((found.since_at, days), (found.raised_at, 0)):
                assert abs(at / 1e6 + ago * 86_400 - now) < 3_600, since
