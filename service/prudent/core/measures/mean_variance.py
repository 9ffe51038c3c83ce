"""Mean-variance: the average less a penalty for spread, by the variance or by the standard deviation."""

import math
from dataclasses import dataclass, field
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from prudent.core.measures.loss import Array, Loss, Real
from prudent.core.measures.mean import SquaredLoss
from prudent.core.measures.measure import Measure
from prudent.core.measures.samples import outcomes_of, pseudo_interval
from prudent.core.measures.stages import Stages

FLOOR = 0.05
"""Of the spread of all residuals: a deviation that is estimated below it is taken for it."""

Penalty = Literal["deviation", "variance"]


@dataclass(frozen=True, slots=True)
class VarianceStages(Stages):
    """Stage one: the mean m. Stage two: Z = y - aversion/2 (y - m)^2, whose mean is largest at m."""

    aversion: float

    def pseudo_residuals(self, residuals: Array, nuisance: Array, spread: float) -> Array:  # noqa: ARG002 -- none here
        """Return r - aversion/2 r^2, (n,)."""
        return residuals - 0.5 * self.aversion * residuals * residuals


@dataclass(frozen=True, slots=True)
class DeviationLoss(Loss):
    """L(r, s) = s^2/4 - r^2/2 log s, for residuals r; its expectation is smallest where s^2 = E r^2.

    d1 = (s^2 - r^2) / (2 s) and d2 = (s^2 + r^2) / (2 s^2), whose average at the minimiser is 1. Below the floor d1
    goes on as a straight line, so that s may be anything on the way. Raises ValueError for a floor that is not positive
    and finite. Source: the consistent scoring functions of a positive functional, Gneiting 2011; its choice is ours.
    """

    degree = 2

    floor: float

    def __post_init__(self) -> None:
        if not 0.0 < self.floor < math.inf:
            raise ValueError(f"the floor of a deviation must be positive, not {self.floor}")

    @property
    def curvature_min(self) -> float:
        """1/2, far above the residual."""
        return 0.5

    @property
    def curvature_max(self) -> float:
        """No bound: d2 grows as r^2."""
        return math.inf

    @property
    def typical_curvature(self) -> float:
        """1, its average at the minimiser."""
        return 1.0

    def value(self, y: Real, xi: Real) -> Real:
        """Return the loss, (n,) or a float, in squared reward units, up to a multiple of y^2. y: r; xi: s."""
        at = _larger(xi, self.floor)
        below = xi - at
        squares = y * y
        logarithm = np.log(at / self.floor) if isinstance(at, np.ndarray) else math.log(at / self.floor)
        return (
            0.25 * at * at
            - 0.5 * squares * logarithm
            + below * (self._slope(squares, at) + 0.5 * below * self._bend(squares, at))
        )

    def d1(self, y: Real, xi: Real) -> Real:
        """Return (s^2 - r^2) / (2 s), (n,) or a float, in reward units."""
        at = _larger(xi, self.floor)
        squares = y * y
        return self._slope(squares, at) + (xi - at) * self._bend(squares, at)

    def d2(self, y: Real, xi: Real) -> Real:
        """Return (s^2 + r^2) / (2 s^2), (n,) or a float, without a unit."""
        return self._bend(y * y, _larger(xi, self.floor))

    @staticmethod
    def _slope(squares: Real, at: Real) -> Real:
        return 0.5 * (at - squares / at)

    @staticmethod
    def _bend(squares: Real, at: Real) -> Real:
        return 0.5 + 0.5 * squares / (at * at)

    def implicit_step(self, y: float, prediction: float, leverage: float) -> tuple[float, float]:
        """As `Loss.implicit_step`: above the floor u is the positive root of (2 + q) u^2 - 2 u0 u = q r^2."""
        squares, weight = y * y, 2.0 + leverage
        root = math.sqrt(prediction * prediction + weight * leverage * squares)
        u = (prediction + root) / weight
        if not u >= self.floor:
            floor = self.floor
            slope, bend = self._slope(squares, floor), self._bend(squares, floor)
            u = floor + (prediction - floor - leverage * slope) / (1.0 + leverage * bend)
        return self.d1(y, u), self.d2(y, u)


