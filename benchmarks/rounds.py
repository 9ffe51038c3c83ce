"""Cases measured beside each other, round after round, so that a machine that gets slower does so for all."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.progress import Progress
from rich.table import Table

from benchmarks.running import Load, Run, Target, run

POOL_MARGIN = 1.5
FIRST_RATE = 4_000.0

Row = dict[str, Any]


def no_decisions(_count: int) -> tuple[str, ...]:
    """For what is not rewarded, or does not look."""
    return ()


def any_decisions(count: int) -> tuple[str, ...]:
    """For a server that does not look at them."""
    return ("0" * 36,) * count


@dataclass(frozen=True)
class Case:
    """One kind of load on one target. decide: makes so many decisions, for kind `reward`."""

    name: str
    target: Target
    kind: Load
    connections: int
    selects: tuple[bytes, ...]
    decide: Callable[[int], tuple[str, ...]] = no_decisions


@dataclass(frozen=True)
class Group:
    """Cases that are compared: the first one's rate is divided by each other's."""

    label: str
    cases: tuple[Case, ...]


@dataclass(frozen=True)
class Budget:
    """How long to measure."""

    rounds: int
    seconds: float


def measure(groups: Sequence[Group], budget: Budget, progress: Progress) -> list[Row]:
    """All groups in each round, their cases in turn (another one begins each time); medians, and medians of ratios."""
    runs: dict[tuple[int, int], list[Run]] = {}
    task = progress.add_task("", total=budget.rounds * sum(len(group.cases) for group in groups))
    for number in range(budget.rounds):
        for place, group in enumerate(groups):
            turn = number % len(group.cases)
            order = list(range(len(group.cases)))
            for which in order[turn:] + order[:turn]:
                case = group.cases[which]
                progress.update(task, description=f"{group.label}: {case.name}")
                known = runs.setdefault((place, which), [])
                known.append(_run(case, budget.seconds, known))
                progress.advance(task)
    progress.remove_task(task)
    return [row for place, group in enumerate(groups) for row in _rows(group, place, runs)]


def _run(case: Case, seconds: float, known: Sequence[Run]) -> Run:
    rate = max((one.rate for one in known), default=FIRST_RATE)
    ids = case.decide(int(POOL_MARGIN * rate * max(1.0, seconds)) + 1_000) if case.kind == "reward" else ()
    return run(case.target, case.kind, case.connections, seconds, case.selects, ids)


def _rows(group: Group, place: int, runs: dict[tuple[int, int], list[Run]]) -> list[Row]:
    rows = []
    first = runs[place, 0]
    for which, case in enumerate(group.cases):
        mine = runs[place, which]
        ratios = [ours.rate / other.rate for ours, other in zip(first, mine, strict=True) if other.rate > 0]
        slow = [ours.p99_ms / other.p99_ms for ours, other in zip(first, mine, strict=True) if other.p99_ms > 0]
        rows.append(
            {
                "group": group.label,
                "name": case.name,
                "is_first": which == 0,
                "kind": case.kind,
                "connections": case.connections,
                "rate": statistics.median(one.rate for one in mine),
                "p50_ms": statistics.median(one.p50_ms for one in mine),
                "p99_ms": statistics.median(one.p99_ms for one in mine),
                "failures": sum(one.failures for one in mine),
                "ratio": statistics.median(ratios) if ratios else None,
                "p99_ratio": statistics.median(slow) if slow else None,
                "rounds": [asdict(one) for one in mine],
            }
        )
    return rows


def table(rows: Sequence[Row], title: str, caption: str) -> Table:
    """The rows for a person."""
    shown = Table(title=title, caption=caption, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    shown.add_column("")
    shown.add_column("")
    for heading in ("conns", "per second", "p50 ms", "p99 ms", "failed", "ratio", "p99 ratio"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        first = row["is_first"]
        ratios = [] if first else [f"{row[name]:.2f}" if row[name] else "" for name in ("ratio", "p99_ratio")]
        shown.add_row(
            f"{row['group']}: {row['kind']}" if first else "",
            row["name"],
            str(row["connections"]),
            f"{row['rate']:,.0f}",
            f"{row['p50_ms']:.2f}",
            f"{row['p99_ms']:.2f}",
            str(row["failures"]),
            *ratios,
        )
    return shown
