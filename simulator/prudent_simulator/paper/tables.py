"""The report's tables. Page, Markdown and CSV are written from the same ones, so they cannot disagree."""

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from prudent_simulator.paper.episodes import DIMENSIONS, episode_lengths
from prudent_simulator.paper.results import PROBLEMS, Results, RowResult, problem_title
from prudent_simulator.paper.rows import Variant
from prudent_simulator.paper.runtimes import Runtimes
from prudent_simulator.report import PERCENTILES
from prudent_simulator.settings import AlgorithmName

Value = str | float | int | bool | None
_EXACT, _GRADIENT, _ONEPASS = AlgorithmName.LINUCB_CR, AlgorithmName.LINUCB_OGD_CR, AlgorithmName.LINUCB_ONEPASS_CR


@dataclass(frozen=True)
class Column:
    """A column. digits: after the point, of numbers as shown; the CSV has all of them."""

    name: str
    heading: str
    digits: int = 0
    is_text: bool = False

    def shown(self, value: Value) -> str:
        """Write a value for a reader."""
        if value is None:
            return "-"
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, float):
            return f"{value:,.{self.digits}f}"
        return f"{value:,}" if isinstance(value, int) else value


@dataclass(frozen=True)
class Table:
    """A table. name: stem of its CSV; emphasis: numbers of rows that stand out."""

    name: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    emphasis: frozenset[int] = frozenset()

    def shown(self) -> list[list[str]]:
        """Every value as a reader sees it."""
        return [[column.shown(value) for column, value in zip(self.columns, row, strict=True)] for row in self.rows]

    def csv(self) -> str:
        """Write the table with all digits."""
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([column.name for column in self.columns])
        writer.writerows(["" if value is None else value for value in row] for row in self.rows)
        return text.getvalue()

    def markdown(self) -> str:
        """Write the table for a Markdown reader."""
        lines = [
            [column.heading for column in self.columns],
            ["---" if column.is_text else "---:" for column in self.columns],
            *self.shown(),
        ]
        return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


_PERCENTILE_COLUMNS = tuple(
    Column("median" if percent == 50 else f"percentile_{percent}", "median" if percent == 50 else f"{percent}%")
    for percent in PERCENTILES
)


def regret_table(results: Results, problem: str) -> Table:
    """Final regret of every row of an experiment, beside the published and the expected values."""
    rows = results.of_problem(problem)
    columns = (
        Column("row", "row", is_text=True),
        Column("label", "algorithm", is_text=True),
        *_PERCENTILE_COLUMNS,
        Column("mean", "mean"),
        Column("published", "published", is_text=True),
        Column("expected", "independent simulations", is_text=True),
        Column("replications", "runs"),
    )
    return Table(
        f"regret-{problem}",
        columns,
        tuple(
            (
                one.row.key,
                one.row.label,
                *(one.summary()[column.name] for column in _PERCENTILE_COLUMNS),
                one.summary()["mean"],
                one.published(results.grid.rounds),
                one.expected(results.grid.rounds),
                one.replications,
            )
            for one in rows
        ),
        frozenset(number for number, one in enumerate(rows) if one.row.variant is Variant.PAPER),
    )


_RATIOS = (
    ("gradient descent, theoretical steps", _GRADIENT, Variant.PAPER),
    ("gradient descent, published steps 0.1/n", _GRADIENT, Variant.HARMONIC),
    ("one pass", _ONEPASS, Variant.PAPER),
    ("tight bonus", _EXACT, Variant.TIGHT),
    ("global bonus", _EXACT, Variant.GLOBAL),
    ("without the ball", _EXACT, Variant.UNPROJECTED),
    ("data-driven dial, tight bonus", _EXACT, Variant.DIAL),
)


def ratio_table(results: Results) -> Table:
    """Medians as multiples of that of linucb-cr with the paper's settings, in every experiment."""
    problems = [problem for problem in PROBLEMS if results.find(problem, _EXACT)]

    def ratio(problem: str, algorithm: AlgorithmName, variant: Variant) -> float | None:
        one, base = results.find(problem, algorithm, variant), results.find(problem, _EXACT)
        return one.median / base.median if one and base and base.median > 0.0 else None

    rows = [
        (label, *(ratio(problem, algorithm, variant) for problem in problems)) for label, algorithm, variant in _RATIOS
    ]
    columns = (
        Column("label", "median regret over that of linucb-cr", is_text=True),
        *(Column(problem, problem, digits=2) for problem in problems),
    )
    return Table("ratios", columns, tuple(row for row in rows if any(value is not None for value in row[1:])))


