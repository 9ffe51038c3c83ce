"""The bonus `self-normalized`: an upper limit with a proof, for any scale and any tails of the rewards.

For one arm and a candidate u of its risk let xi_i = d1(y_i, u). At the true risk the truncated scores have means that
are not positive, E clip(xi, -a, a) <= 0 for every a > 0, if rewards are symmetric about some centre and the measure is
averse to risk. Then a bet of 1 + clip(lambda xi, -b, b) a round, b < 1, is a game that is not favourable, and its
wealth exceeds 1/delta at any time with probability at most delta. Scores rise with u, so the wealth does, and what it
leaves over is everything below one number: the upper limit. The wealth is an average over `WEIGHTS`:

- the scale s is the root mean square of d1(y, mean) over the arm's first observations: `PILOT`, and on until two
  differ. Everything after these is bet on with every lambda = `FRACTIONS`/s;
- a share `SIGN_SHARE` bets all it has on y < u from the first observation on. It is what limits an arm that always
  pays the same, once it has paid often enough.

The logarithm of a bet is replaced by the piecewise quadratic function `log_bet`, which is never larger, so that the
wealth follows, at every u, from sums over the sorted rewards: O(log n) for a candidate u. The latest rewards are sorted
apart, so that a new one costs O(sqrt(n)).

The limit depends on the arm's rewards and delta only: no dial. c y + a in place of the rewards y, c > 0, moves it as it
should, up to rounding. Proof, conditions and sources: docs/mathematics.md, "An index with a proof and no dial".
"""

from collections.abc import Iterable
from itertools import product
from math import inf, log, log1p, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prudent.core.confidence import ConfidenceSettings, Dials, deltas_of
from prudent.core.estimators import Estimator, RewardsKept
from prudent.core.measures import Array, Loss
from prudent.core.measures.score_lines import ScoreLines
from prudent.core.self_scaled import Limits

PILOT = 5
"""Observations of an arm that only set the scale."""
WARMUP = 10
"""Plays of each arm at first, in a campaign that does not say: nearly as many as two arms need before they have limits,
so that late rewards do not send all decisions to one."""
STAKE = 0.99
"""b: the largest share of the wealth at stake in a bet."""
KNOTS = np.array([-STAKE, -0.93, -0.75, -0.4, -0.12, 0.0, 0.12, 0.4, STAKE])
"""Where the pieces of `log_bet` meet."""
FRACTIONS = 4.0 * 2.0 ** (-np.arange(24) / 2.0)
"""lambda times the scale: the last is best for about a million observations."""
SIGN_SHARE = 1.0 / 32.0
CUTS = np.linspace(0.1, 0.95, 18)
"""Shares of a sample's scores that stay as they are when the condition is looked at."""
SAMPLE_MIN, ERRORS_MAX = 50, 4.0
"""Rewards before it is looked at, and standard errors that contradict it."""
_PEAK = 6
_RECENT_MAX = 2.0
"""Times sqrt(n): rewards that are sorted apart."""
_REACH_MAX, _LAST_STEP, _MARGIN, _STEPS_MAX = 1e12, 1e-6, 1e-9, 200


def _weights() -> Array:
    """Return the shares of the bets: largest near the best lambda of a hundred observations, never negligible."""
    weights = 1.0 / (1.0 + np.abs(np.arange(len(FRACTIONS)) - _PEAK) / 2.0) ** 2
    shares: Array = (1.0 - SIGN_SHARE) * weights / weights.sum()
    return shares


def _pieces() -> Array:
    """Return coefficients (pieces, 3) of 1, x, x^2 between the knots.

    Each piece touches log(1 + x) at its right knot and meets its left neighbour; the one right of 0 is x - x^2/2. As
    the third derivative of log(1 + x) is positive, none exceeds it: its difference to such a quadratic is
    f'''/6 (x - left) (x - right)^2, plus what the left end lies below.
    """
    pieces = []
    left = log1p(KNOTS[0])
    for start, end in zip(KNOTS[:-1].tolist(), KNOTS[1:].tolist(), strict=True):
        if start == 0.0:
            coefficients = (0.0, 1.0, -0.5)
        else:
            value, slope = log1p(end), 1.0 / (1.0 + end)
            bend = (left - value - slope * (start - end)) / (start - end) ** 2
            coefficients = (value - slope * end + bend * end * end, slope - 2.0 * bend * end, bend)
        left = coefficients[0] + coefficients[1] * end + coefficients[2] * end * end
        pieces.append(coefficients)
    return np.array(pieces)


