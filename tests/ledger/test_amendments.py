"""Corrections, restarts and forgetting: the log says them, and every worker and every replay learns the same."""

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from prudent.campaigns import AlgorithmChange
from prudent.errors import ConflictError, InvalidCommandError, NotFoundError
from prudent.ledger.commands import Author, ChangeCampaign, Correct, Describe, RestartCampaign, Reward, Select
from prudent.settings import Limits
from prudent.store import log
from tests.ledger.conftest import Worker
from tests.ledger.replays import assert_live_equals_replay
from tests.promises import length

ESTIMATORS = {
    "linucb": {"name": "linucb"},
    "linucb-cr": {"name": "linucb-cr"},
    "linucb-onepass-cr": {"name": "linucb-onepass-cr"},
}
MEASURES = {
    "linucb": {"measure": "mean"},
    "linucb-cr": {"measure": "expectile", "level": 0.2},
    "linucb-onepass-cr": {"measure": "cvar", "level": 0.25},
}
CORRECTIONS = length("CORRECTIONS", 300)
every = pytest.mark.parametrize("name", ESTIMATORS)


def correct(worker: Worker, decision_id: str, reward: float | None, reason: str = "checked") -> Any:
    return asyncio.run(worker.ledger.correct(Correct(decision_id, reward, reason), Author("ann", "API")))


def play(worker: Worker, name: str, rewards: list[float], *, first: int = 0) -> None:
    """A decision for each reward, by an application that chooses itself, so that two campaigns see the same."""
    for start in range(0, len(rewards), 500):
        part = rewards[start : start + 500]
        ids = [f"{name}-{first + start + place}" for place in range(len(part))]
        arms = ["ab"[(first + start + place) % 2] for place in range(len(part))]
        worker.run(*(Select(name, one, chosen_arm_id=arm) for one, arm in zip(ids, arms, strict=True)))
        worker.run(*(Reward(one, value) for one, value in zip(ids, part, strict=True)))


def learned(worker: Worker, name: str) -> np.ndarray[Any, Any]:
    """The parameters and bonuses' scale of a campaign."""
    model = worker.one(Describe(name))
    return np.array([arm.theta[0] for arm in model.arms] + [model.noise_scale])


@every
def test_a_thousand_corrections_are_as_if_they_had_been_so(make_worker: Callable[..., Worker], name: str) -> None:
    """A data team repairs its rewards, on two workers; the campaign must be the one it would have been.

    A thousand in `make trust`, among twenty thousand rewards.
    """
    rng = np.random.default_rng(7)
    repairs = CORRECTIONS if name == "linucb" else CORRECTIONS // 10
    pairs = 10 * repairs
    right = rng.normal([1.0, 0.5] * pairs)
    wrong = right.copy()
    places = rng.choice(2 * pairs, repairs, replace=False)
    wrong[places] += rng.normal(5.0, 3.0, repairs)
    one, other = make_worker(), make_worker()
    for campaign in ("wrong", "right"):
        one.create(campaign, risk=MEASURES[name], algorithm=ESTIMATORS[name])
    play(one, "right", right.tolist())
    play(one, "wrong", wrong.tolist())
    before = learned(other, "wrong")
    for order, place in enumerate(places.tolist()):
        receipt = correct((one, other)[order % 2], f"wrong-{place}", float(right[place]), reason=f"repair {order}")
        assert (receipt.original, receipt.previous, receipt.duplicate) == (wrong[place], wrong[place], False)
    expected = learned(one, "right")
    assert not np.allclose(before, expected, rtol=1e-3)
    for worker in (one, other):
        np.testing.assert_allclose(learned(worker, "wrong"), expected, rtol=1e-9)
    with one.read.connect() as connection:
        rows = log.read_rows(connection, 1, 0, 30_000, 30_000)
    assert len(rows) == 2 * pairs + repairs
    corrections = [row for row in rows if row.kind == "correction"]
    assert sorted(row.detail or "" for row in corrections) == sorted(f"repair {order}" for order in range(repairs))
    assert [row.reward for row in rows[: 2 * pairs]] == wrong.tolist()
    assert log.find_changed(rows, None) == []
    assert_live_equals_replay(other)


