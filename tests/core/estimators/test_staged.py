"""Measures in stages: against closed forms, direct minimisation of joint losses, and other people's code."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import minimize
from statsmodels.regression.quantile_regression import QuantReg

from prudent.core.estimators import StagedMinimizer, StagedOnePass
from prudent.core.estimators.stage_fits import fit_first_stage, fit_in_stages, pseudo_residuals
from prudent.core.estimators.staged import fitted_count
from prudent.core.measures import Cvar, MeanVariance, Measure, Quantile
from prudent.core.measures.mean_variance import DeviationLoss, VarianceStages
from prudent.core.measures.quantile import SmoothedCheckLoss
from prudent.core.numerics.newton import minimise

Floats = NDArray[np.float64]
SPREAD, CENTRE = np.array([0.6, 0.05, 0.4]), np.array([0.47, 0.42, 0.52])
MEASURES: list[Measure] = [Cvar(0.1), Cvar(0.25), Quantile(0.1), Quantile(0.25), MeanVariance(1.5)]
every_measure = pytest.mark.parametrize("measure", MEASURES, ids=str)


def two_piece(random: np.random.Generator, count: int) -> Floats:
    """Half normals of widths 1 below 0 and 3 above, each with a probability in proportion to its width."""
    sizes = np.abs(random.normal(size=count))
    return np.where(random.random(count) < 0.25, -sizes, 3.0 * sizes)


LAWS: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "normal": lambda random, count: random.normal(size=count),
    "two-piece-normal": two_piece,
    "lognormal": lambda random, count: random.lognormal(0.0, 0.5, count),
}


def true_risk(law: str, measure: Measure) -> float:
    """The risk of a law with its closed form, written apart from the service's code."""
    level = getattr(measure, "level", 0.0)
    if law == "normal":
        mean, variance, quantile = 0.0, 1.0, stats.norm.ppf(level or 0.5)
        lower = -stats.norm.pdf(quantile)
    elif law == "lognormal":
        mean, variance = math.exp(0.125), math.expm1(0.25) * math.exp(0.25)
        normal = stats.norm.ppf(level or 0.5)
        quantile, lower = math.exp(0.5 * normal), mean * stats.norm.cdf(normal - 0.5)
    else:
        mean = math.sqrt(2 / math.pi) * 2.0
        variance = (1 + 27) / 4 - mean**2
        if level <= 0.25:  # on the lower side: P(Y < -z) = 0.25 * 2 Phi(-z)
            quantile = stats.norm.ppf(level / 0.5) if level else 0.0
            lower = -0.5 * stats.norm.pdf(quantile)
        else:
            raise ValueError(f"the closed form is of levels up to 0.25, not {level}")
    if isinstance(measure, Quantile):
        return float(quantile)
    if isinstance(measure, Cvar):
        return float(lower / level)
    assert isinstance(measure, MeanVariance)
    spread = measure.aversion * math.sqrt(variance) if measure.of == "deviation" else 0.5 * measure.aversion * variance
    return mean - spread


def world(seed: int, count: int, law: str = "normal") -> tuple[Floats, Floats]:
    """Rewards <centre, x> + <spread, x> noise: every measure that scales is linear in the features."""
    random = np.random.default_rng(seed)
    features = random.uniform(0.0, 1.25, (count, 3))
    return features, features @ CENTRE + features @ SPREAD * LAWS[law](random, count)


def standard_errors(measure: Measure, features: Floats, rewards: Floats) -> Floats:
    """Of each parameter: the sandwich of the last stage."""
    stages = measure.stages
    assert stages is not None
    first, fit = fit_in_stages(stages, features, rewards, 1e-6)
    if stages.is_direct:
        loss = first.loss(stages)
        assert loss is not None
        residuals = rewards - features @ first.mean
        slopes = loss.d1(residuals, features @ (fit.theta - first.mean))
    else:
        slopes = features @ (fit.theta - first.mean) - pseudo_residuals(stages, first, features, rewards)
    inverse = np.linalg.inv(fit.weighted_gram)
    return np.sqrt(np.diag(inverse @ (features.T * slopes**2) @ features @ inverse))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("measure", [*MEASURES, MeanVariance(0.8, "variance"), Cvar(0.05), Quantile(0.05)], ids=str)
