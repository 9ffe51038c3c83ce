"""The constrained empirical risk minimiser.

It solves, over theta in R^d with ||theta|| <= S,

    minimise f(theta) = sum_s L(y_s, <theta, x_s>) + alpha/2 ||theta||^2 .

With F(theta) = sum d1 x + alpha theta, theta is the solution if and only if there is a mu with

    F(theta) + mu theta = 0,    mu >= 0,    mu (S - ||theta||) = 0 .

Method: damped Newton. Each step minimises the quadratic model of f over the ball; where the ball binds, the
model's own mu solves the secular equation 1/||z(mu)|| = 1/S by Newton's method inside a bracket. The ball is
convex, so every shortened step stays in it, and a step is shortened until f falls enough (Armijo).

Stops when certified: ||F + mu theta||_inf is at most 1e-12 of the largest sum of the sizes of the terms that
cancel in it. A certified point is then polished by further full steps while they still matter; for the
squared and the expectile loss such a step is the exact weighted least squares solution on its active set.
Otherwise it stops when no step lowers f or after `ITERATIONS_MAX` steps, and says so.

Source: the optimality conditions of the ball-constrained problem. This replaces the projection of
Saux & Maillard 2023, which is not well posed for the expectile.
"""

import math
from dataclasses import dataclass

import numpy as np

from service.core.factor import EIGENVALUE_MIN, Factor
from service.core.losses import Array, Loss

ITERATIONS_MAX = 200
"""Newton steps a solve may take."""

_CERTIFICATE = 1e-12
_ARMIJO = 1e-4
_SLACK = 1e-14
_HALVINGS_MAX = 60
_POLISHES_MAX = 3
_SECULAR_MAX = 60
_SECULAR_TOLERANCE = 1e-14


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """What a solve found.

    theta: (d,), in reward units a feature unit. multiplier: mu, 0 inside the ball. certified: whether the
    certificate holds. iterations: Newton steps taken. weighted_gram: (d, d), sum of d2 x x^T at theta,
    exactly symmetric. d1_squares, d2_total: sums of d1^2 and d2 at theta.
    """

    theta: Array
    multiplier: float
    certified: bool
    iterations: int
    weighted_gram: Array
    d1_squares: float
    d2_total: float


def minimise(
    loss: Loss,
    features: Array,
    rewards: Array,
    regularization: float,
    bound: float | None = None,
    start: Array | None = None,
    multiplier: float = 0.0,
) -> Solution:
    """Minimise the penalised loss over the ball of radius `bound` (everywhere if None).

    features: (n, d) float64; rewards: (n,) float64; n may be 0, which gives theta = 0. regularization:
    alpha > 0. start: (d,), where to begin, projected on the ball if need be; without it the better of zero
    and the ridge fit. multiplier: where to begin the search for mu. The start affects the speed and the last
    digits, not the solution, which is unique. Never raises for numerical reasons and never warns.
    Raises ValueError for a regularization or bound that is not positive and finite.
    """
    if not 0.0 < regularization < math.inf:
        raise ValueError(f"regularization must be positive and finite, not {regularization}")
    if bound is not None and not 0.0 < bound < math.inf:
        raise ValueError(f"the bound must be positive and finite, not {bound}")
    problem = _Problem(loss, features, rewards, regularization, bound)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        return _newton(problem, _begin(problem, start), multiplier)


@dataclass(frozen=True, slots=True, eq=False)
class _Point:
    """A theta with what is known there; residual is ||F + mu theta||_inf."""

    theta: Array
    predictions: Array
    slopes: Array
    curvatures: Array
    gradient: Array
    multiplier: float
    residual: float
    certified: bool


