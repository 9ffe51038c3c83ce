"""One symmetric positive definite linear system, solved whatever its conditioning."""

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from service.core.losses import Array

EIGENVALUE_MIN = 1e-13
"""Directions of a smaller relative curvature are left out of a solve, unless asked for."""

_PIVOT_MIN = 1e-12


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
        # The transpose of a C-ordered symmetric matrix is the same matrix in the order LAPACK wants.
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
    return bool(np.logical_and.reduce(pivots * pivots > _PIVOT_MIN * diagonal))


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
