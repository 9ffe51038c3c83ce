"""From the exact minimiser to one pass: a long campaign goes on from its minimiser, and its history is dropped.

A history is memory, and a start without a snapshot: at a million observations hundreds of megabytes and twenty seconds,
and a refit that looks at all of it now and then. One pass takes over theta, solved from scratch, and A = sum d2 x x^T +
alpha I there, so that its state is a function of the log. What it does not look at again moves the estimate by a few
hundredths of a standard error, if that is done at 10,000 observations: docs/algorithms.md.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from prudent.core.estimators.estimator import Estimator
from prudent.core.estimators.exact import ExactMinimizer
from prudent.core.estimators.one_pass import OnePass
from prudent.core.measures import Array
from prudent.core.numerics.positive_definite import inverse_factor


def one_pass_after(exact: Estimator) -> OnePass:
    """Return one pass that begins at the minimiser of the observations so far, each block's own.

    O(n d^2) per Newton step, n observations of all blocks, and O(B d^3). Raises TypeError unless the estimator is an
    `ExactMinimizer`.
    """
    exact = _checked(exact)
    blocks, dimension = exact.theta.shape
    scoring, weighted_gram = np.zeros((blocks, dimension, dimension + 1)), np.zeros_like(exact.gram)
    d1_squares, d2_total = np.zeros(blocks), np.zeros(blocks)
    for block in range(blocks):
        scoring[block, :, -1], sums = exact.minimum(block)
        if sums is not None:
            weighted_gram[block], d1_squares[block], d2_total[block] = sums
        scoring[block, :, :-1] = inverse_factor(weighted_gram[block], exact.regularization)[0].T
    after = _empty(exact, blocks)
    after.load(
        {
            **after.arrays(),
            "scoring": scoring,
            "gram": exact.gram,
            "weighted_gram": weighted_gram,
            "d1_squares": d1_squares,
            "d2_total": d2_total,
            "is_changed": np.ones(blocks),
            "counters": np.array([exact.observations, 0], dtype=np.int64),
            "center": np.array(exact.center),
        }
    )
    return after


def minimum_of(exact: Estimator, block: int) -> Array:
    """Return a block's minimiser, (d,), solved from scratch. Raises TypeError unless it is an `ExactMinimizer`'s."""
    return _checked(exact).minimum(block)[0]


def one_pass_of(exact: Estimator, arrays: Mapping[str, NDArray[np.generic]]) -> OnePass:
    """Return the one pass that came after an exact minimiser with these settings, in the state that `arrays` gave.

    Raises TypeError unless the estimator is an `ExactMinimizer`, and ValueError for arrays that do not fit.
    """
    after = _empty(_checked(exact), 0)
    after.load(arrays)
    return after


def _checked(exact: Estimator) -> ExactMinimizer:
    if not isinstance(exact, ExactMinimizer):
        raise TypeError(f"one pass can follow the exact minimiser only, not {type(exact).__name__}")
    return exact


def _empty(exact: ExactMinimizer, blocks: int) -> OnePass:
    return OnePass(exact.loss, blocks, exact.dimension, exact.regularization, exact.bound, 0)
