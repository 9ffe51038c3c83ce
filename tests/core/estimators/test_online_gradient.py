"""Online gradient descent: against the algorithm as it is written, and its safeguards."""

import numpy as np
import pytest

from prudent.core.estimators import OnlineGradient
from prudent.core.measures import EntropicLoss, ExpectileLoss, SquaredLoss
from prudent.core.numerics.newton import minimise
from tests.core.estimators.test_estimators import D, observations, online


class PlainDescent:
    """Online gradient descent as the algorithm is written, in lists and loops: an independent oracle."""

    def __init__(self, like, blocks):
        self.known = set()
        self.like, self.start, self.episode = like, [], []
        self.iterates = {block: [] for block in range(blocks)}
        self.first, self.published = {}, {block: np.zeros(D) for block in range(blocks)}
        self.gram = {block: np.zeros((D, D)) for block in range(blocks)}
        self.d1_squares = self.d2_total = 0.0
        if not like.start_observations:
            self.first = dict(self.published)

    def project(self, theta):
        norm = np.linalg.norm(theta)
        return theta if self.like.bound is None or norm <= self.like.bound else theta / norm * self.like.bound

    def observe(self, block, x, y):
        loss = self.like.loss
        self.known.add(block)
        if not self.first:
            self.start.append((block, x, y))
            self.solve()
            if len(self.start) == self.like.start_observations:
                self.first = dict(self.minimisers)
            return
        xi = float(self.published[block] @ x)
        self.gram[block] = self.gram[block] + loss.d2(y, xi) * np.outer(x, x)
        self.d1_squares += loss.d1(y, xi) ** 2
        self.d2_total += loss.d2(y, xi)
        self.episode.append((block, x, y))
        if len(self.episode) == self.like.episode_length:
            self.step()

    def solve(self):
        like, self.minimisers = self.like, {}
        self.d1_squares = self.d2_total = 0.0
        for block in self.iterates:
            mine = [(x, y) for k, x, y in self.start if k == block]
            features = np.array([x for x, _ in mine]).reshape(len(mine), D)
            rewards = np.array([y for _, y in mine])
            self.minimisers[block] = minimise(like.loss, features, rewards, like.regularization).theta
            theta = self.published[block] = self.minimisers[block] = self.project(self.minimisers[block])
            xi = features @ theta
            self.gram[block] = (features.T * like.loss.d2(rewards, xi)) @ features
            self.d1_squares += (like.loss.d1(rewards, xi) ** 2).sum()
            self.d2_total += like.loss.d2(rewards, xi).sum()

    def step(self):
        like, loss = self.like, self.like.loss
        size = like.episode_length * like.feature_bound**2
        for block, iterates in self.iterates.items():
            if block not in self.known:
                continue
            theta = iterates[-1] if iterates else self.first[block]
            n = len(iterates) + 1
            if like.schedule == "harmonic":
                eps = like.step_size / n
            else:
                a = loss.curvature_min * size / D
                eps = 3 / (a * (n + max(0, 3 * (loss.curvature_max * size + like.regularization) / a - 1)))
            mine = [(x, y) for k, x, y in self.episode if k == block]
            squares = sum(x @ x for x, _ in mine)
            if squares > size:
                eps = min(eps, 1 / (loss.curvature_max * squares + like.regularization))
            if loss.is_steep:
                steepness = sum(loss.d2(y, float(theta @ x)) * (x @ x) for x, y in mine)
                eps = min(eps, 1 / (steepness + like.regularization))
            slope = sum((loss.d1(y, float(theta @ x)) * x for x, y in mine), like.regularization * theta)
            iterates.append(self.project(theta - eps * slope))
            self.published[block] = np.mean(iterates, axis=0)
        self.episode = []


