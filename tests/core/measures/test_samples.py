"""The risk of a sample of rewards, against references and independent solvers, and how often its interval holds it."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import minimize_scalar

from prudent.core.measures import INTERVAL_COUNT_MIN, Entropic, Expectile, Mean, Measure

Values = NDArray[np.float64]
REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "risk.json").read_text())
MEASURES: list[Measure] = [Mean(), Expectile(0.1), Expectile(0.8), Entropic(-1.5, -6, 6)]


@pytest.mark.parametrize("measure", MEASURES, ids=str)
def test_risk_minimises_the_loss(measure: Measure) -> None:
    """A report would name one risk measure and show another."""
    random = np.random.default_rng(7)
    values = random.uniform(-4, 5, 60)
    for weights in (None, random.integers(0, 4, 60)):
        masses = np.ones(60) if weights is None else weights
        found = minimize_scalar(
            lambda xi, masses=masses: float(masses @ measure.loss.value(values, np.full(60, xi))),
            bounds=(-4, 5),
            options={"xatol": 1e-12},
        )
        assert measure.risk(values, weights) == pytest.approx(found.x, abs=1e-6)


@pytest.mark.parametrize("case", REFERENCE["entropic"], ids=str)
def test_entropic_risk(case: dict[str, Any]) -> None:
    """Exponents below -745 would vanish and above 709 overflow without the shift."""
    measure = Entropic(case["gamma"], 0.0, 1.0 / abs(case["gamma"]))
    assert measure.risk(case["values"], case["probabilities"]) == pytest.approx(case["entropic_risk"], rel=1e-14)


def test_entropic_risk_is_the_cumulant() -> None:
    """Our entropic risk would differ from everybody's."""
    values = np.random.default_rng(9).normal(size=50)
    expected = -np.log(np.mean(np.exp(-1.5 * values))) / 1.5
    assert Entropic(-1.5, -6, 6).risk(values) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("case", REFERENCE["discrete_expectile"], ids=str)
def test_discrete_expectile(case: dict[str, Any]) -> None:
    """The report's risks of each arm come from this."""
    measure = Expectile(case["level"])
    assert measure.risk(case["values"], case["probabilities"]) == pytest.approx(case["expectile"], rel=1e-14)
    shuffled = measure.risk(case["values"][::-1], [10 * p for p in case["probabilities"][::-1]])
    assert shuffled == pytest.approx(case["expectile"], rel=1e-14)


def test_expectile_is_scipys() -> None:
    """Our expectile would differ from everybody's."""
    values = np.random.default_rng(8).gamma(2.0, size=101)
    assert Expectile(0.2).risk(values) == pytest.approx(stats.expectile(values, 0.2), rel=1e-12)


