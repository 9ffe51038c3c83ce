"""The charts, drawn as SVG on the server; they need no script."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from prudent.core.measures import Measure
from prudent.dashboard.arms import ArmLine
from prudent.dashboard.drawing import (
    AXIS_HEIGHT,
    BAR,
    DOT,
    GROUP,
    HIT,
    INTERVAL,
    LINE,
    LINE_HEIGHT,
    NAME,
    PLOT,
    STRETCHED,
    TEXT,
    Axis,
    Chart,
    Key,
    colour,
    whisker,
    with_interval,
)
from prudent.dashboard.formatting import abridged, number, percent, plural
from prudent.dashboard.overview import Overview, trailing_shares

SHARE_POINTS, SHARE_ROWS = 100, 12
"""Moments in the chart of the shares, and in its table."""
_SHOWN = {"seconds": "%H:%M:%S", "minutes": "%H:%M", "days": "%b %d, %H:%M"}
"""How much of a time is shown; live.js has the same names."""
HISTOGRAM_BINS = 35
"""An odd number, so that a campaign whose rewards are all the same has its bar in the middle."""
OTHER = "other arms"
_ROW, _HISTOGRAM, _SHARES, _NAME_WIDTH, _NAME_LENGTH = 52, 66, 240, 112, 13

_AREA = Markup('<path class="area {}" d="M0 1000L{}L1000 1000z"/>')
_AREAS = Markup('<g class="areas">{}</g>')
_STRIP = Markup('<path class="strip" d="M{} 0H{}V1000H{}z"><title{}>{}</title></path>')
_TIMED = Markup('<text class="{}" x="{}%" y="{}"{}>{}</text>')
_MARKS = Markup(' data-instant="{}" data-shown="{}" data-utc="{}"')
_BIN = Markup(
    '<g><title>{}</title><path class="hit" d="M{} 0h1v100h-1z"/><path class="bin" d="M{} 100v-{}h.92v{}z"/></g>'
)
_TOPS = {
    "mean": Markup('<circle class="top mean" cx="{}%" cy="{}" r="3.5"/>'),
    "risk": Markup('<svg class="top risk" x="{}%" y="{}" overflow="visible"><path d="M0-5L5 0 0 5-5 0z"/></svg>'),
}


class Theta(NamedTuple):
    """The parameters of an arm, or of all arms (arm_id ""). intervals: empty, or for each value an interval or None."""

    arm_id: str
    colour: int | None
    values: Sequence[float]
    intervals: Sequence[Sequence[float] | None]


def worth(lines: Sequence[ArmLine], unit: str) -> Chart | None:
    """Estimate, interval and bonus of each arm, best index on top; None without estimates."""
    known = [line for line in lines if line.estimate is not None and line.index is not None]
    if not known:
        return None
    known.sort(key=lambda line: line.index or 0.0, reverse=True)
    ends = [(line.estimate or 0.0, line.index or 0.0, *(line.estimate_interval or ())) for line in known]
    axis = Axis([value for values in ends for value in values])
    height = _ROW * len(known)
    rows = []
    for place, (line, (estimate, index, *interval)) in enumerate(zip(known, ends, strict=True)):
        top = place * _ROW
        start, end = sorted((axis.at(estimate), axis.at(index)))
        parts = [
            HIT.format(top, _ROW),
            NAME.format(0, "100%", top, abridged(line.arm_id)),
            BAR.format(start, round(end - start, 2), top + 26),
            whisker(axis, interval, top + 33),
            DOT.format(axis.at(estimate), top + 33),
        ]
        said = f"estimate {with_interval(estimate, interval)}\nbonus {number(line.bonus)}\nindex {number(index)}"
        rows.append(GROUP.format(colour(line.colour), f"{line.arm_id}\n{said}", Markup().join(parts)))
    text = "; ".join(f"{line.arm_id}: estimate {number(line.estimate)}, index {number(line.index)}" for line in known)
    svg = PLOT.format(
        "plot",
        height + AXIS_HEIGHT,
        "Estimated value and exploration bonus of each arm",
        f"From the largest index to the smallest: {text}.",
        axis.grid(height, unit) + Markup().join(rows),
    )
    dot = f"estimate, with {INTERVAL}" if any(line.estimate_interval for line in known) else "estimate"
    return Chart(svg, [Key(dot, "estimate"), Key("bonus", "bonus")])


def shares(campaign: Overview) -> Chart | None:
    """Stacked shares of the latest decisions; None before the first."""
    if not campaign.plays:
        return None
    places, keys, values = _shares(campaign, SHARE_POINTS)
    moments = _moments(campaign, places)
    if len(places) == 1:  # drawn as wide as the chart, because a single point has no width
        places, values = [0, 1], np.repeat(values, 2, axis=0)
    x = 1000 * (np.array(places) - places[0]) / (places[-1] - places[0])
    # from the top down: each area covers the lower part of the one before it
    tops = 1000 * (1 - values.cumsum(axis=1))
    areas = [
        _AREA.format(colour(key.colour), "L".join(f"{a:.0f} {b:.0f}" for a, b in zip(x, tops[:, column], strict=True)))
        for column, key in reversed(list(enumerate(keys)))
    ]
    drawn = _AREAS.format(Markup().join(areas)) + _strips(x, moments, keys, values)
    svg = PLOT.format(
        "plot scaled",
        _SHARES + AXIS_HEIGHT + 16,
        "Share of each arm over the decisions",
        f"At the latest decision: {', '.join(_parts(keys, values[-1]))}.",
        STRETCHED.format(0, 100, 0, _SHARES, 1000, 1000, drawn) + _share_axes(moments),
    )
    return Chart(svg, keys)


def _shares(campaign: Overview, points: int) -> tuple[list[int], list[Key], NDArray[np.float64]]:
    """Moments, by place from the oldest decision; whose shares there are; and the shares, (moments, keys)."""
    coloured = campaign.coloured
    places, values = trailing_shares(campaign.plays, list(coloured), points)
    keys = [Key(arm_id, "arm", place) for arm_id, place in coloured.items()]
    rest = 1.0 - values.sum(axis=1)
    if rest.max() > 1e-9:
        keys.append(Key(OTHER, "arm", None))
        values = np.column_stack([values, rest])
    return places, keys, values


class ShareTable(NamedTuple):
    """The shares in numbers. rows: number and time of a decision, and the share of each key."""

    keys: list[Key]
    rows: list[tuple[str, int, list[float]]]


def share_table(campaign: Overview) -> ShareTable:
    """The shares at a few moments, the latest first; empty before the first decision."""
    if not campaign.plays:
        return ShareTable([], [])
    places, keys, values = _shares(campaign, SHARE_ROWS)
    moments = _moments(campaign, places)
    rows = [(one.number, one.created_at, shares) for one, shares in zip(moments, values.tolist(), strict=True)]
    return ShareTable(keys, rows[::-1])


class Moment(NamedTuple):
    """When a decision was made. number: of the decision, in words; shown: a key of `_SHOWN`."""

    number: str
    created_at: int
    shown: str

    @property
    def utc(self) -> str:
        """The time in words."""
        return f"{datetime.fromtimestamp(self.created_at / 1e6, UTC):{_SHOWN[self.shown]}}"

    def marks(self, text: str, shown: str | None = None) -> Markup:
        """Attributes of an element in which the page's script replaces a text by the time in the reader's zone."""
        return _MARKS.format(self.created_at // 1_000, shown or self.shown, text)


def _moments(campaign: Overview, places: Sequence[int]) -> list[Moment]:
    """The decisions at these places of `campaign.plays`, counted from the oldest."""
    oldest_first = campaign.plays[::-1]
    first = campaign.decisions - len(oldest_first) + 1
    shown = _detail(oldest_first[0].created_at, oldest_first[-1].created_at)
    return [Moment(f"{first + place:,}", oldest_first[place].created_at, shown) for place in places]


def _strips(
    x: NDArray[np.float64], moments: Sequence[Moment], keys: Sequence[Key], values: NDArray[np.float64]
) -> Markup:
    """A strip around each moment to point at, with its shares in words."""
    borders = [0.0, *((x[1:] + x[:-1]) / 2).tolist(), 1000.0] if len(moments) > 1 else [0.0, 1000.0]
    return Markup().join(
        _STRIP.format(
            f"{start:.0f}",
            f"{end:.0f}",
            f"{start:.0f}",
            moment.marks(f"{moment.utc} UTC"),
            "\n".join([f"decision {moment.number}, {moment.utc} UTC", *_parts(keys, row)]),
        )
        for start, end, moment, row in zip(borders, borders[1:], moments, values, strict=False)
    )


def _parts(keys: Sequence[Key], row: NDArray[np.float64]) -> list[str]:
    """The shares of a moment in words, the largest first."""
    pairs = sorted(zip(row.tolist(), keys, strict=True), key=lambda pair: -pair[0])
    return [f"{key.label} {percent(share)}" for share, key in pairs if share > 1e-9]


def _share_axes(moments: Sequence[Moment]) -> Markup:
    """Lines at quarters, and up to four moments below; in a narrow chart the inner ones are hidden."""
    parts = []
    for quarter in range(5):
        y = round(_SHARES * (1 - quarter / 4))
        parts.append(LINE.format("rule", 0, 100, y, y))
        parts.append(Markup('<text class="side" x="-8" y="{}">{}%</text>').format(y + 4, 25 * quarter))
    last = len(moments) - 1
    places = {0: 50} if last == 0 else {round(third / 3 * last): round(100 * third / 3) for third in range(4)}
    for place, x in places.items():
        moment = moments[place]
        kind = {0: "tick start", 50: "tick", 100: "tick end"}.get(x, "tick inner")
        parts.append(TEXT.format(kind, x, _SHARES + 18, moment.number))
        parts.append(_TIMED.format(kind, x, _SHARES + 34, moment.marks(moment.utc), moment.utc))
    zone = moments[-1].marks("UTC", "zone")
    parts.append(_TIMED.format("title", 50, _SHARES + 54, zone, "decision, and when it was made (UTC)"))
    return Markup().join(parts)


def rewards(campaign: Overview, lines: Sequence[ArmLine], measure: Measure) -> Chart | None:
    """A histogram of each arm's rewards, with its mean and risk marked; None without rewards."""
    known = [line for line in lines if line.rewards and line.colour is not None]
    if not known:
        return None
    everything = np.concatenate([campaign.rewards[line.arm_id] for line in known])
    axis = Axis([float(everything.min()), float(everything.max())])
    edges = np.linspace(axis.low, axis.high, HISTOGRAM_BINS + 1)
    marks = [("mean", "mean")] + ([] if measure.is_mean else [("risk", measure.noun)])
    row_height = _HISTOGRAM + 30
    rows = []
    for place, line in enumerate(known):
        top = place * row_height + 24
        bottom = top + _HISTOGRAM
        parts = [
            NAME.format(0, "100%", top - 23, f"{abridged(line.arm_id, 24)}, {plural(line.rewards, 'reward')}"),
            _bins(campaign.rewards[line.arm_id], edges, axis, top),
            LINE.format("rule", 0, 100, bottom, bottom),
        ]
        for kind, name in marks:
            value = line.mean if kind == "mean" else line.risk
            if value is not None:
                x = axis.at(value)
                drawn = LINE.format(kind, x, x, top, bottom) + _TOPS[kind].format(x, top)
                parts.append(GROUP.format("", f"{line.arm_id}: {name} {number(value)}", drawn))
        rows.append(Markup('<g class="{}">{}</g>').format(colour(line.colour), Markup().join(parts)))
    height = row_height * len(known)
    text = "; ".join(
        f"{line.arm_id}: {plural(line.rewards, 'reward')}, mean {number(line.mean)}"
        + ("" if measure.is_mean else f", {measure.noun} {number(line.risk)}")
        for line in known
    )
    drawn = axis.grid(height, "reward") + Markup().join(rows)
    svg = PLOT.format("plot", height + AXIS_HEIGHT, "Histogram of each arm's rewards", f"{text}.", drawn)
    return Chart(svg, [Key(name, kind) for kind, name in marks])


