"""What the paper promises of online gradient descent: episode lengths, and Theorem 2's bound on the regret.

The service shows neither; the mathematics page quotes both. Symbols are those of docs/mathematics.md.
Source: Saux & Maillard 2023, Theorem 2 and its lemmas, corrected where a docstring says so.
"""

import math
from dataclasses import dataclass

from scipy.special import lambertw

from prudent.core.confidence import Bonus
from prudent.core.theory import Constants, _volume, _within_reach, bonus_multiplier


@dataclass(frozen=True, slots=True)
class EpisodeLengths:
    """Episode lengths h, in observations, after which an episode's Gram matrix is well conditioned.

    theorem: the length in the paper's theorem; report this one. fixed_length: never longer. Both are valid for
    one length fixed in advance. lemma_rederived: the paper's "tighter" lemma, whose boundary holds at all lengths
    at once and is tuned at this one; solved correctly it is longer than the theorem's unless episodes are long.
    lemma_in_public_code: what the authors' code computes for it, a quarter of that and not a valid length. The
    lemma as printed, about 6.5/rho^2 at eps_h = 0.1 and delta = 0.05, is shorter still; we have its values and
    found no formula that gives them, so it is not here.
    """

    theorem: int
    fixed_length: int
    lemma_rederived: int
    lemma_in_public_code: int


def episode_lengths(rho: float, feature_bound: float, eps_h: float, delta: float) -> EpisodeLengths:
    """Return the episode lengths for features of norm at most L = feature_bound.

    rho L^2 bounds from below the smallest eigenvalue of E x x^T; eps_h is the smallest eigenvalue wanted of an
    episode's sum x x^T; delta the error probability. With u = 2 log(2/delta) and c = rho eps_h / L^2:

    - theorem: ceil(2 eps_h / (rho L^2) + 8 log(2/delta) / rho^2);
    - fixed_length: the root of rho h = eps_h / L^2 + 2 sqrt(h u), ceil((sqrt(u) + sqrt(u + c))^2 / rho^2);
    - lemma_rederived: the same with u the root above 1 of u - log u = 1 + 2 log(2/delta), that is
      u = -W(-delta^2 / (4 e)) on the lower branch, the price of holding at every h;
    - lemma_in_public_code: a quarter of that before rounding up.

    Raises ValueError for a value that is not positive and finite, rho above 1 or delta not below 1.
    """
    positive = all(0.0 < value < math.inf for value in (rho, feature_bound, eps_h, delta))
    if not positive or rho > 1.0 or delta >= 1.0:
        raise ValueError("rho must lie in (0, 1], delta in (0, 1), the bounds be positive and finite")
    wanted = eps_h / (feature_bound * feature_bound)
    fixed = 2.0 * math.log(2.0 / delta)
    mixed = -float(lambertw(-delta * delta / (4.0 * math.e), -1).real)
    uniform = _balanced(mixed, rho, wanted)
    return EpisodeLengths(
        theorem=math.ceil(2.0 * wanted / rho + 4.0 * fixed / (rho * rho)),
        fixed_length=math.ceil(_balanced(fixed, rho, wanted)),
        lemma_rederived=math.ceil(uniform),
        lemma_in_public_code=math.ceil(0.25 * uniform),
    )


def _balanced(u: float, rho: float, wanted: float) -> float:
    """Return the root h of rho h = wanted + 2 sqrt(h u)."""
    root = (math.sqrt(u) + math.sqrt(u + rho * wanted)) / rho
    return root * root


def streaming_regret_bound(
    constants: Constants, observations: int, bonus: Bonus, rho: float, *, eigenvalue_delta: float | None = None
) -> float | None:
    """Return Theorem 2's bound on the regret, for features that vary: rho L^2 I <= E x x^T in every round.

    The printed bound takes the root of a negative number. With a = kappa alpha - (4 m L^2/rho) log(2/delta),
    b = m rho L^2/2 and t1 = max(1, 1 + ceil(-a/b)), the round from which a + b (t - 1), a lower bound on the
    smallest eigenvalue of H, is not negative:

    R_T <= 2 c_T [sqrt(t1 P_t1) + (2 L/b) (sqrt(a + b (T - 1)) - sqrt(a + b (t1 - 1)))],

    P as in `regret_bound`; up to round t1 the bound is Theorem 1's. For the local bonuses and one block, and for
    an estimate for which the bonus is a confidence bound: OGD's is one only if its `ogd_bonus` bounds the distance
    to the exact minimiser, and the regret of that term is not in here. The eigenvalue bound holds in one round
    with probability 1 - eigenvalue_delta (delta if None); delta/T makes it hold in all of them.
    None where rho is 0 (fixed arms), where the bonus is global or there are several blocks, and where not finite.
    Source: Saux & Maillard 2023, Theorem 2, corrected. Raises ValueError for rho outside [0, 1], for an
    eigenvalue_delta outside (0, 1) or a negative number of observations.
    """
    delta = constants.delta if eigenvalue_delta is None else eigenvalue_delta
    if not 0.0 <= rho <= 1.0 or not 0.0 < delta < 1.0:
        raise ValueError("rho must lie in [0, 1], eigenvalue_delta in (0, 1)")
    if rho == 0.0 or constants.blocks > 1 or not bonus.startswith("local"):
        return None
    lowest, square = constants.curvature_min, constants.feature_bound**2
    ridge = constants.conditioning * constants.regularization
    a = ridge - 4.0 * lowest * square / rho * math.log(2.0 / delta)
    b = lowest * rho * square / 2.0
    first = min(max(1, 1 + math.ceil(-a / b)), observations)
    potential = 2.0 * max(1.0 / lowest, square / ridge) * _volume(constants, lowest / ridge, 1, first)
    rest = 0.0
    if observations > first:
        rest = (
            2.0 * constants.feature_bound / b * (math.sqrt(a + b * (observations - 1)) - math.sqrt(a + b * (first - 1)))
        )
    bound = 2.0 * bonus_multiplier(constants, observations, bonus) * (math.sqrt(first * potential) + rest)
    return _within_reach(constants, bound, observations, 0)
