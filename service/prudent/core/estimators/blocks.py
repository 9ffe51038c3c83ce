"""What every estimator's state is made of: rows of matrices, one per block, and histories, with an undo journal.

A block is a parameter vector of its own: the shared model has one, the disjoint model one per arm. A mark
copies nothing; a block is copied the first time it changes after the mark, so undoing costs what was touched.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dnrm2

from prudent.core.measures import Array

StateArrays: TypeAlias = dict[str, NDArray[np.float64] | NDArray[np.int64]]

MAGNITUDE_MAX = 1e50
"""Largest norm of the features and size of a reward the core accepts: no product in a sum overflows."""


def check_observation(block: int, blocks: int, dimension: int, x: Array, y: float) -> None:
    """Raise ValueError unless the block exists, x is (dimension,), x and y are finite and not huge."""
    if not 0 <= block < blocks:
        raise ValueError(f"unknown block {block}: there are {blocks} blocks")
    if x.shape != (dimension,):
        raise ValueError(f"features must have shape ({dimension},), not {x.shape}")
    # BLAS's norm neither overflows nor warns. Written so that nan, which fails every comparison, is refused too.
    if not (dnrm2(x) <= MAGNITUDE_MAX and abs(y) <= MAGNITUDE_MAX):
        raise ValueError(f"features and rewards must be finite and at most {MAGNITUDE_MAX:g} in size")


def is_gram(matrices: Array) -> bool:
    """Whether each of the (B, d, d) matrices is exactly symmetric with a diagonal that is not negative."""
    symmetric = np.array_equal(matrices, matrices.transpose(0, 2, 1))
    return symmetric and bool((np.diagonal(matrices, axis1=1, axis2=2) >= 0.0).all())


class BlockRows:
    """Named float64 arrays whose first axis is the block, all zero at first.

    `rows[name]` is a view of the current blocks, valid until the next `add`, `restore` or `load`. All that belongs to
    a block lies in one row of memory, so that saving a block is one copy.
    """

    __slots__ = ("_data", "_marked", "_places", "_saved", "_views", "_whole", "count")

    def __init__(self, blocks: int, shapes: Mapping[str, tuple[int, ...]]) -> None:
        if blocks < 0:
            raise ValueError(f"the number of blocks must not be negative, not {blocks}")
        self.count = blocks
        self._places: dict[str, tuple[int, tuple[int, ...]]] = {}
        width = 0
        for name, shape in shapes.items():
            self._places[name] = width, shape
            width += math.prod(shape)
        self._data = np.zeros((blocks, width))
        self._marked: int | None = None
        self._saved: dict[int, Array] = {}
        self._whole: Array | None = None
        self._bind()

    def _bind(self) -> None:
        rows = self._data[: self.count]
        self._views = {
            name: rows[:, start : start + math.prod(shape)].reshape((self.count, *shape))
            for name, (start, shape) in self._places.items()
        }

    def __getitem__(self, name: str) -> Array:
        return self._views[name]

    def total(self, name: str) -> float:
        """Sum of a scalar over the blocks."""
        values = self._views[name]
        return values.item(0) if self.count == 1 else float(np.add.reduce(values))

    def like(self, blocks: int) -> "BlockRows":
        """Return rows of the same names and shapes, all zero, for so many blocks."""
        return BlockRows(blocks, {name: shape for name, (_, shape) in self._places.items()})

    def add(self) -> None:
        """Append one block of zeros. Capacity doubles, so this is O(row) on average."""
        capacity, width = self._data.shape
        if self.count == capacity:
            grown = np.zeros((max(4, 2 * capacity), width))
            grown[:capacity] = self._data
            self._data = grown
        self.count += 1
        self._bind()

    def mark(self) -> None:
        """Begin a new undo journal, forgetting the last one."""
        self._marked = self.count
        self._saved = {}
        self._whole = None

    def touch(self, block: int) -> None:
        """Save a block that is about to change."""
        if self._marked is None or self._whole is not None:
            return
        if block < self._marked and block not in self._saved:
            self._saved[block] = self._data[block].copy()

    def touch_all(self) -> None:
        """Save every block: all are about to change."""
        if self._marked is not None and self._whole is None:
            self._whole = self._data[: self._marked].copy()

    def restore(self) -> None:
        """Return to the mark, byte for byte, and keep it. Raises RuntimeError without a mark."""
        if self._marked is None:
            raise RuntimeError("restore() needs a mark() first")
        self._data[self._marked : self.count] = 0.0
        if self._whole is not None:
            self._data[: self._marked] = self._whole
        # Rows saved one by one are older than the copy of all of them.
        for block, row in self._saved.items():
            self._data[block] = row
        self.count = self._marked
        self.mark()
        self._bind()

    def arrays(self) -> StateArrays:
        """Return copies of all arrays by name."""
        return {name: view.copy() for name, view in self._views.items()}

    def load(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over copies of the arrays `arrays()` gave, and forget the mark.

        Raises ValueError, and changes nothing, where one is missing, misshapen, of another type or not finite.
        """
        blocks = {len(arrays[name]) for name in self._places if name in arrays}
        if len(blocks) != 1:
            raise ValueError("the arrays of a state must be complete, with one row per block")
        loaded = self.like(blocks.pop())
        for name, view in loaded._views.items():  # noqa: SLF001  # of this class
            view[:] = take(arrays, name, view.shape)
        self._data, self.count = loaded._data, loaded.count  # noqa: SLF001
        self._marked, self._saved, self._whole = None, {}, None
        self._bind()

    def is_finite(self) -> bool:
        """Whether every entry is finite."""
        return bool(np.isfinite(self._data[: self.count]).all())

    @property
    def nbytes(self) -> int:
        """Bytes held, with the spare capacity, without the journal."""
        return self._data.nbytes