def _bins(values: NDArray[np.float64], edges: NDArray[np.float64], axis: Axis, top: int) -> Markup:
    """The bars of a histogram, the tallest as high as the chart allows."""
    counts, _ = np.histogram(values, edges)
    bars = [
        _BIN.format(
            f"{number(float(edges[place]))} to {number(float(edges[place + 1]))}: {plural(count, 'reward')}",
            place,
            f"{place + 0.04:.2f}",
            height := f"{max(1.5, 92 * count / counts.max()):.1f}",
            height,
        )
        for place, count in enumerate(counts.tolist())
        if count
    ]
    width = round(axis.at(axis.high) - axis.at(axis.low), 2)
    return STRETCHED.format(axis.at(axis.low), width, top, _HISTOGRAM, HISTOGRAM_BINS, 100, Markup().join(bars))


def parameters(names: Sequence[str], thetas: Sequence[Theta]) -> Chart:
    """The first parameters, one per name, with intervals; within a parameter one line per arm."""
    spans = [list(theta.intervals[: len(names)]) or [None] * len(names) for theta in thetas]
    ends = [0.0]
    for theta, intervals in zip(thetas, spans, strict=True):
        ends += theta.values[: len(names)]
        ends += [end for interval in intervals if interval is not None for end in interval]
    axis = Axis(ends)
    names_above = max(map(len, names), default=0) > _NAME_LENGTH
    head = 20 if names_above else 0
    row_height = head + 9 + LINE_HEIGHT * len(thetas)
    rows = []
    for place, name in enumerate(names):
        top = place * row_height
        rows.append(LINE.format("rule", 0, 100, top, top))
        if names_above:
            rows.append(NAME.format(0, "100%", top + 2, abridged(name)))
        else:
            rows.append(NAME.format(-_NAME_WIDTH, _NAME_WIDTH - 8, top + row_height // 2 - 11, name))
        for line, (theta, intervals) in enumerate(zip(thetas, spans, strict=True)):
            y = top + head + 13 + LINE_HEIGHT * line
            value, interval = theta.values[place], intervals[place] or ()
            drawn = HIT.format(y - 8, LINE_HEIGHT) + whisker(axis, interval, y) + DOT.format(axis.at(value), y)
            said = f"{name}, {theta.arm_id}" if theta.arm_id else name
            kind = f"dots {colour(theta.colour) if theta.arm_id else 'all'}"
            rows.append(GROUP.format(kind, f"{said}\n{with_interval(value, interval)}", drawn))
    height = row_height * len(names)
    title = "change in the estimate per unit"
    svg = PLOT.format(
        "plot" if names_above else "plot named",
        height + AXIS_HEIGHT,
        "Coefficients of the model",
        "Each with its 95% interval. The numbers are in the table below.",
        axis.grid(height, title) + Markup().join(rows),
    )
    keys = [Key(theta.arm_id, "arm", theta.colour) for theta in thetas if theta.arm_id]
    return Chart(svg, keys if len(keys) > 1 else [])


def _detail(first: int, last: int) -> str:
    """As much of a time as tells the ends of a range apart."""
    seconds = (last - first) / 1e6
    if seconds < 3_600:
        return "seconds"
    return "minutes" if seconds < 86_400 else "days"
