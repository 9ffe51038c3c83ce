"""What the measures say of themselves, each property for each of them: the rest of the code believes it unseen."""

import math

import numpy as np
import pytest

from prudent.core.estimators import ExactMinimizer
from prudent.core.measures import (
    MEASURES,
    Cvar,
    Entropic,
    Expectile,
    Mean,
    MeanVariance,
    Measure,
    Moment,
    Quantile,
)
from prudent.core.measures.moment import Above, Capped, GainLoss, Logarithm, Power, Shortfall

INSTANCES: list[Measure] = [
    Mean(),
    Expectile(0.1),
    Expectile(0.5),
    Expectile(0.9),
    Entropic(-0.7, -2.0, 2.0),
    Entropic(1.5, -1.0, 2.0),
    Cvar(0.1),
    Cvar(0.25),
    Quantile(0.1),
    Quantile(0.5),
    MeanVariance(1.5),
    MeanVariance(0.8, "variance"),
    Moment(Capped(-0.5, 1.0)),
    Moment(GainLoss(0.2, 2.5)),
]
OF_ANOTHER_UNIT = [Moment(Above(0.3)), Moment(Shortfall(0.0)), Moment(Power(0.5)), Moment(Logarithm())]
GRID = np.meshgrid(np.linspace(-2, 2, 81), np.linspace(-2, 2, 81))
Y, XI = (axis.ravel() for axis in GRID)

every_measure = pytest.mark.parametrize("measure", INSTANCES, ids=str)


def test_every_measure_is_registered_and_tested() -> None:
    """A measure would go untested, or two answer to one name."""
    assert {type(measure) for measure in INSTANCES} == set(MEASURES)
    assert len({measure.name for measure in MEASURES}) == len(MEASURES)


@every_measure
def test_facts_about_the_curvature(measure: Measure) -> None:
    """Fits from sums, plain sums for weighted ones and conditionings would be used where they do not hold."""
    loss = measure.loss
    curvature = loss.d2(Y, XI)
    if loss.has_unit_curvature:
        assert (curvature == 1.0).all()
    sides = [curvature[Y >= XI], curvature[Y < XI]]
    assert loss.is_piecewise_quadratic is all((side == side[0]).all() for side in sides)
    assert loss.curvature_min <= loss.typical_curvature <= loss.curvature_max
    assert loss.is_steep is (loss.conditioning > 1e2)


@every_measure
def test_self_concordance(measure: Measure) -> None:
    """The sharper bonus would rest on a constant that the loss does not have."""
    loss, step = measure.loss, 1e-5
    apart = np.abs(Y - XI) > 1e-3
    y, xi = Y[apart], XI[apart]
    third = np.abs(loss.d2(y, xi + step) - loss.d2(y, xi - step)) / (2 * step)
    if loss.self_concordance is None:
        assert loss.is_piecewise_quadratic
    else:
        np.testing.assert_allclose(third, loss.self_concordance * loss.d2(y, xi), rtol=1e-6)


@every_measure
@pytest.mark.parametrize("reach", [0.5, 4.0])
def test_curvature_within_a_reach(measure: Measure, reach: float) -> None:
    """A ball wider than the rewards leaves the range in which a loss's own bounds hold."""
    lowest, highest = measure.loss.prediction_bounds
    y, xi = np.meshgrid(np.linspace(max(lowest, -9), min(highest, 9), 61), np.linspace(-reach, reach, 61))
    curvature = measure.loss.d2(y.ravel(), xi.ravel())
    assert measure.loss.curvature_within(reach) == pytest.approx((curvature.min(), curvature.max()), rel=1e-12)


@every_measure
def test_the_risk_follows_a_change_of_unit(measure: Measure, rng: np.random.Generator) -> None:
    """Temperatures in Fahrenheit would be another campaign than the same ones in Celsius."""
    sample = rng.uniform(-1, 2, 200)
    moved = measure.transformed(1.8, 32.0)
    assert type(moved) is type(measure)
    assert moved.risk(1.8 * sample + 32.0) == pytest.approx(1.8 * measure.risk(sample) + 32.0, rel=1e-13)


@every_measure
def test_loss_and_ridge_follow_a_change_of_unit(measure: Measure, rng: np.random.Generator) -> None:
    """A campaign moved from dollars to cents would learn other parameters for the same rewards."""
    scale = 100.0
    moved = measure.transformed(scale, 0.0)
    degree = measure.loss.degree
    np.testing.assert_allclose(
        moved.loss.value(scale * Y, scale * XI), scale**degree * measure.loss.value(Y, XI), rtol=1e-12, atol=1e-12
    )
    plain = ExactMinimizer(measure.loss, 1, 2, 0.3, 0.4)
    cents = ExactMinimizer(moved.loss, 1, 2, 0.3 * scale ** (degree - 2), 0.4 * scale)
    for x, y in zip(rng.standard_normal((60, 2)), rng.uniform(-1, 2, 60), strict=True):
        plain.observe(0, x, float(y))
        cents.observe(0, x, scale * float(y))
    plain.refresh()
    cents.refresh()
    np.testing.assert_allclose(cents.theta, scale * plain.theta, rtol=1e-9)
    factor = moved.loss.default_regularization / measure.loss.default_regularization
    assert factor == pytest.approx(scale ** (degree - 2), rel=1e-12)


