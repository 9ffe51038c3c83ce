"""Named values of a request as a row of float64, the form in which decisions, the log and digests hold them, and back.

A row has one number per named feature: see `prudent.core.encoding`. Which position a text of a category has is in the
campaign's vocabulary: first the categories of its creation, then those that were learned, in order of appearance.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prudent.campaigns.configuration import Model, MultiArmedModel, SharedModel
from prudent.campaigns.features import (
    CATEGORY_LENGTH_MAX,
    CONTEXT,
    NUMBER_MAX,
    SCALED_MAX,
    CategoryFeature,
    Features,
    NumberFeature,
    is_plain,
)
from prudent.campaigns.values import FEATURE_MAX
from prudent.campaigns.vocabulary import Draft, StoredCategory, Vocabulary
from prudent.errors import InvalidCommandError
from prudent.spelling import closest, hint, some_of

Floats = NDArray[np.float64]
Given = Floats | dict[str, Any]
"""Features as a request has them: an array, or values by name."""
Shown = list[float] | dict[str, Any]
NAMED_VALUE_BYTES = 150
"""A name and its value in a dictionary, roughly; names are shared between the dictionaries of a body."""
OTHER = "(other)"
"""How a category that has no position of its own is shown."""
_PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,39}")
_WORDS: dict[type, str] = {
    bool: "true or false",
    str: "a text",
    list: "a list",
    dict: "an object",
    int: "a number",
    float: "a number",
}


def bytes_of(given: Given | None) -> int:
    """Memory that features take."""
    if given is None:
        return 0
    return given.nbytes if isinstance(given, np.ndarray) else NAMED_VALUE_BYTES * len(given)


class Column:
    """Reads one feature's values. name: in a request; key: in a row."""

    __slots__ = ("feature", "has_other", "high", "is_category", "is_number", "key", "low", "may_miss", "name", "read")

    def __init__(self, feature: Features, key: str) -> None:
        self.feature, self.name, self.key = feature, feature.name, key
        self.may_miss = feature.missing != "error"
        self.is_category = feature.kind == "category"
        self.is_number = feature.kind in {"number", "cyclic"}
        self.has_other = isinstance(feature, CategoryFeature) and feature.unknown == "other"
        self.low, self.high = _range_of(feature)
        readers: dict[str, Callable[[Any, Draft], float]] = {
            "boolean": self._read_boolean,
            "category": self._read_category,
        }
        self.read = readers.get(feature.kind, self._read_number)

    def _read_number(self, value: Any, _draft: Draft) -> float:
        kind = type(value)
        if kind is float and self.low <= value <= self.high:
            return value  # type: ignore[no-any-return]  # it is a float
        if kind is int and self.low <= value <= self.high:
            return float(value)
        if kind is int or (kind is float and isfinite(value)):
            raise _Refused(f"must be from {self.low:g} to {self.high:g}")
        if kind is float:
            raise _Refused("must be a finite number")
        hint = ": send it without quotes" if kind is str else ""
        raise _Refused(f"must be a number, not {_WORDS.get(kind, 'this')}{hint}")

    def _read_boolean(self, value: Any, _draft: Draft) -> float:
        if value is True:
            return 1.0
        if value is False:
            return 0.0
        raise _Refused(f"must be true or false, not {_WORDS.get(type(value), 'this')}")

    def _read_category(self, value: Any, draft: Draft) -> float:
        if type(value) is not str:
            advice = ": send it in quotes" if type(value) in {int, float} else ""
            raise _Refused(f"must be a text, not {_WORDS.get(type(value), 'this')}{advice}")
        if not 1 <= len(value) <= CATEGORY_LENGTH_MAX or any(ord(one) < 32 for one in value):
            raise _Refused(f"must be a text of 1 to {CATEGORY_LENGTH_MAX} characters, without control characters")
        position = draft.position(self.key, value)
        feature = self.feature
        if position == 0 and isinstance(feature, CategoryFeature) and feature.unknown == "error":
            if feature.capacity is None:
                raise _Refused(f"is not one of its categories: {hint(value, feature.categories, 'categories')}")
            raise _Refused(f"is none of its {feature.capacity} categories, and there is no room for another")
        return float(position)