def runtime_table(results: Results, runtimes: Runtimes | None) -> Table:
    """Seconds for one run of every row, in process and over HTTP."""
    columns = (
        Column("row", "row", is_text=True),
        Column("in_process_seconds", "in process, s per run", digits=3),
        Column("http_seconds", "over HTTP, s per run", digits=3),
        Column("http_pair_microseconds", "over HTTP, µs per pair"),
        Column("cpu_pair_microseconds", "processor, µs per pair"),
        Column("server_pair_microseconds", "of the server"),
        Column("client_pair_microseconds", "of the client"),
    )
    return Table("runtime", columns, tuple(_runtime_row(one, runtimes) for one in results.rows.values()))


def _runtime_row(one: RowResult, runtimes: Runtimes | None) -> tuple[Value, ...]:
    http, server, client = one.seconds_a_run(), one.server_cpu_seconds(), one.client_cpu_seconds()
    return (
        one.row.key,
        runtimes.seconds.get(one.row.key) if runtimes else None,
        http,
        1e6 * http / one.regret.shape[1],
        None if server is None else 1e6 * (server + client) / one.pairs,
        None if server is None else 1e6 * server / one.pairs,
        1e6 * client / one.pairs,
    )


def run_table(results: Results) -> Table:
    """How the grid was run: every run of the command, and the disk."""
    columns = (
        Column("rows", "rows", is_text=True),
        Column("servers", "servers"),
        Column("own_servers", "own servers", is_text=True),
        Column("processors", "processors"),
        Column("cells", "cells finished"),
        Column("pairs", "decisions with rewards"),
        Column("seconds", "minutes", digits=1),
        Column("rate", "a second"),
        Column("finished", "to the end", is_text=True),
    )
    rows: list[tuple[Value, ...]] = [
        (
            one.rows or None,
            *(one.servers, one.own_servers, one.processors, one.cells, one.pairs),
            one.seconds / 60.0,
            one.pairs / one.seconds if one.seconds else None,
            one.finished,
        )
        for one in results.sessions
    ]
    return Table("sessions", columns, tuple(rows))


def settings_table(results: Results) -> Table:
    """Every setting of every row, as it was sent to the service."""
    requests = {key: _flat(one.row.request()) for key, one in results.rows.items()}
    names = sorted({name for request in requests.values() for name in request})
    columns = (Column("row", "row", is_text=True), *(Column(name, name, is_text=True) for name in names))
    rows = [(key, *(_setting(request, name) for name in names)) for key, request in requests.items()]
    return Table("settings", columns, tuple(rows))


def _flat(request: dict[str, Any]) -> dict[str, Any]:
    parts = ("risk", "model", "algorithm", "reward")
    return {f"{part}.{name}": value for part in parts for name, value in request[part].items()}


def _setting(request: dict[str, Any], name: str) -> Value:
    if name not in request:
        return None
    value = request[name]
    if value is None:
        return "null"
    return value if isinstance(value, str | bool) else f"{value:g}"


def short_settings_table(results: Results) -> Table:
    """The settings that differ between rows, for the page; the CSV of `settings_table` has all."""
    whole = settings_table(results)
    kept = [
        number
        for number, column in enumerate(whole.columns)
        if number == 0 or len({row[number] for row in whole.rows}) > 1
    ]
    columns = tuple(
        Column(column.name, column.name.split(".")[-1], is_text=True)
        for column in (whole.columns[number] for number in kept)
    )
    return Table("settings", columns, tuple(tuple(row[number] for number in kept) for row in whole.rows))


def common_settings(results: Results) -> list[tuple[str, str]]:
    """Settings that are the same in every row, with their values."""
    whole = settings_table(results)
    return [
        (column.name, column.shown(whole.rows[0][number]))
        for number, column in enumerate(whole.columns)
        if number and len({row[number] for row in whole.rows}) == 1
    ]


def episode_table() -> Table:
    """Episode lengths by dimension."""
    columns = (
        Column("dimension", "d"),
        Column("theorem", "theorem"),
        Column("fixed_length", "one fixed length (ours)"),
        Column("rederived_lemma", "lemma, derived again"),
        Column("printed_lemma", "lemma, as printed"),
    )
    return Table("episode-lengths", columns, tuple(tuple(asdict(episode_lengths(d)).values()) for d in DIMENSIONS))


def curve_tables(results: Results) -> Iterator[Table]:
    """The curves of every row's regret: percentiles by round."""
    columns = (Column("round", "round"), *_PERCENTILE_COLUMNS)
    for key, one in results.rows.items():
        curves = np.percentile(one.regret, PERCENTILES, axis=0).T.tolist()
        yield Table(f"curves-{key}", columns, tuple((number, *row) for number, row in enumerate(curves, start=1)))


def regret_tables(results: Results) -> Sequence[tuple[str, Table]]:
    """The table of final regret of each experiment, with its heading."""
    problems = [problem for problem in PROBLEMS if results.of_problem(problem)]
    return [(problem_title(problem), regret_table(results, problem)) for problem in problems]
