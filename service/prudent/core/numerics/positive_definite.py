"""Symmetric positive definite matrices, however ill-conditioned.

Solves, inverse factors, determinants, and the minimum of such a quadratic over a ball: the step that both the full and
the incremental solver take.
"""

from functools import cache
from math import log, nan, prod

import numpy as np
from scipy.linalg.blas import daxpy, dnrm2
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtri

from prudent.core.measures import Array

EIGENVALUE_MIN = 1e-13
"""Directions of a smaller relative curvature are left out of a solve, unless another limit is given."""

PIVOT_MIN = 1e-12
"""A pivot's square below this share of its diagonal entry has lost its digits."""

_SECULAR_MAX = 60
_SECULAR_TOLERANCE = 1e-14
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


def project(theta: Array, bound: float) -> Array:
    """Return the point of the ball of radius `bound` nearest to theta, (d,); theta itself if inside."""
    norm = dnrm2(theta)
    return theta if norm <= bound else theta * (bound / norm)


def fitted_multiplier(theta: Array, gradient: Array, bound: float | None) -> float:
    """Return the mu >= 0 for which gradient + mu theta is smallest; 0 inside the ball.

    So mu (S - ||theta||) = 0 always holds, to the 1e-12 within which theta counts as on the sphere.
    """
    if bound is None:
        return 0.0
    square = float(theta.dot(theta))
    if square < (1.0 - 1e-12) * bound * bound:
        return 0.0
    return max(0.0, -float(gradient.dot(theta)) / square)


class QuadraticModel:
    """The quadratic with Hessian `curvature` + alpha I, to be minimised over the ball of radius `bound`.

    curvature: (d, d), exactly symmetric, positive semi-definite; bound: None for no ball. The factor is kept,
    so that further steps of the same model are cheap where the ball does not bind.
    """

    __slots__ = ("_bound", "_factor", "_matrix")

    def __init__(
        self, curvature: Array, alpha: float, bound: float | None, eigenvalue_min: float = EIGENVALUE_MIN
    ) -> None:
        self._matrix = curvature.copy()
        self._matrix.ravel()[:: len(curvature) + 1] += alpha
        self._bound = bound
        self._factor = Factor(self._matrix, eigenvalue_min)

    def step(self, theta: Array, gradient: Array, multiplier: float) -> tuple[Array, float]:
        """Return the step from theta, (d,), in the ball, to the minimum, and the minimum's mu.

        gradient: (d,), the quadratic's at theta. multiplier: where to begin the search for mu.
        """
        inside = self._factor.solve(-gradient)
        if self._bound is None or not dnrm2(theta + inside) > self._bound:
            return inside, 0.0
        return self._boundary(theta, gradient, self._bound, multiplier)

    def _boundary(self, theta: Array, gradient: Array, bound: float, multiplier: float) -> tuple[Array, float]:
        """Solve the model on the sphere: find mu > 0 with ||z|| = S, (matrix + mu I) z = matrix theta - F.

        z - theta is solved for instead of z, so that near the solution the step keeps all its digits.
        From a mu below the root Newton's iteration for 1/||z(mu)|| = 1/S rises to it; the bracket catches the
        rest. mu is at most ||matrix theta - F|| / S, because the matrix is positive semi-definite.
        """
        matrix = self._matrix
        low = 0.0
        high = dnrm2(matrix.dot(theta) - gradient) / bound
        mu = min(multiplier, high)
        landed = theta
        shifted = matrix.copy()
        shifted_diagonal = shifted.ravel()[:: len(matrix) + 1]
        diagonal = matrix.diagonal()
        for _ in range(_SECULAR_MAX):
            np.add(diagonal, mu, out=shifted_diagonal)
            factor = Factor(shifted)
            landed = theta + factor.solve(-(gradient + mu * theta))
            norm = dnrm2(landed)
            if abs(norm - bound) <= _SECULAR_TOLERANCE * bound:
                break
            if norm > bound:
                low = mu
            else:
                high = mu
            quadratic = float(landed.dot(factor.solve(landed)))
            following = mu + (norm / bound - 1.0) * norm * norm / quadratic if quadratic > 0.0 else nan
            if not low < following < high:
                following = 0.5 * (low + high)
            if following == mu:
                break
            mu = following
        return project(landed, bound) - theta, mu