def test_closed_forms_of_one_law(law: str, measure: Measure) -> None:
    """An arm would be judged by another number than the one that its measure is."""
    rewards = LAWS[law](np.random.default_rng(3), 50_000)
    features = np.ones((len(rewards), 1))
    assert measure.stages is not None
    theta = fit_in_stages(measure.stages, features, rewards, 1.0)[1].theta
    error = standard_errors(measure, features, rewards)
    assert abs(theta[0] - true_risk(law, measure)) <= 3.0 * error[0]
    assert measure.risk(rewards) == pytest.approx(theta[0], abs=error[0])


@pytest.mark.parametrize("law", LAWS)
@every_measure
def test_closed_forms_in_a_linear_world(law: str, measure: Measure) -> None:
    """Where the spread depends on the features, the parameters would be those of the mean, shifted."""
    features, rewards = world(4, 50_000, law)
    assert measure.stages is not None
    theta = fit_in_stages(measure.stages, features, rewards, 1e-3)[1].theta
    truth = CENTRE + true_risk(law, measure) * SPREAD
    assert (np.abs(theta - truth) <= 3.0 * standard_errors(measure, features, rewards)).all()


def joint_cvar_loss(level: float, features: Floats, rewards: Floats) -> Callable[[Floats], float]:
    """The loss of Fissler & Ziegel for (quantile, CVaR) with G1 = 0 and G2 the square, of both parameters."""

    def value(parameters: Floats) -> float:
        quantiles, risks = features @ parameters[:3], features @ parameters[3:]
        raised = risks + 20.0  # G2 must be positive; any constant elicits the same
        excess = np.maximum(quantiles - rewards, 0.0) / level
        return float(np.mean(raised * (risks - quantiles + excess) - 0.5 * raised**2))

    return value


def joint_variance_loss(aversion: float, features: Floats, rewards: Floats) -> Callable[[Floats], float]:
    """Brehmer's loss for (mean, mean-variance): that of the largest of E[y - aversion/2 (y - m)^2] over m."""

    def value(parameters: Floats) -> float:
        means, risks = features @ parameters[:3], features @ parameters[3:]
        raised = risks + 20.0
        penalised = rewards - 0.5 * aversion * (rewards - means) ** 2
        return float(np.mean(raised * (risks - penalised) - 0.5 * raised**2))

    return value


@pytest.mark.parametrize(
    ("measure", "loss"),
    [
        (Cvar(0.25), lambda x, y: joint_cvar_loss(0.25, x, y)),
        (Cvar(0.1), lambda x, y: joint_cvar_loss(0.1, x, y)),
        (MeanVariance(0.8, "variance"), lambda x, y: joint_variance_loss(0.8, x, y)),
    ],
    ids=["cvar .25", "cvar .1", "mean-variance"],
)
def test_direct_minimisation_of_the_joint_loss(
    measure: Measure, loss: Callable[[Floats, Floats], Callable[[Floats], float]]
) -> None:
    """Two stages would end elsewhere than the one loss that elicits both."""
    features, rewards = world(5, 2_000)
    assert measure.stages is not None
    first, fit = fit_in_stages(measure.stages, features, rewards, 1e-6)
    start = np.concatenate([first.mean + first.nuisance, fit.theta])
    joint = loss(features, rewards)
    # from a place that our result is not, so that an agreement means something
    found = start + 0.05
    for _ in range(3):
        found = minimize(joint, found, method="Powell", options={"xtol": 1e-9, "ftol": 1e-15}).x
    assert joint(found) <= joint(start) + 1e-12
    error = standard_errors(measure, features, rewards)
    assert (np.abs(fit.theta - found[3:]) <= 0.1 * error).all()


