"""The quantile, or value at risk: where the bad cases begin."""

import math
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr, ndtr, ndtri

from prudent.core.measures.loss import Array, Loss, Real
from prudent.core.measures.mean import SquaredLoss
from prudent.core.measures.measure import Measure
from prudent.core.measures.samples import INTERVAL_LEVEL, is_too_little, outcomes_of
from prudent.core.measures.stages import Stages

BANDWIDTH_MIN = 0.01
"""Of the spread: a narrower kernel sees too few residuals at a time."""
DENSITY_RANGE = (0.1, 4.0)
"""Around a normal law's density at its quantile: beyond it, a density that was measured is not believed."""

_ROOT_TWO = math.sqrt(2.0)
_ROOT_TWO_PI = math.sqrt(2.0 * math.pi)
_STEPS_MAX = 100
_TIE = 1e-12


def reference_density(level: float, spread: float) -> float:
    """Return a normal law's density at its quantile, per reward unit, for a spread in reward units."""
    normal = float(ndtri(level))
    return math.exp(-0.5 * normal * normal) / (_ROOT_TWO_PI * spread)


@dataclass(frozen=True, slots=True)
class SmoothedCheckLoss(Loss):
    """The check loss convolved with a normal kernel of bandwidth h, divided by a density f.

    L(y, xi) = ((xi - y) (Phi(u) - level) + h phi(u)) / f with u = (xi - y) / h; d1 = (Phi(u) - level) / f and
    d2 = phi(u) / (h f), whose average is 1 where f is the density of the rewards at the quantile. It elicits the
    quantile of Y + h N(0, 1); as h falls to 0, that of Y. Curvature has no lower bound but 0.
    Raises ValueError for a level outside (0, 1) and for a bandwidth or density that is not positive and finite.
    Source: Fernandes, Guerre & Horta 2021; He, Pan, Tan & Zhou 2023 for its bandwidth and Newton's method.
    """

    degree = 2

    level: float
    bandwidth: float
    density: float

    def __post_init__(self) -> None:
        if not 0.0 < self.level < 1.0:
            raise ValueError(f"the level of a quantile must lie in (0, 1), not {self.level}")
        if not (0.0 < self.bandwidth < math.inf and 0.0 < self.density < math.inf):
            raise ValueError(f"bandwidth and density must be positive, not {self.bandwidth} and {self.density}")

    @property
    def curvature_min(self) -> float:
        """0: far from a reward the loss is a straight line."""
        return 0.0

    @property
    def curvature_max(self) -> float:
        """The largest value of d2: 1 / (h f sqrt(2 pi))."""
        return 1.0 / (self.bandwidth * self.density * _ROOT_TWO_PI)

    @property
    def typical_curvature(self) -> float:
        """1: the density sees to it."""
        return 1.0

    def value(self, y: Real, xi: Real) -> Real:
        """Return the loss, (n,) or a float, in squared reward units."""
        distance = xi - y
        scaled = distance / self.bandwidth
        return (distance * (_normal(scaled) - self.level) + self.bandwidth * _density(scaled)) / self.density

    def d1(self, y: Real, xi: Real) -> Real:
        """Return (Phi(u) - level) / f, (n,) or a float, in reward units."""
        return (_normal((xi - y) / self.bandwidth) - self.level) / self.density

    def d2(self, y: Real, xi: Real) -> Real:
        """Return phi(u) / (h f), (n,) or a float, without a unit."""
        return _density((xi - y) / self.bandwidth) / (self.bandwidth * self.density)

    def implicit_step(self, y: float, prediction: float, leverage: float) -> tuple[float, float]:
        """As `Loss.implicit_step`, but that d1 vanishes at y + h z with Phi(z) = level: u lies between u0 and there.

        Newton's iteration, halving the bracket where a step would leave it.
        """
        ends = (prediction, y + self.bandwidth * float(ndtri(self.level)))
        low, high = min(ends), max(ends)
        u = prediction
        for _ in range(_STEPS_MAX):
            excess = u - prediction + leverage * self.d1(y, u)
            if excess == 0.0:
                break
            low, high = (low, u) if excess > 0.0 else (u, high)
            following = u - excess / (1.0 + leverage * self.d2(y, u))
            if not low < following < high:
                following = 0.5 * (low + high)
            if abs(following - u) <= 1e-15 * max(abs(u), abs(following)):
                break
            u = following
        return self.d1(y, u), self.d2(y, u)


def _normal(scaled: Real) -> Real:
    """Return the normal distribution function, (n,) or a float."""
    if isinstance(scaled, np.ndarray):
        return np.asarray(ndtr(scaled))
    return 0.5 * math.erfc(-scaled / _ROOT_TWO)


def _density(scaled: Real) -> Real:
    """Return the normal density, (n,) or a float."""
    if isinstance(scaled, np.ndarray):
        with np.errstate(under="ignore", over="ignore"):
            return np.exp(-0.5 * scaled * scaled) / _ROOT_TWO_PI
    return math.exp(-0.5 * scaled * scaled) / _ROOT_TWO_PI