def test_the_two_forms_of_a_parameter() -> None:
    """Who gives a weight or a tolerance would be shown another level or gamma than it stands for."""
    for weight in (1e-6, 0.25, 1.0, 9.0, 1e6):
        assert Expectile(Expectile.level_of(weight)).downside_weight == pytest.approx(weight, rel=1e-9)
    for tolerance in (-3.0, 0.5, 1e4):
        gamma = Entropic.gamma_of(tolerance)
        assert math.copysign(1.0, gamma) == -math.copysign(1.0, tolerance)
        assert Entropic(gamma, 0.0, 1e-3).risk_tolerance == pytest.approx(tolerance, rel=1e-15)


@pytest.mark.parametrize("measure", OF_ANOTHER_UNIT, ids=str)
def test_a_moment_of_another_unit_says_so(measure: Measure) -> None:
    """A probability in cents would be taken for one in dollars."""
    with pytest.raises(ValueError, match="unit"):
        measure.transformed(100.0, 0.0)


@pytest.mark.parametrize(
    ("measure", "values", "risk"),
    [
        (Cvar(0.5), [4.0, 1.0, 2.0, 3.0], 1.5),
        (Cvar(0.1), [0.9] * 9 + [-1.0], -1.0),
        (Cvar(0.2), [0.9] * 9 + [-1.0], -0.05),
        (Cvar(0.375), [4.0, 1.0, 2.0, 3.0], 4 / 3),
        (Quantile(0.5), [4.0, 1.0, 2.0, 3.0], 2.5),
        (Quantile(0.3), [4.0, 1.0, 2.0, 3.0], 2.0),
        (Quantile(0.1), [5.0] * 11 + [-3.0] * 1, 5.0),
        (MeanVariance(0.5), [1.0, 3.0], 1.5),
        (MeanVariance(0.5, "variance"), [1.0, 5.0], 2.0),
        (Moment(Above(2.0)), [1.0, 2.0, 3.0, 0.0], 0.5),
        (Moment(Shortfall(2.0)), [1.0, 2.0, 3.0, 0.0], -0.75),
        (Moment(Capped(0.5, 2.0)), [1.0, 2.0, 3.0, 0.0], 1.375),
        (Moment(GainLoss(1.0, 3.0)), [1.0, 2.0, 3.0, 0.0], 1.0),
        (Moment(Power(0.5)), [0.0, 4.0, 9.0, 1.0], 1.5),
        (Moment(Logarithm()), [1.0, math.e, math.e**2], 1.0),
    ],
    ids=str,
)
def test_risks_by_hand(measure: Measure, values: list[float], risk: float) -> None:
    """A report would show the average of another share, or a variance for a deviation."""
    assert measure.risk(values) == pytest.approx(risk, rel=1e-14)
    repeated = [value for value in values for _ in range(3)]
    assert measure.risk(repeated) == pytest.approx(risk, rel=1e-14)
    assert measure.risk(values[::-1], [2.0] * len(values)) == pytest.approx(risk, rel=1e-14)


def test_a_reward_without_an_outcome_is_refused() -> None:
    """The logarithm of a loss would poison the sums of a campaign for good."""
    for measure, reward in ((Moment(Logarithm()), 0.0), (Moment(Logarithm()), -1.0), (Moment(Power(0.5)), -1.0)):
        with pytest.raises(ValueError, match="reward"):
            measure.outcome(reward)


@pytest.mark.parametrize(
    ("measure", "title", "aim"),
    [
        (
            Cvar(0.1),
            "CVaR at level 0.1",
            "Cautious: maximises the average of the worst tenth of the rewards.",
        ),
        (Cvar(0.03), "CVaR at level 0.03", "Cautious: maximises the average of the worst 3% of the rewards."),
        (Quantile(0.1), "quantile at level 0.1", "Maximises what nine in ten rewards exceed."),
        (Quantile(0.3), "quantile at level 0.3", "Maximises what 70% of the rewards exceed."),
        (
            MeanVariance(1.5),
            "mean-variance (mean less 1.5 standard deviations of the reward)",
            "Averse to spread: maximises the mean less 1.5 standard deviations of the reward.",
        ),
        (
            MeanVariance(0.5, "variance"),
            "mean-variance (mean less 0.25 times the variance of the reward)",
            "Averse to spread: maximises the mean less 0.25 times the variance of the reward.",
        ),
        (
            Moment(Above(0.0)),
            "moment (probability of a reward of at least 0)",
            "Maximises how often the reward is at least 0.",
        ),
        (Mean(), "mean", "Maximises the average reward."),
        (Expectile(0.1), "expectile at level 0.1", "Cautious: a shortfall counts 9 times as much as a surplus."),
        (Expectile(0.75), "expectile at level 0.75", "Risk-seeking: a surplus counts 3 times as much as a shortfall."),
        (Expectile(0.5), "expectile at level 0.5", "Maximises the average reward."),
        (
            Entropic(-0.5, 0, 1),
            "entropic risk at gamma -0.5",
            "Cautious: large losses count more than in proportion (risk tolerance 2).",
        ),
        (
            Entropic(0.25, 0, 1),
            "entropic risk at gamma 0.25",
            "Risk-seeking: large wins count more than in proportion (risk tolerance -4).",
        ),
    ],
    ids=str,
)
def test_words(measure: Measure, title: str, aim: str) -> None:
    """A page would call caution what seeks risk."""
    assert (measure.title, measure.aim) == (title, aim)
    assert measure.noun in measure.title
    assert measure.meaning.endswith(".")
    assert "reward" in measure.quantity