def test_sample_expectile_agrees_with_scipy_and_with_a_weighted_sample(rng: np.random.Generator) -> None:
    """Two independent solvers must agree on heavy-tailed samples too."""
    for size in (1, 2, 3, 10, 101):
        sample = rng.standard_t(2, size)
        sample[size // 2 :] = np.round(sample[size // 2 :])
        for level in (0.001, 0.1, 0.5, 0.9, 0.999):
            measure = Expectile(level)
            assert measure.risk(sample) == pytest.approx(stats.expectile(sample, level), rel=1e-8, abs=1e-8)
            repeats = rng.integers(0, 3, size)
            repeats[0] = 1
            assert measure.risk(sample, repeats) == pytest.approx(measure.risk(np.repeat(sample, repeats)), abs=1e-12)


def test_expectile_mirrors_with_the_rewards(rng: np.random.Generator) -> None:
    """e_p(-Y) = -e_{1-p}(Y): a cautious campaign on costs is a bold one on gains."""
    sample = rng.standard_normal(50)
    for level in (0.01, 0.3, 0.9):
        assert Expectile(level).risk(-sample) == pytest.approx(-Expectile(1 - level).risk(sample), rel=1e-12)
    assert Expectile(0.9).risk(sample) > sample.mean() > Expectile(0.1).risk(sample)


def test_expectile_keeps_its_digits_under_a_large_offset(rng: np.random.Generator) -> None:
    """Rewards around a billion would lose the digits that tell arms apart."""
    sample = rng.standard_normal(50)
    for level in (0.01, 0.3, 0.9):
        measure = Expectile(level)
        assert measure.risk(1e9 + sample) - 1e9 == pytest.approx(measure.risk(sample), abs=5e-7)


@pytest.mark.parametrize("measure", MEASURES, ids=str)
@pytest.mark.parametrize(
    ("values", "weights"),
    [
        ([], None),
        ([1.0, math.nan], None),
        ([1.0, math.inf], None),
        ([[1.0, 2.0]], None),
        ([1.0, 2.0], [1.0]),
        ([1.0, 2.0], [1.0, -1.0]),
        ([1.0, 2.0], [1.0, math.nan]),
        ([1.0, 2.0], [0.0, 0.0]),
    ],
    ids=str,
)
def test_what_has_no_risk_is_refused(measure: Measure, values: Any, weights: Any) -> None:
    """A nan that travels into a report is worse than an error."""
    with pytest.raises(ValueError, match=r"values|weight"):
        measure.risk(values, weights)


def test_mean_has_the_textbook_interval() -> None:
    """The mean's interval would not be the one that every statistics package prints."""
    values = np.random.default_rng(10).exponential(size=40)
    interval = Mean().interval(values, float(values.mean()))
    assert interval == pytest.approx(stats.ttest_1samp(values, 0).confidence_interval(0.95), rel=1e-12)


@pytest.mark.parametrize("measure", MEASURES, ids=str)
def test_interval_moves_and_scales_with_the_rewards(measure: Measure) -> None:
    """Rewards in cents would be separated where the same rewards in dollars are not."""
    values = np.random.default_rng(11).normal(size=50)
    moved, cents = measure.transformed(100, 7), 100 * values + 7
    plain = measure.interval(values, measure.risk(values))
    assert plain is not None
    assert moved.interval(cents, moved.risk(cents)) == pytest.approx([100 * end + 7 for end in plain], rel=1e-9)


def test_no_interval_from_too_little() -> None:
    """Certainty would be shown where there is none: from a few rewards, or from rewards that never differed."""
    values = np.random.default_rng(12).normal(size=INTERVAL_COUNT_MIN)
    measure = Expectile(0.2)
    assert measure.interval(values, measure.risk(values)) is not None
    assert measure.interval(values[1:], measure.risk(values[1:])) is None
    assert measure.interval(np.ones(500), 1.0) is None


Law = Callable[[np.random.Generator, int], Values]


@pytest.mark.parametrize(
    ("count", "lowest"),
    # 0.95 less what so few values of a skewed law cost; four standard errors of a thousand runs are 0.03
    [(100, 0.91), (INTERVAL_COUNT_MIN, 0.85)],
)
@pytest.mark.parametrize(
    ("measure", "law", "truth"),
    [
        (Mean(), lambda random, n: random.exponential(size=n), 1.0),
        (Expectile(0.2), lambda random, n: random.uniform(size=n), 1 / 3),
        (Expectile(0.1), lambda random, n: random.normal(size=n), -0.8615921006),
        (Entropic(-1, -8, 8), lambda random, n: random.normal(size=n), -0.5),
        (Expectile(0.1), lambda random, n: (random.random(n) < 0.3) * 1.0, 0.03 / 0.66),
    ],
    ids=["mean-exponential", "0.2-uniform", "0.1-normal", "entropic-normal", "0.1-binary"],
)
def test_coverage(measure: Measure, law: Law, truth: float, count: int, lowest: float) -> None:
    """A "95% interval" would hold the truth much less often, or be so wide that it says nothing."""
    random = np.random.default_rng(20_261_128)
    runs = 1_000
    covered = 0
    for _ in range(runs):
        values = law(random, count)
        interval = measure.interval(values, measure.risk(values))
        covered += interval is not None and interval[0] <= truth <= interval[1]
    assert lowest <= covered / runs <= 0.98, covered / runs
