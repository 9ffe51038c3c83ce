"""Forgetting: weights that halve, a ridge that stays, and a state that never blows up."""

import os

import numpy as np
import pytest

from prudent.core.estimators import ExactMinimizer, OnePass, Ridge, StagedOnePass
from prudent.core.floor import FloorCounts
from prudent.core.forgetting import Forgetting
from prudent.core.measures import Cvar, EntropicLoss, ExpectileLoss, MeanVariance, Quantile

ROWS = int(os.environ.get("FORGETTING_ROWS", "30000"))
MAKERS = {
    "ridge": lambda: Ridge(1, 2, 1.0),
    "exact": lambda: ExactMinimizer(ExpectileLoss(0.2), 1, 2, 1.0, None),
    "exact-entropic": lambda: ExactMinimizer(EntropicLoss(-0.5, -20, 20), 1, 2, 1.0, None),
    "onepass": lambda: OnePass(ExpectileLoss(0.2), 1, 2, 1.0, None, 0),
}
for _measure in (Cvar(0.2), Quantile(0.3), MeanVariance(1.0)):
    MAKERS[_measure.title] = lambda stages=_measure.stages: StagedOnePass(stages, 1, 2, 1.0)
every = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def learn(estimator, rows, forgetting):
    for x, y in rows:
        share = forgetting.observe()
        if share is not None:
            estimator.forget(share)
        estimator.observe(0, x, y)


def test_a_weight_is_near_two_to_the_minus_age():
    """A half-life of 320 that is another one would be tuned in vain."""
    forgetting = Forgetting(320)
    weights = np.zeros(0)
    for _ in range(1_000):
        share = forgetting.observe()
        weights = np.append(weights if share is None else weights * share, 1.0)
    exact = 2.0 ** (-np.arange(1_000)[::-1] / 320)
    assert (np.abs(weights / exact - 1.0) < 0.022).all()


@pytest.mark.parametrize("name", ["ridge", "exact"])
def test_the_estimate_is_the_minimiser_with_the_weights(name, rng):
    """An estimate by other weights would follow another world than the one it is said to."""
    x, y = rng.standard_normal((200, 2)), rng.standard_normal(200)
    estimator = Ridge(1, 2, 1.0) if name == "ridge" else ExactMinimizer(ExpectileLoss(0.5), 1, 2, 1.0, None)
    learn(estimator, zip(x, y.tolist(), strict=True), Forgetting(32))
    estimator.refresh()
    weights = 2.0 ** (-np.arange(200)[::-1] / 32)
    curvature = estimator.weighted_gram[0, 0, 0] / estimator.gram[0, 0, 0]
    metric = curvature * (x.T * weights) @ x + np.eye(2)
    expected = np.linalg.solve(metric, curvature * (x.T * weights) @ y)
    np.testing.assert_allclose(estimator.theta[0], expected, rtol=1e-4 if name == "exact" else 1e-10)


BLOCKS = {
    "ridge": lambda: Ridge(2, 2, 1.0),
    "exact": lambda: ExactMinimizer(ExpectileLoss(0.2), 2, 2, 1.0, None),
    "onepass": lambda: OnePass(ExpectileLoss(0.2), 2, 2, 1.0, None, 0),
    "staged": lambda: StagedOnePass(Cvar(0.2).stages, 2, 2, 1.0),
}


@pytest.mark.parametrize("make", BLOCKS.values(), ids=BLOCKS)
def test_what_was_never_seen_is_not_forgotten(make, rng):
    """An arm without rewards would lose its ridge, and its first reward meet a singular matrix."""
    estimator = make()
    learn(estimator, [(one, 1.0) for one in rng.standard_normal((2_000, 2))], Forgetting(8))
    estimator.refresh()
    assert not estimator.theta[1].any()
    assert not estimator.gram[1].any()
    estimator.observe(1, np.array([1.0, 0.5]), 2.0)
    estimator.refresh()
    assert estimator.is_sane()
    assert np.isfinite(estimator.theta).all()
    assert estimator.theta[1, 0] > 0.0


@every
def test_a_million_rows_of_one_feature_leave_the_state_finite(make, rng):
    """What is not excited for a million rows must return to the ridge, and not blow up.

    With the default, 30 half-lives of rows, and the million for the fastest; FORGETTING_ROWS=1000000 makes it one for
    all, in minutes.
    """
    estimator, forgetting = make(), Forgetting(1_000)
    rows = 1_000_000 if isinstance(estimator, Ridge) else ROWS
    first = [(one, float(one[0] + rng.standard_normal())) for one in rng.standard_normal((200, 2))]
    learn(estimator, first, forgetting)
    repeated = np.array([1.0, 0.0])
    learn(estimator, ((repeated, one) for one in rng.normal(1.0, 1.0, rows).tolist()), forgetting)
    estimator.refresh()
    assert estimator.is_sane()
    assert np.isfinite(estimator.theta).all()
    assert abs(estimator.theta[0, 1]) < 1e-2
    assert estimator.gram[0, 1, 1] < 1e-3


@every
def test_a_mark_is_restored_over_a_step(make, rng):
    """A transaction that is rolled back may have forgotten something."""
    rows = [(one, float(one[0] + rng.standard_normal())) for one in rng.standard_normal((150, 2))]
    estimator, other = make(), make()
    for one in (estimator, other):
        learn(one, rows[:100], Forgetting(40))
        one.refresh()
    estimator.mark()
    learn(estimator, rows[100:], Forgetting(10))
    estimator.refresh()
    estimator.restore()
    for one in (estimator, other):
        learn(one, rows[100:], Forgetting(20))
        one.refresh()
    np.testing.assert_allclose(estimator.theta, other.theta, rtol=1e-9)
    np.testing.assert_allclose(estimator.gram, other.gram, rtol=1e-12)


@pytest.mark.parametrize(("before", "after"), [(0.0, 1.0), (1.0, 0.0)], ids=["pays at last", "fails at last"])
def test_what_the_floor_has_forgotten_stays_forgotten_when_repeats_weigh_otherwise(before, after, rng):
    """An arm that pays at last would count as unseen for thousands of rewards, and get a tenth of all decisions."""
    floor, forgetting = FloorCounts(1), Forgetting(500)
    for reward in [before] * 10_000 + np.where(rng.random(50) < 0.5, before, after).tolist():
        share = forgetting.observe()
        if share is not None:
            floor.forget(share)
        floor.observe(0, reward)
    together = 500 / np.log(2.0)  # what ever so many observations weigh together
    assert together / 12 < floor.weighed[0] < 1.02 * together
    assert floor.weighed[0] > 0.9 * together or before < after
