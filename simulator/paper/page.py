"""Writes the report: a page that needs no network, the same as Markdown, every figure and every number."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from simulator.figure import save
from simulator.paper.figures import Drawn, draw_all
from simulator.paper.results import PROBLEMS, Results, RowResult
from simulator.paper.rows import Group, Variant
from simulator.paper.runtimes import Runtimes
from simulator.paper.tables import (
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
from simulator.settings import AlgorithmName

PUBLISHED_CPU_HOURS = 237
"""What the paper's own table of runtimes adds up to for its grid."""

_FIGURES, _NUMBERS = "figures", "numbers"
_MEBIBYTE = 2**20


@dataclass(frozen=True)
class Picture:
    """A figure as the templates need it. path: relative to the page."""

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
        _, svg = save(one.figure, folder / one.name)
        data = base64.b64encode(svg.read_bytes()).decode()
        pictures.append(Picture(one.name, one.part, one.text, f"{_FIGURES}/{svg.name}", data))
    return pictures


def _write_numbers(tables: Sequence[Table], directory: Path) -> None:
    folder = directory / _NUMBERS
    folder.mkdir(parents=True, exist_ok=True)
    for table in tables:
        (folder / f"{table.name}.csv").write_text(table.csv(), encoding="utf-8")


def _hours(rows: Sequence[RowResult]) -> float | None:
    seconds = [one.cpu_seconds() for one in rows]
    known = [one for one in seconds if one is not None]
    return sum(known) / 3600.0 if known and len(known) == len(seconds) else None


def _facts(results: Results) -> dict[str, Any]:
    """Sums over rows, for the text. None: not known, as the server was not ours."""
    rows = list(results.rows.values())
    costs = [cost for one in rows for cost in one.costs]
    sizes = [cost.database_bytes for cost in costs if cost.database_bytes is not None]
    pairs = sum(one.pairs for one in rows)
    of_paper = [one for one in rows if one.row.group is Group.PAPER]
    is_ours = len(sizes) == len(costs)
    return {
        "pairs": pairs,
        "hours": _hours(rows),
        "paper_rows": len(of_paper),
        "paper_pairs": sum(one.pairs for one in of_paper),
        "paper_hours": _hours(of_paper),
        "client_microseconds": 1e6 * sum(cost.client_cpu_seconds for cost in costs) / pairs,
        "disk_mib": sum(sizes) / _MEBIBYTE if is_ours else None,
        "largest_mib": max(sizes) / _MEBIBYTE if is_ours else None,
        "bytes_a_pair": sum(sizes) / pairs if is_ours else None,
        "servers": sorted({one.servers for one in results.sessions}),
    }


def _median(results: Results, variant: Variant) -> float | None:
    found = results.find("3", AlgorithmName.LINUCB_CR, variant)
    return None if found is None else found.median


def _context(results: Results, runtimes: Runtimes | None, pictures: Sequence[Picture]) -> dict[str, Any]:
    return {
        "grid": results.grid,
        "unfinished": results.unfinished,
        "facts": _facts(results),
        "published_hours": PUBLISHED_CPU_HOURS,
        "regrets": list(zip([p for p in PROBLEMS if results.of_problem(p)], regret_tables(results), strict=True)),
        "ratios": ratio_table(results),
        "runtime": runtime_table(results, runtimes),
        "runtimes": runtimes,
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


def write_report(results: Results, runtimes: Runtimes | None, directory: Path) -> list[Path]:
    """Write everything into a directory and give the paths of the page and of the Markdown."""
    pictures = _pictures(list(draw_all(results)), directory)
    context = _context(results, runtimes, pictures)
    tables = [table for _, (_, table) in context["regrets"]]
    tables += [context[name] for name in ("ratios", "runtime", "sessions", "episodes")]
    _write_numbers([*tables, settings_table(results), *curve_tables(results)], directory)
    templates = Environment(
        loader=PackageLoader("simulator.paper"),
        autoescape=select_autoescape(["html.jinja"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    written = []
    for name in ("report.html", "report.md"):
        path = directory / name
        path.write_text(templates.get_template(f"{name}.jinja").render(context), encoding="utf-8")
        written.append(path)
    return written