def test_a_reward_that_is_taken_back_was_never_learned(make_worker: Callable[..., Worker]) -> None:
    """An outcome of another customer's order must not stay in the estimate."""
    one, other = make_worker(), make_worker()
    one.create("c")
    play(one, "c", [1.0, 2.0, 50.0, 2.0])
    other.one(Describe("c"))
    assert correct(one, "c-2", None).reward is None
    play(other, "c", [3.0], first=4)
    one.create("d")
    play(one, "d", [1.0, 2.0])
    one.run(Select("d", "d-x", chosen_arm_id="b"), Select("d", "d-y", chosen_arm_id="a"))
    one.run(Reward("d-x", 2.0), Reward("d-y", 3.0))
    np.testing.assert_allclose(learned(one, "c"), learned(other, "d"), rtol=1e-12)
    assert correct(other, "c-2", 50.0).previous is None  # and it can come back
    assert_live_equals_replay(one)


def test_what_cannot_be_corrected_is_refused(worker: Worker) -> None:
    """A correction of nothing would be believed to have been made."""
    worker.create("c", reward={"minimum": 0.0, "maximum": 1.0})
    play(worker, "c", [0.5])
    worker.run(Select("c", "waits"))
    with pytest.raises(ConflictError, match="no reward yet"):
        correct(worker, "waits", 0.5)
    with pytest.raises(NotFoundError):
        correct(worker, "unknown", 0.5)
    with pytest.raises(InvalidCommandError, match="at most 1"):
        correct(worker, "c-0", 2.0)
    head = worker.one(Describe("c")).head
    assert correct(worker, "c-0", 0.5).duplicate
    assert not correct(worker, "c-0", 0.75).duplicate
    again = correct(worker, "c-0", 0.75)
    assert (again.duplicate, again.sequence, again.original) == (True, head + 1, 0.5)
    assert worker.one(Describe("c")).head == head + 1
    with pytest.raises(InvalidCommandError, match="at most 2"):
        worker.administer(RestartCampaign("c", 3))


def test_a_restart_leaves_out_what_came_before(make_worker: Callable[..., Worker]) -> None:
    """The advice where the world has changed: the old rewards must not pull at the estimates any more."""
    one, other = make_worker(), make_worker()
    one.create("c")
    play(one, "c", [9.0, 9.0, 1.0, 2.0])
    other.one(Describe("c"))
    one.administer(RestartCampaign("c", 3))
    one.create("fresh")
    play(one, "fresh", [1.0, 2.0])
    for worker in (one, other):
        np.testing.assert_allclose(learned(worker, "c"), learned(worker, "fresh"), rtol=1e-12)
    one.administer(RestartCampaign("c", 1))  # all of it again
    assert learned(other, "c")[0] > 2.0
    assert_live_equals_replay(other)


@every
def test_forgetting_is_replayed_over_a_change_and_a_restart(make_worker: Callable[..., Worker], name: str) -> None:
    """A server that starts again, or verifies, must not come to another state than the one that served."""
    limits = Limits(snapshot_observations=100)
    one, other = make_worker(limits), make_worker(limits)
    forgetting = {"half_life": 100}
    one.create("c", risk=MEASURES[name], algorithm={**ESTIMATORS[name], "forgetting": forgetting})
    one.create("plain", risk=MEASURES[name], algorithm=ESTIMATORS[name])
    rng = np.random.default_rng(3)
    for part, half_life in enumerate((None, 40, None, 1_000)):
        rewards = rng.normal([2.0 - part, 1.0] * 150).tolist()
        play(one if part % 2 else other, "c", rewards, first=300 * part)
        play(one, "plain", rewards, first=300 * part)
        change = AlgorithmChange.model_validate({"forgetting": half_life and {"half_life": half_life}})
        for campaign in ("c", "plain"):
            one.administer(ChangeCampaign(campaign, algorithm=change))
        assert_live_equals_replay(other)
    one.ledger.stop()
    third = make_worker(limits)
    play(third, "c", rng.normal(size=10).tolist(), first=1_200)
    assert_live_equals_replay(third)
    assert_live_equals_replay(other)


def test_forgetting_follows_a_world_that_changed(worker: Worker) -> None:
    """What forgetting is for."""
    worker.create("c", algorithm={"name": "linucb", "forgetting": {"half_life": 50}})
    worker.create("plain")
    rewards = [0.0] * 500 + [1.0] * 500
    for campaign in ("c", "plain"):
        play(worker, campaign, rewards)
    assert learned(worker, "c")[0] > 0.98
    assert learned(worker, "plain")[0] < 0.55
