"""A convex `Loss` that elicits a risk measure.

In all of this y is the observed reward (larger is better) and xi the candidate value of the risk measure, both in the
reward's unit. A loss is two derivatives and a few constants: it knows nothing of features or penalties.

Source: Saux & Maillard 2023, "Risk-aware linear bandits with convex loss", Section 2.
"""

import math
from abc import ABC, abstractmethod
from typing import ClassVar, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from prudent.core.measures.score_lines import KinkedLines, ScoreLines

Array: TypeAlias = NDArray[np.float64]
Real = TypeVar("Real", float, Array)


class Loss(ABC):
    """A convex loss L(y, xi) whose expectation is smallest where xi is the risk of Y.

    d1 and d2 are derivatives in xi, so d1 is negative where xi is too small. Every pointwise method takes two floats,
    or two float64 arrays of one shape, and returns the same kind. Nothing here warns: a value too large for float64
    comes back as inf, for the caller to refuse.
    """

    __slots__ = ()

    degree: ClassVar[int]
    """The loss of c y + a, c > 0, at c xi + a is c^degree L(y, xi), under the transformed measure's loss. So the ridge
    alpha of a campaign becomes c^(degree - 2) alpha."""
    has_unit_curvature: ClassVar[bool] = False
    """Whether d2 is 1 everywhere, so that sums weighted by it are plain ones."""
    is_piecewise_quadratic: ClassVar[bool] = False
    """Whether d2 takes one value where y >= xi and one where y < xi; they may be the same."""
    is_steep: ClassVar[bool] = False
    """Whether d2 grows so fast with y - xi that curvature_max is far above what is met, and no guide to a step."""

    @property
    @abstractmethod
    def curvature_min(self) -> float:
        """m, the smallest value of d2 for predictions within `prediction_bounds`."""

    @property
    @abstractmethod
    def curvature_max(self) -> float:
        """M, the largest value of d2 for predictions within `prediction_bounds`."""

    @property
    def conditioning(self) -> float:
        """Kappa = M/m."""
        return self.curvature_max / self.curvature_min

    @property
    def prediction_bounds(self) -> tuple[float, float]:
        """Between which predictions m and M hold, in reward units."""
        return -math.inf, math.inf

    @property
    def typical_curvature(self) -> float:
        """The d2 to expect of an observation: M, unless the loss is steep."""
        return self.curvature_max

    @property
    def self_concordance(self) -> float | None:
        """C with abs(d3) <= c d2 everywhere, per reward unit; None where there is no such c."""
        return None

    @property
    def default_regularization(self) -> float:
        """The ridge weight alpha of a campaign that names none, in the unit of d2."""
        return 1.0

    @property
    def score_lines(self) -> ScoreLines | None:
        """The form of d1 of a loss whose scores cross once where rewards are symmetric; None for every other."""
        return None

    def curvature_within(self, reach: float) -> tuple[float, float]:  # noqa: ARG002 -- for losses it matters to
        """Return the smallest and largest d2 for predictions in [-reach, reach], reach in reward units."""
        return self.curvature_min, self.curvature_max

    @abstractmethod
    def value(self, y: Real, xi: Real) -> Real:
        """Return L(y, xi), (n,) or a float."""

    @abstractmethod
    def d1(self, y: Real, xi: Real) -> Real:
        """Return the first derivative in xi, (n,) or a float."""

    @abstractmethod
    def d2(self, y: Real, xi: Real) -> Real:
        """Return the second derivative in xi, (n,) or a float; at a kink that of the side y >= xi."""

    @abstractmethod
    def implicit_step(self, y: float, prediction: float, leverage: float) -> tuple[float, float]:
        """Return d1(y, u) and d2(y, u) at the root u of u = u0 - q d1(y, u).

        prediction: u0, in reward units; leverage: q = x^T A^-1 x >= 0. As d1 rises in u and vanishes at u = y, the root
        is unique and lies between u0 and y: no step overshoots the reward, however steep the loss. What float64 cannot
        hold is inf or nan; nothing is raised and nothing warns. Source: the mathematics page, "One pass".
        """


class PiecewiseQuadraticLoss(Loss):
    """A loss with one curvature where y >= xi and one where y < xi: fits follow from sums over the observations."""

    __slots__ = ()

    degree = 2
    is_piecewise_quadratic = True

    @property
    def score_lines(self) -> KinkedLines | None:
        """Weight (xi - y), unless a surplus weighs more than a shortfall."""
        below, above = self.d2(-1.0, 0.0), self.d2(1.0, 0.0)
        return KinkedLines(below, above) if below >= above else None

    def implicit_step(self, y: float, prediction: float, leverage: float) -> tuple[float, float]:
        """As `Loss.implicit_step`: u is on the side of y that u0 is on, so the equation is linear."""
        curvature = self.d2(y, prediction)
        return self.d1(y, prediction) / (1.0 + curvature * leverage), curvature
