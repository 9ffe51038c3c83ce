"""Sums of products that keep more than float64's digits, and solutions refined by them.

The rounding of a sum of features times rewards, 1e-16 of the terms' sizes, moves the solution of
(G + alpha I) theta = b by up to 1e-16 sizes / lambda_min(G + alpha I). Where rewards cancel, so that little theta is
left, that can be 1e-7 of theta, for the normal equations and for a QR decomposition alike. `is_doubtful` finds those
cases at the cost of a condition estimate, and `refine` repairs them from sums kept as two float64 matrices,
high + low, of which low is what high has rounded away.

Source: the exact splitting is Ozaki, Ogita, Oishi & Rump 2012 with two slices; products and sums without error are
Dekker's and Knuth's (Ogita, Rump & Oishi 2005); refinement is Higham's, Accuracy and Stability, Section 12.
"""

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import ddot
from scipy.linalg.lapack import dpocon, dpotrf, dpotrs

from prudent.core.measures import Array, Loss

Wide: TypeAlias = tuple[Array, Array]
"""high + low, both of one shape."""

WELL_POSED = 1e8
"""Up to this ratio of tr G to alpha theta is right to `ACCURACY`; beyond it, its equation to rounding."""

ACCURACY = 1e-8
UNIT = 2.0**-53
"""A float64 operation rounds by at most this share."""

_DOUBT = 0.1 * ACCURACY
_SLICE_BITS = 21
_CHUNK = 2048
"""2 x 21 bits a product, 2^11 products: sums of the leading slices' products have 53 bits and are exact."""
_REFINEMENTS_MAX = 4
_SIDES_MAX = 5
_SPLITTER = 2.0**27 + 1.0


def wide_gram(rows: Array, total: Wide | None = None) -> Wide:
    """Return total, if given, + sum z z^T over the rows z, (n, k): to about 2^-95 of a column's largest square a row.

    Each column is cut into two slices of 21 bits, in units of its largest entry, and a rest. Sums of products of the
    leading slices, and of these with the second ones, are exact in whatever order BLAS takes; the others are small.
    """
    size = rows.shape[1]
    total = (np.zeros((size, size)), np.zeros((size, size))) if total is None else total
    for first in range(0, len(rows), _CHUNK):
        chunk = rows[first : first + _CHUNK]
        exponents = np.frexp(np.abs(chunk).max(axis=0))[1]
        leading = _multiples(chunk, exponents - _SLICE_BITS)
        rest = chunk - leading
        second = _multiples(rest, exponents - 2 * _SLICE_BITS)
        rest -= second
        mixed, small = leading.T @ second, (leading + second).T @ rest
        total = added(total, (leading.T @ leading, second.T @ second + (small + small.T + rest.T @ rest)))
        total = added(total, (mixed + mixed.T, 0.0))
    return total


def _multiples(values: Array, exponents: NDArray[np.intc]) -> Array:
    """Return the values, (n, k), rounded to multiples of 2^exponents, (k,); they must be below 2^51 of those."""
    shift = np.ldexp(1.5, exponents + 52)
    return np.asarray((values + shift) - shift)


def added(one: Wide, other: tuple[Array, Array | float]) -> Wide:
    """Return the sum, of any shape; the other's low part may be 0."""
    total = one[0] + other[0]
    second = total - one[0]
    rounded = (one[0] - (total - second)) + (other[0] - second)
    return total, one[1] + (rounded + other[1])


def scaled(one: Wide, factor: float) -> Wide:
    """Return the product with a number."""
    product, rounded = _product(one[0], np.float64(factor))
    return product, rounded + factor * one[1]


def _product(one: Array, other: Array | np.float64) -> Wide:
    """Return the rounded product, elementwise, and what it has rounded away. Dekker: exact below 1e300."""
    product = one * other
    high, other_high = _leading_half(one), _leading_half(other)
    low, other_low = one - high, other - other_high
    return product, ((high * other_high - product) + high * other_low + low * other_high) + low * other_low


def _leading_half(values: Array | np.float64) -> Array:
    spread = _SPLITTER * values
    return np.asarray(spread - (spread - values))


