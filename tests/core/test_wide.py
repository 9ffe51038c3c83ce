"""Sums with more digits than float64, and the solutions refined by them, against exact rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest

from prudent.core.estimators import ExactMinimizer, Ridge
from prudent.core.measures import ExpectileLoss, SquaredLoss
from prudent.core.numerics.wide import image, is_doubtful, refine_piecewise, sum_rounding, wide_gram

ALPHA = 1e-3


def fractions(values):
    return [[Fraction(float(value)) for value in row] for row in values]


def exact_gram(rows):
    exact = fractions(rows)
    size = range(rows.shape[1])
    return [[sum(row[i] * row[j] for row in exact) for j in size] for i in size]


def solution(features, rewards, weights, alpha):
    """The weighted ridge fit by Gaussian elimination in rational numbers."""
    exact, d = fractions(np.column_stack([features, rewards])), features.shape[1]
    weights = [Fraction(float(weight)) for weight in weights]
    table = [
        [sum(w * row[i] * row[j] for w, row in zip(weights, exact, strict=True)) for j in range(d + 1)]
        for i in range(d)
    ]
    for i in range(d):
        table[i][i] += Fraction(alpha)
    for i in range(d):
        for k in range(d):
            if k != i:
                share = table[k][i] / table[i][i]
                table[k] = [one - share * other for one, other in zip(table[k], table[i], strict=True)]
    return np.array([float(table[i][d] / table[i][i]) for i in range(d)])


def cancelling(rng, loss):
    """(60, 2) nearly collinear features, and rewards that are almost all residual: theta is small and rounding is not.

    As theta is small, the side of the kink is the reward's sign; rewards are orthogonal to the features as weighed.
    """
    features = np.column_stack([np.ones(60), 1.0 + 1e-3 * rng.standard_normal(60)])
    signs = np.sign(rng.standard_normal(60))
    rewards = signs * rng.uniform(800.0, 1200.0, 60)
    roots = np.sqrt(loss.d2(signs, np.zeros(60)))
    basis = np.linalg.qr(roots[:, None] * features)[0]
    for _ in range(3):
        rewards -= basis @ (basis.T @ (roots * rewards)) / roots
    assert (np.sign(rewards) == signs).all()
    return features, rewards


@pytest.mark.parametrize("count", [1, 300, 5000])
def test_sums_have_the_digits_they_promise(count, rng):
    """A refinement from sums no better than float64's would change nothing."""
    rows = rng.standard_normal((count, 3)) * [1.0, 1e6, 1e-5] * 10.0 ** rng.uniform(-3, 0, (count, 1))
    high, low = wide_gram(rows)
    exact = exact_gram(rows)
    largest = np.abs(rows).max(axis=0)
    for i in range(3):
        for j in range(3):
            off = Fraction(float(high[i, j])) + Fraction(float(low[i, j])) - exact[i][j]
            assert abs(float(off)) <= 4.0 * 2.0**-95 * count * largest[i] * largest[j]


def test_image_is_rounded_once(rng):
    """The residual behind a refinement would have lost the digits that it is about."""
    high, low = wide_gram(rng.standard_normal((50, 4)) * [1.0, 1e5, 1e-5, 3.0])
    vector = rng.standard_normal(4)
    vector[0] = -(high[3, 1:] @ vector[1:]) / high[3, 0]  # the last row cancels
    exact = [
        sum((a + b) * c for a, b, c in zip(one, other, *fractions([vector]), strict=True))
        for one, other in zip(fractions(high), fractions(low), strict=True)
    ]
    np.testing.assert_allclose(image((high, low), vector), [float(value) for value in exact], rtol=1e-15)


