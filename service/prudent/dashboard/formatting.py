"""Numbers and terms as people write them."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

NONE, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"
REASONS = {
    "index": ("largest index", "No arm had a larger sum of estimate and bonus, in the size drawn for this decision."),
    "warmup": ("warm-up", "Each arm is tried a few times before the index decides."),
    "floor": ("floor", "It has few observations of its own: such an arm is tried again, whatever its estimate."),
    "uniform": (
        "uniform share",
        "A share of the decisions goes to an arm drawn uniformly, so that others can be judged.",
    ),
    "greedy": ("greedy", "The request asked for the best estimate, or the budget for exploration was spent."),
    "holdout": (
        "held out",
        "A share of the decisions is not the policy's, so that what the policy gains can be measured.",
    ),
    "baseline": (
        "baseline",
        "Another arm might have been worse than the baseline by more than the decisions before allow.",
    ),
    "only-arm": ("only arm", "No other arm was available."),
    "external": ("external", "The application made the choice; Prudent only recorded it."),
}


def number(value: float | None, digits: int = 3) -> str:
    """A few significant digits and a real minus sign; a dash for None."""
    if value is None or not math.isfinite(value):
        return NONE
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    text = f"{value:,.{max(0, digits - 1 - size)}f}" if -4 <= size <= 6 else f"{value:.{digits - 1}e}"
    return text.replace("-", MINUS)


def fixed(value: float | None, decimals: int | None) -> str:
    """A number with so many decimals, for a column, or as `number` without them; a dash for None."""
    if decimals is None or value is None or not math.isfinite(value):
        return number(value)
    return f"{value:,.{decimals}f}".replace("-", MINUS)


def decimals_for(largest: float) -> int | None:
    """How many decimals show about four digits of numbers up to this size; None if that takes more than 8."""
    decimals = 3 if largest <= 0 else max(0, 3 - round(math.log10(largest)))
    return decimals if decimals <= 8 else None


def listed(names: Sequence[str], values: Sequence[Any] | Mapping[str, Any] | None, limit: int = 4) -> str:
    """Features with their names, the first ones; a dash for None. names: of a sequence's values."""
    if values is None:
        return NONE
    if isinstance(values, Mapping):
        names, values = list(values), list(values.values())
    shown = [f"{name} {value_of(value)}" for name, value in zip(names[:limit], values, strict=False)]
    return ", ".join(shown) + (f" and {len(values) - limit} more" if len(values) > limit else "")


def short(identifier: str) -> str:
    """An id short enough for a column. It keeps the end, because ids made by the server begin with the time."""
    return identifier if len(identifier) <= 16 else f"{identifier[:4]}\N{HORIZONTAL ELLIPSIS}{identifier[-8:]}"


def abridged(name: str, limit: int = 36) -> str:
    """A name short enough for a chart on a phone. It keeps both ends, because long names often differ in the last."""
    if len(name) <= limit:
        return name
    end = (limit - 1) // 2
    return f"{name[: limit - 1 - end]}\N{HORIZONTAL ELLIPSIS}{name[-end:]}"


def count(value: int) -> str:
    """A whole number with a thousands separator."""
    return f"{value:,}"


def plural(value: int, noun: str, nouns: str | None = None) -> str:
    """A count with its noun: 1 reward, 2,000 rewards. nouns: of the plural, if an s does not make it."""
    return f"{value:,} {noun if value == 1 else nouns or f'{noun}s'}"


def percent(share: float | None) -> str:
    """A share; a dash for None, and 0% or 100% only for exactly that."""
    if share is None:
        return NONE
    if 0 < share < 0.01:
        return "<1%"
    if 0.99 < share < 1:
        return ">99%"
    return f"{100 * share:.0f}%"


def value_of(value: object) -> str:
    """A feature's value: a number in a few digits, yes or no, a text; a dash for a missing one."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else number(value if isinstance(value, float) else None)


def shortened(value: Any, limit: int = 60) -> str:
    """Anything that JSON can say, in a line: a text without quotes, other values as JSON; a dash for nothing."""
    if value is None or value == "":
        return NONE
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return text if len(text) <= limit else f"{text[: limit - 1]}\N{HORIZONTAL ELLIPSIS}"
