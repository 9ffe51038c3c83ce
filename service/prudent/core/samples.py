"""The risk of a sample of rewards, with an interval: what a report says of an arm's rewards, whatever their features.

Rewards are larger the better. Risks have the reward's unit.
"""

import math

import numpy as np
from scipy.special import stdtrit

from prudent.core.losses import Array, EntropicLoss, ExpectileLoss, Loss
from prudent.core.risks import entropic_risk, expectile

INTERVAL_LEVEL = 0.95
INTERVAL_COUNT_MIN = 30
"""With fewer rewards a normal approximation of a cautious measure is not worth a number."""


def empirical_risk(loss: Loss, values: Array) -> float:
    """Return the risk that the loss elicits of a sample: argmin over xi of sum L(y, xi), exact up to rounding.

    values: (n,) float64, n >= 1. Raises ValueError for none, and for what is not finite.
    """
    if isinstance(loss, ExpectileLoss):
        return expectile(values, loss.level)
    if isinstance(loss, EntropicLoss):
        return entropic_risk(values, loss.gamma)
    if not len(values) or not np.isfinite(values).all():
        raise ValueError("values must be finite, and at least one")
    return float(values.mean())


def risk_interval(loss: Loss, values: Array, risk: float) -> tuple[float, float] | None:
    """Return an asymptotic 95% interval for the risk of the law that the values are a sample of; None if none is had.

    values: (n,) float64; risk: their empirical risk. The sandwich variance of the M-estimator, each value's slope
    corrected for its leverage, with Student's t and n - 1 degrees of freedom:

        risk +- t sqrt(sum d1_i^2 / (1 - h_i)) / sum d2_i,    h_i = d2_i / sum d2, at the risk;

    for the mean that is the textbook interval. It is no guarantee: it needs independent values of one law with a finite
    variance (of exp(gamma Y) for the entropic risk), and enough of them in the tail that the measure looks at; values
    that an adaptive policy chose to collect are not quite that. How often it covers is measured in
    tests/core/test_samples.py: 0.94 to 0.95 with a hundred values, 0.91 to 0.94 with thirty; less at lower levels than
    0.1 and for a long lower tail.
    None for fewer than `INTERVAL_COUNT_MIN` values, and where all are equal: they do not show how much the next one may
    differ. Source: Huber 1967; for expectiles Newey & Powell 1987; the correction is MacKinnon & White's HC2 of 1985.
    """
    count = len(values)
    if count < INTERVAL_COUNT_MIN or float(np.ptp(values)) == 0.0:
        return None
    predictions = np.full(count, risk)
    slopes, curvatures = loss.d1(values, predictions), loss.d2(values, predictions)
    total = float(curvatures.sum())
    squares = float((slopes * slopes / (1.0 - curvatures / total)).sum())
    half = float(stdtrit(count - 1, 0.5 + INTERVAL_LEVEL / 2)) * math.sqrt(squares) / total
    return (risk - half, risk + half) if math.isfinite(half) else None