def _larger(values: Real, floor: float) -> Real:
    return np.maximum(values, floor) if isinstance(values, np.ndarray) else max(values, floor)


@dataclass(frozen=True, slots=True)
class DeviationStages(Stages):
    """Stage one: the mean m and the deviation s. Stage two: Z = y - aversion (s + ((y - m)^2 - s^2) / (2 s)).

    That is one step from s towards the root of (y - m)^2, so that an error of s enters E[Z] only squared.
    """

    moves_with_rewards = False

    aversion: float

    def nuisance_loss(self, spread: float, count: int, dimension: int, curvature: float = 1.0) -> DeviationLoss:  # noqa: ARG002 -- one signature for every measure
        """Return the loss of a deviation, with a floor of a twentieth of the spread."""
        return DeviationLoss(FLOOR * spread)

    def pseudo_residuals(self, residuals: Array, nuisance: Array, spread: float) -> Array:
        """Return r - aversion (s + (r^2 - s^2) / (2 s)), (n,), with s at least its floor; r where nothing scatters."""
        if spread == 0.0:
            return residuals
        deviations = np.maximum(nuisance, FLOOR * spread)
        return residuals - 0.5 * self.aversion * (deviations + residuals * residuals / deviations)


@dataclass(frozen=True, slots=True)
class MeanVariance(Measure):
    """The mean less aversion times the standard deviation, or less aversion/2 times the variance.

    aversion: positive; without a unit for `of` "deviation", per reward unit for "variance". It punishes spread either
    way, a surplus like a shortfall. Raises ValueError for an aversion that is not positive and finite.
    """

    name = "mean-variance"
    noun = "mean-variance"
    meaning = "Mean-variance is the average less a penalty for spread, whether the rewards spread up or down."

    aversion: float
    of: Penalty = "deviation"
    loss: SquaredLoss = field(default=SquaredLoss(), init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0.0 < self.aversion < math.inf:
            raise ValueError(f"the aversion must be positive and finite, not {self.aversion}")

    @property
    def stages(self) -> Stages:
        """A mean, and a deviation where that is what is punished."""
        return DeviationStages(self.aversion) if self.of == "deviation" else VarianceStages(self.aversion)

    @property
    def title(self) -> str:
        """Its name with its formula."""
        return f"mean-variance ({self.quantity})"

    @property
    def aim(self) -> str:
        """What a campaign that goes by it looks for."""
        return f"Averse to spread: maximises the {self.quantity}."

    @property
    def quantity(self) -> str:
        """What an estimate is of."""
        if self.of == "deviation":
            return f"mean less {self.aversion:.4g} standard deviations of the reward"
        return f"mean less {self.aversion / 2:.4g} times the variance of the reward"

    def risk(self, values: ArrayLike, weights: ArrayLike | None = None) -> float:
        """Return it for a sample, whose variance is about its own mean, undivided by n - 1; see `Measure.risk`."""
        outcomes, masses = outcomes_of(values, weights)
        masses = masses / masses.sum()
        mean = float(masses @ outcomes)
        variance = float(masses @ np.square(outcomes - mean))
        return mean - (
            self.aversion * math.sqrt(variance) if self.of == "deviation" else 0.5 * self.aversion * variance
        )

    def transformed(self, scale: float, shift: float) -> Self:  # noqa: ARG002 -- a variance does not move
        """Return itself, or for the variance the measure with aversion / scale."""
        return self if self.of == "deviation" else type(self)(self.aversion / scale, self.of)

    def interval(self, values: Array, risk: float) -> tuple[float, float] | None:
        """As `Measure.interval`, from the spread of Z at the sample's own mean and deviation."""
        residuals = values - values.mean()
        deviations = np.full(len(values), values.std())
        spread = float(deviations[0])
        return pseudo_interval(self.stages.pseudo_residuals(residuals, deviations, spread), risk)
