"""Asymptotic intervals at given features: against the formula spelled out, and how often they hold the truth."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from prudent.core import intervals
from prudent.core.estimators import (
    Estimator,
    ExactMinimizer,
    OnePass,
    OnlineGradient,
    Ridge,
    StagedMinimizer,
    StagedOnePass,
)
from prudent.core.intervals import SPARE_MIN, risk_intervals
from prudent.core.measures import Cvar, EntropicLoss, ExpectileLoss, Loss, MeanVariance, Measure, Quantile, SquaredLoss

Floats = NDArray[np.float64]
CAUTIOUS = ExpectileLoss(0.2)


def exact(loss: Loss = CAUTIOUS, dimension: int = 2, bound: float | None = None, alpha: float = 0.5) -> ExactMinimizer:
    return ExactMinimizer(loss, 1, dimension, alpha, bound)


def taught(estimator: Estimator, features: Floats, rewards: Floats, block: int = 0) -> Estimator:
    for x, y in zip(features, rewards.tolist(), strict=True):
        estimator.observe(block, x, y)
    estimator.refresh()
    return estimator


def sample(seed: int, count: int, dimension: int = 2) -> tuple[Floats, Floats]:
    """Features, and rewards whose spread grows with the first feature."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(count, dimension))
    spread = 0.3 + np.abs(features[:, 0])
    return features, features.sum(axis=1) + spread * random.normal(size=count)


def ends(estimator: Estimator, *rows: list[float], has_intercept: bool = False) -> Floats:
    return risk_intervals(estimator, np.array(rows, dtype=np.float64), None, has_intercept=has_intercept).ends


