"""Reads logs of past decisions from CSV, JSON lines or Parquet, and names the line of everything that is wrong.

A row has an arm and a reward; optionally the propensity, the probability with which the arm was chosen; and either a
context (what is known of the case: numbers, texts, true or false) or features (numbers about each arm that could be
chosen).

CSV: columns `arm`, `reward`, `propensity`, `context.NAME` and `features.ARM.NAME`; the names of the first three, and
which columns are the context, can be given. JSON lines: `context` is a list of numbers or an object of values,
`features` an object of lists, one for each candidate. Parquet, by the file's name: see `parquet.py`. What is not named
here is ignored.
"""

import csv
import io
import math
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import orjson

from prudent_simulator.extras import needed_for
from prudent_simulator.offline_evaluation.columns import CellError, described, is_plain, rows_are_named, value_of
from prudent_simulator.offline_evaluation.repeated_names import repeated_name

ROWS_MAX = 5_000_000
ERRORS_MAX = 10
REWARD_MAX = 1e9
FEATURE_MAX = 1e6
CSV_FIELD_CHARACTERS_MAX = 1_000_000
PARQUET_SUFFIX = ".parquet"
_CONTEXT, _FEATURES, _INDEX = "context.", "features.", "__index_level_"
_EXPORT = re.compile(r'\s*\{"kind":"header","format":"prudent-campaign"')
_JSON_ARRAY = re.compile(r"\s*\[\s*[{\[]")


class LogError(Exception):
    """A log cannot be used; the message names the file and the lines."""


class _RowError(ValueError):
    """What is wrong in one row."""


@dataclass(frozen=True)
class Columns:
    """What the fields are called, and how a text file is written.

    context: the columns that are the context; empty: all that start with context. is_all_context: all columns are, but
    for the three, the ignored ones, and those of a data frame's index. described: the campaign's features, by name.
    """

    arm: str = "arm"
    reward: str = "reward"
    propensity: str = "propensity"
    context: tuple[str, ...] = ()
    is_all_context: bool = False
    ignored: tuple[str, ...] = ()
    described: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    delimiter: str = ","
    decimal: str = "."
    encoding: str = "utf-8"

    def context_of(self, names: Iterable[str]) -> tuple[str, ...]:
        """Which of these columns are the context."""
        if self.context:
            return self.context
        if not self.is_all_context:
            return tuple(name for name in names if name.startswith(_CONTEXT))
        own = {self.arm, self.reward, self.propensity, "", *self.ignored}
        return tuple(name for name in names if name not in own and not name.startswith(_INDEX))


@dataclass(frozen=True, slots=True)
class Row:
    """One past decision. line: in the file, from 1, of Parquet the row; features: by candidate.

    context: numbers, or values by name where these are not all numbers; None stands for a missing one.
    """

    line: int
    arm: str
    reward: float
    propensity: float | None = None
    context: tuple[float, ...] | dict[str, Any] | None = None
    features: dict[str, tuple[float, ...]] | None = None


@dataclass(frozen=True)
class Log:
    """A whole log, in the file's order. context_names: where the file has names; unit: what Row.line counts.

    schema: what the values of the context are, as a campaign describes features; None where they are all numbers.
    """

    path: Path
    rows: list[Row]
    context_names: tuple[str, ...] | None
    unit: Literal["line", "row"] = "line"
    schema: list[dict[str, Any]] | None = None

    @property
    def arms(self) -> list[str]:
        """Every arm that was chosen or could be, in order of appearance."""
        seen = {arm: None for row in self.rows for arm in (row.arm, *(row.features or ()))}
        return list(seen)

    def place_of(self, row: Row) -> str:
        """Where a row is found, for messages."""
        return f"{self.path}: {self.unit} {row.line}"


@dataclass(frozen=True, slots=True)
class _Raw:
    """A row as it stands in the file: numbers are not checked yet, and None is what is not there."""

    arm: Any
    reward: Any
    propensity: Any
    context: dict[str, Any] | list[Any] | None
    features: dict[str, Any] | None


