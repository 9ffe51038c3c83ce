"""The fits of a measure that is learned in stages, to all of a block's observations at once: pure functions."""

from typing import NamedTuple

import numpy as np

from prudent.core.measures import Array, Loss, Stages
from prudent.core.measures.stages import spread_of
from prudent.core.numerics.newton import minimise, weighted_gram
from prudent.core.numerics.positive_definite import Factor

RIDGE_SHARE = 1e-6
"""Of the campaign's ridge, in stage one: what it shrinks would be taken for spread."""
_REFINEMENTS = 2


class FirstStage(NamedTuple):
    """What stage one found in n observations of dimension d.

    mean, nuisance: (d,), m and v in reward units per feature unit. spread: of the residuals y - <m, x>, reward units; 0
    where they do not scatter, or where there are too few. curvature: the nuisance's loss's average d2, for
    `Stages.nuisance_loss`. observations: n. certified: whether the nuisance is the minimiser for certain.
    """

    mean: Array
    nuisance: Array
    spread: float
    curvature: float
    observations: int
    certified: bool

    def loss(self, stages: Stages) -> Loss | None:
        """Return the nuisance's loss as it was fitted, its curvature known; None without one."""
        if self.spread == 0.0:
            return None
        return stages.nuisance_loss(self.spread, self.observations, len(self.mean), self.curvature)


def fit_first_stage(stages: Stages, features: Array, rewards: Array, regularization: float) -> FirstStage:
    """Fit the mean by least squares and the nuisance to the residuals. O(n d^2) for each of a few Newton steps.

    features: (n, d); rewards: (n,). regularization: the ridge of both; 0 is not allowed. A pure function.
    """
    mean = least_squares(features, rewards, regularization)
    residuals = rewards - features @ mean
    nuisance = np.zeros_like(mean)
    largest = float(np.abs(rewards).max()) if len(rewards) else 0.0
    spread = spread_of(residuals, largest)
    first = FirstStage(mean, nuisance, spread, 1.0, len(rewards), certified=True)
    loss = first.loss(stages)
    if loss is None:
        return first
    solution = minimise(loss, features, residuals, regularization)
    if not np.isfinite(solution.theta).all():
        return first._replace(certified=False)
    curvature = solution.d2_total / len(rewards)
    return first._replace(nuisance=solution.theta, curvature=curvature, certified=solution.certified)


def least_squares(features: Array, rewards: Array, regularization: float) -> Array:
    """Return argmin sum (y - <m, x>)^2 + regularization ||m||^2, (d,), refined where rounding took digits."""
    matrix = features.T @ features
    matrix.flat[:: len(matrix) + 1] += regularization
    factor = Factor(matrix)
    mean = factor.solve(features.T @ rewards)
    for _ in range(_REFINEMENTS):
        mean = mean + factor.solve(features.T @ (rewards - features @ mean) - regularization * mean)
    return mean


class StagedFit(NamedTuple):
    """theta, (d,), and at theta the sum of d2 x x^T, (d, d), of d1^2 and of d2; whether it is certified."""

    theta: Array
    weighted_gram: Array
    d1_squares: float
    d2_total: float
    certified: bool


def ridge_of(stages: Stages, regularization: float) -> float:
    """Return the ridge of stage one: the campaign's own where the nuisance is the risk, else next to none."""
    return regularization if stages.is_direct else RIDGE_SHARE * regularization


def fit_second_stage(
    mean: Array, gram: Array, correlation: Array, squares: float, count: int, regularization: float
) -> StagedFit:
    """Return the ridge regression of pseudo-rewards Z from sums over their residuals about the mean. O(d^3).

    correlation: sum (Z - <m, x>) x, (d,); squares: sum (Z - <m, x>)^2; gram: sum x x^T; count: n.
    """
    matrix = gram.copy()
    matrix.flat[:: len(matrix) + 1] += regularization
    moved = Factor(matrix).solve(correlation - regularization * mean)
    d1_squares = squares - 2.0 * float(moved.dot(correlation)) + float(moved.dot(gram @ moved))
    return StagedFit(mean + moved, gram, max(d1_squares, 0.0), float(count), certified=True)


def fit_directly(
    first: FirstStage, loss: Loss | None, features: Array, rewards: Array, start: Array, regularization: float
) -> StagedFit:
    """Return the mean and the minimiser of the nuisance's loss of the residuals, together. start: a nuisance, (d,).

    loss: None where the rewards lie on the mean, which is then the risk.
    """
    residuals = rewards - features @ first.mean
    if loss is None:
        gram = weighted_gram(features.T, np.ones(len(rewards)))
        return StagedFit(first.mean, gram, float(residuals.dot(residuals)), float(len(rewards)), certified=True)
    found = minimise(loss, features, residuals, regularization, start=start)
    return StagedFit(first.mean + found.theta, found.weighted_gram, found.d1_squares, found.d2_total, found.certified)


def fit_in_stages(
    stages: Stages, features: Array, rewards: Array, regularization: float
) -> tuple[FirstStage, StagedFit]:
    """Return both stages, fitted to the same observations: features (n, d), rewards (n,), n >= 1."""
    first = fit_first_stage(stages, features, rewards, ridge_of(stages, regularization))
    if stages.is_direct:
        loss = first.loss(stages)
        return first, fit_directly(first, loss, features, rewards, first.nuisance, regularization)
    added = pseudo_residuals(stages, first, features, rewards)
    gram = weighted_gram(features.T, np.ones(len(rewards)))
    squares = float(added.dot(added))
    return first, fit_second_stage(first.mean, gram, features.T @ added, squares, len(rewards), regularization)


def pseudo_residuals(stages: Stages, first: FirstStage, features: Array, rewards: Array) -> Array:
    """Return Z - <m, x> of observations, (n,)."""
    return stages.pseudo_residuals(rewards - features @ first.mean, features @ first.nuisance, first.spread)
