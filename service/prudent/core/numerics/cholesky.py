"""Solves, inverse factors and determinants of symmetric positive definite matrices, however ill-conditioned."""

from functools import cache
from math import log, prod

import numpy as np
from scipy.linalg.blas import daxpy
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtri

from prudent.core.measures import Array

EIGENVALUE_MIN = 1e-13
"""Directions of a smaller relative curvature are left out of a solve, unless another limit is given."""

PIVOT_MIN = 1e-12
"""A pivot's square below this share of its diagonal entry has lost its digits."""

_PRODUCT_LENGTH, _PRODUCT_MIN, _PRODUCT_MAX = 50, 1e-6, 1e6


class Factor:
    """A factor of a symmetric positive semi-definite matrix, (d, d) float64, and solves with it.

    The ordinary case is a Cholesky factor. Where it fails, or a pivot has lost all but 1e-12 of its
    diagonal entry, the solution would be noise along the directions the data do not determine; then the
    matrix is scaled to a unit diagonal and solved through its eigenvectors, leaving out those directions
    (eigenvalues below `eigenvalue_min` of the largest). Both tests are unaffected by the units of the features.
    Never raises and never warns: a matrix that is not finite gives solutions of nan.
    """

    __slots__ = ("_cholesky", "_root", "_scale")

    def __init__(self, matrix: Array, eigenvalue_min: float = EIGENVALUE_MIN) -> None:
        # The transpose of a C-ordered symmetric matrix is the same matrix in the order that LAPACK wants.
        self._cholesky, info = dpotrf(matrix.T, lower=1, clean=0)
        self._root: Array | None = None
        self._scale: Array | None = None
        if info != 0 or not _pivots_hold(self._cholesky.diagonal(), matrix.diagonal()):
            self._scale, self._root = _inverse_root(matrix, eigenvalue_min)

    def solve(self, right: Array) -> Array:
        """Return x with matrix x = right; right and x are (d,)."""
        if self._root is None or self._scale is None:
            solution: Array = dpotrs(self._cholesky, right, lower=1)[0]
            return solution
        return self._scale * (self._root @ (self._root.T @ (self._scale * right)))

    @property
    def exact(self) -> bool:
        """Whether the Cholesky factor is in use."""
        return self._root is None


def _pivots_hold(pivots: Array, diagonal: Array) -> bool:
    """Whether a Cholesky factor's pivots, (d,), have kept digits of the matrix's diagonal, (d,)."""
    return bool(np.logical_and.reduce(pivots * pivots > PIVOT_MIN * diagonal))


def _inverse_root(matrix: Array, eigenvalue_min: float) -> tuple[Array, Array]:
    """Return the scaling s, (d,), and R, (d, r), with s R R^T s a pseudo-inverse of the matrix."""
    dimension = len(matrix)
    undefined = np.zeros(dimension), np.full((dimension, 1), np.nan)
    if not np.isfinite(matrix).all():
        return undefined
    diagonal = np.maximum(matrix.diagonal(), 0.0)
    scale = np.zeros(dimension)
    scale[diagonal > 0.0] = 1.0 / np.sqrt(diagonal[diagonal > 0.0])
    try:
        values, vectors = np.linalg.eigh(scale[:, None] * matrix * scale)
    except np.linalg.LinAlgError:
        return undefined
    kept = values > eigenvalue_min * max(float(values[-1]), 0.0)
    return scale, vectors[:, kept] / np.sqrt(values[kept])


def inverse_factor(matrix: Array, ridge: float) -> tuple[Array, float]:
    """F with F^T F = (matrix + ridge I)^-1, and log det(matrix + ridge I).

    matrix: (d, d) symmetric, positive semi-definite up to rounding; ridge > 0. ||F x|| is the norm of x in the
    inverse metric, and cannot be negative as x^T A^-1 x can be by rounding. Where Cholesky fails (the ridge is
    lost in the matrix's rounding) the eigenvalues are floored at the ridge, which only widens the bonus.
    """
    lower, failed = _cholesky(matrix, ridge)
    if not failed:
        log_determinant = 2.0 * log_sum(lower.diagonal())
        inverse, failed = dtrtri(lower, 1, 0, 1)  # in place
        if not failed:
            return inverse, log_determinant
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2 + ridge * np.eye(len(matrix)))
    values = np.maximum(values, ridge)
    return vectors.T / np.sqrt(values)[:, None], log_sum(values)


def log_determinant_of(matrix: Array, ridge: float) -> float:
    """Logarithm of det(matrix + ridge I), as ``inverse_factor`` gives it."""
    lower, failed = _cholesky(matrix, ridge)
    return inverse_factor(matrix, ridge)[1] if failed else 2.0 * log_sum(lower.diagonal())


def _cholesky(matrix: Array, ridge: float) -> tuple[Array, int]:
    """Return the lower factor of matrix + ridge I, with zeros above, and LAPACK's code, 0 for success."""
    shifted = matrix.copy("K")
    _add_to_diagonal(shifted, ridge, len(matrix))
    # the transpose of a C-ordered symmetric matrix is the same matrix in the order LAPACK wants
    lower, failed = dpotrf(shifted.T, 1, 1, 1)
    return lower, failed


def _add_to_diagonal(matrix: Array, value: float, count: int) -> None:
    """Add a value to the first so many entries of the diagonal of a square matrix, contiguous in either order."""
    # several times as fast as numpy's own strided sum, for matrices of this size
    daxpy(_ones(count), matrix.ravel("K"), count, value, 0, 1, 0, len(matrix) + 1)


@cache
def _ones(size: int) -> Array:
    return np.ones(size)


def log_sum(values: Array) -> float:
    """Return the sum of the logarithms of positive numbers, (d,)."""
    factors = values.tolist()
    if 0 < len(factors) <= _PRODUCT_LENGTH and min(factors) > _PRODUCT_MIN and max(factors) < _PRODUCT_MAX:
        return log(prod(factors))  # no partial product can overflow, or lose digits by underflow
    return sum(map(log, factors))


def with_row(matrix: Array, last: Array) -> Array:
    """Return a copy of the matrix, (n, d), Fortran-ordered, with one more row, (d,), under it."""
    rows, columns = matrix.shape
    copy = np.empty((rows + 1, columns), order="F")
    copy[:-1] = matrix
    copy[-1] = last
    return copy
