"""What the theory promises: episode lengths, the confidence radius, and bounds on the regret.

Pure formulas in a campaign's constants; nothing here looks at data. Symbols and derivations are in
docs/mathematics.md. Every promise is conditional: on linear risks <theta*, x> with ||theta*|| <= S and
||x|| <= L, on a noise scale that is a true bound, and on rewards that arrive before the next decision.
Source: Saux & Maillard 2023, Theorems 1 and 2 and their lemmas, corrected where a docstring says so.
"""

import math
from dataclasses import dataclass

from scipy.special import lambertw

from prudent.core.confidence import Bonus, Radius
from prudent.core.losses import EntropicLoss, Loss


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """What a campaign's bounds are made of.

    dimension d of a block's features; blocks: 1 for the shared model, one an arm for the disjoint one.
    curvature_min, curvature_max: m and M, where the second derivative of the loss lies for all predictions in
    question (`curvature_over_ball`). conditioning: kappa. regularization: alpha. noise_scale: sigma, in reward
    units (entropic: their square root); parameter_bound: S; feature_bound: L. radius: of several blocks.
    arms_came_later: whether arms were added, so that the k-th has 6 delta/(pi^2 k^2) and not delta/K.
    Raises ValueError for what is not positive and finite, or delta not below 1.
    """

    dimension: int
    blocks: int = 1
    curvature_min: float
    curvature_max: float
    conditioning: float
    regularization: float
    delta: float
    noise_scale: float
    parameter_bound: float
    feature_bound: float
    radius: Radius = "per-arm"
    arms_came_later: bool = False

    def __post_init__(self) -> None:
        sizes = (self.dimension, self.blocks, self.regularization, self.delta)
        losses = (self.curvature_min, self.curvature_max, self.conditioning)
        bounds = (self.noise_scale, self.parameter_bound, self.feature_bound)
        if not all(0.0 < number < math.inf for number in sizes + losses + bounds) or self.delta >= 1.0:
            raise ValueError("constants must be positive and finite, and delta below 1")


def curvature_over_ball(loss: Loss, reach: float) -> tuple[float, float]:
    """Return the smallest and largest d2 for predictions in [-reach, reach], reach = L S in reward units.

    The entropic loss's own bounds hold for predictions within the reward bounds [lo, hi]; over the ball the
    exponent gamma (y - xi) lies between gamma (lo - reach) and gamma (hi + reach), in either order. The other
    losses have the same bounds everywhere.
    """
    if not isinstance(loss, EntropicLoss):
        return loss.curvature_min, loss.curvature_max
    exponents = sorted((loss.gamma * (loss.minimum - reach), loss.gamma * (loss.maximum + reach)))
    return abs(loss.gamma) * math.exp(exponents[0]), abs(loss.gamma) * math.exp(exponents[1])


def confidence_radius(constants: Constants, observations: int) -> float:
    """Return the largest r possible after T observations, in reward units.

    r = sigma sqrt(2 log(1/delta_k) + d log(1 + M L^2 T/(d kappa alpha))), the largest log determinant that T
    features of norm L can have; for the joint radius K d in the place of d and delta in that of delta_k. Reached
    by features spread evenly, so the campaign's current radius is at most this. Source: the paper's radius with
    the determinant bounded by its trace; delta_k is ours. Raises ValueError for a negative number.
    """
    spread = constants.curvature_max / (constants.conditioning * constants.regularization)
    if constants.radius == "joint":
        volume, delta = _volume(constants, spread, constants.blocks, observations), constants.delta
    else:
        volume, delta = _volume(constants, spread, 1, observations), _smallest_delta(constants)
    return constants.noise_scale * math.sqrt(2.0 * math.log(1.0 / delta) + volume)


def _volume(constants: Constants, spread: float, blocks: int, observations: int) -> float:
    """Return K d log(1 + spread L^2 T/(K d)), the largest log det(I + spread sum x x^T) summed over K blocks."""
    if observations < 0:
        raise ValueError(f"the number of observations must not be negative, not {observations}")
    size = blocks * constants.dimension
    return size * math.log1p(spread * constants.feature_bound**2 * observations / size)