def read_log(path: Path, columns: Columns = Columns(), *, rewards_only: bool = False) -> Log:
    """Read a log. rewards_only: arm and reward suffice, and the rest is ignored. Raises LogError, MissingExtraError."""
    if len(columns.delimiter) != 1:
        raise LogError(f"the delimiter must be one character, not {columns.delimiter!r}")
    unit: Literal["line", "row"] = "row" if path.suffix == PARQUET_SUFFIX else "line"
    if unit == "row":
        raws = _parquet_rows(path, columns, rewards_only=rewards_only)
    else:
        raws = _text_rows(path, columns, rewards_only=rewards_only)
    rows: list[Row] = []
    errors: list[str] = []
    names: tuple[str, ...] | None = None
    for line, raw in raws:
        try:
            if isinstance(raw, str):
                raise _RowError(raw)
            if not rewards_only and isinstance(raw.context, dict):
                names = names or tuple(columns.described or raw.context)
                raw = replace(raw, context=_in_order(raw.context, names, columns))
            row = _checked(line, raw, rewards_only=rewards_only)
            if rows:
                _check_alike(row, rows[0], unit)
            rows.append(row)
        except LogError as error:
            raise LogError(f"{path}: {unit} {line}: {error}") from None
        except _RowError as error:
            errors.append(f"{unit} {line}: {error}")
            if len(errors) == ERRORS_MAX:
                errors.append("and perhaps more")
                break
        if len(rows) > ROWS_MAX:
            raise LogError(f"{path}: has more than {ROWS_MAX:,} rows")
    schema = None
    if names is not None:
        rows, schema = _typed(rows, names, columns.described, unit, errors)
    if errors:
        raise LogError(f"{path}: {'; '.join(errors)}")
    if not rows:
        raise LogError(f"{path}: has no rows")
    return Log(path, rows, names, unit, schema)


def _in_order(context: dict[str, Any], names: tuple[str, ...], columns: Columns) -> dict[str, Any]:
    """The values in the order of their names; what the campaign lets be missing may be left out."""
    known = columns.described
    lacking = [name for name in names if name not in context and known.get(name, {}).get("missing", "error") == "error"]
    extra = [] if columns.is_all_context and known else [name for name in context if name not in names]
    if known and (lacking or extra):
        raise LogError(f"the context is {', '.join(context)}, and the campaign's features are {', '.join(names)}")
    if lacking or extra:
        raise _RowError(f"context: must have {', '.join(names)}; has {', '.join(context)}")
    return {name: context.get(name) for name in names}


def _typed(
    rows: list[Row], names: Sequence[str], known: Mapping[str, Mapping[str, Any]], unit: str, errors: list[str]
) -> tuple[list[Row], list[dict[str, Any]] | None]:
    """The rows with values in place of cells, and what they are; arrays and None where all are numbers."""
    cells = [row.context for row in rows if isinstance(row.context, dict)]
    schema = [dict(known.get(name) or described(name, [one[name] for one in cells])) for name in names]
    typed: list[Row] = []
    for row in rows:
        if not isinstance(row.context, dict):
            typed.append(row)
            continue
        try:
            typed.append(replace(row, context=_values(row.context, schema)))
        except _RowError as error:
            errors.append(f"{unit} {row.line}: {error}")
            if len(errors) >= ERRORS_MAX:
                break
    values = [row.context for row in typed if isinstance(row.context, dict)]
    reach = max((abs(one) for row in values for one in row.values() if isinstance(one, float)), default=0.0)
    if not is_plain(schema) or reach > FEATURE_MAX:
        return typed, schema
    arrays = [tuple(row.context.values()) if isinstance(row.context, dict) else row.context for row in typed]
    return [replace(row, context=array) for row, array in zip(typed, arrays, strict=True)], None


def _values(context: dict[str, Any], schema: Sequence[dict[str, Any]]) -> dict[str, Any]:
    values = {}
    for one in schema:
        try:
            values[one["name"]] = value_of(one, context[one["name"]])
        except CellError as error:
            raise _RowError(f"context.{one['name']}: {error}") from None
    return values


def _text_rows(path: Path, columns: Columns, *, rewards_only: bool) -> Iterator[tuple[int, _Raw | str]]:
    try:
        is_utf8 = columns.encoding.lower() in {"utf-8", "utf8"}
        content = path.read_bytes()
        text = content.decode("utf-8-sig" if is_utf8 else columns.encoding)
    except UnicodeDecodeError as error:
        name = "UTF-8" if is_utf8 else columns.encoding
        likely = "utf-16" if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "cp1252"
        raise LogError(f"{path}: is not {name} text (byte {error.start}): give --encoding, such as {likely}") from error
    except (LookupError, UnicodeError):  # some codecs of Python are none of texts, or always fail
        raise LogError(f"there is no encoding {columns.encoding}") from None
    start = text.lstrip()[:1]
    if not start:
        raise LogError(f"{path}: is empty")
    if _JSON_ARRAY.match(text):
        raise LogError(
            f"{path}: is one JSON array, but a log in JSON has one object per line: jq -c '.[]' {path} writes it so"
        )
    if _EXPORT.match(text):
        raise LogError(f"{path}: is the export of a campaign: prudent evaluate judges it, by its own propensities")
    return _json_rows(text, columns) if start == "{" else _csv_rows(path, text, columns, rewards_only=rewards_only)