def take(arrays: Mapping[str, NDArray[np.generic]], name: str, shape: tuple[int, ...]) -> Array:
    """Return a C-ordered copy of a float64 array of a state.

    Raises ValueError where it is missing, or has another shape or type, or is not finite.
    """
    array = arrays.get(name)
    if array is None or array.shape != shape or array.dtype != np.float64:
        raise ValueError(f"{name} must be a float64 array of shape {shape}")
    copy = np.array(array, dtype=np.float64, order="C")
    if not np.isfinite(copy).all():
        raise ValueError(f"{name} must be finite")
    return copy


def take_counters(arrays: Mapping[str, NDArray[np.generic]], count: int) -> list[int]:
    """Return the numbers of a state's array `counters`.

    Raises ValueError where it is missing, or has another shape or type, or one of them is negative.
    """
    counters = arrays.get("counters")
    if counters is None or counters.shape != (count,) or counters.dtype != np.int64:
        raise ValueError(f"counters must be an int64 array of shape ({count},)")
    numbers: list[int] = counters.tolist()
    if min(numbers) < 0:
        raise ValueError("counters must not be negative")
    return numbers


class Histories:
    """The observations of each block in order, in growing arrays, with an undo journal of lengths.

    Features are kept by column, (d, capacity): weighting the observations then runs along memory. Rewards are kept as
    observed and, once there is a centre, relative to it as well: neither follows from the other without rounding.
    """

    __slots__ = ("_columns", "_dimension", "_lengths", "_marked", "_observed", "_rewards", "_saved", "center")

    def __init__(self, blocks: int, dimension: int) -> None:
        self._dimension = dimension
        self._columns = [np.zeros((dimension, 0)) for _ in range(blocks)]
        self._observed = [np.zeros(0) for _ in range(blocks)]
        self._rewards = self._observed  # the same arrays while the centre is 0
        self.center = 0.0
        self._lengths = [0] * blocks
        self._marked: tuple[int, float] | None = None
        self._saved: dict[int, int] = {}

    def length(self, block: int) -> int:
        """Return how many observations a block has."""
        return self._lengths[block]

    def features(self, block: int) -> Array:
        """Return a block's features, (n, d); a view, contiguous along n."""
        return self._columns[block][:, : self._lengths[block]].T

    def rewards(self, block: int) -> Array:
        """Return a block's rewards relative to `center`, (n,); a view."""
        return self._rewards[block][: self._lengths[block]]

    def observed(self, block: int) -> Array:
        """Return a block's rewards as they were observed, (n,); a view."""
        return self._observed[block][: self._lengths[block]]

    def recenter(self, center: float) -> None:
        """Take all rewards relative to another centre."""
        self.center = center
        self._rewards = [observed - center for observed in self._observed]

    def add_block(self) -> None:
        """Append an empty block."""
        self._columns.append(np.zeros((self._dimension, 0)))
        self._observed.append(np.zeros(0))
        if self._rewards is not self._observed:
            self._rewards.append(np.zeros(0))
        self._lengths.append(0)

    def append(self, block: int, x: Array, y: float) -> None:
        """Append one observation, x: (d,). Capacity doubles, so this is O(d) on average."""
        length = self._lengths[block]
        if length == len(self._observed[block]):
            capacity = max(8, 2 * length)
            columns = np.empty((self._dimension, capacity))
            columns[:, :length] = self._columns[block]
            self._columns[block] = columns
            for kept in (self._observed,) if self._rewards is self._observed else (self._observed, self._rewards):
                rewards = np.zeros(capacity)
                rewards[:length] = kept[block]
                kept[block] = rewards
        if self._marked is not None and block < self._marked[0]:
            self._saved.setdefault(block, length)
        self._columns[block][:, length] = x
        self._observed[block][length] = y
        self._rewards[block][length] = y - self.center
        self._lengths[block] = length + 1

    def mark(self) -> None:
        """Begin a new undo journal, forgetting the last one."""
        self._marked = len(self._lengths), self.center
        self._saved = {}

    def restore(self) -> None:
        """Return to the mark and keep it. Raises RuntimeError without a mark."""
        if self._marked is None:
            raise RuntimeError("restore() needs a mark() first")
        blocks, center = self._marked
        for kept in (self._columns, self._observed, self._lengths):
            del kept[blocks:]
        del self._rewards[blocks:]  # nothing more where they are the observed ones
        for block, length in self._saved.items():
            self._lengths[block] = length
        if center != self.center:
            self.recenter(center)
        self.mark()

    @property
    def nbytes(self) -> int:
        """Bytes held, with the spare capacity."""
        rewards = () if self._rewards is self._observed else self._rewards
        return sum(array.nbytes for array in (*self._columns, *self._observed, *rewards))


