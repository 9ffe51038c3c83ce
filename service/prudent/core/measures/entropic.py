"""The entropic risk: the certainty equivalent under exponential utility."""

import math
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from prudent.core.measures.loss import Loss, Real
from prudent.core.measures.measure import Measure
from prudent.core.measures.samples import outcomes_of
from prudent.core.measures.score_lines import ExponentialLines

EXPONENT_MAX = 30.0
"""Largest abs(gamma) times a difference of reward and prediction: beyond it curvatures differ by more than e^60."""

_STEP_EXPONENT_MAX = 700.0
"""Largest gamma (y - u) whose exponential is still a float64."""
_ITERATIONS_MAX = 100


def _exp(exponent: Real) -> Real:
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        result: Real = np.exp(exponent)
    return result


def _expm1(exponent: Real) -> Real:
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        result: Real = np.expm1(exponent)
    return result


@dataclass(frozen=True, slots=True)
class EntropicLoss(Loss):
    """L(y, xi) = s (xi + (exp(gamma (y - xi)) - 1) / gamma) with s = sign(gamma).

    Elicits the entropic risk log E exp(gamma Y) / gamma. For rewards, gamma < 0 is risk-averse and
    gamma > 0 risk-seeking; the factor s makes the loss convex for both signs. gamma is per reward unit;
    minimum and maximum bound the rewards. The curvature bounds hold for predictions within the same
    bounds. Raises ValueError where gamma is 0 or not finite, where the bounds are not finite and in
    order, and where abs(gamma) (maximum - minimum) exceeds `EXPONENT_MAX`.
    Source: Saux & Maillard 2023, Example 3; the sign factor is ours.
    """

    degree = 1
    is_steep = True

    gamma: float
    minimum: float
    maximum: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.gamma) or self.gamma == 0.0:
            raise ValueError(f"gamma must be finite and not 0, not {self.gamma}")
        if not -math.inf < self.minimum < self.maximum < math.inf:
            raise ValueError(f"rewards need finite bounds in order, not {self.minimum} and {self.maximum}")
        if not self._exponent <= EXPONENT_MAX:
            raise ValueError(f"abs(gamma) * (maximum - minimum) must be at most {EXPONENT_MAX}, not {self._exponent}")

    @property
    def _exponent(self) -> float:
        return abs(self.gamma) * (self.maximum - self.minimum)

    @property
    def curvature_min(self) -> float:
        """The smallest value of d2 for predictions within the reward bounds."""
        return abs(self.gamma) * math.exp(-self._exponent)

    @property
    def curvature_max(self) -> float:
        """The largest value of d2 for predictions within the reward bounds."""
        return abs(self.gamma) * math.exp(self._exponent)

    @property
    def conditioning(self) -> float:
        """curvature_max / curvature_min = exp(2 abs(gamma) (maximum - minimum))."""
        return math.exp(2.0 * self._exponent)

    @property
    def prediction_bounds(self) -> tuple[float, float]:
        """The bounds of the rewards."""
        return self.minimum, self.maximum

    @property
    def typical_curvature(self) -> float:
        """abs(gamma), which is E d2 at the truth; M is far above what is met."""
        return abs(self.gamma)

    @property
    def self_concordance(self) -> float:
        """abs(gamma), as d3 = -gamma d2."""
        return abs(self.gamma)

    @property
    def default_regularization(self) -> float:
        """0.1 abs(gamma): the loss is of order abs(gamma) (y - xi)^2 / 2 where gamma is small."""
        return 0.1 * abs(self.gamma)

    @property
    def score_lines(self) -> ExponentialLines | None:
        """exp(abs(gamma) (xi - y)) - 1, where gamma < 0; None for the risk-seeking one."""
        return ExponentialLines(-self.gamma) if self.gamma < 0.0 else None

    def curvature_within(self, reach: float) -> tuple[float, float]:
        """Return the smallest and largest d2 for predictions in [-reach, reach], reach in reward units.

        The exponent gamma (y - xi) then lies between gamma (minimum - reach) and gamma (maximum + reach), in either
        order.
        """
        exponents = sorted((self.gamma * (self.minimum - reach), self.gamma * (self.maximum + reach)))
        return abs(self.gamma) * math.exp(exponents[0]), abs(self.gamma) * math.exp(exponents[1])

    def value(self, y: Real, xi: Real) -> Real:
        """Return the loss, (n,) or a float, in reward units; inf where it overflows."""
        return math.copysign(1.0, self.gamma) * (xi + _expm1(self.gamma * (y - xi)) / self.gamma)

    def d1(self, y: Real, xi: Real) -> Real:
        """Return -s expm1(gamma (y - xi)), (n,) or a float, without a unit; infinite on overflow."""
        return -math.copysign(1.0, self.gamma) * _expm1(self.gamma * (y - xi))

    def d2(self, y: Real, xi: Real) -> Real:
        """Return abs(gamma) exp(gamma (y - xi)), (n,) or a float, per reward unit; inf on overflow."""
        return abs(self.gamma) * _exp(self.gamma * (y - xi))

    def implicit_step(self, y: float, prediction: float, leverage: float) -> tuple[float, float]:
        """As `Loss.implicit_step`: z = gamma (y - u) turns the equation into z + abs(gamma) q expm1(z) = z0."""
        steepness = abs(self.gamma)
        z = implicit_exponent(self.gamma * (y - prediction), steepness * leverage)
        if not z <= _STEP_EXPONENT_MAX:
            return math.inf, math.inf
        # d1 and d2 serve arrays too, and cost three times as much for one number.
        slope = math.expm1(z)
        return (-slope if self.gamma > 0.0 else slope), steepness * math.exp(z)


