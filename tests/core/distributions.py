"""Risk measures of known distributions: in closed form, or by quadrature.

Rewards are larger the better. Risks have the reward's unit. Source: Saux & Maillard 2023, Sections 2 and 5,
with the mistakes of the print corrected where the docstring says so. What the measures of samples are tested against.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import ndtr

from prudent.core.measures import Loss


def gaussian_expectile(level: float, mean: float = 0.0, sd: float = 1.0) -> float:
    """Return the expectile of a normal distribution.

    For the standard normal it is the root of e (p + (1 - 2p) Phi(e)) = (2p - 1) phi(e); the paper prints the
    right side as 2p phi(e) - 1. Raises ValueError for a level outside (0, 1) or a negative or infinite sd.
    """
    _check_level(level)
    if not (math.isfinite(mean) and 0.0 <= sd < math.inf):
        raise ValueError(f"a normal distribution needs a finite mean and sd >= 0, not {mean} and {sd}")
    if level > 0.5:
        # The lower tail keeps more digits.
        return mean - sd * _standard_expectile(1.0 - level)
    return mean + sd * _standard_expectile(level)


def _check_level(level: float) -> None:
    if not 0.0 < level < 1.0:
        raise ValueError(f"the level of an expectile must lie in (0, 1), not {level}")


def _standard_expectile(level: float) -> float:
    def excess(e: float) -> float:
        density = math.exp(-0.5 * e * e) / math.sqrt(2.0 * math.pi)
        return e * (level + (1.0 - 2.0 * level) * float(ndtr(e))) - (2.0 * level - 1.0) * density

    return float(brentq(excess, -40.0, 1.0, xtol=1e-15, rtol=1e-15))


def gaussian_entropic_risk(gamma: float, mean: float = 0.0, sd: float = 1.0) -> float:
    """Return mean + gamma sd^2 / 2, the entropic risk of a normal distribution.

    Raises ValueError for gamma 0 or not finite.
    """
    if not math.isfinite(gamma) or gamma == 0.0:
        raise ValueError(f"gamma must be finite and not 0, not {gamma}")
    return mean + 0.5 * gamma * sd * sd


def risk_of_density(
    loss: Loss,
    density: Callable[[float], float],
    lower: float,
    upper: float,
    breaks: Sequence[float] = (),
) -> float:
    """Return the risk a loss elicits for a density on [lower, upper]: the root in xi of E d1(Y, xi) = 0.

    The integral is split at xi, where d1 has a kink, and at `breaks`, where the density has; across a kink
    quadrature is wrong in the second digit. For an unbounded law choose bounds outside of which the density
    does not matter; the density need not integrate to 1. Accurate to about 1e-9 of upper - lower.
    Raises ValueError where the bounds are not finite and in order, or an integral is not accurate or finite.
    """
    if not -math.inf < lower < upper < math.inf:
        raise ValueError(f"the bounds must be finite and in order, not {lower} and {upper}")

    def slope(xi: float) -> float:
        points = sorted({lower, upper, xi, *(point for point in breaks if lower < point < upper)})
        pieces = [_integral(lambda y: loss.d1(y, xi) * density(y), *piece) for piece in pairwise(points)]
        return math.fsum(pieces)

    ends = slope(lower), slope(upper)
    if not (math.isfinite(ends[0]) and math.isfinite(ends[1]) and ends[0] < 0.0 < ends[1]):
        raise ValueError("the expected slope must be finite and change sign between the bounds")
    return float(brentq(slope, lower, upper, xtol=1e-12 * (upper - lower), rtol=1e-14))


def _integral(function: Callable[[float], float], lower: float, upper: float) -> float:
    # Asking for the full output turns the warnings off; the error estimate is looked at instead.
    value, error = quad(function, lower, upper, epsabs=0.0, epsrel=1e-11, limit=200, full_output=1)[:2]
    if not error <= 1e-8 * abs(value):
        raise ValueError(f"the integral from {lower} to {upper} is not accurate: {value} +- {error}")
    return float(value)


@dataclass(frozen=True, slots=True)
class TwoPieceNormal:
    """The law with density proportional to exp(-L(y, 0) / (2 scale^2)), L the expectile loss of that level.

    Two half normals joined at 0, where their densities meet: of scale / sqrt(1 - level) below and
    scale / sqrt(level) above. Its expectile of that level is 0. scale in reward units.
    Raises ValueError for a level outside (0, 1) or a scale that is not positive and finite.
    Source: the noise of experiment 2 in Saux & Maillard 2023, whose printed means (1.8, 3.3) are wrong.
    """

    level: float
    scale: float

    def __post_init__(self) -> None:
        _check_level(self.level)
        if not 0.0 < self.scale < math.inf:
            raise ValueError(f"the scale must be positive and finite, not {self.scale}")

    @property
    def spread_below(self) -> float:
        """Scale of the half normal below 0: scale / sqrt(1 - level)."""
        return self.scale / math.sqrt(1.0 - self.level)

    @property
    def spread_above(self) -> float:
        """Scale of the half normal above 0: scale / sqrt(level)."""
        return self.scale / math.sqrt(self.level)

    @property
    def mass_below(self) -> float:
        """The probability of a negative value."""
        return self.spread_below / (self.spread_below + self.spread_above)

    @property
    def mean(self) -> float:
        """The mean, in reward units."""
        return math.sqrt(2.0 / math.pi) * (self.spread_above - self.spread_below)

    @property
    def std(self) -> float:
        """The standard deviation, in reward units."""
        gap = self.spread_above - self.spread_below
        return math.sqrt((1.0 - 2.0 / math.pi) * gap * gap + self.spread_above * self.spread_below)

    def density(self, y: float) -> float:
        """Return the density at y, per reward unit."""
        spread = self.spread_below if y < 0.0 else self.spread_above
        height = math.sqrt(2.0 / math.pi) / (self.spread_below + self.spread_above)
        return height * math.exp(-0.5 * (y / spread) ** 2)
