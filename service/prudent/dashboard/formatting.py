"""Numbers and terms in the words of somebody who has not read the paper."""

import math

from prudent.campaigns import CampaignConfiguration
from prudent.campaigns.configuration import EntropicRisk, ExpectileRisk, MeanRisk

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


def percent(share: float | None) -> str:
    """A share; a dash for none, and never 0% or 100% for what is not."""
    if share is None:
        return NONE
    if 0 < share < 0.01:
        return "<1%"
    if 0.99 < share < 1:
        return ">99%"
    return f"{100 * share:.0f}%"


def measure(configuration: CampaignConfiguration) -> str:
    """The name of the risk measure in a sentence, or at the head of a column."""
    name = configuration.risk.measure
    return "entropic risk" if name == "entropic" else name


def unit(configuration: CampaignConfiguration) -> str:
    """What an estimate is of, for the axis of a chart."""
    name = measure(configuration)
    return "average reward" if name == "mean" else f"{name} of the reward"


def aim(configuration: CampaignConfiguration) -> str:
    """What the campaign maximises, in a sentence."""
    risk = configuration.risk
    if isinstance(risk, MeanRisk):
        return "Looks for the best average reward."
    if isinstance(risk, ExpectileRisk):
        weight = risk.downside_weight or 1.0
        if weight > 1:
            return f"Cautious: a shortfall counts {weight:.3g} times as much as a surplus."
        if weight < 1:
            return f"Seeks risk: a surplus counts {1 / weight:.3g} times as much as a shortfall."
        return "Looks for the best average reward."
    assert isinstance(risk, EntropicRisk)  # noqa: S101  # the union has three members
    tolerance = risk.risk_tolerance or 0.0
    if tolerance > 0:
        return f"Cautious: large losses count more than in proportion (risk tolerance {tolerance:.4g})."
    return f"Seeks risk: large wins count more than in proportion (risk tolerance {tolerance:.4g})."


def measure_in_full(configuration: CampaignConfiguration) -> str:
    """The risk measure with its level, as the literature says it."""
    risk = configuration.risk
    if isinstance(risk, ExpectileRisk):
        return f"expectile, level {risk.level:.4g}"
    if isinstance(risk, EntropicRisk):
        return f"entropic risk, gamma {risk.gamma:.4g}"
    return "mean"


def feature_names(configuration: CampaignConfiguration) -> list[str]:
    """A name for each feature of a request: the configuration's own, or x1, x2 and so on."""
    model = configuration.model
    if model.type == "multi-armed":
        return []
    if model.features is not None:
        return [feature.name for feature in model.features]
    return [f"x{place}" for place in range(1, model.dimension + 1)]
