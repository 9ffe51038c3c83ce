"""The report of a campaign: the rewards of each arm, the price of caution, and whether it is learning.

Without features it says which arm leads. With features no arm is the best in every context, so it says in which
contexts which arm is (`prudent.reporting.policies`), and compares no arms.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from prudent.core.measures import INTERVAL_COUNT_MIN, Array, Measure
from prudent.ledger.outcomes import ModelReport
from prudent.reporting.baseline import BaselineReport, describe_baseline
from prudent.reporting.changes import ChangeReport, describe_changes
from prudent.reporting.collection import ArmTally, Collection, collect
from prudent.reporting.holdout import HoldoutReport, read_groups, report_holdout
from prudent.reporting.policies import PolicyReport
from prudent.reporting.stalls import Stall, find_stalls
from prudent.store.campaigns import CampaignRow
from prudent.store.read_pool import Connect
from prudent.store.reports import ChoiceRow, is_trial
from prudent.store.tables import DecisionRow

INTERVAL_NOTE = (
    f"Asymptotic 95% intervals from the rewards only, for arms with at least {INTERVAL_COUNT_MIN} rewards that are not "
    "all equal. They are not a guarantee: the rewards of an arm that was chosen because it looked good, or for some "
    "features more often than for others, are not an independent sample."
)

WITH_FEATURES = "With features, which arm is best depends on the context; see policy. Arms are not compared as a whole."
NAMED_MAX = 3
"""Arms that a sentence names."""
UNSEEN_SHARE = 3.0
"""A sample of n has no outcome of probability 3/n with a probability of 5% (exp(-3))."""


@dataclass(frozen=True, slots=True)
class Rewards:
    """Statistics of an arm's rewards, regardless of features. interval: for the risk, 95%, asymptotic."""

    n: int
    mean: float | None
    standard_deviation: float | None
    minimum: float | None
    maximum: float | None
    risk: float | None
    interval: tuple[float, float] | None
    sources: dict[str, int]


@dataclass(frozen=True, slots=True)
class External:
    """Choices made by the application itself. agreed: those in which the service would have chosen the same arm."""

    decisions: int
    agreed: int
    agreement: float | None


@dataclass(frozen=True, slots=True)
class ArmReport:
    """An arm. status: None for an arm that is not registered."""

    arm_id: str
    status: str | None
    plays: int
    share: float | None
    pending: int
    expired: int
    external: External
    rewards: Rewards


@dataclass(frozen=True, slots=True)
class PriceOfCaution:
    """What the mean would choose, and by how much that differs; None without rewards, and with features.

    mean_difference: mean of the best by mean minus that of the best by risk; risk_difference: risk of the best by risk
    minus that of the best by mean. Neither is negative; reward units.
    """

    best_by_mean: str | None
    best_by_risk: str | None
    mean_difference: float | None
    risk_difference: float | None
    sentence: str


@dataclass(frozen=True, slots=True)
class Learning:
    """Whether the campaign is learning, and what it has found.

    observations: how many the campaign has learned. exploring_share: the share of the last `recent_decisions` in which
    the service's choice was an arm other than the best estimate. separated: whether the leader's `cautious_end` lies
    above the runner-up's interval. unseen_one_in: an outcome of the leader that is rarer than one in so many may not
    have been seen. undecided_arm_ids: the arms that the leader is not separated from, or that share the best value.
    With features, and where arms share it, there is no leader.
    """

    paused: bool
    observations: int
    recent_decisions: int
    exploring_share: float | None
    leading_arm_id: str | None
    runner_up_arm_id: str | None
    separated: bool | None
    unseen_one_in: float | None
    undecided_arm_ids: list[str]
    note: str


class Progress(NamedTuple):
    """The part of `Learning` that does not depend on rewards."""

    paused: bool
    observations: int
    recent_decisions: int
    exploring_share: float | None


@dataclass(frozen=True, slots=True)
class CampaignReport:
    """The contract's ``GET /campaigns/{campaign_id}/report``. first_row, head: the rows of the log that it counts.

    changes: None where the model could not be asked.
    """

    campaign_id: str
    status: str
    risk: dict[str, Any]
    observations: int
    head: int
    first_row: int
    plays: int
    pending: int
    expired: int
    external: External
    arms: list[ArmReport]
    unlisted: dict[str, int]
    price_of_caution: PriceOfCaution
    learning: Learning
    policy: PolicyReport | None
    changes: list[ChangeReport] | None
    stalls: list[Stall]
    baseline: BaselineReport | None
    holdout: HoldoutReport | None
    interval_note: str


def report(
    connect: Connect,
    campaign_id: str,
    clock: Callable[[], int],
    policy: PolicyReport | None,
    model: ModelReport | None = None,
) -> CampaignReport | None:
    """The report of a campaign; None if there is no such campaign. policy: of one with features."""
    found = collect(connect, campaign_id, clock)
    if found is None:
        return None
    changes = holdout = None
    if model is not None:
        with connect() as connection:
            changes = describe_changes(connection, found.campaign.key, model.changes)
    if found.configuration.holdout is not None:
        holdout = report_holdout(found.configuration, *read_groups(connect, found.campaign))
    return assemble(found, policy, changes, holdout, refused=0 if model is None else model.refused_rewards)


