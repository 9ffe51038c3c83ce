"""The laws of environment files: every closed form against scipy or plain sums over quantiles."""

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError
from scipy import stats

from prudent_simulator.custom_environments.environment import risk_of
from prudent_simulator.custom_environments.law_risks import cvar, probability_below, quantile, variance
from prudent_simulator.custom_environments.laws import Law, LogNormal, entropic, expectile
from prudent_simulator.custom_environments.schema import MeanVariance, Moment
from prudent_simulator.risks import discrete_entropic, discrete_expectile, gaussian_expectile

ADAPTER: TypeAdapter[Law] = TypeAdapter(Law)
POINTS = (np.arange(400_000) + 0.5) / 400_000
LAWS = {
    "normal": {"law": "normal", "mean": 1.5, "deviation": 2},
    "lognormal": {"law": "lognormal", "log_mean": 0.3, "log_deviation": 0.4},
    "two-piece-normal": {"law": "two-piece-normal", "level": 0.1, "scale": 0.5},
    "beta": {"law": "beta", "a": 2, "b": 5, "minimum": -3, "maximum": 4},
    "uniform": {"law": "uniform", "minimum": -1, "maximum": 3},
    "discrete": {"law": "discrete", "values": [2, -1, 0.5], "probabilities": [0.2, 0.3, 0.5]},
    "mixture": {
        "law": "mixture",
        "parts": [
            {"probability": 0.9, "of": {"law": "normal", "mean": 1, "deviation": 0.5}},
            {"probability": 0.1, "of": {"law": "uniform", "minimum": -6, "maximum": -4}},
        ],
    },
}


def law_of(name: str) -> Law:
    return ADAPTER.validate_python(LAWS[name], strict=True)


@pytest.mark.parametrize("name", LAWS)
def test_quantiles_mean_excess_and_exponential_agree(name: str) -> None:
    """Rewards are drawn by the quantiles and judged by the other three: they must be of one law."""
    law = law_of(name)
    drawn = law.quantile(POINTS)
    assert law.mean == pytest.approx(drawn.mean(), abs=2e-4)
    for value in (-2.0, -0.3, 0.0, 1.2):
        assert law.excess(value) == pytest.approx(np.maximum(drawn - value, 0.0).mean(), abs=2e-4)
    for rate in (-0.5, -0.05) if name == "lognormal" else (-0.5, -0.05, 0.3):
        assert law.log_exponential(rate) == pytest.approx(np.log(np.exp(rate * drawn).mean()), abs=2e-4)
    low, high = law.support()
    assert low <= drawn.min()
    assert drawn.max() <= high


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("level", [0.02, 0.1, 0.5, 0.9])
def test_expectiles_are_those_of_scipy(name: str, level: float) -> None:
    """The true risk is what regret is measured by."""
    law = law_of(name)
    assert expectile(law, level) == pytest.approx(stats.expectile(law.quantile(POINTS), alpha=level), abs=2e-3)


@pytest.mark.parametrize("deviation", [0.2, 1.2, 3.0])
@pytest.mark.parametrize("rate", [-0.01, -1.0, -50.0])
def test_the_lognormal_law_against_plain_integration(deviation: float, rate: float) -> None:
    """Its E exp(rate Y) has no closed form: the quadrature must hold far from the middle as well."""
    law = LogNormal(law="lognormal", log_mean=0.5, log_deviation=deviation)
    steps = np.linspace(-12.0, 12.0, 200_001)
    density = np.exp(-0.5 * steps**2) / np.sqrt(2.0 * np.pi)
    plain = np.trapezoid(np.exp(rate * np.exp(0.5 + deviation * steps)) * density, steps)
    assert law.log_exponential(rate) == pytest.approx(np.log(plain), rel=1e-6)


def test_no_lognormal_law_has_an_entropic_risk_that_seeks_risk() -> None:
    """Its tail is too heavy for E exp(g Y), g > 0, however small g is: any finite figure would be wrong."""
    law = LogNormal(law="lognormal", log_deviation=0.1)
    assert law.log_exponential(1e-6) == np.inf
    assert law.log_exponential(0.0) == 0.0


