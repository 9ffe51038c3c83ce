"""The estimators: what they learn, and that their state survives marks, snapshots and bad input."""

import ast
import math

import numpy as np
import pytest

from prudent.core.estimators import ExactMinimizer, OnePass, OnlineGradient, Ridge, StagedMinimizer, StagedOnePass
from prudent.core.measures import Cvar, EntropicLoss, ExpectileLoss, MeanVariance, Quantile, SquaredLoss
from tests.servers import ROOT

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
for _measure in (Cvar(0.2), Quantile(0.3), MeanVariance(1.0), MeanVariance(0.5, "variance")):
    MAKERS[f"exact-{_measure.title}"] = lambda stages=_measure.stages: StagedMinimizer(stages, 2, D, 0.1)
    MAKERS[f"onepass-{_measure.title}"] = lambda stages=_measure.stages: StagedOnePass(stages, 2, D, 0.1)
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
    if isinstance(often, ExactMinimizer | StagedMinimizer):
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
    for observation in log[:20]:
        estimator.observe(*observation)
    estimator.refresh()
    assert estimator.is_sane()
    for observation in log[20:]:
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


@pytest.mark.parametrize("scale", [2.0**-20, 2.0**20])
@pytest.mark.parametrize("make", [lambda _: Ridge(1, D, 0.1),
                                  lambda s: ExactMinimizer(ExpectileLoss(0.1), 1, D, 0.1, 0.7 * s),
                                  lambda s: online(blocks=1, bound=0.7 * s),
                                  lambda s: OnePass(ExpectileLoss(0.1), 1, D, 0.1, 0.3 * s, 9),
                                  lambda _: StagedMinimizer(Cvar(0.2).stages, 1, D, 0.1),
                                  lambda _: StagedMinimizer(MeanVariance(0.7).stages, 1, D, 0.1),
                                  lambda s: StagedMinimizer(MeanVariance(0.7 / s, "variance").stages, 1, D, 0.1),
                                  lambda _: StagedOnePass(Cvar(0.2).stages, 1, D, 0.1),
                                  lambda _: StagedOnePass(Quantile(0.2).stages, 1, D, 0.1)],
                         ids=["ridge", "exact", "online", "onepass", "cvar", "deviation", "variance",
                              "cvar-onepass", "quantile-onepass"])  # fmt: skip
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


def test_nobody_asks_which_estimator_it_is():
    """Who adds an estimator would have to find every place that knows the others by name."""
    package = ROOT / "service/prudent"
    may = [package / "core/estimators", package / "campaigns/construction.py"]
    names = {"Ridge", "ExactMinimizer", "OnePass", "OnlineGradient"}
    read = [path for path in package.rglob("*.py") if not any(path.is_relative_to(place) for place in may)]
    assert len(read) > 50
    for path in read:
        found = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
        assert not found & names, path
