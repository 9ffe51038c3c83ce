"""Which arm is chosen, and why; and a state that can be marked, restored, dumped and loaded."""

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from prudent.core.confidence import ConfidenceSettings
from prudent.core.encoding import FeatureMap
from prudent.core.estimators import Estimator, ExactMinimizer, OnePass, OnlineGradient, Ridge
from prudent.core.exploration import Choice, ExplorationRule, Scores, Standing, choose
from prudent.core.measures import Expectile, Mean, Measure
from prudent.core.policy import Policy
from prudent.core.snapshot import CorruptSnapshotError


def scores(estimates: list[float], bonuses: list[float] | float = 0.0) -> Scores:
    first = np.array(estimates)
    second = np.broadcast_to(np.asarray(bonuses, dtype=np.float64), first.shape)
    return Scores(first, second, second)


def pick(
    found: Scores, plays: list[int | None] | None = None, warmup: int = 0, explore: bool = True, seed: str = "d"
) -> Choice:
    counts = plays if plays is not None else [10] * len(found.estimates)
    return choose(found, ExplorationRule(warmup=warmup), Standing(plays=counts), explore=explore, seed=(0, seed))


def test_the_first_reason_that_applies_is_given() -> None:
    """An application reads the reason to know whether a choice was an exploration."""
    optimistic = scores([1.0, 0.0], [0.1, 5.0])
    assert pick(scores([1.0])).reason == "only-arm"
    assert pick(optimistic, explore=False).reason == "greedy"
    assert pick(optimistic, [1, 5], warmup=2).reason == "warmup"
    assert pick(optimistic).reason == "index"
    assert pick(scores([1.0]), [0], warmup=2, explore=False).reason == "only-arm"


def test_the_best_index_is_chosen_and_the_best_estimate_reported() -> None:
    """Choosing by estimate would never explore; choosing the worst would be a sign error."""
    choice = pick(scores([1.0, 0.0], [0.1, 5.0]))
    assert (choice.position, choice.greedy_position, choice.propensity) == (1, 0, 1.0)
    assert pick(scores([1.0, 0.0], [0.1, 5.0]), explore=False).position == 0


def test_warmup_takes_the_least_played_and_skips_arms_without_plays() -> None:
    """Every registered arm gets its plays before the index decides; unregistered ones need none."""
    found = scores([0.0, 9.0, 1.0, 2.0])
    assert pick(found, [2, 1, None, 4], warmup=3).position == 1
    assert pick(found, [3, 3, None, 3], warmup=3).reason == "index"
    assert choose(found, ExplorationRule(warmup=3), Standing(), explore=True, seed=(0, "d")).reason == "index"


def test_ties_are_broken_uniformly_and_repeatably() -> None:
    """Arm order must not decide, and another worker must decide the same."""
    found = scores([1.0, 0.5, 1.0 + 1e-12, 1.0])
    picks = Counter(pick(found, seed=f"d{n}").position for n in range(3000))
    assert set(picks) == {0, 2, 3}
    assert all(900 < count < 1100 for count in picks.values()), picks
    assert pick(found).propensity == pytest.approx(1 / 3)
    assert [pick(found, seed=f"d{n}").position for n in range(50)] == [
        pick(found, seed=f"d{n}").position for n in range(50)
    ]


@pytest.mark.parametrize("unit", [1e-12, 1.0, 1e6])
def test_ties_do_not_depend_on_the_unit_of_rewards(unit: float) -> None:
    """With an absolute tolerance all arms would tie for rewards in tiny units, and nothing would be learned."""
    assert pick(scores([0.6 * unit, 0.5 * unit], 0.01 * unit)).propensity == 1.0
    assert pick(scores([0.6 * unit, 0.6 * unit * (1 + 1e-12)], 0.01 * unit)).propensity == 0.5
    assert pick(scores([0.0, 0.0])).propensity == 0.5


