"""The mean: the average reward, without regard to risk."""

from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from prudent.core.measures.loss import PiecewiseQuadraticLoss, Real
from prudent.core.measures.measure import Measure
from prudent.core.measures.samples import outcomes_of


@dataclass(frozen=True, slots=True)
class SquaredLoss(PiecewiseQuadraticLoss):
    """L(y, xi) = (y - xi)^2 / 2, which elicits the mean. Curvature 1 everywhere."""

    has_unit_curvature = True

    @property
    def curvature_min(self) -> float:
        """The smallest value of d2: 1."""
        return 1.0

    @property
    def curvature_max(self) -> float:
        """The largest value of d2: 1."""
        return 1.0

    def value(self, y: Real, xi: Real) -> Real:
        """Return the loss, (n,) or a float, in squared reward units."""
        return 0.5 * (y - xi) * (y - xi)

    def d1(self, y: Real, xi: Real) -> Real:
        """Return xi - y, (n,) or a float, in reward units."""
        return xi - y

    def d2(self, y: Real, xi: Real) -> Real:  # noqa: ARG002 -- one signature for every loss
        """Return ones, (n,) or a float, without a unit."""
        if isinstance(xi, np.ndarray):
            return np.ones_like(xi)
        return 1.0


@dataclass(frozen=True, slots=True)
class Mean(Measure):
    """The mean. It follows every change of unit, so it has no parameter to change with it."""

    name = "mean"
    noun = "mean"
    meaning = "The mean is the average reward: a loss and a gain of the same size cancel out."
    is_mean = True

    loss: SquaredLoss = field(default=SquaredLoss(), init=False, repr=False)

    @property
    def title(self) -> str:
        """Mean."""
        return "mean"

    @property
    def aim(self) -> str:
        """What a campaign that goes by it looks for."""
        return "Maximises the average reward."

    @property
    def quantity(self) -> str:
        """What an estimate is of."""
        return "average reward"

    def risk(self, values: ArrayLike, weights: ArrayLike | None = None) -> float:
        """Return the mean of a sample; see `Measure.risk`."""
        outcomes, masses = outcomes_of(values, weights)
        return float(outcomes.mean()) if weights is None else float(masses @ outcomes / masses.sum())

    def transformed(self, scale: float, shift: float) -> Self:  # noqa: ARG002 -- one signature for every measure
        """Return itself."""
        return self
