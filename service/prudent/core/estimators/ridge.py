"""The ridge estimator of the mean."""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import ddot, dsyrk
from scipy.linalg.lapack import dgeqrf, dpotrf, dtpqrt, dtrtri, dtrtrs

from prudent.core.estimators.blocks import BlockRows, StateArrays, check_observation, is_gram, take
from prudent.core.estimators.recursive import RecursiveLeastSquares
from prudent.core.measures import Array
from prudent.core.numerics.cholesky import PIVOT_MIN, Factor, add_to_diagonal, inverse_factor, log_sum, pivots_hold
from prudent.core.numerics.wide import Wide, is_doubtful, refine, sum_rounding, wide_gram

_BUFFER = 64
_PIVOTS_SURE = 100.0 * PIVOT_MIN
"""Above this ratio of alpha to the trace no pivot can be small: each is at least the smallest eigenvalue."""


class Ridge:
    """theta = (sum x x^T + alpha I)^-1 sum y x for each of B blocks, never projected.

    To observe is to write a row z = (x, y) down. Every `_BUFFER` rows of a block join the sum of z z^T; the next
    `refresh` solves theta anew from that sum, by a factorisation. From there the rows that wait lead on one by one
    (`RecursiveLeastSquares`), for as long as rounding cannot show; where it could, the sums with the waiting rows are
    solved in each `refresh`. So nothing drifts, and the state and what follows from it are functions of the sequence
    of observations alone, byte for byte.

    The sum of squared residuals at the current theta cannot be had from sum y^2 - ...: for rewards near 1e6
    with spread 1 the difference is noise. So the triangle R of a QR decomposition of the rows (x, y) is kept,
    and the sum is ||R (theta, -1)||^2: never negative, accurate to the precision of the rewards themselves, and
    exactly scaled by c^2 where rewards are scaled by a power of two c. Steps lead on from there.

    Two kinds of sums need more than the Gram matrix, and only they pay for it. Where its Cholesky factor has lost its
    digits, theta is solved from R: its equation then holds to rounding, whatever the conditioning. Where rewards
    cancel so far that the rounding of the sums would show in theta (`is_doubtful`), it is refined from the sums
    of z z^T that are kept with more digits.

    Public arrays, valid after `refresh` and until `add_block`, `restore` or `load`; not to be written to:
    theta (B, d); gram and weighted_gram (one array, the curvature being 1), (B, d, d), exactly symmetric, and made when
    asked for. Not thread safe. Source: Abbasi-Yadkori, Pal & Szepesvari 2011 for LinUCB's use of it.
    """

    def __init__(self, blocks: int, dimension: int, regularization: float) -> None:
        if dimension < 1 or not 0.0 < regularization < math.inf:
            raise ValueError("the dimension and the regularization must be positive and finite")
        self.dimension = dimension
        self.regularization = regularization
        size = dimension + 1
        self._rows = BlockRows(
            blocks,
            {
                "theta": (dimension,),
                # Of the rows that no longer wait; its transpose's lower triangle, the other is 0.
                "sums": (size, size),
                # R, then the rows that wait to join it.
                "triangle": (size + _BUFFER, size),
                "wide_high": (size, size),
                "wide_low": (size, size),
                "count": (),
                "d1_squares": (),
            },
        )
        self._solutions: dict[int, RecursiveLeastSquares] = {}
        self._stale: set[int] = set()
        self._refreshed: set[int] = set()
        self._bind()

    def _bind(self) -> None:
        rows = self._rows
        self.theta = rows["theta"]
        self._sums = rows["sums"]
        self._triangle = rows["triangle"]
        self._waiting = rows["triangle"][:, self.dimension + 1 :]
        self._count = rows["count"]
        self._d1_squares = rows["d1_squares"]
        self._gram: Array | None = None

    @property
    def gram(self) -> Array:
        """(B, d, d), sum of x x^T."""
        if self._gram is None:
            counts = map(self.count, range(self._rows.count))
            grams = [self._gram_of(block, count % _BUFFER) for block, count in enumerate(counts)]
            self._gram = np.array(grams).reshape((len(grams), self.dimension, self.dimension))
        return self._gram

    @property
    def weighted_gram(self) -> Array:
        """The same array: the curvature is 1."""
        return self.gram

    @property
    def observations(self) -> int:
        """Observations of all blocks."""
        return int(self._rows.total("count"))

    @property
    def d1_squares(self) -> float:
        """Sum of (y - <theta, x>)^2 over all observations, in squared reward units, as of `refresh`."""
        return self._rows.total("d1_squares")

    @property
    def d2_total(self) -> float:
        """Sum of the curvatures: the number of observations."""
        return self._rows.total("count")

    def count(self, block: int) -> int:
        """Return how many observations a block has."""
        return int(self._count.item(block))

    def block_d1_squares(self, block: int) -> float:
        """Return the sum of (y - <theta, x>)^2 over a block's observations, as of `refresh`."""
        return float(self._rows["d1_squares"][block])

    def observe(self, block: int, x: Array, y: float) -> None:
        """Learn that features x, (d,), gave reward y. O(d), and O(d^2) an observation for what `_absorb` does.

        Raises ValueError, and changes nothing, for an unknown block and for what is not finite.
        """
        check_observation(block, self._rows.count, x, self.dimension, y)
        self._rows.touch(block)
        count = self.count(block)
        place = count % _BUFFER
        row = self._waiting[block, place]
        row[:-1] = x
        row[-1] = y
        self._count[block] = count + 1
        self._stale.add(block)
        self._gram = None
        if place + 1 == _BUFFER:
            self._absorb(block)

    def _absorb(self, block: int) -> None:
        """Make the waiting rows part of the sums and the triangle."""
        rows, size = self._rows, self.dimension + 1
        waiting = self._waiting[block]
        self._sums[block] = _added(self._sums[block], waiting).T
        rows["wide_high"][block], rows["wide_low"][block] = self._wide_sums(block, _BUFFER)
        triangle = self._triangle[block, :size]
        triangle[:] = dtpqrt(0, min(8, size), triangle, waiting)[0]
        waiting[:] = 0.0
        self._solutions.pop(block, None)

    def _sums_with(self, block: int, waiting: int) -> Array:
        """Return sum z z^T with so many of the rows that wait, (d + 1, d + 1), Fortran-ordered: its lower triangle."""
        return _added(self._sums[block], self._waiting[block, :waiting])

    def _gram_of(self, block: int, waiting: int) -> Array:
        lower = self._sums_with(block, waiting)[:-1, :-1]
        return lower + np.tril(lower, -1).T

    def refresh(self) -> list[int]:
        """Solve the blocks observed since the last call; return them in order. O(d^2) an observation, some O(d^3)."""
        changed = sorted(self._stale)
        for block in changed:
            self._rows.touch(block)
            solution = self._solution(block)
            self.theta[block] = solution.scoring[-1]
            squares = solution.squares
            if squares is None:
                squares = self._residual_squares(block, solution.extended, solution.rows)
            self._d1_squares[block] = squares
        self._refreshed |= self._stale
        self._stale.clear()
        return changed

    def _solution(self, block: int) -> RecursiveLeastSquares:
        """Return what all observations of a block lead to."""
        waiting = self.count(block) % _BUFFER
        solution = self._solutions.get(block)
        if solution is None:
            solution = self._solve(block, 0)
        while solution.rows < waiting:
            if not solution.step(self._waiting[block, solution.rows]):
                solution = self._solve(block, waiting)
        self._solutions[block] = solution
        return solution

    def _solve(self, block: int, waiting: int) -> RecursiveLeastSquares:
        """Return the solution from the sums, with so many of the rows that wait.

        Without any it is where steps begin, unless rounding shows in it. With some, none may follow: what is known
        after an observation must not depend on how often it was asked for.
        """
        alpha, dimension = self.regularization, self.dimension
        sums = self._sums_with(block, waiting)
        trace = float(np.add.reduce(sums.diagonal()[:-1]))
        known = self._factorise(sums, trace)
        matrix, log_determinant = self._solve_singular(block, waiting) if known is None else known
        theta, extended = matrix[-1, :-1], matrix[-1]
        squares = self._residual_squares(block, extended, waiting)
        rounding = sum_rounding(
            theta,
            trace=trace,
            slope_squares=squares,
            feature_squares=trace,
            count=self.count(block) // _BUFFER * _BUFFER + waiting,
        )
        has_steps = known is not None and not waiting
        if is_doubtful(lambda: self._gram_of(block, waiting), alpha, theta, trace=trace, rounding=rounding):
            theta[:] = refine(self._wide_sums(block, waiting), alpha, theta)
            squares, has_steps = self._residual_squares(block, extended, waiting), False
        return RecursiveLeastSquares(
            matrix,
            log_determinant,
            rows=waiting,
            alpha=alpha,
            squares=squares,
            trace=trace + alpha * dimension,
            rounding=rounding if has_steps else math.inf,
        )

    def _factorise(self, sums: Array, trace: float) -> tuple[Array, float] | None:
        """Return F over (theta, -1), (d + 1, d + 1), and log det A, for A = sum x x^T + alpha I; sums is overwritten.

        The Cholesky factor of sum z z^T + alpha I has L^-1 sum y x under L, hence its inverse -theta under L^-1 = F.
        Its own last pivot, the root of what the rewards leave unexplained, may vanish and is not used. None where L
        cannot be had, or has lost its digits.
        """
        alpha, dimension = self.regularization, self.dimension
        add_to_diagonal(sums, alpha, dimension)
        diagonal = None if alpha > _PIVOTS_SURE * trace else sums.diagonal()[:-1].copy()
        cholesky, failed = dpotrf(sums, 1, 0, 1)  # in place
        if 0 < failed <= dimension:
            return None
        cholesky[-1, -1] = 1.0
        pivots = cholesky.diagonal()
        if diagonal is not None and not pivots_hold(pivots[:-1], diagonal):
            return None
        log_determinant = 2.0 * log_sum(pivots)
        inverse, failed = dtrtri(cholesky, 1, 0, 1)
        inverse[-1] *= -1.0
        return None if failed else (inverse, log_determinant)

    def _solve_singular(self, block: int, waiting: int) -> tuple[Array, float]:
        """Return the same where the Cholesky factor has lost its digits."""
        gram, dimension = self._gram_of(block, waiting), self.dimension
        theta = self._least_squares(block, waiting)
        if theta is None:
            moment = self._sums_with(block, waiting)[-1, :-1]
            theta = Factor(gram + self.regularization * np.eye(dimension)).solve(moment)
        inverse, log_determinant = inverse_factor(gram, self.regularization)
        matrix = np.zeros((dimension + 1, dimension + 1), order="F")
        matrix[:-1, :-1], matrix[-1, :-1], matrix[-1, -1] = inverse, theta, -1.0
        return matrix, log_determinant

    def known_factor(self, block: int) -> tuple[Array, float]:
        """Return F with F^T F = (sum x x^T + alpha I)^-1, theta under it, (d + 1, d), and the log determinant."""
        solution = self._solutions.get(block) or self._solution(block)
        return solution.scoring, solution.log_determinant

    def _least_squares(self, block: int, waiting: int) -> Array | None:
        """Return argmin ||R (theta, -1)||^2 + alpha ||theta||^2, (d,), by a QR decomposition: backward stable.

        None where even that has a zero on its diagonal, or theta is too large for float64.
        """
        dimension, rows = self.dimension, self._rows
        penalty = np.eye(dimension, dimension + 1) * math.sqrt(self.regularization)
        # Largest rows first: Householder's method then also serves rows of very different sizes.
        stacked = np.vstack([rows["triangle"][block, : dimension + 1 + waiting], penalty])
        stacked = stacked[np.argsort(-np.abs(stacked).max(axis=1), kind="stable")]
        triangle = dgeqrf(stacked)[0]
        theta, failed = dtrtrs(triangle[:dimension, :dimension], triangle[:dimension, dimension])
        return None if failed or not np.isfinite(theta).all() else theta

    def _wide_sums(self, block: int, waiting: int) -> Wide:
        rows = self._rows
        return wide_gram(self._waiting[block, :waiting], (rows["wide_high"][block], rows["wide_low"][block]))

    def _residual_squares(self, block: int, extended: Array, waiting: int) -> float:
        """Return ||R (theta, -1)||^2, so many waiting rows with it; extended: (theta, -1)."""
        triangle = self._triangle[block, : len(extended) + waiting]
        residuals = triangle.dot(extended)
        squares: float = ddot(residuals, residuals)
        return squares

    def add_block(self) -> None:
        """Append a block without observations; theta is 0 there. The next `refresh` reports it."""
        self._rows.add()
        self._stale.add(self._rows.count - 1)
        self._bind()

    def mark(self) -> None:
        """Remember this state for `restore`, in place of any earlier mark."""
        self._rows.mark()
        self._marked_stale = self._stale.copy()
        self._refreshed = set()

    def restore(self) -> None:
        """Return to the mark, byte for byte; the mark stays. Raises RuntimeError without one."""
        self._rows.restore()
        for block in self._refreshed:
            self._solutions.pop(block, None)
        self._refreshed = set()
        self._stale = self._marked_stale.copy()
        self._bind()

    def arrays(self) -> StateArrays:
        """Return the complete state as copies."""
        is_stale = np.zeros(self._rows.count)
        is_stale[sorted(self._stale)] = 1.0
        return {**self._rows.arrays(), "is_stale": is_stale}

    def load(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over the state `arrays()` gave; what follows is as if there had been no break.

        Forgets the mark. Raises ValueError, and changes nothing, for arrays that do not fit.
        """
        rows = self._rows.like(0)
        rows.load(arrays)
        is_stale = take(arrays, "is_stale", (rows.count,))
        self._rows, self._stale = rows, set(np.flatnonzero(is_stale).tolist())
        self._solutions, self._refreshed = {}, set()
        self._bind()

    def is_sane(self) -> bool:
        """Whether everything is finite and the Gram matrices are symmetric, with diagonals not negative."""
        return self._rows.is_finite() and is_gram(self.gram)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays held."""
        solutions = sum(solution.nbytes for solution in self._solutions.values())
        return self._rows.nbytes + solutions + (0 if self._gram is None else self._gram.nbytes)


def _added(sums: Array, rows: Array) -> Array:
    """Return the sums (of their transpose the lower triangle) + sum z z^T over rows z: its lower triangle, 0 above."""
    total: Array = dsyrk(1.0, rows.T, 1.0, sums.T, 0, 1)
    return total