def test_features_are_centred_scaled_and_given_an_intercept() -> None:
    """A forgotten centre or a constant in the wrong place would change what every parameter means."""
    mapped = FeatureMap(np.array([50.0, 0.0]), np.array([10.0, 2.0]), intercept=True)(np.array([[60.0, 1.0]]))
    np.testing.assert_array_equal(mapped, [[1.0, 0.5, 1.0]])
    assert FeatureMap(np.zeros(0), np.ones(0), intercept=True)(np.zeros(0)).tolist() == [1.0]


MEASURE = Expectile(0.1)
LOSS = MEASURE.loss
PLAIN: dict[str, tuple[Measure, Callable[[int], Estimator]]] = {
    "ridge": (Mean(), lambda blocks: Ridge(blocks, 3, 1.0)),
    "exact": (MEASURE, lambda blocks: ExactMinimizer(LOSS, blocks, 3, 1.0, None)),
    "exact until 33": (MEASURE, lambda blocks: ExactMinimizer(LOSS, blocks, 3, 1.0, None)),
    "online": (MEASURE, lambda blocks: OnlineGradient(LOSS, blocks, 3, 1.0, None, 1.0, 5, "theory", 0.1, 8)),
    "onepass": (MEASURE, lambda blocks: OnePass(LOSS, blocks, 3, 1.0, None, 8)),
}
ESTIMATORS = [*PLAIN, *(f"{kind}, centred" for kind in PLAIN)]


def policy(kind: str, blocks: int) -> Policy:
    measure, make = PLAIN[kind.removesuffix(", centred")]
    return Policy(
        measure=measure,
        estimator=make(blocks),
        feature_map=FeatureMap(np.zeros(2), np.ones(2), intercept=True),
        confidence=ConfidenceSettings(1.0),
        exploration=1.0,
        blocks_at_creation=blocks,
        arms=blocks,
        centred=kind.endswith("centred"),
        exact_until=33 if "until" in kind else None,
    )


def teach(learner: Policy, count: int, seed: int = 0) -> None:
    draw = np.random.default_rng(seed)
    for _ in range(count):
        block = int(draw.integers(len(learner.estimator.theta)))
        learner.observe(block, draw.standard_normal(2), float(draw.standard_normal()))


def score(learner: Policy) -> list[list[float]]:
    blocks = np.arange(len(learner.estimator.theta))
    found = learner.score(np.array([0.3, -0.2]), blocks)
    return [found.estimates.tolist(), found.bonuses.tolist()]


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_restore_returns_to_the_mark(kind: str) -> None:
    """After a rolled-back batch the next decision must be as if the batch had never run."""
    learner = policy(kind, 2)
    teach(learner, 30)
    before = score(learner)
    learner.mark()
    teach(learner, 10, seed=1)
    score(learner)
    learner.observe(0, np.array([30.0, 0.0]), 1.0)
    assert learner.features_above_bound > 30
    learner.restore()
    assert score(learner) == before
    assert learner.features_above_bound <= 30


def test_a_reward_that_repeats_the_arms_lowest_counts_little_for_the_floor() -> None:
    """An arm that pays seldom would look known after ten zeros, and never be found again."""
    learner = policy("ridge", 2)
    for reward in (0.0, 0.0, 0.0):
        learner.observe(0, np.ones(2), reward, 0)
    assert learner.floor_counts.weighed == pytest.approx([1.0 + 2 / 5, 0.0])  # it may be constant
    learner.observe(0, np.ones(2), 10.0, 0)
    assert learner.floor_counts.weighed == pytest.approx([2.0 + 2 / 12, 0.0])  # it pays seldom
    assert learner.floor_counts.counts == [4, 0]
    careful = policy("ridge", 1)
    for reward in (0.9, 0.9, 0.9, -1.0, 0.9):
        careful.observe(0, np.ones(2), reward, 0)
    assert careful.floor_counts.weighed == [5.0]  # what it pays seldom is worse, so nothing is missed
    learner.mark()
    learner.observe(1, np.ones(2), 5.0, 1)
    learner.restore()
    dumped = learner.dump()
    assert dumped is not None
    loaded = policy("ridge", 2)
    loaded.load(dumped)
    for known in (learner, loaded):
        for arm, reward in ((0, 0.0), (1, 7.0), (1, 7.0)):
            known.observe(arm, np.ones(2), reward, arm)
        assert known.floor_counts.weighed == pytest.approx([2.0 + 3 / 12, 1.2])