def assemble(
    found: Collection,
    policy: PolicyReport | None,
    changes: list[ChangeReport] | None,
    holdout: HoldoutReport | None,
    *,
    refused: int,
) -> CampaignReport:
    """The report of these counts. refused: rewards since the last row of the log."""
    configuration, tallies = found.configuration, found.tallies
    measure = configuration.measure()
    statuses = {arm.arm_id: arm.status for arm in found.arms}
    everything = [*tallies.by_arm.values(), tallies.others]
    plays = sum(tally.plays for tally in everything)
    arms = [
        describe_arm(arm_id, statuses.get(arm_id), tally, plays, measure) for arm_id, tally in tallies.by_arm.items()
    ]
    rivals = [arm for arm in arms if arm.status in (None, "active") and arm.rewards.n]
    rewards = {arm_id: rewards_of(tally) for arm_id, tally in tallies.by_arm.items()}
    progress = describe_progress(found.recent, found.campaign)
    learning = describe_learning(rivals, rewards, measure, progress, policy)
    stalls = find_stalls(found.campaign, found.signs, separated=learning.separated, refused=refused, now=found.now)
    return CampaignReport(
        campaign_id=configuration.campaign_id,
        status=found.campaign.status,
        risk=configuration.risk.model_dump(),
        observations=found.campaign.observations,
        head=found.campaign.head,
        first_row=found.first,
        plays=plays,
        pending=sum(tally.pending for tally in everything),
        expired=sum(tally.expired for tally in everything),
        external=describe_external(
            sum(tally.external for tally in everything), sum(tally.agreed for tally in everything)
        ),
        arms=arms,
        unlisted={"plays": tallies.others.plays, "rewards": len(tallies.others.rewards)},
        price_of_caution=price_of_caution(rivals, measure) if policy is None else NO_PRICE,
        learning=learning,
        policy=policy,
        changes=changes,
        stalls=stalls,
        baseline=describe_baseline(configuration, found.recent),
        holdout=holdout,
        interval_note=INTERVAL_NOTE,
    )


def describe_arm(arm_id: str, status: str | None, tally: ArmTally, plays: int, measure: Measure) -> ArmReport:
    """The counts of an arm and the statistics of its rewards. plays: of all arms together."""
    return ArmReport(
        arm_id=arm_id,
        status=status,
        plays=tally.plays,
        share=tally.plays / plays if plays else None,
        pending=tally.pending,
        expired=tally.expired,
        external=describe_external(tally.external, tally.agreed),
        rewards=_rewards(tally, measure),
    )


def describe_external(decisions: int, agreed: int) -> External:
    """The counts with their share."""
    return External(decisions, agreed, agreed / decisions if decisions else None)


def rewards_of(tally: ArmTally) -> Array:
    """(n,) the rewards that were counted."""
    return np.frombuffer(tally.rewards) if tally.rewards else np.zeros(0)


def _rewards(tally: ArmTally, measure: Measure) -> Rewards:
    values = rewards_of(tally)
    sources = {source.replace("-", "_"): tally.sources[source] for source in ("reward", "default", "warm-start")}
    if not len(values):
        return Rewards(0, None, None, None, None, None, None, sources)
    risk = measure.risk(values)
    return Rewards(
        n=len(values),
        mean=float(values.mean()),
        standard_deviation=float(values.std(ddof=1)) if len(values) > 1 else None,
        minimum=float(values.min()),
        maximum=float(values.max()),
        risk=risk,
        interval=measure.interval(values, risk),
        sources=sources,
    )


NO_PRICE = PriceOfCaution(None, None, None, None, WITH_FEATURES)


def price_of_caution(arms: Sequence[ArmReport], measure: Measure) -> PriceOfCaution:
    """Compare arms, all of which are active and have rewards."""
    if not arms:
        return PriceOfCaution(None, None, None, None, "No active arm has rewards yet.")
    by_risk, by_mean = _best(arms, "risk", "mean"), _best(arms, "mean", "risk")
    if _value(by_mean, "mean") == _value(by_risk, "mean"):
        by_mean = by_risk
    loss_of_mean = _value(by_mean, "mean") - _value(by_risk, "mean")
    gain = _value(by_risk, "risk") - _value(by_mean, "risk")
    if measure.is_mean:
        sentence = "The campaign maximises the mean: caution has no price."
    elif by_mean is by_risk:
        sentence = f"No arm has a higher mean than {by_risk.arm_id}: caution costs nothing."
    else:
        sentence = (
            f"The mean would choose {by_mean.arm_id}; {by_risk.arm_id} has a mean that is {loss_of_mean:.4g} lower, "
            f"and a {measure.title} that is {gain:.4g} higher."
        )
    return PriceOfCaution(by_mean.arm_id, by_risk.arm_id, loss_of_mean, gain, sentence)


