"""Logs in Parquet: read the same as CSV and JSON lines, with nested or flat columns, and errors that name the row."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from prudent_simulator.__main__ import app
from prudent_simulator.offline_evaluation import parquet
from prudent_simulator.offline_evaluation.reading import Columns, LogError, read_log
from tests.simulator.offline_evaluation.test_reading import same


def written(tmp_path: Path, columns: dict[str, Any]) -> Path:
    """A log with these columns."""
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(columns), path)
    return path


CONTEXTS: list[tuple[dict[str, Any], tuple[str, ...] | None]] = [
    ({"context.x": pa.array([10.0, 0.0], pa.float32()), "context.y": [-2, 3]}, ("x", "y")),
    ({"context": [{"x": 10.0, "y": -2.0}, {"x": 0.0, "y": 3.0}]}, ("x", "y")),
    ({"context": [[10.0, -2.0], [0.0, 3.0]]}, None),
]


@pytest.mark.parametrize(("context", "names"), CONTEXTS)
def test_contexts_flat_and_nested(
    tmp_path: Path, context: dict[str, Any], names: tuple[str, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Data frames have flat columns, warehouses nested ones; a dictionary of texts is how both store an arm."""
    monkeypatch.setattr(parquet, "BATCH_ROWS", 1)
    arms = pa.array(["a", "b"]).dictionary_encode()
    columns = {"arm": arms, "when": [None, "tue"], "reward": [1.0, -0.5], "propensity": [0.5, 0.25]}
    log = read_log(written(tmp_path, {**columns, **context}))
    assert same(log) == [("a", 1.0, 0.5, (10.0, -2.0), None), ("b", -0.5, 0.25, (0.0, 3.0), None)]
    assert (log.context_names, log.unit, [row.line for row in log.rows]) == (names, "row", [1, 2])


FEATURES: list[dict[str, Any]] = [
    {"features.a.x": [1, None], "features.a.y": [2, None], "features.v1.2.x": [3, 5], "features.v1.2.y": [4, 6]},
    {"features": [{"a": [1, 2], "v1.2": [3, 4]}, {"a": None, "v1.2": [5, 6]}]},
    {
        "features": pa.array(
            [[("a", [1, 2]), ("v1.2", [3, 4])], [("v1.2", [5, 6])]], pa.map_(pa.string(), pa.list_(pa.int64()))
        )
    },
]


@pytest.mark.parametrize("features", FEATURES)
def test_features_of_candidates(tmp_path: Path, features: dict[str, Any]) -> None:
    """A candidate that was absent has nulls, or is not in the map."""
    log = read_log(written(tmp_path, {"arm": ["a", "v1.2"], "reward": [1, 2], **features}))
    assert [row.features for row in log.rows] == [{"a": (1.0, 2.0), "v1.2": (3.0, 4.0)}, {"v1.2": (5.0, 6.0)}]


def test_own_names_of_columns(tmp_path: Path) -> None:
    """A team's log need not be rewritten."""
    path = written(tmp_path, {"courier": ["a"], "worth": [2], "p": [0.5], "context.rain": [7], "soil": [3]})
    log = read_log(path, Columns("courier", "worth", "p", ("soil", "context.rain")))
    assert same(log) == [("a", 2.0, 0.5, (3.0, 7.0), None)]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"arm": ["a"], "profit": [1]}, ": there is no column reward; found: arm, profit"),
        ({"arm": ["a", "b"], "reward": [1, None]}, ": row 2: reward: is missing"),
        ({"arm": ["a", "b"], "reward": [1, float("nan")]}, ": row 2: reward: must lie between"),
        ({"arm": ["a", None], "reward": [1, 2]}, ": row 2: arm: is missing"),
        (
            {"arm": ["a", "b"], "reward": [1, 2], "propensity": [0.5, None]},
            ": row 2: propensity: is missing, unlike",
        ),
        ({"arm": ["a"], "reward": [1], "context": ["x"]}, ": row 1: context: must be a list of numbers"),
        ({"arm": ["a"], "reward": [1], "features": [{"b": [1.0]}]}, ": row 1: features: has none for a"),
        ({"arm": pa.array([], pa.string()), "reward": pa.array([], pa.int8())}, ": has no rows"),
    ],
)
def test_what_is_wrong_is_named_by_row(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    """A Parquet file has no lines."""
    with pytest.raises(LogError) as failed:
        read_log(written(tmp_path, columns))
    assert message in str(failed.value)


@pytest.mark.parametrize("cut", [0, 10, -30])
def test_a_damaged_file_is_named(tmp_path: Path, cut: int) -> None:
    """A traceback of a library that the user did not call."""
    path = written(tmp_path, {"arm": ["a"], "reward": [1]})
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(LogError, match=r"log\.parquet: cannot be read as Parquet: "):
        read_log(path)


def test_the_commands_take_parquet(tmp_path: Path) -> None:
    """`risk` and `replay` read by the same function, which goes by the file's name."""
    path = written(tmp_path, {"arm": ["a", "b"] * 20, "reward": [1.0, 2.0] * 20})
    table = path.with_suffix(".csv")
    table.write_text("arm,reward\n" + "a,1\nb,2\n" * 20, encoding="utf-8")
    shown = [CliRunner().invoke(app, ["risk", str(one)]) for one in (path, table)]
    assert [one.exit_code for one in shown] == [0, 0]
    assert shown[0].output == shown[1].output
