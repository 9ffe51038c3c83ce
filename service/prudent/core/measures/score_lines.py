"""How a loss's score d1(y, u) depends on the reward y: a line in one function of y on either side of u.

With such a form, sums over rewards of any quadratic in the score follow from sums of that function and its square, at
every candidate u: see `prudent.core.self_normalized`. Everything is relative to an origin, which the caller subtracts
from rewards and candidates alike.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Line(NamedTuple):
    """score = intercept + slope t, with t of `ScoreLines.transformed`; its derivative in u = rate + growth score.

    intercept in the unit of d1, slope per t, rate in the unit of d2, growth per reward unit.
    """

    intercept: float
    slope: float
    rate: float
    growth: float


class ScoreLines(ABC):
    """The scores of a loss under which rewards that are symmetric about some centre have scores that cross once.

    Crossing once: P(d1 > s) - P(d1 < -s) at the true risk changes sign at most once as s grows, from minus to plus.
    """

    __slots__ = ()

    @abstractmethod
    def transformed(self, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return t, (n,), of rewards (n,)."""

    @abstractmethod
    def shortfalls(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return u - y where d1(y, u) has these values; -inf where it is above them for every reward."""

    @abstractmethod
    def short(self, u: float) -> Line:
        """Return the line of the rewards below u, whose scores are positive."""

    @abstractmethod
    def over(self, u: float) -> Line:
        """Return the line of the rewards above u."""


@dataclass(frozen=True, slots=True)
class KinkedLines(ScoreLines):
    """Scores of a piecewise quadratic loss: weight (u - y), with one weight below u and one above, below >= above."""

    below: float
    above: float

    def transformed(self, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the rewards."""
        return rewards

    def shortfalls(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return score/weight."""
        return scores / np.where(scores > 0.0, self.below, self.above)

    def short(self, u: float) -> Line:
        """Return below (u - y)."""
        return Line(self.below * u, -self.below, self.below, 0.0)

    def over(self, u: float) -> Line:
        """Return above (u - y)."""
        return Line(self.above * u, -self.above, self.above, 0.0)


@dataclass(frozen=True, slots=True)
class ExponentialLines(ScoreLines):
    """Scores exp(c (u - y)) - 1 of the entropic risk at gamma = -c < 0."""

    steepness: float

    def transformed(self, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return exp(-c y)."""
        return np.exp(-self.steepness * rewards)

    def shortfalls(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return log(1 + score)/c; -inf for scores of -1 and below."""
        with np.errstate(divide="ignore"):
            return np.log1p(np.maximum(scores, -1.0)) / self.steepness

    def short(self, u: float) -> Line:
        """Return exp(c u) exp(-c y) - 1."""
        slope = math.exp(min(self.steepness * u, EXPONENT_MAX))
        return Line(-1.0, slope, self.steepness, self.steepness)

    def over(self, u: float) -> Line:
        """Return the same line."""
        return self.short(u)


EXPONENT_MAX = 700.0
"""The largest exponent whose exponential is a float64."""
