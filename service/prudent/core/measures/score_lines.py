"""How a loss's score d1(y, u) depends on the reward y: a line in one function of y on either side of u.

With such a form, sums over rewards of any quadratic in the score follow from sums of that function and its square, at
every candidate u: see `prudent.core.self_normalized`. Everything is relative to an origin, which the caller subtracts
from rewards and candidates alike.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


class ScoreLines(ABC):
    """The scores of a loss under which rewards that are symmetric about some centre have scores that cross once.

    Crossing once: P(d1 > s) - P(d1 < -s) at the true risk changes sign at most once as s grows, from minus to plus.
    A score is the sum of c[i, j] z^i t^j over i and j in (0, 1), z a function of u and t one of y.
    """

    __slots__ = ()

    @abstractmethod
    def transformed(self, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return t, (n,), of rewards (n,)."""

    @abstractmethod
    def candidate(self, u: float) -> tuple[float, float]:
        """Return z of a candidate u, and its derivative."""

    @abstractmethod
    def short(self) -> NDArray[np.float64]:
        """Return c, (2, 2), for the rewards below u, whose scores are positive."""

    @abstractmethod
    def over(self) -> NDArray[np.float64]:
        """Return c, (2, 2), for the rewards above u."""

    @abstractmethod
    def shortfalls(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return u - y where d1(y, u) has these values; -inf where it is above them for every reward."""


@dataclass(frozen=True, slots=True)
class KinkedLines(ScoreLines):
    """Scores of a piecewise quadratic loss: weight (u - y), with one weight below u and one above, below >= above."""

    below: float
    above: float

    def transformed(self, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the rewards."""
        return rewards

    def candidate(self, u: float) -> tuple[float, float]:
        """Return u."""
        return u, 1.0

    def short(self) -> NDArray[np.float64]:
        """Return those of below (z - t)."""
        return np.array([[0.0, -self.below], [self.below, 0.0]])

    def over(self) -> NDArray[np.float64]:
        """Return those of above (z - t)."""
        return np.array([[0.0, -self.above], [self.above, 0.0]])

    def shortfalls(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return score/weight."""
        return scores / np.where(scores > 0.0, self.below, self.above)


@dataclass(frozen=True, slots=True)
class ExponentialLines(ScoreLines):
    """Scores exp(c (u - y)) - 1 of the entropic risk at gamma = -c < 0."""

    steepness: float

    def transformed(self, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return exp(-c y)."""
        return np.exp(-self.steepness * rewards)

    def candidate(self, u: float) -> tuple[float, float]:
        """Return exp(c u)."""
        z = math.exp(min(self.steepness * u, EXPONENT_MAX))
        return z, self.steepness * z

    def short(self) -> NDArray[np.float64]:
        """Return those of z t - 1."""
        return np.array([[-1.0, 0.0], [0.0, 1.0]])

    def over(self) -> NDArray[np.float64]:
        """Return the same."""
        return self.short()

    def shortfalls(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return log(1 + score)/c; -inf for scores of -1 and below."""
        with np.errstate(divide="ignore"):
            return np.log1p(np.maximum(scores, -1.0)) / self.steepness


EXPONENT_MAX = 350.0
"""The largest exponent whose exponential has a square in float64."""
