"""Writes the report: a page that needs no network, the same as Markdown, every figure and every number."""

import base64
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from prudent_simulator.figure import save
from prudent_simulator.paper.checks import EXPECTATIONS, check_table, checks_of
from prudent_simulator.paper.figures import Drawn, draw_all
from prudent_simulator.paper.measures import MeasureResult, measure_table
from prudent_simulator.paper.results import PROBLEMS, Results, RowResult
from prudent_simulator.paper.rows import ROWS, Group, Variant, select_rows
from prudent_simulator.paper.runtimes import Runtimes
from prudent_simulator.paper.tables import (
    Table,
    common_settings,
    curve_tables,
    episode_table,
    ratio_table,
    regret_tables,
    run_table,
    runtime_table,
    settings_table,
    short_settings_table,
)
from prudent_simulator.published import ROUNDS
from prudent_simulator.settings import AlgorithmName

PUBLISHED_CPU_HOURS = 237
"""What the paper's own table of runtimes adds up to for its grid."""

_FIGURES, _TABLES = "figures", "tables"
_BESIDE_MARKDOWN = Path("pictures/results")
_RESULTS = "paper-results"  # in the commands that the report shows: the default
_MEASURE_COMMAND = f"python -m benchmarks.measures {_RESULTS}/measures"
_MEBIBYTE = 2**20


@dataclass(frozen=True)
class Picture:
    """A figure as the templates need it. path: relative to the Markdown; data: the SVG in base64."""

    name: str
    part: str
    text: str
    path: str
    data: str


def _pictures(drawn: Sequence[Drawn], directory: Path) -> list[Picture]:
    folder = directory / _FIGURES
    folder.mkdir(parents=True, exist_ok=True)
    pictures = []
    for one in drawn:
        png, svg = save(one.figure, folder / one.name)
        data = base64.b64encode(svg.read_bytes()).decode()
        pictures.append(Picture(one.name, one.part, one.text, f"{_FIGURES}/{png.name}", data))
    return pictures


def _write_tables(tables: Sequence[Table], directory: Path) -> None:
    folder = directory / _TABLES
    folder.mkdir(parents=True, exist_ok=True)
    for table in tables:
        (folder / f"{table.name}.csv").write_text(table.csv(), encoding="utf-8")


def _hours(rows: Sequence[RowResult]) -> float | None:
    server = [one.server_cpu_seconds() for one in rows]
    known = [seconds for seconds in server if seconds is not None]
    if not rows or len(known) < len(rows):
        return None
    return (sum(known) + sum(one.client_cpu_seconds() for one in rows)) / 3600.0


def _facts(results: Results) -> dict[str, Any]:
    """Sums over rows, for the text. None: not known, as the server was not ours."""
    rows = list(results.rows.values())
    costs = [cost for one in rows for cost in one.costs]
    sizes = [cost.database_bytes for cost in costs if cost.database_bytes is not None]
    pairs = sum(one.pairs for one in rows)
    of_paper = [one for one in rows if one.row.group is Group.PAPER]
    is_ours = len(sizes) == len(costs)
    seconds = sum(one.seconds for one in results.sessions)
    return {
        "pairs": pairs,
        "hours": _hours(rows),
        "paper_rows": len(of_paper),
        "paper_pairs": sum(one.pairs for one in of_paper),
        "paper_hours": _hours(of_paper),
        "client_microseconds": 1e6 * sum(one.client_cpu_seconds() for one in rows) / pairs,
        "disk_mib": sum(sizes) / _MEBIBYTE if is_ours else None,
        "largest_mib": max(sizes) / _MEBIBYTE if is_ours else None,
        "bytes_a_pair": sum(sizes) / pairs if is_ours else None,
        "sessions": len(results.sessions),
        "minutes": seconds / 60.0,
        "rate": sum(one.pairs for one in results.sessions) / seconds if seconds else None,
        "servers": sorted({one.servers for one in results.sessions}),
    }


def _median(results: Results, variant: Variant) -> float | None:
    found = results.find("3", AlgorithmName.LINUCB_CR, variant)
    return None if found is None else found.median


def _grid_command(results: Results, rows: Group | None = None) -> str:
    """Give the command that plays rows into the same directory: a directory takes one seed, size and block only."""
    grid = results.grid
    size = f"--replications {grid.replications} --rounds {grid.rounds} --seed {grid.seed} --block {grid.block}"
    chosen = "" if rows is None else f"--rows {rows} "
    return f"prudent-simulator paper --directory {_RESULTS} {chosen}{size}"


