"""What a sample of rewards says of the law that it comes from: checked values, and intervals for a risk."""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from prudent.core.measures.loss import Array

INTERVAL_LEVEL = 0.95
INTERVAL_COUNT_MIN = 30
"""With fewer rewards a normal approximation of a cautious measure is not worth a number."""


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


def is_too_little(values: Array) -> bool:
    """Whether values, (n,), are too few for an interval, or all equal: they do not show how much one may differ."""
    return len(values) < INTERVAL_COUNT_MIN or float(np.ptp(values)) == 0.0


def student_interval(risk: float, error: float, count: int) -> tuple[float, float] | None:
    """Return the 95% interval by Student's t with count - 1 degrees of freedom; None where it is not finite.

    error: the standard error of the risk, in its unit.
    """
    half = float(stdtrit(count - 1, 0.5 + INTERVAL_LEVEL / 2)) * error
    return (risk - half, risk + half) if math.isfinite(half) else None


def pseudo_interval(pseudo: Array, risk: float) -> tuple[float, float] | None:
    """Return the 95% interval of a mean of pseudo-rewards, around the risk; as `Measure.interval`.

    pseudo: (n,), up to a constant, at the sample's own stage one: as they are orthogonal, its error does not count.
    """
    if is_too_little(pseudo):
        return None
    return student_interval(risk, float(pseudo.std(ddof=1)) / math.sqrt(len(pseudo)), len(pseudo))
