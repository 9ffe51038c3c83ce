"""The implicit one-pass step: against a slow plain version, and where an explicit one breaks."""

import math
import tracemalloc

import numpy as np
import pytest
from scipy.optimize import brentq, minimize

from prudent.core.confidence import ConfidenceSettings
from prudent.core.encoding import FeatureMap
from prudent.core.estimators import ExactMinimizer, OnePass
from prudent.core.measures import EntropicLoss, Expectile, ExpectileLoss, SquaredLoss
from prudent.core.measures.entropic import implicit_exponent
from prudent.core.numerics.newton import minimise
from prudent.core.policy import Policy

D = 3
LOSSES = [SquaredLoss(), ExpectileLoss(0.1), ExpectileLoss(0.8), EntropicLoss(-0.7, -4, 4), EntropicLoss(1.5, -4, 4)]
every_loss = pytest.mark.parametrize("loss", LOSSES, ids=repr)


def observations(rng, count, blocks=1, dimension=D):
    for _ in range(count):
        x = rng.standard_normal(dimension)
        y = float(np.clip(rng.standard_normal() + x[0], -4, 4))
        yield int(rng.integers(blocks)), x / (1 + np.linalg.norm(x)), y


def metric(estimator, block=0):
    return estimator.weighted_gram[block] + estimator.regularization * np.eye(estimator.dimension)


def factor_error(estimator, block=0):
    """How far R^T A R is from I; measured in R's own coordinates, so that units play no part."""
    factor = estimator._scoring[block, :, :-1]
    return np.abs(factor.T @ metric(estimator, block) @ factor - np.eye(estimator.dimension)).max()


class PlainOnePass:
    """The algorithm as written: explicit inverses, scalar roots by brentq, the ball by a general solver."""

    def __init__(self, like, blocks):
        self.like, self.start = like, []
        self.theta = [np.zeros(D) for _ in range(blocks)]
        self.matrix = [like.regularization * np.eye(D) for _ in range(blocks)]
        self.d1_squares = self.d2_total = 0.0

    def observe(self, block, x, y):
        if len(self.start) < self.like.start_observations:
            self.start.append((block, x, y))
            self.solve()
            return
        loss, theta, inverse = self.like.loss, self.theta[block], np.linalg.inv(self.matrix[block])
        before, leverage = float(theta @ x), float(x @ inverse @ x)
        low, high = min(before, y), max(before, y)
        u = brentq(lambda u: u - before + leverage * loss.d1(y, u), low - 1e-9, high + 1e-9, xtol=1e-15)
        self.d1_squares += loss.d1(y, u) ** 2
        self.d2_total += loss.d2(y, u)
        moved = theta - inverse @ x * loss.d1(y, u)
        self.theta[block] = self.nearest(self.matrix[block], moved)
        self.matrix[block] = self.matrix[block] + loss.d2(y, u) * np.outer(x, x)

    def nearest(self, matrix, moved):
        bound = self.like.bound
        if bound is None or np.linalg.norm(moved) <= bound:
            return moved
        found = minimize(
            lambda z: (z - moved) @ matrix @ (z - moved),
            moved / np.linalg.norm(moved) * bound,
            jac=lambda z: 2 * matrix @ (z - moved),
            constraints={"type": "ineq", "fun": lambda z: bound**2 - z @ z, "jac": lambda z: -2 * z},
            method="SLSQP",
            options={"ftol": 1e-16, "maxiter": 200},
        )
        return found.x

    def solve(self):
        self.d1_squares = self.d2_total = 0.0
        for block in range(len(self.theta)):
            features = np.array([x for k, x, _ in self.start if k == block]).reshape(-1, D)
            rewards = np.array([y for k, _, y in self.start if k == block])
            loss, alpha = self.like.loss, self.like.regularization
            self.theta[block] = minimise(loss, features, rewards, alpha, self.like.bound).theta
            xi = features @ self.theta[block]
            self.matrix[block] = (features.T * loss.d2(rewards, xi)) @ features + alpha * np.eye(D)
            self.d1_squares += float((loss.d1(rewards, xi) ** 2).sum())
            self.d2_total += float(loss.d2(rewards, xi).sum())


