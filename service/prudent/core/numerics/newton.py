"""The constrained empirical risk minimiser.

It solves, over theta in R^d with ||theta|| <= S,

    minimise f(theta) = sum_s L(y_s, <theta, x_s>) + alpha/2 ||theta||^2 .

With F(theta) = sum d1 x + alpha theta, theta is the solution if and only if there is a mu with

    F(theta) + mu theta = 0,    mu >= 0,    mu (S - ||theta||) = 0 .

Method: damped Newton. With H = sum d2 x x^T + alpha I, each step s minimises the quadratic model

    <F, s> + s^T H s / 2    over ||theta + s|| <= S

(`QuadraticModel`); where the ball binds, the model's own mu solves the secular equation 1/||z(mu)|| = 1/S by Newton's
method inside a bracket. The ball is convex, so every shortened step stays in it, and a step is shortened until f falls
enough (Armijo) or the gradient shrinks tenfold.

Stopping rules:
1. Certified: ||F + mu theta||_inf is at most `CERTIFICATE` of the largest sum of the sizes of the terms that cancel
   in it. A certified point is polished by further full steps while they still matter; for the piecewise quadratic
   losses such a step is the exact weighted least squares solution on its active set.
2. No step lowers f, or `ITERATIONS_MAX` steps are taken: the solution is returned with `certified` False.

Fallback: where H has no Cholesky factor, or one that has lost its digits, steps leave out the directions that the data
do not determine (`Factor`); where such steps stop making progress, these directions are tried as well.

Source: the optimality conditions of the ball-constrained problem. This replaces the projection of
Saux & Maillard 2023, which is not well posed where d2 jumps.
"""

import math
from dataclasses import dataclass

import numpy as np

from prudent.core.measures import Array, Loss
from prudent.core.numerics.positive_definite import EIGENVALUE_MIN, Factor, QuadraticModel, fitted_multiplier, project

ITERATIONS_MAX = 200
"""Newton steps a solve may take."""

CERTIFICATE = 1e-12
"""The gradient a certificate allows, as a part of the size of what cancels in it."""

POLISH_MIN = 1e-13
"""Steps from a certified point that are smaller than this part of theta are not taken."""

_ARMIJO = 1e-4
_SLACK = 1e-14
_HALVINGS_MAX = 60
_POLISHES_MAX = 3
_CONTRACTION = 0.1
_CORRECTED_MAX = 1e4
_FALL_MAX = 100.0
_FORMED_MAX = 8


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """A theta, (d,), with the predictions, derivatives and certificate there.

    predictions, slopes (d1), curvatures (d2): (n,). gradient: F, (d,). multiplier: mu. residual:
    ||F + mu theta||_inf. scale: (d,), the sums of sizes the certificate compares it with; empty where a
    cheaper bound on them has already decided.
    """

    theta: Array
    predictions: Array
    slopes: Array
    curvatures: Array
    gradient: Array
    multiplier: float
    residual: float
    scale: Array
    certified: bool


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """What a solve found.

    theta: (d,), in reward units per feature unit. multiplier: mu, 0 inside the ball. certified: whether the
    certificate holds. iterations: Newton steps taken. weighted_gram: (d, d), sum of d2 x x^T at theta,
    exactly symmetric. d1_squares, d2_total: sums of d1^2 and d2 at theta. point: the rest of what is known there.
    """

    theta: Array
    multiplier: float
    certified: bool
    iterations: int
    weighted_gram: Array
    d1_squares: float
    d2_total: float
    point: Point


