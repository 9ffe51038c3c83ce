"""Radius, metric and bonus against 40-digit reference values and hand-made cases."""

import json
from math import log, pi, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prudent.core.confidence import Confidence, ConfidenceSettings
from prudent.core.estimators import ExactMinimizer, OnePass, Ridge
from prudent.core.measures import EntropicLoss, ExpectileLoss, Loss, SquaredLoss
from prudent.core.numerics.positive_definite import inverse_factor, log_sum

CASES = json.loads((Path(__file__).parent / "reference" / "erm.json").read_text())["cases"]
INSIDE = [case for case in CASES if case["theta_inside_ball"]]


def loss_of(case: dict[str, Any]) -> Loss:
    if case["risk"] == "mean":
        return SquaredLoss()
    if case["risk"] == "expectile":
        return ExpectileLoss(case["parameter"])
    return EntropicLoss(case["parameter"], *case["reward_bounds"])


def bonuses(case: dict[str, Any], name: str, **changes: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    loss, x = loss_of(case), np.array(case["X"])
    estimator = ExactMinimizer(loss, 1, x.shape[1], case["alpha"], None)
    for features, reward in zip(x, case["y"], strict=True):
        estimator.observe(0, features, reward)
    settings = ConfidenceSettings(
        regularization=case["alpha"],
        delta=case["delta"],
        noise_scale=case["sigma"],
        parameter_bound=case["parameter_bound"],
        bonus=name,  # type: ignore[arg-type]
        **changes,
    )
    confidence = Confidence(loss, settings, 1, x.shape[1], blocks_at_creation=1)
    confidence.refresh(estimator, estimator.refresh())
    return confidence.bonus(np.array(case["arms"]))


@pytest.mark.parametrize("name", ["local", "global"])
@pytest.mark.parametrize("number", range(len(INSIDE)))
def test_bonus_is_the_reference_value(number: int, name: str) -> None:
    """A wrong constant would make the index optimistic by the wrong amount, and no other test would show it."""
    case = INSIDE[number]
    np.testing.assert_allclose(bonuses(case, name), case[f"bonus_{name}"], rtol=1e-8)


@pytest.mark.parametrize("name", ["local", "global"])
def test_tight_bonus_is_half_the_papers(name: str) -> None:
    """The tight form must differ by the triangle inequality's factor alone."""
    for case in INSIDE:
        np.testing.assert_allclose(2 * bonuses(case, f"{name}-tight"), bonuses(case, name), rtol=1e-14)


def test_linucb_bonus_by_hand() -> None:
    """LinUCB keeps d log(1/alpha) in its radius and has no factor 2."""
    alpha, delta, sigma, bound = 0.25, 0.05, 0.5, 2.0
    ridge = Ridge(1, 2, alpha)
    for x, y in ([1.0, 0.0], 1.0), ([1.0, 0.0], 0.0), ([0.0, 1.0], 3.0):
        ridge.observe(0, np.array(x), y)
    settings = ConfidenceSettings(alpha, delta, sigma, bound, linear=True)
    confidence = Confidence(SquaredLoss(), settings, 1, 2, blocks_at_creation=1)
    confidence.refresh(ridge, ridge.refresh())
    radius = sigma * sqrt(2 * log(1 / delta) + 2 * log(1 / alpha) + log(2.25 * 1.25))
    expected = (radius + sqrt(alpha) * bound) / sqrt(2.25)
    assert confidence.bonus(np.array([[1.0, 0.0]]))[0] == pytest.approx(expected, rel=1e-14)


def disjoint(radius: str, blocks: int, at_creation: int) -> Confidence:
    ridge = Ridge(blocks, 1, 1.0)
    ridge.observe(0, np.ones(1), 2.0)
    settings = ConfidenceSettings(1.0, 0.1, 1.0, 3.0, radius=radius)  # type: ignore[arg-type]
    confidence = Confidence(SquaredLoss(), settings, blocks, 1, blocks_at_creation=at_creation)
    ridge.refresh()
    confidence.refresh(ridge, range(blocks))
    return confidence


def test_per_arm_radius_shares_delta_among_the_arms_at_creation() -> None:
    """An arm's radius must grow with its own plays alone, not with all arms'."""
    radii = disjoint("per-arm", 4, 4).radii
    assert radii[0] == pytest.approx(sqrt(2 * log(40) + log(2)))
    assert radii[1:] == pytest.approx([sqrt(2 * log(40))] * 3)


def test_per_arm_radius_sums_to_delta_for_any_number_of_later_arms() -> None:
    """Adding arms at run time must not break the union bound."""
    radii = disjoint("per-arm", 3, 2).radii
    assert radii[2] == pytest.approx(sqrt(2 * log(pi**2 * 9 / 0.6)))


def test_the_only_arm_has_all_of_delta() -> None:
    """A campaign created without arms would explore its first one as if others had come before it."""
    assert disjoint("per-arm", 1, 0).radii == pytest.approx([sqrt(2 * log(10) + log(2))])


def test_joint_radius_adds_all_blocks_and_the_norm_of_the_stacked_parameter() -> None:
    """The paper's stacked form: log determinants add up, S grows with the root of the number of arms."""
    confidence = disjoint("joint", 4, 4)
    radius = sqrt(2 * log(10) + log(2))
    assert confidence.radii == pytest.approx([radius] * 4)
    assert confidence.bonus(np.ones(1), np.array([1]))[0] == pytest.approx(radius + sqrt(4) * 3)


def test_dial_is_in_reward_units() -> None:
    """Cents and dollars must choose the same arms without a touch of the dial."""
    case = dict(INSIDE[20])
    assert case["risk"] != "entropic"
    one = bonuses(case | {"sigma": None, "parameter_bound": None}, "local-tight")
    scaled = case | {"sigma": None, "parameter_bound": None, "y": [1024 * y for y in case["y"]]}
    np.testing.assert_allclose(bonuses(scaled, "local-tight"), 1024 * one, rtol=1e-12)


def test_self_concordant_conditioning() -> None:
    """1 + 2 |gamma| L S, far below exp(2 |gamma| D)."""
    settings = ConfidenceSettings(0.1, noise_scale=1.0, parameter_bound=2.0, conditioning="self-concordant")
    confidence = Confidence(EntropicLoss(-0.5, -2.0, 2.0), settings, 1, 2, blocks_at_creation=1)
    assert confidence.conditioning == 3.0
    with pytest.raises(ValueError, match="self-concordant loss"):
        Confidence(ExpectileLoss(0.1), settings, 1, 2, blocks_at_creation=1)


def test_inverse_factor_survives_a_lost_ridge() -> None:
    """Identical features and a ridge below rounding must widen the bonus, never make it NaN (N10)."""
    x = np.full((50, 3), 1e3)
    factor, log_determinant = inverse_factor(x.T @ x, 1e-12)
    assert np.isfinite(factor).all()
    assert np.isfinite(log_determinant)
    image = factor @ np.array([1.0, -1.0, 0.0])
    assert image @ image >= 0


@pytest.mark.parametrize("is_one_pass", [False, True])
def test_the_estimators_own_factor_gives_the_bonus_of_its_matrix(is_one_pass: bool) -> None:
    """Ridge and one pass hand over the factor that they have: a wrong one would explore by the wrong amount."""
    rng = np.random.default_rng(5)
    loss: Loss = ExpectileLoss(0.2) if is_one_pass else SquaredLoss()
    estimator = OnePass(loss, 2, 3, 0.5, None, 10) if is_one_pass else Ridge(2, 3, 0.5)
    settings = ConfidenceSettings(0.5, 0.1, linear=not is_one_pass)
    confidence = Confidence(loss, settings, 2, 3, blocks_at_creation=2)
    for number in range(75):
        estimator.observe(number % 2, rng.standard_normal(3), float(rng.standard_normal()))
        confidence.refresh(estimator, estimator.refresh())
    x = rng.standard_normal(3)
    estimates, found = confidence.score(x, np.array([1, 0]))
    matrices = estimator.weighted_gram + 0.5 * np.eye(3)
    ridge = 0.5 / loss.curvature_max
    for k, block in enumerate((1, 0)):
        radius = log(20) * 2 + np.linalg.slogdet(estimator.gram[block] + ridge * np.eye(3))[1] - 3 * log(ridge)
        expected = confidence.noise_scale * sqrt(radius) + sqrt(0.5) * confidence.parameter_bound
        assert found[k] == pytest.approx(expected * sqrt(x @ np.linalg.solve(matrices[block], x)), rel=1e-10)
        assert estimates[k] == pytest.approx(estimator.theta[block] @ x, rel=1e-12)


@pytest.mark.parametrize("values", [[2.0, 3.0, 0.5], [1e-200, 1e200, 1e-200], [1e5] * 60, [1e-7] * 50, []])
def test_logarithms_are_summed_without_overflow(values: list[float]) -> None:
    """The determinant of a campaign with large or tiny features is no float64; its logarithm is."""
    expected = sum(log(value) for value in values)
    assert log_sum(np.array(values)) == pytest.approx(expected, rel=1e-13, abs=1e-13)
