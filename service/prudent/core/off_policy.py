"""What another policy would have earned, estimated from a log whose propensities are known.

In decision t the log chose arm a with the known probability p(a), and the reward was y. The policy that is judged would
have chosen arm k with probability q(k). The decision's weight is w = q(a) / p(a), so that E[w f(y)] is what f(y) would
be on average under the policy. For a policy that always takes one arm, w is 1/p where the log took that arm, else 0.

**Support.** A weight that is too large says that the log hardly ever does what the policy does. Arm k lacks support in
a decision where q(k) / p(k) > n / SUPPORT_ROWS_MIN, n being the number of decisions: with such propensities throughout,
it would be chosen fewer than SUPPORT_ROWS_MIN times in the whole log, and one row could carry a tenth of the estimate.
That part of the policy's choice is left out. With s <= 1 the part of a decision that remains, the log cannot judge the
policy where the average of 1 - s exceeds UNSUPPORTED_SHARE_MAX: nothing bounds what was earned there.

**Estimates**, over the n decisions: IPS, sum w y / sum s, which is unbiased for the mean (Horvitz & Thompson 1952); and
SNIPS, the measure of the rewards with masses w / sum w, for the mean and every other measure (Swaminathan & Joachims
2015). A risk with the masses of IPS, whose sum is 1 only on average, would depend on where the rewards' zero lies, so
there is none.

**Intervals** (95%). With g = w y - s v for IPS, g has mean 0 at the true v, whatever the log's policy had learned
before: the sums are martingales. The interval holds the v with (sum g)^2 <= t^2 sum g^2, t the quantile of Student's
law with E - 1 degrees of freedom, E the effective sample size (sum w)^2 / sum w^2. For SNIPS it is the same with
g = w d1(y, v). Weights that are large and rare are often missing from sum g^2, just where the estimate lacks them, too;
but their expectation is known, so instead of sum w^2 f^2 stands the weighted average of f^2 times the sum of q^2 / p
over decisions and arms. They are not a guarantee. There are none below EFFECTIVE_MIN; they are asymptotic in E, they
ignore outcomes that were not seen, and for data that an adaptive policy collected the normal limit itself is an
approximation (Hadad, Hirshberg, Zhan, Wager & Athey 2021). docs/logged-data.md has how often they cover.
A measure that its loss does not elicit has a value and no interval.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from prudent.core.measures import Array, Measure

LEVEL = 0.95
SUPPORT_ROWS_MIN = 10
UNSUPPORTED_SHARE_MAX = 0.01
EFFECTIVE_MIN = 5
"""Effective rows below which there is no interval."""
_DOUBLINGS, _HALVINGS = 60, 60
_ROUNDING, _BALANCE = 1e-12, 1e-6


class Estimate(NamedTuple):
    """In reward units. low, high: of the 95% interval, None where there is none."""

    value: float
    low: float | None = None
    high: float | None = None


class Weighted(NamedTuple):
    """What a log says of a policy: (n,) arrays, one entry per decision.

    rewards: y; weights: w, 0 for what the policy would not have done; supported: s, in [0, 1]. expected_squares: what
    w^2 was expected to be, sum over arms of q^2 / p, before the arm was drawn; None where that is not known.
    """

    rewards: Array
    weights: Array
    supported: Array
    expected_squares: Array | None = None

    @property
    def effective(self) -> float:
        """(sum w)^2 / sum w^2, Kish's number of equally weighted rows that would say as much."""
        squares = float(self.weights @ self.weights)
        return float(self.weights.sum()) ** 2 / squares if squares > 0.0 else 0.0


def weight_max(decisions: int) -> float:
    """Return the largest weight that counts as supported in a log of so many decisions."""
    return decisions / SUPPORT_ROWS_MIN * (1.0 + 1e-9)


def ips(sample: Weighted) -> Estimate:
    """Return the mean by inverse propensities. Raises ValueError where nothing is supported."""
    total = float(sample.supported.sum())
    if total <= 0.0:
        raise ValueError("the log supports nothing of this policy")
    weighted = sample.weights * sample.rewards
    value = float(weighted.sum()) / total
    bound = _bound(sample)
    if bound is None:
        return Estimate(value)
    # (A - N v)^2 <= t^2 (sum (w y)^2 - 2 v sum w y s + v^2 sum s^2), relative to the value
    residuals = weighted - value * sample.supported
    spread, mixed = float(residuals @ residuals), float(residuals @ sample.supported)
    spread += _expected(sample, sample.rewards * sample.rewards) - float(weighted @ weighted)
    square = float(sample.supported @ sample.supported)
    leading, middle = total * total - bound * square, bound * mixed
    if leading <= 0.0 or spread <= 0.0:
        return Estimate(value)
    root = math.sqrt(middle * middle + leading * bound * spread)
    return Estimate(value, value + (-middle - root) / leading, value + (-middle + root) / leading)


