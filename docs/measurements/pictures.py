"""The two pictures of docs/mathematics.md: `python -m docs.measurements.pictures`.

Writes docs/pictures/expectile.svg and bonus.svg, the same bytes every time. The expectile's picture shows the wide
arm of the paper's second experiment; the bonus's shows a real fit of the service's estimator to 60 rewards.
"""

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from prudent.core.confidence import Confidence, ConfidenceSettings
from prudent.core.estimators import ExactMinimizer
from prudent.core.measures import ExpectileLoss
from tests.core.distributions import TwoPieceNormal

PICTURES = Path(__file__).parents[1] / "pictures"
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#555555"
LEVEL = 0.1


def save(figure: Figure, name: str) -> None:
    """Write an SVG without a date and with fixed ids."""
    with mpl.rc_context({"svg.hashsalt": name}):
        FigureCanvasSVG(figure).print_svg(PICTURES / name, metadata={"Date": None})


def bare(axes: Axes) -> None:
    """Take the frame away."""
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_yticks([])


def expectile() -> None:
    """A density with its mean and expectile, and what the expectile balances."""
    law = TwoPieceNormal(LEVEL, 1.5)
    y = np.linspace(-6.0, 14.0, 241)
    density = np.array([law.density(float(point)) for point in y])
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(1.0, 0.8))
    upper.plot(y, density, color=GREY)
    upper.axvline(law.mean, color=ORANGE, linestyle="--")
    upper.axvline(0.0, color=BLUE)
    top = float(density.max())
    upper.text(law.mean + 0.15, 0.9 * top, f"mean {law.mean:.2f}", color=ORANGE)
    upper.text(-0.25, 0.9 * top, "0.1-expectile 0", color=BLUE, ha="right")
    upper.set_title("How likely each reward is", loc="left", fontsize=10)
    weighted = np.where(y < 0.0, (1.0 - LEVEL) * -y, LEVEL * y) * density
    for side, colour in ((y <= 0.0, ORANGE), (y >= 0.0, GREEN)):
        lower.fill_between(y[side], weighted[side], color=colour, alpha=0.5, linewidth=0.0)
    lower.axvline(0.0, color=BLUE)
    lower.set_title(
        "Likelihood, weighted by the distance to the expectile: the two areas are equal", loc="left", fontsize=10
    )
    high = float(weighted.max())
    lower.text(-2.6, 0.75 * high, "shortfall,\nweight 0.9", color=ORANGE, ha="right")
    lower.text(5.4, 0.75 * high, "surplus,\nweight 0.1", color=GREEN)
    lower.set_xlabel("reward")
    for axes in (upper, lower):
        bare(axes)
    save(figure, "expectile.svg")


def fitted() -> tuple[ExactMinimizer, Confidence]:
    """50 rewards of one arm and 10 of another, with expectiles 0.6 and 0.5."""
    rng = np.random.default_rng(3)
    loss = ExpectileLoss(LEVEL)
    law = TwoPieceNormal(LEVEL, 0.3)
    estimator = ExactMinimizer(loss, 1, 2, 0.1, 1.0)
    for number in range(60):
        x = np.array([1.0, 0.0]) if number % 6 else np.array([0.6, 0.8])
        size, below = abs(float(rng.standard_normal())), rng.random() < law.mass_below
        noise = -law.spread_below * size if below else law.spread_above * size
        estimator.observe(0, x, (0.6 if number % 6 else 0.5) + noise)
    estimator.refresh()
    settings = ConfidenceSettings(0.1, noise_scale=0.1, parameter_bound=1.0, bonus="local-tight")
    confidence = Confidence(loss, settings, 1, 2, blocks_at_creation=1)
    confidence.refresh(estimator, [0])
    return estimator, confidence


def bonus() -> None:
    """The ellipse of parameters that are not ruled out, and the intervals it gives two arms."""
    estimator, confidence = fitted()
    arms = np.array([[1.0, 0.0], [0.6, 0.8]])
    theta, widths = estimator.theta[0], confidence.bonus(arms)
    truth = np.array([0.6, (0.5 - 0.36) / 0.8])
    # bonus(x) is c ||x|| in the inverse metric, so its square along the axes gives c^2 A^-1 back.
    both = float(confidence.bonus(np.array([[1.0, 1.0]]))[0]) ** 2
    first, second = (float(width) ** 2 for width in confidence.bonus(np.eye(2)))
    shape = np.array([[first, (both - first - second) / 2], [(both - first - second) / 2, second]])
    angles = np.linspace(0.0, 2 * np.pi, 121)
    ring = theta[:, None] + np.linalg.cholesky(shape) @ np.stack([np.cos(angles), np.sin(angles)])
    figure = Figure(figsize=(7.6, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1.0))
    left.fill(*ring, color=GREY, alpha=0.2, linewidth=0.0)
    left.plot(*theta, "o", color=GREY)
    left.plot(*truth, "*", color=BLUE, markersize=11)
    left.annotate("estimate", theta, (8, -13), textcoords="offset points", color=GREY)
    left.annotate("truth", truth, (8, 7), textcoords="offset points", color=BLUE)
    for x, colour, name in zip(arms, (ORANGE, GREEN), ("arm 1, 50 plays", "arm 2, 10 plays"), strict=True):
        left.annotate("", x, (0, 0), arrowprops={"arrowstyle": "->", "color": colour, "linewidth": 2})
        left.annotate(name, x, (8, 2), textcoords="offset points", color=colour)
    left.set_xlim(-0.4, 3.2)
    left.set_aspect("equal")
    left.set_title("Parameters not ruled out", loc="left", fontsize=10)
    for place, (x, colour, width) in enumerate(zip(arms, (ORANGE, GREEN), widths, strict=True)):
        centre = float(theta @ x)
        right.errorbar(place, centre, float(width), fmt="o", color=colour, capsize=6)
        right.plot(place, float(truth @ x), "*", color=BLUE, markersize=11)
        right.annotate("index", (place, centre + float(width)), (9, -3), textcoords="offset points", color=colour)
    right.set_xticks([0, 1], ["arm 1", "arm 2"])
    right.set_xlim(-0.5, 1.7)
    right.set_ylabel("risk, in reward units")
    right.set_title("Estimate ± bonus: arm 2 is played", loc="left", fontsize=10)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    save(figure, "bonus.svg")


if __name__ == "__main__":
    expectile()
    bonus()
