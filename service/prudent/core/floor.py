"""How much of each registered arm has been seen, for the floor of the exploration.

An arm that pays seldom looks like one that never pays: an observation that repeats its arm's lowest reward weighs less
than one. The weights come from simulations: docs/decisions/0024-drawn-multiplier.md.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from prudent.core.estimators.blocks import StateArrays, take

REPEAT_WEIGHT = 1.0 / 12.0
"""What an observation counts that repeats its arm's lowest reward, where the arm has paid more, too."""
CONSTANT_WEIGHT = 0.2
"""The same where the arm has never paid anything else, and may be constant."""


class FloorCounts:
    """The counts of the arms, by order of registration; a fold of the log.

    counts: observations since the arm was registered. weighed: what they count for the floor.
    """

    def __init__(self, arms: int) -> None:
        self.counts = [0] * arms
        self.weighed = [0.0] * arms
        self._repeats = [0] * arms
        self._lowest = [0.0] * arms
        self._forgotten = [0.0] * arms
        self.mark()

    def add_arm(self) -> None:
        """Register one more."""
        self.counts.append(0)
        self.weighed.append(0.0)
        self._repeats.append(0)
        self._lowest.append(0.0)
        self._forgotten.append(0.0)

    def observe(self, arm: int, reward: float) -> None:
        """Count one observation. Where the earlier ones weigh otherwise by it, what was forgotten of them does, too."""
        count, repeats = self.counts[arm], self._repeats[arm]
        if count and reward == self._lowest[arm]:
            self._repeats[arm] += 1
        else:
            if not count or reward < self._lowest[arm]:
                self._lowest[arm], self._repeats[arm] = reward, 0
            if self._forgotten[arm]:
                self._forgotten[arm] *= _whole(count, self._repeats[arm], REPEAT_WEIGHT) / _whole(count, repeats)
        self.counts[arm] += 1
        self._weigh(arm)

    def _weigh(self, arm: int) -> None:
        self.weighed[arm] = max(0.0, _whole(self.counts[arm], self._repeats[arm]) - self._forgotten[arm])

    def forget(self, share: float) -> None:
        """Multiply what every arm's observations count by this share."""
        for arm, weighed in enumerate(self.weighed):
            self._forgotten[arm] += (1.0 - share) * weighed
            self.weighed[arm] = share * weighed

    def mark(self) -> None:
        """Remember this state for ``restore``."""
        self._marked = self.counts.copy(), self.weighed.copy(), self._repeats.copy(), self._lowest.copy()
        self._marked_forgotten = self._forgotten.copy()

    def restore(self) -> None:
        """Return to the mark."""
        counts, weighed, repeats, lowest = self._marked
        self.counts, self.weighed = counts.copy(), weighed.copy()
        self._repeats, self._lowest = repeats.copy(), lowest.copy()
        self._forgotten = self._marked_forgotten.copy()

    def arrays(self) -> StateArrays:
        """Return the state, for a snapshot."""
        return {
            "arm_counts": np.array(self.counts, dtype=np.int64),
            "arm_repeats": np.array(self._repeats, dtype=np.int64),
            "arm_lowest_rewards": np.array(self._lowest, dtype=np.float64),
            "arm_forgotten": np.array(self._forgotten, dtype=np.float64),
        }

    def load(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over the state `arrays()` gave; arms that came since have none. Raises ValueError and KeyError."""
        counts, repeats = arrays["arm_counts"], arrays["arm_repeats"]
        known = len(counts)
        if any(one.shape != (known,) or one.dtype != np.int64 for one in (counts, repeats)) or known > len(self.counts):
            raise ValueError(f"arm_counts and arm_repeats must be int64 arrays of at most {len(self.counts)} arms")
        self._lowest[:known] = take(arrays, "arm_lowest_rewards", (known,)).tolist()
        self._forgotten[:known] = take(arrays, "arm_forgotten", (known,)).tolist()
        self.counts[:known], self._repeats[:known] = counts.tolist(), repeats.tolist()
        for arm in range(known):
            if self.counts[arm]:
                self._weigh(arm)


def _whole(count: int, repeats: int, weight: float | None = None) -> float:
    """What so many observations count before anything is forgotten. weight: of a repeat; by default as they tell."""
    if weight is None:
        weight = CONSTANT_WEIGHT if count - repeats == 1 else REPEAT_WEIGHT
    return count - repeats + weight * repeats
