"""What the columns of a log's context are: numbers, booleans or categories, with or without missing cells.

A column is of the kind that the campaign describes or, where it describes none, boolean if all of its cells are true or
false, a number if at least half of them are, else a category: one text among numbers is a mistake, not a category.
Empty cells and null are missing; NA and NaN are, where the others are numbers, as several programs write them so.
"""

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

CATEGORIES_MAX = 50
"""Of a column that the campaign does not describe; later ones count as other."""
NUMBER_MAX = 1e15
_ROWS_COUNTED = 100
_NOT_A_NUMBER = {"na", "nan", "n/a", "null", "none"}
_TRUE, _FALSE = {"true", "yes", "1"}, {"false", "no", "0"}
_CODE = re.compile(r"-?\d+\.0")


class CellError(ValueError):
    """A cell does not hold what its column does."""


def rows_are_named(text: str, delimiter: str) -> bool:
    """Whether CSV is as R writes a table: each row begins with its name, without a header. Most rows decide."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    lengths: Counter[int] = Counter()
    header = len(next(reader))
    with suppress(csv.Error):
        lengths.update(len(cells) for cells in islice(reader, _ROWS_COUNTED))
    return lengths[header + 1] > lengths[header]


def is_missing(cell: Any) -> bool:
    """Whether a cell holds nothing."""
    return cell is None or cell == "" or cell != cell


def described(name: str, cells: Sequence[Any]) -> dict[str, Any]:
    """The feature that a column is, as `POST /campaigns` takes it."""
    given = [cell for cell in cells if not is_missing(cell)]
    numbers = [cell for cell in given if _is_number(cell)]
    absent = len(cells) - len(given)
    if given and all(_is_boolean(cell) for cell in given):
        feature: dict[str, Any] = {"name": name, "kind": "boolean"}
    elif given and 2 * len(numbers) < sum(not _is_absent_number(cell) for cell in given):
        capacity = min(len({text_of(cell) for cell in given}), CATEGORIES_MAX)
        feature = {"name": name, "kind": "category", "capacity": capacity}
    else:
        absent += sum(_is_absent_number(cell) for cell in given)
        feature = {"name": name, "kind": "number"}
    return feature | ({"missing": "indicator"} if absent else {})


def is_plain(features: Iterable[Mapping[str, Any]]) -> bool:
    """Whether an array says as much as an object: all are numbers, and none is missing."""
    return all(one.get("kind", "number") == "number" and one.get("missing", "error") == "error" for one in features)


def value_of(feature: Mapping[str, Any], cell: Any) -> float | bool | str | None:
    """A cell as the campaign's feature takes it; None for a missing one. Raises CellError."""
    kind = feature.get("kind", "number")
    if is_missing(cell) or (kind in {"number", "cyclic"} and _is_absent_number(cell)):
        if feature.get("missing", "error") == "error":
            raise CellError("is missing")
        return None
    if kind == "category":
        return text_of(cell)
    if kind == "boolean":
        if isinstance(cell, bool):
            return cell
        if text_of(cell).lower() not in _TRUE | _FALSE:
            raise CellError(f"must be true or false, not '{text_of(cell)[:40]}'")
        return text_of(cell).lower() in _TRUE
    if isinstance(cell, bool) or not isinstance(cell, int | float | str):
        raise CellError("must be a number")
    try:
        number = float(cell)
    except (ValueError, OverflowError) as error:
        raise CellError(f"must be a number, not '{str(cell)[:40]}'") from error
    if not abs(number) <= NUMBER_MAX:
        raise CellError(f"must lie between -{NUMBER_MAX:g} and {NUMBER_MAX:g}, not {number}")
    return number


def text_of(cell: Any) -> str:
    """A cell as a text: whole numbers without a fraction, as codes are written."""
    text = str(cell).strip()
    return text.removesuffix(".0") if _CODE.fullmatch(text) else text


def numbers_of(rows: Sequence[Mapping[str, Any]]) -> list[list[float]]:
    """Rows of values as coordinates, so that cases can be compared.

    A number is one coordinate, its column's mean where it is missing; every other value is one that is 1 for it.
    """
    coordinates: list[list[float]] = [[] for _ in rows]
    for name in rows[0]:
        cells = [row[name] for row in rows]
        given = [cell for cell in cells if cell is not None]
        if all(isinstance(cell, float) for cell in given):
            middle = math.fsum(given) / max(len(given), 1)
            parts = [[middle if cell is None else cell] for cell in cells]
        else:
            values = list(dict.fromkeys(given))
            parts = [[float(cell == value) for value in values] for cell in cells]
        for row, part in zip(coordinates, parts, strict=True):
            row += part
    return coordinates


def _is_number(cell: Any) -> bool:
    if isinstance(cell, bool):
        return False
    try:
        return math.isfinite(float(cell))
    except (TypeError, ValueError, OverflowError):
        return False


def _is_absent_number(cell: Any) -> bool:
    return isinstance(cell, str) and cell.strip().lower() in _NOT_A_NUMBER


def _is_boolean(cell: Any) -> bool:
    return isinstance(cell, bool) or (isinstance(cell, str) and cell.strip().lower() in {"true", "false"})
