"""The exact minimiser's refits from sums, against the full solver on all observations, after every observation.

`SOAK_PROBLEMS` and `SOAK_TINY` set how many random problems are tried (in full: 1000 and 6000).
"""

import dataclasses
import os

import numpy as np
import pytest
from scipy.optimize import minimize

from prudent.core.estimators import ExactMinimizer
from prudent.core.estimators.reference import refer
from prudent.core.measures import ExpectileLoss, SquaredLoss
from prudent.core.numerics.newton import minimise

PROBLEMS = int(os.environ.get("SOAK_PROBLEMS", "150"))
TINY = int(os.environ.get("SOAK_TINY", "500"))

D = 4
TRUTH = np.array([1.0, -0.5, 0.25, 0.0])


def gaussian(rng, n):
    x = rng.standard_normal((n, D))
    return x, x @ TRUTH + rng.standard_normal(n)


def heavy(rng, n):
    x = rng.standard_normal((n, D))
    return x, x @ TRUTH + rng.standard_cauchy(n)


def heavy_features(rng, n):
    x = rng.standard_t(1.5, (n, D))
    return x, x @ TRUTH + rng.standard_t(1.5, n)


def drifting(rng, n):
    x = rng.standard_normal((n, D))
    return x, np.linspace(0, 20, n) * (x @ TRUTH) + rng.standard_normal(n)


def collinear(rng, n):
    x = rng.standard_normal((n, D))
    x[:, 1], x[:, 3] = x[:, 0], 2 * x[:, 2]
    return x, x @ TRUTH + rng.standard_normal(n)


def duplicates(rng, n):
    x, y = rng.standard_normal((5, D)), rng.standard_normal(5)
    which, coin = rng.integers(5, size=n), rng.integers(2, size=n)
    return x[which], np.where(coin, y[which], 1.0)


def ties(rng, n):
    """Whole numbers on a plane: without the penalty every residual would be zero."""
    x = rng.integers(-2, 3, size=(n, D)).astype(float)
    return x, x @ np.array([1.0, 2.0, -1.0, 0.0])


def zeros(rng, n):
    x, y = gaussian(rng, n)
    return np.where(rng.random((n, 1)) < 0.5, x, 0.0), np.where(rng.random(n) < 0.7, 0.0, y)


def far(rng, n):
    x = rng.standard_normal((n, D))
    x[:, 0] = 1.0
    return x, 1e6 + rng.standard_normal(n)


STREAMS = [gaussian, heavy, heavy_features, drifting, collinear, duplicates, ties, zeros, far]
TIED = (duplicates, ties, zeros)


def assert_matches(exact, block, solution, tied):
    """theta to 1e-12 of its norm, and all sums."""
    theta = exact.theta[block]
    scale = np.linalg.norm(solution.theta)
    np.testing.assert_allclose(theta, solution.theta, rtol=0, atol=1e-12 * scale)
    assert exact.certified[block]
    gram = exact.weighted_gram[block]
    np.testing.assert_array_equal(gram, gram.T)
    if not tied:  # at a tie, which curvature counts is a matter of rounding
        largest = np.abs(solution.weighted_gram).max()
        np.testing.assert_allclose(gram, solution.weighted_gram, rtol=0, atol=1e-11 * largest)