@every_loss
@pytest.mark.parametrize(("bound", "start"), [(None, 0), (None, 9), (0.4, 0), (0.4, 12), (2.0, 7)])
def test_agrees_with_a_plain_implementation(loss, bound, start, rng):
    """The published one-pass steps differ in the point of the curvature, the metric of the ball and the start."""
    fast = OnePass(loss, 2, D, 0.1, bound, start)
    slow = PlainOnePass(fast, 2)
    at_the_ball = 0
    for block, x, y in observations(rng, 80, 2):
        fast.observe(block, x, y)
        slow.observe(block, x, y)
        fast.refresh()
        for k in range(2):
            np.testing.assert_allclose(fast.theta[k], slow.theta[k], rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(metric(fast, k), slow.matrix[k], rtol=1e-5, atol=1e-6)
            at_the_ball += bound is not None and np.linalg.norm(fast.theta[k]) > 0.999999 * bound
        assert fast.d1_squares == pytest.approx(slow.d1_squares, rel=1e-5)
        assert fast.d2_total == pytest.approx(slow.d2_total, rel=1e-5)
    assert fast.skipped_steps == 0
    assert bound != 0.4 or at_the_ball > 20


@every_loss
def test_the_implicit_step_is_the_root(loss, rng):
    """Wherever the prediction and the reward are: the step must end between them, and where its equation says."""
    for _ in range(2000):
        y, before = rng.uniform(-4, 4, 2)
        leverage = 10.0 ** rng.uniform(-12, 12)
        slope, curvature = loss.implicit_step(y, before, leverage)
        root = brentq(
            lambda u, y=y, before=before, leverage=leverage: u - before + leverage * loss.d1(y, u),
            *sorted((y, before)),
            xtol=1e-14,
            rtol=1e-14,
        )
        # From u0 the step is q d1(y, u); where it is long, its end is known to the rounding of u0 and y alone.
        assert leverage * slope == pytest.approx(before - root, rel=1e-10, abs=1e-12)
        assert curvature == pytest.approx(loss.d2(y, root), rel=1e-10)


@pytest.mark.parametrize(
    "target", [-1e300, -1e3, -30.0, -1e-9, -1e-300, 0.0, 1e-300, 1e-9, 1.0, 30.0, 700.0, 1e3, 1e300]
)
@pytest.mark.parametrize("weight", [0.0, 1e-320, 1e-300, 1e-20, 1.0, 1e20, 1e300])
def test_the_exponent_solves_its_equation_over_the_whole_range(target, weight):
    """Newton's iteration on an exponential overflows or crawls when it starts on the wrong side."""
    z = implicit_exponent(target, weight)
    assert min(target, 0.0) <= z <= max(target, 0.0)
    if z > 700.0:
        assert weight * math.exp(700.0) < target
        return
    slope = 1.0 + weight * math.exp(z)
    scale = max(abs(z), abs(target), weight * abs(math.expm1(z)))
    assert abs(z + weight * math.expm1(z) - target) <= 1e-14 * scale + 1e-15 * slope * abs(z) + math.ulp(0.0) * weight


@pytest.mark.parametrize("alpha", [1e-8, 1e-3, 1.0])
@pytest.mark.parametrize("dimension", [2, 20])
def test_the_squared_loss_without_a_ball_is_ridge_regression(alpha, dimension, rng):
    """A square root of the inverse keeps the digits that an updated inverse loses when the ridge is small."""
    features = rng.standard_normal((200, dimension)) * 10.0 ** rng.uniform(-2, 0, dimension)
    features /= np.linalg.norm(features, axis=1).max()
    rewards = features @ rng.standard_normal(dimension) + 0.1 * rng.standard_normal(200)
    estimator = OnePass(SquaredLoss(), 1, dimension, alpha, None, 0)
    for count, (x, y) in enumerate(zip(features, rewards, strict=True), 1):
        estimator.observe(0, x, float(y))
        if count in (1, 2, dimension, 200):
            stacked = np.vstack([features[:count], math.sqrt(alpha) * np.eye(dimension)])
            q, r = np.linalg.qr(stacked)
            theta = np.linalg.solve(r, q[:count].T @ rewards[:count])
            assert np.linalg.norm(estimator.theta[0] - theta) <= 1e-8 * np.linalg.norm(theta)


@every_loss
def test_the_factor_stays_that_of_the_metric(loss, rng):
    """The step's metric and the bonus's are two sums of the same observations, and must not part."""
    estimator = OnePass(loss, 1, D, 1e-6, 1.0, 10)
    for observation in observations(rng, 3000):
        estimator.observe(*observation)
    estimator.refresh()
    assert factor_error(estimator) < 1e-10


def test_a_rare_large_reward_does_not_end_the_learning(rng):
    """An explicit step freezes: at the old prediction the first large reward weighs as 3,000 ordinary ones."""
    loss, one = EntropicLoss(1.0, 0.0, 8.0), np.ones(1)
    implicit, exact = OnePass(loss, 1, 1, 0.1, None, 0), ExactMinimizer(loss, 1, 1, 0.1, None)
    explicit, curvature = 0.0, 0.1
    for _ in range(300):
        y = 8.0 if rng.random() < 0.1 else 0.0
        implicit.observe(0, one, y)
        exact.observe(0, one, y)
        curvature += loss.d2(y, explicit)
        explicit -= loss.d1(y, explicit) / curvature
    exact.refresh()
    assert exact.theta[0, 0] > 5.0
    assert abs(explicit - exact.theta[0, 0]) > 2.5  # the test is worth having
    assert abs(implicit.theta[0, 0] - exact.theta[0, 0]) < 0.5
    assert implicit.skipped_steps == 0
    # Nor does the data-driven noise scale, at which the arms would be played alike.
    scales = [math.sqrt(one.d1_squares / one.d2_total) for one in (implicit, exact)]
    assert scales[0] < 1.5 * scales[1]


def adversarial(rng, dimension):
    """Features from 1e-300 to the bound: zeros, collinear ones, mixed scales; rewards of every size."""
    direction = rng.standard_normal(dimension)
    while True:
        kind = rng.integers(6)
        if kind == 0:
            x = np.zeros(dimension)
        elif kind == 1:
            x = direction * (1 + 1e-12 * rng.standard_normal())
        elif kind == 2:
            x = rng.standard_normal(dimension) * 10.0 ** rng.uniform(-300, 0, dimension)
        elif kind == 3:
            x = rng.standard_normal(dimension) * 10.0 ** rng.uniform(-8, 0)
        elif kind == 4:
            x = np.eye(dimension)[rng.integers(dimension)]
        else:
            x = rng.standard_normal(dimension)
        norm = np.linalg.norm(x)
        x = x / norm if norm > 1 else x
        yield x, float(rng.uniform(-1, 1) * 10.0 ** rng.uniform(-12, 0.6))


@every_loss
@pytest.mark.parametrize(("dimension", "alpha"), [(1, 1e-9), (5, 1e-9), (63, 0.1)])
@pytest.mark.parametrize("bound", [None, 0.5])
def test_adversarial_updates_keep_the_state_sound(loss, dimension, alpha, bound, rng):
    """An indefinite matrix or a single nan would end a campaign."""
    estimator = OnePass(loss, 1, dimension, alpha, bound, 4)
    for (x, y), _ in zip(adversarial(rng, dimension), range(3000), strict=False):
        estimator.observe(0, x, y)
        if bound is not None:
            assert np.linalg.norm(estimator.theta[0]) <= bound * (1 + 1e-15)
    estimator.refresh()
    assert estimator.is_sane()
    assert estimator.skipped_steps == 0
    largest = np.linalg.eigvalsh(estimator.weighted_gram[0]).max()
    assert np.linalg.eigvalsh(metric(estimator)).min() > 0.5 * alpha - 1e-14 * largest
    assert np.linalg.svd(estimator._scoring[0, :, :-1], compute_uv=False).min() > 0
    assert factor_error(estimator) < 1e-5


@pytest.mark.parametrize("condition", [1.0, 1e4, 1e8])
def test_the_ball_is_met_at_its_nearest_point(condition, rng):
    """The nearest point in the wrong metric undoes what well explored directions have learned."""
    scales = np.geomspace(1.0, 1.0 / math.sqrt(condition), 6)
    estimator = OnePass(SquaredLoss(), 1, 6, 1.0 / condition, 0.3, 0)
    for _ in range(100):
        before = metric(estimator)
        x = scales * rng.standard_normal(6) / 3
        y = float(rng.standard_normal()) + float(x.sum())
        free = estimator.theta[0] - np.linalg.solve(before + np.outer(x, x), x * (x @ estimator.theta[0] - y))
        estimator.observe(0, x, y)
        theta = estimator.theta[0]
        if np.linalg.norm(free) <= 0.3 * (1 - 1e-6):
            np.testing.assert_allclose(theta, free, rtol=1e-6, atol=1e-9)
            continue
        pull = before @ (theta - free)
        multiplier = -(pull @ theta) / (theta @ theta)
        assert multiplier >= -1e-12
        sizes = np.abs(before) @ (np.abs(theta) + np.abs(free)) + multiplier * np.abs(theta)
        assert np.abs(pull + multiplier * theta).max() <= 1e-8 * sizes.max()


@every_loss
def test_blocks_learn_apart(loss, rng):
    """An arm of the disjoint model must learn nothing from another, not even in the last digit."""
    together = OnePass(loss, 2, D, 0.1, 1.0, 0)
    apart = [OnePass(loss, 1, D, 0.1, 1.0, 0) for _ in range(2)]
    for block, x, y in observations(rng, 100, 2):
        together.observe(block, x, y)
        apart[block].observe(0, x, y)
    for block, alone in enumerate(apart):
        np.testing.assert_array_equal(together.theta[block], alone.theta[0])
        np.testing.assert_array_equal(together.weighted_gram[block], alone.weighted_gram[0])
        np.testing.assert_array_equal(together._scoring[block], alone._scoring[0])


def test_an_arm_that_comes_later_learns_like_the_first(rng):
    """Without a metric of its own it would never move from zero."""
    old, new = (OnePass(ExpectileLoss(0.1), 1, D, 0.1, 1.0, 0) for _ in range(2))
    for observation in observations(rng, 50):
        old.observe(*observation)
    old.add_block()
    for _, x, y in observations(rng, 20):
        old.observe(1, x, y)
        new.observe(0, x, y)
    assert np.linalg.norm(new.theta[0]) > 0.1
    np.testing.assert_array_equal(old.theta[1], new.theta[0])


def test_an_overflow_is_skipped_and_counted():
    """An exponential that overflows must cost one observation, not the campaign."""
    estimator = OnePass(EntropicLoss(1.0, -1.0, 1.0), 1, D, 0.1, 1.0, 0)
    good = np.array([0.5, 0.1, 0.0])
    estimator.observe(0, good, 0.5)
    theta, weighted, squares = estimator.theta.copy(), estimator.weighted_gram.copy(), estimator.d1_squares
    estimator.observe(0, np.zeros(D), 5000.0)
    assert (estimator.skipped_steps, estimator.observations) == (1, 2)
    np.testing.assert_array_equal(estimator.theta, theta)
    np.testing.assert_array_equal(estimator.weighted_gram, weighted)
    assert estimator.d1_squares == squares
    # The step itself does not overflow where the features are not tiny: it is taken, and the state is sound.
    estimator.observe(0, good, 5000.0)
    assert estimator.skipped_steps == 1
    assert estimator.is_sane()
    assert np.linalg.norm(estimator.theta[0]) == pytest.approx(1.0)


def test_an_overflow_during_the_start_is_counted():
    """The observation that theta_0 cannot hold must not enter the metric as infinity."""
    estimator = OnePass(EntropicLoss(1.0, -1.0, 1.0), 1, 1, 0.1, 1.0, 2)
    estimator.observe(0, np.ones(1), 0.5)
    estimator.observe(0, np.ones(1), 5000.0)
    assert estimator.skipped_steps == 1
    assert estimator.is_sane()
    assert factor_error(estimator) < 1e-12
    assert estimator.weighted_gram[0, 0, 0] == pytest.approx(estimator.loss.d2(0.5, estimator.theta[0, 0]))


def test_memory_does_not_grow_with_the_log(rng):
    """What the estimator is for."""
    estimator = OnePass(ExpectileLoss(0.1), 1, D, 0.1, None, 20)
    sizes = []
    for observation in observations(rng, 60):
        estimator.observe(*observation)
        sizes.append(estimator.nbytes)
    assert max(sizes[:19]) > sizes[19]
    assert len(set(sizes[19:])) == 1
    assert estimator.arrays()["start_rewards"].shape == (0,)


def test_fifty_arms_of_twenty_features_never_meet_in_one_matrix(rng):
    """A 1000 x 1000 matrix is 8 MB and a thousand times the work: the blocks are the point of the model."""
    loss, blocks, dimension = ExpectileLoss(0.1), 50, 20
    contexts = rng.standard_normal((300, dimension)) / 5
    tracemalloc.start()
    try:
        policy = Policy(
            measure=Expectile(0.1),
            estimator=OnePass(loss, blocks, dimension, 1.0, 1.0, 100),
            feature_map=FeatureMap(np.zeros(dimension), np.ones(dimension), intercept=False),
            confidence=ConfidenceSettings(1.0),
            exploration=1.0,
            blocks_at_creation=blocks,
            arms=blocks,
            centred=False,
        )
        for number, context in enumerate(contexts):
            policy.observe(number % blocks, context, 1.0)
            policy.score(context, np.arange(blocks))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 4 * blocks * dimension**2 * 8 <= policy.nbytes < 2e6
    assert peak < 4e6


@pytest.mark.parametrize(
    "settings",
    [(1, 0, 0.1, None, 0), (1, 1, 0.0, None, 0), (1, 1, 1e-60, None, 0), (1, 1, math.nan, None, 0),
     (1, 1, 0.1, 0.0, 0), (1, 1, 0.1, math.inf, 0), (1, 1, 0.1, None, -1), (-1, 1, 0.1, None, 0)],
    ids=str,
)  # fmt: skip
def test_settings_that_cannot_work_are_refused(settings):
    """A campaign that cannot learn must fail when it is created."""
    with pytest.raises(ValueError, match=r"."):
        OnePass(SquaredLoss(), *settings)
