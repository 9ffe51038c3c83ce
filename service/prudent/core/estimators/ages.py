"""What the observations of a history weigh when they are forgotten, and a loss that weighs them so."""

import math
from array import array
from collections.abc import Sequence

import numpy as np

from prudent.core.forgetting import HALF_LIVES_MAX
from prudent.core.measures import Array, Loss
from prudent.core.measures.loss import Real


class Ages:
    """When each observation of each block's history came, in half-lives; with an undo journal of lengths.

    An observation that came at `faded` a weighs 2^(a - faded) now, and nothing once that is below
    2^-HALF_LIVES_MAX. So nothing that is kept has to change when something is forgotten.
    """

    def __init__(self, lengths: Sequence[int]) -> None:
        """lengths: observations of each block so far, all of age 0."""
        self._stamps = [array("d", bytes(8 * length)) for length in lengths]
        self.faded = 0.0
        self._marked = list(lengths), 0.0

    def append(self, block: int) -> None:
        """Add an observation of age 0."""
        self._stamps[block].append(self.faded)

    def add_block(self) -> None:
        """Append an empty block."""
        self._stamps.append(array("d"))

    def fade(self, share: float) -> None:
        """Multiply all weights by this share, in (0, 1)."""
        self.faded -= math.log2(share)

    def weights(self, block: int) -> Array:
        """Return the weights of a block's latest observations, (m,), m at most n: those before them weigh nothing."""
        stamps = np.array(self._stamps[block])
        first = stamps.searchsorted(self.faded - HALF_LIVES_MAX)
        return np.asarray(np.exp2(stamps[first:] - self.faded))

    def mark(self) -> None:
        """Remember this state for `restore`."""
        self._marked = [len(stamps) for stamps in self._stamps], self.faded

    def restore(self) -> None:
        """Return to the mark."""
        lengths, self.faded = self._marked
        del self._stamps[len(lengths) :]
        for stamps, length in zip(self._stamps, lengths, strict=True):
            del stamps[length:]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(8 * len(stamps) for stamps in self._stamps)


class Weighed(Loss):
    """A loss whose value and derivatives are multiplied by the weights of the observations, in (0, 1].

    A float is an observation of weight 1. Curvature bounds are those of the loss itself.
    """

    __slots__ = ("_loss", "_weights")

    def __init__(self, loss: Loss, weights: Array) -> None:
        """weights: (n,), of the observations that arrays will be about."""
        self._loss, self._weights = loss, weights

    @property
    def is_piecewise_quadratic(self) -> bool:  # type: ignore[override]  # of an instance here
        """Whether the loss itself is."""
        return self._loss.is_piecewise_quadratic

    @property
    def curvature_min(self) -> float:
        """That of the loss itself."""
        return self._loss.curvature_min

    @property
    def curvature_max(self) -> float:
        """That of the loss itself."""
        return self._loss.curvature_max

    @property
    def conditioning(self) -> float:
        """That of the loss itself, times the range of the weights."""
        return self._loss.conditioning * 2.0**HALF_LIVES_MAX

    def _weigh(self, values: Real) -> Real:
        return values if isinstance(values, float) else values * self._weights

    def value(self, y: Real, xi: Real) -> Real:
        """Return the weighted loss, (n,) or a float."""
        return self._weigh(self._loss.value(y, xi))

    def d1(self, y: Real, xi: Real) -> Real:
        """Return its first derivative in xi, (n,) or a float."""
        return self._weigh(self._loss.d1(y, xi))

    def d2(self, y: Real, xi: Real) -> Real:
        """Return its second derivative in xi, (n,) or a float."""
        return self._weigh(self._loss.d2(y, xi))

    def implicit_step(self, y: float, prediction: float, leverage: float) -> tuple[float, float]:
        """Return that of the loss itself."""
        return self._loss.implicit_step(y, prediction, leverage)