def test_the_papers_formulas_are_met() -> None:
    """One law, two derivations within the simulator."""
    assert expectile(law_of("normal"), 0.1) == pytest.approx(gaussian_expectile(0.1, 1.5, 2.0), abs=1e-10)
    assert expectile(law_of("two-piece-normal"), 0.1) == pytest.approx(0.0, abs=1e-10)
    values, probabilities = [2.0, -1.0, 0.5], [0.2, 0.3, 0.5]
    discrete = law_of("discrete")
    assert expectile(discrete, 0.2) == pytest.approx(discrete_expectile(0.2, values, probabilities), abs=1e-10)
    assert entropic(discrete, -2.0) == pytest.approx(discrete_entropic(-2.0, values, probabilities), abs=1e-12)
    assert entropic(law_of("normal"), -0.5) == pytest.approx(1.5 - 0.5 * 4.0 / 2.0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"law": "cauchy"}, "does not match any of the expected tags: 'normal'"),
        ({"law": "normal", "deviation": 0}, "greater than 0"),
        ({"law": "normal", "deviation": 1, "sd": 2}, "unknown: sd; allowed are law, mean, deviation"),
        ({"law": "lognormal", "log_deviation": 11}, "less than or equal to 10"),
        ({"law": "uniform", "minimum": 1, "maximum": 1}, "maximum must be above minimum"),
        ({"law": "discrete", "values": [1, 2], "probabilities": [1]}, "2 values and 1 probabilities"),
        ({"law": "discrete", "values": [1, 2], "probabilities": [0.5, 0.4]}, "sum 1, not 0.9"),
        ({"law": "normal", "deviation": True}, "valid number"),
        ({"law": "normal", "deviation": float("nan")}, "greater than 0|finite"),
    ],
)
def test_wrong_laws_are_refused(given: dict[str, object], message: str) -> None:
    """A typing error must not become another law."""
    with pytest.raises(ValidationError, match=message):
        ADAPTER.validate_python(given, strict=True)


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("level", [0.02, 0.1, 0.25, 0.5])
def test_cvars_and_quantiles_are_those_of_a_large_sample(name: str, level: float) -> None:
    """The regret of the paper's other measures is judged by these."""
    law = law_of(name)
    drawn = np.sort(law.quantile(POINTS))
    at = quantile(law, level)
    if name == "discrete":
        assert at == float(np.quantile(drawn, level))
    elif (name, level) != ("mixture", 0.1):  # between -4 and the normal part any number is a quantile
        assert at == pytest.approx(float(np.quantile(drawn, level)), abs=2e-3)
        assert probability_below(law, at) == pytest.approx(level, abs=1e-9)
    assert cvar(law, level) == pytest.approx(drawn[: round(level * drawn.size)].mean(), abs=2e-3)
    assert variance(law) == pytest.approx(drawn.var(), rel=2e-3)


def test_a_quantile_may_be_a_large_loss() -> None:
    """An environment whose bad days cost millions could not be simulated: the root was looked for beside the loss."""
    loss = {"law": "discrete", "values": [-2e7], "probabilities": [1.0]}
    usual = {"law": "normal", "mean": 0.0, "deviation": 1.0}
    parts = [{"probability": 0.2, "of": loss}, {"probability": 0.8, "of": usual}]
    law = ADAPTER.validate_python({"law": "mixture", "parts": parts}, strict=True)
    assert quantile(law, 0.1) == pytest.approx(-2e7, rel=1e-12)
    assert cvar(law, 0.1) == pytest.approx(-2e7, rel=1e-12)
    assert quantile(law, 0.6) == pytest.approx(0.0, abs=1e-6)


MOMENTS = {
    "above": ({"threshold": 0.5}, lambda y: y >= 0.5),
    "shortfall": ({"threshold": 0.5}, lambda y: np.minimum(y - 0.5, 0.0)),
    "capped": ({"lower": 0.2, "upper": 1.4}, lambda y: np.clip(y, 0.2, 1.4)),
    "gain-loss": ({"reference": 0.5, "factor": 2.5}, lambda y: np.where(y > 0.5, y, 0.5 + 2.5 * (y - 0.5))),
    "power": ({"exponent": 0.5}, np.sqrt),
    "log": ({}, np.log),
}


@pytest.mark.parametrize("kind", MOMENTS)
@pytest.mark.parametrize("name", LAWS)
def test_moments_are_those_of_a_large_sample(name: str, kind: str) -> None:
    """A target's regret would be that of another target."""
    parameters, function = MOMENTS[kind]
    law = law_of(name)
    if kind in {"power", "log"} and law.support()[0] < 0.0:
        return
    risk = Moment.model_validate({"measure": "moment", "of": kind, **parameters})
    assert risk_of(law, risk) == pytest.approx(function(law.quantile(POINTS)).mean(), abs=2e-3)


def test_closed_forms_of_the_normal_law() -> None:
    """The tables that people know these numbers from."""
    law = law_of("normal")
    assert cvar(law, 0.1) == pytest.approx(1.5 - 2 * 1.7549833193248683, abs=1e-12)
    assert quantile(law, 0.1) == pytest.approx(1.5 - 2 * 1.2815515655446004, abs=1e-12)
    penalised = MeanVariance(measure="mean-variance", aversion=1.5)
    assert risk_of(law, penalised, 3.0) == pytest.approx(4.5 - 1.5 * 6.0, abs=1e-12)
    assert risk_of(law, penalised.model_copy(update={"of": "variance"}), 3.0) == pytest.approx(
        4.5 - 0.75 * 36, abs=1e-9
    )