def describe_learning(
    arms: Sequence[ArmReport],
    rewards: Mapping[str, Array],
    measure: Measure,
    progress: Progress,
    policy: PolicyReport | None,
) -> Learning:
    """Rank arms, all of which are active and have rewards; with a policy, say what it says.

    rewards: (n,) of every arm of the campaign.
    """
    ranked = [] if policy is not None else sorted(arms, key=lambda arm: -_value(arm, "risk"))
    equal = [arm for arm in ranked if _value(arm, "risk") == _value(ranked[0], "risk")]
    leader = ranked[0] if len(equal) == 1 else None
    runner_up = ranked[1] if leader is not None and len(ranked) > 1 else None
    separated = unseen = None
    undecided = [arm.arm_id for arm in equal] if leader is None else []
    if leader is not None and runner_up is not None:
        low = cautious_end(rewards[leader.arm_id], rewards, measure)
        separated = is_below(runner_up, low)
        undecided = [arm.arm_id for arm in ranked[1:] if not is_below(arm, low)]
        unseen = None if separated is None else leader.rewards.n / UNSEEN_SHARE
    if policy is not None:
        note = policy.sentence
    elif leader is None and equal:
        note = _tie(equal, measure)
    else:
        note = _note(leader, runner_up, separated=separated)
    return Learning(
        paused=progress.paused,
        observations=progress.observations,
        recent_decisions=progress.recent_decisions,
        exploring_share=progress.exploring_share,
        leading_arm_id=None if leader is None else leader.arm_id,
        runner_up_arm_id=None if runner_up is None else runner_up.arm_id,
        separated=separated,
        unseen_one_in=unseen,
        undecided_arm_ids=undecided,
        note=note,
    )


def describe_progress(recent: Sequence[ChoiceRow | DecisionRow], campaign: CampaignRow) -> Progress:
    """Count how often the policy explored in the last decisions."""
    share = sum(map(is_trial, recent)) / len(recent) if recent else None
    return Progress(campaign.learn_limit is not None, campaign.observations, len(recent), share)


def cautious_end(own: Array, rewards: Mapping[str, Array], measure: Measure) -> float | None:
    """The lower end of an arm's interval after one more reward, as bad as the worst of any arm of the campaign.

    None where its rewards have no interval. Of the leader's interval itself, chance makes too much where bad outcomes
    are rare: docs/decisions/0026-evidence.md.
    """
    if measure.interval(own, measure.risk(own)) is None:
        return None
    worse = np.append(own, min(float(values.min()) for values in rewards.values() if len(values)))
    interval = measure.interval(worse, measure.risk(worse))
    return None if interval is None else interval[0]


def is_below(arm: ArmReport, low: float | None) -> bool | None:
    """Whether the arm's risk interval lies entirely below; None if there is nothing to compare."""
    interval = arm.rewards.interval
    return None if interval is None or low is None else interval[1] < low


def _tie(arms: Sequence[ArmReport], measure: Measure) -> str:
    """Words for arms whose rewards are worth the same so far."""
    named = [arm.arm_id for arm in arms[:NAMED_MAX]]
    rest = len(arms) - len(named)
    last = named.pop() if not rest else f"{rest:,} other{'' if rest == 1 else 's'}"
    value = f"{_value(arms[0], 'risk'):.4g}"
    return f"No arm leads: {', '.join(named)} and {last} have the same {measure.noun} so far, {value}."


def _note(leader: ArmReport | None, runner_up: ArmReport | None, *, separated: bool | None) -> str:
    if leader is None:
        return "No active arm has rewards yet."
    if runner_up is None:
        return f"{leader.arm_id} is the only active arm that has rewards."
    if separated:
        return (
            f"{leader.arm_id} leads: its 95% risk interval lies above that of the runner-up, {runner_up.arm_id}, and "
            "would do so after one more reward as bad as the worst of the campaign. This is evidence, not a guarantee: "
            f"an outcome rarer than 1 in {leader.rewards.n / UNSEEN_SHARE:,.0f} may not have been seen."
        )
    pair = f"{leader.arm_id} and {runner_up.arm_id}"
    why = (
        f"{pair} do not both have an interval yet, so that may be chance."
        if separated is None
        else f"the 95% risk intervals of {pair} overlap, or would after one more reward as bad as the worst of the "
        "campaign: more rewards may change the order."
    )
    return f"{leader.arm_id} has the best rewards so far, but {why}"


def _best(arms: Sequence[ArmReport], statistic: str, then: str) -> ArmReport:
    return max(arms, key=lambda arm: (_value(arm, statistic), _value(arm, then)))


def _value(arm: ArmReport, statistic: str) -> float:
    value: float = getattr(arm.rewards, statistic)  # all of these arms have rewards
    return value