def _play_commands(results: Results) -> list[str]:
    """Give the commands that play what is here: whole groups by their names, other rows by theirs."""
    here = {one.row for one in results.rows.values()}
    if here >= set(ROWS):
        return [_grid_command(results, Group.ALL)]
    commands, named = [], []
    for group in (Group.PAPER, Group.OURS):
        rows = select_rows(group)
        if here >= set(rows):
            commands.append(_grid_command(results, group))
        else:
            named += [f"--row {row.key}" for row in rows if row in here]
    if named:
        commands.append(" ".join([_grid_command(results), *named]))
    return commands


def _commands(results: Results) -> list[str]:
    return [
        *_play_commands(results),
        f"python -m benchmarks.runtime {_RESULTS}/runtime.json",
        _MEASURE_COMMAND,
        f"prudent-simulator report {_RESULTS} --runtime {_RESULTS}/runtime.json --measures {_RESULTS}/measures",
    ]


def _context(
    results: Results, runtimes: Runtimes | None, measures: Sequence[MeasureResult], pictures: Sequence[Picture]
) -> dict[str, Any]:
    checks = checks_of(results)
    return {
        "grid": results.grid,
        "commands": _commands(results),
        "all_command": _grid_command(results, Group.ALL),
        "our_command": _grid_command(results, Group.OURS),
        "checks": checks,
        "check_table": check_table(checks),
        "expectations": len(EXPECTATIONS),
        "expected_rounds": ROUNDS,
        "unfinished": results.unfinished,
        "facts": _facts(results),
        "published_hours": PUBLISHED_CPU_HOURS,
        "regrets": list(zip([p for p in PROBLEMS if results.of_problem(p)], regret_tables(results), strict=True)),
        "ratios": ratio_table(results),
        "runtime": runtime_table(results, runtimes),
        "runtimes": runtimes,
        "measures": measures,
        "measure_table": measure_table(measures),
        "measure_command": _MEASURE_COMMAND,
        "sessions": run_table(results),
        "settings": short_settings_table(results),
        "common": common_settings(results),
        "episodes": episode_table(),
        "pictures": {one.name: one for one in pictures},
        "beside": [one for one in pictures if one.part == "beside"],
        "bonuses": [one for one in pictures if one.part == "bonus"],
        "theory": _median(results, Variant.THEORY_CONDITIONING),
        "self_concordant": _median(results, Variant.SELF_CONCORDANT),
        "one": _median(results, Variant.PAPER),
    }


def write_report(
    results: Results,
    runtimes: Runtimes | None,
    measures: Sequence[MeasureResult],
    directory: Path,
    markdown: Path | None = None,
) -> list[Path]:
    """Write everything into a directory and give the paths of the page and of the Markdown.

    markdown: a second place for the Markdown; its figures are put into `pictures/results` beside it, as SVG, which
    version control keeps small.
    """
    pictures = _pictures(list(draw_all(results)), directory)
    context = _context(results, runtimes, measures, pictures)
    tables = [table for _, (_, table) in context["regrets"]]
    tables += [context[name] for name in ("check_table", "ratios", "measure_table", "runtime", "sessions", "episodes")]
    _write_tables([*tables, settings_table(results), *curve_tables(results)], directory)
    written = [_render(directory / name, name, context) for name in ("report.html", "report.md")]
    if markdown is not None:
        folder = markdown.parent / _BESIDE_MARKDOWN
        folder.mkdir(parents=True, exist_ok=True)
        for one in pictures:
            shutil.copyfile(directory / _FIGURES / f"{one.name}.svg", folder / f"{one.name}.svg")
        moved = [replace(one, path=f"{_BESIDE_MARKDOWN.as_posix()}/{one.name}.svg") for one in pictures]
        written.append(_render(markdown, "report.md", _context(results, runtimes, measures, moved)))
    return written


def _render(path: Path, template: str, context: dict[str, Any]) -> Path:
    templates = Environment(
        loader=PackageLoader("prudent_simulator.paper"),
        autoescape=select_autoescape(["html.jinja"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    path.write_text(templates.get_template(f"{template}.jinja").render(context), encoding="utf-8")
    return path
