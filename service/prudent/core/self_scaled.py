"""The bonus `self-scaled`: an index that is calibrated on the campaign's own scores, without a dial.

Per arm k, with n_k observations, running sums of the scores at the estimate just after each observation was learned,
and never revisited: a_k = sum d1^2, h_k = sum d2. Per campaign the largest surplus b+ = max(-d1) and shortfall
b- = max(d1). Per block theta and H = sum d2 x x^T at the current estimate, n observations with a mean curvature dbar,
and a ridge of a millionth of H's mean eigenvalue, for rounding only. Then, for the candidates of one decision,

    u     = x^T (H + ridge I)^-1 x,    n_eff = min(1/(dbar u), n)
    c^2   = 2 log(1/delta) - 2.5 + D + 2 log(1 + n_eff/30)    D = d - 1 for one block, 1.5 (d - 1) for one per arm
    own_k = (a_k/h_k) n_k/(n_k - r)                           r = 1 for one block, d for one per arm
    C     = the arms j without a finite index, or with
            est_j + 3 (c sqrt(own_j u_j/(1 - c^2/n_j)) + c^2 b+ u_j/3) >= max est
    s_k^2 = max(own_k, max of own over C)
    bonus = c s_k sqrt(u)/sqrt(1 - c^2/n_k) + c^2 b+ u/3
    below = 1.5 c s_k sqrt(u)/sqrt(1 - c^2/n_k) + c^2 b- u

The index is estimate + bonus; the limits that are published are estimate - below and estimate + bonus. There is no
finite index, and the arm with the fewest observations is played first, while n_k < max(20, log(t + 1)^2/2) after t
observations of the campaign, or n_k <= c^2, or n <= d.

The same arms are chosen for c y + a in place of the rewards y, c > 0, where a constant is among the features, and for
features under a linear map, up to rounding and the ridges. What may be claimed: docs/mathematics.md, "The bonus
self-scaled". It is calibrated by simulation and no guarantee (docs/coverage.md, docs/decisions/0025).
"""

from collections.abc import Iterable, Mapping
from math import inf, log, nan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prudent.core.confidence import ConfidenceSettings, Dials
from prudent.core.estimators import Estimator
from prudent.core.estimators.blocks import MAGNITUDE_MAX, StateArrays, take
from prudent.core.measures import Array, Loss
from prudent.core.numerics.positive_definite import inverse_factor

DELTA_MAX = 0.2
"""Above it c^2 could vanish; the rule was calibrated at 0.05."""
OBSERVATIONS_MIN = 20
"""Of an arm, before it has an index."""
RIDGE_SHARE = 1e-6
"""Of the mean eigenvalue of H, in the metric."""
ESTIMATION_RIDGE = 1e-10
"""Of an observation's curvature at the largest features, in the estimate: no bias that anybody could see."""
TIE_TOLERANCE = 1e-8
"""A reward this near to its own prediction, relative to both, is the prediction: what is left is the ridge's doing."""
_LEVEL_OFFSET, _SPREAD_COUNT, _RACE_FACTOR, _LOWER_FACTOR = -2.5, 30.0, 3.0, 1.5


class Limits(NamedTuple):
    """(K,) arrays in reward units: estimates; bonuses, up to the upper limit; depths, down to the lower one.

    inf where an arm has no finite index. first: positions of those among them with the fewest observations.
    """

    estimates: Array
    bonuses: Array
    depths: Array
    first: tuple[int, ...]

    def widths(self, exploration: float) -> Array:
        """Return the bonuses times `exploration`; an infinite one stays so, with exploration 0 too."""
        widths = self.bonuses.copy()
        widths[np.isfinite(widths)] *= exploration
        return widths


