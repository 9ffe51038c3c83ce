"""Refits of the piecewise quadratic losses at a cost that hardly depends on how much has been observed.

For such a loss d2 takes one value where y >= xi and one where y < xi. So between two fits
the Hessian changes by the new observations and by those whose residual changed sign, and all else about the fit
follows from sums over the observations (see `reference`). A fit adds the new observations to the sums, minimises the
quadratic over the ball, moves the observations that changed sides, and repeats until none does; only those near
the kink are examined (see `reference`).

What is certified. ||F + mu theta||_inf, with F from the sums, *plus a bound on the rounding of the sums since the
reference*, is at most 1e-12 of max_i (sum q |x_i| (|y| + <|x|, |theta|>) + alpha |theta_i|): the scale of the full
certificate, here bounded from below. The gradient at the reference itself is taken as it was computed there, with
the full check's own rounding, which the full check does not count either. What does not meet this, or leaves the
reference's neighbourhood, or has not settled after `SOLVES_MAX` solves (undamped steps can cycle), is left to
the damped Newton method on all observations; so is every 2 sqrt(n)-th observation's fit, where everything is
formed anew, so that corrections do not accumulate.

Source: the optimality conditions of `solver`; the scheme is ours.
"""

import math

import numpy as np
from numpy.typing import NDArray

from prudent.core.estimators.reference import Reference, Sums, norm, refer
from prudent.core.measures import Array, Loss
from prudent.core.numerics.newton import CERTIFICATE, POLISH_MIN, Solution
from prudent.core.numerics.positive_definite import QuadraticModel, fitted_multiplier

SOLVES_MAX = 25
"""Linear solves a refit may take before it is left to the full solver."""

_POLISHES_MAX = 2


