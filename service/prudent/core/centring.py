"""The centre that rewards are learned relative to: the campaign's risk measure of its rewards so far.

The ridge pulls estimates towards 0 and the bonus carries sqrt(alpha) ||theta||, so with raw rewards the arms that are
chosen depend on where the reward's zero lies. Learning y - c, with c equivariant, makes the choices the same for
rewards + any constant, up to the rounding of y - c. The centre is taken anew at observation counts that are powers of
two, which costs O(1) per observation on average; in between it stays, so it is a function of the log's prefix.
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from prudent.core.estimators.blocks import StateArrays, take

REWARDS_MAX = 2**16
"""After so many rewards the centre stays where it is, its error a 256th of their spread, and they are dropped."""


class Centre:
    """The centre c of the rewards so far, kept current. Not thread safe.

    risk: (n,) rewards to their risk measure, in reward units. value: c, in reward units; 0 before the first reward.
    """

    def __init__(self, risk: Callable[[NDArray[np.float64]], float]) -> None:
        self._risk = risk
        self._rewards = np.empty(0)
        self._count = 0
        self.value = self._spread = 0.0
        self._marked, self._marked_rewards = (0, 0.0, 0.0), self._rewards

    @property
    def spread(self) -> float:
        """The standard deviation of the rewards that c was taken of, in reward units."""
        return self._spread

    def observe(self, reward: float) -> float:
        """Take in a reward; return how much c has moved by it."""
        count = self._count
        if count < REWARDS_MAX:
            if count == len(self._rewards):
                self._rewards = np.concatenate([self._rewards, np.empty(count + 16)])
            self._rewards[count] = reward
        self._count = count = count + 1
        if count & (count - 1) or count > REWARDS_MAX:
            return 0.0
        rewards = self._rewards[:count]
        before, self.value, self._spread = self.value, self._risk(rewards), float(np.std(rewards))
        return self.value - before

    def forget(self, half_life: int) -> None:
        """Leave out rewards that are older than a half-life, once there are twice as many; the centre stays until then.

        half_life: in rewards. Of more than `REWARDS_MAX` rewards the centre has been taken for good.
        """
        if 2 * half_life < self._count < REWARDS_MAX:
            self._rewards = self._rewards[self._count - half_life : self._count].copy()
            self._count = half_life

    def mark(self) -> None:
        """Remember this state for `restore`; rewards that are no longer needed are dropped."""
        if self._count >= REWARDS_MAX and len(self._rewards):
            self._rewards = np.empty(0)
        self._marked, self._marked_rewards = (self._count, self.value, self._spread), self._rewards

    def restore(self) -> None:
        """Return to the mark."""
        self._count, self.value, self._spread = self._marked
        self._rewards = self._marked_rewards

    def arrays(self) -> StateArrays:
        """Return the complete state as copies."""
        kept = self._rewards[: self._count].copy() if self._count < REWARDS_MAX else np.empty(0)
        return {
            "centring_rewards": kept,
            "centring_count": np.array(self._count, dtype=np.int64),
            "centring_value": np.array(self.value),
            "centring_spread": np.array(self._spread),
        }

    def load(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over the state `arrays()` gave. Raises ValueError for arrays that do not fit."""
        count = arrays.get("centring_count")
        if count is None or count.shape != () or count.dtype != np.int64 or int(count) < 0:
            raise ValueError("centring_count must be an int64 number, not negative")
        kept = int(count) if int(count) < REWARDS_MAX else 0
        rewards, value = take(arrays, "centring_rewards", (kept,)), take(arrays, "centring_value", ())
        spread = take(arrays, "centring_spread", ()).item()
        self._rewards, self._count, self.value, self._spread = rewards, int(count), value.item(), spread

    @property
    def nbytes(self) -> int:
        """Bytes of the rewards held."""
        return self._rewards.nbytes