@dataclass(frozen=True, slots=True)
class QuantileStages(Stages):
    """The quantile of the residuals at a level in (0, 1): what a CVaR needs, and what a quantile is."""

    is_direct = True

    level: float

    def nuisance_loss(self, spread: float, count: int, dimension: int, curvature: float = 1.0) -> SmoothedCheckLoss:
        """Return the smoothed check loss with h = spread ((d + log(n + 1)) / n)^0.4, at least a hundredth of it.

        Its density is a normal law's times `curvature`, within `DENSITY_RANGE`.
        """
        share = ((dimension + math.log(count + 1.0)) / max(count, 1)) ** 0.4
        density = reference_density(self.level, spread) * min(max(curvature, DENSITY_RANGE[0]), DENSITY_RANGE[1])
        return SmoothedCheckLoss(self.level, spread * max(share, BANDWIDTH_MIN), density)

    def pseudo_residuals(self, residuals: Array, nuisance: Array, spread: float) -> Array:  # noqa: ARG002 -- direct
        """Return the nuisance: there is no stage two."""
        return nuisance


@dataclass(frozen=True, slots=True)
class Quantile(Measure):
    """The quantile at a level in (0, 1): what the reward exceeds with probability 1 - level.

    It follows every change of unit with the same level. Raises ValueError for a level outside (0, 1).
    """

    name = "quantile"
    noun = "quantile"
    meaning = "A quantile is where the bad cases begin: it says how often the reward is lower, not by how much."

    level: float
    loss: SquaredLoss = field(default=SquaredLoss(), init=False, repr=False)

    def __post_init__(self) -> None:
        check_level(self.level)

    @property
    def stages(self) -> QuantileStages:
        """The smoothed check loss of the residuals."""
        return QuantileStages(self.level)

    @property
    def title(self) -> str:
        """Its name with its level."""
        return f"quantile at level {self.level:.4g}"

    @property
    def aim(self) -> str:
        """What a campaign that goes by it looks for."""
        return f"Maximises what {exceeding_in_words(self.level)} rewards exceed."

    def risk(self, values: ArrayLike, weights: ArrayLike | None = None) -> float:
        """Return the quantile of a sample, the middle of those that minimise the check loss; see `Measure.risk`."""
        outcomes, masses = outcomes_of(values, weights)
        order = np.argsort(outcomes)
        outcomes, mass = outcomes[order], np.cumsum(masses[order])
        target = self.level * mass[-1]
        slack = _TIE * mass[-1]
        low = int(np.searchsorted(mass, target - slack))
        high = min(int(np.searchsorted(mass, target + slack, side="right")), len(outcomes) - 1)
        return 0.5 * float(outcomes[low]) + 0.5 * float(outcomes[high])

    def transformed(self, scale: float, shift: float) -> Self:  # noqa: ARG002 -- one signature for every measure
        """Return itself."""
        return self

    def interval(self, values: Array, risk: float) -> tuple[float, float] | None:  # noqa: ARG002 -- one signature for every measure
        """Return a 95% interval between two of the sorted values, which needs no density.

        The number of values below the quantile is binomial; the interval leaves out at most 2.5% on either side, so
        that it holds the quantile of independent values of one law with probability at least 95%. None where
        `is_too_little`, and where the sample has no value that is surely below the quantile, or above it.
        Source: Thompson 1936; David & Nagaraja 2003, Order Statistics, Section 7.1.
        """
        if is_too_little(values):
            return None
        count = len(values)
        below = bdtr(np.arange(count), count, self.level)
        tail = 0.5 - INTERVAL_LEVEL / 2
        # places, from 1, of the last value that is below with enough confidence, and of the first that is above
        low = int(np.count_nonzero(below <= tail))
        high = int(np.count_nonzero(below < 1.0 - tail)) + 1
        if low < 1 or high > count:
            return None
        ordered = np.sort(values)
        return float(ordered[low - 1]), float(ordered[high - 1])


_WORDS = {0.5: "half", 0.25: "quarter", 0.2: "fifth", 0.1: "tenth", 0.05: "twentieth", 0.01: "hundredth"}
_EXCEEDING = {
    0.5: "half of the",
    0.25: "three in four",
    0.2: "four in five",
    0.1: "nine in ten",
    0.05: "19 in 20",
    0.01: "99 in 100",
}


def check_level(level: float) -> None:
    """Raise ValueError unless the level lies in (0, 1)."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"the level must lie in (0, 1), not {level}")


def share_in_words(level: float) -> str:
    """Return "tenth" for 0.1 and "12.5%" for 0.125."""
    return _WORDS.get(level, f"{100 * level:.4g}%")


def exceeding_in_words(level: float) -> str:
    """Return "nine in ten" for 0.1 and "87.5% of the" for 0.125."""
    return _EXCEEDING.get(level, f"{100 * (1 - level):.4g}% of the")
