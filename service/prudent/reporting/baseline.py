"""What a campaign's baseline allows, and how often it had to be kept to."""

from collections.abc import Sequence
from dataclasses import dataclass

from prudent.campaigns import CampaignConfiguration
from prudent.store.reports import ChoiceRow
from prudent.store.tables import DecisionRow


@dataclass(frozen=True, slots=True)
class BaselineReport:
    """allowance: after the newest decision, in reward units; held: recent decisions that had to keep to the arm."""

    arm_id: str
    tolerance: float
    allowance: float
    held: int
    sentence: str


def describe_baseline(
    configuration: CampaignConfiguration, recent: Sequence[ChoiceRow | DecisionRow]
) -> BaselineReport | None:
    """The report of these decisions, newest first; None for a campaign without a baseline."""
    setting = configuration.algorithm.baseline
    if setting is None:
        return None
    allowance = (recent[0].allowance if recent else None) or 0.0
    held = sum(one.reason == "baseline" for one in recent)
    sentence = _sentence(setting.arm_id, allowance, held, len(recent))
    return BaselineReport(setting.arm_id, setting.tolerance, allowance, held, sentence)


def _sentence(arm_id: str, allowance: float, held: int, count: int) -> str:
    if not count:
        return f"There are no decisions yet: the first go to {arm_id}."
    left = f"The allowance for arms that may be worse than {arm_id} is {allowance:.4g}"
    latest = "the latest decision" if count == 1 else f"the latest {count} decisions"
    if not held:
        return f"{left}, and none of {latest} was held at {arm_id}: the baseline costs nothing now."
    return f"{left}; {held} of {latest} {'was' if held == 1 else 'were'} held at {arm_id}, as it did not cover more."