def _parquet_rows(path: Path, columns: Columns, *, rewards_only: bool) -> Iterator[tuple[int, _Raw | str]]:
    with needed_for(f"reading {path}", "parquet"):
        from prudent_simulator.offline_evaluation.parquet import NotParquetError, parquet_columns, parquet_rows

    wanted = [columns.arm, columns.reward]
    try:
        _check_header(str(path), parquet_columns(path), columns, rewards_only=rewards_only)
        if not rewards_only:
            wanted += [columns.propensity, "context", "features", *columns.context]
            if columns.is_all_context:
                wanted += columns.context_of(parquet_columns(path))
        for number, content in enumerate(parquet_rows(path, wanted), start=1):
            yield number, _raw_of(content, columns)
    except NotParquetError as error:
        raise LogError(f"{path}: cannot be read as Parquet: {error}") from error


def _json_rows(text: str, columns: Columns) -> Iterator[tuple[int, _Raw | str]]:
    """Give each line's row, or what is wrong with it; a line break cannot stand within a text of JSON."""
    for line, part in enumerate(text.split("\n"), start=1):
        if not part.strip():
            continue
        try:
            content = orjson.loads(part)
        except orjson.JSONDecodeError as error:
            yield line, f"is not JSON: {error}{'' if part.rstrip().endswith('}') else '; each line is a whole object'}"
            continue
        if not isinstance(content, dict):
            yield line, "must be an object, {...}"
            continue
        twice = repeated_name(part, content)
        yield line, _raw_of(content, columns) if twice is None else f"has the name {twice!r} twice"


def _raw_of(content: dict[str, Any], columns: Columns) -> _Raw | str:
    """An object's row, or what is wrong with it."""
    context, features = content.get("context"), content.get("features")
    if columns.context or columns.is_all_context:
        context = {name: content.get(name) for name in columns.context_of(content)}
    if context is not None and not isinstance(context, dict | list):
        return "context: must be a list of numbers or an object of values"
    if features is not None and not isinstance(features, dict):
        return 'features: must give the numbers of every candidate, {"arm": [numbers], ...}'
    arm, reward = content.get(columns.arm), content.get(columns.reward)
    return _Raw(arm, reward, content.get(columns.propensity), context, features)


def _csv_rows(path: Path, text: str, columns: Columns, *, rewards_only: bool) -> Iterator[tuple[int, _Raw | str]]:
    csv.field_size_limit(CSV_FIELD_CHARACTERS_MAX)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=columns.delimiter)
    header = [name.strip() for name in next(reader)]
    _check_header(f"{path}: line 1", header, columns, rewards_only=rewards_only)
    place = {name: number for number, name in enumerate(header)}
    named, context = rows_are_named(text, columns.delimiter), columns.context_of(header)
    number = re.compile(rf"\s*[-+]?\d*{re.escape(columns.decimal)}\d+([eE][-+]?\d+)?\s*")
    of_arms: dict[str, list[int]] = {}
    for name in header:
        if name.startswith(_FEATURES):
            of_arms.setdefault(name.removeprefix(_FEATURES).rpartition(".")[0], []).append(place[name])
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield reader.line_num, f"is not CSV: {error}"
            continue
        if not cells:
            continue
        if len(cells) != named + len(header):
            expected = f"a row has its name and {len(header)}" if named else f"the header has {len(header)}"
            yield reader.line_num, f"has {len(cells)} fields, and {expected}"
            continue
        cells = cells[named:]
        if columns.decimal != ".":
            cells = [cell.replace(columns.decimal, ".") if number.fullmatch(cell) else cell for cell in cells]
        arm, reward = cells[place[columns.arm]], cells[place[columns.reward]]
        propensity = cells[place[columns.propensity]] if columns.propensity in place else None
        own = {name.removeprefix(_CONTEXT): cells[place[name]] for name in context} if context else None
        # A candidate that was not there in a round has all its cells empty.
        listed = {name: [cells[number] for number in places] for name, places in of_arms.items()}
        features = {name: values for name, values in listed.items() if any(value.strip() for value in values)}
        yield reader.line_num, _Raw(arm, reward, propensity or None, own, features or None)