def minimise(
    loss: Loss,
    features: Array,
    rewards: Array,
    regularization: float,
    bound: float | None = None,
    start: Array | None = None,
    multiplier: float = 0.0,
    guess: Array | None = None,
) -> Solution:
    """Minimise the penalised loss over the ball of radius `bound` (everywhere if None).

    features: (n, d) float64; rewards: (n,) float64; n may be 0, which gives theta = 0. regularization:
    alpha > 0. start: (d,), where to begin, projected on the ball if need be; without it the better of zero
    and the ridge fit. multiplier: where to begin the search for mu. The start affects the speed and the last
    digits, not the solution, which is unique. guess: (d, d), about sum d2 x x^T at the start, symmetric and
    positive semi-definite; for a smooth loss it saves forming that sum at every step.
    Never raises for numerical reasons and never warns.
    Raises ValueError for a regularization or bound that is not positive and finite.
    """
    if not 0.0 < regularization < math.inf:
        raise ValueError(f"regularization must be positive and finite, not {regularization}")
    if bound is not None and not 0.0 < bound < math.inf:
        raise ValueError(f"the bound must be positive and finite, not {bound}")
    problem = _Problem(loss, features, rewards, regularization, bound)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
        return _newton(problem, _begin(problem, start), multiplier, guess)


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

    def at(self, theta: Array) -> Point:
        predictions = theta @ self.columns
        slopes = self.loss.d1(self.rewards, predictions)
        curvatures = self.loss.d2(self.rewards, predictions)
        gradient = self.columns @ slopes + self.alpha * theta
        multiplier = fitted_multiplier(theta, gradient, self.bound)
        residual = float(np.abs(gradient + multiplier * theta).max())
        scale = self._scale(residual, theta, slopes, curvatures)
        # An infinite scale would certify anything finite.
        certified = len(scale) > 0 and residual <= CERTIFICATE * float(scale.max()) < math.inf
        return Point(theta, predictions, slopes, curvatures, gradient, multiplier, residual, scale, certified)

    def _scale(self, residual: float, theta: Array, slopes: Array, curvatures: Array) -> Array:
        """Return the sizes of what cancels in the gradient, (d,), or nothing where the residual is too large.

        d1 x is a rounded sum: of sizes |d1| |x|, and, since the prediction is itself rounded, of sizes
        d2 (|y| + sum |x_i| |theta_i|) |x|. For the piecewise quadratic losses the second is the larger.
        """
        theta_sizes = np.abs(theta)
        slope_sizes = np.abs(slopes)
        # First a bound that needs no pass over the features; far from the solution it decides.
        largest = self._largest * float(theta_sizes.sum())
        total = float(slope_sizes.sum()) + float(curvatures.dot(self._reward_sizes + largest))
        if not residual <= CERTIFICATE * (self._largest * total + self.alpha * float(theta_sizes.max())):
            return np.empty(0)
        if self._sizes is None:
            self._sizes = np.abs(self.columns)
        sizes = np.maximum(slope_sizes, curvatures * (self._reward_sizes + theta_sizes @ self._sizes))
        scale: Array = self._sizes @ sizes + self.alpha * theta_sizes
        return scale

    def objective(self, point: Point) -> float:
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

    A piecewise quadratic loss's changes for the few observations whose residual changed sign. The matrix is
    computed in full once a solve, so these corrections do not accumulate.
    """
    changed = np.flatnonzero(before != after)
    if not len(changed):
        return gram
    if 4 * len(changed) > len(before):
        return weighted_gram(columns, after)
    moved = columns[:, changed]
    correction = (moved * (after[changed] - before[changed])) @ moved.T
    following: Array = gram + 0.5 * (correction + correction.T)
    # What a dominating observation leaves behind when its weight falls is rounding.
    if (_FALL_MAX * following.diagonal() < gram.diagonal()).any():
        return weighted_gram(columns, after)
    return following


def _begin(problem: _Problem, start: Array | None) -> Point:
    if start is not None:
        point = problem.at(problem.project(np.array(start, dtype=np.float64)))
        # A steep exponential is left at one unit of the exponent a step: from far off, start over instead.
        steepest = len(problem.rewards) * problem.loss.curvature_max
        if float(point.curvatures.sum()) <= steepest * (1.0 + 1e-9) and math.isfinite(point.residual):
            return point
    zero = problem.at(np.zeros(len(problem.columns)))
    if zero.certified:
        return zero
    # The ridge fit with the loss's curvature at y = xi: near the solution, and for a steep loss a way
    # out of the region where its curvature overflows at theta = 0.
    matrix = problem.columns @ problem.columns.T
    matrix.flat[:: len(matrix) + 1] += problem.alpha / problem.loss.d2(0.0, 0.0)
    fitted = Factor(matrix).solve(problem.columns @ problem.rewards)
    ridge = problem.at(problem.project(fitted))
    if not math.isfinite(ridge.residual):
        return zero
    return ridge if not problem.objective(zero) <= problem.objective(ridge) else zero


def _newton(problem: _Problem, point: Point, multiplier: float, guess: Array | None) -> Solution:
    iterations = polishes = 0
    eigenvalue_min = EIGENVALUE_MIN
    objective: float | None = None
    gram = weighted_gram(problem.columns, point.curvatures) if guess is None else guess
    is_current = guess is None
    while True:
        model = QuadraticModel(gram, problem.alpha, problem.bound, eigenvalue_min)
        step, multiplier = model.step(point.theta, point.gradient, max(multiplier, point.multiplier))
        following: Point | None = None
        if point.certified and polishes < _POLISHES_MAX:
            following = _polished(problem, point, step)
            polishes += 1
        elif not point.certified and iterations < ITERATIONS_MAX:
            following, objective = _search(problem, point, objective, step)
            if following is None or following.residual > 0.5 * point.residual:
                if is_current and eigenvalue_min:
                    # What is left may lie along directions that count as undetermined: try those too.
                    eigenvalue_min = 0.0
                    following = following or point
                elif not is_current:
                    following = following or point
        if following is None:
            break
        iterations += not point.certified
        gram, is_current = _following_gram(problem, gram, point, following)
        point = following
    return Solution(
        theta=point.theta,
        multiplier=point.multiplier,
        certified=point.certified,
        iterations=iterations,
        weighted_gram=gram if is_current else weighted_gram(problem.columns, point.curvatures),
        d1_squares=float(point.slopes.dot(point.slopes)),
        d2_total=float(point.curvatures.sum()),
        point=point,
    )


def _following_gram(problem: _Problem, gram: Array, before: Point, after: Point) -> tuple[Array, bool]:
    """Return the weighted Gram matrix for the step from `after`, and whether it is the one there.

    A smooth loss's changes with every step. In many dimensions it takes longer to form than a step; then, near the
    solution, where steps with the old one shrink the gradient tenfold, the old one will do.
    """
    if not problem.loss.is_piecewise_quadratic:
        is_costly = len(gram) > _FORMED_MAX
        if after.certified or (is_costly and after.residual <= _CONTRACTION * before.residual):
            return gram, False
    elif problem.loss.conditioning <= _CORRECTED_MAX:
        return _moved_gram(problem.columns, gram, before.curvatures, after.curvatures), True
    return weighted_gram(problem.columns, after.curvatures), True


def _polished(problem: _Problem, point: Point, step: Array) -> Point | None:
    """Return the full step from a certified point, or None where it is too small or no improvement."""
    if float(np.abs(step).max()) <= POLISH_MIN * float(np.abs(point.theta).max()):
        return None
    candidate = problem.at(point.theta + step)
    return candidate if candidate.certified and candidate.residual < point.residual else None


def _search(problem: _Problem, point: Point, objective: float | None, step: Array) -> tuple[Point | None, float | None]:
    """Return the first of the halved steps that is certified, shrinks the gradient tenfold or lowers f enough.

    And f there, if known.

    objective: f at the point if known. Returns (None, None) where no step will do.
    """
    if not np.isfinite(step).all():
        return None, None
    slope = float(point.gradient.dot(step))
    length = 1.0
    for _ in range(_HALVINGS_MAX):
        trial = problem.at(point.theta + length * step)
        # For a convex f a gradient that has shrunk this much is nearer to the solution; f costs as much as a gradient.
        if trial.certified or trial.residual <= _CONTRACTION * point.residual:
            return trial, None
        if objective is None:
            objective = problem.objective(point)
        reached = problem.objective(trial)
        target = objective + _ARMIJO * length * slope + _SLACK * abs(objective)
        if reached <= target and math.isfinite(trial.residual):
            return trial, reached
        length *= 0.5
    return None, None
