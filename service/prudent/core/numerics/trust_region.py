"""The minimum of a convex quadratic over a ball: the step that both the full and the incremental solver take."""

import math

import numpy as np
from scipy.linalg.blas import dnrm2

from prudent.core.measures import Array
from prudent.core.numerics.cholesky import EIGENVALUE_MIN, Factor

_SECULAR_MAX = 60
_SECULAR_TOLERANCE = 1e-14


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
            following = mu + (norm / bound - 1.0) * norm * norm / quadratic if quadratic > 0.0 else math.nan
            if not low < following < high:
                following = 0.5 * (low + high)
            if following == mu:
                break
            mu = following
        return project(landed, bound) - theta, mu
