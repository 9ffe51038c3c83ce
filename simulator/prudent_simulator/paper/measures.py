"""Regrets under further risk measures, as `python -m benchmarks.measures` plays them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from prudent_simulator.paper.cells import PaperError
from prudent_simulator.paper.tables import Column, Table, Value
from prudent_simulator.report import PERCENTILES

_FIGURES = [f"percentile_{percent}" if percent != 50 else "median" for percent in PERCENTILES]
_SUMMARY = (*_FIGURES, "mean")


@dataclass(frozen=True)
class MeasureResult:
    """An experiment. regrets: by algorithm, the final regret's summary over the replications, reward units."""

    name: str
    replications: int
    rounds: int
    pairs: int
    seconds: float
    regrets: dict[str, dict[str, float]]


def read_measures(directory: Path) -> list[MeasureResult]:
    """Read all files of a directory, by name. Raises PaperError for one that is not what a run writes."""
    found = []
    for path in sorted(directory.glob("*.json")):
        try:
            content = orjson.loads(path.read_bytes())
            regrets = {name: one["final_regret"] for name, one in content["algorithms"].items()}
            timings = content["timings"]
            found.append(
                MeasureResult(
                    content["environment"]["name"],
                    int(content["replications"]),
                    int(content["rounds"]),
                    int(timings["pairs"]),
                    float(timings["total_seconds"]),
                    {name: {figure: float(one[figure]) for figure in _SUMMARY} for name, one in regrets.items()},
                )
            )
        except (OSError, orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
            raise PaperError(f"{path} is not what python -m benchmarks.measures writes: {error}") from error
    if not found:
        raise PaperError(f"{directory} has no results of python -m benchmarks.measures")
    return found


def measure_table(results: Sequence[MeasureResult]) -> Table:
    """Give the final regrets, a row for each experiment and algorithm."""
    columns = (
        Column("experiment", "experiment", is_text=True),
        Column("algorithm", "algorithm", is_text=True),
        *(Column(name, "median" if name == "median" else f"{name.removeprefix('percentile_')}%") for name in _FIGURES),
        Column("mean", "mean"),
        Column("runs", "runs"),
        Column("rounds", "rounds"),
    )
    rows: list[tuple[Value, ...]] = [
        (one.name, algorithm, *(figures[name] for name in _FIGURES), figures["mean"], one.replications, one.rounds)
        for one in results
        for algorithm, figures in one.regrets.items()
    ]
    return Table("measures", columns, tuple(rows))
