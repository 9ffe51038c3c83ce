"""Where a block was last looked at in full: its residuals there, and which observations lie near the kink.

At a reference point c every residual r = y - <c, x> is known. At theta it is r - <theta - c, x>, so it can have
changed sign only if |r| <= ||x|| ||theta - c||: no observation whose *distance* |r|/||x|| exceeds ||theta - c|| has
moved to the other side of the kink. The nearest few, sorted by distance, are copied out of the history; while
theta stays within the distance of the first one left out, the rest need not be looked at.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prudent.core.measures import Array
from prudent.core.numerics.newton import Point

UNIT_ROUNDOFF = 2.0**-53


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """The reference point and its near observations; never changed once made.

    theta: c, (d,). count: n, observations of the block then. lifetime: observations until the next reference,
    about 2 sqrt(n). rows, rewards_residuals, sizes, distances: (K, d) and (K,), of the near observations, by
    distance: x, r = y - <c, x>, |y| + <|c|, |x|>, and (|r| - rounding)/||x||. limit: the smallest distance of
    an observation not among them; inf where there is none.
    """

    theta: Array
    count: int
    lifetime: int
    rows: Array
    residuals: Array
    sizes: Array
    distances: Array
    limit: float

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(each.nbytes for each in (self.theta, self.rows, self.residuals, self.sizes, self.distances))


def refer(features: Array, rewards: Array, point: Point, *, kinked: bool) -> Reference:
    """Make the reference at a point of all observations so far. O(n d).

    features: (n, d); rewards: (n,). kinked: whether curvatures depend on the residual's sign at all.
    """
    theta, count, dimension = point.theta, len(rewards), len(point.theta)
    lifetime = 2 * math.isqrt(count) + 2
    if not kinked:
        none = np.zeros(0)
        return Reference(theta, count, lifetime, np.zeros((0, dimension)), none, none, none, math.inf)
    residuals = rewards - point.predictions
    distances = _distances(features, rewards, residuals, theta)
    near, limit = _nearest(distances, 64 + 4 * math.isqrt(count) + 3 * dimension * math.isqrt(math.isqrt(count)))
    rows = np.ascontiguousarray(features[near])
    sizes = np.abs(rewards[near]) + np.abs(rows) @ np.abs(theta)
    return Reference(theta, count, lifetime, rows, residuals[near], sizes, distances[near], limit)


def _distances(features: Array, rewards: Array, residuals: Array, theta: Array) -> Array:
    """Return how far theta can move before the residual changes sign, (n,), not positive near a tie.

    The rounding of the residual, here and where it is next computed, is at most (d + 2) units of
    |y| + ||x|| ||c|| each; four of them are allowed for. Where x is zero nothing changes: inf.
    """
    squares = np.einsum("ij,ij->i", features, features)
    norms = np.sqrt(squares)
    # Squares of small features lose digits or vanish; the sum of sizes does not, and bounds the norm.
    small = np.flatnonzero(squares < 1e-200)
    if len(small):
        norms[small] = np.abs(features[small]).sum(axis=1)
    rounding = 4.0 * (len(theta) + 2) * UNIT_ROUNDOFF
    margins = rounding * (np.abs(rewards) + norms * float(np.linalg.norm(theta)))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        distances: Array = (np.abs(residuals) - margins) / norms
    distances[norms == 0.0] = math.inf
    return distances


def _nearest(distances: Array, wanted: int) -> tuple[NDArray[np.intp], float]:
    """Return the positions of the smallest distances in their order, and the smallest one left out."""
    if len(distances) <= wanted:
        return np.argsort(distances, kind="stable"), math.inf
    order = np.argpartition(distances, wanted)
    near = order[:wanted]
    return near[np.argsort(distances[near], kind="stable")], float(distances[order[wanted]])