def snips(sample: Weighted, measure: Measure) -> Estimate:
    """Return the measure of the weighted rewards. Raises ValueError where all weights are 0."""
    value = measure.risk(sample.rewards, sample.weights)
    kept = sample.weights > 0.0
    rewards, weights = sample.rewards[kept], sample.weights[kept]
    bound = _bound(sample)
    if bound is None or float(np.ptp(rewards)) == 0.0 or not _is_elicited(rewards, weights, measure, value):
        return Estimate(value)

    def is_outside(candidate: float) -> bool:
        slopes = measure.loss.d1(rewards, np.full(rewards.shape, candidate))
        scores = weights * slopes
        squares = share * float(weights @ (slopes * slopes)) if share else float(scores @ scores)
        return not float(scores.sum()) ** 2 <= bound * squares

    share = 0.0 if sample.expected_squares is None else float(sample.expected_squares.sum()) / float(weights.sum())
    width = float(np.ptp(rewards))
    low, high = (_end(is_outside, value, side * width) for side in (-1.0, 1.0))
    return Estimate(value) if low is None or high is None else Estimate(value, low, high)


def gain(sample: Weighted, measure: Measure) -> Estimate:
    """Return by how much the policy's measure exceeds that of what the log did: SNIPS, decision by decision.

    The interval is that of the sum of both estimates' influences, -d1 / sum d2, in each decision.
    """
    value, logged = measure.risk(sample.rewards, sample.weights), measure.risk(sample.rewards)
    influence = _influence(sample.rewards, sample.weights, measure, value)
    influence -= _influence(sample.rewards, np.ones_like(sample.rewards), measure, logged)
    bound = _bound(sample) if _is_elicited(sample.rewards, sample.weights, measure, value) else None
    half = None if bound is None else math.sqrt(bound * float(influence @ influence))
    if half is None or not _ROUNDING * (abs(value) + abs(logged)) < half < math.inf:
        return Estimate(value - logged)
    return Estimate(value - logged, value - logged - half, value - logged + half)


def _expected(sample: Weighted, squares: Array) -> float:
    """Return what sum w^2 f was expected to be, from the weighted average of f, (n,)."""
    if sample.expected_squares is None:
        return float((sample.weights * sample.weights) @ squares)
    average = float(sample.weights @ squares) / float(sample.weights.sum())
    return average * float(sample.expected_squares.sum())


def _bound(sample: Weighted) -> float | None:
    """Return t^2, None where there are too few effective rows."""
    effective = sample.effective
    if effective < EFFECTIVE_MIN:
        return None
    return float(stdtrit(effective - 1.0, 0.5 + LEVEL / 2)) ** 2


def _is_elicited(rewards: Array, weights: Array, measure: Measure, risk: float) -> bool:
    """Whether the measure's loss has its minimum at the risk: only then do its slopes say how far off it may be."""
    scores = weights * measure.loss.d1(rewards, np.full(rewards.shape, risk))
    return abs(float(scores.sum())) <= _BALANCE * float(np.abs(scores).sum())


def _influence(rewards: Array, weights: Array, measure: Measure, risk: float) -> Array:
    risks = np.full(rewards.shape, risk)
    influence: Array = -weights * measure.loss.d1(rewards, risks)
    influence /= float(weights @ measure.loss.d2(rewards, risks))
    return influence


def _end(is_outside: Callable[[float], bool], value: float, step: float) -> float | None:
    """Return where the interval ends in the direction of a step, None where it does not."""
    inside, outside = value, value + step / 64.0
    for _ in range(_DOUBLINGS):
        if is_outside(outside):
            break
        inside, outside = outside, value + 2.0 * (outside - value)
        if not math.isfinite(outside) or abs(outside - value) > 1e6 * abs(step):
            return None
    for _ in range(_HALVINGS):
        middle = 0.5 * (inside + outside)
        if is_outside(middle):
            outside = middle
        else:
            inside = middle
    return outside
