"""Cells of the grid and the directory that keeps them.

A cell is one row for a block of replications. A finished cell is one file, written under another name and then
renamed, so a file that is there is whole. What a replication does depends on its row, the seed, its number and the
rounds alone, not on the block it is in, so an interrupted and resumed run gives the same numbers.

    grid.json                            seed, rounds, replications, block
    sessions.jsonl                       how long each run of the command took
    cells/1-linucb-cr.00000-00099.npz    settings and timings (JSON); regret (R, T) and arms (R, T)
"""

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
import orjson

from prudent_simulator.environments import FloatArray
from prudent_simulator.paper.rows import Row
from prudent_simulator.runner import RunPlan, RunResult

FORMAT = 1
_GRID_FILE = "grid.json"
_SESSIONS_FILE = "sessions.jsonl"
_LOCK_FILE = ".lock"
_CELLS_FOLDER = "cells"
_SHOWN_MAX = 5


class PaperError(Exception):
    """The grid cannot be run, or its directory not be read."""


@dataclass(frozen=True)
class Grid:
    """Settings of a whole grid. block: replications a cell."""

    seed: int
    rounds: int
    replications: int
    block: int


@dataclass(frozen=True)
class Cell:
    """A row for the replications first, first + 1, ..., first + count - 1."""

    row: Row
    first: int
    count: int
    seed: int
    rounds: int

    @property
    def name(self) -> str:
        """Name of its file, without the suffix."""
        return f"{self.row.key}.{self.first:05d}-{self.first + self.count - 1:05d}"

    @property
    def pairs(self) -> int:
        """Decisions with their rewards."""
        return self.count * self.rounds

    def plan(self) -> RunPlan:
        """Say what to run. Ids are fixed by row and seed: the service breaks ties by them."""
        row = self.row
        return RunPlan(
            environment=row.environment,
            layout=row.layout,
            algorithms=(row.algorithm,),
            settings=row.settings,
            replications=self.count,
            rounds=self.rounds,
            seed=self.seed,
            run_id=f"{row.key}.{self.seed}",
            first_replication=self.first,
        )

    def settings(self) -> dict[str, Any]:
        """Give all that its numbers depend on."""
        return {
            "format": FORMAT,
            "row": self.row.key,
            "first": self.first,
            "count": self.count,
            "seed": self.seed,
            "rounds": self.rounds,
            "theta": self.row.environment.theta.tolist(),
            **self.row.request(),
        }


def cells_of(grid: Grid, rows: Sequence[Row]) -> list[Cell]:
    """Cut rows into cells, all rows side by side, so that a run that is stopped has some of each."""
    return [
        Cell(row, first, min(grid.block, grid.replications - first), grid.seed, grid.rounds)
        for first in range(0, grid.replications, grid.block)
        for row in rows
    ]


@dataclass(frozen=True)
class Costs:
    """What a cell cost: seconds of the clock and of the processors, waiting for replies, bytes of the database.

    server_cpu_seconds, database_bytes: None where the server is not ours.
    """

    total_seconds: float
    select_seconds: float
    reward_seconds: float
    client_cpu_seconds: float
    server_cpu_seconds: float | None
    database_bytes: int | None


@dataclass(frozen=True)
class Session:
    """One run of the command: how many servers at once, processors, cells finished, and seconds of the clock.

    rows: which were asked for.
    """

    servers: int
    processors: int
    cells: int
    pairs: int
    seconds: float
    own_servers: bool
    finished: bool
    rows: str = ""


@dataclass(frozen=True)
class CellResult:
    """A finished cell.

    regret: (R, T) running totals, reward units; arms: (R, T) index of the chosen arm; model: the service's account of
    the first replication's campaign at the end.
    """

    settings: dict[str, Any]
    costs: Costs
    regret: FloatArray
    arms: npt.NDArray[np.uint8]
    model: dict[str, Any]

    @classmethod
    def of(cls, cell: Cell, result: RunResult, costs: Costs) -> "CellResult":
        """Take what a run of the cell's plan gave."""
        outcome = result.outcomes[cell.row.algorithm]
        return cls(cell.settings(), costs, outcome.regret, outcome.arms.astype(np.uint8), outcome.model)


