"""The exact minimiser: each block's own problem, and what happens without a certificate."""

import numpy as np
import pytest
from scipy import stats

from prudent.core.estimators import ExactMinimizer
from prudent.core.measures import EntropicLoss, ExpectileLoss
from prudent.core.numerics.newton import minimise
from tests.core.estimators.test_estimators import D, observations
from tests.core.estimators.test_exact_incremental import gaussian


def test_exact_is_the_minimiser_of_each_block(rng):
    """Every arm has its own history, ball and sums."""
    loss, log = ExpectileLoss(0.2), list(observations(rng, 60))
    exact = ExactMinimizer(loss, 2, D, 0.1, 0.5)
    for observation in log:
        exact.observe(*observation)
        exact.refresh()
    d1_squares = d2_total = 0.0
    for block in range(2):
        features = np.array([x for k, x, _ in log if k == block])
        rewards = np.array([y for k, _, y in log if k == block])
        solution = minimise(loss, features, rewards, 0.1, 0.5)
        np.testing.assert_allclose(exact.theta[block], solution.theta, rtol=1e-10)
        np.testing.assert_allclose(exact.weighted_gram[block], solution.weighted_gram, rtol=1e-10)
        assert exact.multiplier[block] == pytest.approx(solution.multiplier, rel=1e-9)
        d1_squares += solution.d1_squares
        d2_total += solution.d2_total
    assert exact.d1_squares == pytest.approx(d1_squares, rel=1e-10)
    assert exact.d2_total == pytest.approx(d2_total, rel=1e-12)
    assert (exact.fits, exact.uncertified, exact.certified) == (60, 0, [True, True])
    assert 0 < exact.bound_active <= 60


def test_exact_keeps_its_estimate_when_a_solve_has_no_certificate():
    """An observation the model cannot hold must be counted and seen, not believed."""
    exact = ExactMinimizer(EntropicLoss(1.0, -1.0, 1.0), 1, 1, 0.1, 1.0)
    exact.observe(0, np.ones(1), 0.5)
    exact.refresh()
    theta, gram = exact.theta.copy(), exact.weighted_gram.copy()
    exact.observe(0, np.ones(1), 2000.0)
    assert exact.refresh() == [0]
    np.testing.assert_array_equal(exact.theta, theta)
    np.testing.assert_array_equal(exact.weighted_gram, gram)
    assert (exact.fits, exact.uncertified, exact.certified, exact.observations) == (2, 1, [False], 2)
    assert exact.is_sane()


def test_exact_recomputes_the_sums_at_the_kept_estimate(monkeypatch, rng):
    """The bonus must count an observation even where the refit failed."""
    exact = ExactMinimizer(ExpectileLoss(0.1), 1, D, 0.1, None)
    log = list(observations(rng, 10, 1))
    for observation in log[:9]:
        exact.observe(*observation)
    exact.refresh()
    monkeypatch.setattr("prudent.core.numerics.newton.ITERATIONS_MAX", 1)
    monkeypatch.setattr("prudent.core.estimators.incremental.SOLVES_MAX", 1)
    exact.observe(0, np.array([0.9, 0.9, 0.9]), 30.0)
    theta = exact.theta[0].copy()
    exact.refresh()
    features = np.array([x for _, x, _ in log[:9]] + [[0.9, 0.9, 0.9]])
    rewards = np.array([y for _, _, y in log[:9]] + [30.0])
    weights = exact.loss.d2(rewards, features @ theta)
    assert exact.uncertified == 1
    np.testing.assert_array_equal(exact.theta[0], theta)
    np.testing.assert_allclose(exact.weighted_gram[0], (features.T * weights) @ features, rtol=1e-12)
    assert exact.d2_total == pytest.approx(weights.sum())
    assert exact.d1_squares == pytest.approx((exact.loss.d1(rewards, features @ theta) ** 2).sum())


def test_one_constant_feature_gives_the_samples_expectile(rng):
    """With next to no penalty the estimate is the sample's own expectile, as scipy computes it."""
    for level in (0.01, 0.1, 0.5, 0.9, 0.99):
        sample = rng.gamma(1.0, 2.0, 120)
        exact = ExactMinimizer(ExpectileLoss(level), 1, 1, 1e-12, None)
        for k, y in enumerate(sample, 1):
            exact.observe(0, np.ones(1), float(y))
            exact.refresh()
            if k % 10 == 0:
                assert exact.theta[0, 0] == pytest.approx(stats.expectile(sample[:k], level), rel=1e-9)
        assert exact.full_fits < 60


@pytest.mark.parametrize("gamma", [-1.5, 0.3, 1.5])
def test_entropic_refits_from_the_last_hessian_change_nothing_but_the_cost(gamma, rng):
    """A Hessian that is a little old must neither move the minimiser nor be published."""
    loss = EntropicLoss(gamma, -4.0, 4.0)
    for bound in (None, 0.5):
        features, rewards = gaussian(rng, 150)
        rewards = np.clip(rewards, -4.0, 4.0)
        exact = ExactMinimizer(loss, 1, features.shape[1], 0.1, bound)
        for k in range(150):
            exact.observe(0, features[k], float(rewards[k]))
            if k % 7 == 3:
                continue
            exact.refresh()
            solution = minimise(loss, features[: k + 1], rewards[: k + 1], 0.1, bound)
            # The certificate's 1e-12 is of the gradient: the start shows in theta a little above that.
            scale = np.linalg.norm(solution.theta)
            np.testing.assert_allclose(exact.theta[0], solution.theta, rtol=0, atol=1e-11 * scale)
            weights = loss.d2(rewards[: k + 1], features[: k + 1] @ exact.theta[0])
            expected = (features[: k + 1].T * weights) @ features[: k + 1]
            np.testing.assert_allclose(exact.weighted_gram[0], expected, rtol=0, atol=1e-12 * expected.max())
        assert exact.uncertified == 0
