"""What exploring costs: `make exploration`, or `python -m benchmarks.exploration --only taxi --seeds 40`.

Plays every learner in every problem and writes the tables and pictures of docs/exploration-benchmark.md. Runs are kept
in --directory: the same command goes on where an earlier one stopped, and --render only writes the page again.
"""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from benchmarks.exploration.jobs import Job, run
from benchmarks.exploration.learners import ALL as LEARNERS
from benchmarks.exploration.learners import Learner, learners_of
from benchmarks.exploration.page import MARK, PICTURES, page
from benchmarks.exploration.pictures import figure_of, save
from benchmarks.exploration.problems import ALL as PROBLEMS
from benchmarks.exploration.problems import Problem
from benchmarks.exploration.results import Results, curves, summarised

DOCS = Path(__file__).parents[2] / "docs"
ROUND_SECONDS = 250e-6
"""Of one learner, on one idle core: for the estimate before the first run is done."""


def jobs(options: argparse.Namespace, problems: Sequence[Problem], learners: Sequence[Learner]) -> Iterator[Job]:
    """What has not been played yet, all problems side by side, so that a run that is stopped has some of each."""
    results = Results(options.directory)
    known = {problem.name: results.load(problem.name, rounds_of(problem, options)) for problem in problems}
    for seed in range(options.seeds):
        for problem in problems:
            able = [one.name for one in learners_of(problem) if one in learners]
            left = tuple(name for name in able if seed not in known[problem.name].get(name, {}))
            if left:
                yield Job(problem.name, seed, rounds_of(problem, options), left)


def rounds_of(problem: Problem, options: argparse.Namespace) -> int:
    """How many rounds of it are played."""
    return problem.rounds if options.rounds is None else min(problem.rounds, options.rounds)


def measure(options: argparse.Namespace, work: Sequence[Job], console: Console) -> None:
    """Play everything that is left, and keep it."""
    results = Results(options.directory)
    rounds = sum(job.rounds * len(job.learners) for job in work)
    minutes = rounds * ROUND_SECONDS / options.processes / 60
    console.print(f"{rounds:,} rounds to play: about {minutes:.0f} minutes on {options.processes} idle cores")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with (
        ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool,
        Progress(*columns, console=console) as progress,
    ):
        task = progress.add_task("Rounds", total=rounds)
        for done in as_completed([pool.submit(run, job) for job in work]):
            job, found = done.result()
            for name, one in found.items():
                results.add(job.problem, job.rounds, name, job.seed, one)
            progress.advance(task, job.rounds * len(job.learners))


def report(options: argparse.Namespace, problems: Sequence[Problem], learners: Sequence[Learner], folder: Path) -> str:
    """Draw the pictures into a folder of docs, and return what the page says below its mark."""
    results = Results(options.directory)
    summaries, shown = {}, []
    for problem in problems:
        rounds = rounds_of(problem, options)
        found = results.load(problem.name, rounds)
        kept = {
            one.name: [found[one.name][seed] for seed in range(options.seeds) if seed in found[one.name]]
            for one in learners
            if one.name in found
        }
        kept = {name: runs for name, runs in kept.items() if runs}
        if not kept:
            continue
        shown.append((problem, rounds))
        summaries[problem.name] = {name: summarised(runs) for name, runs in kept.items()}
        drawn = {name: curves(runs) for name, runs in kept.items()}
        save(figure_of(problem, rounds, drawn), folder / f"{problem.name}.svg")
    if not shown:
        sys.exit(f"there are no results in {options.directory}")
    counts = {one.runs for found in summaries.values() for one in found.values()}
    fewest, most = min(counts), max(counts)
    runs = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    return page(summaries, shown, f"{runs} seeds.")


def parsed_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names, learners = [one.name for one in PROBLEMS], [one.name for one in LEARNERS]
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="PROBLEM", help=", ".join(names))
    parser.add_argument(
        "--learners", nargs="+", choices=learners, default=learners, metavar="LEARNER", help=", ".join(learners)
    )
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--rounds", type=int, help="at most this many of each problem, for a quick look")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--directory", type=Path, default=Path("exploration-results"), help="where runs are kept")
    parser.add_argument("--render", action="store_true", help="play nothing, only write the page again")
    parser.add_argument("--print", action="store_true", help="print the tables and leave docs as they are")
    options = parser.parse_args(arguments)
    if options.seeds < 1 or options.processes < 1 or (options.rounds is not None and options.rounds < 4):
        parser.error("--seeds and --processes must be at least 1, --rounds at least 4")
    return options


def main(arguments: Sequence[str] | None = None) -> None:
    """Play, and write the page."""
    options = parsed_options(arguments)
    problems = [one for one in PROBLEMS if one.name in options.only]
    learners = [one for one in LEARNERS if one.name in options.learners]
    console = Console(stderr=True)
    began = time.monotonic()
    work = list(jobs(options, problems, learners))
    if work and not options.render:
        measure(options, work, console)
        console.print(f"played in {(time.monotonic() - began) / 60:.1f} minutes")
    folder = options.directory if options.print else DOCS / PICTURES
    text = report(options, problems, learners, folder)
    if options.print:
        sys.stdout.write(text)
        return
    file = DOCS / "exploration-benchmark.md"
    kept = file.read_text(encoding="utf-8").split(MARK)[0] if file.exists() else ""
    file.write_text(f"{kept}{MARK}\n\n{text}", encoding="utf-8")


if __name__ == "__main__":
    main()