class Refitted(ABC):
    """An estimator that keeps every observation, and fits the blocks again that have gained some.

    theta, gram and weighted_gram as in `Estimator`, valid after `refresh` and until `add_block` or `restore`. There are
    no snapshots: the state is the history, and rebuilt from the log.
    """

    has_snapshots: ClassVar[bool] = False
    warns_of_large_features: ClassVar[bool] = False
    counters: ClassVar[tuple[str, ...]]
    """Attributes that count what was done over the estimator's life, which a mark remembers."""

    def __init__(
        self, blocks: int, dimension: int, regularization: float, shapes: Mapping[str, tuple[int, ...]]
    ) -> None:
        """shapes: of a block's arrays beside theta, the Gram matrices and the sums of d1^2 and d2."""
        if dimension < 1 or not 0.0 < regularization < math.inf:
            raise ValueError("the dimension and the regularization must be positive and finite")
        self.dimension = dimension
        self.regularization = regularization
        self.observations = 0
        square, vector = (dimension, dimension), (dimension,)
        common = {"theta": vector, "gram": square, "weighted_gram": square, "d1_squares": (), "d2_total": ()}
        self._rows = BlockRows(blocks, {**common, **shapes})
        self._histories = Histories(blocks, dimension)
        self._stale: set[int] = set()
        self._bind()

    def _bind(self) -> None:
        self.theta = self._rows["theta"]
        self.gram = self._rows["gram"]
        self.weighted_gram = self._rows["weighted_gram"]

    @abstractmethod
    def _fit(self, block: int) -> None:
        """Fit a block to its history, which is not empty; what overflows does not warn."""

    @abstractmethod
    def _forget_fit(self, block: int) -> None:
        """Drop what was derived from the block's rewards: they are relative to another centre now."""

    @property
    def d1_squares(self) -> float:
        """Sum of d1^2 at theta over all observations, as of `refresh`."""
        return self._rows.total("d1_squares")

    @property
    def d2_total(self) -> float:
        """Sum of d2 at theta over all observations, as of `refresh`."""
        return self._rows.total("d2_total")

    def observe(self, block: int, x: Array, y: float) -> None:
        """Learn that features x, (d,), gave reward y. O(d^2).

        Raises ValueError, and changes nothing, for an unknown block and for what is not finite.
        """
        check_observation(block, self._rows.count, self.dimension, x, y)
        self._rows.touch(block)
        gram = self.gram[block]
        gram += x[:, None] * x
        self._histories.append(block, x, y)
        self.observations += 1
        self._stale.add(block)

    def recenter(self, center: float) -> None:
        """Learn rewards relative to a centre, those so far as well; the last feature must be 1 always. O(n)."""
        change = center - self._histories.center
        self._histories.recenter(center)
        for block in range(self._rows.count):
            if self._histories.length(block):
                self._rows.touch(block)
                self.theta[block, -1] -= change  # where the next fit starts: the minimiser but for the ridge
                self._forget_fit(block)
                self._stale.add(block)

    def refresh(self) -> list[int]:
        """Fit the blocks observed since the last call; return them in order."""
        changed = sorted(self._stale)
        for block in changed:
            if self._histories.length(block):
                self._rows.touch(block)
                with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
                    self._fit(block)
        self._stale.clear()
        return changed

    def add_block(self) -> None:
        """Append a block without observations; theta is 0 there. The next `refresh` reports it."""
        self._rows.add()
        self._histories.add_block()
        self._stale.add(self._rows.count - 1)
        self._bind()

    def mark(self) -> None:
        """Remember this state for `restore`, in place of any earlier mark."""
        self._rows.mark()
        self._histories.mark()
        self._marked_stale = self._stale.copy()
        self._marked_counters = tuple(getattr(self, name) for name in self.counters)

    def restore(self) -> None:
        """Return to the mark, byte for byte; the mark stays. Raises RuntimeError without one."""
        self._rows.restore()
        self._histories.restore()
        self._stale = self._marked_stale.copy()
        for name, value in zip(self.counters, self._marked_counters, strict=True):
            setattr(self, name, value)
        self._bind()

    def arrays(self) -> StateArrays:
        """Return nothing: the state is the history, and rebuilt from the log."""
        return {}

    def load(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:  # noqa: ARG002 -- none will do
        """Raise ValueError: this estimator has no snapshots."""
        raise ValueError("this estimator has no snapshots: its state is rebuilt from the log")

    def is_sane(self) -> bool:
        """Whether everything is finite and the Gram matrices are symmetric, with diagonals not negative."""
        return self._rows.is_finite() and is_gram(self.gram) and is_gram(self.weighted_gram)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays held, the history's spare capacity with them."""
        return self._rows.nbytes + self._histories.nbytes