class _Problem:
    __slots__ = ("_largest", "_reward_sizes", "_sizes", "alpha", "bound", "columns", "loss", "rewards")

    def __init__(self, loss: Loss, features: Array, rewards: Array, alpha: float, bound: float | None) -> None:
        self.loss = loss
        self.columns = features.T
        self.rewards = rewards
        self.alpha = alpha
        self.bound = bound
        self._reward_sizes = np.abs(rewards)
        self._largest = max(float(features.max()), -float(features.min())) if len(rewards) else 0.0
        self._sizes: Array | None = None

    def at(self, theta: Array) -> _Point:
        predictions = theta @ self.columns
        slopes = self.loss.d1(self.rewards, predictions)
        curvatures = self.loss.d2(self.rewards, predictions)
        gradient = self.columns @ slopes + self.alpha * theta
        multiplier = self._multiplier(theta, gradient)
        residual = float(np.abs(gradient + multiplier * theta).max())
        certified = self._certifies(residual, theta, slopes, curvatures)
        return _Point(theta, predictions, slopes, curvatures, gradient, multiplier, residual, certified)

    def _multiplier(self, theta: Array, gradient: Array) -> float:
        """Return the mu that fits theta best; 0 inside the ball, so complementarity always holds."""
        if self.bound is None:
            return 0.0
        square = float(theta.dot(theta))
        if square < (1.0 - 1e-12) * self.bound * self.bound:
            return 0.0
        return max(0.0, -float(gradient.dot(theta)) / square)

    def _certifies(self, residual: float, theta: Array, slopes: Array, curvatures: Array) -> bool:
        """Whether the residual is zero as far as float64 can tell.

        d1 x is a rounded sum: of sizes |d1| |x|, and, since the prediction is itself rounded, of sizes
        d2 (|y| + sum |x_i| |theta_i|) |x|. For the squared and expectile losses the second is the larger.
        """
        theta_sizes = np.abs(theta)
        slope_sizes = np.abs(slopes)
        # First a bound that needs no pass over the features; far from the solution it decides.
        largest = self._largest * float(theta_sizes.sum())
        total = float(slope_sizes.sum()) + float(curvatures.dot(self._reward_sizes + largest))
        if not residual <= _CERTIFICATE * (self._largest * total + self.alpha * float(theta_sizes.max())):
            return False
        if self._sizes is None:
            self._sizes = np.abs(self.columns)
        sizes = np.maximum(slope_sizes, curvatures * (self._reward_sizes + theta_sizes @ self._sizes))
        scale = float((self._sizes @ sizes + self.alpha * theta_sizes).max())
        # An infinite scale would certify anything finite.
        return residual <= _CERTIFICATE * scale < math.inf

    def objective(self, point: _Point) -> float:
        losses = self.loss.value(self.rewards, point.predictions)
        return float(losses.sum()) + 0.5 * self.alpha * float(point.theta.dot(point.theta))

    def project(self, theta: Array) -> Array:
        return theta if self.bound is None else project(theta, self.bound)


def weighted_gram(columns: Array, curvatures: Array) -> Array:
    """Return sum d2 x x^T, (d, d), exactly symmetric; columns: (d, n), curvatures: (n,), not negative."""
    # A A^T goes through BLAS's symmetric product: half the work, and symmetric to the bit.
    roots = columns * np.sqrt(curvatures)
    return roots @ roots.T


def _moved_gram(columns: Array, gram: Array, before: Array, after: Array) -> Array:
    """Return the weighted Gram matrix after the curvatures have changed, in the cheaper way.

    The expectile's curvature changes for the few observations whose residual changed sign. The matrix is
    computed in full once a solve, so these corrections do not accumulate.
    """
    changed = np.flatnonzero(before != after)
    if 4 * len(changed) > len(before):
        return weighted_gram(columns, after)
    if not len(changed):
        return gram
    moved = columns[:, changed]
    correction = (moved * (after[changed] - before[changed])) @ moved.T
    return gram + 0.5 * (correction + correction.T)


def project(theta: Array, bound: float) -> Array:
    """Return the point of the ball of radius `bound` nearest to theta, (d,); theta itself if inside."""
    norm = float(np.linalg.norm(theta))
    return theta if norm <= bound else theta * (bound / norm)


def _begin(problem: _Problem, start: Array | None) -> _Point:
    if start is not None:
        point = problem.at(problem.project(np.array(start, dtype=np.float64)))
        # A steep exponential is left at one unit of the exponent a step: from far off, start over instead.
        steepest = len(problem.rewards) * problem.loss.curvature_max
        if float(point.curvatures.sum()) <= steepest * (1.0 + 1e-9) and math.isfinite(point.residual):
            return point
    zero = problem.at(np.zeros(len(problem.columns)))
    if zero.certified:
        return zero
    # The ridge fit with the loss's curvature at y = xi: near the solution, and for the entropic loss a way
    # out of the region where exp(gamma y) overflows at theta = 0.
    matrix = problem.columns @ problem.columns.T
    matrix.flat[:: len(matrix) + 1] += problem.alpha / problem.loss.d2(0.0, 0.0)
    fitted = Factor(matrix).solve(problem.columns @ problem.rewards)
    ridge = problem.at(problem.project(fitted))
    if not math.isfinite(ridge.residual):
        return zero
    return ridge if not problem.objective(zero) <= problem.objective(ridge) else zero