@pytest.mark.parametrize("level", [0.001, 0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("stream", STREAMS)
def test_agrees_with_the_full_solver_after_every_observation(stream, level, rng):
    """A refit that looks at few observations must find what a look at all of them finds."""
    loss = SquaredLoss() if level == 0.5 and rng.random() < 0.5 else ExpectileLoss(level)
    # The first is larger than any parameter here (but `far`'s); the second binds, or nearly.
    for bound, start in ((None, 1), (30.0, 350), (0.3, 350), (None, 350)):
        count = start + 45
        features, rewards = stream(rng, count)
        exact = ExactMinimizer(loss, 1, D, 0.1, bound)
        for k in range(count):
            exact.observe(0, features[k], float(rewards[k]))
            if k + 1 < start:
                continue
            exact.refresh()
            if k % 3 == 0 or k + 1 == count:
                solution = minimise(loss, features[: k + 1], rewards[: k + 1], 0.1, bound)
                assert solution.certified
                assert_matches(exact, 0, solution, stream in TIED)
                if stream not in TIED:
                    assert exact.d1_squares == pytest.approx(solution.d1_squares, rel=1e-8)
                    assert exact.d2_total == pytest.approx(solution.d2_total, rel=1e-12)
                if bound == 0.3:
                    assert exact.multiplier[0] == pytest.approx(solution.multiplier, rel=1e-8, abs=1e-9)
        assert exact.corrections == 0
        assert exact.uncertified == 0
        if stream is gaussian:
            assert exact.full_fits <= (exact.fits / 3 if start == 1 else 5)
        if bound == 0.3 and stream in (gaussian, heavy, drifting, far):
            assert exact.bound_active > 0


def test_blocks_and_batches_of_any_size(rng):
    """Every arm has its own history and reference, and a select need not come after every reward."""
    for bound in (None, 0.7):
        loss, exact = ExpectileLoss(0.1), ExactMinimizer(ExpectileLoss(0.1), 3, D, 0.1, bound)
        logs = [([], []) for _ in range(3)]
        for _ in range(120):
            for _ in range(int(rng.choice([1, 1, 1, 2, 5, 40]))):
                block = int(rng.integers(3))
                x, y = heavy_features(rng, 1)
                exact.observe(block, x[0], float(y[0]))
                logs[block][0].append(x[0])
                logs[block][1].append(float(y[0]))
            exact.refresh()
        d1_squares = 0.0
        for block, (features, rewards) in enumerate(logs):
            solution = minimise(loss, np.array(features), np.array(rewards), 0.1, bound)
            assert_matches(exact, block, solution, tied=False)
            d1_squares += solution.d1_squares
        assert exact.d1_squares == pytest.approx(d1_squares, rel=1e-9)
        assert exact.full_fits < exact.fits


def test_sums_are_those_of_a_full_pass_within_the_rounding_accounted_for(rng):
    """The certificate rests on this gradient and on this bound of its error."""
    loss, n = ExpectileLoss(0.05), 700
    for stream in (gaussian, heavy, heavy_features, drifting, far):
        features, rewards = stream(rng, n)
        exact = ExactMinimizer(loss, 1, D, 0.1, None)
        for k in range(n):
            exact.observe(0, features[k], float(rewards[k]))
            if k < 500:
                continue
            exact.refresh()
            window = exact._windows[0]
            if window.sums.updates == 0:
                continue
            x, y = features[: k + 1].astype(np.longdouble), rewards[: k + 1].astype(np.longdouble)
            theta = window.theta.astype(np.longdouble)
            curvatures = loss.d2(rewards[: k + 1], features[: k + 1] @ window.theta)
            true = x.T @ (curvatures * (x @ theta - y)) + 0.1 * theta
            scale = np.abs(x).T @ (curvatures * (np.abs(y) + np.abs(x) @ np.abs(theta))) + 0.1 * np.abs(theta)
            computed = window.sums.gradient(window.theta, window._shift)
            # Of the gradient at the reference itself: what the full pass rounds, of some units per observation.
            assert np.abs(computed - true).max() <= 2e-14 * scale.max()
            tolerance = window.sums.tolerance(window.theta, window._shift, 1e-12)
            assert 0.5e-12 * scale.max() <= tolerance <= 1e-12 * scale.max()
        features_now, rewards_now = features[:n], rewards[:n]
        slopes = loss.d1(rewards_now, features_now @ exact.theta[0])
        assert exact.d1_squares == pytest.approx(slopes @ slopes, rel=1e-9)


def test_the_certificate_refuses_a_reference_too_far_away(rng):
    """Sums about a point a million times farther than the answer have lost the digits of the answer."""
    loss = ExpectileLoss(0.1)
    exact = ExactMinimizer(loss, 1, 2, 1.0, None)
    exact.observe(0, np.array([1e-3, 0.0]), 1e12)
    exact.refresh()
    far_away = np.linalg.norm(exact.theta[0])
    for k, x in enumerate(rng.standard_normal((30, 2)) * 1e3):
        exact.observe(0, x, float(x[0] / 1e3))
        before = exact.full_fits
        exact.refresh()
        if k == 0:
            assert exact.full_fits == before + 1
    assert np.linalg.norm(exact.theta[0]) < 1e-3 * far_away
    assert exact.certified == [True]


def test_a_reward_that_moves_theta_far_is_seen_by_every_observation(rng):
    """One outlier can turn hundreds of observations over that were far from the kink: they must be looked at."""
    for size in (1e3, 1e5):
        features, rewards = gaussian(rng, 3003)
        features[3000:3003], rewards[3000:3003] = 30 * features[3000:3003], size
        exact = ExactMinimizer(ExpectileLoss(0.2), 1, D, 0.1, None)
        for k in range(3003):
            exact.observe(0, features[k], float(rewards[k]))
            if k >= 2998:
                exact.refresh()
                solution = minimise(ExpectileLoss(0.2), features[: k + 1], rewards[: k + 1], 0.1)
                assert_matches(exact, 0, solution, tied=False)
        assert exact.full_fits >= 2


def test_the_dial_survives_a_perfect_fit_of_a_huge_reward():
    """At the last reference the sum of squares is 1e6, after the fit 1e-7: a difference of sums would be noise."""
    exact = ExactMinimizer(SquaredLoss(), 1, 2, 1e-9, None)
    features = np.array([[1.0, 0.0]] * 20 + [[1.0, 1.0]])
    rewards = 1e6 + np.append(1e-4 * np.arange(20.0) ** 0.5, 1e3)
    for x, y in zip(features, rewards, strict=True):
        exact.observe(0, x, float(y))
        exact.refresh()
    residuals = rewards - features @ exact.theta[0]
    assert exact.d1_squares == pytest.approx(residuals @ residuals, rel=2e-5)


def test_the_certificate_gives_up_before_rounding_could_matter(rng):
    """A bound that does not grow with the number of updates would certify noise in the end."""
    features, rewards = gaussian(rng, 60)
    exact = ExactMinimizer(ExpectileLoss(0.1), 1, D, 0.1, 0.5)
    for x, y in zip(features, rewards, strict=True):
        exact.observe(0, x, float(y))
    exact.refresh()
    sums, theta = exact._windows[0].copy().sums, exact.theta[0]
    still, moved = np.zeros(D), 0.1 * np.ones(D)
    assert sums.tolerance(theta, still, 1e-12) > 0
    peak, sums._moment_peak = sums._moment_peak, 0.0
    sums.updates = 10**6
    assert sums.tolerance(theta, still, 1e-12) > 0
    assert sums.tolerance(theta, moved, 1e-12) < 0
    sums._moment_peak = peak
    assert sums.tolerance(theta, still, 1e-12) < 0


def test_distances_are_safe_for_rounding_and_for_features_of_any_size(rng):
    """An observation wrongly held to be far from the kink keeps a wrong weight until the next reference."""
    n = 1000
    features = rng.standard_normal((n, D)) * 10.0 ** rng.uniform(-3, 3, (n, 1))
    theta = rng.standard_normal(D)
    rewards = np.array([sum((float(a) * float(b) for a, b in zip(x, theta, strict=True))) for x in features])
    rewards[200:] += rng.standard_normal(800)
    features[490:492], features[492:494], rewards[494:496] = 0.0, 1e-200, 0.0
    features[494:496] = 1e-300
    point = minimise(ExpectileLoss(0.1), features, rewards, 1e-9, None, theta).point
    point = dataclasses.replace(point, theta=theta, predictions=features @ theta)
    reference = refer(features, rewards, point, kinked=True)
    assert len(reference.rows) < n
    assert (np.diff(reference.distances) >= 0).all()
    assert reference.distances[199] <= 0.0  # the exact ties, whichever way their sums were rounded
    near = {row.tobytes() for row in reference.rows}
    assert np.zeros(D).tobytes() not in near
    for x, y in zip(features, rewards, strict=True):
        if x.tobytes() not in near:
            for _ in range(3):
                shift = rng.standard_normal(D)
                shift *= 0.999 * reference.limit / np.linalg.norm(shift)
                assert (y >= x @ (theta + shift)) == (y >= x @ theta)


def test_the_full_check_puts_a_spoilt_refit_right(rng):
    """Should the sums ever be wrong, every 2 sqrt(n) observations the whole history has the last word."""
    features, rewards = gaussian(rng, 400)
    exact = ExactMinimizer(ExpectileLoss(0.1), 1, D, 0.1, None)
    for k in range(300):
        exact.observe(0, features[k], float(rewards[k]))
    exact.refresh()
    sums = exact._windows[0].sums
    sums._moment = sums._moment * (1 + 1e-6) + 1e-6
    for k in range(300, 400):
        exact.observe(0, features[k], float(rewards[k]))
        exact.refresh()
    assert exact.corrections == 1
    solution = minimise(ExpectileLoss(0.1), features, rewards, 0.1)
    assert_matches(exact, 0, solution, tied=False)


def test_references_follow_the_schedule(rng):
    """Too many and a refit costs a pass; too few and corrections accumulate."""
    features, rewards = gaussian(rng, 2500)
    exact, full = ExactMinimizer(ExpectileLoss(0.3), 1, D, 0.1, None), []
    for k in range(2500):
        exact.observe(0, features[k], float(rewards[k]))
        if k >= 2000:
            exact.refresh()
            if exact.full_fits > len(full):
                full.append(k + 1)
    assert full == [2001, 2091, 2183, 2277, 2373, 2471]


def window_bytes(exact):
    """Everything the windows' future depends on."""
    parts = []
    for window in exact._windows:
        if window is None:
            parts.append(None)
            continue
        fresh = window._folded - window._reference.count
        for owner in (window, window.sums, window._reference):
            for name in type(owner).__slots__:
                value = getattr(owner, name)
                if name in ("_new_residuals", "_new_sizes"):
                    value = value[:fresh]
                if name == "_is_upper":
                    value = value[: len(window._reference.rows) + fresh]
                if name not in ("sums", "_reference"):
                    parts.append((name, value.tobytes() if isinstance(value, np.ndarray) else value))
    rows = [(name, array.tobytes()) for name, array in exact._rows.arrays().items()]
    return parts, rows, exact.full_fits, exact.corrections, exact.fits, exact.observations


@pytest.mark.parametrize("bound", [None, 0.6])
def test_a_mark_is_restored_byte_for_byte_over_new_references(bound, rng):
    """A rolled-back batch that made a new reference must leave no trace in what later refits give."""
    exact, plain = (ExactMinimizer(ExpectileLoss(0.1), 2, D, 0.1, bound) for _ in range(2))

    def learn(estimators, count):
        features, rewards = heavy_features(rng, count)
        for x, y in zip(features, rewards, strict=True):
            block = int(rng.random() < 0.8)
            for estimator in estimators:
                estimator.observe(block, x, float(y))
                estimator.refresh()

    renewed = 0
    for _ in range(12):
        learn((exact, plain), int(rng.integers(1, 25)))
        exact.mark()
        before = window_bytes(exact)
        for undone in (3, 40, 130):
            fits = exact.full_fits
            learn((exact,), undone)
            renewed += exact.full_fits > fits
            exact.restore()
            assert window_bytes(exact) == before
    learn((exact, plain), 60)
    assert window_bytes(exact) == window_bytes(plain)
    assert renewed > 20


def test_memory_is_the_history_and_little_more(rng):
    """8 (d + 1) bytes an observation, doubled at most by spare capacity, and what lies near the kink."""
    n, d = 2**15, 8
    exact = ExactMinimizer(ExpectileLoss(0.1), 1, d, 0.1, None)
    features = rng.standard_normal((n, d))
    for x, y in zip(features, rng.standard_normal(n), strict=True):
        exact.observe(0, x, float(y))
    exact.refresh()
    assert exact.nbytes < 1.08 * 8 * (d + 1) * n


CYCLING = [139, 481, 557, 905, 926, 1176, 1186, 1204, 1387, 1504, 1690, 1846, 2167, 2256, 2428, 2577, 3009, 3448]


@pytest.mark.parametrize("level", [0.001, 0.999])
def test_tiny_hard_problems_are_always_certified(level, rng):
    """Few heavy-tailed observations at an extreme level: full steps cycle on half a per cent of these."""
    seeds = [*CYCLING, *rng.integers(2**31, size=TINY // 2).tolist()]
    in_full = fits = 0
    for seed in seeds:
        draw = np.random.default_rng(seed)
        count, dimension = int(draw.integers(4, 12)), int(draw.integers(2, 4))
        features, rewards = draw.standard_t(1.0, (count, dimension)), draw.standard_t(1.0, count)
        bound = None if seed % 2 else float(10 ** draw.uniform(-2, 1))
        exact = ExactMinimizer(ExpectileLoss(level), 1, dimension, 1e-6, bound)
        for x, y in zip(features, rewards, strict=True):
            exact.observe(0, x, float(y))
            exact.refresh()
        assert exact.uncertified == 0, seed
        in_full += exact.full_fits
        fits += exact.fits
    assert in_full < 0.8 * fits


def test_a_general_optimiser_finds_nothing_lower(rng):
    """Random problems learned one observation at a time, against L-BFGS with the exact gradient."""
    for problem in range(PROBLEMS):
        dimension, count = int(rng.integers(1, 6)), int(rng.integers(1, 60))
        features = rng.standard_normal((count, dimension))
        rewards = features[:, 0] + rng.standard_t(2.0, count)
        loss = ExpectileLoss(float(rng.choice([0.01, 0.1, 0.5, 0.9, 0.99])))
        alpha = float(10 ** rng.uniform(-1, 1))
        exact = ExactMinimizer(loss, 1, dimension, alpha, None)
        for x, y in zip(features, rewards, strict=True):
            exact.observe(0, x, float(y))
            exact.refresh()

        def objective(theta, features=features, rewards=rewards, loss=loss, alpha=alpha):
            predictions = features @ theta
            value = loss.value(rewards, predictions).sum() + alpha / 2 * theta @ theta
            return value, features.T @ loss.d1(rewards, predictions) + alpha * theta

        options = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 500, "maxcor": 20}
        other = minimize(objective, np.zeros(dimension), jac=True, method="L-BFGS-B", options=options)
        ours = objective(exact.theta[0])[0]
        assert ours <= other.fun + 1e-12 * abs(other.fun), problem
        np.testing.assert_allclose(exact.theta[0], other.x, rtol=1e-5, atol=1e-5)
