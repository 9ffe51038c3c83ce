"""One implicit step along one observation: a scalar equation, whatever the dimension."""

import math

from prudent.core.losses import EntropicLoss, Loss

EXPONENT_MAX = 700.0
"""Largest gamma (y - u) whose exponential is still a float64."""

_ITERATIONS_MAX = 100


def implicit_step(loss: Loss, y: float, prediction: float, leverage: float) -> tuple[float, float]:
    """Return d1(y, u) and d2(y, u) at the root u of u = u0 - q d1(y, u).

    prediction: u0, in reward units; leverage: q = x^T A^-1 x >= 0. As d1 rises in u and vanishes at u = y, the
    root is unique and lies between u0 and y: no step overshoots the reward, however steep the loss. At the kink
    of the expectile d2 is that of the side y >= u. What float64 cannot hold is inf or nan; nothing is raised and
    nothing warns. Source: the mathematics page, "One pass".
    """
    if isinstance(loss, EntropicLoss):
        # z = gamma (y - u) turns it into z + a expm1(z) = z0, with a = |gamma| q whatever gamma's sign.
        steepness = abs(loss.gamma)
        z = exponent(loss.gamma * (y - prediction), steepness * leverage)
        if not z <= EXPONENT_MAX:
            return math.inf, math.inf
        # The loss's own methods serve arrays too, and cost three times as much for one number.
        slope = math.expm1(z)
        return (-slope if loss.gamma > 0.0 else slope), steepness * math.exp(z)
    # u is on the same side of y as u0, so the curvature is known and the equation is linear.
    curvature = loss.d2(y, prediction)
    return loss.d1(y, prediction) / (1.0 + curvature * leverage), curvature


def exponent(target: float, weight: float) -> float:
    """Return the root z of z + weight expm1(z) = target, for weight >= 0; it lies between 0 and target.

    The left side rises and is convex, so Newton's iteration from the right of the root falls to it, and ends where
    rounding stops the fall. It starts on the right: where weight expm1(z) <= target for target > 0, and where
    Newton's step from 0 leads otherwise. nan for what is not finite; above `EXPONENT_MAX` merely a bound.
    """
    if not (abs(target) < math.inf and weight < math.inf):
        return math.nan
    if target > 0.0:
        z = target
        if weight * EXPONENT_MAX > 0.0:
            z = min(target, math.log1p(target / weight))
        if z > EXPONENT_MAX:
            return z
    else:
        z = target / (1.0 + weight)
    for _ in range(_ITERATIONS_MAX):
        grown = math.expm1(z)
        following = z - (z + weight * grown - target) / (1.0 + weight * (1.0 + grown))
        if not following < z:
            break
        z = following
    return z