def test_the_deviation_minimises_its_loss() -> None:
    """Stage one of mean less deviations would be another scale than the standard deviation."""
    features, rewards = world(6, 2_000)
    measure = MeanVariance(1.5)
    first, fit = fit_in_stages(measure.stages, features, rewards, 1e-6)
    residuals = rewards - features @ first.mean

    def loss(parameters: Floats) -> float:
        deviations = features @ parameters
        if (deviations <= 0.0).any():
            return math.inf
        return float(np.mean(0.25 * deviations**2 - 0.5 * residuals**2 * np.log(deviations)))

    found = minimize(loss, np.array([0.5, 0.5, 0.5]), method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-15}).x
    np.testing.assert_allclose(first.nuisance, found, atol=1e-5)
    # at the minimiser the step from s is a regression of 0
    error = standard_errors(measure, features, rewards)
    assert (np.abs(fit.theta - (first.mean - 1.5 * found)) <= 0.1 * error).all()


@pytest.mark.parametrize("measure", [Cvar(0.1), Cvar(0.25), MeanVariance(1.5), MeanVariance(0.8, "variance")], ids=str)
def test_an_error_of_stage_one_enters_squared(measure: Measure) -> None:
    """A quantile that lags behind by a tenth would bias the CVaR by a tenth."""
    stages = measure.stages
    assert stages is not None
    features, rewards = world(7, 200_000)
    first = fit_first_stage(stages, features, rewards, 1e-6)
    solve = np.linalg.pinv(features)

    def theta(step: float) -> Floats:
        moved = first._replace(mean=first.mean + step * 0.3, nuisance=first.nuisance + step)
        return np.asarray(moved.mean + solve @ pseudo_residuals(stages, moved, features, rewards))

    at, once, twice = theta(0.0), theta(0.05), theta(0.1)
    assert np.abs(once - at).max() < 0.05  # smaller than the error itself
    assert np.abs(twice - at).max() == pytest.approx(4.0 * np.abs(once - at).max(), rel=0.35)


@pytest.mark.parametrize("level", [0.1, 0.25, 0.5])
def test_the_quantile_is_that_of_statsmodels(level: float) -> None:
    """With a vanishing bandwidth ours would differ from everybody's quantile regression."""
    features, rewards = world(8, 1_999)
    expected = QuantReg(rewards, features).fit(q=level, p_tol=1e-12, max_iter=10_000).params
    theta = np.zeros(3)
    for bandwidth in (0.1, 0.01, 0.001, 1e-4, 1e-5):
        loss = SmoothedCheckLoss(level, bandwidth, 0.3)
        theta = minimise(loss, features, rewards, 1e-9, start=theta).theta
    np.testing.assert_allclose(theta, expected, atol=1e-4 * float((features @ SPREAD).mean()))


@pytest.mark.parametrize("loss", [SmoothedCheckLoss(0.1, 0.2, 0.5), SmoothedCheckLoss(0.7, 1e-3, 2.0),
                                  DeviationLoss(0.3)], ids=repr)  # fmt: skip
def test_losses_of_stage_one(loss: SmoothedCheckLoss | DeviationLoss, rng: np.random.Generator) -> None:
    """A wrong derivative, or a step that solves another equation, would make every estimate wrong without an error."""
    y, xi = rng.uniform(-2, 2, 400), rng.uniform(-2, 2, 400)
    step = 1e-6
    slope = (loss.value(y, xi + step) - loss.value(y, xi - step)) / (2 * step)
    np.testing.assert_allclose(slope, loss.d1(y, xi), rtol=1e-5, atol=1e-7)
    near = np.abs(xi - (loss.floor if isinstance(loss, DeviationLoss) else 9.0)) > 2 * step
    bend = (loss.d1(y, xi + step) - loss.d1(y, xi - step)) / (2 * step)
    np.testing.assert_allclose(bend[near], loss.d2(y, xi)[near], rtol=1e-4, atol=1e-4)
    assert (loss.d2(y, xi) >= loss.curvature_min).all()
    for target, start, leverage in zip(y.tolist(), xi.tolist(), rng.exponential(2.0, 400).tolist(), strict=True):
        slope_at, bend_at = loss.implicit_step(target, start, leverage)
        u = start - leverage * slope_at
        assert loss.d1(target, u) == pytest.approx(slope_at, rel=1e-6, abs=1e-8)
        assert loss.d2(target, u) == pytest.approx(bend_at, rel=1e-4, abs=1e-5)


