"""Lengths of an episode of online gradient descent, for the figure that compares them.

Written apart from the service, so that it can judge it. Features have norm at most 1, and the smallest eigenvalue of
their second moment is rho = 1/d.
"""

import math
from dataclasses import dataclass

from scipy.optimize import brentq

EIGENVALUE = 0.1
DELTA = 0.05

# The lemma as printed, d = 1 to 30, tabulated for EIGENVALUE and DELTA. A table, since nobody could find a formula that
# gives these values: the printed one does not solve the equation it comes from.
PRINTED_LEMMA = (
    *(7, 27, 59, 104, 163, 234, 318, 416, 526, 649),
    *(785, 934, 1096, 1271, 1459, 1660, 1874, 2100, 2340, 2593),
    *(2858, 3137, 3428, 3733, 4050, 4381, 4724, 5080, 5450, 5832),
)
DIMENSIONS = range(1, len(PRINTED_LEMMA) + 1)


@dataclass(frozen=True)
class EpisodeLengths:
    """Observations after which an episode's Gram matrix has smallest eigenvalue EIGENVALUE, with probability 1 - DELTA.

    theorem: the paper's theorem. fixed_length: ours, never longer. rederived_lemma: the paper's "tighter" lemma with
    its equation solved: its boundary holds at all lengths at once. printed_lemma: as printed, and too short.
    """

    dimension: int
    theorem: int
    fixed_length: int
    rederived_lemma: int
    printed_lemma: int


def _balance(u: float, rho: float) -> int:
    """Round up the root h of rho h = EIGENVALUE + 2 sqrt(h u), a quadratic equation in sqrt(h)."""
    root = (math.sqrt(u) + math.sqrt(u + rho * EIGENVALUE)) / rho
    return math.ceil(root * root)


def episode_lengths(dimension: int) -> EpisodeLengths:
    """Give all lengths for one of DIMENSIONS.

    The lemma's boundary, tuned at the episode's length, has for u the root above 1 of u - log u = 1 + 2 log(2/delta).
    """
    rho, tail = 1.0 / dimension, 2.0 * math.log(2.0 / DELTA)
    mixed = float(brentq(lambda u: u - math.log(u) - 1.0 - tail, 1.0, 10.0 * (1.0 + tail), xtol=1e-13))
    return EpisodeLengths(
        dimension=dimension,
        theorem=math.ceil(2.0 * EIGENVALUE / rho + 4.0 * tail / rho**2),
        fixed_length=_balance(tail, rho),
        rederived_lemma=_balance(mixed, rho),
        printed_lemma=PRINTED_LEMMA[dimension - 1],
    )
