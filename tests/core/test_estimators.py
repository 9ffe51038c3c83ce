"""The estimators: what they learn, and that their state survives marks, snapshots and bad input."""

import math

import numpy as np
import pytest

from prudent.core.estimators import ExactMinimizer, OnePass, OnlineGradient, Ridge
from prudent.core.measures import EntropicLoss, ExpectileLoss, SquaredLoss
from prudent.core.numerics.newton import minimise

D = 3


def online(loss=None, blocks=2, bound=1.5, schedule="harmonic", start=7, h=4, step=0.3, feature_bound=2.0):
    return OnlineGradient(loss or ExpectileLoss(0.2), blocks, D, 0.1, bound, feature_bound, h, schedule, step, start)


MAKERS = {
    "ridge": lambda: Ridge(2, D, 0.1),
    "exact": lambda: ExactMinimizer(ExpectileLoss(0.2), 2, D, 0.1, 1.5),
    "exact-entropic": lambda: ExactMinimizer(EntropicLoss(-0.5, -20, 20), 2, D, 0.1, None),
    "online": online,
    "online-theory": lambda: online(schedule="theory", bound=None),
    "online-no-start": lambda: online(start=0),
    "online-long-start": lambda: online(start=60),
    "onepass": lambda: OnePass(ExpectileLoss(0.2), 2, D, 0.1, 0.4, 7),
    "onepass-entropic": lambda: OnePass(EntropicLoss(-0.5, -20, 20), 2, D, 0.1, None, 0),
    "onepass-long-start": lambda: OnePass(ExpectileLoss(0.2), 2, D, 0.1, 1.5, 60),
}
every = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
streaming = pytest.mark.parametrize(
    "make", [maker for name, maker in MAKERS.items() if "exact" not in name],
    ids=[name for name in MAKERS if "exact" not in name],
)  # fmt: skip


def observations(rng, count, blocks=2):
    for _ in range(count):
        x = rng.standard_normal(D)
        yield int(rng.integers(blocks)), x / (1 + np.linalg.norm(x)), float(rng.standard_normal() + x[0])


def fingerprint(estimator):
    """Every byte of the state."""
    parts = []
    for name in ("_rows", "_matrices", "_vectors"):
        if hasattr(estimator, name):
            parts += [(key, array.tobytes()) for key, array in getattr(estimator, name).arrays().items()]
    histories = getattr(estimator, "_histories", None) or getattr(estimator, "_start", None)
    if histories is not None:
        for block in range(len(estimator.theta)):
            parts.append((histories.features(block).tobytes(), histories.rewards(block).tobytes()))
    parts.append(sorted(getattr(estimator, "_stale", ())))
    parts.append([(k, v) for k, v in sorted(vars(estimator).items()) if type(v) is int])
    return parts


def step(estimator, rng):
    """One random operation."""
    kind = rng.random()
    if kind < 0.05:
        estimator.add_block()
    elif kind < 0.35:
        estimator.refresh()
    else:
        for observation in observations(rng, int(rng.integers(1, 6)), len(estimator.theta)):
            estimator.observe(*observation)


@every
@pytest.mark.parametrize("run", range(8))
def test_restore_returns_to_the_mark_byte_for_byte(make, run, rng):
    """A rolled-back transaction must leave no trace in what has been learned."""
    estimator, never_marked = make(), make()
    script = rng.spawn(1)[0]
    for _ in range(6):
        for _ in range(int(rng.integers(0, 12))):
            seed = int(script.integers(2**32))
            step(estimator, np.random.default_rng(seed))
            step(never_marked, np.random.default_rng(seed))
        estimator.mark()
        before = fingerprint(estimator)
        for _ in range(int(rng.integers(1, 4))):
            for _ in range(int(rng.integers(0, 12))):
                step(estimator, rng)
            estimator.restore()
            assert fingerprint(estimator) == before
    assert fingerprint(estimator) == fingerprint(never_marked)
    assert estimator.refresh() == never_marked.refresh()
    assert fingerprint(estimator) == fingerprint(never_marked)
    assert estimator.is_sane()


@every
def test_an_arm_undone_leaves_nothing_to_the_next(make):
    """The arm added after a rolled-back arm must not inherit what that one learned."""
    estimator, plain = make(), make()
    estimator.mark()
    estimator.add_block()
    for _ in range(40):
        estimator.observe(2, np.array([0.5, 0.1, 0.2]), 3.0)
    estimator.refresh()
    estimator.restore()
    estimator.add_block()
    plain.add_block()
    assert fingerprint(estimator) == fingerprint(plain)
    for each in (estimator, plain):
        each.observe(2, np.array([0.1, 0.2, 0.3]), 1.0)
        assert each.refresh() == [2]
    assert fingerprint(estimator) == fingerprint(plain)