def image(matrix: Wide, vector: Array) -> Array:
    """Return the matrix, (k, k), times the vector, (k,), correctly rounded but for low's own rounding."""
    product, rounded = _product(matrix[0], vector)
    terms = np.concatenate([product, rounded, matrix[1] * vector], axis=1)
    return np.array([math.fsum(row) for row in terms.tolist()])


def sum_rounding(theta: Array, *, trace: float, slope_squares: float, feature_squares: float, count: int) -> float:
    """Return about how far rounding may have moved the gradient's sums at theta, (d,).

    trace: tr(G), G = sum d2 x x^T; slope_squares: sum d1^2 at theta; feature_squares: sum ||x||^2; count: n. The sums'
    terms, sum |x| (|d1| + 2 d2 |<theta, x>|), are at most sqrt(sum ||x||^2 sum d1^2) + 2 tr(G) ||theta||, by Cauchy and
    Schwarz, and a sum of n terms rounds sqrt(n) times.
    """
    terms = math.sqrt(feature_squares * slope_squares) + 2.0 * trace * math.sqrt(ddot(theta, theta))
    return UNIT * math.sqrt(count + len(theta)) * terms


def is_doubtful(matrix: Callable[[], Array], alpha: float, theta: Array, *, trace: float, rounding: float) -> bool:
    """Whether rounding may have moved theta by a tenth of `ACCURACY` where that much is promised.

    matrix: gives G, (d, d), without alpha, and is rarely asked; trace: tr(G); theta: (d,), the solution; rounding: of
    the sums. The smallest eigenvalue is at least alpha; only where that does not decide is it estimated, from a factor.
    """
    if not trace <= WELL_POSED * alpha:
        return False
    size = math.sqrt(ddot(theta, theta))
    if rounding <= _DOUBT * size * alpha:
        return False
    shifted = matrix().copy()
    shifted.flat[:: len(theta) + 1] += alpha
    cholesky, failed = dpotrf(shifted.T, lower=1)
    norm = float(np.abs(shifted).sum(axis=0).max())
    reciprocal = 0.0 if failed else float(dpocon(cholesky, norm, uplo="L")[0])
    return not rounding <= _DOUBT * size * max(alpha, reciprocal * norm)


def refine(sums: Wide, alpha: float, theta: Array) -> Array:
    """Return the solution of (G + alpha I) theta = b to rounding, from theta, (d,), near it.

    sums: (d + 1, d + 1), sum q z z^T of z = (x, y), so G and b together. theta itself where the matrix has no
    Cholesky factor or the steps do not shrink.
    """
    dimension = len(theta)
    ridge = np.zeros_like(sums[0])
    ridge.flat[: dimension * (dimension + 2) : dimension + 2] = alpha
    shifted = added(sums, (ridge, 0.0))
    cholesky, failed = dpotrf(shifted[0][:dimension, :dimension], lower=1)
    if failed:
        return theta
    refined, last = theta, math.inf
    for _ in range(_REFINEMENTS_MAX):
        step = dpotrs(cholesky, image(shifted, np.append(refined, -1.0))[:dimension], lower=1)[0]
        length = float(np.linalg.norm(step))
        if not length < 0.5 * last:
            break
        refined, last = refined - step, length
    return refined


def refine_piecewise(loss: Loss, features: Array, rewards: Array, alpha: float, theta: Array) -> Array | None:
    """Return the minimiser of sum L(y, <theta, x>) + alpha/2 ||theta||^2 to rounding, from a theta near it. O(n d^2).

    loss: piecewise quadratic; features: (n, d); rewards: (n,). None where the observations above the kink are not
    settled after a few rounds.
    """
    rows = np.column_stack([features, rewards])
    weights = loss.d2(1.0, 0.0), loss.d2(-1.0, 0.0)
    is_upper = rewards >= features @ theta
    for _ in range(_SIDES_MAX):
        upper, lower = wide_gram(rows[is_upper]), wide_gram(rows[~is_upper])
        theta = refine(added(scaled(upper, weights[0]), scaled(lower, weights[1])), alpha, theta)
        settled, is_upper = is_upper, rewards >= features @ theta
        if np.array_equal(settled, is_upper):
            return theta
    return None
