"""Which arm is played: the best index with a bonus that is drawn, a floor under every arm, a uniform share.

The randomised rule draws one multiplier per decision, z = s |N(0, 1)|, for all arms; the scale s = 0.055 log(2 + n)
grows with the n observations that the campaign has learned, as the confidence level of the bonus does not. Arm k has
the index e_k + z w_k, with e_k its estimate and w_k its bonus times `exploration`. An index is a line in z, so arm k is
played where its line is the upper envelope of all of them, and the probability of that, its propensity, is exact.
Decisions between the same two rewards explore differently, which a fixed multiplier never does: under delay it sends
all of them to one arm.

Coupled randomised optimism keeps the order of UCB's regret for the mean in a linear model (Vaswani, Mehrabian, Durand &
Kveton 2020, "Old dog learns new tricks: randomized UCB for bandit problems", AISTATS). Nothing of that is claimed for
other risk measures, for the data-driven noise scale, for a scale that grows, or for the floor. The constants come from
simulations: docs/decisions/0024-drawn-multiplier.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from math import erfc, inf, log, log1p, sqrt
from operator import add
from statistics import NormalDist
from struct import Struct
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Reason = Literal["external", "only-arm", "greedy", "uniform", "warmup", "floor", "index", "holdout", "baseline"]

SCALE_RATE = 0.055
"""s = SCALE_RATE log(2 + n): about 0.25 at a hundred observations, 0.38 at a thousand, 0.51 at ten thousand."""
FLOOR_SHARE = 0.1
"""Of the decisions, drawn at random: the floor looks only in these, so that delayed rewards cause no burst."""
TIE_TOLERANCE = 1e-9
"""Relative to the largest index: what is closer than this is equal, and its arms share the probability."""
PROPENSITY_MIN = 2.0**-64
"""Of an arm that was played: rounding must not call what has happened impossible."""

_UNIT = 2.0**-64
_ROOT_TWO = sqrt(2.0)
_FOUR_INTEGERS = Struct(">4Q")
_quantile = NormalDist().inv_cdf


class Scores(NamedTuple):
    """(K,) arrays in reward units, relative to the campaign's centre: see `prudent.core.centring`.

    estimates: of the candidates' risks. bonuses: how much better they may be. widths: the bonuses times `exploration`.
    center: to be added to an estimate or an index for the user's unit. depths: from the estimates down to published
    lower limits, where the bonus has them. first: positions of the arms to be played before any index decides; bonuses
    may then be infinite.
    """

    estimates: NDArray[np.float64]
    bonuses: NDArray[np.float64]
    widths: NDArray[np.float64]
    center: float = 0.0
    depths: NDArray[np.float64] | None = None
    first: tuple[int, ...] = ()

    def estimate_of(self, position: int) -> float:
        """A candidate's estimate in the user's unit."""
        return float(self.estimates[position]) + self.center

    def index_of(self, position: int, multiplier: float) -> float:
        """A candidate's index in the user's unit, with its width times a multiplier."""
        return float(self.estimates[position] + multiplier * self.widths[position]) + self.center

    def limits_of(self, position: int) -> list[float | None] | None:
        """A candidate's published limits in the user's unit, lower first; None where there is none."""
        if self.depths is None or self.bonuses[position] == inf:
            return None
        middle, depth = self.estimate_of(position), float(self.depths[position])
        return [None if depth == inf else middle - depth, middle + float(self.bonuses[position])]


@dataclass(frozen=True, slots=True)
class ExplorationRule:
    """How the decisions of a campaign explore.

    randomized: a multiplier drawn for each decision; otherwise it is 1, the paper's optimism.
    warmup: plays of each registered arm before anything else decides.
    floor: c; in a tenth of the decisions an arm with fewer than c log(1 + n/K) observations of its own is played, the
    one with fewest, where the campaign has learned n and K registered arms are eligible. 0 is off.
    uniform_share: the share of decisions that go to an arm drawn uniformly. 0 is off.
    limit: of 100 consecutive decisions so many may explore, by any of these; 0 is no limit. See `prudent.core.budget`.
    tolerance: of a baseline, see `prudent.core.baseline`; 0 is none.
    """

    randomized: bool = False
    warmup: int = 2
    floor: float = 0.0
    uniform_share: float = 0.0
    limit: int = 0
    tolerance: float = 0.0
    is_drawn: bool = field(init=False)
    """Whether a decision needs its draws."""
    looks_back: bool = field(init=False)
    """Whether what a decision may choose depends on the decisions before it, besides what has been learned."""

    def __post_init__(self) -> None:
        drawn = self.randomized or self.floor > 0.0 or self.uniform_share > 0.0
        object.__setattr__(self, "is_drawn", drawn)
        object.__setattr__(self, "looks_back", self.limit > 0 or self.tolerance > 0.0)


class Choice(NamedTuple):
    """A decision among K candidates, by position. propensity: its probability before anything was drawn."""

    position: int
    greedy_position: int
    reason: Reason
    propensity: float
    multiplier: float

    @property
    def explores(self) -> bool:
        """Whether an arm other than the best estimate is tried. To keep to the baseline is no trial."""
        return self.position != self.greedy_position and self.reason != "baseline"


class Draws(NamedTuple):
    """The randomness of a decision, a function of the campaign's seed and the decision's id only.

    share, floor: uniform in [0, 1). size: |N(0, 1)|. lot: uniform among 64-bit integers; picks among equals.
    """

    share: float
    floor: float
    size: float
    lot: int


_NO_DRAWS = Draws(1.0, 0.0, 1.0, 0)


def draw(seed: int, decision_id: str) -> Draws:
    """Return a decision's draws, the same on every worker and in every replay.

    A keyed hash and not a generator: 2 microseconds instead of 20.
    """
    digest = blake2b(f"{seed}:{decision_id}".encode(), digest_size=32, person=b"exploration").digest()
    share, floor, normal, lot = _FOUR_INTEGERS.unpack(digest)
    # |N(0, 1)| from the lower tail, where the quantile keeps its digits; never infinite
    size = -_quantile(0.5 * ((normal + 0.5) * _UNIT))
    return Draws(share * _UNIT, floor * _UNIT, size, lot)


def multiplier_scale(observations: int) -> float:
    """Return s, the scale of the multiplier, after so many observations that the campaign has learned."""
    return SCALE_RATE * log(2.0 + observations)


class Lines(NamedTuple):
    """Of K candidates: estimate + z width. tolerance: below which two of them are one. Reward units. scale: s.

    Lists: for the usual number of arms they are several times faster here than arrays.
    """

    estimates: list[float]
    widths: list[float]
    tolerance: float
    scale: float


def _mass(low: float, high: float, scale: float) -> float:
    """Return P(low < z <= high), z = s |N(0, 1)|; 0 <= low."""
    root = scale * _ROOT_TWO
    return erfc(low / root) - erfc(high / root) if low < high else 0.0


def winning_probability(position: int, lines: Lines) -> float:
    """Return the probability that a candidate's line is the highest, shared with those that have the same. O(K)."""
    mass, shared = _won(position, lines)
    return mass / shared