def _newton(problem: _Problem, point: _Point, multiplier: float) -> Solution:
    iterations = polishes = 0
    eigenvalue_min = EIGENVALUE_MIN
    objective: float | None = None
    gram = weighted_gram(problem.columns, point.curvatures)
    while True:
        step, multiplier = _direction(problem, point, gram, multiplier, eigenvalue_min)
        following: _Point | None = None
        if point.certified and polishes < _POLISHES_MAX:
            following = _polished(problem, point, step)
            polishes += 1
        elif not point.certified and iterations < ITERATIONS_MAX:
            following, objective = _search(problem, point, objective, step)
            if eigenvalue_min and (following is None or following.residual > 0.5 * point.residual):
                # What is left may lie along directions that count as undetermined: try those too.
                eigenvalue_min = 0.0
                following = following or point
        if following is None:
            break
        iterations += not point.certified
        gram = _moved_gram(problem.columns, gram, point.curvatures, following.curvatures)
        point = following
    return Solution(
        theta=point.theta,
        multiplier=point.multiplier,
        certified=point.certified,
        iterations=iterations,
        weighted_gram=gram,
        d1_squares=float(point.slopes.dot(point.slopes)),
        d2_total=float(point.curvatures.sum()),
    )


def _polished(problem: _Problem, point: _Point, step: Array) -> _Point | None:
    """Return the full step from a certified point, or None where it is too small or no improvement."""
    if float(np.abs(step).max()) <= 1e-13 * float(np.abs(point.theta).max()):
        return None
    candidate = problem.at(point.theta + step)
    return candidate if candidate.certified and candidate.residual < point.residual else None


def _search(
    problem: _Problem, point: _Point, objective: float | None, step: Array
) -> tuple[_Point | None, float | None]:
    """Return the first of the halved steps that is certified or lowers f enough, and f there if known.

    objective: f at the point if known. Returns (None, None) where no step will do.
    """
    if not np.isfinite(step).all():
        return None, None
    slope = float(point.gradient.dot(step))
    length = 1.0
    for _ in range(_HALVINGS_MAX):
        trial = problem.at(point.theta + length * step)
        if trial.certified:
            return trial, None
        if objective is None:
            objective = problem.objective(point)
        reached = problem.objective(trial)
        target = objective + _ARMIJO * length * slope + _SLACK * abs(objective)
        if reached <= target and math.isfinite(trial.residual):
            return trial, reached
        length *= 0.5
    return None, None


def _direction(
    problem: _Problem, point: _Point, gram: Array, multiplier: float, eigenvalue_min: float
) -> tuple[Array, float]:
    """Return the step to the minimum of the quadratic model over the ball, and the model's mu."""
    matrix = gram.copy()
    matrix.flat[:: len(matrix) + 1] += problem.alpha
    inside = Factor(matrix, eigenvalue_min).solve(-point.gradient)
    if problem.bound is None or not float(np.linalg.norm(point.theta + inside)) > problem.bound:
        return inside, 0.0
    return _boundary(matrix, point, problem.bound, max(multiplier, point.multiplier))


def _boundary(matrix: Array, point: _Point, bound: float, multiplier: float) -> tuple[Array, float]:
    """Solve the model on the sphere: find mu > 0 with ||z|| = S, (matrix + mu I) z = matrix theta - F.

    z - theta is solved for instead of z, so that near the solution the step keeps all its digits.
    From a mu below the root Newton's iteration for 1/||z(mu)|| = 1/S rises to it; the bracket catches the
    rest. mu is at most ||matrix theta - F|| / S, because the matrix is positive semi-definite.
    """
    low = 0.0
    high = float(np.linalg.norm(matrix @ point.theta - point.gradient)) / bound
    mu = min(multiplier, high)
    landed = point.theta
    shifted = matrix.copy()
    diagonal = matrix.diagonal()
    for _ in range(_SECULAR_MAX):
        shifted.flat[:: len(matrix) + 1] = diagonal + mu
        factor = Factor(shifted)
        landed = point.theta + factor.solve(-(point.gradient + mu * point.theta))
        norm = float(np.linalg.norm(landed))
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
    return project(landed, bound) - point.theta, mu
