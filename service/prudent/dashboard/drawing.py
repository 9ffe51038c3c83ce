"""What every chart is drawn with: templates of SVG, an axis, a legend.

A position along a chart is a percentage of its width and a height is in pixels, so that a chart fills any width while
its text keeps its size. Colours are classes of the style sheet, so they follow the light or dark scheme by themselves.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from prudent.dashboard.formatting import MINUS, number

INTERVAL = "95% interval"
AXIS_HEIGHT, LINE_HEIGHT = 44, 17
"""Pixels below a chart for its axis, and of a line of dots."""
_EDGE = 2.5
"""Percent of the width kept free on either side, for dots at the ends."""
_TICKS_MAX = 7

PLOT = Markup('<svg class="{}" role="img" width="100%" height="{}" aria-label="{}"><desc>{}</desc>{}</svg>')
GROUP = Markup('<g class="{}"><title>{}</title>{}</g>')
HIT = Markup('<rect class="hit" y="{}" width="100%" height="{}"/>')
LINE = Markup('<line class="{}" x1="{}%" x2="{}%" y1="{}" y2="{}"/>')
TEXT = Markup('<text class="{}" x="{}%" y="{}">{}</text>')
NAME = Markup('<svg x="{}" width="{}" y="{}" height="20"><text class="name" y="15">{}</text></svg>')
BAR = Markup('<rect class="bonus" x="{}%" width="{}%" y="{}" height="14" rx="3"/>')
DOT = Markup('<circle class="dot" cx="{}%" cy="{}" r="5.5"/>')
STRETCHED = Markup(
    '<svg x="{}%" width="{}%" y="{}" height="{}" viewBox="0 0 {} {}" preserveAspectRatio="none">{}</svg>'
)


class Key(NamedTuple):
    """An entry of a legend. mark: "arm", or what is drawn for every arm; colour: of the arm."""

    label: str
    mark: str
    colour: int | None = None


@dataclass(frozen=True)
class Chart:
    """A chart and its legend."""

    svg: Markup
    keys: list[Key]


def colour(place: int | None) -> str:
    """The style sheet's class for an arm's colour."""
    return "others" if place is None else f"arm-{place}"


class Axis:
    """A horizontal axis from the least to the largest of some values, with ticks at round numbers."""

    def __init__(self, values: Sequence[float]) -> None:
        """values: at least one, finite."""
        low, high = float(min(values)), float(max(values))
        size = max(abs(low), abs(high))
        if high - low <= 1e-9 * size or high == low:  # too close together: a float has about 16 digits
            pad = 0.1 * size or 0.5
            low, high = low - pad, high + pad
        self.low, self.high = low, high
        self.step = round_step((high - low) / _TICKS_MAX)
        first, last = math.ceil(low / self.step), math.floor(high / self.step)
        self.ticks = [place * self.step for place in range(first, last + 1)]

    def at(self, value: float) -> float:
        """The position of a value, in percent of the width."""
        return round(_EDGE + (100 - 2 * _EDGE) * (value - self.low) / (self.high - self.low), 2)

    def grid(self, height: int, title: str) -> Markup:
        """Lines at the ticks over so many pixels, with numbers and a title below."""
        parts = []
        for value in self.ticks:
            x = self.at(value)
            # in a narrow chart every other number is hidden, but never zero
            inner = "" if round(value / self.step) % 2 == 0 or len(self.ticks) < 4 else " inner"
            parts.append(LINE.format("rule zero" if value == 0 else "rule", x, x, 0, height))
            parts.append(TEXT.format(f"tick{inner}", x, height + 18, tick_text(value, self.step)))
        parts.append(TEXT.format("title", 50, height + 38, title))
        return Markup().join(parts)


def round_step(least: float) -> float:
    """The smallest of 1, 2, 5, 10, 20, 50 and so on (or 0.5, 0.2, ...) that is not below `least` > 0."""
    power = 10.0 ** math.floor(math.log10(least))
    return next((factor * power for factor in (1, 2, 5) if factor * power >= least), 10 * power)


def tick_text(value: float, step: float) -> str:
    """The label of a tick, with enough decimals to tell it from its neighbours."""
    if value == 0:
        return "0"
    if step >= 1e5 or step < 1e-5:
        mantissa, _, exponent = f"{value:.3e}".partition("e")
        text = f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"
    else:
        text = f"{value:,.{max(0, -math.floor(math.log10(step) + 1e-9))}f}"
    return text.replace("-", MINUS)


def whisker(axis: Axis, interval: Sequence[float], y: int) -> Markup:
    """A line over an interval, with caps; nothing without an interval."""
    if not interval:
        return Markup()
    start, end = axis.at(interval[0]), axis.at(interval[1])
    lines = ((start, end, y, y), (start, start, y - 5, y + 5), (end, end, y - 5, y + 5))
    return Markup().join(LINE.format("whisker", *line) for line in lines)


def with_interval(value: float, interval: Sequence[float]) -> str:
    """A number, with its interval if it has one."""
    if not interval:
        return number(value)
    return f"{number(value)}, {INTERVAL} {number(interval[0])} to {number(interval[1])}"