class ScoreSums:
    """The running sums: a fold of the observations in their order. Not thread safe.

    counts: (K,) n_k; squares: (K,) a_k; curvatures: (K,) h_k, of the registered arms. block_counts, block_curvatures:
    (B,) n and n dbar. surplus, shortfall: b+ and b-.
    """

    _NAMES = ("counts", "squares", "curvatures", "block_counts", "block_curvatures")

    def __init__(self, loss: Loss, arms: int, blocks: int) -> None:
        self._loss = loss
        self.counts, self.squares, self.curvatures = np.zeros(arms), np.zeros(arms), np.zeros(arms)
        self.block_counts, self.block_curvatures = np.zeros(blocks), np.zeros(blocks)
        self.surplus = self.shortfall = 0.0
        self.mark()

    def observe(self, block: int, arm: int | None, reward: float, prediction: float) -> None:
        """Add the scores of an observation that has just been learned. arm: None where it counts for no arm.

        reward, prediction: relative to the campaign's centre. Scores that are not finite, at an estimate that could
        not be fitted, are left out.
        """
        if abs(reward - prediction) <= TIE_TOLERANCE * (abs(reward) + abs(prediction)):
            prediction = reward
        slope, curvature = self._loss.d1(reward, prediction), self._loss.d2(reward, prediction)
        if not (abs(slope) <= MAGNITUDE_MAX and curvature <= MAGNITUDE_MAX):
            return
        self.block_counts[block] += 1.0
        self.block_curvatures[block] += curvature
        self.surplus, self.shortfall = max(self.surplus, -slope), max(self.shortfall, slope)
        if arm is not None:
            self.counts[arm] += 1.0
            self.squares[arm] += slope * slope
            self.curvatures[arm] += curvature

    def add_arm(self) -> None:
        """Register one more arm."""
        for name in ("counts", "squares", "curvatures"):
            setattr(self, name, np.append(getattr(self, name), 0.0))

    def add_block(self) -> None:
        """Append a block without observations."""
        for name in ("block_counts", "block_curvatures"):
            setattr(self, name, np.append(getattr(self, name), 0.0))

    def mark(self) -> None:
        """Remember this state for `restore`."""
        self._marked = [getattr(self, name).copy() for name in self._NAMES], self.surplus, self.shortfall

    def restore(self) -> None:
        """Return to the mark."""
        sums, self.surplus, self.shortfall = self._marked
        for name, kept in zip(self._NAMES, sums, strict=True):
            setattr(self, name, kept.copy())

    def arrays(self) -> StateArrays:
        """Return the complete state as copies."""
        extremes = np.array([self.surplus, self.shortfall])
        return {f"score_{name}": getattr(self, name).copy() for name in self._NAMES} | {"score_extremes": extremes}

    def load(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over the state `arrays()` gave; arms and blocks that came since have none. Raises ValueError."""
        loaded = {}
        for name in self._NAMES:
            now, found = getattr(self, name), arrays.get(f"score_{name}")
            if found is None or found.ndim != 1 or len(found) > len(now):
                raise ValueError(f"score_{name} must be an array of at most {len(now)} numbers")
            loaded[name] = np.zeros(len(now))
            loaded[name][: len(found)] = take(arrays, f"score_{name}", (len(found),))
        self.surplus, self.shortfall = take(arrays, "score_extremes", (2,)).tolist()
        for name, array in loaded.items():
            setattr(self, name, array)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays held."""
        return sum(getattr(self, name).nbytes for name in self._NAMES)


class SelfScaled:
    """The index of this module for B blocks of dimension d, kept current block by block. See the module's docstring.

    Raises ValueError for a delta above `DELTA_MAX`.
    """

    dials = Dials(None, None, None, None)
    """It has none of those of the other bonuses."""

    def __init__(self, settings: ConfidenceSettings, sums: ScoreSums, blocks: int, dimension: int) -> None:
        if not 0.0 < settings.delta <= DELTA_MAX:
            raise ValueError(f"delta must be positive and at most {DELTA_MAX}, not {settings.delta}")
        self.settings = settings
        self._sums = sums
        self._dimension = dimension
        self._base = 2.0 * log(1.0 / settings.delta) + _LEVEL_OFFSET
        self._observations = 0
        self._scoring = _unknown(blocks, dimension)

    def refresh(self, estimator: Estimator, changed: Iterable[int]) -> None:
        """Recompute the changed blocks' metric. O(d^3) per changed block."""
        blocks, dimension = estimator.theta.shape
        known = len(self._scoring)
        if blocks > known:
            self._scoring = np.concatenate([self._scoring, _unknown(blocks - known, dimension)])
        self._observations = estimator.observations
        for block in changed:
            matrix = estimator.weighted_gram[block]
            ridge = RIDGE_SHARE * float(np.trace(matrix)) / dimension
            if ridge > 0.0:
                self._scoring[block, :-1] = inverse_factor(matrix, ridge)[0]
            self._scoring[block, -1] = estimator.theta[block]

    def score(self, features: Array, blocks: NDArray[np.intp] | None, arms: NDArray[np.intp] | None) -> Limits:
        """Return the scores of K candidates, which are compared with each other.

        features: (K, d) with one block (``blocks`` None), or (d,) one context for all of ``blocks``: (K,).
        arms: (K,) the candidates' places in order of registration; None where they are the blocks.
        """
        arms = blocks if arms is None else arms
        if arms is None:
            raise ValueError("the bonus self-scaled needs to know which arms these are")
        sums, dimension = self._sums, self._dimension
        if blocks is None:
            images, places = features @ self._scoring[0].T, np.zeros(len(features), dtype=np.intp)
            extra, spent = dimension - 1.0, 1
        else:
            images, places = self._scoring[blocks] @ features, blocks
            extra, spent = 1.5 * (dimension - 1.0), dimension
        estimates = images[:, -1].copy()
        leverages = np.vecdot(images[:, :-1], images[:, :-1])  # u
        counts, of_block = sums.counts[arms], sums.block_counts[places]
        with np.errstate(divide="ignore", invalid="ignore"):
            effective = np.minimum(of_block / (sums.block_curvatures[places] * leverages), of_block)
            squares = self._base + extra + 2.0 * np.log1p(effective / _SPREAD_COUNT)  # c^2
            own = np.where(
                (counts > spent) & (sums.curvatures[arms] > 0.0),
                sums.squares[arms] / sums.curvatures[arms] * (counts / (counts - spent)),
                0.0,
            )
            widths = np.sqrt(squares * leverages / (1.0 - squares / counts))
        needed = max(OBSERVATIONS_MIN, 0.5 * log(self._observations + 1.0) ** 2)
        is_known = (counts >= needed) & (counts > squares) & (of_block > dimension)
        steps = squares * leverages
        race = estimates + _RACE_FACTOR * (np.sqrt(own) * widths + steps * (sums.surplus / 3.0))
        in_race = ~is_known | (race >= estimates.max())
        spreads = np.sqrt(np.maximum(own, own[in_race].max()))
        first: tuple[int, ...] = ()
        if not is_known.all():
            unknown = np.flatnonzero(~is_known)
            first = tuple(unknown[counts[unknown] == counts[unknown].min()].tolist())
        return Limits(
            estimates,
            np.where(is_known, spreads * widths + steps * (sums.surplus / 3.0), inf),
            np.where(is_known, _LOWER_FACTOR * spreads * widths + steps * sums.shortfall, inf),
            first,
        )

    @property
    def nbytes(self) -> int:
        """Bytes of the matrices held."""
        return self._scoring.nbytes


def _unknown(blocks: int, dimension: int) -> Array:
    """Return each block's inverse factor F, nan without observations, and under it theta: (B, d + 1, d)."""
    scoring = np.full((blocks, dimension + 1, dimension), nan)
    scoring[:, -1] = 0.0
    return scoring