WEIGHTS = _weights()
"""Of the fractions; with `SIGN_SHARE` they sum to 1."""
PIECES = _pieces()
_LOG_WEIGHTS = np.log(WEIGHTS)
_POWERS = np.arange(3)
_OVER = int(np.count_nonzero(KNOTS < 0.0))
"""Pieces of `log_bet` left of 0: of rewards above the candidate."""
_HIGHEST = float(PIECES[-1] @ [1.0, STAKE, STAKE * STAKE])
_LOWEST = log1p(-STAKE)
"""The logarithms of a bet that is won, and lost, altogether."""


def log_bet(x: Array) -> Array:
    """Return the logarithm of a bet, at most log(1 + clip(x, -STAKE, STAKE)), rising in x, 0 at 0.

    x: lambda times scores, of any shape.
    """
    clipped = np.clip(x, -STAKE, STAKE)
    piece = np.clip(np.searchsorted(KNOTS, clipped, side="right") - 1, 0, len(PIECES) - 1)
    constant, linear, square = np.moveaxis(PIECES[piece], -1, 0)
    value: Array = constant + clipped * (linear + clipped * square)
    return value


class SortedSums(NamedTuple):
    """Sums of 1, t and its square between any two places, which are read off in O(log n).

    distances: (n,), of the rewards from the origin, sorted. moments: (n + 1, 3), of those before each one, less those
    below the origin: added up from there outwards, so that far rewards cost near ones no digits.
    """

    distances: Array
    moments: Array

    @classmethod
    def of(cls, distances: Array, lines: ScoreLines) -> "SortedSums":
        """Sort and sum up distances (n,), in any order."""
        distances = np.sort(distances)
        origin = int(distances.searchsorted(0.0))
        terms = np.ones((len(distances), 3))
        terms[:, 1] = lines.transformed(distances)
        terms[:, 2] = terms[:, 1] * terms[:, 1]
        moments = np.zeros((len(distances) + 1, 3))
        np.cumsum(terms[origin:], axis=0, out=moments[origin + 1 :])
        moments[:origin] = -np.cumsum(terms[:origin][::-1], axis=0)[::-1]
        return cls(distances, moments)

    def up_to(self, places: Array) -> Array:
        """Return the moments, (..., 3), of what is not above the places (...)."""
        return self.moments.take(self.distances.searchsorted(places, side="right"), axis=0)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays held."""
        return self.distances.nbytes + self.moments.nbytes


def _polynomials(lines: ScoreLines) -> Array:
    """Return `log_bet` of rate times score: coefficients (pieces x powers of t x powers of the rate, powers of z).

    The first and the last piece are those beyond the knots.
    """
    pieces = [[_LOWEST, 0.0, 0.0], *PIECES.tolist(), [_HIGHEST, 0.0, 0.0]]
    found = np.zeros((len(pieces), 3, 3, 3))
    for piece, coefficients in enumerate(pieces):
        score = lines.over() if piece <= _OVER else lines.short()
        square = np.zeros((3, 3))
        for (i, j), (m, n) in product(np.ndindex(2, 2), repeat=2):
            square[i + m, j + n] += score[i, j] * score[m, n]
        found[piece, 0, 0, 0] = coefficients[0]
        found[piece, :2, 1, :2] = coefficients[1] * score.T
        found[piece, :, 2, :] = coefficients[2] * square.T
    return found.reshape(-1, 3)


class ArmLimit:
    """The rewards of an arm, sorted, and the limit that they give. Not thread safe."""

    def __init__(self, loss: Loss, lines: ScoreLines) -> None:
        self._loss, self._lines = loss, lines
        self._polynomials = _polynomials(lines)
        self._count = self._pilot = self._settled = 0
        self._scale = self._origin = 0.0
        self._lowest, self._highest = inf, -inf
        self._last: float | None = None
        self._powers = self._shortfalls = np.empty(0)
        self._old = self._recent = SortedSums.of(np.empty(0), lines)

    def learn(self, rewards: Array) -> None:
        """Take in what is new of the arm's rewards (n,), in order and in reward units.

        O(sqrt(n)) for one of them, and O(n log n) every 2 sqrt(n).
        """
        fresh = rewards[self._count :]
        if not len(fresh):
            return
        self._count = len(rewards)
        self._lowest, self._highest = min(self._lowest, float(fresh.min())), max(self._highest, float(fresh.max()))
        if self._scale == 0.0:
            if self._lowest == self._highest or len(rewards) < PILOT:
                return
            self._set_scale(rewards)
        if self._settled < self._pilot or len(rewards) - self._settled > _RECENT_MAX * sqrt(len(rewards)):
            self._origin, self._settled = float(np.median(rewards)), len(rewards)
            self._old = SortedSums.of(rewards[self._pilot :] - self._origin, self._lines)
        self._recent = SortedSums.of(rewards[self._settled :] - self._origin, self._lines)

    def _set_scale(self, rewards: Array) -> None:
        """Let the first rewards, not all of which are equal, set the scale."""
        self._pilot = max(PILOT, int(np.argmax(rewards != rewards[0])) + 1)
        pilot = rewards[: self._pilot]
        scores = self._loss.d1(pilot, np.full(self._pilot, float(pilot.mean())))
        self._scale = sqrt(float(np.mean(scores * scores)))
        rates = FRACTIONS[:, None] / self._scale
        self._powers = (rates**_POWERS)[:, None]
        self._shortfalls = np.pad(self._lines.shortfalls(KNOTS / rates), ((0, 0), (1, 1)), constant_values=(-inf, inf))

    def log_wealth(self, u: float) -> float:
        """Return the logarithm of the wealth at a candidate u, in reward units, without the share bet on signs."""
        return self._log_wealth(u - self._origin)[0]

    def _log_wealth(self, u: float) -> tuple[float, float]:
        """Return it, and its derivative, at origin + u. O(log n)."""
        places = u - self._shortfalls
        up_to = self._old.up_to(places) + self._recent.up_to(places)
        between = (up_to[:, :-1] - up_to[:, 1:]).reshape(len(FRACTIONS), -1)
        z, slope = self._lines.candidate(u)
        # by power of the rate, what a unit of each moment is worth at u, and its derivative
        worth = self._polynomials @ np.array([[1.0, 0.0], [z, slope], [z * z, 2.0 * z * slope]])
        sums = (between @ worth.reshape(-1, 6)).reshape(len(FRACTIONS), 3, 2)
        wealths, rises = (self._powers @ sums)[:, 0].T
        wealths += _LOG_WEIGHTS
        largest = float(wealths.max())
        shares = np.exp(wealths - largest)
        total = float(shares.sum())
        return largest + log(total), float(shares @ rises) / total

    def limit(self, delta: float) -> float:
        """Return the upper limit at an error probability in (0, 1), in reward units; inf where there is none yet."""
        by_signs = inf
        if self._count * log(2.0) + log(SIGN_SHARE) >= -log(delta):
            by_signs = self._highest
        level = -log(delta)
        if self._scale == 0.0 or (self._count - self._pilot) * _HIGHEST + log1p(-SIGN_SHARE) <= level:
            return by_signs
        return min(by_signs, self._by_scores(level))

    def _by_scores(self, level: float) -> float:
        """Return where the logarithm of the wealth reaches the level; inf where float64 shows no such place.

        Newton's method from the last limit, within what is known to be too low and too high.
        """
        spread = self._highest - self._lowest
        low, high = -inf, inf
        u = spread if self._last is None else self._last - self._origin
        for _ in range(_STEPS_MAX):
            wealth, slope = self._log_wealth(u)
            low, high = (u, high) if wealth < level else (low, u)
            step = (level - wealth) / slope if slope > 0.0 else inf
            size = abs(u) + spread / self._count
            if abs(step) <= _LAST_STEP * size:
                # what is left is of the order of the step's square: a margin on the side of too large a wealth
                self._last = self._origin + u + step + _MARGIN * size
                return self._last
            following = u + step
            if not low < following < high:
                if high == inf:
                    following = low + 3.0 * max(low - u, abs(low), spread)
                elif low == -inf:
                    following = high - 3.0 * max(abs(high), spread)
                else:
                    following = 0.5 * (low + high)
            elif abs(following) > _REACH_MAX * spread:
                return inf
            u = following
        return self._origin + high

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays held."""
        return self._old.nbytes + self._recent.nbytes


