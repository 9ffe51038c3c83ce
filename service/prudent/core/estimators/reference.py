"""A reference point for the refits of piecewise quadratic losses: which observations lie near the kink, and sums.

At a reference point c every residual r = y - <c, x> is known. At theta it is r - <theta - c, x>, so it can have
changed sign only if |r| <= ||x|| ||theta - c||: no observation whose *distance* |r|/||x|| exceeds ||theta - c|| has
moved to the other side of the kink. The nearest few, sorted by distance, are copied out of the history; while
theta stays within the distance of the first one left out, the rest need not be examined (`Reference`).

The loss's gradient at any theta follows from sums over the observations (`Sums`). With curvatures q = d2 and
u = theta - c:

    G = sum q x x^T,    b = sum q r x,    b2 = sum q^2 r x,    s2 = sum q^2 r^2,
    F(theta) = G u - b + alpha theta,
    sum d1^2 = s2 - 2 <u, b2> + u^T (sum q^2 x x^T) u .

Everything is relative to c, near theta: with sums of y x and y^2, rewards near 1e6 with spread 1 would leave no
digits. q takes two values, q+ where y >= <theta, x> and q- elsewhere, so q^2 = (q+ + q-) q - q+ q-, and
sum q^2 x x^T = (q+ + q-) G - q+ q- sum x x^T.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prudent.core.measures import Array
from prudent.core.numerics.newton import Point, Solution

UNIT_ROUNDOFF = 2.0**-53

CANCELLATION_MAX = 1e4
"""A sum of d1^2 smaller by more than this than its terms has lost too many digits to be used."""

FALL_MAX = 100.0
"""A diagonal entry of G that has fallen by more than this holds the rounding of what was taken away."""


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """The reference point and its near observations; never changed once made.

    theta: c, (d,). count: n, observations of the block then. lifetime: observations until the next reference,
    about 2 sqrt(n). rows, residuals, sizes, distances: (K, d) and (K,), of the near observations, by
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


class Sums:
    """The sums, kept by updates of low rank, with a bound on what the updates have rounded away.

    gram: G, (d, d), exactly symmetric. updates: observations added or moved since the reference. Arrays are
    replaced, never written to, so copies share them.
    Source: the rounding bounds are Higham's, Accuracy and Stability of Numerical Algorithms, Section 4.2: a sum
    of k terms is off by at most k units of roundoff of its largest partial sum. 2-norms bound the largest entries.
    """

    __slots__ = (
        "_diagonal_peaks", "_moment", "_moment_peak", "_scale", "_scale_peak", "_square_moment", "_squares", "alpha",
        "gram", "updates",
    )  # fmt: skip

    def __init__(self, solution: Solution, features: Array, alpha: float, *, kinked: bool) -> None:
        """Take the sums over all observations, features (n, d), at the solution, which is the reference. O(n d)."""
        point = solution.point
        self.alpha = alpha
        self.updates = 0
        self.gram = solution.weighted_gram
        self._moment: Array = alpha * point.theta - point.gradient
        self._square_moment: Array = (
            -(features.T @ (point.curvatures * point.slopes)) if kinked else float(point.curvatures[0]) * self._moment
        )
        self._squares = solution.d1_squares
        self._scale: Array = point.scale
        self._scale_peak = norm(point.scale)
        self._diagonal_peaks: Array = self.gram.diagonal()
        self._moment_peak = norm(self._moment)

    def copy(self) -> "Sums":
        """Return sums that can change on their own."""
        other = Sums.__new__(Sums)
        for name in Sums.__slots__:
            setattr(other, name, getattr(self, name))
        return other

    def change(self, rows: Array, residuals: Array, sizes: Array, before: Array | float, after: Array) -> None:
        """Let the curvatures of m observations go from `before` (0: they are new) to `after`. O(m d^2).

        rows: (m, d); residuals: r, (m,); sizes: |y| + <|c|, |x|>, (m,).
        """
        changes = after - before
        weighted = changes * residuals
        squared = (after + before) * weighted
        halves = ((0.5 * changes)[:, None] * rows).T @ rows
        self.gram = self.gram + (halves + halves.T)
        self._moment = self._moment + weighted @ rows
        self._square_moment = self._square_moment + squared @ rows
        self._squares += float(squared.dot(residuals))
        magnitudes = np.abs(rows)
        self._scale = self._scale + (changes * sizes) @ magnitudes
        self.updates += len(rows)
        self._diagonal_peaks = np.maximum(self._diagonal_peaks, self.gram.diagonal())
        self._moment_peak = max(self._moment_peak, norm(self._moment) + norm(np.abs(weighted) @ magnitudes))
        self._scale_peak = max(self._scale_peak, norm(self._scale))

    @property
    def is_gram_accurate(self) -> bool:
        """Whether no diagonal entry of G has fallen so far that what was taken away shows in its last digits."""
        return bool((FALL_MAX * self.gram.diagonal() >= self._diagonal_peaks).all())

    def gradient(self, theta: Array, shift: Array) -> Array:
        """Return F at theta, (d,); shift: u."""
        return self.gram @ shift - self._moment + self.alpha * theta

    def tolerance(self, theta: Array, shift: Array, certificate: float) -> float:
        """Return how large ||F + mu theta||_inf may be as computed for the certificate to hold; negative if none.

        That is `certificate` times a lower bound of the full certificate's scale, minus an upper bound of the
        rounding in F since the reference. By Cauchy and Schwarz sum q |x_i| <|x|, |u|> is at most
        sqrt(G_ii) sum_j sqrt(G_jj) |u_j|: that much the scale at theta can be below the one kept, at c; and it
        bounds the terms of G u.
        """
        dimension = len(theta)
        shift_sizes = np.abs(shift)
        roots = np.sqrt(self._diagonal_peaks)
        moved = roots * float(roots.dot(shift_sizes))
        lowest = np.maximum.reduce(self._scale - moved - self.alpha * shift_sizes)
        # A residual r itself is rounded d + 2 times, in units of the sizes the scale is a sum of.
        rounding = UNIT_ROUNDOFF * (
            (self.updates + 3) * self._moment_peak
            + (self.updates + dimension + 3) * norm(moved)
            + (dimension + 6) * self._scale_peak
            + 3.0 * self.alpha * norm(theta)
        )
        return certificate * float(lowest) - rounding

    def d1_squares(self, shift: Array, gram: Array, upper: float, lower: float) -> float:
        """Return sum d1^2, nan where too many digits cancel; gram: sum x x^T; upper, lower: q+ and q-."""
        image = (upper + lower) * (self.gram @ shift) - upper * lower * (gram @ shift)
        linear, quadratic = 2.0 * float(shift.dot(self._square_moment)), float(shift.dot(image))
        total = self._squares - linear + quadratic
        terms = self._squares + abs(linear) + abs(quadratic)
        return total if total * CANCELLATION_MAX >= terms else math.nan

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays held."""
        return self.gram.nbytes + 4 * self._moment.nbytes


def norm(vector: Array) -> float:
    """Return the Euclidean norm; inf or nan where its square is not finite, and 0 where that vanishes."""
    return math.sqrt(vector.dot(vector))