class _Refused(Exception):  # noqa: N818  # a signal within this module, not an error
    """What is wrong with a value."""


def _range_of(feature: Features) -> tuple[float, float]:
    """What a number may be: any size that its scale brings into range, and what an array may hold."""
    if isinstance(feature, NumberFeature) and isinstance(feature.center, float) and isinstance(feature.scale, float):
        reach = SCALED_MAX * feature.scale
        return min(feature.center - reach, -FEATURE_MAX), max(feature.center + reach, FEATURE_MAX)
    return -NUMBER_MAX, NUMBER_MAX


class RowReader:
    """Reads and shows the rows of one campaign."""

    def __init__(self, model: Model) -> None:
        """model: resolved."""
        self.is_named = not isinstance(model, MultiArmedModel) and model.features is not None
        arm: Sequence[Features] = () if isinstance(model, MultiArmedModel) else model.features or ()
        context: Sequence[Features] = () if not isinstance(model, SharedModel) else model.context_features or ()
        self._dimension = 0 if isinstance(model, MultiArmedModel) else model.dimension or 0
        self._takes_arrays = {False: is_plain(arm), True: is_plain(context)}
        self.takes_arrays = is_plain(arm) and not context
        """Whether an array says the same as an object, and is a whole row."""
        self._columns = {
            False: [Column(one, one.name) for one in arm],
            True: [Column(one, CONTEXT + one.name) for one in context],
        }
        self._categories = {
            part: [column for column in columns if column.is_category] for part, columns in self._columns.items()
        }
        self.arm_length = len(arm) if self.is_named else self._dimension
        """How many numbers an arm's part of a row has, or a whole row where there is no other part."""
        self.columns = [*self._columns[False], *self._columns[True]]
        self.may_miss = np.array([column.may_miss for column in self.columns] or [False], dtype=bool)
        """(n,) which values of a row may be missing; (1,) where features have no names, and none may."""
        self.names_in_context = frozenset(one.name for one in (context if isinstance(model, SharedModel) else arm))
        """Of the features that a request has in its context; none where it has no context, or they have no names."""
        self.has_context = bool(context)
        """Whether a row of a shared model holds the request's features after the arm's."""

    def vocabulary(self, learned: Iterable[StoredCategory] = ()) -> Vocabulary:
        """The vocabulary at the creation, with the categories that are stored as learned since."""
        vocabulary = Vocabulary([(column.key, column.feature) for column in self.columns])
        vocabulary.extend(learned)
        return vocabulary

    def read(self, given: Given, field: str, draft: Draft, *, context: bool = False) -> Floats:
        """A part of a row. Raises InvalidCommandError that names the field and the feature."""
        columns = self._columns[context]
        if not isinstance(given, dict):
            return self._check_array(given, field, columns, context)
        if not self.is_named:
            allowed = f"an array of {self._dimension} numbers" if self._dimension else "none, since it is multi-armed"
            raise InvalidCommandError(
                f"this campaign has no features by name: send {allowed}, or create a campaign with model.features",
                field=field,
            )
        return np.array(self._values(given, field, columns, draft))

    def values(self, given: Given, field: str, draft: Draft) -> list[float]:
        """The arm's part of a row, as a list. Raises InvalidCommandError."""
        if isinstance(given, dict) and self.is_named:
            return self._values(given, field, self._columns[False], draft)
        numbers: list[float] = self.read(given, field, draft).tolist()
        return numbers

    def brings_new(self, given: Given | None, vocabulary: Vocabulary, *, context: bool = False) -> bool:
        """Whether this part of a row has a text that would be learned, as far as this vocabulary knows."""
        columns = self._categories[context]
        if not columns or not isinstance(given, dict):
            return False
        return any(
            isinstance(value := given.get(column.name), str)
            and value not in vocabulary.positions[column.key]
            and vocabulary.has_room(column.key)
            for column in columns
        )

    def _values(self, given: Mapping[str, Any], field: str, columns: Sequence[Column], draft: Draft) -> list[float]:
        row: list[float] = []
        matched = 0
        for column in columns:
            value = given.get(column.name)
            if type(value) is float and column.is_number and column.low <= value <= column.high:
                matched += 1  # what most values are: without a call for each
                row.append(value)
                continue
            if value is not None:
                matched += 1
                try:
                    row.append(column.read(value, draft))
                except _Refused as refused:
                    raise InvalidCommandError(str(refused), field=f"{field}.{column.name}") from None
                continue
            matched += column.name in given
            if not column.may_miss:
                raise InvalidCommandError(self._about_missing(given, column, columns), field=f"{field}.{column.name}")
            row.append(nan)
        if matched != len(given):
            raise _about_unknown(given, field, columns)
        return row

    def _about_missing(self, given: Mapping[str, Any], column: Column, columns: Sequence[Column]) -> str:
        known = {one.name for one in columns}
        instead = closest(column.name, (name for name in given if name not in known))
        if instead is not None:
            return f"is required; the request has {_shown(instead)} instead"
        return 'is required: send it, or create the campaign with "missing": "center" or "indicator" for it'

    def _check_array(self, given: Floats, field: str, columns: Sequence[Column], context: bool) -> Floats:
        expected = len(columns) if self.is_named else self._dimension
        if not self._takes_arrays[context]:
            names = some_of([column.name for column in columns])
            raise InvalidCommandError(
                f"must be an object with the features by name ({names}): an array is possible where all features are "
                "numbers",
                field=field,
            )
        if len(given) != expected:
            raise InvalidCommandError(f"expected {expected} features, received {len(given)}", field=field)
        return given

    def canonical(self, row: Floats, given: Mapping[str, Any]) -> list[float] | dict[str, Any]:
        """An arm's part of a row as the configuration keeps it: an array where that says all, else what was given.

        The names are in the schema's order, those of missing values left out.
        """
        if self._takes_arrays[False]:
            numbers: list[float] = row.tolist()
            return numbers
        columns = self._columns[False]
        return {
            column.name: value if column.feature.kind in {"number", "cyclic"} else given[column.name]
            for column, value in zip(columns, row.tolist(), strict=True)
            if value == value
        }

    def show(self, row: Floats, vocabulary: Vocabulary | Draft) -> dict[str, Any]:
        """The values of a row, or of its arm's part, by name: as sent, None where nothing was, OTHER for position 0."""
        return {
            column.key: _value(column, value, vocabulary, OTHER)
            for column, value in zip(self.columns, row.tolist(), strict=False)
        }

    def parts(self, row: Floats, vocabulary: Vocabulary) -> tuple[Shown, Shown | None]:
        """A row as it is shown: the arm's or the only part, and the request's in a shared model; arrays as arrays."""
        if self.takes_arrays:
            numbers: list[float] = row.tolist()
            return numbers, None
        values = self.show(row, vocabulary)
        places = len(self._columns[False])
        own = dict(list(values.items())[:places])
        context = {name.removeprefix(CONTEXT): value for name, value in list(values.items())[places:]}
        return own, context if self.has_context else None

    def write(self, row: Floats, vocabulary: Vocabulary) -> list[float] | dict[str, Any]:
        """A row for an export: an array where that says all, else values by name; position 0 is written as 0."""
        if self.takes_arrays:
            numbers: list[float] = row.tolist()
            return numbers
        return {
            column.key: _value(column, value, vocabulary, 0)
            for column, value in zip(self.columns, row.tolist(), strict=False)
        }

    def read_export(self, given: list[float] | dict[str, Any], draft: Draft, *, arm_only: bool) -> Floats:
        """What `write` was given. Raises InvalidCommandError."""
        columns = self._columns[False] if arm_only else self.columns
        length = len(columns) if self.is_named else self._dimension
        if not isinstance(given, dict):
            if len(given) != length:
                raise InvalidCommandError(f"expected {length}, received {len(given)}", field="features")
            return np.array(given, dtype=np.float64)
        others = [column.key for column in columns if column.feature.kind == "category" and _is_other(given, column)]
        present = {name: value for name, value in given.items() if name not in others}
        row = []
        for column in columns:
            if column.key in others:
                row.append(0.0)
                continue
            value = present.pop(column.key, None)
            try:
                row.append(nan if value is None else column.read(value, draft))
            except _Refused as refused:
                raise InvalidCommandError(str(refused), field=f"features.{column.key}") from None
        if present:
            raise _about_unknown(present, "features", columns)
        return np.array(row)

    def faults_of(self, stored: Iterable[StoredCategory]) -> list[str]:
        """What is wrong with the categories that are stored, in the order of their positions."""
        vocabulary = self.vocabulary()
        faults = []
        for one in stored:
            known = vocabulary.positions.get(one.feature)
            if known is None:
                faults.append(f"a category is stored for {one.feature}, which is no category of this campaign")
            elif one.value in known:
                faults.append(f"the category at position {one.position} of {one.feature} is stored twice")
            elif one.position != len(known) + 1:
                faults.append(f"after {len(known)} categories of {one.feature} comes position {one.position}")
            elif not vocabulary.has_room(one.feature):
                faults.append(f"{one.feature} has more categories than its capacity, {len(known)}")
            vocabulary.extend([one])
        return faults

    def default(self) -> Floats:
        """A whole row to start from: centers, the first category, false, and nothing where that is allowed."""
        if not self.is_named:
            return np.zeros(self._dimension)
        return np.array([_default(column) for column in self.columns])

    def split(self, row: Floats) -> tuple[Floats, Floats]:
        """A whole row's part of the arm, and the request's part of a shared model."""
        return row[: self.arm_length], row[self.arm_length :]

    def is_whole(self, row: Floats, length: int) -> bool:
        """Whether a row, or its part of the arm, has so many values, each finite or missing where that is allowed."""
        if len(row) != length:
            return False
        known = np.isfinite(row)
        return bool(known.all()) or bool((known | (np.isnan(row) & self.may_miss[:length])).all())

    def fault(self, row: Floats, vocabulary: Vocabulary) -> str | None:
        """What is wrong with a row of the log; None if it is one that this campaign can have."""
        expected = len(self.columns) if self.is_named else self._dimension
        if len(row) != expected:
            return f"it has {len(row)} features instead of {expected}"
        for column, value in zip(self.columns, row.tolist(), strict=False):
            known = vocabulary.positions.get(column.key)
            if value != value:
                if not column.may_miss:
                    return f"{column.key} is missing"
            elif known is not None and not (value == 0 or value in vocabulary.values(column.key)):
                return f"{column.key} has position {value:g}, which no category has"
            elif column.feature.kind == "boolean" and value not in (0.0, 1.0):
                return f"{column.key} is {value:g} instead of 0 or 1"
        return None