def _bytes_of(value: object) -> npt.NDArray[np.uint8]:
    return np.frombuffer(orjson.dumps(value), dtype=np.uint8)


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _differences(found: dict[str, Any], wanted: dict[str, Any]) -> str:
    names = [name for name in {**wanted, **found} if found.get(name) != wanted.get(name)]
    shown = [f"{name} is {found.get(name)} there and {wanted.get(name)} here" for name in names[:_SHOWN_MAX]]
    return "; ".join(shown)


class Archive:
    """The directory of a grid. Raises PaperError for what is not one, and OSError."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._cells = directory / _CELLS_FOLDER

    @contextmanager
    def opened(self, grid: Grid) -> Iterator[None]:
        """Keep the directory for one run at a time. Refuses a grid of other settings than the one begun in it."""
        self._cells.mkdir(parents=True, exist_ok=True)
        with (self.directory / _LOCK_FILE).open("wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise PaperError(f"another run is at work in {self.directory}") from error
            self._begin(grid)
            for left in self._cells.glob("*.part"):
                left.unlink()
            yield

    def _begin(self, grid: Grid) -> None:
        path = self.directory / _GRID_FILE
        if path.exists():
            found, wanted = asdict(self.grid()), asdict(grid)
            if found != wanted:
                raise PaperError(
                    f"{self.directory} holds a run with other settings ({_differences(found, wanted)}): "
                    "give the same ones to resume it, or another --directory"
                )
            return
        if any(self._cells.iterdir()):
            raise PaperError(f"{self._cells} has files but no {_GRID_FILE} belongs to them: give another --directory")
        part = path.with_suffix(".part")
        _write(part, orjson.dumps(asdict(grid), option=orjson.OPT_INDENT_2))
        part.replace(path)

    def grid(self) -> Grid:
        """Read the settings of the grid."""
        path = self.directory / _GRID_FILE
        try:
            return Grid(**orjson.loads(path.read_bytes()))
        except FileNotFoundError:
            raise PaperError(f"{self.directory} holds no run: there is no {_GRID_FILE}") from None
        except (orjson.JSONDecodeError, TypeError) as error:
            raise PaperError(f"{path} is not what a run writes: {error}") from error

    def record(self, session: Session) -> None:
        """Add a run of the command to the list."""
        with (self.directory / _SESSIONS_FILE).open("ab") as file:
            file.write(orjson.dumps(asdict(session)) + b"\n")

    def sessions(self) -> list[Session]:
        """Read the list of runs of the command."""
        path = self.directory / _SESSIONS_FILE
        try:
            lines = path.read_bytes().splitlines() if path.exists() else []
            return [Session(**orjson.loads(line)) for line in lines]
        except (orjson.JSONDecodeError, TypeError) as error:
            raise PaperError(f"{path} is not what a run writes: {error}") from error

    def path(self, cell: Cell) -> Path:
        """Where a cell's file is, or will be."""
        return self._cells / f"{cell.name}.npz"

    def save(self, cell: Cell, result: CellResult) -> None:
        """Write a finished cell: all of it or nothing."""
        path = self.path(cell)
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            np.savez_compressed(
                file,
                settings=_bytes_of(result.settings),
                costs=_bytes_of(asdict(result.costs)),
                model=_bytes_of(result.model),
                regret=result.regret,
                arms=result.arms,
            )
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)

    def load(self, cell: Cell) -> CellResult | None:
        """Read a cell, None if it is not finished. Refuses one that was made with other settings."""
        path = self.path(cell)
        if not path.exists():
            return None
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
                read = {name: content[name] for name in ("settings", "costs", "model", "regret", "arms")}
            settings, costs, model = (orjson.loads(read[name].tobytes()) for name in ("settings", "costs", "model"))
            result = CellResult(settings, Costs(**costs), read["regret"], read["arms"], model)
        except (KeyError, ValueError, TypeError, EOFError, BadZipFile) as error:
            raise PaperError(f"{path} is not what a run writes: {error}") from error
        wanted = orjson.loads(orjson.dumps(cell.settings()))
        if settings != wanted:
            raise PaperError(f"{path} was made with other settings ({_differences(settings, wanted)})")
        return result