@pytest.mark.parametrize("kind", [kind for kind in ESTIMATORS if not kind.startswith("exact")])
@pytest.mark.parametrize("count", [0, 5, 8, 33])
def test_a_loaded_state_goes_on_to_the_last_bit(kind: str, count: int) -> None:
    """A restart from a snapshot must change no later decision (B19, B20)."""
    original = policy(kind, 2)
    teach(original, count)
    dumped = original.dump()
    assert dumped is not None
    loaded = policy(kind, 2)
    loaded.load(dumped)
    for learner in (original, loaded):
        teach(learner, 40, seed=9)
    assert loaded.dump() == original.dump()
    assert score(loaded) == score(original)


def test_the_exact_minimiser_is_rebuilt_from_the_log() -> None:
    """A snapshot that stands in the database by mistake would stop the worker that loads it, or be believed."""
    exact, ridge = policy("exact", 2), policy("ridge", 2)
    teach(exact, 20)
    before = score(exact)
    assert exact.dump() is None
    dumped = ridge.dump()
    assert dumped is not None
    with pytest.raises(CorruptSnapshotError, match="no snapshots"):
        exact.load(dumped)
    assert score(exact) == before


@pytest.mark.parametrize("kind", [kind for kind in ESTIMATORS if not kind.startswith("exact")])
def test_the_dump_does_not_depend_on_when_the_state_was_asked(kind: str) -> None:
    """A replay asks for no decisions; its bytes must still be those of the live state."""
    asked, replayed = policy(kind, 2), policy(kind, 2)
    draw = np.random.default_rng(4)
    for _ in range(50):
        x, y = draw.standard_normal(2), float(draw.standard_normal())
        asked.observe(1, x, y)
        replayed.observe(1, x, y)
        score(asked)
    assert asked.dump() == replayed.dump()


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize(
    ("features", "reward"), [([np.nan, 0], 1.0), ([np.inf, 0], 1.0), ([0, 0], np.nan), ([0, 0], -np.inf)]
)
def test_what_is_not_finite_is_refused_before_anything_changes(kind: str, features: list[float], reward: float) -> None:
    """Defence in depth below the API: one NaN would poison the campaign for good (B12)."""
    learner = policy(kind, 2)
    teach(learner, 12)
    before = score(learner)
    with pytest.raises(ValueError, match="finite"):
        learner.observe(0, np.array(features, dtype=np.float64), reward)
    assert score(learner) == before


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("length", [0, 1, 3])
def test_features_of_another_length_are_refused_before_anything_changes(kind: str, length: int) -> None:
    """One number would be taken for each of the features, and a row that lost the others would be learned."""
    learner = policy(kind, 2)
    teach(learner, 12)
    before = score(learner)
    with pytest.raises(ValueError, match="features instead of 2"):
        learner.observe(0, np.ones(length), 1.0)
    assert score(learner) == before


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_an_arm_that_comes_later_has_a_parameter_of_its_own(kind: str) -> None:
    """A new arm starts without knowledge and takes none from the others."""
    learner = policy(kind, 2)
    teach(learner, 20)
    before = score(learner)
    learner.add_arm(has_block=True)
    estimates, bonuses = score(learner)
    assert estimates == [*before[0], 0.0]
    assert bonuses[2] > max(bonuses[:2])
    learner.observe(2, np.array([0.1, 0.1]), 1.0)
    assert score(learner)[0][:2] == before[0] or kind.startswith("online") or kind.endswith("centred")
