"""Ridge by steps, one observation at a time, beside ridge from the sums of all of them."""

import numpy as np
import pytest

from prudent.core.estimators import Ridge, ridge

D, ROWS = 5, 200
# the spread of the features' scales, and the ridge; in the last two rounding forbids some steps
REGIMES = {"tame": (1.0, 0.1), "tiny ridge": (1.0, 2e-5), "scales apart": (30.0, 0.01)}


def drawn(rng, spread):
    features = rng.normal(size=(ROWS, D)) * np.geomspace(1.0, spread, D)
    return features, features @ rng.normal(size=D) + rng.normal(size=ROWS)


def known(estimator):
    factor, log_determinant = estimator.known_factor(0)
    return factor.tobytes(), log_determinant, estimator.theta.tobytes(), estimator.d1_squares


@pytest.fixture
def solves(monkeypatch):
    """The numbers of waiting rows with which solutions were made from the sums."""
    seen = []
    solve = Ridge._solve

    def counted(estimator, block, waiting):
        seen.append(waiting)
        return solve(estimator, block, waiting)

    monkeypatch.setattr(Ridge, "_solve", counted)
    return seen


@pytest.mark.parametrize("regime", REGIMES)
def test_steps_lead_where_the_sums_lead(regime, rng, solves):
    """Rounding that adds up from step to step would move theta, the bonuses and the radius."""
    spread, alpha = REGIMES[regime]
    features, rewards = drawn(rng, spread)
    estimator = Ridge(1, D, alpha)
    for n, (x, y) in enumerate(zip(features, rewards.tolist(), strict=True), start=1):
        estimator.observe(0, x, y)
        estimator.refresh()
        augmented = np.vstack([features[:n], np.sqrt(alpha) * np.eye(D)])
        exact = np.linalg.lstsq(augmented, np.append(rewards[:n], np.zeros(D)), rcond=None)[0]
        assert np.linalg.norm(estimator.theta[0] - exact) <= 1e-8 * np.linalg.norm(exact)
        factor, log_determinant = estimator.known_factor(0)
        images = augmented @ factor[:-1].T
        np.testing.assert_allclose(images.T @ images, np.eye(D), atol=1e-6)
        np.testing.assert_array_equal(factor[-1], estimator.theta[0])
        assert log_determinant == pytest.approx(2 * np.linalg.slogdet(np.linalg.qr(augmented)[1])[1], abs=1e-8)
    from_the_sums = sum(waiting > 0 for waiting in solves)
    assert (from_the_sums == 0) == (regime == "tame"), "the regimes are there for steps and for their absence"


@pytest.mark.parametrize("regime", REGIMES)
def test_what_is_known_does_not_depend_on_when_it_was_asked_for(regime, rng):
    """A worker that folds the log in one go must decide what one decides that has lived through it."""
    spread, alpha = REGIMES[regime]
    features, rewards = drawn(rng, spread)
    often, seldom, undone = (Ridge(1, D, alpha) for _ in range(3))
    for n, (x, y) in enumerate(zip(features, rewards.tolist(), strict=True), start=1):
        undone.mark()
        undone.observe(0, x, -y)
        undone.refresh()
        undone.restore()
        for estimator in (often, seldom, undone):
            estimator.observe(0, x, y)
        often.refresh()
        if n % 17 and n % ridge._BUFFER > 1:
            continue
        loaded = Ridge(1, D, alpha)
        loaded.observe(0, x, -y)
        loaded.refresh()
        loaded.load(often.arrays())
        for estimator in (seldom, undone, loaded):
            estimator.refresh()
            assert known(estimator) == known(often), f"after {n} observations"


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
