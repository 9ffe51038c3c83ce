"""The expectile: a mean that weighs shortfalls and surpluses differently."""

from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from prudent.core.measures.loss import PiecewiseQuadraticLoss, Real
from prudent.core.measures.measure import Measure
from prudent.core.measures.samples import outcomes_of


@dataclass(frozen=True, slots=True)
class ExpectileLoss(PiecewiseQuadraticLoss):
    """L(y, xi) = w (y - xi)^2 with w = level where y >= xi and 1 - level elsewhere; no factor 1/2.

    Elicits the expectile of that level. Below 1/2 it is risk-averse, at 1/2 it is the mean, above 1/2
    risk-seeking. d2 jumps at y = xi, where the side y >= xi is taken.
    Raises ValueError for a level outside (0, 1). Source: Saux & Maillard 2023, Example 1.
    """

    level: float

    def __post_init__(self) -> None:
        if not 0.0 < self.level < 1.0:
            raise ValueError(f"the level of an expectile must lie in (0, 1), not {self.level}")

    @property
    def curvature_min(self) -> float:
        """The smallest value of d2: 2 min(level, 1 - level)."""
        return 2.0 * min(self.level, 1.0 - self.level)

    @property
    def curvature_max(self) -> float:
        """The largest value of d2: 2 max(level, 1 - level)."""
        return 2.0 * max(self.level, 1.0 - self.level)

    def _weight(self, y: Real, xi: Real) -> Real:
        if isinstance(xi, np.ndarray):
            # abs(level - 1) is exactly 1 - level, and ten times as fast as a choice by np.where.
            return np.abs(self.level - (y < xi).astype(np.float64))
        return 1.0 - self.level if y < xi else self.level

    def value(self, y: Real, xi: Real) -> Real:
        """Return the loss, (n,) or a float, in squared reward units."""
        return self._weight(y, xi) * (y - xi) * (y - xi)

    def d1(self, y: Real, xi: Real) -> Real:
        """Return -2 w (y - xi), (n,) or a float, in reward units."""
        return 2.0 * self._weight(y, xi) * (xi - y)

    def d2(self, y: Real, xi: Real) -> Real:
        """Return 2 w, (n,) or a float, without a unit."""
        return 2.0 * self._weight(y, xi)


@dataclass(frozen=True, slots=True)
class Expectile(Measure):
    """The expectile of a level in (0, 1): the value at which level times the mean surplus is 1 - level the shortfall.

    In the words of a user a shortfall counts `downside_weight` = (1 - level)/level times a surplus. It follows every
    change of unit with the same level. Raises ValueError for a level outside (0, 1).
    """

    name = "expectile"
    noun = "expectile"
    meaning = "An expectile is an average in which a shortfall below it counts more, or less, than a surplus above it."

    level: float
    loss: ExpectileLoss = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "loss", ExpectileLoss(self.level))

    @staticmethod
    def level_of(downside_weight: float) -> float:
        """Return the level at which a shortfall counts `downside_weight`, positive, times a surplus."""
        return 1 / (1 + downside_weight)

    @property
    def downside_weight(self) -> float:
        """How many times a surplus a shortfall counts."""
        return (1 - self.level) / self.level

    @property
    def title(self) -> str:
        """Its name with its level."""
        return f"expectile at level {self.level:.4g}"

    @property
    def aim(self) -> str:
        """What a campaign that goes by it looks for."""
        weight = self.downside_weight
        if weight > 1:
            return f"Cautious: a shortfall counts {weight:.3g} times as much as a surplus."
        if weight < 1:
            return f"Risk-seeking: a surplus counts {1 / weight:.3g} times as much as a shortfall."
        return "Maximises the average reward."

    def risk(self, values: ArrayLike, weights: ArrayLike | None = None) -> float:
        """Return the expectile of a sample; see `Measure.risk`. O(n log n).

        It is the weighted mean with weight `level` on the values above it and 1 - level below, and the sorted sums
        show between which two values it lies. Source: Newey & Powell 1987.
        """
        level = self.level
        ordered, masses = outcomes_of(values, weights)
        order = np.argsort(ordered)
        ordered, masses = ordered[order], masses[order]
        # Relative to their middle, so that values that share a large offset lose no digits in the sums.
        middle = float(ordered[len(ordered) // 2])
        ordered = ordered - middle
        mass, moment = np.cumsum(masses), np.cumsum(masses * ordered)
        above_mass, above_moment = mass[-1] - mass, moment[-1] - moment
        balance = level * (above_moment - above_mass * ordered) - (1.0 - level) * (mass * ordered - moment)
        # The balance falls with the value; the expectile lies above the last value where it is not negative.
        last = max(int(np.count_nonzero(balance >= 0.0)) - 1, 0)
        numerator = (1.0 - level) * moment[last] + level * above_moment[last]
        return middle + float(numerator / ((1.0 - level) * mass[last] + level * above_mass[last]))

    def transformed(self, scale: float, shift: float) -> Self:  # noqa: ARG002 -- one signature for every measure
        """Return itself."""
        return self
