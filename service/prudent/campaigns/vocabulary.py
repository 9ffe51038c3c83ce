"""The texts of a campaign's categories and their positions, and what a request would add to them."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from prudent.campaigns.features import CategoryFeature, Features


class Learned(NamedTuple):
    """A category that was learned. feature: its name in a row; position: from 1, after those of the creation."""

    feature: str
    position: int
    value: str


class StoredCategory(Protocol):
    """What a row of the table of categories says, as `Learned` does."""

    @property
    def feature(self) -> str:
        """Its name in a row."""

    @property
    def position(self) -> int:
        """From 1, after those of the creation."""

    @property
    def value(self) -> str:
        """The text."""


class Vocabulary:
    """The texts of each category and their positions. It only grows; `mark` and `restore` undo what was added."""

    def __init__(self, features: Sequence[tuple[str, Features]]) -> None:
        """features: of a row, with their names there."""
        self.positions: dict[str, dict[str, int]] = {}
        self.capacities: dict[str, int] = {}
        self.learned: list[Learned] = []
        for name, one in features:
            if isinstance(one, CategoryFeature):
                self.positions[name] = {value: place for place, value in enumerate(one.categories, 1)}
                self.capacities[name] = one.positions
        self.learns = any(self.has_room(name) for name in self.positions)
        """Whether anything was to be learned at the creation."""
        self._marked = 0

    def has_room(self, feature: str) -> bool:
        """Whether another text of this feature would be learned."""
        return len(self.positions[feature]) < self.capacities[feature]

    def extend(self, rows: Iterable[StoredCategory]) -> None:
        """Take in categories that are stored, in the order of their positions; those known already are skipped."""
        for one in rows:
            known = self.positions.get(one.feature)
            if known is not None and one.value not in known:
                known[one.value] = one.position
                self.learned.append(Learned(one.feature, one.position, one.value))

    def values(self, feature: str) -> dict[int, str]:
        """The texts by position."""
        return {position: value for value, position in self.positions[feature].items()}

    def mark(self) -> None:
        """Remember how much is known."""
        self._marked = len(self.learned)

    def restore(self) -> None:
        """Forget what came after the mark."""
        for one in self.learned[self._marked :]:
            del self.positions[one.feature][one.value]
        del self.learned[self._marked :]


class Draft:
    """What one request would add to a vocabulary; nothing is added before the request is recorded."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.added: list[Learned] = []
        self._new: dict[tuple[str, str], int] = {}

    def values(self, feature: str) -> dict[int, str]:
        """The texts by position, with those that it would add."""
        added = {one.position: one.value for one in self.added if one.feature == feature}
        return self._vocabulary.values(feature) | added

    def position(self, feature: str, value: str) -> int:
        """The position of a text, 0 if there is no room for it."""
        position = self._vocabulary.positions[feature].get(value)
        if position is None:
            position = self._new.get((feature, value))
        return self._learn(feature, value) if position is None else position

    def _learn(self, feature: str, value: str) -> int:
        vocabulary = self._vocabulary
        taken = len(vocabulary.positions[feature]) + sum(one.feature == feature for one in self.added)
        if taken >= vocabulary.capacities[feature]:
            return 0
        self.added.append(Learned(feature, taken + 1, value))
        self._new[feature, value] = taken + 1
        return taken + 1
