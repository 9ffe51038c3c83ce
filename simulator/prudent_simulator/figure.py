"""The regret figure in the paper's style: median thick, quartiles dotted, 5 to 95 per cent shaded, log axis."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from prudent_simulator.environments import FloatArray
from prudent_simulator.report import PERCENTILES, file_stem, title
from prudent_simulator.runner import RunResult
from prudent_simulator.settings import AlgorithmName

# Colours that colour-blind readers can tell apart, also in grey print.
COLOURS = {
    AlgorithmName.LINUCB: "#D55E00",
    AlgorithmName.LINUCB_CR: "#0072B2",
    AlgorithmName.LINUCB_OGD_CR: "#009E73",
    AlgorithmName.LINUCB_ONEPASS_CR: "#CC79A7",
}
_POINTS_MAX = 400


def _floor(regrets: Iterable[FloatArray]) -> float:
    """Lowest value the log axis shows: the power of ten below the smallest regret ever made."""
    smallest = [float(regret[regret > 0.0].min(initial=math.inf)) for regret in regrets]
    lowest = min(smallest)
    return 10.0 ** max(-3, math.floor(math.log10(lowest))) if math.isfinite(lowest) else 0.1


def _draw(axes: Axes, name: str, colour: str, regret: FloatArray, floor: float) -> None:
    rounds = regret.shape[1]
    shown = np.unique(np.linspace(0, rounds - 1, min(rounds, _POINTS_MAX)).astype(int))
    curves = np.maximum(np.percentile(regret[:, shown], PERCENTILES, axis=0), floor)
    low, quarter, median, three_quarters, high = curves
    axes.fill_between(shown + 1, low, high, color=colour, alpha=0.15, linewidth=0.0)
    axes.plot(shown + 1, quarter, color=colour, linestyle=":", linewidth=1.2)
    axes.plot(shown + 1, three_quarters, color=colour, linestyle=":", linewidth=1.2)
    axes.plot(shown + 1, median, color=colour, linewidth=2.6, label=f"{name} (median {median[-1]:.0f})")


def colours_of(algorithms: Mapping[str, AlgorithmName]) -> dict[str, str]:
    """Give each name its algorithm's colour; a second one of the same algorithm gets one that is free."""
    free = cycle(["#E69F00", "#56B4E9", "#000000", "#999999"])
    given: dict[str, str] = {}
    for name, algorithm in algorithms.items():
        usual = COLOURS[algorithm]
        given[name] = usual if usual not in given.values() else next(free)
    return given


@dataclass(frozen=True)
class Curves:
    """What a figure shows: regrets, (R, T) each, by name; a colour for each name; the heading."""

    regrets: Mapping[str, FloatArray]
    colours: Mapping[str, str]
    heading: str


def _curves(result: RunResult) -> Curves:
    regrets = {name.value: outcome.regret for name, outcome in result.outcomes.items()}
    return Curves(regrets, colours_of({name.value: name for name in result.outcomes}), title(result.plan))


def curves_figure(curves: Curves) -> Figure:
    """Draw regret curves; nothing is shown or saved."""
    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    floor = _floor(curves.regrets.values())
    for name, regret in curves.regrets.items():
        _draw(axes, name, curves.colours[name], regret, floor)
    axes.set_yscale("log")
    axes.set_ylim(bottom=floor)
    axes.set_xlim(1, max(2, *(regret.shape[1] for regret in curves.regrets.values())))
    axes.set_xlabel("Round")
    axes.set_ylabel("Regret, running total (log scale)")
    axes.set_title(curves.heading, fontsize=11)
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(loc="lower right", title="Thick: median. Dotted: quartiles. Shade: 5 to 95%.", fontsize=9)
    return figure


def regret_figure(result: RunResult) -> Figure:
    """Draw the regret curves of a run of the paper's; nothing is shown or saved."""
    return curves_figure(_curves(result))


def write_figure(result: RunResult, folder: Path) -> list[Path]:
    """Save the figure of a run of the paper's as PNG and SVG, and give the paths."""
    return save_figure(_curves(result), folder / file_stem(result.plan))


def save_figure(curves: Curves, stem: Path) -> list[Path]:
    """Save a figure of curves as PNG and SVG, and give the paths: `stem` with endings."""
    return save(curves_figure(curves), stem)


def save(figure: Figure, stem: Path) -> list[Path]:
    """Save a figure as PNG and SVG, the same bytes for the same figure, and give the paths: `stem` with endings."""
    png, svg = stem.parent / f"{stem.name}.png", stem.parent / f"{stem.name}.svg"
    with mpl.rc_context({"svg.hashsalt": stem.name, "svg.fonttype": "path"}):
        figure.savefig(png, dpi=160, metadata={"Software": None})
        figure.savefig(svg, metadata={"Date": None})
    return [png, svg]
