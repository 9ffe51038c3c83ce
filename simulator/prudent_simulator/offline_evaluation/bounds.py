"""Bounds on the risk of few rows, from the range of the rewards: they cover where a bootstrap cannot.

A sample of n rows does not show what is rarer than about 3 in n, and no resampling of it does. But if rewards lie
between a minimum and a maximum, n independent rows of one law say at most how much of it can lie below each of them.
With U_(i), the i-th smallest of n uniforms, F(y_(i)) is at most the quantile of level 1 - h of U_(i), for all i at
once with probability 97.5%, where h is chosen so (equal local levels). The worst such law puts the first of these
masses on the minimum, and each further one on the row before; the best is its mirror image. A measure that rises with
the law has bounds of 97.5% each in theirs, for any n. All do but mean-variance, for which a law with larger rewards may
be the worse one, as they spread more: it has no such bounds.

Source: Learned-Miller & Thomas 2019, "A new confidence interval for the mean of a bounded random variable", and
Anderson 1969, for bounds on the mean from bounds on a distribution function; equal local levels: Berk & Jones 1979.
"""

from functools import lru_cache

import numpy as np
from scipy.special import betainc, betaincinv

from prudent_simulator.environments import FloatArray
from prudent_simulator.offline_evaluation.measures import INTERVAL, Measure

_SIMULATED = 10_000


@lru_cache(maxsize=64)
def _below(rows: int) -> tuple[float, ...]:
    """Give how much of the law lies below each row at most, (n,), for all of them at once."""
    rank = np.arange(1, rows + 1, dtype=np.float64)
    uniforms = np.sort(np.random.default_rng(rows).random((_SIMULATED, rows)), axis=1)
    # 1 - P(U_(i) <= u), without losing the digits of a small difference
    local = betainc(rows + 1.0 - rank, rank, 1.0 - uniforms).min(axis=1)
    level = float(np.quantile(local, 0.5 * (1.0 - INTERVAL)))
    return tuple((1.0 - betaincinv(rows + 1.0 - rank, rank, level)).tolist())


def lower_bound(measure: Measure, rewards: FloatArray, minimum: float) -> float:
    """Give a lower bound of 97.5% for the risk of the law that rewards, (n,), are a sample of."""
    values = np.concatenate([[minimum], np.sort(rewards)])
    masses = np.diff(np.concatenate([[0.0], _below(rewards.size), [1.0]]))
    return measure.of_masses(values, masses)


def upper_bound(measure: Measure, rewards: FloatArray, maximum: float) -> float:
    """Give an upper bound of 97.5%."""
    values = np.concatenate([[maximum], np.sort(rewards)[::-1]])
    masses = np.diff(np.concatenate([[0.0], _below(rewards.size), [1.0]]))
    return measure.of_masses(values, masses)