@pytest.mark.parametrize("loss", [SquaredLoss(), CAUTIOUS, EntropicLoss(-0.5, -9, 9)], ids=str)
def test_sandwich_spelled_out(loss: Loss, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interval would not be the one that the documentation states."""
    monkeypatch.setattr("prudent.core.estimators.estimator._CHUNK_PRODUCTS", 50)  # several chunks
    features, rewards = sample(1, 80)
    estimator = taught(exact(loss), features, rewards)
    theta = estimator.theta[0]
    inverse = np.linalg.inv(
        sum(loss.d2(y, float(x @ theta)) * np.outer(x, x) for x, y in zip(features, rewards, strict=True))
        + 0.5 * np.eye(2)
    )
    middle = sum(loss.d1(y, float(x @ theta)) ** 2 * np.outer(x, x) for x, y in zip(features, rewards, strict=True))
    rows = np.array([[1.0, 0.0], [0.3, -2.0], [5.0, 5.0]])
    found = risk_intervals(estimator, rows, None, has_intercept=False).ends
    for x, (low, high) in zip(rows, found.tolist(), strict=True):
        half = stats.t.ppf(0.975, 78) * math.sqrt(80 / 78 * float(x @ inverse @ middle @ inverse @ x))
        assert (low, high) == pytest.approx((float(x @ theta) - half, float(x @ theta) + half), rel=1e-9)


@pytest.mark.parametrize("kind", ["exact", "ridge"])
def test_mean_of_one_arm_is_the_textbooks(kind: str) -> None:
    """The simplest campaign's interval would differ from what every statistics package prints."""
    rewards = np.random.default_rng(2).exponential(size=50)
    estimator: Estimator = exact(SquaredLoss(), 1, alpha=1e-9) if kind == "exact" else Ridge(1, 1, 1e-9)
    found = ends(taught(estimator, np.ones((50, 1)), rewards), [1.0], has_intercept=True)
    assert found[0] == pytest.approx(stats.ttest_1samp(rewards, 0).confidence_interval(0.95), rel=1e-6)


def test_ridge_is_least_squares() -> None:
    """linucb's intervals would not be those of ordinary regression where rewards spread alike everywhere."""
    random = np.random.default_rng(3)
    features = random.normal(size=(60, 3))
    rewards = features @ [1.0, -1.0, 0.5] + random.normal(size=60)
    found = ends(taught(Ridge(1, 3, 1e-9), features, rewards), [1.0, 2.0, 3.0])[0]
    theta, (squares,), *_ = np.linalg.lstsq(features, rewards)
    x = np.array([1.0, 2.0, 3.0])
    half = stats.t.ppf(0.975, 57) * math.sqrt(squares / 57 * float(x @ np.linalg.inv(features.T @ features) @ x))
    assert found == pytest.approx((x @ theta - half, x @ theta + half), rel=1e-6)


@pytest.mark.parametrize(
    "make",
    [
        lambda blocks: ExactMinimizer(CAUTIOUS, blocks, 2, 0.5, None),
        lambda blocks: OnePass(CAUTIOUS, blocks, 2, 0.5, None, 0),
    ],
    ids=["exact", "one-pass"],
)
def test_arms_have_intervals_of_their_own(make: Callable[[int], Estimator]) -> None:
    """An arm of a disjoint campaign would get the interval of another one's rewards."""
    together = make(3)
    expected = []
    for block, count in ((2, 70), (0, 40), (1, 9)):
        features, rewards = sample(block, count)
        features[:, 1] = 1.0
        taught(together, features, rewards * 10**block, block)
        expected.append(ends(taught(make(1), features, rewards * 10**block), [0.5, 1.0])[0])
    rows, places = np.tile([0.5, 1.0], (3, 1)), np.array([2, 0, 1], dtype=np.intp)
    found = risk_intervals(together, rows, places, has_intercept=True).ends
    assert found == pytest.approx(np.array(expected), rel=1e-9, nan_ok=True)
    assert np.isnan(found).any(axis=1).tolist() == [False, False, True]


def test_no_interval_where_it_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """Certainty would be shown where nothing is known."""
    features, rewards = sample(4, 2 + SPARE_MIN)
    features[0] = [3.0, 3.0]
    assert not np.isnan(ends(taught(exact(alpha=1e-3), features, rewards), [1.0, 1.0])).any()
    assert np.isnan(ends(taught(exact(alpha=1e-3), features[1:], rewards[1:]), [1.0, 1.0])).all()
    features, rewards = sample(5, 200)
    assert np.isnan(ends(taught(exact(bound=0.5), features, rewards), [1.0, 1.0])).all()
    assert np.isnan(ends(taught(OnePass(CAUTIOUS, 1, 2, 0.5, 0.5, 0), features, rewards), [1.0, 1.0])).all()
    assert np.isnan(ends(taught(exact(), features, np.full(200, 3.0)), [1.0, 1.0])).all()
    assert np.isnan(ends(taught(Ridge(1, 2, 0.5), features, np.zeros(200)), [1.0, 1.0])).all()
    descent = OnlineGradient(CAUTIOUS, 1, 2, 0.5, None, 1.0, 5, "theory", 0.1, 0)
    assert np.isnan(ends(taught(descent, features, rewards), [1.0, 1.0])).all()
    estimator = taught(exact(), features, rewards)
    monkeypatch.setattr(intervals, "PRODUCTS_MAX", 399)
    assert np.isnan(ends(estimator, [1.0, 1.0])).all()


@pytest.mark.parametrize("make", [exact, lambda: Ridge(1, 2, 0.5), lambda: OnePass(CAUTIOUS, 1, 2, 0.5, None, 0)])
def test_no_interval_for_features_that_nothing_tells_about(make: Callable[[], Estimator]) -> None:
    """An arm that was never played would be shown as known for certain: its estimate is the ridge's zero."""
    features, rewards = sample(6, 200)
    features[:, 1] = 0.0
    found = ends(taught(make(), features, rewards), [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0])
    assert np.isnan(found).any(axis=1).tolist() == [False, True, True, True]


def test_no_interval_without_the_number_of_observations() -> None:
    """One pass would guess how many observations an arm has."""
    features, rewards = sample(7, 100)
    estimator = taught(OnePass(CAUTIOUS, 2, 2, 0.5, None, 0), features, rewards)
    places = np.zeros(1, dtype=np.intp)
    assert np.isnan(risk_intervals(estimator, np.ones((1, 2)), places, has_intercept=False).ends).all()


def coverage(make: Callable[[], Estimator], seed: int, runs: int = 300) -> float:
    """Of the interval of a cautious risk in a shared model whose second arm spreads four times as wide."""
    random = np.random.default_rng(seed)
    unit = float(stats.expectile(stats.norm.ppf((np.arange(100_000) + 0.5) / 100_000), 0.2))
    arms, truth = np.array([[1.0, 0.0], [0.6, 0.8]]), np.array([0.5 + unit * 0.5, 0.5 + unit * 2.0])
    covered = 0
    for _ in range(runs):
        chosen = random.integers(0, 2, 120)
        rewards = 0.5 + np.where(chosen == 0, 0.5, 2.0) * random.normal(size=120)
        low, high = ends(taught(make(), arms[chosen], rewards), *arms.tolist()).T
        covered += int(((low <= truth) & (truth <= high)).sum())
    return covered / (2 * runs)


def test_coverage() -> None:
    """A "95% interval" would hold the truth much less often, most easily where arms spread differently."""
    covered = coverage(lambda: exact(alpha=0.01), 20_261_128)
    assert 0.90 <= covered <= 0.98, covered


def test_coverage_of_one_pass_in_arms_of_their_own() -> None:
    """The estimators of constant cost would show intervals of another size than their errors."""
    random = np.random.default_rng(20_261_129)
    unit = float(stats.expectile(stats.norm.ppf((np.arange(100_000) + 0.5) / 100_000), 0.2))
    covered = 0
    for _ in range(400):
        estimator = OnePass(CAUTIOUS, 1, 1, 0.01, None, 0)
        low, high = ends(taught(estimator, np.ones((150, 1)), random.normal(size=150)), [1.0])[0]
        covered += low <= unit <= high
    assert 0.90 <= covered / 400 <= 0.98, covered / 400


STAGED = [(Cvar(0.25), -1.2711063), (Quantile(0.25), -0.6744898), (MeanVariance(1.5), -1.5)]


@pytest.mark.parametrize("make", [StagedMinimizer, StagedOnePass])
@pytest.mark.parametrize(("measure", "truth"), STAGED, ids=str)
def test_coverage_of_measures_in_stages(
    make: type[StagedMinimizer | StagedOnePass], measure: Measure, truth: float
) -> None:
    """The error of stage one would be left out where it counts, or counted where it does not."""
    random = np.random.default_rng(20_261_130)
    assert measure.stages is not None
    covered, runs = 0, 250 if make is StagedMinimizer else 120
    for _ in range(runs):
        estimator = make(measure.stages, 1, 1, 0.01)
        low, high = ends(taught(estimator, np.ones((200, 1)), random.normal(size=200)), [1.0], has_intercept=True)[0]
        covered += low <= truth <= high
    # four standard errors below 0.93
    assert covered / runs >= 0.93 - 4 * math.sqrt(0.93 * 0.07 / runs), covered / runs
    assert covered < runs
