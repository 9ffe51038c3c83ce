"""Ridge regression by two triangles: against other ways to the same numbers, and where these lose their digits."""

from fractions import Fraction

import numpy as np
import pytest

from prudent.core.estimators import Ridge
from tests.core.estimators.test_estimators import D, observations

ROWS = 200
# the spread of the features' scales, and the ridge
REGIMES = {"tame": (1.0, 0.1), "tiny ridge": (1.0, 2e-5), "scales apart": (30.0, 0.01)}
regimes = pytest.mark.parametrize("regime", REGIMES)


def drawn(rng, regime, dimension=5):
    features = rng.normal(size=(ROWS, dimension)) * np.geomspace(1.0, REGIMES[regime][0], dimension)
    return features, features @ rng.normal(size=dimension) + rng.normal(size=ROWS), REGIMES[regime][1]


def known(estimator):
    """Every byte that a decision depends on."""
    factor, log_determinant = estimator.known_factor(0)
    return factor.tobytes(), log_determinant, estimator.theta.tobytes(), estimator.d1_squares


def exact_squares(features, rewards, theta):
    """The sum of (y - <theta, x>)^2 in rational numbers."""
    theta = [Fraction(value) for value in theta.tolist()]
    squares = Fraction(0)
    for row, reward in zip(features.tolist(), rewards.tolist(), strict=True):
        squares += (Fraction(reward) - sum(Fraction(x) * t for x, t in zip(row, theta, strict=True))) ** 2
    return float(squares)


def test_ridge_solves_its_equation(rng):
    """The mean model and LinUCB rest on it."""
    log, ridge = list(observations(rng, 70)), Ridge(2, D, 0.1)
    for count, observation in enumerate(log, 1):
        ridge.observe(*observation)
        ridge.refresh()
        residuals = 0.0
        for block in range(2):
            mine = [(x, y) for k, x, y in log[:count] if k == block]
            if not mine:
                continue
            features, rewards = np.array([x for x, _ in mine]), np.array([y for _, y in mine])
            matrix = features.T @ features + 0.1 * np.eye(D)
            theta = np.linalg.solve(matrix, features.T @ rewards)
            np.testing.assert_allclose(ridge.theta[block], theta, rtol=1e-10, atol=1e-13)
            residuals += ((rewards - features @ theta) ** 2).sum()
        assert ridge.d1_squares == pytest.approx(residuals, rel=1e-11)
        assert ridge.d2_total == count
    assert ridge.weighted_gram is ridge.gram


@pytest.mark.parametrize("offset", [0.0, 1e6, 1e9])
def test_ridge_residuals_survive_a_large_offset(offset, rng):
    """Rewards near a million with spread one: the exploration dial is the spread, not rounding noise."""
    ridge, features = Ridge(1, D, 1e-13), rng.standard_normal((500, D))
    features[:, 0] = 1.0
    rewards = offset + rng.standard_normal(500)
    for x, y in zip(features, rewards, strict=True):
        ridge.observe(0, x, float(y))
    ridge.refresh()
    fitted = np.linalg.lstsq(features, rewards - offset)[0]
    expected = ((rewards - offset - features @ fitted) ** 2).sum()
    assert ridge.d1_squares == pytest.approx(expected, rel=1e-6)


def test_ridge_residuals_of_equal_rewards_are_not_negative():
    """The dial is a square root of them."""
    ridge = Ridge(1, 1, 1e-12)
    for _ in range(100):
        ridge.observe(0, np.ones(1), 0.1)
        ridge.refresh()
        assert 0.0 <= ridge.d1_squares < 1e-20


@pytest.mark.parametrize("alpha", [1.0, 1e-6])
def test_residuals_of_kinds_without_an_intercept_survive_a_large_offset(alpha, rng):
    """A feature for each kind of case, rewards near a million: means of the columns would take no offset away."""
    ridge, features = Ridge(1, 4, alpha), np.eye(4)[rng.integers(4, size=600)]
    rewards = 1e6 + rng.standard_normal(600)
    for x, y in zip(features, rewards.tolist(), strict=True):
        ridge.observe(0, x, y)
    ridge.refresh()
    assert ridge.d1_squares == pytest.approx(exact_squares(features, rewards, ridge.theta[0]), rel=1e-8)


@pytest.mark.parametrize("alpha", [1.0, 1e-3, 1e-6])
def test_squares_keep_their_digits_where_the_penalty_is_nearly_all_of_the_objective(alpha):
    """The noise scale, and with it every bonus, would be rounding: large rewards that hardly differ."""
    reward = 2.0**20
    estimator = Ridge(1, 1, alpha)
    for n in range(1, ROWS):
        estimator.observe(0, np.ones(1), reward)
        estimator.refresh()
        squares = n * (reward - estimator.theta[0, 0]) ** 2
        rounding = 2.0**-53 * n * reward / np.sqrt(squares)
        assert estimator.d1_squares == pytest.approx(squares, rel=8 * rounding)


