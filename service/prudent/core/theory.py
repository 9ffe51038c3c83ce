"""What the theory promises: the confidence radius, and a bound on the regret.

Pure formulas in a campaign's constants; nothing here looks at data. Symbols and derivations are in
docs/mathematics.md. Every promise is conditional: on linear risks <theta*, x> with ||theta*|| <= S and
||x|| <= L, on a noise scale that is a true bound, and on rewards that arrive before the next decision.
Source: Saux & Maillard 2023, Theorem 1 and its lemmas, corrected where a docstring says so.
"""

import math
from dataclasses import dataclass

from prudent.core.confidence import Bonus, Radius


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """What a campaign's bounds are made of.

    dimension d of a block's features; blocks: 1 for the shared model, one per arm for the disjoint one.
    curvature_min, curvature_max: m and M, where the second derivative of the loss lies for all predictions in
    question (`Loss.curvature_within`). conditioning: kappa. regularization: alpha. noise_scale: sigma, in the
    unit of d1 / sqrt(d2); parameter_bound: S; feature_bound: L. radius: of several blocks.
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


def confidence_radius(constants: Constants, observations: int) -> float:
    """Return the largest r possible after T observations, in reward units.

    r = sigma sqrt(2 log(1/delta_k) + d log(1 + M L^2 T/(d kappa alpha))), the largest log determinant that T
    features of norm L can have; for the joint radius K d instead of d and delta instead of delta_k. Reached
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
    bonuses, once for the tight ones; with the joint radius sqrt(K) S instead of S.
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
    e >= 1 gives 1 + e instead of the 2; below 1 there is no bound: None. A warm-up round adds at most 2 L S,
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
