"""Recursive least squares in Potter's square-root form: an observation changes theta and a factor of the inverse."""

from math import inf, log, sqrt

import numpy as np
from scipy.linalg.blas import ddot, dgemv, dger, dnrm2

from prudent.core.measures import Array
from prudent.core.numerics.wide import ACCURACY, UNIT

_ERROR_MAX = 0.5 * ACCURACY


class RecursiveLeastSquares:
    """theta = A^-1 b and F with F^T F = A^-1, for A = sum x x^T + alpha I and b = sum y x, step by step.

    An observation (x, y) enters by

        f = F x,  s = sqrt(1 + f.f),  g = F^T f,  e = y - <theta, x>,
        theta += e / s^2 g,  F -= 1 / (s^2 + s) f g^T,  log det A += log s^2,  J += e^2 / s^2,

    where J is the objective's minimum, sum (y - <theta, x>)^2 + alpha ||theta||^2.

    F^T F cannot become indefinite, and F's condition number is the root of A's. But rounding adds up, so each step
    also adds its share to a bound of theta's error: rounding times A's condition number, at most tr A tr A^-1, times
    the size of theta before and after. Past half of the promised accuracy there are no more steps, and theta has to be
    solved anew.

    Attributes: scoring, (d + 1, d), Fortran-ordered: F, and theta under it; steps change it in place. extended:
    (theta, -1), (d + 1,). rows: how many of the observations that wait have entered. Not thread safe.
    Source: the update is Potter's (Bierman 1977, Factorization Methods for Discrete Sequential Estimation); the bound,
    of first order, is ours.
    """

    __slots__ = (
        "_alpha",
        "_error",
        "_flat",
        "_gain",
        "_inverse_trace",
        "_matrix",
        "_objective",
        "_size",
        "_trace",
        "extended",
        "log_determinant",
        "rows",
        "scoring",
    )

    def __init__(
        self,
        matrix: Array,
        log_determinant: float,
        *,
        rows: int,
        alpha: float,
        trace: float,
        squares: float,
        rounding: float,
    ) -> None:
        """Begin with a solution.

        matrix: (d + 1, d + 1), Fortran-ordered and taken over: F, (theta, -1) under it, and zeros above the -1;
        rows: of those that wait, how many have entered already; trace: tr A; squares: sum (y - <theta, x>)^2; rounding:
        a bound of ||A theta - b||, inf for no steps.
        """
        self._matrix, self._flat, self._gain = matrix, matrix.ravel("K"), np.zeros(len(matrix))
        self.scoring, self.extended = matrix[:, :-1], matrix[-1]
        self.log_determinant = log_determinant
        self.rows = rows
        self._trace = trace
        factor = matrix[:-1].ravel("K")
        self._inverse_trace: float = ddot(factor, factor)
        self._error: float = rounding * self._inverse_trace
        self._size: float = dnrm2(self.extended[:-1])
        self._alpha = alpha
        self._objective = squares + alpha * self._size * self._size

    def step(self, z: Array) -> bool:
        """Let the observation z = (x, y), (d + 1,), enter; False where its rounding might show: all is void then."""
        if self._error == inf:
            return False
        matrix, last = self._matrix, len(z) - 1
        image = dgemv(1.0, matrix, z)
        miss: float = image.item(last)
        image[last] = 0.0
        square = 1.0 + ddot(image, image)
        root = sqrt(square)
        # arguments by position: names take as long as the products
        gain = dgemv(1.0, matrix, image, 0.0, self._gain, 0, 1, 0, 1, 1, 1)
        image[last] = miss * (1.0 + 1.0 / root)
        dger(-1.0 / (square + root), image, gain, 1, 1, matrix, 1, 1, 1)
        self.log_determinant += log(square)
        self._objective += miss * miss / square
        self.rows += 1
        self._trace += ddot(z, z, last)
        flat = self._flat
        size: float = sqrt(ddot(flat, flat, last, last, last + 1, last, last + 1))
        self._error += UNIT * self._trace * self._inverse_trace * (self._size + size)
        self._size = size
        return self._error <= _ERROR_MAX * size

    @property
    def squares(self) -> float | None:
        """Sum (y - <theta, x>)^2; None where nothing is left of it.

        The difference loses no more than the rewards' rounding does: as alpha ||theta|| <= ||X|| root(sum), the penalty
        is at most ||X|| ||theta|| times that root.
        """
        squares = self._objective - self._alpha * self._size * self._size
        return squares if squares > 0.0 else None

    @property
    def nbytes(self) -> int:
        """Bytes of the matrix held."""
        return self._matrix.nbytes
