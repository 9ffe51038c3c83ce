"""Reads logs of past decisions from Parquet; needs the extra `parquet`. Import it only where there is such a file.

The columns are those of a CSV, `context.NAME` and `features.ARM.NAME` included, or nested: `context` a list or a
struct of numbers, `features` a struct or a map with a list of numbers for each candidate, null where it was absent.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

BATCH_ROWS = 10_000
_CONTEXT, _FEATURES = "context.", "features."


class NotParquetError(ValueError):
    """A file is not Parquet, or is damaged."""


def parquet_columns(path: Path) -> list[str]:
    """The names of a file's columns. Raises NotParquetError."""
    try:
        return list(pq.read_schema(path).names)
    except pa.ArrowException as error:
        raise NotParquetError(" ".join(str(error).split())) from error


def parquet_rows(path: Path, wanted: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Each row as a line of JSON would give it, in the file's order. wanted: columns. Raises NotParquetError."""
    names = [name for name in parquet_columns(path) if name in wanted or name.startswith((_CONTEXT, _FEATURES))]
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(BATCH_ROWS, columns=names):
                yield from (_nested(row, wanted) for row in batch.to_pylist())
    except pa.ArrowException as error:
        raise NotParquetError(" ".join(str(error).split())) from error


def _nested(row: dict[str, Any], wanted: Sequence[str]) -> dict[str, Any]:
    """A row with its flat columns, but for those that are wanted by name, gathered under `context` and `features`."""
    content: dict[str, Any] = {}
    of_arms: dict[str, list[Any]] = {}
    for name, value in row.items():
        if name in wanted:
            content[name] = value
        elif name.startswith(_CONTEXT):
            content.setdefault("context", {})[name.removeprefix(_CONTEXT)] = value
        else:
            of_arms.setdefault(name.removeprefix(_FEATURES).rpartition(".")[0], []).append(value)
    # a candidate that was absent in a round has nulls only
    present = {arm: values for arm, values in of_arms.items() if any(value is not None for value in values)}
    if present:
        content["features"] = present
    elif isinstance(content.get("features"), list):  # a map, as pairs
        content["features"] = dict(content["features"])
    if isinstance(content.get("features"), dict):
        content["features"] = {arm: values for arm, values in content["features"].items() if values is not None}
    return content