@regimes
def test_theta_the_bonuses_factor_and_the_determinant_after_every_observation(regime, rng):
    """Rounding that adds up from observation to observation would move theta, the bonuses and the radius."""
    features, rewards, alpha = drawn(rng, regime)
    dimension = features.shape[1]
    estimator = Ridge(1, dimension, alpha)
    for n, (x, y) in enumerate(zip(features, rewards.tolist(), strict=True), start=1):
        estimator.observe(0, x, y)
        estimator.refresh()
        augmented = np.vstack([features[:n], np.sqrt(alpha) * np.eye(dimension)])
        exact = np.linalg.lstsq(augmented, np.append(rewards[:n], np.zeros(dimension)), rcond=None)[0]
        assert np.linalg.norm(estimator.theta[0] - exact) <= 1e-11 * np.linalg.norm(exact)
        factor, log_determinant = estimator.known_factor(0)
        images = augmented @ factor[:-1].T
        np.testing.assert_allclose(images.T @ images, np.eye(dimension), atol=1e-10)
        np.testing.assert_array_equal(factor[-1], estimator.theta[0])
        assert log_determinant == pytest.approx(2 * np.linalg.slogdet(np.linalg.qr(augmented)[1])[1], abs=1e-10)


@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-9, 0.0])
def test_theta_is_backward_stable_however_collinear_the_features_are(gap, rng):
    """Two features that nearly say the same would get weights that no rewards near those observed could give."""
    alpha = 1e-12
    features = 1e3 * rng.standard_normal((ROWS, 1)) * (1.0 + gap * rng.standard_normal((ROWS, 2)))
    rewards = features @ [1.0, -0.5] + rng.standard_normal(ROWS)
    estimator = Ridge(1, 2, alpha)
    for x, y in zip(features, rewards.tolist(), strict=True):
        estimator.observe(0, x, y)
    estimator.refresh()
    theta = [Fraction(value) for value in estimator.theta[0].tolist()]
    rows = [[Fraction(value) for value in row] for row in features.tolist()]
    residuals = [
        Fraction(y) - sum(x * t for x, t in zip(row, theta, strict=True))
        for row, y in zip(rows, rewards.tolist(), strict=True)
    ]
    # the equation sum r x = alpha theta of features and rewards changed by rounding, relative to norms of columns
    unit = 2.0**-53 * ROWS
    squares = float(sum(residual**2 for residual in residuals))
    for column, weight in enumerate(theta):
        force = float(sum(r * row[column] for r, row in zip(residuals, rows, strict=True)) - Fraction(alpha) * weight)
        size = np.linalg.norm(features[:, column])
        moved = np.linalg.norm(rewards) + np.linalg.norm(features) * np.linalg.norm(estimator.theta[0])
        assert abs(force) <= unit * size * (np.sqrt(squares) + moved)
    assert np.isfinite(estimator.known_factor(0)[0]).all()
    assert estimator.is_sane()


def test_ten_thousand_observations_do_not_drift(rng):
    """A campaign of years would answer with rounding errors."""
    count, alpha = 10_000, 1e-3
    features = rng.standard_normal((count, 8)) * np.geomspace(1e-2, 1e2, 8)
    rewards = 1e3 + features @ rng.standard_normal(8) + rng.standard_normal(count)
    estimator = Ridge(1, 8, alpha)
    for x, y in zip(features, rewards.tolist(), strict=True):
        estimator.observe(0, x, y)
    estimator.refresh()
    matrix = features.T @ features + alpha * np.eye(8)
    exact = np.linalg.solve(matrix, features.T @ rewards)
    np.testing.assert_allclose(estimator.theta[0], exact, rtol=1e-9)
    np.testing.assert_allclose(estimator.gram[0], features.T @ features, rtol=1e-11, atol=1e-9)
    assert estimator.d1_squares == pytest.approx(((rewards - features @ exact) ** 2).sum(), rel=1e-11)


@regimes
def test_what_is_known_does_not_depend_on_when_it_was_asked_for(regime, rng):
    """A worker that folds the log in one go must decide what one decides that has lived through it."""
    features, rewards, alpha = drawn(rng, regime)
    dimension = features.shape[1]
    often, seldom, undone = (Ridge(1, dimension, alpha) for _ in range(3))
    for n, (x, y) in enumerate(zip(features, rewards.tolist(), strict=True), start=1):
        undone.mark()
        undone.observe(0, x, -y)
        undone.refresh()
        undone.restore()
        for estimator in (often, seldom, undone):
            estimator.observe(0, x, y)
        often.refresh()
        if n % 17:
            continue
        loaded = Ridge(1, dimension, alpha)
        loaded.observe(0, x, -y)
        loaded.refresh()
        loaded.load(often.arrays())
        for estimator in (seldom, undone, loaded):
            estimator.refresh()
            assert known(estimator) == known(often), f"after {n} observations"


def test_what_is_known_is_that_of_the_state_restored(rng):
    """A rolled-back reward would stay in the bonuses of the arms."""
    estimator = Ridge(2, D, 0.1)
    for observation in observations(rng, 20):
        estimator.observe(*observation)
    estimator.refresh()
    before = known(estimator)
    estimator.mark()
    estimator.observe(0, np.ones(D), 3.0)
    estimator.refresh()
    assert known(estimator) != before
    estimator.restore()
    assert known(estimator) == before
