"""The charts, drawn as SVG on the server; they need no script."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from prudent.core.measures import Measure
from prudent.dashboard.drawing import (
    BAR,
    DOT,
    GROUP,
    HIT,
    INTERVAL,
    LINE,
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
from prudent.dashboard.formatting import number, percent, plural
from prudent.dashboard.overview import Overview, trailing_shares
from prudent.reporting.policies import PolicyArm, PolicyReport

SHARE_POINTS = 100
HISTOGRAM_BINS = 35
"""An odd number, so that a campaign whose rewards are all the same has its bar in the middle."""
OTHER = "other arms"
_AXIS_HEIGHT = 44
_ROW, _HISTOGRAM, _SHARES, _LINE_HEIGHT, _NAME_WIDTH, _NAME_LENGTH = 52, 66, 240, 17, 112, 13

_AREA = Markup('<path class="area {}" d="M0 1000L{}L1000 1000z"/>')
_AREAS = Markup('<g class="areas">{}</g>')
_STRIP = Markup('<path class="strip" d="M{} 0H{}V1000H{}z"><title>{}</title></path>')
_BIN = Markup(
    '<g><title>{}</title><path class="hit" d="M{} 0h1v100h-1z"/><path class="bin" d="M{} 100v-{}h.92v{}z"/></g>'
)
_TOPS = {
    "mean": Markup('<circle class="top mean" cx="{}%" cy="{}" r="3.5"/>'),
    "risk": Markup('<svg class="top risk" x="{}%" y="{}" overflow="visible"><path d="M0-5L5 0 0 5-5 0z"/></svg>'),
}


@dataclass(frozen=True)
class ArmLine:
    """What is known of an arm. Statistics of rewards are None without rewards, those of the model without a preview.

    share: of the latest decisions; interval: of the risk of the rewards; estimate_interval: of the model's estimate;
    limits: of a bonus that has them; the lower one None where there is none.
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
    limits: tuple[float | None, float | None] | None = None


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
            NAME.format(0, "100%", top, line.arm_id),
            BAR.format(start, round(end - start, 2), top + 26),
            whisker(axis, interval, top + 33),
            DOT.format(axis.at(estimate), top + 33),
        ]
        said = f"estimate {with_interval(estimate, interval)}\nbonus {number(line.bonus)}\nindex {number(index)}"
        rows.append(GROUP.format(colour(line.colour), f"{line.arm_id}\n{said}", Markup().join(parts)))
    text = "; ".join(f"{line.arm_id}: estimate {number(line.estimate)}, index {number(line.index)}" for line in known)
    svg = PLOT.format(
        "plot",
        height + _AXIS_HEIGHT,
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
    coloured = campaign.coloured
    places, values = trailing_shares(campaign.plays, list(coloured), SHARE_POINTS)
    keys = [Key(arm_id, "arm", place) for arm_id, place in coloured.items()]
    rest = 1.0 - values.sum(axis=1)
    if rest.max() > 1e-9:
        keys.append(Key(OTHER, "arm", None))
        values = np.column_stack([values, rest])
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
        _SHARES + _AXIS_HEIGHT + 16,
        "Share of each arm over the decisions",
        f"At the latest decision: {', '.join(_parts(keys, values[-1]))}.",
        STRETCHED.format(0, 100, 0, _SHARES, 1000, 1000, drawn) + _share_axes(moments),
    )
    return Chart(svg, keys)


def _moments(campaign: Overview, places: Sequence[int]) -> list[tuple[str, str]]:
    """Number and time of the decisions at these places of `campaign.plays`, counted from the oldest."""
    oldest_first = campaign.plays[::-1]
    first = campaign.decisions - len(oldest_first) + 1
    shown = _time_format(oldest_first[0].created_at, oldest_first[-1].created_at)
    return [(f"{first + place:,}", _time(oldest_first[place].created_at, shown)) for place in places]


def _strips(
    x: NDArray[np.float64], moments: Sequence[tuple[str, str]], keys: Sequence[Key], values: NDArray[np.float64]
) -> Markup:
    """A strip around each moment to point at, with its shares in words."""
    borders = [0.0, *((x[1:] + x[:-1]) / 2).tolist(), 1000.0] if len(moments) > 1 else [0.0, 1000.0]
    return Markup().join(
        _STRIP.format(
            f"{start:.0f}",
            f"{end:.0f}",
            f"{start:.0f}",
            "\n".join([f"decision {decision}, {time} UTC", *_parts(keys, row)]),
        )
        for start, end, (decision, time), row in zip(borders, borders[1:], moments, values, strict=False)
    )


def _parts(keys: Sequence[Key], row: NDArray[np.float64]) -> list[str]:
    """The shares of a moment in words, the largest first."""
    pairs = sorted(zip(row.tolist(), keys, strict=True), key=lambda pair: -pair[0])
    return [f"{key.label} {percent(share)}" for share, key in pairs if share > 1e-9]


