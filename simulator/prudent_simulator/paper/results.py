"""What the finished cells of a directory come to, row by row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from prudent_simulator.environments import FloatArray
from prudent_simulator.paper.cells import Archive, CellResult, Costs, Grid, PaperError, Session, cells_of
from prudent_simulator.paper.rows import ROWS, Row, Variant
from prudent_simulator.published import ROUNDS, expected_value, published_value
from prudent_simulator.report import summary
from prudent_simulator.settings import AlgorithmName, Layout

PROBLEMS = ("1", "2-disjoint", "2-shared", "3")


@dataclass(frozen=True)
class RowResult:
    """A row's finished replications.

    regret: (R, T) running totals, reward units; costs: of each of its cells.
    """

    row: Row
    regret: FloatArray
    costs: Sequence[Costs]

    @property
    def replications(self) -> int:
        """R."""
        return len(self.regret)

    @property
    def pairs(self) -> int:
        """Decisions with their rewards."""
        return int(self.regret.size)

    def summary(self) -> dict[str, float]:
        """Mean, median and percentiles of the final regret, reward units."""
        return summary(self.regret)

    @property
    def median(self) -> float:
        """Median of the final regret, reward units."""
        return self.summary()["median"]

    def seconds_a_run(self) -> float:
        """Seconds of the clock that one replication took over HTTP, those beside it being played at the same time."""
        return sum(one.total_seconds for one in self.costs) / self.replications

    def server_cpu_seconds(self) -> float | None:
        """Processor seconds of the server, None where it was not ours."""
        known = [one.server_cpu_seconds for one in self.costs if one.server_cpu_seconds is not None]
        return sum(known) if len(known) == len(self.costs) else None

    def client_cpu_seconds(self) -> float:
        """Processor seconds of the client."""
        return sum(one.client_cpu_seconds for one in self.costs)

    def published(self, rounds: int) -> str | None:
        """The paper's final regret for this algorithm, where it shows one, for as many rounds."""
        if rounds != ROUNDS or self.row.variant not in (Variant.PAPER, Variant.HARMONIC):
            return None
        return published_value(self.row.experiment, self.row.layout, self.row.algorithm)

    def expected(self, rounds: int) -> str | None:
        """What independent simulations of the corrected algorithms gave with these settings, where known."""
        if rounds != ROUNDS:
            return None
        return expected_value(self.row.experiment, self.row.layout, self.row.algorithm, self.row.settings)


@dataclass(frozen=True)
class Results:
    """Everything in a directory. rows: by key, in the order of the grid; rows without a finished cell are not there."""

    grid: Grid
    rows: Mapping[str, RowResult]
    sessions: Sequence[Session]

    def of_problem(self, problem: str) -> list[RowResult]:
        """Rows of one experiment and layout."""
        return [one for one in self.rows.values() if one.row.problem == problem]

    def find(self, problem: str, algorithm: AlgorithmName, variant: Variant = Variant.PAPER) -> RowResult | None:
        """Find a row, None if it has not been run."""
        for one in self.of_problem(problem):
            if (one.row.algorithm, one.row.variant) == (algorithm, variant):
                return one
        return None

    @property
    def unfinished(self) -> list[RowResult]:
        """Rows that lack replications."""
        return [one for one in self.rows.values() if one.replications < self.grid.replications]


def load_results(archive: Archive) -> Results:
    """Read every finished cell. Raises PaperError when there is none."""
    grid = archive.grid()
    found: dict[str, list[CellResult]] = {}
    for cell in cells_of(grid, ROWS):
        result = archive.load(cell)
        if result is not None:
            found.setdefault(cell.row.key, []).append(result)
    if not found:
        raise PaperError(f"no cell of {archive.directory} is finished")
    rows = {row.key: _joined(row, found[row.key]) for row in ROWS if row.key in found}
    return Results(grid, rows, archive.sessions())


def _joined(row: Row, cells: Sequence[CellResult]) -> RowResult:
    regret = np.concatenate([cell.regret for cell in cells])
    return RowResult(row, regret, [cell.costs for cell in cells])


def problem_title(problem: str) -> str:
    """Name an experiment with its layout for a reader."""
    experiment, _, layout = problem.partition("-")
    described = {
        "": "",
        Layout.SHARED: ", one parameter for both arms",
        Layout.DISJOINT: ", one parameter per arm, joint radius",
    }
    return f"Experiment {experiment}{described[layout]}"
