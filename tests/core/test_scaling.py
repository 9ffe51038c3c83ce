"""Centres and scales come from the first observations, and are a function of the log's beginning."""

import numpy as np
import pytest
from numpy.typing import NDArray

from prudent.core.confidence import ConfidenceSettings
from prudent.core.encoding import Encoder, Feature, encoder
from prudent.core.estimators import ExactMinimizer, OnePass, Ridge
from prudent.core.estimators.estimator import Estimator
from prudent.core.measures import ExpectileLoss, Mean
from prudent.core.policy import Policy
from prudent.core.scaling import MILESTONES, NORMAL_RANGE, center_and_scale

FEATURES = [Feature("age", "number", None, None), Feature("plan", "category", positions=2, has_other=True)]
ESTIMATORS = ["ridge", "one-pass", "exact", "exact until 40"]


def fresh(kind: str, blocks: int) -> Estimator:
    """An estimator for five columns."""
    if kind == "ridge":
        return Ridge(blocks, 5, 1.0)
    if kind == "one-pass":
        return OnePass(ExpectileLoss(0.2), blocks, 5, 1.0, None, 4)
    return ExactMinimizer(ExpectileLoss(0.2), blocks, 5, 1.0, None)


def policy(kind: str = "ridge") -> Policy:
    """A disjoint policy of two arms whose number has an unknown scale."""
    return Policy(
        measure=Mean(),
        estimator=fresh(kind, 2),
        feature_map=encoder(FEATURES),
        confidence=ConfidenceSettings(
            regularization=1.0,
            delta=0.05,
            noise_scale=None,
            parameter_bound=None,
            feature_bound=1.0,
            bonus="local-tight",
            conditioning=None,
            radius="per-arm",
            linear=kind == "ridge",
        ),
        exploration=1.0,
        blocks_at_creation=2,
        arms=2,
        centred=True,
        fresh_estimator=lambda blocks: fresh(kind, blocks),
        keeps_seen=True,
        exact_until=40 if "until" in kind else None,
    )


def rows(count: int, seed: int = 5) -> list[tuple[int, NDArray[np.float64], float]]:
    """Observations with ages around 45."""
    random = np.random.default_rng(seed)
    ages, plans = random.normal(45.0, 15.0, count), random.integers(0, 3, count)
    rewards = 0.1 * (ages - 45.0) + plans + random.normal(0.0, 0.1, count)
    return [(i % 2, np.array([ages[i], plans[i]]), float(rewards[i])) for i in range(count)]


def learn(learner: Policy, observed: list[tuple[int, NDArray[np.float64], float]]) -> Policy:
    """Observe all of them."""
    for block, row, reward in observed:
        learner.observe(block, row, reward, block)
    return learner


def state_of(learner: Policy) -> list[bytes]:
    """What a caller can see of it, as bytes."""
    learner.refresh()
    assert isinstance(learner.feature_map, Encoder)
    seen = learner.seen
    assert seen is not None
    scores = learner.score(np.array([50.0, 1.0]), np.array([0, 1]))
    parts = (learner.parameters(), learner.feature_map.center, learner.feature_map.scale, scores.estimates)
    counts = (scores.bonuses, seen.low, seen.high, seen.others, np.array(learner.floor_counts.weighed))
    return [part.tobytes() for part in parts + counts]


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("count", [1, 3, 5, 24, 95, 96, 130])
def test_undoing_returns_to_the_same_bytes(kind: str, count: int) -> None:
    """A transaction that fails after a milestone would leave a state that no replay gives."""
    observed = rows(count + 60)
    learner, other = learn(policy(kind), observed[:count]), learn(policy(kind), observed[:count])
    expected = state_of(other)
    learner.mark()
    learn(learner, observed[count:])
    learner.restore()
    assert state_of(learner) == expected
    assert state_of(learn(learner, observed[count:])) == state_of(learn(other, observed[count:]))


@pytest.mark.parametrize("count", [0, 2, 7, 96, 120])
def test_a_snapshot_goes_on_as_if_there_had_been_no_break(count: int) -> None:
    """A restart in between would change what is learned."""
    observed = rows(count + 100)
    learner, loaded = learn(policy(), observed[:count]), policy()
    data = learner.dump()
    assert data is not None
    loaded.load(data)
    assert loaded.dump() == data
    learn(learner, observed[count:])
    learn(loaded, observed[count:])
    assert learner.dump() == loaded.dump()


def test_the_frozen_scale_is_that_of_the_first_rows() -> None:
    """Later observations would change what earlier weights mean."""
    observed = rows(300)
    learner = learn(policy(), observed)
    assert isinstance(learner.feature_map, Encoder)
    ages = np.array([row[0] for _, row, _ in observed[: MILESTONES[-1]]])
    low, middle, high = np.percentile(ages, [25, 50, 75])
    assert learner.feature_map.center[0] == middle
    assert learner.feature_map.scale[0] == (high - low) / NORMAL_RANGE
    assert learner.estimator.observations == 300


def test_learning_again_gives_what_known_scales_give() -> None:
    """Rewards from before a milestone would be learned in another unit than those after it."""
    observed = rows(96)
    learner = learn(policy(), observed)
    assert isinstance(learner.feature_map, Encoder)
    known = policy()
    known.scaling = None
    known.feature_map = learner.feature_map
    learn(known, observed)
    assert np.array_equal(learner.parameters(), known.parameters())
    assert learner.center == known.center


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([7.0, 7.0, 7.0], (7.0, 1.0)),
        ([0.0, 0.0, 0.0, 0.0, 10.0], (0.0, 4.0)),
        ([1.0, 2.0, 3.0], (2.0, 1.0 / NORMAL_RANGE)),
        ([], (0.0, 1.0)),
        ([1e15, 1e15 + 0.125], (1e15 + 0.125 / 2, 1e6)),
    ],
)
def test_scales_of_odd_values(values: list[float], expected: tuple[float, float]) -> None:
    """A constant, or a number that is nearly always 0, would be divided by nothing."""
    assert center_and_scale(np.array(values)) == pytest.approx(expected)


def test_counts_say_what_was_missing_and_other() -> None:
    """A category that the schema lacks would go unnoticed."""
    learner = policy()
    for value, plan in ((40.0, 0.0), (np.nan, 1.0), (60.0, 0.0), (50.0, np.nan)):
        learner.observe(0, np.array([value, plan]), 1.0, 0)
    seen = learner.seen
    assert seen is not None
    assert seen.missing.tolist() == [1, 1]
    assert seen.others.tolist() == [0, 2]
    assert (seen.low[0], seen.high[0]) == (40.0, 60.0)
