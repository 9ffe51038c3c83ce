"""One picture per problem: regret over time of each learner, median and 5 to 95 per cent."""

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from benchmarks.exploration.play import points
from benchmarks.exploration.problems import Problem
from prudent_simulator.environments import FloatArray

# Colours told apart by colour-blind readers; the default and its predecessor stand out.
COLOURS = {
    "default": "#0072B2",
    "optimistic-0.5": "#E69F00",
    "optimistic": "#D55E00",
    "optimistic-2": "#CC79A7",
    "epsilon-greedy": "#009E73",
    "uniform": "#999999",
    "paper": "#000000",
}
SHADED = ("default", "optimistic")
"""More than two bands over one another say nothing."""


def figure_of(problem: Problem, rounds: int, curves: Mapping[str, FloatArray]) -> Figure:
    """Draw a problem. curves: (R, POINTS) by learner, over uniform's final regret."""
    figure = Figure(figsize=(7.2, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    x = points(rounds) + 1
    for name, found in curves.items():
        low, median, high = np.percentile(found, (5, 50, 95), axis=0)
        if name in SHADED:
            axes.fill_between(x, low, high, color=COLOURS[name], alpha=0.15, linewidth=0.0)
        width = 2.4 if name in SHADED else 1.2
        axes.plot(x, median, color=COLOURS[name], linewidth=width, label=f"{name} ({median[-1]:.2f})")
    axes.set_xlim(0, rounds)
    axes.set_ylim(bottom=0.0)
    axes.set_xlabel("Round")
    axes.set_ylabel("Regret / a uniform draw's")
    axes.set_title(f"{problem.name}: median; shaded 5 to 95% of {' and '.join(SHADED)}", fontsize=10)
    axes.grid(visible=True, alpha=0.3)
    axes.legend(loc="upper left", fontsize=8)
    return figure


def save(figure: Figure, file: Path) -> None:
    """Write an SVG, the same bytes for the same figure; its text stays text, which keeps it light."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"svg.hashsalt": file.stem, "svg.fonttype": "none"}):
        figure.savefig(file, metadata={"Date": None})