def contradiction(loss: Loss, rewards: Array, risk: float) -> float:
    """Return by how many standard errors a sample's truncated scores have a positive mean, at most, over where to cut.

    rewards: (n,); risk: their own, in reward units. For laws that satisfy the condition the mean is not positive; the
    scores are taken at an estimate, whose error is part of the standard error. 0 where there are too few rewards.
    O(n) for each of `CUTS`.
    """
    if len(rewards) < SAMPLE_MIN:
        return 0.0
    candidates = np.full(len(rewards), risk)
    scores, curvatures = loss.d1(rewards, candidates), loss.d2(rewards, candidates)
    sizes, largest = np.abs(scores), 0.0
    # below a few errors of the estimate, on which side of it a reward lies is the estimate's doing
    least = 5.0 * float(np.std(scores)) / sqrt(len(rewards))
    for cut in np.maximum(np.quantile(sizes, CUTS), least).tolist():
        share = float(curvatures[sizes < cut].sum() / curvatures.sum())
        clipped = np.clip(scores, -cut, cut)
        error = float(np.std(clipped - share * scores)) / sqrt(len(rewards))
        if error > 0.0:
            largest = max(largest, float(clipped.mean()) / error)
    return largest


class SelfNormalized:
    """The index of this module for B arms, one block each, kept current arm by arm. Not thread safe.

    Raises ValueError for a loss that is not averse to risk.
    """

    dials = Dials(None, None, None, None)
    """It has none of those of the other bonuses."""

    def __init__(self, loss: Loss, settings: ConfidenceSettings, *, blocks_at_creation: int) -> None:
        lines = loss.score_lines
        if lines is None:
            raise ValueError("the bonus self-normalized needs a measure that is averse to risk")
        self.settings = settings
        self._loss, self._lines = loss, lines
        self._at_creation = blocks_at_creation
        self._arms: list[ArmLimit] = []
        self._limits = self._distances = self._estimates = self._counts = np.empty(0)

    def refresh(self, estimator: Estimator, changed: Iterable[int]) -> None:
        """Take in the changed blocks' rewards; all limits anew where arms have come. O(n) per changed block.

        Raises TypeError for an estimator that keeps no rewards.
        """
        kept = _with_rewards(estimator)
        blocks = len(kept.theta)
        if blocks != len(self._arms):
            self._arms += [ArmLimit(self._loss, self._lines) for _ in range(blocks - len(self._arms))]
            self._limits, self._counts = np.full(blocks, inf), np.zeros(blocks)
            changed = range(blocks)
        deltas = deltas_of(self.settings.delta, blocks, self._at_creation)
        for block in changed:
            rewards = kept.observed(block)
            if len(rewards) > self._counts[block]:
                self._arms[block].learn(rewards)
                self._counts[block] = len(rewards)
                self._limits[block] = self._arms[block].limit(float(deltas[block]))
        self._estimates = kept.theta[:, 0].copy()
        self._distances = self._limits - kept.center

    def score(self, features: Array, blocks: NDArray[np.intp] | None, arms: NDArray[np.intp] | None) -> Limits:  # noqa: ARG002 -- as of `SelfScaled`
        """Return the scores of K arms, by their blocks (K,). There is no valid lower limit: depths are infinite."""
        if blocks is None:
            raise ValueError("the bonus self-normalized is for arms with blocks of their own")
        estimates, counts = self._estimates[blocks], self._counts[blocks]
        bonuses = np.maximum(self._distances[blocks] - estimates, 0.0)
        first: tuple[int, ...] = ()
        unknown = np.flatnonzero(np.isinf(bonuses))
        if len(unknown):
            first = tuple(unknown[counts[unknown] == counts[unknown].min()].tolist())
        return Limits(estimates, bonuses, np.full(len(blocks), inf), first)

    def contradicted(self, estimator: Estimator) -> list[int]:
        """Return the blocks whose own rewards contradict the condition, by more than `ERRORS_MAX` standard errors.

        estimator: refreshed. O(n) for each of `CUTS`.
        """
        kept, found = _with_rewards(estimator), []
        for block, estimate in enumerate(kept.theta[:, 0].tolist()):
            rewards = kept.observed(block) - kept.center
            if contradiction(self._loss, rewards, estimate) > ERRORS_MAX:
                found.append(block)
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays held."""
        return sum(arm.nbytes for arm in self._arms)


def _with_rewards(estimator: Estimator) -> RewardsKept:
    if not isinstance(estimator, RewardsKept):
        raise TypeError("the bonus self-normalized needs an estimator that keeps its rewards")
    return estimator