def implicit_exponent(target: float, weight: float) -> float:
    """Return the root z of z + weight expm1(z) = target, for weight >= 0; it lies between 0 and target.

    The left side rises and is convex, so Newton's iteration from the right of the root falls to it, and ends where
    rounding stops the fall. It starts on the right: where weight expm1(z) <= target for target > 0, and where
    Newton's step from 0 leads otherwise. nan for what is not finite; above 700 merely a bound.
    """
    if not (abs(target) < math.inf and weight < math.inf):
        return math.nan
    if target > 0.0:
        z = target
        if weight * _STEP_EXPONENT_MAX > 0.0:
            z = min(target, math.log1p(target / weight))
        if z > _STEP_EXPONENT_MAX:
            return z
    else:
        z = target / (1.0 + weight)
    for _ in range(_ITERATIONS_MAX):
        grown = math.expm1(z)
        following = z - (z + weight * grown - target) / (1.0 + weight * (1.0 + grown))
        if not following < z:
            break
        z = following
    return z


@dataclass(frozen=True, slots=True)
class Entropic(Measure):
    """log E exp(gamma Y) / gamma, for rewards in [minimum, maximum].

    gamma, per reward unit, is below 0 for caution; in the words of a user it is -1/`risk_tolerance`. Arguments and
    errors as for `EntropicLoss`. Source: Saux & Maillard 2023, Example 3.
    """

    name = "entropic"
    noun = "entropic risk"
    meaning = (
        "The entropic risk is the certain reward that is worth as much as the uncertain one, to somebody whose "
        "caution does not depend on what they have."
    )

    gamma: float
    minimum: float
    maximum: float
    loss: EntropicLoss = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "loss", EntropicLoss(self.gamma, self.minimum, self.maximum))

    @staticmethod
    def gamma_of(risk_tolerance: float) -> float:
        """Return gamma for a risk tolerance, in reward units and not 0."""
        return -1 / risk_tolerance

    @property
    def risk_tolerance(self) -> float:
        """About the R at which one would accept a coin flip between winning R and losing R/2; below 0: seeks risk."""
        return -1 / self.gamma

    @property
    def title(self) -> str:
        """Its name with gamma."""
        return f"entropic risk at gamma {self.gamma:.4g}"

    @property
    def aim(self) -> str:
        """What a campaign that goes by it looks for."""
        tolerance = self.risk_tolerance
        if tolerance > 0:
            return f"Cautious: large losses count more than in proportion (risk tolerance {tolerance:.4g})."
        return f"Risk-seeking: large wins count more than in proportion (risk tolerance {tolerance:.4g})."

    def risk(self, values: ArrayLike, weights: ArrayLike | None = None) -> float:
        """Return log(sum w exp(gamma y)) / gamma for weights w scaled to sum 1; see `Measure.risk`.

        Exponents are shifted by their largest, so none overflows and not all vanish. Values may lie outside the bounds.
        """
        outcomes, masses = outcomes_of(values, weights)
        exponents = self.gamma * outcomes
        largest = float(exponents.max())
        scaled = float((masses / masses.sum()) @ np.exp(exponents - largest))
        return (largest + math.log(scaled)) / self.gamma

    def transformed(self, scale: float, shift: float) -> Self:
        """Return the measure with gamma / scale, and with the bounds where the rewards have gone."""
        return type(self)(self.gamma / scale, scale * self.minimum + shift, scale * self.maximum + shift)
