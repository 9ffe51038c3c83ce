"""The regret figure in the paper's style: median thick, quartiles dotted, 5 to 95 per cent shaded, log axis."""

import math
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from simulator.environments import FloatArray
from simulator.report import PERCENTILES, file_stem, title
from simulator.runner import RunResult
from simulator.settings import AlgorithmName

# Colours told apart by colour-blind readers and in grey print.
_COLOURS = {
    AlgorithmName.LINUCB: "#D55E00",
    AlgorithmName.LINUCB_CR: "#0072B2",
    AlgorithmName.LINUCB_OGD_CR: "#009E73",
    AlgorithmName.LINUCB_ONEPASS_CR: "#CC79A7",
}
_POINTS_MAX = 1_500


def _floor(result: RunResult) -> float:
    """Lowest value the log axis shows: the power of ten below the smallest regret ever made."""
    smallest = [float(o.regret[o.regret > 0.0].min(initial=math.inf)) for o in result.outcomes.values()]
    lowest = min(smallest)
    return 10.0 ** max(-3, math.floor(math.log10(lowest))) if math.isfinite(lowest) else 0.1


def _draw(axes: Axes, name: AlgorithmName, regret: FloatArray, floor: float) -> None:
    rounds = regret.shape[1]
    shown = np.unique(np.linspace(0, rounds - 1, min(rounds, _POINTS_MAX)).astype(int))
    curves = np.maximum(np.percentile(regret[:, shown], PERCENTILES, axis=0), floor)
    low, quarter, median, three_quarters, high = curves
    colour = _COLOURS[name]
    axes.fill_between(shown + 1, low, high, color=colour, alpha=0.15, linewidth=0.0)
    axes.plot(shown + 1, quarter, color=colour, linestyle=":", linewidth=1.2)
    axes.plot(shown + 1, three_quarters, color=colour, linestyle=":", linewidth=1.2)
    axes.plot(shown + 1, median, color=colour, linewidth=2.6, label=f"{name.value} (median {median[-1]:.0f})")


def regret_figure(result: RunResult) -> Figure:
    """Draw the regret curves of a run; nothing is shown or saved."""
    figure = Figure(figsize=(8.0, 5.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    floor = _floor(result)
    for name, outcome in result.outcomes.items():
        _draw(axes, name, outcome.regret, floor)
    axes.set_yscale("log")
    axes.set_ylim(bottom=floor)
    axes.set_xlim(1, max(2, result.plan.rounds))
    axes.set_xlabel("Round")
    axes.set_ylabel("Regret, running total (log scale)")
    axes.set_title(title(result.plan), fontsize=11)
    axes.grid(visible=True, which="major", alpha=0.3)
    axes.legend(loc="lower right", title="Thick: median. Dotted: quartiles. Shade: 5 to 95%.", fontsize=9)
    return figure


def write_figure(result: RunResult, folder: Path) -> list[Path]:
    """Save the figure as PNG and SVG, the same bytes for the same curves, and give the paths."""
    stem = file_stem(result.plan)
    png, svg = folder / f"{stem}.png", folder / f"{stem}.svg"
    with mpl.rc_context({"svg.hashsalt": stem, "svg.fonttype": "path"}):
        figure = regret_figure(result)
        figure.savefig(png, dpi=160, metadata={"Software": None})
        figure.savefig(svg, metadata={"Date": None})
    return [png, svg]