def _share_axes(moments: Sequence[tuple[str, str]]) -> Markup:
    """Lines at quarters, and up to four moments below; in a narrow chart the inner ones are hidden."""
    parts = []
    for quarter in range(5):
        y = round(_SHARES * (1 - quarter / 4))
        parts.append(LINE.format("rule", 0, 100, y, y))
        parts.append(Markup('<text class="side" x="-8" y="{}">{}%</text>').format(y + 4, 25 * quarter))
    last = len(moments) - 1
    places = {0: 50} if last == 0 else {round(third / 3 * last): round(100 * third / 3) for third in range(4)}
    for place, x in places.items():
        decision, time = moments[place]
        kind = {0: "tick start", 50: "tick", 100: "tick end"}.get(x, "tick inner")
        parts += [TEXT.format(kind, x, _SHARES + 18, decision), TEXT.format(kind, x, _SHARES + 34, time)]
    return Markup().join([*parts, TEXT.format("title", 50, _SHARES + 54, "decision, and when it was made (UTC)")])


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
            NAME.format(0, "100%", top - 23, f"{line.arm_id}, {plural(line.rewards, 'reward')}"),
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
    svg = PLOT.format("plot", height + _AXIS_HEIGHT, "Histogram of each arm's rewards", f"{text}.", drawn)
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
    row_height = head + 9 + _LINE_HEIGHT * len(thetas)
    rows = []
    for place, name in enumerate(names):
        top = place * row_height
        rows.append(LINE.format("rule", 0, 100, top, top))
        if names_above:
            rows.append(NAME.format(0, "100%", top + 2, name))
        else:
            rows.append(NAME.format(-_NAME_WIDTH, _NAME_WIDTH - 8, top + row_height // 2 - 11, name))
        for line, (theta, intervals) in enumerate(zip(thetas, spans, strict=True)):
            y = top + head + 13 + _LINE_HEIGHT * line
            value, interval = theta.values[place], intervals[place] or ()
            drawn = HIT.format(y - 8, _LINE_HEIGHT) + whisker(axis, interval, y) + DOT.format(axis.at(value), y)
            said = f"{name}, {theta.arm_id}" if theta.arm_id else name
            kind = f"dots {colour(theta.colour) if theta.arm_id else 'all'}"
            rows.append(GROUP.format(kind, f"{said}\n{with_interval(value, interval)}", drawn))
    height = row_height * len(names)
    title = "change in the estimate per unit"
    svg = PLOT.format(
        "plot" if names_above else "plot named",
        height + _AXIS_HEIGHT,
        "Coefficients of the model",
        "Each with its 95% interval. The numbers are in the table below.",
        axis.grid(height, title) + Markup().join(rows),
    )
    keys = [Key(theta.arm_id, "arm", theta.colour) for theta in thetas if theta.arm_id]
    return Chart(svg, keys if len(keys) > 1 else [])


def policy(report: PolicyReport, coloured: Mapping[str, int], unit: str) -> Chart | None:
    """Where each arm is the best: of the largest regions, the estimates there; None without regions.

    A region is an arm's contexts: its name, its share, and below it the best arms at the context that stands for it.
    """
    known = [arm for arm in report.arms if arm.share and arm.estimates and arm.ranges is not None]
    if not known:
        return None
    axis = Axis([end for arm in known for one in arm.estimates for end in (one.estimate, *(one.interval or ()))])
    rows, top = [], 0
    for arm in known:
        rows.append(LINE.format("rule", 0, 100, top, top))
        rows.append(NAME.format(0, "100%", top + 2, f"{arm.arm_id} in {percent(arm.share)}"))
        for line, one in enumerate(arm.estimates):
            y = top + 33 + _LINE_HEIGHT * line
            drawn = HIT.format(y - 8, _LINE_HEIGHT) + whisker(axis, one.interval or (), y)
            kind = f"dots {colour(coloured.get(one.arm_id))}"
            said = f"{one.arm_id}, where {arm.arm_id} is best\n{with_interval(one.estimate, one.interval or ())}"
            rows.append(GROUP.format(kind, said, drawn + DOT.format(axis.at(one.estimate), y)))
        top += 29 + _LINE_HEIGHT * len(arm.estimates)
    svg = PLOT.format(
        "plot",
        top + _AXIS_HEIGHT,
        "The best arms in each kind of context",
        "; ".join(_region_in_words(arm) for arm in known) + ".",
        axis.grid(top, unit) + Markup().join(rows),
    )
    named = {one.arm_id for arm in known for one in arm.estimates}
    return Chart(svg, [Key(arm_id, "arm", place) for arm_id, place in coloured.items() if arm_id in named])


def _region_in_words(arm: PolicyArm) -> str:
    values = ", ".join(f"{one.arm_id} {number(one.estimate)}" for one in arm.estimates)
    return f"{arm.arm_id} is the best in {percent(arm.share)}, with estimates {values}"


def _time_format(first: int, last: int) -> str:
    """A format with as much of a time as tells the ends of a range apart."""
    seconds = (last - first) / 1e6
    if seconds < 3_600:
        return "%H:%M:%S"
    return "%H:%M" if seconds < 86_400 else "%b %d, %H:%M"


def _time(microseconds: int, shown: str) -> str:
    return datetime.fromtimestamp(microseconds / 1e6, UTC).strftime(shown)