@pytest.mark.parametrize("loss", [SquaredLoss(), ExpectileLoss(0.2)], ids=["mean", "expectile"])
def test_theta_is_right_where_rewards_cancel(loss, rng):
    """Where outcomes balance, the estimates shown would be rounding errors, and nobody would know."""
    features, rewards = cancelling(rng, loss)
    estimators = [ExactMinimizer(loss, 1, 2, ALPHA, None)]
    if isinstance(loss, SquaredLoss):
        estimators.append(Ridge(1, 2, ALPHA))
    for estimator in estimators:
        for count, (x, y) in enumerate(zip(features, rewards, strict=True), start=1):
            estimator.observe(0, x, float(y))
            if count % 7 == 0 or count == len(rewards):
                estimator.refresh()
                used, y = features[:count], rewards[:count]
                expected = solution(used, y, loss.d2(y, used @ estimator.theta[0]), ALPHA)
                off = np.linalg.norm(estimator.theta[0] - expected)
                # before the last, little cancels, and what is promised is promised without a refinement
                assert off <= (1e-10 if count == len(rewards) else 1e-9) * np.linalg.norm(expected)
        assert estimator.is_sane()
    # the case is one: from float64 sums theta has fewer digits
    weights = loss.d2(rewards, features @ expected)
    sums = (features.T * weights) @ features + ALPHA * np.eye(2)
    plain = np.linalg.solve(sums, features.T @ (weights * rewards))
    assert np.linalg.norm(plain - expected) > 1e-8 * np.linalg.norm(expected)


@pytest.mark.parametrize("size", [1e4, 1e6, 1e8])
def test_theta_is_right_after_every_observation_of_rewards_that_cancel_in_pairs(size, rng):
    """Each reward moves theta far, the next one back: what the way there rounds away must not stay."""
    scales = np.array([1.0, 1.0, 1e-2])
    features = np.repeat((rng.standard_normal((25, 3)) * scales) @ np.linalg.qr(rng.standard_normal((3, 3)))[0], 2, 0)
    rewards = features @ [0.5, 0.2, -0.1] + size * np.tile([1.0, -1.0], 25)
    alpha = 1e-5
    estimator = Ridge(1, 3, alpha)
    for count, (x, y) in enumerate(zip(features, rewards.tolist(), strict=True), start=1):
        estimator.observe(0, x, y)
        estimator.refresh()
        if count % 10 == 0:
            expected = solution(features[:count], rewards[:count], np.ones(count), alpha)
            assert np.linalg.norm(estimator.theta[0] - expected) <= 1e-8 * np.linalg.norm(expected)


def test_a_bound_is_kept(rng):
    """A refined estimate would leave the ball that the guarantee is about."""
    loss = ExpectileLoss(0.2)
    features, rewards = cancelling(rng, loss)
    free = ExactMinimizer(loss, 1, 2, ALPHA, None)
    for x, y in zip(features, rewards, strict=True):
        free.observe(0, x, float(y))
    free.refresh()
    bound = float(np.linalg.norm(free.theta[0])) * (1.0 - 1e-13)
    held = ExactMinimizer(loss, 1, 2, ALPHA, bound)
    for x, y in zip(features, rewards, strict=True):
        held.observe(0, x, float(y))
    held.refresh()
    assert np.linalg.norm(held.theta[0]) <= bound * (1.0 + 1e-15)


def test_ordinary_data_do_not_pay(rng):
    """Every select would take as long as a full Newton step."""
    for count in (1, 10, 10_000):
        features = rng.standard_normal((count, 5)) / 2.0
        rewards = features @ np.ones(5) + rng.standard_normal(count)
        gram = features.T @ features
        theta = np.linalg.solve(gram + np.eye(5), features.T @ rewards)
        squares = float(((rewards - features @ theta) ** 2).sum())
        trace = float(gram.trace())
        rounding = sum_rounding(theta, trace=trace, slope_squares=squares, feature_squares=trace, count=count)
        assert not is_doubtful(pytest.fail, 1.0, theta, trace=trace, rounding=rounding)


def test_the_kink_is_found_from_afar():
    """Observations that the refinement moves across the kink would be weighed as if they had not."""
    loss, features = ExpectileLoss(0.2), np.ones((2, 1))
    rewards = np.array([-1.0, 1.0])
    theta = refine_piecewise(loss, features, rewards, ALPHA, np.array([7.0]))
    assert theta is not None
    slopes = loss.d1(rewards, features @ theta)
    assert float(slopes.sum() + ALPHA * theta[0]) == pytest.approx(0.0, abs=1e-15)