@every
def test_a_mark_copies_only_the_blocks_that_change(make, rng):
    """A campaign of a thousand arms must not be copied for one reward."""
    estimator = make()
    estimator.mark()
    for x in rng.uniform(-0.5, 0.5, (2, D)):
        estimator.observe(1, x, 1.0)
    journals = [getattr(estimator, name) for name in ("_rows", "_matrices") if hasattr(estimator, name)]
    for journal in journals:
        assert list(journal._saved) == [1]
        assert journal._whole is None


@every
def test_restore_without_a_mark_is_an_error(make):
    """Silently doing nothing would keep what a failed transaction learned."""
    with pytest.raises(RuntimeError, match="mark"):
        make().restore()


@streaming
@pytest.mark.parametrize("run", range(5))
def test_stopping_and_loading_is_as_if_never_stopped(make, run, rng):
    """A worker that starts from a snapshot must answer like the one that wrote it."""
    estimator = make()
    script = rng.spawn(1)[0]
    for _ in range(int(rng.integers(0, 30))):
        step(estimator, rng)
    loaded = make()
    for _ in range(3):
        step(loaded, rng)
    loaded.load({name: array.copy() for name, array in estimator.arrays().items()})
    assert fingerprint(loaded) == fingerprint(estimator)
    with pytest.raises(RuntimeError, match="mark"):
        loaded.restore()
    for _ in range(30):
        seed = int(script.integers(2**32))
        step(estimator, np.random.default_rng(seed))
        step(loaded, np.random.default_rng(seed))
    assert loaded.refresh() == estimator.refresh()
    assert fingerprint(loaded) == fingerprint(estimator)
    assert loaded.arrays().keys() == estimator.arrays().keys()


@streaming
def test_a_snapshot_between_observation_and_refresh_is_complete(make):
    """What was observed but not yet solved when the snapshot was taken must be solved by the one that loads it."""
    estimator, loaded = make(), make()
    estimator.observe(1, np.array([0.1, 0.2, 0.3]), 1.0)
    loaded.load(estimator.arrays())
    assert loaded.refresh() == estimator.refresh() == [1]
    assert fingerprint(loaded) == fingerprint(estimator)


@streaming
def test_arrays_that_do_not_fit_are_refused_and_change_nothing(make, rng):
    """A snapshot of another campaign or a damaged one must not become a state."""
    estimator, other = make(), make()
    in_start = getattr(estimator, "start_observations", 0) > 30
    for observation in observations(rng, 30):
        estimator.observe(*observation)
        other.observe(*observation)
    good, before = other.arrays(), fingerprint(estimator)
    for name, array in good.items():
        damaged = [
            {key: value for key, value in good.items() if key != name},
            good | {name: array[..., None]},
            good | {name: array.astype(np.float32)},
        ]
        if array.dtype == np.float64 and array.size:
            spoiled = array.copy()
            spoiled.flat[-1] = math.nan
            damaged.append(good | {name: spoiled})
        if array.ndim and len(array) == 2:
            damaged.append(good | {name: array[:1]})
        if name == "counters":
            # Observations kept without a start, or a start without its observations.
            damaged.append(good | {name: array + (40 if in_start else -35) * np.eye(len(array), dtype=np.int64)[0]})
        for arrays in damaged:
            with pytest.raises(ValueError, match=r"."):
                estimator.load(arrays)
            assert fingerprint(estimator) == before