def _smallest_delta(constants: Constants) -> float:
    if constants.arms_came_later:
        return 6.0 * constants.delta / (math.pi * constants.blocks) ** 2
    return constants.delta / constants.blocks


def bonus_multiplier(constants: Constants, observations: int, bonus: Bonus) -> float:
    """Return c_T, the largest factor of ||x||_{A^-1} in a bonus after T observations.

    Local: kappa r + sqrt(kappa alpha) S. Global: sqrt(kappa/m) r + sqrt(alpha/m) S. Twice that for the paper's
    bonuses, once for the tight ones; with the joint radius sqrt(K) S in the place of S.
    Source: Saux & Maillard 2023, Theorem 1; without the factor 2 for the constrained minimiser.
    """
    kappa, alpha, lowest = constants.conditioning, constants.regularization, constants.curvature_min
    bound = constants.parameter_bound * (math.sqrt(constants.blocks) if constants.radius == "joint" else 1.0)
    r = confidence_radius(constants, observations)
    if bonus.startswith("local"):
        width = kappa * r + math.sqrt(kappa * alpha) * bound
    else:
        width = math.sqrt(kappa / lowest) * r + math.sqrt(alpha / lowest) * bound
    return width if bonus.endswith("tight") else 2.0 * width


def regret_bound(
    constants: Constants,
    observations: int,
    bonus: Bonus,
    *,
    exploration: float = 1.0,
    warmup_rounds: int = 0,
) -> float | None:
    """Return what the exact minimiser's regret after T observations stays below with probability 1 - delta.

    Theorem 1: R_T <= 2 c_T sqrt(T P_T), with c_T of `bonus_multiplier` and P_T the bound on sum ||x_t||^2_{A^-1}
    that the elliptical potential lemma gives:

    - local: P_T = max(1/m, L^2/(kappa alpha)) 2 K d log(1 + m L^2 T/(K d kappa alpha));
    - global: P_T = max(1, m L^2/alpha) 2 K d log(1 + m L^2 T/(K d alpha)); the paper omits the maximum.

    With the paper's bonuses this is the paper's bound (K = 1); the tight bonuses halve it. An exploration dial
    e >= 1 gives 1 + e in the place of the 2; below 1 there is no bound: None. A warm-up round adds at most 2 L S,
    and no regret exceeds 2 L S T, so neither does what is returned. None, too, where it is not finite. In reward
    units. The bound holds if the bonus is a confidence bound (see docs/mathematics.md, "What is guaranteed"),
    for rounds that the index decided on the rewards of all rounds before.
    Raises ValueError for a negative number of observations or warm-up rounds.
    """
    if exploration < 1.0:
        return None
    kappa, alpha, lowest = constants.conditioning, constants.regularization, constants.curvature_min
    square = constants.feature_bound**2
    if bonus.startswith("local"):
        largest, spread = max(1.0 / lowest, square / (kappa * alpha)), lowest / (kappa * alpha)
    else:
        largest, spread = max(1.0, lowest * square / alpha), lowest / alpha
    potential = 2.0 * largest * _volume(constants, spread, constants.blocks, observations)
    width = bonus_multiplier(constants, observations, bonus)
    bound = (1.0 + exploration) * width * math.sqrt(observations * potential)
    return _within_reach(constants, bound, observations, warmup_rounds)


def _within_reach(constants: Constants, bound: float, observations: int, warmup_rounds: int) -> float | None:
    if warmup_rounds < 0:
        raise ValueError(f"the number of warm-up rounds must not be negative, not {warmup_rounds}")
    gap = 2.0 * constants.feature_bound * constants.parameter_bound
    smaller = min(bound + gap * warmup_rounds, gap * observations)
    return smaller if math.isfinite(smaller) else None


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
