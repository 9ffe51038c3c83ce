"""The ridge estimator of the mean."""

import math
from collections.abc import Mapping
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import ddot, dsyrk
from scipy.linalg.lapack import dtpqrt, dtrtri

from prudent.core.estimators.blocks import BlockRows, StateArrays, check_observation, is_gram, take
from prudent.core.estimators.estimator import ScoreMoments, pooled_moments
from prudent.core.measures import Array
from prudent.core.numerics.positive_definite import log_sum

_PANEL = 12
"""Columns that LAPACK transforms at a time: near the fastest for 5 to 512 features."""


class _Solution(NamedTuple):
    """theta and what the bonuses need of a block.

    scoring: (d + 1, d), Fortran-ordered: F with F^T F = (sum x x^T + alpha I)^-1, and theta under it.
    log_determinant: of sum x x^T + alpha I. squares: sum (y - <theta, x>)^2.
    """

    scoring: Array
    log_determinant: float
    squares: float


class Ridge:
    """theta = (sum x x^T + alpha I)^-1 sum y x for each of B blocks, never projected.

    The state of a block is two upper triangles, (d + 1, d + 1), each the R of a QR decomposition: of the rows (x, y),
    and of the same rows below sqrt(alpha) (I, 0). An observation enters both by Householder reflections, O(d^2). Then

        the second, [R1 r; 0 rho], gives theta = R1^-1 r, the factor F = R1^-T of the inverse, det = prod R1_ii^2;
        the first, T, gives the sum of squared residuals ||T (theta, -1)||^2, and (sum z z^T) = T^T T, z = (x, y).

    So nothing is ever factorised anew, digits cannot cancel in sums of products, and no case is singular:
    |R1_ii| >= sqrt(alpha), as reflections let it only grow. theta is backward stable: the exact fit to features and
    rewards that differ from those observed by rounding, relative to the norms of their columns. It is right to 1e-8
    where the problem is well posed (see the mathematics page). The sum of squared residuals has the precision of the
    rewards themselves, also for rewards near 1e6 with spread 1; it is never negative, and scales exactly by c^2 where
    rewards are scaled by a power of two c.

    Public arrays, valid after `refresh` and until `add_block`, `restore` or `load`; not to be written to:
    theta (B, d); gram and weighted_gram (one array, the curvature being 1), (B, d, d), exactly symmetric, and made when
    asked for. A pure function of the sequence of observations, byte for byte. Not thread safe.
    Source: the square-root information filter, Bierman 1977, Factorization Methods for Discrete Sequential Estimation;
    Abbasi-Yadkori, Pal & Szepesvari 2011 for LinUCB's use of ridge regression.
    """

    has_snapshots: ClassVar[bool] = True
    warns_of_large_features: ClassVar[bool] = True

    def __init__(self, blocks: int, dimension: int, regularization: float) -> None:
        if dimension < 1 or not 0.0 < regularization < math.inf:
            raise ValueError("the dimension and the regularization must be positive and finite")
        self.dimension = dimension
        self.regularization = regularization
        size = dimension + 1
        # triangles as lower ones, row by row: their transposes are what LAPACK changes in place
        shapes: dict[str, tuple[int, ...]] = {"theta": (dimension,), "data": (size, size), "penalised": (size, size)}
        self._rows = BlockRows(blocks, shapes | dict.fromkeys(("count", "d1_squares"), ()))
        self._stale: set[int] = set()
        self._center = 0.0
        self._bind()
        for block in range(blocks):
            self._reset(block)

    def _bind(self) -> None:
        self.theta = self._rows["theta"]
        self._data = self._rows["data"]
        self._penalised = self._rows["penalised"]
        self._count = self._rows["count"]
        self._d1_squares = self._rows["d1_squares"]
        self._gram: Array | None = None
        self._solutions: dict[int, _Solution] = {}

    def _reset(self, block: int) -> None:
        np.fill_diagonal(self._penalised[block, :-1, :-1], math.sqrt(self.regularization))

    @property
    def gram(self) -> Array:
        """(B, d, d), sum of x x^T."""
        if self._gram is None:
            self._gram = np.zeros((self._rows.count, self.dimension, self.dimension))
            for block, gram in enumerate(self._gram):
                lower = dsyrk(1.0, self._data[block, :-1, :-1], lower=1)
                gram[:] = lower + np.tril(lower, -1).T
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

    @property
    def convergence(self) -> None:
        """None: nothing is iterated."""

    def observe(self, block: int, x: Array, y: float) -> None:
        """Learn that features x, (d,), gave reward y. O(d^2).

        Raises ValueError, and changes nothing, for an unknown block and for what is not finite.
        """
        check_observation(block, self._rows.count, self.dimension, x, y)
        self._rows.touch(block)
        row = np.empty((1, self.dimension + 1))
        row[0, :-1] = x
        row[0, -1] = y - self._center
        panel = min(_PANEL, self.dimension + 1)
        dtpqrt(0, panel, self._data[block].T, row, 1, 0)
        dtpqrt(0, panel, self._penalised[block].T, row, 1, 1)
        self._count[block] += 1.0
        self._stale.add(block)
        self._gram = None

    def recenter(self, center: float) -> None:
        """Learn rewards relative to a centre, those so far as well; the last feature must be 1 always. O(d^3) a block.

        The rows (x, y - c) have the triangle of the rows (x, y) but for its last column, from which c times that of
        the feature 1 is taken. The penalty's rows keep their 0, so the other triangle is made anew.
        """
        change, self._center = center - self._center, center
        for block in range(self._rows.count):
            if self._count[block]:
                self._rows.touch(block)
                data = self._data[block]
                data[-1] -= change * data[-2]
                self._penalise(block)

    def forget(self, share: float) -> None:
        """Multiply the weight of everything observed by this share; the ridge keeps its own. O(d^3) a block."""
        for block in np.flatnonzero(self._count).tolist():
            self._rows.touch(block)
            self._data[block] *= math.sqrt(share)
            self._count[block] *= share
            self._penalise(block)
        self._gram = None

    def _penalise(self, block: int) -> None:
        """Make the triangle of the rows with the penalty from that of the rows alone."""
        penalised = self._penalised[block]
        penalised[:] = 0.0
        self._reset(block)
        rows = np.array(self._data[block].T, order="F")
        dtpqrt(0, min(_PANEL, self.dimension + 1), penalised.T, rows, 1, 1)
        self._stale.add(block)

    def refresh(self) -> list[int]:
        """Solve the blocks observed since the last call; return them in order. O(d^3) for each."""
        changed = sorted(self._stale)
        self._solutions = {block: self._solve(block) for block in changed}
        for block, solution in self._solutions.items():
            self._rows.touch(block)
            self.theta[block] = solution.scoring[-1]
            self._d1_squares[block] = solution.squares
        self._stale.clear()
        return changed

    def _solve(self, block: int) -> _Solution:
        lower = np.array(self._penalised[block], order="F")
        # With -1 in place of rho the last row of the inverse is (theta, -1): LAPACK finds it by substitution, which is
        # backward stable, as F times r is not.
        lower[-1, -1] = -1.0
        log_determinant = 2.0 * log_sum(np.abs(lower.diagonal()))
        inverse = dtrtri(lower, 1, 0, 1)[0]
        residuals = self._data[block].T.dot(inverse[-1])
        return _Solution(inverse[:, :-1], log_determinant, ddot(residuals, residuals))

    def known_factor(self, block: int) -> tuple[Array, float]:
        """Return F with F^T F = (sum x x^T + alpha I)^-1, theta under it, (d + 1, d), and the log determinant."""
        solution = self._solutions.get(block) or self._solve(block)
        return solution.scoring, solution.log_determinant

    def score_moments(self, block: int, *, has_intercept: bool) -> ScoreMoments:  # noqa: ARG002 -- not needed here
        """Return the moments pooled over the features."""
        return pooled_moments(int(self._count.item(block)), self._d1_squares.item(block), self.gram[block])

    def warnings(self) -> list[str]:
        """Return none: every observation is learned."""
        return []

    def add_block(self) -> None:
        """Append a block without observations; theta is 0 there. The next `refresh` reports it."""
        self._rows.add()
        self._stale.add(self._rows.count - 1)
        self._bind()
        self._reset(self._rows.count - 1)

    def mark(self) -> None:
        """Remember this state for `restore`, in place of any earlier mark."""
        self._rows.mark()
        self._marked_stale = self._stale.copy()
        self._marked_center = self._center

    def restore(self) -> None:
        """Return to the mark, byte for byte; the mark stays. Raises RuntimeError without one."""
        self._rows.restore()
        self._stale = self._marked_stale.copy()
        self._center = self._marked_center
        self._bind()

    def arrays(self) -> StateArrays:
        """Return the complete state as copies."""
        is_stale = np.zeros(self._rows.count)
        is_stale[sorted(self._stale)] = 1.0
        return {**self._rows.arrays(), "is_stale": is_stale, "center": np.array(self._center)}

    def load(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over the state `arrays()` gave; what follows is as if there had been no break.

        Forgets the mark. Raises ValueError, and changes nothing, for arrays that do not fit.
        """
        rows = self._rows.like(0)
        rows.load(arrays)
        is_stale, center = take(arrays, "is_stale", (rows.count,)), take(arrays, "center", ()).item()
        self._center = center
        self._rows, self._stale = rows, set(np.flatnonzero(is_stale).tolist())
        self._bind()

    def is_sane(self) -> bool:
        """Whether everything is finite and the Gram matrices are symmetric, with diagonals not negative."""
        return self._rows.is_finite() and is_gram(self.gram)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays held."""
        solutions = sum(solution.scoring.nbytes for solution in self._solutions.values())
        return self._rows.nbytes + solutions + (0 if self._gram is None else self._gram.nbytes)