class Window:
    """A block's sums and theta since a reference; `advance` a copy, and a failed refit changes nothing.

    Valid after the constructor and after an `advance` that returned True: theta, (d,); multiplier, mu;
    weighted_gram, (d, d), sum of d2 x x^T, exactly symmetric; d1_squares and d2_total, sums of d1^2 and d2;
    sums, what they are made of.
    """

    __slots__ = (
        "_bound", "_folded", "_is_upper", "_lower", "_new_residuals", "_new_sizes", "_reference", "_shift",
        "_upper", "_upper_count", "_within", "d1_squares", "multiplier", "sums", "theta",
    )  # fmt: skip

    def __init__(
        self,
        loss: Loss,
        features: Array,
        rewards: Array,
        alpha: float,
        bound: float | None,
        solution: Solution,
    ) -> None:
        """Make the solution, certified, of all observations the reference. O(n d)."""
        self._upper, self._lower = loss.d2(1.0, 0.0), loss.d2(-1.0, 0.0)
        kinked = self._upper != self._lower
        reference = refer(features, rewards, solution.point, kinked=kinked)
        self._reference: Reference = reference
        self._bound = bound
        self.sums = Sums(solution, features, alpha, kinked=kinked)
        self._is_upper = np.zeros(len(reference.rows) + reference.lifetime, dtype=np.bool_)
        self._is_upper[: len(reference.rows)] = reference.residuals >= 0.0
        # Of the observations after the reference. Copies share them: what lies beyond a copy's own is free.
        self._new_residuals = np.zeros(reference.lifetime)
        self._new_sizes = np.zeros(reference.lifetime)
        self._folded = len(rewards)
        self._within = 0
        self._upper_count = int(np.count_nonzero(rewards >= solution.point.predictions)) if kinked else len(rewards)
        self._shift = np.zeros(len(solution.theta))
        self.theta = solution.theta.copy()
        self.multiplier = solution.multiplier
        self.d1_squares = solution.d1_squares

    def copy(self) -> "Window":
        """Return a window to advance. Go on with one of the two only, or go back to this one for good."""
        other = Window.__new__(Window)
        for name in Window.__slots__:
            setattr(other, name, getattr(self, name))
        other.sums = self.sums.copy()
        return other

    @property
    def end(self) -> int:
        """How many observations of the block this reference serves."""
        return self._reference.count + self._reference.lifetime

    @property
    def weighted_gram(self) -> Array:
        """Sum of d2 x x^T at theta."""
        return self.sums.gram

    @property
    def d2_total(self) -> float:
        """Sum of d2 at theta."""
        return self._upper * self._upper_count + self._lower * (self._folded - self._upper_count)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays held."""
        arrays = self._is_upper, self._new_residuals, self._new_sizes, self._shift, self.theta
        return self._reference.nbytes + self.sums.nbytes + sum(array.nbytes for array in arrays)

    def advance(self, features: Array, rewards: Array, gram: Array) -> bool:
        """Refit to all observations, features (n, d) and rewards (n,), n at most `end`; gram: sum x x^T.

        Returns whether theta is certified; if not, this window must be dropped, and theta is only a place to
        start from. O((m + 1) d^2 + d^3) for m observations that are new or change sides, and O(sqrt(n) d).
        """
        self._fold(features, rewards)
        newer = features[self._reference.count :]
        model: QuadraticModel | None = None
        polishes = 0
        for _ in range(SOLVES_MAX):
            gradient = self.sums.gradient(self.theta, self._shift)
            is_settled = model is not None
            if model is None:
                model = QuadraticModel(self.sums.gram, self.sums.alpha, self._bound)
            step, multiplier = model.step(self.theta, gradient, self.multiplier)
            if is_settled:
                polishes += 1
                if polishes > _POLISHES_MAX or norm(step) <= POLISH_MIN * norm(self.theta):
                    return self._certifies(gradient, gram)
            self.multiplier = multiplier
            self.theta = self.theta + step
            # From the rounded theta, so that residuals and gradient are those at theta itself.
            self._shift = self.theta - self._reference.theta
            distance = norm(self._shift)
            # Farther off, observations that are not examined may have changed sides.
            if not distance <= self._reference.limit:
                return False
            if self._change_sides(newer, distance):
                model = None
        return False

    def _fold(self, features: Array, rewards: Array) -> None:
        """Add the observations that are not in the sums yet, on the sides where theta puts them."""
        start, end, reference = self._folded, len(rewards), self._reference
        rows = np.ascontiguousarray(features[start:end])
        residuals = rewards[start:end] - rows @ reference.theta
        sizes = np.abs(rewards[start:end]) + np.abs(rows) @ np.abs(reference.theta)
        is_upper = residuals >= rows @ self._shift
        places = slice(start - reference.count, end - reference.count)
        self._new_residuals[places] = residuals
        self._new_sizes[places] = sizes
        self._is_upper = self._is_upper.copy()
        self._is_upper[len(reference.rows) :][places] = is_upper
        self.sums.change(rows, residuals, sizes, 0.0, np.where(is_upper, self._upper, self._lower))
        self._upper_count += int(np.count_nonzero(is_upper))
        self._folded = end

    def _certifies(self, gradient: Array, gram: Array) -> bool:
        """Whether theta is certified, with accurate sums there; sets them and mu."""
        self.multiplier = fitted_multiplier(self.theta, gradient, self._bound)
        residual = float(np.abs(gradient + self.multiplier * self.theta).max())
        if not residual <= self.sums.tolerance(self.theta, self._shift, CERTIFICATE):
            return False
        self.d1_squares = self.sums.d1_squares(self._shift, gram, self._upper, self._lower)
        return math.isfinite(self.d1_squares) and self.sums.is_gram_accurate

    def _change_sides(self, newer: Array, distance: float) -> bool:
        """Move the observations whose residual has changed sign; return whether there are any.

        newer: (m, d), features after the reference, all examined. distance: ||u||.
        """
        if self._upper == self._lower:
            return False
        reference = self._reference
        reached = int(reference.distances.searchsorted(distance, side="right"))
        # Those farther than theta is now, but not farther than it was, may have to go back.
        within, self._within = max(reached, self._within), reached
        changed = False
        if within:
            is_upper = reference.residuals[:within] >= reference.rows[:within] @ self._shift
            moved = (is_upper != self._is_upper[:within]).nonzero()[0]
            if len(moved):
                self._move(moved, reference.rows[moved], reference.residuals[moved], reference.sizes[moved])
                changed = True
        count, fresh = len(reference.rows), len(newer)
        is_upper = self._new_residuals[:fresh] >= newer @ self._shift
        moved = (is_upper != self._is_upper[count : count + fresh]).nonzero()[0]
        if len(moved):
            rows = np.ascontiguousarray(newer[moved])
            self._move(count + moved, rows, self._new_residuals[moved], self._new_sizes[moved])
            changed = True
        return changed

    def _move(self, places: NDArray[np.intp], rows: Array, residuals: Array, sizes: Array) -> None:
        """Move the observations at these places of `_is_upper` to the other side of the kink."""
        was_upper = self._is_upper[places]
        before = np.where(was_upper, self._upper, self._lower)
        self.sums.change(rows, residuals, sizes, before, np.where(was_upper, self._lower, self._upper))
        self._is_upper[places] = ~was_upper
        self._upper_count += len(places) - 2 * int(np.count_nonzero(was_upper))
