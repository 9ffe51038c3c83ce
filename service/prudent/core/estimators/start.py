"""The first observations of a streaming estimator, kept until they give it a starting point."""

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from prudent.core.estimators.blocks import Histories, StateArrays, take
from prudent.core.estimators.exact import sums_at
from prudent.core.measures import Array, Loss
from prudent.core.numerics.newton import minimise


class Start:
    """The first `size` observations of a campaign, over all blocks, and the exact minimiser of each block's.

    `close` drops them. Not thread safe.
    """

    def __init__(self, loss: Loss, blocks: int, dimension: int, regularization: float, size: int) -> None:
        if size < 0:
            raise ValueError(f"start_observations must not be negative, not {size}")
        self.size = size
        self._loss = loss
        self._dimension = dimension
        self._regularization = regularization
        self._empty = np.zeros((0, dimension)), np.zeros(0)
        self._kept = Histories(blocks, dimension) if size else None

    @property
    def is_open(self) -> bool:
        """Whether observations are still being kept."""
        return self._kept is not None

    def features(self, block: int) -> Array:
        """Return a block's kept features, (n, d)."""
        return self._empty[0] if self._kept is None else self._kept.features(block)

    def rewards(self, block: int) -> Array:
        """Return a block's kept rewards, (n,)."""
        return self._empty[1] if self._kept is None else self._kept.rewards(block)

    def recenter(self, center: float) -> None:
        """Take the kept rewards relative to a centre."""
        if self._kept is not None:
            self._kept.recenter(center)

    def _observed(self, block: int) -> Array:
        return self._empty[1] if self._kept is None else self._kept.observed(block)

    def append(self, block: int, x: Array, y: float) -> None:
        """Keep one observation, x: (d,). Raises RuntimeError once closed."""
        if self._kept is None:
            raise RuntimeError("the start is closed")
        self._kept.append(block, x, y)

    def minimiser(self, block: int, bound: float | None) -> Array:
        """Return argmin over ||theta|| <= bound of the block's sum L(y, <theta, x>) + alpha/2 ||theta||^2, (d,).

        Always solved from scratch, so that it depends on the observations only; 0 without any. The solver's best
        theta is taken even without a certificate: a streaming estimator goes on from any point.
        """
        return minimise(self._loss, self.features(block), self.rewards(block), self._regularization, bound).theta

    def sums(self, block: int, theta: Array) -> tuple[Array, float, float] | None:
        """Return the block's sum d2 x x^T, (d, d), sum d1^2 and sum d2 at theta; None where one overflows."""
        sums = sums_at(self._loss, self.features(block), self.rewards(block), theta)
        return sums if np.isfinite(sums[0]).all() and math.isfinite(sums[1]) else None

    def close(self) -> None:
        """End the start and drop what it kept. A marked start comes back with `restore`."""
        self._kept = None

    def add_block(self) -> None:
        """Append a block without observations."""
        if self._kept is not None:
            self._kept.add_block()

    def mark(self) -> None:
        """Remember this state for `restore`, in place of any earlier mark."""
        if self._kept is not None:
            self._kept.mark()
        self._marked = self._kept

    def restore(self) -> None:
        """Return to the mark, which must be there; the mark stays."""
        self._kept = self._marked
        if self._kept is not None:
            self._kept.restore()

    def arrays(self, blocks: int) -> StateArrays:
        """Return copies of what is kept, block after block."""
        return {
            "start_lengths": np.array([len(self.rewards(block)) for block in range(blocks)], dtype=np.int64),
            "start_features": np.concatenate([self._empty[0], *(self.features(block) for block in range(blocks))]),
            "start_rewards": np.concatenate([self._empty[1], *(self._observed(block) for block in range(blocks))]),
        }

    def loaded(self, arrays: Mapping[str, NDArray[np.generic]], blocks: int, observations: int) -> "Start":
        """Return a start, with these settings, of the state that `arrays` gave after so many observations.

        Raises ValueError where the arrays do not fit each other, the blocks or the count.
        """
        lengths = arrays.get("start_lengths")
        if lengths is None or lengths.shape != (blocks,) or lengths.dtype != np.int64:
            raise ValueError(f"start_lengths must be an int64 array of shape ({blocks},)")
        counts = [int(length) for length in lengths]
        if min(counts, default=0) < 0:
            raise ValueError("start_lengths must not be negative")
        kept, is_open = sum(counts), observations < self.size
        if kept != (observations if is_open else 0):
            raise ValueError("the observations kept do not match the number counted")
        features = take(arrays, "start_features", (kept, self._dimension))
        rewards = take(arrays, "start_rewards", (kept,))
        start = Start(self._loss, blocks, self._dimension, self._regularization, self.size)
        if not is_open:
            start.close()
        position = 0
        for block, count in enumerate(counts):
            for row in range(position, position + count):
                start.append(block, features[row], float(rewards[row]))
            position += count
        return start

    @property
    def nbytes(self) -> int:
        """Bytes of the observations kept, with the spare capacity."""
        return 0 if self._kept is None else self._kept.nbytes
