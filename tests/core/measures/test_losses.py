"""The losses: signs, derivatives, bounds of the curvature."""

import math

import numpy as np
import pytest

from prudent.core.measures import EntropicLoss, ExpectileLoss, Loss, SquaredLoss

LOSSES: list[Loss] = [
    SquaredLoss(),
    ExpectileLoss(0.001),
    ExpectileLoss(0.1),
    ExpectileLoss(0.9),
    EntropicLoss(1.0, -2.0, 2.0),
    EntropicLoss(-1.5, -2.0, 2.0),
    EntropicLoss(1e-3, -2.0, 2.0),
]


def points(rng, count=1000):
    y, xi = rng.uniform(-2, 2, count), rng.uniform(-2, 2, count)
    # Differences straddling the kink would say nothing: keep away from it by more than the step.
    return y, np.where(np.abs(y - xi) < 1e-3, xi + 0.01, xi)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_derivatives_agree_with_finite_differences_on_both_sides_of_the_kink(loss, rng):
    """A wrong derivative would make every estimate wrong without any error."""
    y, xi = points(rng)
    assert (y > xi).sum() > 300
    assert (y < xi).sum() > 300
    step = 1e-5
    slope = (loss.value(y, xi + step) - loss.value(y, xi - step)) / (2 * step)
    curvature = (loss.d1(y, xi + step) - loss.d1(y, xi - step)) / (2 * step)
    scale = np.abs(loss.value(y, xi)).max()
    np.testing.assert_allclose(slope, loss.d1(y, xi), rtol=1e-6, atol=1e-9 * scale)
    np.testing.assert_allclose(curvature, loss.d2(y, xi), rtol=1e-6)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_curvature_lies_within_its_bounds_and_reaches_near_them(loss):
    """Bounds that fail break the guarantee; bounds that are loose widen every bonus."""
    grid = np.linspace(-2, 2, 81)
    y, xi = (axis.ravel() for axis in np.meshgrid(grid, grid))
    curvature = loss.d2(y, xi)
    assert curvature.min() >= loss.curvature_min * (1 - 1e-12)
    assert curvature.max() <= loss.curvature_max * (1 + 1e-12)
    assert curvature.min() <= loss.curvature_min * (1 + 1e-9)
    assert curvature.max() >= loss.curvature_max * (1 - 1e-9)
    assert loss.conditioning == pytest.approx(loss.curvature_max / loss.curvature_min)


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_floats_and_arrays_agree(loss, rng):
    """The streaming estimators use floats, the exact one arrays: they must learn the same thing."""
    y, xi = points(rng, 50)
    y[0] = xi[0]
    for method in (loss.value, loss.d1, loss.d2):
        single = [method(float(a), float(b)) for a, b in zip(y, xi, strict=True)]
        assert all(isinstance(value, float) for value in single)
        # numpy's vectorised exp may differ from its scalar one in the last digit.
        np.testing.assert_allclose(method(y, xi), single, rtol=1e-14)


def test_values_by_hand():
    """The factors 1/2, w and s are conventions that references and bonuses depend on."""
    assert SquaredLoss().value(3.0, 1.0) == 2.0
    assert SquaredLoss().d1(3.0, 1.0) == -2.0
    assert SquaredLoss().d2(3.0, 1.0) == 1.0
    low = ExpectileLoss(0.25)
    assert low.value(3.0, 1.0) == 1.0
    assert low.value(1.0, 3.0) == 3.0
    assert low.d1(3.0, 1.0) == -1.0
    assert low.d1(1.0, 3.0) == 3.0
    assert low.d2(3.0, 1.0) == 0.5
    assert low.d2(1.0, 3.0) == 1.5
    assert low.d2(1.0, 1.0) == 0.5
    for gamma in (2.0, -2.0):
        loss = EntropicLoss(gamma, -1.0, 1.0)
        s = math.copysign(1.0, gamma)
        assert loss.value(1.0, 0.5) == pytest.approx(s * (0.5 + (math.exp(gamma * 0.5) - 1) / gamma))
        assert loss.d1(1.0, 0.5) == pytest.approx(-s * (math.exp(gamma * 0.5) - 1))
        assert loss.d2(1.0, 0.5) == pytest.approx(2.0 * math.exp(gamma * 0.5))
        assert loss.curvature_max == pytest.approx(2.0 * math.exp(4.0))
        assert loss.curvature_min == pytest.approx(2.0 * math.exp(-4.0))


@pytest.mark.parametrize("loss", [SquaredLoss(), ExpectileLoss(0.1), EntropicLoss(-1.0, 0.0, 1.0)], ids=repr)
def test_overflow_is_infinite_and_silent(loss):
    """A warning in the line search would be an error in the log at every large step."""
    y, xi = np.array([0.0, 0.0]), np.array([1e200, -1e200])
    with np.errstate(over="ignore"):
        assert np.isinf(loss.value(y, xi)).any()
    if isinstance(loss, EntropicLoss):
        assert np.isinf(loss.d1(y, xi)).any()
        assert np.isinf(loss.d2(y, xi)).any()
        assert math.isinf(loss.d2(0.0, 1e200))
        assert loss.d2(0.0, -1e200) == 0.0


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 1.1, math.nan])
def test_level_outside_the_unit_interval_is_refused(level):
    """Level 0 has no curvature: every bonus would be infinite."""
    with pytest.raises(ValueError, match="level"):
        ExpectileLoss(level)


@pytest.mark.parametrize(
    "arguments",
    [(0.0, 0, 1), (math.nan, 0, 1), (math.inf, 0, 1), (1, 1, 1), (1, 2, 1), (1, -math.inf, 1), (1, 0, math.nan),
     (31, 0, 1), (-31, 0, 1)],
)  # fmt: skip
def test_entropic_settings_that_cannot_work_are_refused(arguments):
    """exp(30) is the largest curvature ratio half of float64 can carry."""
    with pytest.raises(ValueError, match=r"gamma|bounds"):
        EntropicLoss(*arguments)


def test_entropic_exponent_of_thirty_is_accepted():
    """The documented limit itself must work."""
    assert math.isfinite(EntropicLoss(30.0, 0.0, 1.0).conditioning)
