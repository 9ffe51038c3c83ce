"""`python -m benchmarks`: every figure of docs/performance.md, in one run.

Ratios to a no-op, a naive service and other libraries, on this machine, at the same time, interleaved, medians over
rounds. Nothing is asserted. Parts: a, b the floor and the naive service; c growth; d workers; e in process;
f batches; g cold start (with c); h open loop.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks import growth, inprocess, open_loop, throughput
from benchmarks.machine import machine
from benchmarks.rounds import Budget, Row, table
from benchmarks.running import WRK, workplace

PARTS = "abcdefgh"
OVER = "ratio: the first one's rate over this one's, median over the rounds; with wrk a latency is one request's"


@dataclass
class Report:
    """What has been measured: tables on the console, and rows for a file."""

    console: Console
    rows: dict[str, Any] = field(default_factory=dict)

    def add(self, name: str, rows: list[Row], shown: Table) -> None:
        """Keep and show the rows of one part."""
        self.rows[name] = rows
        self.console.print(shown)


def parsed_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--full", action="store_true", help="all shapes, a million observations, 10,000 campaigns")
    parser.add_argument("--parts", default=PARTS, help=f"some of {PARTS} (default: all)")
    parser.add_argument("--seconds", type=float, help="of each run, at least 1 (default 1, full: 3)")
    parser.add_argument("--rounds", type=int, help="interleaved rounds (default 3, full: 5)")
    parser.add_argument("--rivals", type=Path, help="the Python of the environment of benchmarks/rivals.txt")
    parser.add_argument("--json", type=Path, help="also write everything measured to this file")
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"there are no parts {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    if options.seconds is not None and options.seconds < 1:
        parser.error("--seconds must be at least 1")
    if options.rounds is not None and options.rounds < 1:
        parser.error("--rounds must be at least 1")
    return options


def _growth(report: Report, budget: Budget, progress: Progress, full: bool) -> None:
    with workplace() as directory:
        rows, starts = growth.observations(budget, directory, progress, full=full)
    report.add("observations", rows, table(rows, "(c) Growth with observations, K=10, d=20, SQLite", OVER))
    report.add("starts", starts, growth.start_table(starts))
    with workplace() as directory:
        rows = growth.shapes(budget, directory, progress)
    report.add("shapes", rows, table(rows, "(c) Growth with arms and dimension, linucb, SQLite", OVER))
    with workplace() as directory:
        rows = growth.campaigns(budget, directory, progress, full=full)
    report.add("campaigns", rows, table(rows, "(c) Growth with campaigns, linucb, K=10, d=20, SQLite", OVER))
    for row in reversed(rows):
        report.console.print(f"resident memory with {row['name']}: {row['megabytes']:,.0f} MB")


def _in_process(report: Report, rounds: int, full: bool, rivals: Path | None) -> None:
    times, missing = inprocess.measure(20_000 if full else 3_000, rounds, rivals)
    rows = inprocess.summary(times)
    report.add("inprocess", rows, inprocess.table(rows))
    for one in missing:
        report.console.print(f"not measured: {one}", style="yellow")


def main() -> None:
    """Measure, and report."""
    options = parsed_options()
    full, wanted = options.full, set(options.parts)
    budget = Budget(options.rounds or (5 if full else 3), options.seconds or (3 if full else 1))
    console = Console(width=max(120, Console().width))
    described = machine()
    console.print_json(json.dumps(described))
    report = Report(console)

    def in_workplace(part: Callable[[Path], list[Row]]) -> list[Row]:
        with workplace() as directory:
            return part(directory)

    with Progress(console=Console(stderr=True), transient=True) as progress:
        if wanted & {"e"}:
            _in_process(report, budget.rounds, full, options.rivals)
        if wanted & {"a", "b"}:
            rows = in_workplace(lambda directory: throughput.floor(budget, directory, progress, full=full))
            report.add("floor", rows, table(rows, "(a), (b) Beside the floor, linucb, SQLite, one worker", OVER))
        if wanted & {"f"} and WRK is not None:
            rows = in_workplace(lambda directory: throughput.batches(budget, directory, progress))
            report.add("batches", rows, table(rows, "(f) Batches, linucb, K=10, d=20, SQLite", OVER))
        if wanted & {"h"}:
            rows = in_workplace(lambda directory: open_loop.open_loop(budget.seconds * 10, directory))
            report.add("open loop", rows, open_loop.table(rows))
        if wanted & {"c", "g"}:
            _growth(report, budget, progress, full)
        if wanted & {"d"}:
            rows = in_workplace(lambda directory: throughput.workers(budget, directory, progress))
            report.add("workers", rows, table(rows, "(d) Workers, linucb, one hot campaign, K=10, d=20", OVER))
    if wanted & {"f"} and WRK is None:
        console.print("not measured: batches, which need wrk", style="yellow")
    if options.json is not None:
        content = {"machine": described, "command": sys.argv[1:], "parts": report.rows}
        options.json.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2))


if __name__ == "__main__":
    main()