def _won(position: int, lines: Lines) -> tuple[float, int]:
    """Return the probability that a candidate's line is the highest, and how many have this line."""
    estimates, widths, tolerance, scale = lines
    estimate, width = estimates[position], widths[position]
    low, high, shared = 0.0, inf, 0
    for other_estimate, other_width in zip(estimates, widths, strict=True):
        ahead, steeper = estimate - other_estimate, other_width - width
        if abs(ahead) <= tolerance and abs(steeper) <= tolerance:
            shared += 1
        elif steeper > 0.0:
            end = ahead / steeper
            if end < high:
                high = end
        elif steeper < 0.0:
            begin = ahead / steeper
            if begin > low:
                low = begin
        elif ahead < 0.0:
            return 0.0, max(shared, 1)
    return _mass(low, high, scale), shared


def winning_probabilities(lines: Lines) -> list[float]:
    """Return that of all candidates, by the upper envelope of their lines; the sum is 1 up to rounding. O(K log K)."""
    estimates, widths, tolerance, scale = lines
    # flattest first; of equal slopes the lowest
    order = sorted(range(len(estimates)), key=lambda k: (widths[k], estimates[k]))
    groups: list[list[int]] = []
    for k in order:
        last = groups[-1][0] if groups else None
        if (
            last is not None
            and widths[k] - widths[last] <= tolerance
            and abs(estimates[k] - estimates[last]) <= tolerance
        ):
            groups[-1].append(k)
        else:
            groups.append([k])
    # the envelope from left to right: where each group begins to lead
    envelope: list[tuple[float, list[int]]] = []
    for group in groups:
        begins = _begin(envelope, group[0], lines)
        if begins < inf:
            envelope.append((begins, group))
    probabilities = [0.0] * len(estimates)
    ends = [begins for begins, _ in envelope[1:]] + [inf]
    for (begins, group), end in zip(envelope, ends, strict=True):
        for k in group:
            probabilities[k] = _mass(begins, end, scale) / len(group)
    return probabilities


