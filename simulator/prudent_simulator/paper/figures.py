"""The report's figures. Colours belong to algorithms and are the same in all of them."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from prudent_simulator.figure import COLOURS, Curves, colours_of, curves_figure
from prudent_simulator.paper.episodes import DELTA, DIMENSIONS, EIGENVALUE, episode_lengths
from prudent_simulator.paper.results import PROBLEMS, Results, RowResult, problem_title
from prudent_simulator.paper.rows import Group, Variant
from prudent_simulator.settings import AlgorithmName

_EXACT = AlgorithmName.LINUCB_CR
_LINEAR_MAX = 20.0  # from the lowest 5% to the highest 95%: more than this is unreadable on a linear axis
_OF_CONDITIONING = {
    Variant.PAPER: "κ = 1",
    Variant.SELF_CONCORDANT: "self-concordant, κ = 3",
    Variant.THEORY_CONDITIONING: "theory, κ = e⁸ ≈ 2981",
}


@dataclass(frozen=True)
class Drawn:
    """A figure. name: stem of its files; part: which part of the report it is in; text: what it shows, in words."""

    name: str
    part: str
    text: str
    figure: Figure


def draw_all(results: Results) -> Iterator[Drawn]:
    """Draw every figure that there are results for."""
    problems = [problem for problem in PROBLEMS if results.of_problem(problem)]
    for problem in problems:
        yield from _regret(results, problem)
    for problem in problems:
        yield from _beside(results, problem)
    for problem in problems:
        yield from _bonuses(results, problem)
    yield from _conditioning(results)
    yield _episodes()


def _curves(named: dict[str, RowResult], heading: str) -> Figure:
    regrets = {name: one.regret for name, one in named.items()}
    colours = colours_of({name: one.row.algorithm for name, one in named.items()})
    return curves_figure(Curves(regrets, colours, heading))


def _medians(named: dict[str, RowResult]) -> str:
    return "; ".join(f"{name}: {one.median:.0f}" for name, one in named.items())


def _regret(results: Results, problem: str) -> Iterator[Drawn]:
    rows = [one for one in results.of_problem(problem) if one.row.variant is Variant.PAPER]
    named = {one.row.algorithm.value: one for one in rows if one.row.algorithm is not AlgorithmName.LINUCB_ONEPASS_CR}
    if named:
        text = f"Regret by round on a log axis. Final medians: {_medians(named)}."
        yield Drawn(f"regret-{problem}", "regret", text, _curves(named, problem_title(problem)))


def _bonuses(results: Results, problem: str) -> Iterator[Drawn]:
    local, wide = results.find(problem, _EXACT), results.find(problem, _EXACT, Variant.GLOBAL)
    if local and wide:
        named = {"local bonus": local, "global bonus": wide}
        text = f"Regret by round of linucb-cr. Final medians: {_medians(named)}."
        yield Drawn(f"bonus-{problem}", "bonus", text, _curves(named, problem_title(problem)))


def _conditioning(results: Results) -> Iterator[Drawn]:
    found = {label: results.find("3", _EXACT, variant) for variant, label in _OF_CONDITIONING.items()}
    named = {label: one for label, one in found.items() if one is not None}
    if len(named) > 1:
        text = f"Regret by round of linucb-cr in experiment 3, by conditioning. Final medians: {_medians(named)}."
        yield Drawn("conditioning-3", "conditioning", text, _curves(named, "Experiment 3, linucb-cr by conditioning"))


def _beside(results: Results, problem: str) -> Iterator[Drawn]:
    rows = [one for one in results.of_problem(problem) if one.row.algorithm is not AlgorithmName.LINUCB]
    if any(one.row.group is Group.OURS for one in rows):
        text = "Final regret: median, quartiles and 5 to 95% of every row, the paper as written on top."
        ordered = sorted(rows, key=lambda one: one.row.variant is not Variant.PAPER)
        yield Drawn(f"beside-{problem}", "beside", text, _ranges(ordered, problem_title(problem)))


def _ranges(rows: Sequence[RowResult], heading: str) -> Figure:
    figure = Figure(figsize=(8.0, 1.4 + 0.42 * len(rows)), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    lowest, highest = math.inf, 0.0
    for height, one in enumerate(reversed(rows)):
        low, quarter, median, three_quarters, high = np.percentile(one.regret[:, -1], (5, 25, 50, 75, 95))
        lowest, highest = min(lowest, low), max(highest, high)
        colour = COLOURS[one.row.algorithm]
        axes.plot([low, high], [height, height], color=colour, linewidth=1.5)
        axes.plot([quarter, three_quarters], [height, height], color=colour, linewidth=7.0, solid_capstyle="butt")
        axes.plot([median], [height], "o", color="white", markeredgecolor=colour, markersize=7.0)
        axes.annotate(f"{median:.0f}", (median, height), (0, 8), textcoords="offset points", ha="center", fontsize=8)
    axes.set_yticks(range(len(rows)), [one.row.label for one in reversed(rows)], fontsize=9)
    axes.set_ylim(-0.6, len(rows) - 0.3)
    is_log = lowest > 0.0 and highest > _LINEAR_MAX * lowest
    if is_log:
        axes.set_xscale("log")
    else:
        axes.set_xlim(left=0.0)
    scale = " (log scale)" if is_log else ""
    axes.set_xlabel(f"Final regret{scale}. Ring: median. Bar: quartiles. Line: 5 to 95%.")
    axes.set_title(heading, fontsize=11)
    axes.grid(visible=True, axis="x", alpha=0.3)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)
    return figure


def _episodes() -> Drawn:
    lengths = [episode_lengths(dimension) for dimension in DIMENSIONS]
    figure = Figure(figsize=(8.0, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    lines = (
        ("theorem (and our fixed length, the same here)", "#0072B2", "-", [one.theorem for one in lengths]),
        ("lemma, derived again", "#009E73", "-", [one.rederived_lemma for one in lengths]),
        ("lemma, as printed (too short)", "#D55E00", "--", [one.printed_lemma for one in lengths]),
    )
    for label, colour, style, values in lines:
        axes.plot(DIMENSIONS, values, color=colour, linestyle=style, linewidth=2.2, label=label)
    axes.set_yscale("log")
    axes.set_xlabel("Dimension d of the features (least eigenvalue of their second moment: 1/d)")
    axes.set_ylabel("Observations in an episode (log scale)")
    axes.set_title(f"Episode length for eigenvalue {EIGENVALUE:g} with probability {1.0 - DELTA:g}", fontsize=11)
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(fontsize=9)
    text = "Episode length by dimension: the lemma derived again lies above the theorem, the printed one far below."
    return Drawn("episode-lengths", "episodes", text, figure)