@pytest.mark.parametrize("loss", [SquaredLoss(), ExpectileLoss(0.1), EntropicLoss(-0.5, -4, 4)], ids=repr)
@pytest.mark.parametrize("schedule", ["harmonic", "theory"])
@pytest.mark.parametrize(("bound", "start", "feature_bound"), [(None, 0, 1.0), (0.3, 9, 1.0), (1.0, 5, 0.3)])
def test_online_gradient_agrees_with_a_plain_implementation(loss, schedule, bound, start, feature_bound, rng):
    """Sign, schedule, averaging and start: each was wrong in the published code, and cost a third."""
    fast = online(loss, bound=bound, start=start, schedule=schedule, feature_bound=feature_bound, h=3, step=0.2)
    slow = PlainDescent(fast, 2)
    for block, x, y in observations(rng, 60):
        reward = min(max(y, -4.0), 4.0)
        fast.observe(block, x, reward)
        slow.observe(block, x, reward)
        fast.refresh()
        for k in range(2):
            np.testing.assert_allclose(fast.theta[k], slow.published[k], rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(fast.weighted_gram[k], slow.gram[k], rtol=1e-9, atol=1e-12)
        assert fast.d1_squares == pytest.approx(slow.d1_squares, rel=1e-9)
        assert fast.d2_total == pytest.approx(slow.d2_total, rel=1e-9)
    assert fast.episodes == (60 - start) // 3
    assert fast.skipped_steps == 0


def test_online_start_is_dropped_when_complete(rng):
    """A streaming estimator whose memory grows with the log is not one."""
    estimator = online(start=20)
    sizes = []
    for observation in observations(rng, 40):
        estimator.observe(*observation)
        sizes.append(estimator.nbytes)
        if len(sizes) == 24:
            np.testing.assert_allclose(estimator.theta, estimator._iterate, rtol=1e-12)
    assert max(sizes[:19]) > sizes[19]
    assert len(set(sizes[19:])) == 1
    assert estimator.arrays()["start_rewards"].shape == (0,)


@pytest.mark.parametrize("loss", [SquaredLoss(), ExpectileLoss(0.01), EntropicLoss(-0.5, 0, 4)], ids=repr)
@pytest.mark.parametrize("h", [1, 5, 50])
@pytest.mark.parametrize("length", [0.1, 1.0])
def test_online_steps_by_theory_never_overshoot(loss, h, length):
    """The schedule rests on a small unknown eigenvalue: without its delay the first step is 3 d times too long."""
    estimator = OnlineGradient(loss, 1, 20, 0.1, None, 1.0, h, "theory", 1.0, 0)
    x = np.zeros(20)
    x[3] = length
    predictions = []
    for _ in range(40 * h):
        estimator.observe(0, x, 1.0)
        predictions.append(float(estimator._iterate[0] @ x))
    assert 0.0 < predictions[-1] < 1.0
    assert np.diff(predictions).min() >= -1e-14


@pytest.mark.parametrize("schedule", ["harmonic", "theory"])
def test_online_features_above_the_bound_do_not_diverge(schedule, rng):
    """A feature sent in the wrong unit must slow learning down, not blow the parameter up."""
    estimator = online(SquaredLoss(), 1, None, schedule, start=0, step=1.0, feature_bound=1.0)
    truth = np.array([1.0, -1.0, 0.5]) / 1000
    for _ in range(4000):
        x = 1000 * rng.standard_normal(D)
        estimator.observe(0, x, float(truth @ x))
    assert np.linalg.norm(estimator.theta[0] - truth) < np.linalg.norm(truth)
    assert estimator.skipped_steps == 0


@pytest.mark.parametrize("gamma", [2.0, -2.0])
def test_online_steep_exponential_is_not_overshot(gamma):
    """One rare reward under the entropic loss would throw the estimate far out of the rewards' range, for good."""
    estimator = online(EntropicLoss(gamma, -5.0, 5.0), 1, None, "harmonic", start=0, h=1, step=0.1)
    x = np.array([1.0, 0.0, 0.0])
    estimator.observe(0, x, 5.0 * np.sign(gamma))
    assert 0.0 < estimator.theta[0, 0] * np.sign(gamma) <= 1.01 / abs(gamma)
    assert estimator.skipped_steps == 0


def test_online_overflow_is_skipped_and_counted():
    """An exponential that overflows must cost one step, not the campaign."""
    estimator = online(EntropicLoss(1.0, -1.0, 1.0), 1, 1.0, start=0, h=1)
    good = np.array([0.5, 0.1, 0.0])
    estimator.observe(0, good, 0.5)
    theta, gram = estimator.theta.copy(), estimator.weighted_gram.copy()
    estimator.observe(0, good, 5000.0)
    assert estimator.skipped_steps == 1
    np.testing.assert_array_equal(estimator.theta, theta)
    np.testing.assert_array_equal(estimator.weighted_gram, gram)
    assert estimator.is_sane()
    estimator.observe(0, good, 0.5)
    assert estimator.skipped_steps == 1
    assert np.abs(estimator.theta - theta).max() > 0


def test_online_arm_added_later_averages_its_own_iterates(rng):
    """An arm added in the second year must not be averaged with a year of zeros, nor step as if old."""
    old, new = online(SquaredLoss(), 1, None, start=0, h=1), online(SquaredLoss(), 1, None, start=0, h=1)
    for observation in observations(rng, 200, 1):
        old.observe(*observation)
    old.add_block()
    for _, x, y in observations(rng, 20, 1):
        old.observe(1, x, y)
        new.observe(0, x, y)
    np.testing.assert_array_equal(old.theta[1], new.theta[0])
