"""Exact CVaRs, quantiles, variances and moments of the laws that an environment file may name.

All follow from what a law knows: its mean, the expected excess E(Y - v)+, and its quantile function. Nothing here comes
from the service, which these values judge.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.integrate import quad
from scipy.optimize import brentq, minimize_scalar

from prudent_simulator.custom_environments.laws import UNIFORM_MIN, Discrete, Law, Mixture, Normal, Simple
from prudent_simulator.environments import FloatArray

_HALVINGS = 60
_REACH = 40.0


def probability_below(law: Law, value: float) -> float:
    """P(Y <= value): where the quantile function exceeds the value, by bisection; a mixture's is that of its parts."""
    if isinstance(law, Mixture):
        return math.fsum(part.probability * probability_below(part.of, value) for part in law.parts)
    if isinstance(law, Discrete):
        return math.fsum(p for p, own in zip(law.probabilities, law.values, strict=True) if own <= value)
    low, high = law.support()
    if not low < value < high:
        return float(value >= high)
    below, above = UNIFORM_MIN, 1.0 - UNIFORM_MIN
    for _ in range(_HALVINGS):
        middle = 0.5 * (below + above)
        if law.quantile(np.array([middle]))[0] <= value:
            below = middle
        else:
            above = middle
    return below


def quantile(law: Law, level: float) -> float:
    """Give the quantile of a law, the middle of all of them where there are several, in reward units."""
    if isinstance(law, Discrete):
        order = np.argsort(law.values)
        values, mass = np.array(law.values)[order], np.cumsum(np.array(law.probabilities)[order])
        first = int(np.searchsorted(mass, level - 1e-12))
        last = min(int(np.searchsorted(mass, level + 1e-12, side="right")), len(values) - 1)
        return float(values[first] + values[last]) / 2.0
    if not isinstance(law, Mixture):
        return float(law.quantile(np.array([level]))[0])
    ends = [quantile(part.of, level) for part in law.parts]
    low, high = min(ends), max(ends)
    if low == high:
        return low
    slack = 1e-9 * max(1.0, abs(low), abs(high))
    found = brentq(lambda value: probability_below(law, value) - level, low - slack, high + slack, xtol=1e-13)
    return float(found)


def cvar(law: Law, level: float) -> float:
    """Give the mean of the worst share `level`, in reward units.

    q - E(q - Y)+ / level at the quantile q, where it is largest (Rockafellar & Uryasev 2000).
    """

    def value(threshold: float) -> float:
        return threshold - (law.excess(threshold) - law.mean + threshold) / level

    at = quantile(law, level)
    width = max(1e-6, 1e-3 * abs(at))
    refined = minimize_scalar(lambda threshold: -value(threshold), bounds=(at - width, at + width), method="bounded")
    return max(value(at), float(-refined.fun))


def variance(law: Law) -> float:
    """Give the variance, in squared reward units; in closed form but where it is 2 times an integral of the excess."""
    if isinstance(law, Normal):
        return law.deviation**2
    if isinstance(law, Discrete):
        return math.fsum(p * (v - law.mean) ** 2 for p, v in zip(law.probabilities, law.values, strict=True))
    if isinstance(law, Mixture):
        parts = [(part.probability, part.of) for part in law.parts]
        return math.fsum(p * (variance(of) + (of.mean - law.mean) ** 2) for p, of in parts)
    mean = law.mean
    scale = max(law.excess(mean), 1e-12)
    above = _integral(lambda v: law.excess(mean + scale * v), 0.0, math.inf)
    below = _integral(lambda v: law.excess(mean - scale * v) - scale * v, 0.0, math.inf)
    return 2.0 * scale * (above + below)


def _integral(function: Callable[[float], float], low: float, high: float) -> float:
    """Integrate over a half line in two pieces, so that the bulk is not missed."""
    near = quad(function, low, _REACH, epsabs=1e-12, epsrel=1e-11, limit=400)[0]
    return float(near) + float(quad(function, _REACH, high, epsabs=1e-12, epsrel=1e-9, limit=400)[0])


def expectation(law: Law, function: Callable[[FloatArray], FloatArray]) -> float:
    """Give E T(Y) for a smooth T: a sum for a discrete law, a quadrature over the quantiles otherwise."""
    if isinstance(law, Mixture):
        return math.fsum(part.probability * expectation(part.of, function) for part in law.parts)
    if isinstance(law, Discrete):
        return float(np.array(law.probabilities) @ function(np.array(law.values)))
    return float(quad(_of_uniform(law, function), 0.0, 1.0, epsabs=1e-11, epsrel=1e-10, limit=500)[0])


def _of_uniform(law: Simple, function: Callable[[FloatArray], FloatArray]) -> Callable[[float], float]:
    def value(uniform: float) -> float:
        clipped = np.array([min(max(uniform, UNIFORM_MIN), 1.0 - UNIFORM_MIN)])
        return float(function(law.quantile(clipped))[0])

    return value
