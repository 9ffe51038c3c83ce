"""Forgetting: what an observation weighs falls by half with every half-life of later observations.

The sums are not scaled with every observation but in steps of a 32nd of the half-life, by 2^(-1/32) each: a weight is
at most 2.2% from 2^(-age / half-life), and where the steps fall is a function of the log alone. The ridge is not
forgotten, so a direction that is no longer excited returns to what it was before the first observation, and no inverse
grows beyond 1/alpha. What it costs and gains, measured: docs/changing-world.md.
"""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from prudent.core.estimators.blocks import StateArrays

STEPS = 32
"""Per half-life, or as many as it has observations."""
HALF_LIVES_MAX = 16
"""An estimator that keeps its history leaves out what is older: together it would weigh 2^-16 of the rest."""


@runtime_checkable
class Forgets(Protocol):
    """An estimator that can forget."""

    def forget(self, share: float) -> None:
        """Multiply the weight of everything observed by this share, in (0, 1); the ridge keeps its own."""


class Forgetting:
    """When the next step is due; a fold of the log. Not thread safe.

    half_life: in observations of the campaign, whichever arm they are of; 0 while nothing is forgotten.
    """

    def __init__(self, half_life: int) -> None:
        self.half_life = half_life
        self._since = 0
        self._marked = half_life, 0

    @property
    def step(self) -> int:
        """Observations from one step to the next."""
        return max(1, self.half_life // STEPS)

    def change(self, half_life: int) -> None:
        """Go on with another half-life, from now on; 0 to forget nothing more."""
        self.half_life, self._since = half_life, 0

    def observe(self) -> float | None:
        """Count an observation that is about to be learned; the share to forget by before it, where a step is due."""
        if not self.half_life:
            return None
        self._since += 1
        if self._since <= self.step:
            return None
        self._since = 1
        share: float = 2.0 ** (-self.step / self.half_life)
        return share

    def mark(self) -> None:
        """Remember this state for `restore`."""
        self._marked = self.half_life, self._since

    def restore(self) -> None:
        """Return to the mark."""
        self.half_life, self._since = self._marked

    def arrays(self) -> StateArrays:
        """Return the complete state."""
        return {"forgetting": np.array([self.half_life, self._since], dtype=np.int64)}

    def load(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over the state `arrays()` gave. Raises KeyError, and ValueError for arrays that do not fit."""
        state = arrays["forgetting"]
        if state.shape != (2,) or state.dtype != np.int64 or (state < 0).any():  # type: ignore[operator]  # int64
            raise ValueError("forgetting must be two int64 numbers, not negative")
        self.half_life, self._since = state.tolist()