@every
def test_state_depends_on_the_observations_alone(make, rng):
    """Replaying the log in batches of another size must give the same state."""
    log = list(observations(rng, 80))
    often, rarely = make(), make()
    for observation in log:
        often.observe(*observation)
        often.refresh()
    for observation in log:
        rarely.observe(*observation)
    rarely.refresh()
    if isinstance(often, ExactMinimizer):
        np.testing.assert_allclose(often.theta, rarely.theta, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(often.weighted_gram, rarely.weighted_gram, rtol=1e-9)
    else:
        assert fingerprint(often) == fingerprint(rarely)


@every
def test_bad_observations_are_refused_and_change_nothing(make, rng):
    """One infinite reward would otherwise poison a campaign for good."""
    estimator = make()
    for observation in observations(rng, 20):
        estimator.observe(*observation)
    estimator.refresh()
    before, good = fingerprint(estimator), np.ones(D)
    bad_features = [np.array([1.0, value, 1.0]) for value in (math.nan, math.inf, -math.inf, 1e200)]
    bad = [(0, good, value) for value in (math.nan, math.inf, -math.inf, 1e200)]
    bad += [(0, x, 1.0) for x in bad_features]
    bad += [(2, good, 1.0), (-1, good, 1.0), (0, np.ones(D + 1), 1.0), (0, np.ones((D, 1)), 1.0)]
    for observation in bad:
        with pytest.raises(ValueError, match=r"finite|block|shape"):
            estimator.observe(*observation)
        assert fingerprint(estimator) == before
    assert estimator.refresh() == []


@every
def test_the_caller_may_reuse_its_arrays(make):
    """A buffer overwritten by the next request must not rewrite history."""
    kept, reused, buffer = make(), make(), np.empty(D)
    for k in range(10):
        kept.observe(0, np.array([1.0, 0.1 * k, -0.05 * k]), float(k))
        buffer[:] = [1.0, 0.1 * k, -0.05 * k]
        reused.observe(0, buffer, float(k))
        buffer[:] = math.nan
    kept.refresh()
    reused.refresh()
    assert fingerprint(kept) == fingerprint(reused)


@every
def test_changed_blocks_are_reported_once(make):
    """The index recomputes what is reported: a block left out keeps a stale bonus."""
    estimator = make()
    assert estimator.refresh() == []
    estimator.observe(1, np.array([0.5, 0.0, 0.1]), 1.0)
    assert estimator.refresh() == [1]
    assert estimator.refresh() == []
    estimator.add_block()
    assert estimator.refresh() == [2]
    assert estimator.theta.shape == (3, D)
    assert estimator.gram.shape == estimator.weighted_gram.shape == (3, D, D)
    np.testing.assert_array_equal(estimator.theta[2], np.zeros(D))


@every
def test_matrices_are_symmetric_and_the_gram_is_the_sum(make, rng):
    """The bonus inverts these matrices."""
    estimator, log = make(), list(observations(rng, 50))
    for observation in log:
        estimator.observe(*observation)
    estimator.refresh()
    for block in range(2):
        expected = sum(np.outer(x, x) for k, x, _ in log if k == block)
        np.testing.assert_allclose(estimator.gram[block], expected, rtol=1e-12, atol=1e-14)
        for matrix in (estimator.gram[block], estimator.weighted_gram[block]):
            np.testing.assert_array_equal(matrix, matrix.T)
            assert np.linalg.eigvalsh(matrix).min() > 0
    assert estimator.observations == 50
    assert estimator.is_sane()
    assert estimator.nbytes > 0
    estimator.weighted_gram[1, 0, 1] += 1e-9
    assert not estimator.is_sane()
    estimator.weighted_gram[1, 1, 0] = estimator.weighted_gram[1, 0, 1] = math.nan
    assert not estimator.is_sane()


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


@pytest.mark.parametrize("scale", [2.0**-20, 2.0**20])
@pytest.mark.parametrize("make", [lambda _: Ridge(1, D, 0.1),
                                  lambda s: ExactMinimizer(ExpectileLoss(0.1), 1, D, 0.1, 0.7 * s),
                                  lambda s: online(blocks=1, bound=0.7 * s),
                                  lambda s: OnePass(ExpectileLoss(0.1), 1, D, 0.1, 0.3 * s, 9)],
                         ids=["ridge", "exact", "online", "onepass"])  # fmt: skip
def test_scaled_rewards_scale_the_estimate(make, scale, rng):
    """Cents and dollars choose the same arms: by a power of two, to the last bit."""
    plain, scaled = make(1.0), make(scale)
    for block, x, y in observations(rng, 40, 1):
        plain.observe(block, x, y)
        scaled.observe(block, x, scale * y)
        plain.refresh()
        scaled.refresh()
    np.testing.assert_array_equal(scaled.theta, scale * plain.theta)
    assert scaled.d1_squares == scale**2 * plain.d1_squares
    assert scaled.d2_total == plain.d2_total


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


@pytest.mark.parametrize(
    "make",
    [
        lambda: Ridge(1, 0, 0.1),
        lambda: Ridge(1, 1, 0.0),
        lambda: Ridge(-1, 1, 0.1),
        lambda: ExactMinimizer(SquaredLoss(), 1, 1, math.nan, None),
        lambda: ExactMinimizer(SquaredLoss(), 1, 1, 1.0, 0.0),
        lambda: online(bound=-1.0),
        lambda: online(h=0),
        lambda: online(start=-1),
        lambda: online(schedule="constant"),
        lambda: online(step=math.inf),
    ],
)
def test_settings_that_cannot_work_are_refused(make):
    """A campaign that cannot learn must fail when it is created."""
    with pytest.raises(ValueError, match=r"."):
        make()