def _begin(envelope: list[tuple[float, list[int]]], arm: int, lines: Lines) -> float:
    """Return where an arm, steeper than those of the envelope, overtakes it; what it covers is taken off."""
    while envelope:
        begins, (leader, *_) = envelope[-1]
        steeper, behind = lines.widths[arm] - lines.widths[leader], lines.estimates[leader] - lines.estimates[arm]
        crossing = behind / steeper if steeper > 0.0 else (inf if behind > 0.0 else 0.0)
        if crossing > begins:
            return crossing
        envelope.pop()
    return 0.0


@dataclass(frozen=True, slots=True)
class Standing:
    """What of a campaign's past decides about a choice among K candidates, besides their scores.

    learned: how many observations the scores rest on, for the scale of the multiplier and for the floor.
    plays: how often each was played, None for one that is not registered; or None where none can be below its warm-up.
    observations: of each candidate, as `prudent.core.floor` weighs them, inf for one that is not registered; or None
    where the rule has no floor.
    """

    learned: int = 0
    plays: Sequence[int | None] | None = None
    observations: Sequence[float] | None = None


def choose(
    scores: Scores, rule: ExplorationRule, standing: Standing, *, explore: bool, seed: tuple[int, str]
) -> Choice:
    """Return the arm to play. First that applies: the only arm, greedy, uniform share, warm-up, floor, the best index.

    seed: the campaign's, and the decision's id: the same pair always draws the same, on any worker.
    """
    lines = _lines_of(scores, standing)
    best = _nearly_largest(lines.estimates, lines.tolerance)
    count = len(lines.estimates)
    draws = draw(*seed) if rule.is_drawn else _NO_DRAWS
    # of equal arms the one that the index would take: taking it is no exploration
    greedy = best[draws.lot % len(best)] if rule.is_drawn else _by_lot(best, seed)
    multiplier = lines.scale * draws.size if rule.randomized else 1.0
    if count == 1:
        return Choice(0, 0, "only-arm", 1.0, multiplier)
    if not explore:
        return Choice(greedy, greedy, "greedy", 1.0 / len(best), multiplier)
    first, why, share = _before_the_index(scores, rule, standing)
    reason: Reason = "index"
    wins: float | None = None
    if draws.share < rule.uniform_share:
        position, reason = draws.lot % count, "uniform"
    elif draws.floor < share:
        position, reason = first[draws.lot % len(first)] if rule.is_drawn else _by_lot(first, seed), why
    elif rule.randomized:
        position, wins = _leader(lines, multiplier, draws.lot)
    else:
        highest = _highest(lines)
        position, wins = _by_lot(highest, seed), 1.0 / len(highest)
    own = share * _share(position, first) if first else 0.0
    if share < 1.0:
        if wins is None:
            wins = winning_probability(position, lines) if rule.randomized else _share(position, _highest(lines))
        own += (1.0 - share) * wins
    if rule.uniform_share:
        own = rule.uniform_share / count + (1.0 - rule.uniform_share) * own
    return Choice(position, greedy, reason, max(own, PROPENSITY_MIN), multiplier)


