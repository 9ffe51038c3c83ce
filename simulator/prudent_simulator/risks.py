"""Exact risk measures of the distributions the experiments draw from.

These formulas are written apart from the service, so that they can judge it. Every function works in plain
reward units. Source: Saux & Maillard, "Risk-aware linear bandits with convex loss", AISTATS 2023, Examples 1
and 2, with the corrections listed in the project's description of the algorithms.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

_STANDARD_DEVIATIONS_MAX = 40.0


def _check_level(level: float) -> None:
    if not 0.0 < level < 1.0:
        raise ValueError(f"an expectile level lies strictly between 0 and 1, not {level}")


def _root(balance: Callable[[float], float], reach: float) -> float:
    return float(brentq(balance, -reach, reach, xtol=1e-15, rtol=4.0 * np.finfo(float).eps, maxiter=500))


def _normal_density(value: float) -> float:
    return math.exp(-0.5 * value * value) / math.sqrt(2.0 * math.pi)


def gaussian_expectile(level: float, mean: float = 0.0, deviation: float = 1.0) -> float:
    """Give the expectile of a normal distribution.

    level: in (0, 1), no unit; mean, deviation: in reward units, deviation >= 0; returns reward units.
    The expectile e balances what lies above it against what lies below: level E(Y - e)+ = (1 - level) E(e - Y)+,
    both sides being known in closed form for the normal law. Raises ValueError for another level or a negative
    deviation. Source: the definition in Example 1 (the paper's printed fixed point has a wrong numerator).
    """
    _check_level(level)
    if not (math.isfinite(mean) and math.isfinite(deviation) and deviation >= 0.0):
        raise ValueError("mean and deviation must be finite, and deviation not negative")

    def balance(value: float) -> float:
        density = _normal_density(value)
        above = density - value * float(ndtr(-value))
        below = density + value * float(ndtr(value))
        return level * above - (1.0 - level) * below

    return mean + deviation * _root(balance, _STANDARD_DEVIATIONS_MAX)


@dataclass(frozen=True)
class TwoPieceNormal:
    """Two half normals of different widths glued at 0, which is its expectile at `level`.

    level: in (0, 1); scale: > 0, reward units. With left = scale / sqrt(1 - level) and right =
    scale / sqrt(level), a draw is -left |N| with probability left / (left + right) and +right |N| otherwise.
    Source: the expectile-based asymmetric noise of the paper's experiment 2.
    """

    level: float
    scale: float

    def __post_init__(self) -> None:
        _check_level(self.level)
        if not (math.isfinite(self.scale) and self.scale > 0.0):
            raise ValueError(f"scale must be finite and above 0, not {self.scale}")

    @property
    def left(self) -> float:
        """Width below 0, in reward units."""
        return self.scale / math.sqrt(1.0 - self.level)

    @property
    def right(self) -> float:
        """Width above 0, in reward units."""
        return self.scale / math.sqrt(self.level)

    @property
    def mass_below(self) -> float:
        """Probability of a negative draw."""
        return self.left / (self.left + self.right)

    @property
    def mean(self) -> float:
        """Mean, in reward units."""
        return math.sqrt(2.0 / math.pi) * (self.right - self.left)

    @property
    def deviation(self) -> float:
        """Standard deviation, in reward units."""
        second_moment = (self.left**3 + self.right**3) / (self.left + self.right)
        return math.sqrt(second_moment - self.mean**2)

    def expectile(self, level: float) -> float:
        """Give the expectile at any level (0 at the distribution's own), in reward units."""
        _check_level(level)

        def balance(value: float) -> float:
            above = self.expected_excess(value)
            return level * above - (1.0 - level) * (above - self.mean + value)

        return _root(balance, _STANDARD_DEVIATIONS_MAX * max(self.left, self.right))

    def expected_excess(self, value: float) -> float:
        """E(Y - value)+, from the partial moments of a half normal."""
        if value < 0.0:
            return self.mean - value + self._half_excess(-value, self.left, self.mass_below)
        return self._half_excess(value, self.right, 1.0 - self.mass_below)

    @staticmethod
    def _half_excess(distance: float, width: float, mass: float) -> float:
        ratio = distance / width
        return 2.0 * mass * width * (_normal_density(ratio) - ratio * float(ndtr(-ratio)))

    def sample(self, magnitudes: np.ndarray, sides: np.ndarray) -> np.ndarray:
        """Turn standard normals and uniforms on [0, 1), of one shape, into draws of that shape."""
        size = np.abs(magnitudes)
        drawn: np.ndarray = np.where(sides < self.mass_below, -self.left * size, self.right * size)
        return drawn


def _distribution(values: Sequence[float], probabilities: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    outcomes = np.asarray(values, dtype=np.float64)
    weights = np.asarray(probabilities, dtype=np.float64)
    if outcomes.ndim != 1 or outcomes.shape != weights.shape or outcomes.size == 0:
        raise ValueError("values and probabilities must be two lists of one length, at least 1")
    if not np.isfinite(outcomes).all() or (weights < 0.0).any() or abs(float(weights.sum()) - 1.0) > 1e-12:
        raise ValueError("values must be finite, probabilities not negative and of sum 1")
    return outcomes[weights > 0.0], weights[weights > 0.0]


def discrete_entropic(gamma: float, values: Sequence[float], probabilities: Sequence[float]) -> float:
    """Give the entropic risk log(E exp(gamma Y)) / gamma of a finite distribution, in reward units.

    gamma: not 0, 1 / reward unit; values: (n,) reward units; probabilities: (n,), of sum 1. The largest exponent
    is taken out before exponentiating, so that large rewards do not overflow. Source: Example 2.
    """
    if gamma == 0.0 or not math.isfinite(gamma):
        raise ValueError("gamma must be finite and not 0")
    outcomes, weights = _distribution(values, probabilities)
    exponents = gamma * outcomes
    largest = float(exponents.max())
    return (largest + math.log(float(weights @ np.exp(exponents - largest)))) / gamma


def discrete_expectile(level: float, values: Sequence[float], probabilities: Sequence[float]) -> float:
    """Give the expectile of a finite distribution, in reward units.

    level: in (0, 1); values: (n,) reward units; probabilities: (n,), of sum 1. The balance of Example 1 is linear
    between neighbouring outcomes, so the answer is the weighted mean whose own outcome lies in its interval.
    """
    _check_level(level)
    outcomes, weights = _distribution(values, probabilities)
    order = np.argsort(outcomes)
    outcomes, weights = outcomes[order], weights[order]
    for below in range(outcomes.size):
        tilt = np.where(np.arange(outcomes.size) < below, 1.0 - level, level) * weights
        candidate = float(tilt @ outcomes / tilt.sum())
        if candidate <= outcomes[below]:
            return candidate
    return float(outcomes[-1])
