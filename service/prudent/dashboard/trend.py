"""The chart that says whether a campaign is getting better: what its rewards were worth, over its log."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from prudent.core.measures import INTERVAL_COUNT_MIN, Measure
from prudent.dashboard.drawing import (
    AXIS_HEIGHT,
    GROUP,
    INTERVAL,
    LINE,
    PLOT,
    STRETCHED,
    TEXT,
    Axis,
    Chart,
    Key,
    tick_text,
    with_interval,
)
from prudent.dashboard.formatting import count, number
from prudent.dashboard.overview import Overview

STRETCHES_MAX = 20
"""Points of the chart."""
COMPARED_FROM = 2 * INTERVAL_COUNT_MIN
"""Rewards that make two of them."""
_HEIGHT = 200
_BAND = Markup('<path class="band" d="M{}z"/>')
_PATH = Markup('<path class="{}" d="M{}"/>')
_STRIP = Markup('<path class="strip" d="M{} 0H{}V1000H{}z"/>')


@dataclass(frozen=True)
class Stretch:
    """Rewards in a row. first, last: their places in the log; interval: of the risk, None where there is none."""

    first: int
    last: int
    rewards: int
    mean: float
    risk: float
    interval: tuple[float, float] | None


def stretches(campaign: Overview) -> list[Stretch]:
    """The log in up to `STRETCHES_MAX` parts of about as many rewards; none before there are two that say something."""
    sequences, values = campaign.sequences, campaign.rewards_in_order
    parts = min(STRETCHES_MAX, len(values) // INTERVAL_COUNT_MIN)
    if parts < 2:
        return []
    measure = campaign.configuration.measure()
    split = zip(np.array_split(sequences, parts), np.array_split(values, parts), strict=True)
    return [_stretch(int(places[0]), int(places[-1]), part, measure) for places, part in split]


def _stretch(first: int, last: int, values: np.ndarray, measure: Measure) -> Stretch:
    risk = measure.risk(values)
    return Stretch(first, last, len(values), float(values.mean()), risk, measure.interval(values, risk))


def trend(found: Sequence[Stretch], measure: Measure) -> Chart | None:
    """The risk of each stretch with its interval, and the mean; None without any."""
    if not found:
        return None
    axis = Axis([end for one in found for end in (one.mean, one.risk, *(one.interval or ()))])
    start, end = found[0].first, found[-1].last
    x = [1000 * ((one.first + one.last) / 2 - start) / max(1, end - start) for one in found]

    def y(value: float) -> float:
        return 1000 * (1 - (value - axis.low) / (axis.high - axis.low))

    drawn = _band(
        [(at, y(one.interval[0]), y(one.interval[1])) for at, one in zip(x, found, strict=True) if one.interval]
    )
    if not measure.is_mean:
        drawn += _line("mean", [(at, y(one.mean)) for at, one in zip(x, found, strict=True)])
    drawn += _line("risk", [(at, y(one.risk)) for at, one in zip(x, found, strict=True)])
    drawn += Markup().join(_strip(one, start, end, measure) for one in found)
    svg = PLOT.format(
        "plot scaled",
        _HEIGHT + AXIS_HEIGHT,
        f"{measure.noun} of the rewards, from the first to the latest",
        f"From {_in_words(found[0], measure)}, to {_in_words(found[-1], measure)}.",
        STRETCHED.format(0, 100, 0, _HEIGHT, 1000, 1000, drawn) + _axes(axis, start, end),
    )
    risk = f"{measure.noun}, with {INTERVAL}" if any(one.interval for one in found) else measure.noun
    return Chart(svg, [Key(risk, "trend"), *([] if measure.is_mean else [Key("mean", "mean")])])


def _in_words(one: Stretch, measure: Measure) -> str:
    value = with_interval(one.risk, one.interval or ())
    return f"{measure.noun} {value} in rewards {count(one.first)} to {count(one.last)}"


def _band(ends: Sequence[tuple[float, float, float]]) -> Markup:
    if len(ends) < 2:
        return Markup()
    around = [(at, high) for at, _, high in ends] + [(at, low) for at, low, _ in reversed(ends)]
    return _BAND.format("L".join(f"{at:.0f} {value:.0f}" for at, value in around))


def _line(kind: str, points: Sequence[tuple[float, float]]) -> Markup:
    return _PATH.format(f"trend {kind}", "L".join(f"{at:.0f} {value:.0f}" for at, value in points))


def _strip(one: Stretch, start: int, end: int, measure: Measure) -> Markup:
    """What is said where one points at a stretch."""
    left, right = (f"{1000 * (place - start) / max(1, end - start):.0f}" for place in (one.first, one.last))
    said = [
        f"rewards {count(one.first)} to {count(one.last)}",
        f"{measure.noun} {with_interval(one.risk, one.interval or ())}",
    ]
    said += [] if measure.is_mean else [f"mean {number(one.mean)}"]
    return GROUP.format("", "\n".join(said), _STRIP.format(left, right, left))


def _axes(axis: Axis, start: int, end: int) -> Markup:
    parts = []
    for value in axis.ticks:
        y = round(_HEIGHT * (1 - (value - axis.low) / (axis.high - axis.low)))
        parts.append(LINE.format("rule zero" if value == 0 else "rule", 0, 100, y, y))
        parts.append(Markup('<text class="side" x="-8" y="{}">{}</text>').format(y + 4, tick_text(value, axis.step)))
    for kind, x, place in (("tick start", 0, start), ("tick", 50, (start + end) // 2), ("tick end", 100, end)):
        parts.append(TEXT.format(kind, x, _HEIGHT + 18, count(place)))
    return Markup().join([*parts, TEXT.format("title", 50, _HEIGHT + 38, "place in the campaign's log of rewards")])