def propensities(scores: Scores, rule: ExplorationRule, standing: Standing, *, explore: bool) -> list[float]:
    """Return with what probability each of K candidates is played; they sum to 1 up to rounding. O(K log K)."""
    lines, count = _lines_of(scores, standing), len(scores.estimates)
    if not explore or count == 1:
        return _shared(_nearly_largest(lines.estimates, lines.tolerance), count)
    first, _, share = _before_the_index(scores, rule, standing)
    mixed = _shared(first, count)
    if share < 1.0:
        wins = winning_probabilities(lines) if rule.randomized else _shared(_highest(lines), count)
        mixed = [share * low + (1.0 - share) * p for low, p in zip(mixed, wins, strict=True)]
    uniform = rule.uniform_share
    return [uniform / count + (1.0 - uniform) * p for p in mixed]


def _leader(lines: Lines, z: float, lot: int) -> tuple[int, float]:
    """Return the arm whose line is the highest at the multiplier z, by lot among equal lines; and its probability."""
    estimates, widths, tolerance, _ = lines
    indexes = [estimate + z * width for estimate, width in zip(estimates, widths, strict=True)]
    winner = indexes.index(max(indexes))
    mass, shared = _won(winner, lines)
    if shared > 1:
        estimate, width = estimates[winner], widths[winner]
        same = [
            k
            for k, (own, slope) in enumerate(zip(estimates, widths, strict=True))
            if abs(own - estimate) <= tolerance and abs(slope - width) <= tolerance
        ]
        winner = same[lot % shared]
    return winner, mass / shared


def _highest(lines: Lines) -> list[int]:
    return _nearly_largest(list(map(add, lines.estimates, lines.widths)), lines.tolerance)


def _share(position: int, equals: Sequence[int]) -> float:
    return 1.0 / len(equals) if position in equals else 0.0


def _before_the_index(scores: Scores, rule: ExplorationRule, standing: Standing) -> tuple[Sequence[int], Reason, float]:
    """Return the candidates that come before the best index, why, and in what share of the decisions.

    "index" and 0 where there are none.
    """
    if standing.plays is not None:
        plays = [inf if count is None else count for count in standing.plays]
        least = min(plays)
        if least < rule.warmup:
            return [k for k, count in enumerate(plays) if count == least], "warmup", 1.0
    if scores.first:
        return scores.first, "floor", 1.0
    counts = standing.observations
    if counts is not None and rule.floor > 0.0:
        fewest = min(counts)
        if fewest < inf and fewest < rule.floor * log1p(standing.learned / (len(counts) - counts.count(inf))):
            return [k for k, count in enumerate(counts) if count == fewest], "floor", FLOOR_SHARE
    return [], "index", 0.0


def _lines_of(scores: Scores, standing: Standing) -> Lines:
    estimates, bonuses = scores.estimates.tolist(), scores.bonuses.tolist()
    widths = bonuses if scores.widths is scores.bonuses else scores.widths.tolist()
    if scores.first:  # their bonuses are infinite, and nothing is left to compare
        bonuses = [0.0 if bonus == inf else bonus for bonus in bonuses]
    tolerance = TIE_TOLERANCE * max(map(add, map(abs, estimates), bonuses))
    return Lines(estimates, widths, tolerance, multiplier_scale(standing.learned))


def _nearly_largest(values: list[float], tolerance: float) -> list[int]:
    threshold = max(values) - tolerance
    return [k for k, value in enumerate(values) if value >= threshold]


def _shared(positions: Sequence[int], count: int) -> list[float]:
    """Return the probabilities of `count` candidates where one of these is drawn by lot."""
    shares = [0.0] * count
    for k in positions:
        shares[k] = 1.0 / len(positions)
    return shares


def _by_lot(positions: Sequence[int], seed: tuple[int, str]) -> int:
    """Return one of the positions, uniformly by a draw from the seed; the modulo's bias is below 1e-16."""
    if len(positions) == 1:
        return positions[0]
    digest = blake2b(f"{seed[0]}:{seed[1]}".encode(), digest_size=8).digest()
    return positions[int.from_bytes(digest) % len(positions)]
