"""The commands `prudent-simulator paper` and `prudent-simulator report`."""

import os
import shlex
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from prudent_simulator.client import Client
from prudent_simulator.extras import needed_for
from prudent_simulator.paper.cells import Archive, Cell, Grid, Session, cells_of
from prudent_simulator.paper.grid import run_cells
from prudent_simulator.paper.measures import read_measures
from prudent_simulator.paper.results import load_results
from prudent_simulator.paper.rows import ROWS, Group, select_rows
from prudent_simulator.paper.runtimes import read_runtimes
from prudent_simulator.paper.worker import Target
from prudent_simulator.runner import ROUNDS_MAX
from prudent_simulator.session import output_console
from prudent_simulator.settings import AlgorithmName

BLOCK = 250


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[cells]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
        console=console,
        speed_estimate_period=300.0,
    )


@dataclass
class _Count:
    cells: int = 0
    pairs: int = 0


def _play(archive: Archive, cells: list[Cell], open_cells: list[Cell], target: Target, servers: int) -> None:
    errors = Console(stderr=True)
    kept, done = len(cells) - len(open_cells), _Count()
    groups = sorted({cell.row.group.value for cell in cells})
    started = time.monotonic()
    try:
        with _progress(errors) as progress:
            total = sum(cell.pairs for cell in open_cells)
            task = progress.add_task("Paper", total=total, cells=f"{kept}/{len(cells)} cells")

            def on_progress(pairs: int, cell: Cell | None) -> None:
                if cell is not None:
                    done.cells, done.pairs = done.cells + 1, done.pairs + cell.pairs
                progress.update(task, advance=pairs, cells=f"{kept + done.cells}/{len(cells)} cells")

            run_cells(archive, open_cells, target, servers, on_progress)
    except KeyboardInterrupt:
        command = shlex.join(["prudent-simulator", *sys.argv[1:]])
        errors.print(
            f"Interrupted: {kept + done.cells} of {len(cells)} cells are finished and kept. To resume: {command}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )
        raise
    finally:
        archive.record(
            Session(
                servers=min(servers, len(open_cells)),
                processors=_processors(),
                cells=done.cells,
                pairs=done.pairs,
                seconds=time.monotonic() - started,
                own_servers=target.url is None,
                finished=done.cells == len(open_cells),
                rows=" and ".join(groups),
            )
        )


def paper(
    directory: Annotated[Path, typer.Option(help="Where the finished cells are kept.")] = Path("paper-results"),
    rows: Annotated[
        Group, typer.Option(help="The paper's 3 experiments x 3 algorithms, our comparisons, or all.")
    ] = Group.PAPER,
    row: Annotated[
        list[str] | None,
        typer.Option(help="Only this row, by its name in the report, such as 1-linucb-cr-tight; repeat for several."),
    ] = None,
    experiment: Annotated[
        list[int] | None, typer.Option(min=1, max=3, help="Only this experiment; repeat for several.")
    ] = None,
    algorithm: Annotated[
        list[AlgorithmName] | None, typer.Option(help="Only rows of this algorithm; repeat for several.")
    ] = None,
    replications: Annotated[int, typer.Option(min=1, max=10_000, help="Independent repetitions.")] = 500,
    rounds: Annotated[int, typer.Option(min=1, max=ROUNDS_MAX, help="Rounds in each.")] = 1500,
    seed: Annotated[int, typer.Option(min=0, max=2**53 - 1, help="Seed of all random numbers.")] = 0,
    block: Annotated[
        int, typer.Option(min=1, max=1_000, help="Replications per cell: campaigns played side by side.")
    ] = BLOCK,
    servers: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=64,
            help="Servers to start, each with a SQLite file and a client process of its own; with --url, clients. "
            "Default: the number of processors.",
        ),
    ] = None,
    url: Annotated[str | None, typer.Option(help="Play on a running service instead of our own servers.")] = None,
    api_key: Annotated[
        str | None, typer.Option(envvar="PRUDENT_API_KEY", help="API key, if the service requires one.")
    ] = None,
) -> None:
    """Replay the paper's whole grid, or a part of it, through the service.

    Finished cells are kept in the directory and not run again, so the run may be interrupted at any time and resumed
    with the same command; the numbers are the same as without the interruption. More rows may be added to a directory
    later. `prudent-simulator report` makes a page of the results.
    """
    grid = Grid(seed=seed, rounds=rounds, replications=replications, block=min(block, replications))
    known = {one.key for one in ROWS}
    if unknown := sorted(set(row or ()) - known):
        raise typer.BadParameter(f"no row is named {unknown[0]}; there are: {', '.join(sorted(known))}")
    chosen = select_rows(rows, frozenset(experiment or ()), frozenset(algorithm or ()), frozenset(row or ()))
    if not chosen:
        raise typer.BadParameter("no row is of this experiment and algorithm; try --rows all")
    headers = {"authorization": f"Bearer {api_key}"} if api_key else {}
    if url is not None:
        with Client(url, headers=headers) as client:
            client.health()  # rather now than in every worker
    archive = Archive(directory)
    with archive.opened(grid):
        cells = cells_of(grid, chosen)
        open_cells = [cell for cell in cells if archive.load(cell) is None]
        if open_cells:
            _play(archive, cells, open_cells, Target(url, headers), servers or _processors())
    output_console().print(
        f"All {len(cells)} cells are in {directory}. Next: prudent-simulator report {shlex.quote(str(directory))}",
        highlight=False,
        soft_wrap=True,
    )


def report(
    directory: Annotated[Path, typer.Argument(help="Directory of a run of `prudent-simulator paper`.")],
    runtime: Annotated[
        Path | None,
        typer.Option(help="Times of the algorithms in process, as `python -m benchmarks.runtime` writes them."),
    ] = None,
    measures: Annotated[
        Path | None,
        typer.Option(help="Regrets under further risk measures: what `python -m benchmarks.measures` has written."),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Where to write. Default: report, in the directory.")] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(help="Write the Markdown here as well, with its figures in pictures/results beside it."),
    ] = None,
) -> None:
    """Make a page of the results: report.html, which needs no network, report.md, every figure, and all numbers as CSV.

    Rows and replications that are not finished are left out, and the page says so.
    """
    with needed_for("drawing the report's figures", "simulator"):
        from prudent_simulator.paper.page import write_report  # matplotlib is slow to load, and needed only here

    results = load_results(Archive(directory))
    runtimes = None if runtime is None else read_runtimes(runtime)
    further = [] if measures is None else read_measures(measures)
    for path in write_report(results, runtimes, further, output or directory / "report", markdown):
        output_console().print(f"Wrote {path}", highlight=False, soft_wrap=True)
