"""A campaign that goes over from exact fits to one pass: exact until then, and a pure function of its log."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from prudent.core.confidence import ConfidenceSettings
from prudent.core.encoding import FeatureMap
from prudent.core.estimators import ExactMinimizer, OnePass, Ridge
from prudent.core.estimators.handover import one_pass_after, one_pass_of
from prudent.core.measures import Entropic, Expectile, Mean, Measure
from prudent.core.policy import Policy
from prudent.core.snapshot import CorruptSnapshotError, pack

Observation = tuple[int, NDArray[np.float64], float]
UNTIL = 40
MEASURES = {"mean": Mean(), "expectile": Expectile(0.2), "entropic": Entropic(-0.5, -20.0, 20.0)}
every = pytest.mark.parametrize("measure", MEASURES.values(), ids=MEASURES)


def policy(
    measure: Measure,
    exact_until: int | None = UNTIL,
    *,
    blocks: int = 2,
    dimension: int = 2,
    half_life: int = 0,
    bound: float | None = None,
) -> Policy:
    """Rewards are centred."""
    return Policy(
        measure=measure,
        estimator=ExactMinimizer(measure.loss, blocks, dimension + 1, 1.0, bound),
        feature_map=FeatureMap(np.zeros(dimension), np.ones(dimension), intercept=True),
        confidence=ConfidenceSettings(1.0),
        exploration=1.0,
        blocks_at_creation=blocks,
        arms=blocks,
        centred=True,
        half_life=half_life,
        exact_until=exact_until,
    )


def observations(count: int, *, blocks: int = 2, dimension: int = 2, seed: int = 3) -> list[Observation]:
    random = np.random.default_rng(seed)
    x = random.standard_normal((count, dimension))
    weights = random.standard_normal((blocks, dimension))
    places = random.integers(0, blocks, count)
    rewards = 3.0 + np.vecdot(x, weights[places]) + np.clip(random.standard_t(4, count), -9.0, 9.0)
    return list(zip(places.tolist(), x, rewards.tolist(), strict=True))


def learn(learner: Policy, rows: Sequence[Observation], *, asked: bool = False) -> Policy:
    for row in rows:
        learner.observe(*row)
        if asked:
            learner.refresh()
    return learner


def bytes_of(learner: Policy) -> bytes:
    dumped = learner.dump()
    assert dumped is not None
    return dumped


@every
def test_it_is_the_exact_minimiser_and_then_one_pass_from_there(measure: Measure) -> None:
    """An estimate that is neither would be one that no page describes."""
    rows = observations(UNTIL + 60)
    learner, exact = policy(measure), policy(measure, None)
    for row in rows[: UNTIL - 1]:
        for one in (learner, exact):
            one.observe(*row)
            one.refresh()
        assert learner.parameters().tobytes() == exact.parameters().tobytes()
        assert learner.dump() is None
    for one in (learner, exact):
        learn(one, rows[UNTIL - 1 : UNTIL])
    minimum = learner.estimator.theta.copy()
    after = one_pass_after(exact.estimator)
    exact.refresh()
    np.testing.assert_allclose(minimum, exact.estimator.theta, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(learner.estimator.weighted_gram, exact.estimator.weighted_gram, rtol=1e-7, atol=1e-8)
    exact.estimator = after
    for row in rows[UNTIL:]:
        for one in (learner, exact):
            one.observe(*row)
    assert isinstance(learner.estimator, OnePass)
    mine, theirs = (pack(one.estimator.arrays()) for one in (learner, exact))
    assert mine == theirs


@every
def test_its_bytes_do_not_depend_on_when_it_was_asked(measure: Measure) -> None:
    """A replay asks for no decisions, and verification compares bytes."""
    rows = observations(UNTIL + 10)
    assert bytes_of(learn(policy(measure), rows)) == bytes_of(learn(policy(measure), rows, asked=True))


@every
@pytest.mark.parametrize("half_life", [0, 15])
@pytest.mark.parametrize(("first", "more"), [(UNTIL - 5, 10), (UNTIL - 1, 1), (UNTIL, 10), (UNTIL - 5, 3)])
def test_a_batch_that_is_undone_leaves_no_trace(measure: Measure, half_life: int, first: int, more: int) -> None:
    """The batch in which a campaign goes over may fail, and be run again."""
    rows = observations(UNTIL + 60)
    learner, other = policy(measure, half_life=half_life), policy(measure, half_life=half_life)
    learn(learner, rows[:first])
    for seed in (8, 9):
        learner.mark()
        learn(learner, observations(more, seed=seed), asked=True)
        learner.add_arm(has_block=True)
        learner.restore()
    learn(learner, rows[first:])
    learn(other, rows)
    assert bytes_of(learner) == bytes_of(other)


@every
def test_a_snapshot_goes_on_to_the_last_bit(measure: Measure) -> None:
    """A restart must change no later decision; before the handover there is no snapshot."""
    rows = observations(UNTIL + 60)
    learner = learn(policy(measure), rows[: UNTIL + 20])
    loaded = policy(measure)
    loaded.load(bytes_of(learner))
    assert loaded.nbytes < 20_000
    for one in (learner, loaded):
        learn(one, rows[UNTIL + 20 :])
        one.add_arm(has_block=True)
        one.observe(2, np.ones(2), 1.0)
    assert bytes_of(learner) == bytes_of(loaded)
    fresh, ridge = policy(measure), policy(measure, None)
    ridge.estimator = Ridge(2, 3, 1.0)
    with pytest.raises(CorruptSnapshotError, match="not a state of this estimator"):
        fresh.load(bytes_of(ridge))
    assert bytes_of(learn(fresh, rows)) == bytes_of(learn(policy(measure), rows))


def test_an_arm_that_comes_later_is_learned_from_nothing() -> None:
    """It has no history, so that what it begins with must be the ridge alone."""
    rows = observations(UNTIL)
    early, late = policy(Expectile(0.2)), policy(Expectile(0.2))
    early.add_arm(has_block=True)
    for one in (early, late):
        learn(one, rows)
    late.add_arm(has_block=True)
    for one in (early, late):
        learn(one, [(2, x, y) for _, x, y in observations(20, seed=4)])
        one.refresh()
    assert early.parameters().tobytes() == late.parameters().tobytes()


def test_the_ball_holds_on_both_sides() -> None:
    """A bound that is promised would be left at the handover."""
    learner = policy(Expectile(0.2), bound=0.5)
    for row in observations(UNTIL + 30):
        learner.observe(*row)
        learner.refresh()
        assert (np.linalg.norm(learner.estimator.theta, axis=1) <= 0.5 + 1e-12).all()


@every
def test_what_was_forgotten_before_stays_forgotten(measure: Measure) -> None:
    """Old observations would come back at the handover with all their weight."""
    first = [(0, x, y + 50.0) for _, x, y in observations(UNTIL // 2)]
    rows = [(0, x, y) for _, x, y in observations(UNTIL, seed=4)]
    learner, exact = (
        learn(policy(measure, until, blocks=1, half_life=4), first + rows) for until in (UNTIL + UNTIL // 2, None)
    )
    one = exact.estimator.theta.copy()
    exact.refresh()
    np.testing.assert_allclose(learner.estimator.theta, exact.estimator.theta, rtol=1e-7)
    np.testing.assert_allclose(learner.estimator.weighted_gram, exact.estimator.weighted_gram, rtol=1e-7)
    assert learner.estimator.d1_squares == pytest.approx(exact.estimator.d1_squares, rel=1e-6)
    assert learner.estimator.observations == exact.estimator.observations < 10
    assert not np.array_equal(one, exact.estimator.theta)


def test_ten_thousand_are_enough_to_lose_nothing() -> None:
    """A switch that could be seen would make the default another algorithm than the one that is documented."""
    rows = observations(30_000, blocks=1, dimension=4)
    learner, exact = (learn(policy(Expectile(0.2), until, blocks=1, dimension=4), rows) for until in (10_000, None))
    ends = exact.parameter_intervals()[0]
    errors = (ends[:, 1] - ends[:, 0]) / (2.0 * 1.96)
    distances = (learner.parameters()[0] - exact.parameters()[0]) / errors
    assert np.mean(distances**2) < 1e-4


def test_only_the_exact_minimiser_is_followed() -> None:
    """Another estimator has no history to go on from: a defect, to be told at once."""
    with pytest.raises(TypeError, match="not Ridge"):
        one_pass_after(Ridge(1, 2, 1.0))
    with pytest.raises(TypeError, match="not Ridge"):
        one_pass_of(Ridge(1, 2, 1.0), {})
