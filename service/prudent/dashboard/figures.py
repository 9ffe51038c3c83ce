"""Charts as plotly draws them. Colours are names of the style sheet's variables: the page's script looks them up."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from prudent.core.measures import Measure
from prudent.dashboard.formatting import number
from prudent.dashboard.overview import Overview, trailing_shares

Figure = dict[str, Any]
SHARE_POINTS = 200
HISTOGRAM_BINS = 36
OTHER = "other arms"
_INK, _MUTED, _GRID, _OTHERS = "var(--ink)", "var(--muted)", "var(--grid)", "var(--others)"


@dataclass(frozen=True)
class ArmLine:
    """What is known of an arm. Figures of rewards are None without rewards, those of the model where none was asked.

    share: of the newest decisions; interval: of the risk of the rewards; estimate_interval: of the model's estimate.
    """

    arm_id: str
    status: str
    colour: int | None
    share: float | None = None
    rewards: int = 0
    mean: float | None = None
    deviation: float | None = None
    risk: float | None = None
    interval: tuple[float, float] | None = None
    estimate: float | None = None
    bonus: float | None = None
    index: float | None = None
    estimate_interval: tuple[float, float] | None = None


class Theta(NamedTuple):
    """A block of parameters: of an arm, or of all (arm_id ""). intervals: none, or one or None for each value."""

    arm_id: str
    colour: int | None
    values: Sequence[float]
    intervals: Sequence[Sequence[float] | None]


def _layout(height: int, **parts: Any) -> Figure:
    """What all charts have in common."""
    common: Figure = {
        "height": height,
        "margin": {"l": 8, "r": 12, "t": 8, "b": 8},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": _INK},
        "hoverlabel": {"bgcolor": "var(--card)", "bordercolor": "var(--line)", "font": {"color": _INK}},
        "showlegend": False,
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom", "font": {"size": 12}},
        "uirevision": "kept",
    }
    return common | parts


def _axis(title: str | None = None, **parts: Any) -> Figure:
    axis: Figure = {
        "gridcolor": _GRID,
        "zerolinecolor": _GRID,
        "linecolor": _GRID,
        "tickfont": {"color": _MUTED, "size": 12},
        "automargin": True,
        "fixedrange": True,
    }
    if title is not None:
        axis["title"] = {"text": title, "font": {"color": _MUTED, "size": 12}, "standoff": 10}
    return axis | parts


def colour(place: int | None) -> str:
    """The style sheet's variable for an arm's colour."""
    return _OTHERS if place is None else f"var(--arm-{place})"


def shares(campaign: Overview) -> Figure | None:
    """Stacked shares of the newest decisions; None before the first."""
    if not campaign.plays:
        return None
    coloured = campaign.coloured
    places, values = trailing_shares(campaign.plays, list(coloured), SHARE_POINTS)
    oldest_first = campaign.plays[::-1]
    first = campaign.decisions - len(campaign.plays) + 1
    x = [first + place for place in places]
    shown = _time_format(oldest_first[0].created_at, oldest_first[-1].created_at)
    columns: list[tuple[str, str, NDArray[np.float64]]] = [
        (arm_id, colour(place), values[:, place - 1]) for arm_id, place in coloured.items()
    ]
    rest = 1.0 - values.sum(axis=1)
    if rest.max() > 1e-9:
        columns.append((OTHER, _OTHERS, rest))
    single = len(x) == 1
    traces = [
        {
            "type": "scatter",
            "name": name,
            "x": x,
            "y": _rounded(column),
            "stackgroup": "shares",
            "mode": "markers" if single else "lines",
            "line": {"width": 0.5, "color": tint},
            "marker": {"color": tint, "size": 9},
            "fillcolor": f"{tint}/0.8",
            "hovertemplate": "%{y:.0%}",
        }
        for name, tint, column in columns
    ]
    ticks = sorted({places[round(share * (len(places) - 1))] for share in (0, 1 / 3, 2 / 3, 1)})
    layout = _layout(
        320,
        hovermode="x unified",
        showlegend=True,
        yaxis=_axis(tickformat=".0%", range=[0, 1], tickvals=[0, 0.25, 0.5, 0.75, 1]),
        xaxis=_axis(
            "decision",
            tickvals=[first + place for place in ticks],
            ticktext=[f"{first + place:,}<br>{_time(oldest_first[place].created_at, shown)}" for place in ticks],
            range=None if single else [x[0], x[-1]],
            showgrid=False,
            unifiedhovertitle={"text": "decision %{x:,}"},
        ),
    )
    return {"data": traces, "layout": layout}


def worth(lines: Sequence[ArmLine], unit: str) -> Figure | None:
    """Estimate, interval and bonus of each arm, best index on top; None where nothing is estimated."""
    known = [line for line in lines if line.estimate is not None]
    if not known:
        return None
    known.sort(key=lambda line: line.index or 0.0)
    names = [line.arm_id for line in known]
    estimates = [line.estimate or 0.0 for line in known]
    tints = [colour(line.colour) for line in known]
    bonuses: Figure = {
        "type": "bar",
        "orientation": "h",
        "name": "bonus",
        "y": names,
        "x": [(line.index or 0.0) - (line.estimate or 0.0) for line in known],
        "base": estimates,
        "width": 0.42,
        "marker": {"color": tints, "opacity": 0.3, "line": {"width": 0}},
        "showlegend": False,
        "customdata": [[line.bonus, line.index] for line in known],
        "hovertemplate": "bonus %{customdata[0]:.3f}, index %{customdata[1]:.3f}<extra></extra>",
    }
    points: Figure = {
        "type": "scatter",
        "mode": "markers",
        "name": "estimate",
        "y": names,
        "x": estimates,
        "marker": {"color": tints, "size": 12, "line": {"width": 2, "color": "var(--card)"}},
        "showlegend": False,
        "hovertemplate": "estimate %{x:.3f}<extra></extra>",
    }
    intervals = [line.estimate_interval for line in known]
    if any(intervals):
        points["error_x"] = _whiskers(estimates, intervals)
    layout = _layout(
        max(150, 88 + 46 * len(known)),
        showlegend=True,
        bargap=0.4,
        xaxis=_axis(unit),
        yaxis=_axis(type="category", categoryarray=names, showgrid=False, tickfont={"color": _INK, "size": 13}),
    )
    return {"data": [bonuses, points, *_key(with_intervals=any(intervals))], "layout": layout}


def _key(*, with_intervals: bool) -> list[Figure]:
    """The legend of the arms' worth, in no arm's colour."""
    dot = "estimate, with 95% interval" if with_intervals else "estimate"
    key: list[Figure] = [
        {"type": "scatter", "mode": "markers", "name": dot, "marker": {"color": _MUTED, "size": 11}},
        {"type": "bar", "orientation": "h", "name": "bonus", "marker": {"color": _OTHERS, "opacity": 0.5}},
    ]
    return [trace | {"x": [None], "y": [None], "hoverinfo": "skip"} for trace in key]


def rewards(campaign: Overview, lines: Sequence[ArmLine], measure: Measure) -> Figure | None:
    """Histograms of the arms' rewards, one below the other, with mean and measure marked; None without any."""
    known = [line for line in lines if line.rewards and line.colour is not None]
    if not known:
        return None
    everything = np.concatenate([campaign.rewards[line.arm_id] for line in known])
    low, high = float(everything.min()), float(everything.max())
    if low == high:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, HISTOGRAM_BINS + 1)
    centers = (edges[1:] + edges[:-1]) / 2
    traces: list[Figure] = []
    annotations: list[Figure] = []
    layout = _layout(max(180, 90 + 92 * len(known)), showlegend=True, bargap=0.06)
    last = "" if len(known) == 1 else str(len(known))
    layout["xaxis"] = _axis("reward", anchor=f"y{last}", range=[low - 0.03 * (high - low), high + 0.03 * (high - low)])
    for row, line in enumerate(known):
        suffix = "" if row == 0 else str(row + 1)
        counts, _ = np.histogram(campaign.rewards[line.arm_id], edges)
        heights = counts / max(1, counts.max())
        top = 1 - row / len(known)
        room = 0.74 / len(known)
        layout[f"yaxis{suffix}"] = {
            "domain": [top - 1 / len(known), top - 1 / len(known) + room],
            "range": [0, 1.18],
            "visible": False,
            "fixedrange": True,
        }
        annotations.append(
            {
                # no <b>: plotly would write a style attribute, which the pages' policy refuses
                "text": f"{line.arm_id}, {line.rewards:,} rewards",
                "font": {"size": 12, "color": _INK, "weight": 600},
                "showarrow": False,
                "xref": "paper",
                "x": 0,
                "xanchor": "left",
                "yref": "paper",
                "y": top - 1 / len(known) + room,
                "yanchor": "bottom",
            }
        )
        traces.append(
            {
                "type": "bar",
                "x": _rounded(centers, 6),
                "y": _rounded(heights),
                "width": float(edges[1] - edges[0]) * 0.94,
                "yaxis": f"y{suffix}",
                "marker": {"color": colour(line.colour), "opacity": 0.55},
                "customdata": [
                    [number(float(a)), number(float(b)), int(n)]
                    for a, b, n in zip(edges[:-1], edges[1:], counts, strict=True)
                ],
                "hovertemplate": "%{customdata[0]} to %{customdata[1]}: %{customdata[2]} rewards<extra></extra>",
                "showlegend": False,
            }
        )
        traces += _marks(line, suffix, measure, is_first=row == 0)
    layout["annotations"] = annotations
    return {"data": traces, "layout": layout}


