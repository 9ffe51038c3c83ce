"""What a risk measure is to the rest of the code: a `Measure`, and the convex `Loss` that elicits it.

In all of this y is the observed reward (larger is better) and xi the candidate value of the risk measure, both in the
reward's unit. A loss is two derivatives and a few constants: it knows nothing of features or penalties. A measure adds
what is said about it: its value for a sample, its defaults and its words. Nobody outside this package and the module of
the configurations asks which measure it is; they ask what it knows of itself.

Source: Saux & Maillard 2023, "Risk-aware linear bandits with convex loss", Section 2.
"""

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from prudent.core.measures.score_lines import KinkedLines, ScoreLines

if TYPE_CHECKING:
    from prudent.core.measures.stages import Stages

Array: TypeAlias = NDArray[np.float64]
Real = TypeVar("Real", float, Array)

INTERVAL_LEVEL = 0.95
INTERVAL_COUNT_MIN = 30
"""With fewer rewards a normal approximation of a cautious measure is not worth a number."""


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


class Measure(ABC):
    """A risk measure with its parameters: what a campaign maximises. Risks are in the reward's unit.

    Instances are immutable; making one raises ValueError for parameters that it cannot have.
    """

    __slots__ = ()

    name: ClassVar[str]
    """The word for it in configurations."""
    noun: ClassVar[str]
    """What it is called in a sentence, or at the head of a column."""
    meaning: ClassVar[str]
    """One sentence that explains it to a newcomer."""
    is_mean: ClassVar[bool] = False
    """Whether it is the mean of the rewards, beside which the mean need not be shown again."""

    loss: Loss
    """What elicits it. For a measure in stages: the squared loss, by which the last stage learns."""

    @property
    def stages(self) -> "Stages | None":
        """How it is learned where no fixed loss elicits it; None where `loss` does."""
        return None

    def outcome(self, reward: float) -> float:
        """Return what is learned of a reward, and what everything after it is about: the reward itself but for moments.

        Raises ValueError, as an observation that is not finite does, for a reward without one.
        """
        return reward

    def centre(self, outcomes: Array) -> float:
        """Return what outcomes, (n,), are learned relative to: their risk."""
        return self.risk(outcomes)

    @property
    @abstractmethod
    def title(self) -> str:
        """Its name with its parameter, as the literature says it."""

    @property
    @abstractmethod
    def aim(self) -> str:
        """A sentence: what a campaign that goes by it looks for."""

    @property
    def quantity(self) -> str:
        """What an estimate is of, for the axis of a chart."""
        return f"{self.noun} of the reward"

    @abstractmethod
    def risk(self, values: ArrayLike, weights: ArrayLike | None = None) -> float:
        """Return the measure of a sample, or of the discrete distribution with these weights: exact up to rounding.

        It is argmin over xi of sum w L(y, xi). values: (n,), n >= 1; weights: (n,), not negative, not all 0, of any
        sum; equal if None. Raises ValueError for what does not fit or is not finite.
        """

    @abstractmethod
    def transformed(self, scale: float, shift: float) -> Self:
        """Return the measure under which scale Y + shift has the risk scale r + shift, where r is Y's risk under this.

        scale > 0. For another unit of the rewards: `Loss.degree` says what becomes of the ridge.
        """

    def interval(self, values: Array, risk: float) -> tuple[float, float] | None:
        """Return an asymptotic 95% interval for the risk of the law that the values are a sample of.

        values: (n,) float64; risk: their own. The sandwich variance of the M-estimator, each value's slope corrected
        for its leverage, with Student's t and n - 1 degrees of freedom:

            risk +- t sqrt(sum d1_i^2 / (1 - h_i)) / sum d2_i,    h_i = d2_i / sum d2, at the risk;

        for the mean that is the textbook interval. It is not a guarantee: it needs independent values of one law with a
        finite variance of d1, and enough of them in the tail that the measure looks at; values that an adaptive policy
        chose to collect are not quite that. How often it covers is measured in tests/core/measures/test_samples.py:
        0.94 to 0.95 with a hundred values, 0.91 to 0.94 with thirty; less at lower levels than 0.1 and for a long lower
        tail. None for fewer than `INTERVAL_COUNT_MIN` values, and where all are equal: they do not show how much the
        next one may differ. Source: Huber 1967; for expectiles Newey & Powell 1987; the correction is MacKinnon &
        White's HC2 of 1985.
        """
        count = len(values)
        if count < INTERVAL_COUNT_MIN or float(np.ptp(values)) == 0.0:
            return None
        predictions = np.full(count, risk)
        slopes, curvatures = self.loss.d1(values, predictions), self.loss.d2(values, predictions)
        total = float(curvatures.sum())
        squares = float((slopes * slopes / (1.0 - curvatures / total)).sum())
        half = float(stdtrit(count - 1, 0.5 + INTERVAL_LEVEL / 2)) * math.sqrt(squares) / total
        return (risk - half, risk + half) if math.isfinite(half) else None


def outcomes_of(values: ArrayLike, weights: ArrayLike | None) -> tuple[Array, Array]:
    """Return values and weights as float64, (n,) each, without the values of weight 0; weights of 1 if None.

    Raises ValueError as `Measure.risk`.
    """
    outcomes = np.asarray(values, dtype=np.float64)
    masses = np.ones(outcomes.shape) if weights is None else np.asarray(weights, dtype=np.float64)
    if outcomes.ndim != 1 or not outcomes.size or masses.shape != outcomes.shape:
        raise ValueError("values and weights must be of one shape (n,), n >= 1")
    if not (np.isfinite(outcomes).all() and np.isfinite(masses).all() and (masses >= 0.0).all()):
        raise ValueError("values must be finite, weights finite and not negative")
    kept = masses > 0.0
    if not kept.any():
        raise ValueError("at least one weight must be positive")
    return outcomes[kept], masses[kept]