def test_when_stage_one_is_fitted() -> None:
    """A replay that asks at other times than the live campaign did would fit stage one at other times."""
    in_steps, at_once = 0, []
    for count in range(1, 3_000):
        in_steps = fitted_count(in_steps, count)
        at_once.append(fitted_count(0, count))
        assert in_steps == at_once[-1]
        assert count / 1.12 <= in_steps <= count
    assert len(set(at_once)) < 100


def test_rewards_that_lie_on_the_fit_scatter_nothing() -> None:
    """A courier that always earns the same would have the spread of its rounding, and divide by it."""
    for measure in (*MEASURES, MeanVariance(0.8, "variance")):
        for make in (StagedMinimizer, StagedOnePass):
            assert measure.stages is not None
            estimator = make(measure.stages, 1, 1, 1e-3)
            for count in range(1, 60):
                estimator.observe(0, np.ones(1), 0.6)
                estimator.refresh()
                assert estimator.theta[0, 0] == pytest.approx(0.6, abs=1e-3 / count)
                assert estimator.is_sane()


@every_measure
def test_one_pass_comes_close(measure: Measure) -> None:
    """What never looks back would drift away from what does."""
    features, rewards = world(9, 4_000)
    assert measure.stages is not None
    exact = fit_in_stages(measure.stages, features, rewards, 1.0)[1].theta
    estimator = StagedOnePass(measure.stages, 1, 3, 1.0)
    for x, y in zip(features, rewards.tolist(), strict=True):
        estimator.observe(0, x, y)
    estimator.refresh()
    error = standard_errors(measure, features, rewards)
    assert (np.abs(estimator.theta[0] - exact) <= 1.5 * error).all(), (estimator.theta[0] - exact) / error


@pytest.mark.parametrize("make", [StagedMinimizer, StagedOnePass])
@every_measure
def test_a_centre_moves_the_intercept_only(make: type[StagedMinimizer | StagedOnePass], measure: Measure) -> None:
    """Campaigns that learn rewards relative to a centre would lose what they know whenever it moves."""
    random = np.random.default_rng(10)
    assert measure.stages is not None
    moved, plain = make(measure.stages, 1, 2, 1e-6), make(measure.stages, 1, 2, 1e-6)
    for count in range(200):
        x = np.array([random.uniform(), 1.0])
        y = float(1.0 + x[0] * random.normal())
        if count in (3, 50, 130):
            moved.recenter(float(count))
        moved.observe(0, x, y)
        plain.observe(0, x, y)
    moved.refresh()
    plain.refresh()
    tolerance = 1e-4 if make is StagedMinimizer else 0.02
    np.testing.assert_allclose(moved.theta[0] + [0.0, 130.0], plain.theta[0], atol=tolerance)


@pytest.mark.parametrize("factor", [1e3, 1e-3])
@every_measure
def test_another_unit_of_the_rewards(measure: Measure, factor: float) -> None:
    """Cents and dollars would choose different arms."""
    features, rewards = world(11, 300)
    assert measure.stages is not None
    plain = fit_in_stages(measure.stages, features, rewards, 1.0)[1]
    scaled = fit_in_stages(measure.stages, features, factor * rewards, 1.0)[1]
    np.testing.assert_allclose(scaled.theta, factor * plain.theta, rtol=1e-7)
    assert scaled.d1_squares == pytest.approx(factor**2 * plain.d1_squares, rel=1e-6)


def test_variance_is_learned_without_a_nuisance() -> None:
    """A loss that is not needed would cost a fit of its own."""
    assert VarianceStages(1.0).nuisance_loss(1.0, 10, 2) is None
