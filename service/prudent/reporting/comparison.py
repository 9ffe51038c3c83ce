"""What a report says of the arms together: the price of caution, and whether one of them has been found better."""

from collections.abc import Sequence
from dataclasses import dataclass

from prudent.core.measures import Measure
from prudent.reporting.arms import ArmReport
from prudent.store.campaigns import CampaignRow
from prudent.store.reports import ChoiceRow
from prudent.store.tables import DecisionRow


@dataclass(frozen=True, slots=True)
class PriceOfCaution:
    """What the mean would have chosen, and what that differs by; None without rewards.

    mean_difference: mean of the best by mean less that of the best by risk; risk_difference: risk of the best by risk
    less that of the best by mean. Neither is negative; reward units.
    """

    best_by_mean: str | None
    best_by_risk: str | None
    mean_difference: float | None
    risk_difference: float | None
    sentence: str


@dataclass(frozen=True, slots=True)
class Learning:
    """Whether the campaign learns, and what it has found.

    observations: how many the campaign has learned. exploring_share: of the last `recent_decisions`, those in which
    the service's own choice was not the arm with the best estimate. undecided_arm_ids: arms whose interval reaches
    the leader's, or that have none.
    """

    paused: bool
    observations: int
    recent_decisions: int
    exploring_share: float | None
    leading_arm_id: str | None
    runner_up_arm_id: str | None
    separated: bool | None
    undecided_arm_ids: list[str]
    note: str


def price_of_caution(arms: Sequence[ArmReport], measure: Measure) -> PriceOfCaution:
    """Compare the arms that can be chosen and have rewards."""
    if not arms:
        return PriceOfCaution(None, None, None, None, "No arm that can be chosen has rewards yet.")
    by_risk, by_mean = _best(arms, "risk"), _best(arms, "mean")
    if _value(by_mean, "mean") == _value(by_risk, "mean"):
        by_mean = by_risk
    loss_of_mean = _value(by_mean, "mean") - _value(by_risk, "mean")
    gain = _value(by_risk, "risk") - _value(by_mean, "risk")
    if measure.is_mean:
        sentence = f"The campaign goes by the mean, and {by_risk.arm_id} has the best: there is no caution to pay for."
    elif by_mean is by_risk:
        sentence = f"{by_risk.arm_id} is best by the mean, too: minding the {measure.title} costs nothing."
    else:
        sentence = (
            f"By the mean it would be {by_mean.arm_id}; {by_risk.arm_id} has {loss_of_mean:.4g} less of it, "
            f"and {gain:.4g} more of the {measure.title}."
        )
    return PriceOfCaution(by_mean.arm_id, by_risk.arm_id, loss_of_mean, gain, sentence)


def describe_learning(
    arms: Sequence[ArmReport], recent: Sequence[ChoiceRow | DecisionRow], campaign: CampaignRow
) -> Learning:
    """Rank the arms that can be chosen and have rewards; look at how the last decisions were made."""
    own_choices = [(row.recommended_arm_id or row.arm_id, row.greedy_arm_id) for row in recent]
    exploring = sum(arm_id != greedy for arm_id, greedy in own_choices)
    ranked = sorted(arms, key=lambda arm: -_value(arm, "risk"))
    leader = ranked[0] if ranked else None
    runner_up = ranked[1] if len(ranked) > 1 else None
    separated = None
    undecided: list[str] = []
    if leader is not None and runner_up is not None:
        separated = is_above(leader, runner_up)
        undecided = [arm.arm_id for arm in ranked[1:] if not is_above(leader, arm)]
    return Learning(
        paused=campaign.learn_limit is not None,
        observations=campaign.observations,
        recent_decisions=len(own_choices),
        exploring_share=exploring / len(own_choices) if own_choices else None,
        leading_arm_id=None if leader is None else leader.arm_id,
        runner_up_arm_id=None if runner_up is None else runner_up.arm_id,
        separated=separated,
        undecided_arm_ids=undecided,
        note=_note(leader, runner_up, separated=separated),
    )


def is_above(arm: ArmReport, other: ArmReport) -> bool | None:
    """Whether the arm's risk interval lies above the other's, all of it; None where one of them has none."""
    own, others = arm.rewards.interval, other.rewards.interval
    return None if own is None or others is None else own[0] > others[1]


def _note(leader: ArmReport | None, runner_up: ArmReport | None, *, separated: bool | None) -> str:
    if leader is None:
        return "No arm that can be chosen has rewards yet."
    if runner_up is None:
        return f"{leader.arm_id} is the only arm that can be chosen and has rewards."
    pair = f"{leader.arm_id} and {runner_up.arm_id}"
    if separated is None:
        return f"{leader.arm_id} leads; {pair} do not both have an interval yet, so nothing says by how much."
    if separated:
        return (
            f"{leader.arm_id} leads, and its 95% risk interval lies above that of the runner-up, {runner_up.arm_id}. "
            "That is evidence, not a guarantee."
        )
    return f"{leader.arm_id} leads, but the 95% risk intervals of {pair} overlap: more rewards may change it."


def _best(arms: Sequence[ArmReport], statistic: str) -> ArmReport:
    return max(arms, key=lambda arm: _value(arm, statistic))


def _value(arm: ArmReport, statistic: str) -> float:
    value: float = getattr(arm.rewards, statistic)  # arms here have rewards
    return value
