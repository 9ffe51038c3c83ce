"""Asymptotic intervals for the risk at given features: what an explanation shows, and the index never uses.

With H = sum d2 x x^T + alpha I and J = sum d1^2 x x^T, both at the estimate, the estimated risk <theta, x> has
the sandwich variance x^T H^-1 J H^-1 x. The interval is

    <theta, x> +- t sqrt(n / (n - d) x^T H^-1 J H^-1 x),    t of Student's law with n - d degrees of freedom, 95%.

J is had in two ways. The exact minimiser keeps its observations, and sum d1^2 <x_i, H^-1 x>^2 is summed over them: the
spread of rewards may then differ from arm to arm. Ridge and one pass keep none. They take J = (sum d1^2 / n) sum x x^T,
which is the same where the spread does not depend on the features, as in a multi-armed campaign, where every arm
has sums of its own; where it does, the interval is too narrow at features of a wide spread.

No interval is had, and nan is returned,
- for online gradient descent, whose estimate need not have come near the minimiser that the variance is about;
- with fewer than `SPARE_MIN` observations more than parameters, or from a fit without a certificate;
- where the ball binds: the estimate is then not asymptotically normal;
- where less than `DATA_SHARE_MIN` of x^T H^-1 x comes from observations and the rest from the ridge: the variance
  would be that of the ridge's zero;
- where the rewards were all equal, as far as that is known: they do not show how much the next one may differ;
- where summing over the observations would take more than `PRODUCTS_MAX` products.

The intervals are no guarantee: they are asymptotic, leave the ridge's bias out, and take no account of the policy
having chosen what was observed.
Source: Huber 1967; White 1980, with MacKinnon & White's factor n / (n - d) of 1985.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.special import stdtrit

from prudent.core.estimators import Estimator, ExactMinimizer, OnePass, OnlineGradient, Ridge
from prudent.core.estimators.blocks import MAGNITUDE_MAX
from prudent.core.measures import Array

LEVEL = 0.95
SPARE_MIN = 10
"""Observations more than parameters: the variance is estimated from these."""
DATA_SHARE_MIN = 0.9
PRODUCTS_MAX = 500_000_000
"""Observations x features x candidates: about a tenth of a second."""
_CHUNK_PRODUCTS = 2**18

Settling: TypeAlias = ExactMinimizer | Ridge | OnePass
"""Estimators whose estimate comes near the minimiser."""


def risk_intervals(estimator: Estimator, rows: Array, blocks: NDArray[np.intp] | None, *, has_intercept: bool) -> Array:
    """Return the ends of the interval of each candidate, (K, 2) in reward units; nan where there is none.

    estimator: refreshed. rows: (K, d), features as the model sees them; blocks: (K,), None for the shared model.
    has_intercept: whether the last feature is 1 always.
    """
    ends = np.full((len(rows), 2), np.nan)
    if isinstance(estimator, OnlineGradient):
        return ends
    places = np.zeros(len(rows), dtype=np.intp) if blocks is None else blocks
    found, candidates = np.unique(places, return_counts=True)
    counts = [_count(estimator, block, has_intercept=has_intercept) for block in found.tolist()]
    products = rows.shape[1] * int(candidates @ np.array(counts))
    if isinstance(estimator, ExactMinimizer) and products > PRODUCTS_MAX:
        return ends
    for block, count in zip(found.tolist(), counts, strict=True):
        if count - rows.shape[1] >= SPARE_MIN and not _is_off(estimator, block):
            chosen = places == block
            ends[chosen] = _of_block(estimator, block, rows[chosen], count)
    return ends


def _of_block(estimator: Settling, block: int, rows: Array, count: int) -> Array:
    """Return the ends for candidates (K, d) of one block with `count` observations, (K, 2)."""
    spare = count - rows.shape[1]
    alpha, theta = estimator.regularization, estimator.theta[block]
    images, has_failed = _solve(estimator.weighted_gram[block], alpha, rows)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        squares = (
            _summed(estimator, block, images)
            if isinstance(estimator, ExactMinimizer)
            else _pooled(estimator, block, images, count)
        )
        quadratics = np.vecdot(rows, images)
        data_shares = 1.0 - alpha * np.vecdot(images, images) / quadratics
        spreads = np.sqrt(squares * (count / spare))
        halves = float(stdtrit(spare, 0.5 + LEVEL / 2)) * spreads
        is_had = (data_shares >= DATA_SHARE_MIN) & (halves > 0.0) & (halves <= MAGNITUDE_MAX) & (not has_failed)
    halves = np.where(is_had, halves, np.nan)
    estimates = rows @ theta
    return np.column_stack([estimates - halves, estimates + halves])


def _solve(matrix: Array, alpha: float, rows: Array) -> tuple[Array, bool]:
    """Return H^-1 x of each row, (K, d), and whether H has no factor."""
    shifted = matrix.copy()
    shifted.flat[:: len(matrix) + 1] += alpha
    lower, failed = dpotrf(shifted.T, lower=1)
    if failed:
        return np.full_like(rows, np.nan), True
    return np.ascontiguousarray(dpotrs(lower, rows.T, lower=1)[0].T), False


def _count(estimator: Settling, block: int, *, has_intercept: bool) -> int:
    """Return the block's number of observations; 0 where one pass does not know it."""
    if not isinstance(estimator, OnePass):
        return estimator.count(block)
    if len(estimator.theta) == 1:
        return estimator.observations
    return round(float(estimator.gram[block][-1, -1])) if has_intercept else 0


def _is_off(estimator: Settling, block: int) -> bool:
    """Whether theta is not where the variance is about: on the ball's surface, or kept without a certificate."""
    if isinstance(estimator, ExactMinimizer):
        return bool(estimator.multiplier[block] > 0.0) or not estimator.is_certified(block)
    bound = estimator.bound if isinstance(estimator, OnePass) else None
    return bound is not None and float(np.linalg.norm(estimator.theta[block])) >= (1.0 - 1e-12) * bound


def _summed(estimator: ExactMinimizer, block: int, images: Array) -> Array:
    """Return sum d1^2 <x_i, v>^2 for each v, (K, d); (K,). O(n d K), a chunk at a time."""
    features, rewards = estimator.history(block)
    theta, loss = estimator.theta[block], estimator.loss
    if float(np.ptp(rewards)) == 0.0:
        return np.full(len(images), np.nan)
    total = np.zeros(len(images))
    size = max(1, _CHUNK_PRODUCTS // (len(images) + len(theta)))
    for start in range(0, len(rewards), size):
        chunk = features[start : start + size]
        slopes = loss.d1(rewards[start : start + size], chunk @ theta)
        projections = images @ chunk.T  # along memory, as the history lies
        projections *= projections
        total += projections @ (slopes * slopes)
    return total


def _pooled(estimator: Ridge | OnePass, block: int, images: Array, count: int) -> Array:
    """Return (sum d1^2 / n) v^T (sum x x^T) v for each v, (K, d); (K,)."""
    mean_square = estimator.block_d1_squares(block) / count
    return np.asarray(mean_square * np.vecdot(images @ estimator.gram[block], images))