def _marks(line: ArmLine, suffix: str, measure: Measure, *, is_first: bool) -> list[Figure]:
    """Lines at an arm's mean and at its risk, from the floor to above its histogram."""
    marks = [("mean", line.mean, "dot", _MUTED)]
    if not measure.is_mean:
        marks.append((measure.noun, line.risk, "solid", _INK))
    return [
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": name,
            "legendgroup": name,
            "showlegend": is_first,
            "x": [value, value],
            "y": [0, 1.1],
            "yaxis": f"y{suffix}",
            "line": {"dash": dash, "width": 2, "color": tint},
            "marker": {"size": [0, 7], "color": tint, "symbol": "diamond" if name == measure.noun else "circle"},
            "hovertemplate": f"{name} %{{x:.3f}}<extra></extra>",
        }
        for name, value, dash, tint in marks
        if value is not None
    ]


def parameters(names: Sequence[str], thetas: Sequence[Theta]) -> Figure:
    """The first parameters, one for each name, with their intervals; arms one below the other within a parameter."""
    spread = 0.62 / len(thetas)
    traces = []
    for place, theta in enumerate(thetas):
        values = [round(value, 6) for value in theta.values[: len(names)]]
        shift = (place - (len(thetas) - 1) / 2) * spread
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": theta.arm_id,
                "x": values,
                "y": [row + shift for row in range(len(values))],
                "text": [escape(name) for name in names],
                "marker": {"color": colour(theta.colour) if theta.arm_id else "var(--accent)", "size": 10},
                "error_x": _whiskers(values, list(theta.intervals[: len(names)]) or [None] * len(values)),
                "hovertemplate": f"%{{text}}: %{{x:.3f}}<extra>{theta.arm_id}</extra>",
            }
        )
    layout = _layout(
        80 + max(36, 20 * len(thetas)) * len(names),
        showlegend=len(thetas) > 1,
        xaxis=_axis("adds to the estimate, in reward", zeroline=True, zerolinecolor=_MUTED),
        yaxis=_axis(
            tickvals=list(range(len(names))),
            ticktext=[escape(name) for name in names],
            range=[len(names) - 0.4, -0.6],
            showgrid=False,
            zeroline=False,
            tickfont={"color": _INK, "size": 13},
        ),
    )
    return {"data": traces, "layout": layout}


def _whiskers(values: Sequence[float], intervals: Sequence[Sequence[float] | None]) -> Figure:
    pairs = list(zip(values, intervals, strict=True))
    return {
        "type": "data",
        "symmetric": False,
        "array": [0.0 if one is None else one[1] - value for value, one in pairs],
        "arrayminus": [0.0 if one is None else value - one[0] for value, one in pairs],
        "thickness": 1.5,
        "width": 5,
        "color": _INK,
    }


def _rounded(values: NDArray[np.float64], digits: int = 4) -> list[float]:
    return [round(float(value), digits) for value in values]


def _time_format(first: int, last: int) -> str:
    """As much of a time, in UTC, as tells the ends of a range apart."""
    seconds = (last - first) / 1e6
    if seconds < 3_600:
        return "%H:%M:%S"
    return "%H:%M" if seconds < 86_400 else "%b %d, %H:%M"


def _time(microseconds: int, shown: str) -> str:
    return datetime.fromtimestamp(microseconds / 1e6, UTC).strftime(shown)
