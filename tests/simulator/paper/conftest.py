"""Results that are made up, so that every number is known."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from prudent_simulator.paper.cells import Archive, Cell, CellResult, Costs, Grid, Session, cells_of
from prudent_simulator.paper.rows import ROWS, Row
from prudent_simulator.runner import Outcome, RunResult, Timings

GRID = Grid(seed=7, rounds=30, replications=5, block=3)
COSTS = Costs(6.0, 3.0, 2.0, 1.0, 2.0, 3 * 2**20)


def made_up(cell: Cell) -> CellResult:
    """Give a cell's numbers, random but the same every time."""
    generator = np.random.default_rng([ROWS.index(cell.row), cell.first])
    steps = generator.random((cell.count, cell.rounds))
    outcome = Outcome(steps.cumsum(axis=1), (steps > 0.5).astype(np.int64), None, {})
    return CellResult.of(cell, RunResult(cell.plan(), {cell.row.algorithm: outcome}, Timings()), COSTS)


def fill(directory: Path, rows: Sequence[Row], blocks: int = 2) -> Archive:
    """Write the cells of some rows, as a run would."""
    archive = Archive(directory)
    with archive.opened(GRID):
        for cell in cells_of(GRID, rows)[: blocks * len(rows)]:
            archive.save(cell, made_up(cell))
        archive.record(Session(2, 2, 2 * len(rows), 150 * len(rows), 60.0, own_servers=True, finished=True))
    return archive


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """A directory with all rows."""
    return fill(tmp_path / "results", ROWS)
