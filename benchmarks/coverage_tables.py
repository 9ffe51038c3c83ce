"""The tables of docs/coverage.md, and of other pages whose ends are written by a program."""

from collections.abc import Sequence
from pathlib import Path

from benchmarks.coverage_settings import Results, grid, is_covered, paper_scale


def row(cells: Sequence[object]) -> str:
    """A line of a Markdown table."""
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def table(head: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table, all but the first column to the right."""
    rule = "|---|" + "---:|" * (len(head) - 1)
    return "\n".join([row(head), rule, *map(row, rows), ""])


def write_end(page: Path, mark: str, text: str) -> None:
    """Replace what follows the mark on a page, or append both."""
    kept = page.read_text().split(mark)[0] if page.exists() else ""
    page.write_text(f"{kept}{mark}\n\n{text}")


def grid_tables(results: Results) -> list[str]:
    """Coverage and regret over the grid, an experiment and an estimator at a time."""
    found = []
    for experiment in (1, 2, 3):
        for projected in (True, False):
            chosen = {s: r for s, r in results.items() if (s.experiment, s.projected) == (experiment, projected)}
            where = "in the ball" if projected else "without the ball"
            found.append(f"### Experiment {experiment}, {where}: coverage · median regret by noise scale\n")
            head = ["bonus", *(f"{scale:.4g}" for scale in grid(experiment))]
            found.append(table(head, [[s.bonus, *(r[scale] for scale in grid(experiment))] for s, r in chosen.items()]))
    return found


def equal_coverage_table(results: Results, fine: Results) -> str:
    """Each bonus at the smallest noise scale with the wanted coverage."""
    rows: list[list[object]] = []
    paper: dict[tuple[int, bool], float] = {}
    by_family = {(s.experiment, s.bonus, s.projected): r for s, r in fine.items()}
    for setting, coarse in results.items():
        measured = coarse | by_family.get((setting.experiment, setting.bonus, setting.projected), {})
        covered = is_covered(measured)
        name = [setting.experiment, setting.bonus, "yes" if setting.projected else "no"]
        if not covered:
            rows.append([*name, "none tried", "", "", ""])
            continue
        scale = covered[0]
        found = measured[scale]
        shown = f"{scale:.3g} or less" if scale == min(key for key in measured if key) else f"{scale:.3g}"
        paper.setdefault((setting.experiment, setting.projected), found.median)
        ratio = found.median / paper[setting.experiment, setting.projected]
        rows.append([*name, shown, f"{found.coverage:.3f}", found.regret, f"{ratio:.2f}"])
    head = ["experiment", "bonus", "ball", "noise scale", "coverage", "regret, median [5%, 95%]", "of the paper's"]
    return table(head, rows)


def paper_dial_table(results: Results) -> str:
    """Coverage and regret at the paper's noise scale."""
    head = ["experiment", "bonus", "ball", "noise scale", "coverage", "regret, median [5%, 95%]"]
    rows = []
    for setting, measured in results.items():
        scale = paper_scale(setting.experiment)
        found = measured[scale]
        ball = "yes" if setting.projected else "no"
        rows.append([setting.experiment, setting.bonus, ball, scale, f"{found.coverage:.3f}", found.regret])
    return table(head, rows)


def other_table(results: Results) -> str:
    """What is not on the grid."""
    dials = ["experiment", "bonus", "ball", "S", "conditioning", "noise scale", "warm-up", "ridge"]
    rows = []
    for setting, measured in results.items():
        for scale, found in measured.items():
            bound = "the estimate's norm" if setting.bound is None else setting.bound
            dial = "data-driven" if scale is None else f"{scale:.4g}"
            ball = setting.radius if setting.projected else "none"
            settings = [setting.experiment, setting.bonus, ball, bound, f"{setting.conditioning:.4g}", dial]
            settings += [setting.warmup, setting.ridge]
            rows.append([*settings, f"{found.coverage:.3f}", found.regret])
    return table([*dials, "coverage", "regret, median [5%, 95%]"], rows)
