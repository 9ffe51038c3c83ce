"""What a risk measure is to the rest of the code: a `Measure`.

To the convex loss that elicits it a measure adds what is said about it: its value for a sample, its defaults and its
words. Nobody outside this package and the module of the configurations asks which measure it is; they ask what it knows
of itself.

Source: Saux & Maillard 2023, "Risk-aware linear bandits with convex loss", Section 2.
"""

import math
from abc import ABC, abstractmethod
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from prudent.core.measures.loss import Array, Loss
from prudent.core.measures.samples import is_too_little, student_interval
from prudent.core.measures.stages import Stages


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
    def stages(self) -> Stages | None:
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
        tail. None where `is_too_little`. Source: Huber 1967; for expectiles Newey & Powell 1987; the correction is
        MacKinnon & White's HC2 of 1985.
        """
        if is_too_little(values):
            return None
        predictions = np.full(len(values), risk)
        slopes, curvatures = self.loss.d1(values, predictions), self.loss.d2(values, predictions)
        total = float(curvatures.sum())
        squares = float((slopes * slopes / (1.0 - curvatures / total)).sum())
        return student_interval(risk, math.sqrt(squares) / total, len(values))
