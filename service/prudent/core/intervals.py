"""Asymptotic intervals for the risk at given features: what an explanation shows, and the index never uses.

With H = sum d2 x x^T + alpha I and J = sum d1^2 x x^T, both at the estimate, the estimated risk <theta, x> has
the sandwich variance x^T H^-1 J H^-1 x. The interval is

    <theta, x> +- t sqrt(n / (n - d) x^T H^-1 J H^-1 x)

at 95%, with t the quantile of Student's distribution with n - d degrees of freedom.

An estimator knows its J (`Estimator.score_moments`). The exact minimiser keeps its observations and sums
d1^2 <x_i, H^-1 x>^2 over them: the spread of rewards may then differ from arm to arm. Ridge and one pass keep none and
take J = (sum d1^2 / n) sum x x^T, which is the same where the spread does not depend on the features, as in a
multi-armed campaign, where every arm has sums of its own; where it does, the interval is too narrow at features of a
wide spread. With forgetting it is about sqrt(2) times too wide: its J has the weights, where the squares of the weights
belong, as the exact minimiser has them.

There is no interval, and nan is returned with the reason in words,
- for online gradient descent, whose estimate need not have come near the minimiser that the variance is about;
- with fewer than `SPARE_MIN` observations more than parameters, or from a fit without a certificate;
- where the ball binds: the estimate is then not asymptotically normal;
- where less than `DATA_SHARE_MIN` of x^T H^-1 x comes from observations and the rest from the ridge: the variance
  would be that of the ridge's zero;
- where the ridge may have moved the estimate by more than `BIAS_SHARE_MAX` of the interval's half-width: its bias is
  alpha |<H^-1 x, theta>| <= alpha ||H^-1 x|| ||theta||, and around a biased estimate an interval covers less;
- where the rewards were all equal, as far as that is known: they do not show how much the next one may differ;
- where summing over the observations would take more than `PRODUCTS_MAX` products.

The intervals are not a guarantee: they are asymptotic, omit what is left of the ridge's bias, and ignore that the
policy chose what was observed.
Source: Huber 1967; White 1980, with MacKinnon & White's factor n / (n - d) of 1985.
"""

from typing import NamedTuple

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
BIAS_SHARE_MAX = 0.25
"""Of the half-width: at this bias a 95% interval of a normal estimate still covers 92%."""
PRODUCTS_MAX = 500_000_000
"""Observations x features x candidates: about a tenth of a second."""


TOO_MANY = "there are too many observations to sum over"
NOT_NORMAL = (
    "the estimate has no asymptotic variance: it comes from gradient descent, its norm is at parameter_bound, or its "
    "fit is not certified"
)
TOO_FEW = f"there are fewer than {SPARE_MIN} observations more than parameters"
ALL_EQUAL = "all rewards so far are equal"
NO_DATA = "there are hardly any observations with such features"
PULLED = f"the regularization may have moved the estimate by more than {BIAS_SHARE_MAX:g} of the interval's half-width"
NOT_COMPUTED = "it cannot be computed in float64"


class RiskIntervals(NamedTuple):
    """Intervals of K candidates. ends: (K, 2) in reward units, nan where there is none; notes: (K,) why, else None."""

    ends: Array
    notes: list[str | None]


def risk_intervals(
    estimator: Estimator, rows: Array, blocks: NDArray[np.intp] | None, *, has_intercept: bool
) -> RiskIntervals:
    """Return the interval of each candidate.

    estimator: refreshed. rows: (K, d), features as the model sees them; blocks: (K,), None for the shared model.
    has_intercept: whether the last feature is always 1.
    """
    found = RiskIntervals(np.full((len(rows), 2), np.nan), [None] * len(rows))
    places = np.zeros(len(rows), dtype=np.intp) if blocks is None else blocks
    moments: dict[int, ScoreMoments] = {}
    products = 0
    for block in np.unique(places).tolist():
        candidates = np.flatnonzero(places == block).tolist()
        own = estimator.score_moments(block, has_intercept=has_intercept)
        if own is None or own.observations - rows.shape[1] < SPARE_MIN:
            for candidate in candidates:
                found.notes[candidate] = NOT_NORMAL if own is None else TOO_FEW
        else:
            moments[block] = own
            products += len(candidates) * own.products
    for block, own in moments.items():
        rows_of_it = np.flatnonzero(places == block)
        if products > PRODUCTS_MAX:
            notes: list[str | None] = [TOO_MANY] * len(rows_of_it)
        else:
            found.ends[rows_of_it], notes = _of_block(estimator, block, rows[rows_of_it], own)
        for candidate, note in zip(rows_of_it.tolist(), notes, strict=True):
            found.notes[candidate] = note
    return found


def _of_block(estimator: Estimator, block: int, rows: Array, moments: ScoreMoments) -> RiskIntervals:
    """Return the intervals of candidates (K, d) of one block."""
    spare = moments.observations - rows.shape[1]
    alpha, theta = estimator.regularization, estimator.theta[block]
    images, has_failed = _solve(estimator.weighted_gram[block], alpha, rows)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        squares = moments.quadratics(images)
        data_shares = 1.0 - alpha * np.vecdot(images, images) / np.vecdot(rows, images)
        spreads = np.sqrt(squares * (moments.observations / spare))
        halves = float(stdtrit(spare, 0.5 + LEVEL / 2)) * spreads
        biases = alpha * np.linalg.norm(images, axis=1) * np.linalg.norm(theta)
        # written so that nan fails every test; the first that fails is the reason
        tests = [
            (np.full(len(rows), not has_failed), NOT_COMPUTED),
            (data_shares >= DATA_SHARE_MIN, NO_DATA),
            (halves != 0.0, ALL_EQUAL),
            (halves <= MAGNITUDE_MAX, NOT_COMPUTED),
            (biases <= BIAS_SHARE_MAX * halves, PULLED),
        ]
    notes = [next((note for passed, note in tests if not passed[candidate]), None) for candidate in range(len(rows))]
    halves[[note is not None for note in notes]] = np.nan
    estimates = rows @ theta
    return RiskIntervals(np.column_stack([estimates - halves, estimates + halves]), notes)


def _solve(matrix: Array, alpha: float, rows: Array) -> tuple[Array, bool]:
    """Return H^-1 x of each row, (K, d), and whether H has no factor."""
    shifted = matrix.copy()
    shifted.flat[:: len(matrix) + 1] += alpha
    lower, failed = dpotrf(shifted.T, lower=1)
    if failed:
        return np.full_like(rows, np.nan), True
    return np.ascontiguousarray(dpotrs(lower, rows.T, lower=1)[0].T), False
