"""What has been played, on disk: one file per problem, one JSON object per line, one line per run.

The parent appends a line when a run is done, so that an interrupted benchmark goes on where it stopped. A line that
was cut off in the middle is forgotten. Nothing here knows whether the service has changed since: for new figures,
name another directory or remove the old one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from benchmarks.exploration.play import Run
from prudent_simulator.environments import FloatArray

Runs = dict[str, dict[int, Run]]
"""By learner and seed."""


class Results:
    """The runs of one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)

    def _file(self, problem: str) -> Path:
        return self._directory / f"{problem}.jsonl"

    def load(self, problem: str, rounds: int) -> Runs:
        """The runs of this many rounds."""
        file = self._file(problem)
        if not file.exists():
            return {}
        text = file.read_bytes()
        if not text.endswith(b"\n"):
            text = text[: text.rfind(b"\n") + 1]
            file.write_bytes(text)
        found: Runs = {}
        for line in text.splitlines():
            one: dict[str, Any] = orjson.loads(line)
            if one["rounds"] == rounds:
                run = Run(one["regret"], one["uniform"], one["locked"])
                found.setdefault(one["learner"], {})[one["seed"]] = run
        return found

    def add(self, problem: str, rounds: int, learner: str, seed: int, run: Run) -> None:
        """Keep a run."""
        shown = {"regret": [round(value, 4) for value in run.regret], "uniform": [round(v, 4) for v in run.uniform]}
        line = {"learner": learner, "seed": seed, "rounds": rounds, "locked": run.is_locked, **shown}
        with self._file(problem).open("ab") as file:
            file.write(orjson.dumps(line) + b"\n")


@dataclass(frozen=True)
class Summary:
    """Runs of one learner in one problem.

    median, high, mean: of the final regret over the one that a uniform draw expects in the same world; high is the
    95th percentile. regret: its mean, reward units. locked: the share of runs that locked in.
    """

    runs: int
    median: float
    high: float
    mean: float
    regret: float
    locked: float


def summarised(runs: Sequence[Run]) -> Summary:
    """Summarise runs of one learner in one problem."""
    ratios = np.array([run.regret[-1] / run.uniform[-1] for run in runs])
    median, high = np.percentile(ratios, (50, 95)).tolist()
    regret = float(np.mean([run.regret[-1] for run in runs]))
    return Summary(len(runs), median, high, float(ratios.mean()), regret, float(np.mean([r.is_locked for r in runs])))


def curves(runs: Sequence[Run]) -> FloatArray:
    """Regret by round over what a uniform draw expects in all rounds, (R, POINTS)."""
    return np.array([np.array(run.regret) / run.uniform[-1] for run in runs])


def geometric_means(of: dict[str, Summary], reference: dict[str, Summary]) -> tuple[float, float, float]:
    """Means over problems of the ratios of medians, of 95th percentiles and of means; both by problem."""
    pairs = [
        (
            one.median / reference[problem].median,
            one.high / reference[problem].high,
            one.mean / reference[problem].mean,
        )
        for problem, one in of.items()
    ]
    median, high, mean = np.exp(np.log(np.array(pairs)).mean(axis=0)).tolist()
    return median, high, mean
