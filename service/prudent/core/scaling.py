"""Centres and scales of numbers, learned from a campaign's first observations, and what its features have been.

Without them the penalty and the bonus depend on units: age in years and income in cents. The first 96 learned rows are
kept; at rows 3, 6, 12, 24, 48 and 96 the centre becomes the median of what was seen of a feature and the scale its
interquartile range over 1.349, a normal variable's standard deviation. The estimator is then fitted anew to the rows so
far, and after the last of them nothing changes any more. So all of it is a function of the log's beginning, and
`restore` and a replay give the same bytes. A range of 0 stands for few distinct values: the standard deviation is then
the scale, or 1 for a constant.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prudent.core.estimators.blocks import StateArrays, take

Floats = NDArray[np.float64]
MILESTONES = (3, 6, 12, 24, 48, 96)
ROWS_MAX = MILESTONES[-1]
NORMAL_RANGE = 1.3489795003921634
"""The interquartile range of a standard normal variable."""

SCALE_MIN, ROUNDING = 1e-12, 1e-9
"""A learned scale is at least the first, and at least the second times the largest value: what is below is rounding."""


class Observed(NamedTuple):
    """An observation as it was learned."""

    block: int
    row: Floats
    reward: float


def center_and_scale(values: Floats, unknown: tuple[float, float] = (0.0, 1.0)) -> tuple[float, float]:
    """Of a feature's values, (m,), in its unit; `unknown` where there are none."""
    if not len(values):
        return unknown
    low, middle, high = np.percentile(values, [25.0, 50.0, 75.0]).tolist()
    if (values == values[0]).all():
        return middle, 1.0
    smallest = max(SCALE_MIN, ROUNDING * float(np.abs(values).max()))
    return middle, max((high - low) / NORMAL_RANGE or float(values.std()), smallest)


class Scaling:
    """The first rows of a campaign, and the centres and scales that they give. Not thread safe."""

    def __init__(self, features: int) -> None:
        self._features = features
        self._observed: list[Observed] = []
        self.count = 0
        """How many rows have been learned, at most ROWS_MAX."""
        self.center, self.scale = np.zeros(features), np.full(features, np.inf)
        self._marked = (0, self.center, self.scale)

    @property
    def is_frozen(self) -> bool:
        """Whether nothing changes any more."""
        return self.count >= ROWS_MAX

    @property
    def observed(self) -> list[Observed]:
        """The rows so far, in the order of the log; none once all is frozen and marked."""
        return self._observed[: self.count]

    def add(self, one: Observed) -> bool:
        """Take in an observation; whether centres and scales have changed, so that all must be learned again."""
        if self.is_frozen:
            return False
        del self._observed[self.count :]
        self._observed.append(one)
        self.count += 1
        if self.count not in MILESTONES:
            return False
        rows = np.array([kept.row for kept in self._observed]).reshape(-1, self._features)
        unknown = (0.0, 1.0 if self.is_frozen else np.inf)
        found = [center_and_scale(column[~np.isnan(column)], unknown) for column in rows.T]
        self.center, self.scale = (np.array(part, dtype=np.float64) for part in zip(*found, strict=True))
        return True

    def mark(self) -> None:
        """Remember this state for `restore`; rows that are no longer needed are dropped."""
        if self.is_frozen:
            self._observed = []
        self._marked = self.count, self.center, self.scale

    def restore(self) -> None:
        """Return to the mark."""
        self.count, self.center, self.scale = self._marked

    def arrays(self) -> StateArrays:
        """Return the complete state as copies."""
        kept = [] if self.is_frozen else self.observed
        return {
            "scaling_count": np.array(self.count, dtype=np.int64),
            "scaling_center": self.center.copy(),
            "scaling_scale": self.scale.copy(),
            "scaling_rows": np.array([one.row for one in kept], dtype=np.float64).reshape(-1, self._features),
            "scaling_rewards": np.array([one.reward for one in kept], dtype=np.float64),
            "scaling_blocks": np.array([one.block for one in kept], dtype=np.int64),
        }

    def load(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over the state `arrays()` gave. Raises ValueError for arrays that do not fit, KeyError for none."""
        count, blocks = int(arrays["scaling_count"]), arrays["scaling_blocks"]
        kept = 0 if count >= ROWS_MAX else count
        if not 0 <= count <= ROWS_MAX or blocks.shape != (kept,) or blocks.dtype != np.int64:
            raise ValueError("scaling_count and scaling_blocks do not fit")
        rows, rewards = (
            take_any(arrays, "scaling_rows", (kept, self._features)),
            take(arrays, "scaling_rewards", (kept,)),
        )
        center = take(arrays, "scaling_center", (self._features,))
        scale = take_any(arrays, "scaling_scale", (self._features,))
        self._observed = [
            Observed(block, row, reward)
            for block, row, reward in zip(blocks.tolist(), rows, rewards.tolist(), strict=True)
        ]
        self.count, self.center, self.scale = count, center, scale

    @property
    def nbytes(self) -> int:
        """Bytes of the rows held."""
        return len(self._observed) * (200 + 8 * self._features)


def take_any(arrays: Mapping[str, NDArray[np.generic]], name: str, shape: tuple[int, ...]) -> Floats:
    """A float64 array that need not be finite. Raises ValueError or KeyError."""
    found = arrays[name]
    if found.shape != shape or found.dtype != np.float64:
        raise ValueError(f"{name} must be float64 of shape {shape}")
    return np.array(found, dtype=np.float64)


class Seen:
    """What the learned rows held of each feature: how often nothing, how often another category, which range."""

    def __init__(self, features: int) -> None:
        self.missing, self.others = np.zeros(features, np.int64), np.zeros(features, np.int64)
        self.low, self.high = np.full(features, np.nan), np.full(features, np.nan)
        self._marked = self._copies()

    def add(self, row: Floats, categories: NDArray[np.bool_]) -> None:
        """row: (n,), as the log holds it. categories: (n,), which of them are."""
        self.missing += np.isnan(row)
        self.others += categories & (row == 0.0)
        np.fmin(self.low, row, out=self.low)
        np.fmax(self.high, row, out=self.high)

    def _copies(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats, Floats]:
        return self.missing.copy(), self.others.copy(), self.low.copy(), self.high.copy()

    def mark(self) -> None:
        """Remember this state for `restore`."""
        self._marked = self._copies()

    def restore(self) -> None:
        """Return to the mark."""
        missing, others, low, high = self._marked
        self.missing, self.others, self.low, self.high = missing.copy(), others.copy(), low.copy(), high.copy()

    def arrays(self) -> StateArrays:
        """Return the complete state as copies."""
        return dict(zip(("seen_missing", "seen_others", "seen_low", "seen_high"), self._copies(), strict=True))

    def load(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over the state `arrays()` gave. Raises ValueError for arrays that do not fit, KeyError for none."""
        shape = self.low.shape
        counts = [arrays[name] for name in ("seen_missing", "seen_others")]
        if any(one.shape != shape or one.dtype != np.int64 for one in counts):
            raise ValueError("the counts of features do not fit")
        self.missing, self.others = (np.array(one, dtype=np.int64) for one in counts)
        self.low, self.high = (take_any(arrays, name, shape) for name in ("seen_low", "seen_high"))