def _check_header(where: str, header: Sequence[str], columns: Columns, *, rewards_only: bool) -> None:
    found = ", ".join(header[:20])
    twice = sorted({name for name in header if header.count(name) > 1})
    if twice:
        raise LogError(f"{where}: duplicate column {twice[0]}")
    for name in (columns.arm, columns.reward, *(() if rewards_only else columns.context)):
        if name not in header:
            is_one = len(header) == 1 and any(one in header[0] for one in ";\t|")
            hint = "; is the separator a comma? Otherwise give --delimiter" if is_one else ""
            raise LogError(f"{where}: there is no column {name}; found: {found}{hint}")


def _number(field: str, value: Any, magnitude_max: float) -> float:
    if value is None or value == "":
        raise _RowError(f"{field}: is missing")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise _RowError(f"{field}: must be a number")
    try:
        number = float(value)
    except (ValueError, OverflowError) as error:
        raise _RowError(f"{field}: must be a number, not '{str(value)[:40]}'") from error
    if not math.isfinite(number) or abs(number) > magnitude_max:
        raise _RowError(f"{field}: must lie between -{magnitude_max:g} and {magnitude_max:g}, not {number}")
    return number


def _checked(line: int, raw: _Raw, *, rewards_only: bool) -> Row:
    arm = str(raw.arm) if isinstance(raw.arm, int) and not isinstance(raw.arm, bool) else raw.arm
    if not isinstance(arm, str) or not arm.strip():
        raise _RowError("arm: is missing" if arm is None or isinstance(arm, str) else "arm: must be a text")
    reward = _number("reward", raw.reward, REWARD_MAX)
    arm = arm.strip()
    if rewards_only:
        return Row(line, arm, reward)
    propensity = None
    if raw.propensity is not None:
        propensity = _number("propensity", raw.propensity, REWARD_MAX)
        if not 0.0 < propensity <= 1.0:
            raise _RowError(f"propensity: must be above 0 and at most 1, not {propensity:g}")
    if raw.context is not None and raw.features is not None:
        raise _RowError("has both a context and features; give one of the two")
    features = None
    context: tuple[float, ...] | dict[str, Any] | None = None
    if isinstance(raw.context, dict):
        context = raw.context
    elif raw.context is not None:
        context = tuple(_number(f"context.{name}", value, FEATURE_MAX) for name, value in enumerate(raw.context))
    if raw.features is not None:
        features = {name: _features(name, values) for name, values in raw.features.items()}
        if arm not in features:
            raise _RowError(f"features: has none for {arm}, the arm that was chosen; has {', '.join(features)}")
        for name, values in features.items():
            if len(values) != len(features[arm]):
                raise _RowError(f"features.{name}: has {len(values)} numbers, and {arm} has {len(features[arm])}")
    return Row(line, arm, reward, propensity, context, features)


def _features(arm: str, values: Any) -> tuple[float, ...]:
    if not isinstance(values, list) or not values:
        raise _RowError(f"features.{arm}: must be a list of numbers")
    return tuple(_number(f"features.{arm}.{place}", value, FEATURE_MAX) for place, value in enumerate(values))


def _check_alike(row: Row, first: Row, unit: str) -> None:
    """Every row has what the first one has: otherwise half of a log would be judged by another rule."""
    for part in ("propensity", "context", "features"):
        here, there = getattr(row, part) is not None, getattr(first, part) is not None
        if here != there:
            raise _RowError(f"{part}: {'is here' if here else 'is missing'}, unlike in {unit} {first.line}")
    lengths = len(row.context or ()), len(first.context or ())
    if lengths[0] != lengths[1]:
        raise _RowError(f"context: has {lengths[0]} numbers, and {unit} {first.line} has {lengths[1]}")
    if row.features is not None and first.features is not None:
        own, expected = len(row.features[row.arm]), len(first.features[first.arm])
        if own != expected:
            raise _RowError(f"features.{row.arm}: has {own} numbers, and {unit} {first.line} has {expected}")
