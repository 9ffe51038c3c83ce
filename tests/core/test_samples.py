"""The risk of a sample of rewards, against independent solvers, and how often its interval holds the truth."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import minimize_scalar

from prudent.core.losses import EntropicLoss, ExpectileLoss, Loss, SquaredLoss
from prudent.core.samples import INTERVAL_COUNT_MIN, empirical_risk, risk_interval

Values = NDArray[np.float64]
LOSSES: list[Loss] = [SquaredLoss(), ExpectileLoss(0.1), ExpectileLoss(0.8), EntropicLoss(-1.5, -6, 6)]


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_risk_minimises_the_loss(loss: Loss) -> None:
    """A report would name one risk measure and show another."""
    values = np.random.default_rng(7).uniform(-4, 5, 60)
    found = minimize_scalar(
        lambda xi: float(loss.value(values, np.full(60, xi)).sum()), bounds=(-4, 5), options={"xatol": 1e-12}
    )
    assert empirical_risk(loss, values) == pytest.approx(found.x, abs=1e-6)


def test_expectile_is_scipys() -> None:
    """Our expectile would differ from everybody's."""
    values = np.random.default_rng(8).gamma(2.0, size=101)
    assert empirical_risk(ExpectileLoss(0.2), values) == pytest.approx(stats.expectile(values, 0.2), rel=1e-12)


def test_entropic_risk_is_the_cumulant() -> None:
    """Our entropic risk would differ from everybody's."""
    values = np.random.default_rng(9).normal(size=50)
    expected = -np.log(np.mean(np.exp(-1.5 * values))) / 1.5
    assert empirical_risk(EntropicLoss(-1.5, -6, 6), values) == pytest.approx(expected, rel=1e-12)


def test_mean_has_the_textbook_interval() -> None:
    """The mean's interval would not be the one that every statistics package prints."""
    values = np.random.default_rng(10).exponential(size=40)
    interval = risk_interval(SquaredLoss(), values, float(values.mean()))
    assert interval == pytest.approx(stats.ttest_1samp(values, 0).confidence_interval(0.95), rel=1e-12)


def test_interval_scales_with_the_rewards() -> None:
    """Rewards in cents would be separated where the same rewards in dollars are not."""
    values = np.random.default_rng(11).normal(size=50)
    loss = ExpectileLoss(0.1)
    plain = risk_interval(loss, values, empirical_risk(loss, values))
    cents = risk_interval(loss, 100 * values + 7, empirical_risk(loss, 100 * values + 7))
    assert plain is not None
    assert cents == pytest.approx([100 * end + 7 for end in plain], rel=1e-9)


def test_no_interval_from_too_little() -> None:
    """Certainty would be shown where there is none: from a few rewards, or from rewards that never differed."""
    values = np.random.default_rng(12).normal(size=INTERVAL_COUNT_MIN)
    loss = ExpectileLoss(0.2)
    assert risk_interval(loss, values, empirical_risk(loss, values)) is not None
    assert risk_interval(loss, values[1:], empirical_risk(loss, values[1:])) is None
    assert risk_interval(loss, np.ones(500), 1.0) is None
    for bad in ([], [1.0, np.nan]):
        for each in LOSSES:
            with pytest.raises(ValueError, match="values"):
                empirical_risk(each, np.array(bad))


Law = Callable[[np.random.Generator, int], Values]


@pytest.mark.parametrize(
    ("count", "lowest"),
    # 0.95 less what so few values of a skewed law cost; four standard errors of a thousand runs are 0.03
    [(100, 0.91), (INTERVAL_COUNT_MIN, 0.85)],
)
@pytest.mark.parametrize(
    ("loss", "law", "truth"),
    [
        (SquaredLoss(), lambda random, n: random.exponential(size=n), 1.0),
        (ExpectileLoss(0.2), lambda random, n: random.uniform(size=n), 1 / 3),
        (ExpectileLoss(0.1), lambda random, n: random.normal(size=n), -0.8615921006),
        (EntropicLoss(-1, -8, 8), lambda random, n: random.normal(size=n), -0.5),
        (ExpectileLoss(0.1), lambda random, n: (random.random(n) < 0.3) * 1.0, 0.03 / 0.66),
    ],
    ids=["mean-exponential", "0.2-uniform", "0.1-normal", "entropic-normal", "0.1-binary"],
)
def test_coverage(loss: Loss, law: Law, truth: float, count: int, lowest: float) -> None:
    """A "95% interval" would hold the truth much less often, or be so wide that it says nothing."""
    random = np.random.default_rng(20_261_128)
    runs = 1_000
    covered = 0
    for _ in range(runs):
        values = law(random, count)
        interval = risk_interval(loss, values, empirical_risk(loss, values))
        covered += interval is not None and interval[0] <= truth <= interval[1]
    assert lowest <= covered / runs <= 0.98, covered / runs
