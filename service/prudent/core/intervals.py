"""Asymptotic intervals for the risk at given features: what an explanation shows, and the index never uses.

With H = sum d2 x x^T + alpha I and J = sum d1^2 x x^T, both at the estimate, the estimated risk <theta, x> has
the sandwich variance x^T H^-1 J H^-1 x. The interval is

    <theta, x> +- t sqrt(n / (n - d) x^T H^-1 J H^-1 x)

at 95%, with t the quantile of Student's distribution with n - d degrees of freedom.

An estimator knows its J (`Estimator.score_moments`). The exact minimiser keeps its observations and sums
d1^2 <x_i, H^-1 x>^2 over them: the spread of rewards may then differ from arm to arm. Ridge and one pass keep none and
take J = (sum d1^2 / n) sum x x^T, which is the same where the spread does not depend on the features, as in a
multi-armed campaign, where every arm has sums of its own; where it does, the interval is too narrow at features of a
wide spread.

There is no interval, and nan is returned,
- for online gradient descent, whose estimate need not have come near the minimiser that the variance is about;
- with fewer than `SPARE_MIN` observations more than parameters, or from a fit without a certificate;
- where the ball binds: the estimate is then not asymptotically normal;
- where less than `DATA_SHARE_MIN` of x^T H^-1 x comes from observations and the rest from the ridge: the variance
  would be that of the ridge's zero;
- where the rewards were all equal, as far as that is known: they do not show how much the next one may differ;
- where summing over the observations would take more than `PRODUCTS_MAX` products.

The intervals are not a guarantee: they are asymptotic, omit the ridge's bias, and ignore that the policy chose what
was observed.
Source: Huber 1967; White 1980, with MacKinnon & White's factor n / (n - d) of 1985.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotrs
from scipy.special import stdtrit

from prudent.core.estimators import Estimator, ScoreMoments
from prudent.core.estimators.blocks import MAGNITUDE_MAX
from prudent.core.measures import Array

LEVEL = 0.95
SPARE_MIN = 10
"""Observations in excess of parameters: the variance is estimated from these."""
DATA_SHARE_MIN = 0.9
PRODUCTS_MAX = 500_000_000
"""Observations x features x candidates: about a tenth of a second."""


def risk_intervals(estimator: Estimator, rows: Array, blocks: NDArray[np.intp] | None, *, has_intercept: bool) -> Array:
    """Return the ends of the interval of each candidate, (K, 2) in reward units; nan where there is none.

    estimator: refreshed. rows: (K, d), features as the model sees them; blocks: (K,), None for the shared model.
    has_intercept: whether the last feature is always 1.
    """
    ends = np.full((len(rows), 2), np.nan)
    places = np.zeros(len(rows), dtype=np.intp) if blocks is None else blocks
    moments: dict[int, ScoreMoments] = {}
    products = 0
    for block, candidates in zip(*(found.tolist() for found in np.unique(places, return_counts=True)), strict=True):
        found = estimator.score_moments(block, has_intercept=has_intercept)
        if found is not None and found.observations - rows.shape[1] >= SPARE_MIN:
            moments[block] = found
            products += candidates * found.products
    if products > PRODUCTS_MAX:
        return ends
    for block, found in moments.items():
        chosen = places == block
        ends[chosen] = _of_block(estimator, block, rows[chosen], found)
    return ends


def _of_block(estimator: Estimator, block: int, rows: Array, moments: ScoreMoments) -> Array:
    """Return the ends for candidates (K, d) of one block, (K, 2)."""
    spare = moments.observations - rows.shape[1]
    alpha = estimator.regularization
    images, has_failed = _solve(estimator.weighted_gram[block], alpha, rows)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        squares = moments.quadratics(images)
        data_shares = 1.0 - alpha * np.vecdot(images, images) / np.vecdot(rows, images)
        spreads = np.sqrt(squares * (moments.observations / spare))
        halves = float(stdtrit(spare, 0.5 + LEVEL / 2)) * spreads
        exists = (data_shares >= DATA_SHARE_MIN) & (halves > 0.0) & (halves <= MAGNITUDE_MAX) & (not has_failed)
    halves = np.where(exists, halves, np.nan)
    estimates = rows @ estimator.theta[block]
    return np.column_stack([estimates - halves, estimates + halves])


def _solve(matrix: Array, alpha: float, rows: Array) -> tuple[Array, bool]:
    """Return H^-1 x of each row, (K, d), and whether H has no factor."""
    shifted = matrix.copy()
    shifted.flat[:: len(matrix) + 1] += alpha
    lower, failed = dpotrf(shifted.T, lower=1)
    if failed:
        return np.full_like(rows, np.nan), True
    return np.ascontiguousarray(dpotrs(lower, rows.T, lower=1)[0].T), False
