"""Numbers and terms in the words of somebody who has not read the paper."""

import math

from prudent.campaigns import CampaignConfiguration

NONE, MINUS = "\N{EN DASH}", "\N{MINUS SIGN}"
REASONS = {
    "index": ("best index", "Its estimate plus its bonus was the largest."),
    "warmup": ("warm-up", "Each arm is tried a few times before the numbers decide."),
    "greedy": ("greedy", "The request asked for the best estimate, without exploring."),
    "only-arm": ("only arm", "There was nothing else to choose from."),
    "external": ("external", "The application had chosen already; Prudent only kept the record."),
}
MODELS = {
    "multi-armed": "no features",
    "disjoint": "one context a request, each arm learns by itself",
    "shared": "features per arm, all arms learn together",
}


def number(value: float | None, digits: int = 3) -> str:
    """A number as people write it: a few significant digits, a real minus sign; a dash for none."""
    if value is None or not math.isfinite(value):
        return NONE
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    text = f"{value:,.{max(0, digits - 1 - size)}f}" if -4 <= size <= 6 else f"{value:.{digits - 1}e}"
    return text.replace("-", MINUS)


def fixed(value: float | None, decimals: int) -> str:
    """A number in a column of its like; a dash for none."""
    if value is None or not math.isfinite(value):
        return NONE
    return f"{value:,.{decimals}f}".replace("-", MINUS)


def decimals_for(largest: float) -> int:
    """Decimals that show about four digits of numbers of this size."""
    return 3 if largest <= 0 else min(8, max(0, 3 - round(math.log10(largest))))


def short(identifier: str) -> str:
    """An id that fits into a column. Its end tells apart the ids that the server makes: they begin with the time."""
    return identifier if len(identifier) <= 16 else f"{identifier[:4]}\N{HORIZONTAL ELLIPSIS}{identifier[-8:]}"


def count(value: int) -> str:
    """A whole number with thousands apart."""
    return f"{value:,}"


def plural(value: int, noun: str) -> str:
    """A count with its noun: 1 reward, 2,000 rewards."""
    return f"{value:,} {noun}{'' if value == 1 else 's'}"


def percent(share: float | None) -> str:
    """A share; a dash for none, and never 0% or 100% for what is not."""
    if share is None:
        return NONE
    if 0 < share < 0.01:
        return "<1%"
    if 0.99 < share < 1:
        return ">99%"
    return f"{100 * share:.0f}%"


def feature_names(configuration: CampaignConfiguration) -> list[str]:
    """A name for each feature of a request: the configuration's own, or x1, x2 and so on."""
    model = configuration.model
    if model.type == "multi-armed":
        return []
    if model.features is not None:
        return [feature.name for feature in model.features]
    return [f"x{place}" for place in range(1, model.dimension + 1)]
