"""Risk measures of samples, exactly.

Rewards are larger the better. Risks have the reward's unit. Source: Saux & Maillard 2023, Section 2. Those of known
distributions are in laws.py.
"""

import math

import numpy as np
from numpy.typing import ArrayLike

from prudent.core.losses import Array


def expectile(values: ArrayLike, level: float, weights: ArrayLike | None = None) -> float:
    """Return the expectile of a sample, or of a discrete distribution with the given weights.

    values: (n,), n >= 1; weights: (n,), not negative, not all 0, of any sum. Exact up to rounding, O(n log n):
    the expectile is the weighted mean with weight `level` on the values above it and 1 - level below, and the
    sorted sums show between which two values it lies. Raises ValueError for what does not fit.
    Source: Newey & Powell 1987.
    """
    check_level(level)
    ordered, masses = _discrete(values, weights)
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


def entropic_risk(values: ArrayLike, gamma: float, weights: ArrayLike | None = None) -> float:
    """Return log(sum w exp(gamma y)) / gamma for weights w scaled to sum 1; equal weights if None.

    values, weights: as in `expectile`. Exponents are shifted by their largest, so none overflows and
    not all vanish. gamma per reward unit. Raises ValueError for gamma 0 or not finite and for what does
    not fit. Source: Saux & Maillard 2023, Example 3.
    """
    check_gamma(gamma)
    outcomes, masses = _discrete(values, weights)
    exponents = gamma * outcomes
    largest = float(exponents.max())
    scaled = float((masses / masses.sum()) @ np.exp(exponents - largest))
    return (largest + math.log(scaled)) / gamma


def check_level(level: float) -> None:
    """Raise ValueError for a level outside (0, 1)."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"the level of an expectile must lie in (0, 1), not {level}")


def check_gamma(gamma: float) -> None:
    """Raise ValueError for gamma 0 or not finite."""
    if not math.isfinite(gamma) or gamma == 0.0:
        raise ValueError(f"gamma must be finite and not 0, not {gamma}")


def _discrete(values: ArrayLike, weights: ArrayLike | None) -> tuple[Array, Array]:
    """Return values and weights as float64, without the values of weight 0."""
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