def _default(column: Column) -> float:
    feature = column.feature
    if column.may_miss:
        return nan
    if isinstance(feature, NumberFeature):
        return 0.0 if feature.center is None or isinstance(feature.center, str) else feature.center
    return 1.0 if isinstance(feature, CategoryFeature) and feature.categories else 0.0


def _is_other(given: Mapping[str, Any], column: Column) -> bool:
    value = given.get(column.key)
    return type(value) in {int, float} and value == 0


def _value(column: Column, value: float, vocabulary: Vocabulary | Draft, other: Any) -> Any:
    if value != value:
        return None
    if column.feature.kind == "boolean":
        return bool(value)
    if column.feature.kind == "category":
        return vocabulary.values(column.key).get(int(value), other)
    return value


def _shown(name: str) -> str:
    """A name from a request, if it could be a misspelling of one of ours."""
    return name if _PLAIN_NAME.fullmatch(name) else "an unknown name"


def _about_unknown(given: Mapping[str, Any], field: str, columns: Sequence[Column]) -> InvalidCommandError:
    known = [column.name for column in columns]
    name = next(name for name in given if name not in known)
    shown = name if _PLAIN_NAME.fullmatch(name) else "(unknown name)"
    return InvalidCommandError(f"unknown feature: {hint(name, known, 'features')}", field=f"{field}.{shown}")
