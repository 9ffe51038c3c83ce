"""The ridge estimator of the mean."""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dgeqrf, dtpqrt, dtrtrs

from service.core.blocks import BlockRows, StateArrays, check_observation, is_gram
from service.core.factor import Factor
from service.core.losses import Array
from service.core.wide import Wide, is_doubtful, refine, wide_gram

_BUFFER = 16
_MINUS_ONE = np.array([-1.0])


class Ridge:
    """theta = (sum x x^T + alpha I)^-1 sum y x for each of B blocks, never projected.

    The sums are kept, theta is solved from them anew in `refresh`, so that nothing drifts and the state is a
    function of the sequence of observations alone, byte for byte.

    The sum of squared residuals at the current theta cannot be had from sum y^2 - ...: for rewards near 1e6
    with spread 1 the difference is noise. So the triangle R of a QR decomposition of the rows (x, y) is kept,
    and the sum is ||R (theta, -1)||^2: never negative, accurate to the precision of the rewards themselves, and
    exactly scaled by c^2 where rewards are scaled by a power of two c. Rows join R sixteen at a time, which
    costs a fifth of one at a time; those waiting are summed directly.

    Two kinds of sums need more than the Gram matrix, and only they pay for it. Where its Cholesky factor has lost its
    digits, theta is solved from R: its equation then holds to rounding, whatever the conditioning. Where rewards
    cancel so far that the rounding of the sums would show in theta (`is_doubtful`), it is refined from the sums
    sum z z^T of z = (x, y) that are kept with more digits; these, too, are joined sixteen rows at a time.

    Public arrays, valid after `refresh` and until `add_block`, `restore` or `load`; not to be written to:
    theta (B, d); gram and weighted_gram (one array, the curvature being 1), (B, d, d), exactly symmetric.
    Not thread safe. Source: Abbasi-Yadkori, Pal & Szepesvari 2011 for LinUCB's use of it.
    """

    def __init__(self, blocks: int, dimension: int, regularization: float) -> None:
        if dimension < 1 or not 0.0 < regularization < math.inf:
            raise ValueError("the dimension and the regularization must be positive and finite")
        self.dimension = dimension
        self.regularization = regularization
        self._rows = BlockRows(
            blocks,
            {
                "theta": (dimension,),
                "gram": (dimension, dimension),
                "moment": (dimension,),
                # R^T, then the rows waiting to join it, as columns.
                "triangle": (dimension + 1, dimension + 1 + _BUFFER),
                "wide_high": (dimension + 1, dimension + 1),
                "wide_low": (dimension + 1, dimension + 1),
                "waiting_count": (),
                "count": (),
                "d1_squares": (),
                "is_stale": (),
            },
        )
        self._stale: set[int] = set()
        self._bind()

    def _bind(self) -> None:
        self.theta = self._rows["theta"]
        self.gram = self._rows["gram"]
        self.weighted_gram = self.gram

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
        return int(self._rows["count"][block])

    def block_d1_squares(self, block: int) -> float:
        """Return the sum of (y - <theta, x>)^2 over a block's observations, as of `refresh`."""
        return float(self._rows["d1_squares"][block])

    def observe(self, block: int, x: Array, y: float) -> None:
        """Learn that features x, (d,), gave reward y. O(d^2).

        Raises ValueError, and changes nothing, for an unknown block and for what is not finite.
        """
        check_observation(block, self._rows.count, x, self.dimension, y)
        rows = self._rows
        rows.touch(block)
        gram = self.gram[block]
        gram += x[:, None] * x
        rows["moment"][block] += y * x
        rows["count"][block] += 1.0
        waiting = int(rows["waiting_count"][block])
        column = rows["triangle"][block, :, self.dimension + 1 + waiting]
        column[:-1] = x
        column[-1] = y
        rows["waiting_count"][block] = waiting + 1.0
        if waiting + 1 == _BUFFER:
            self._absorb(block)
        self._stale.add(block)
        rows["is_stale"][block] = 1.0

    def _absorb(self, block: int) -> None:
        """Make the waiting rows part of the triangle and the wide sums."""
        rows = self._rows
        rows["wide_high"][block], rows["wide_low"][block] = self._wide_sums(block)
        triangle, waiting = np.hsplit(rows["triangle"][block], [self.dimension + 1])
        triangle[:] = dtpqrt(0, min(8, len(triangle)), triangle.T, waiting.T)[0].T
        waiting[:] = 0.0
        self._rows["waiting_count"][block] = 0.0

    def refresh(self) -> list[int]:
        """Solve the blocks observed since the last call; return them in order. O(d^3) each."""
        changed = sorted(self._stale)
        for block in changed:
            self._rows.touch(block)
            theta, squares = self._solve(block)
            self.theta[block] = theta
            self._rows["d1_squares"][block] = squares
            self._rows["is_stale"][block] = 0.0
        self._stale.clear()
        return changed

    def _solve(self, block: int) -> tuple[Array, float]:
        """Return theta, (d,), and the sum of squared residuals there."""
        gram, alpha = self.gram[block], self.regularization
        matrix = gram.copy()
        matrix.ravel()[:: self.dimension + 1] += alpha
        factor = Factor(matrix)
        theta = None if factor.exact else self._least_squares(block)
        if theta is None:
            theta = factor.solve(self._rows["moment"][block])
        squares = self._residual_squares(block, theta)
        trace, count = float(gram.trace()), int(self._rows["count"][block])
        if is_doubtful(gram, alpha, theta, slope_squares=squares, feature_squares=trace, count=count):
            theta = refine(self._wide_sums(block), alpha, theta)
            squares = self._residual_squares(block, theta)
        return theta, squares

    def _least_squares(self, block: int) -> Array | None:
        """Return argmin ||R (theta, -1)||^2 + alpha ||theta||^2, (d,), by a QR decomposition: backward stable.

        None where even that has a zero on its diagonal, or theta is too large for float64.
        """
        dimension, rows = self.dimension, self._rows
        penalty = np.eye(dimension, dimension + 1) * math.sqrt(self.regularization)
        # Largest rows first: Householder's method then also serves rows of very different sizes.
        stacked = np.vstack([rows["triangle"][block].T, penalty])
        stacked = stacked[np.argsort(-np.abs(stacked).max(axis=1), kind="stable")]
        triangle = dgeqrf(stacked)[0]
        theta, failed = dtrtrs(triangle[:dimension, :dimension], triangle[:dimension, dimension])
        return None if failed or not np.isfinite(theta).all() else theta

    def _wide_sums(self, block: int) -> Wide:
        rows = self._rows
        waiting = rows["triangle"][block, :, self.dimension + 1 :]
        return wide_gram(waiting.T, (rows["wide_high"][block], rows["wide_low"][block]))

    def _residual_squares(self, block: int, theta: Array) -> float:
        residuals = self._rows["triangle"][block].T @ np.concatenate((theta, _MINUS_ONE))
        return float(residuals.dot(residuals))

    def add_block(self) -> None:
        """Append a block without observations; theta is 0 there. The next `refresh` reports it."""
        self._rows.add()
        self._rows["is_stale"][-1] = 1.0
        self._stale.add(self._rows.count - 1)
        self._bind()

    def mark(self) -> None:
        """Remember this state for `restore`, in place of any earlier mark."""
        self._rows.mark()
        self._marked_stale = self._stale.copy()

    def restore(self) -> None:
        """Return to the mark, byte for byte; the mark stays. Raises RuntimeError without one."""
        self._rows.restore()
        self._stale = self._marked_stale.copy()
        self._bind()

    def arrays(self) -> StateArrays:
        """Return the complete state as copies."""
        return self._rows.arrays()

    def load(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over the state `arrays()` gave; what follows is as if there had been no break.

        Forgets the mark. Raises ValueError, and changes nothing, for arrays that do not fit.
        """
        self._rows.load(arrays)
        self._stale = set(np.flatnonzero(self._rows["is_stale"]).tolist())
        self._bind()

    def is_sane(self) -> bool:
        """Whether everything is finite and the Gram matrices are symmetric, with diagonals not negative."""
        return self._rows.is_finite() and is_gram(self.gram)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays held."""
        return self._rows.nbytes
