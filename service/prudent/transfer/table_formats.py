"""How a table of decisions is written: CSV, JSON lines, Parquet, and dsjson, which Vowpal Wabbit reads."""

import csv
import io
from collections.abc import Mapping
from typing import Any, Literal, Protocol

import orjson

from prudent.errors import InvalidCommandError
from prudent.store.tables import DecisionRow
from prudent.transfer.lines import instant

TableFormat = Literal["csv", "dsjson", "ndjson", "parquet"]
Kind = Literal["text", "number", "boolean", "instant", "count", "json"]
"""Of a column. instant: microseconds since 1970; json: an object."""
Row = dict[str, Any]
"""Values by column; None where there is none."""
GROUP_BYTES = 8 * 2**20
"""Rows that Parquet holds in memory before they are written."""
_UNSAFE = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20", "'")
"""A text that starts so is a formula to a spreadsheet, or looks as if it had been marked as none already."""


class Writer(Protocol):
    """Turns rows into the bytes of a file."""

    def begin(self) -> bytes:
        """What comes before the rows."""

    def write(self, rows: list[Row]) -> bytes:
        """Some rows; a writer may keep them until it has more."""

    def end(self) -> bytes:
        """What comes after the rows."""


class CsvWriter:
    """UTF-8 with a header; empty cells for None. Texts that a spreadsheet would compute are preceded by '."""

    def __init__(self, columns: Mapping[str, Kind]) -> None:
        self._columns = columns

    def begin(self) -> bytes:
        """The header."""
        return _csv_lines([list(self._columns)])

    def write(self, rows: list[Row]) -> bytes:
        """A line for each row."""
        kinds = self._columns.items()
        return _csv_lines([[_cell(row[name], kind) for name, kind in kinds] for row in rows])

    def end(self) -> bytes:
        """Nothing."""
        return b""


def _csv_lines(lines: list[list[str]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(lines)
    return text.getvalue().encode()


def _cell(value: Any, kind: Kind) -> str:
    if value is None:
        return ""
    if kind == "text":
        return f"'{value}" if value.startswith(_UNSAFE) else str(value)
    if kind == "instant":
        return instant(value)
    if kind == "json":
        return orjson.dumps(value).decode()
    if kind == "boolean":
        return "true" if value else "false"
    return repr(value)


class JsonWriter:
    """An object per line, with all columns in each."""

    def __init__(self, columns: Mapping[str, Kind]) -> None:
        self._columns = columns
        self._instants = [name for name, kind in columns.items() if kind == "instant"]

    def begin(self) -> bytes:
        """Nothing."""
        return b""

    def write(self, rows: list[Row]) -> bytes:
        """A line for each row."""
        lines = []
        for row in rows:
            times = {name: None if row[name] is None else instant(row[name]) for name in self._instants}
            lines.append(orjson.dumps(row | times, option=orjson.OPT_APPEND_NEWLINE))
        return b"".join(lines)

    def end(self) -> bytes:
        """Nothing."""
        return b""


class _Sink(io.RawIOBase):
    """A file that is only written, whose bytes are taken away as they come."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []
        self._place = 0

    def writable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """How many bytes were written in all, also of those that were taken."""
        return self._place

    def write(self, data: Any) -> int:
        """Keep a copy: the buffer is not ours."""
        part = bytes(data)
        self._parts.append(part)
        self._place += len(part)
        return len(part)

    def taken(self) -> bytes:
        """What was written since the last time."""
        parts, self._parts = self._parts, []
        return b"".join(parts)


class ParquetWriter:
    """Row groups of about GROUP_BYTES; instants are timestamps in UTC, objects are JSON texts."""

    def __init__(self, columns: Mapping[str, Kind]) -> None:
        """Raises InvalidCommandError where pyarrow is not installed."""
        try:
            import pyarrow as pa
            from pyarrow import parquet
        except ModuleNotFoundError:
            raise InvalidCommandError(
                "writing Parquet needs pyarrow: pip install 'prudent[parquet]', or ask for csv", field="format"
            ) from None
        types = {
            "text": pa.string(),
            "number": pa.float64(),
            "boolean": pa.bool_(),
            "instant": pa.timestamp("us", tz="UTC"),
            "count": pa.int64(),
            "json": pa.string(),
        }
        self._arrow = pa
        self._kinds = columns
        self._schema = pa.schema([pa.field(name, types[kind]) for name, kind in columns.items()])
        self._sink = _Sink()
        self._parquet = parquet.ParquetWriter(self._sink, self._schema, compression="zstd")
        self._batches: list[Any] = []

    def begin(self) -> bytes:
        """The first bytes."""
        return self._sink.taken()

    def write(self, rows: list[Row]) -> bytes:
        """The bytes of a row group, once there is enough for one."""
        arrays = []
        for (name, kind), field in zip(self._kinds.items(), self._schema, strict=True):
            values = [row[name] for row in rows]
            if kind == "json":
                values = [None if value is None else orjson.dumps(value).decode() for value in values]
            arrays.append(self._arrow.array(values, type=field.type))
        self._batches.append(self._arrow.RecordBatch.from_arrays(arrays, schema=self._schema))
        if sum(batch.nbytes for batch in self._batches) >= GROUP_BYTES:
            self._write_group()
        return self._sink.taken()

    def end(self) -> bytes:
        """The last row group and the footer."""
        self._write_group()
        self._parquet.close()
        return self._sink.taken()

    def _write_group(self) -> None:
        if self._batches:
            table = self._arrow.Table.from_batches(self._batches)
            self._parquet.write_table(table, row_group_size=max(table.num_rows, 1))
            self._batches = []


def dsjson_line(
    decision: DecisionRow,
    reward: float,
    context: Row,
    actions: Mapping[str, Row],
    propensities: Mapping[str, float] | None,
) -> bytes:
    """A decision as Vowpal Wabbit's decision service logs it. decision: with a propensity, its arm one of the actions.

    context: features that all actions share; actions: features by arm; propensities: by arm, where they are known.
    The cost is the negative reward. Action numbers count from 1, those of `a` and `p` begin with the chosen one.
    """
    names = list(actions)
    place = names.index(decision.arm_id)
    chances = {decision.arm_id: decision.propensity}
    if propensities is not None and propensities.keys() == actions.keys():
        chances |= {name: propensities[name] for name in names if name != decision.arm_id}
    multi = [{"_tag": name, "arm": _namespace(values)} for name, values in actions.items()]
    shared = {"context": _namespace(context)} if context else {}
    cost = 0.0 - reward  # not -0.0
    line = {
        "_label_cost": cost,
        "_label_probability": decision.propensity,
        "_label_Action": place + 1,
        "_labelIndex": place,
        "Timestamp": instant(decision.created_at),
        "Version": "1",
        "EventId": decision.decision_id,
        "a": [names.index(name) + 1 for name in chances],
        "c": shared | {"_multi": multi},
        "p": list(chances.values()),
    }
    return orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)


def _namespace(values: Row) -> Row:
    """Features as Vowpal Wabbit takes them: 1 for true, and none for None and false.

    Names that begin with _ have another meaning there, so a dot precedes them, and those that begin with a dot.
    """
    return {
        f".{name}" if name.startswith(("_", ".")) else name: int(value) if value is True else value
        for name, value in values.items()
        if value is not None and value is not False
    }
