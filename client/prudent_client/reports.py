"""The report of a campaign, and its log of decisions, as the service sends them."""

from datetime import datetime
from typing import Any, Literal

from prudent_client.models import Change, Reply

Interval = tuple[float, float]
"""Lower and upper end, asymptotic, 95%."""


class External(Reply):
    """Choices made by the application itself; agreed: where the service would have chosen the same arm."""

    decisions: int
    agreed: int
    agreement: float | None


class RewardSources(Reply):
    """Observations by source."""

    reward: int
    default: int
    warm_start: int


class ArmRewards(Reply):
    """Statistics of an arm's rewards, in reward units, regardless of features; None without rewards.

    risk: the campaign's risk measure of them; interval: for it.
    """

    n: int
    mean: float | None
    standard_deviation: float | None
    minimum: float | None
    maximum: float | None
    risk: float | None
    interval: Interval | None
    sources: RewardSources


class ArmReport(Reply):
    """An arm in the report. status: None for an arm that is not registered; share: of the plays of all arms."""

    arm_id: str
    status: Literal["active", "paused", "retired"] | None
    plays: int
    share: float | None
    pending: int
    expired: int
    external: External
    rewards: ArmRewards


class Unlisted(Reply):
    """Arms that are not registered, and not listed one by one."""

    plays: int
    rewards: int


class PriceOfCaution(Reply):
    """What the mean would choose instead; None in campaigns with features."""

    best_by_mean: str | None
    best_by_risk: str | None
    mean_difference: float | None
    risk_difference: float | None
    sentence: str


class Learning(Reply):
    """Whether the campaign is learning, and what it has found."""

    paused: bool
    observations: int
    recent_decisions: int
    exploring_share: float | None
    leading_arm_id: str | None
    runner_up_arm_id: str | None
    separated: bool | None
    unseen_one_in: float | None
    undecided_arm_ids: tuple[str, ...]
    note: str


class EstimateAt(Reply):
    """The model's estimate for an arm in some context, in reward units."""

    arm_id: str
    estimate: float
    interval: Interval | None


class PolicyArm(Reply):
    """Where an arm has the best estimate. typical: a context of these; ranges: of each feature in them."""

    arm_id: str
    share: float
    average_estimate: float | None
    typical: tuple[float, ...] | dict[str, Any] | None
    ranges: tuple[Interval | None, ...] | None
    estimates: tuple[EstimateAt, ...]


class Group(Reply):
    """Contexts with about the same value of a feature. shares: by arm, in how many of them it is the best."""

    value: str
    contexts: int
    shares: dict[str, float]


class FeatureGroups(Reply):
    """The contexts by one feature. told: which share of what is uncertain about the best arm it takes away."""

    feature: str
    told: float
    groups: tuple[Group, ...]


class Policy(Reply):
    """Which arm is best in which of the contexts seen, by the model's estimates."""

    contexts: int
    feature_names: tuple[str, ...]
    average_estimate: float | None
    arms: tuple[PolicyArm, ...]
    by_feature: tuple[FeatureGroups, ...]
    sentence: str


class ReportedChange(Change):
    """A change of an arm's rewards with its times, and in words."""

    since_at: datetime
    raised_at: datetime
    sentence: str


class Stall(Reply):
    """A sign that a campaign stands still."""

    kind: str
    sentence: str


class HoldoutGroup(Reply):
    """Rewards of the decisions that were held out, or of those that could have been."""

    n: int
    risk: float | None
    interval: Interval | None


class HoldoutReport(Reply):
    """What the policy gains over the holdout. lift: its risk minus that of the holdout, in reward units."""

    share: float
    arm_id: str | None
    policy: Literal["uniform"] | None
    held_out: HoldoutGroup
    decided: HoldoutGroup
    lift: float | None
    interval: Interval | None
    sentence: str


class BaselineReport(Reply):
    """What the campaign's baseline allows, in reward units; held: recent decisions that had to keep to it."""

    arm_id: str
    tolerance: float
    allowance: float
    held: int
    sentence: str


class Report(Reply):
    """What happened in a campaign, up to the head of its log when the report was made.

    policy: of campaigns with features; holdout, baseline: of campaigns with one; changes: None where the model cannot
    be asked.
    """

    campaign_id: str
    status: Literal["active", "paused", "archived"]
    risk: dict[str, Any]
    observations: int
    head: int
    first_row: int = 1
    plays: int
    pending: int
    expired: int
    external: External
    arms: tuple[ArmReport, ...]
    unlisted: Unlisted
    price_of_caution: PriceOfCaution
    learning: Learning
    policy: Policy | None
    changes: tuple[ReportedChange, ...] | None
    stalls: tuple[Stall, ...]
    holdout: HoldoutReport | None
    baseline: BaselineReport | None
    interval_note: str


class LoggedReward(Reply):
    """The reward of a decision as it counts now, None if it was taken back; original: as it was first recorded."""

    arm_id: str
    reward: float | None
    source: Literal["reward", "default"]
    sequence: int
    learned: bool
    observed_at: datetime
    original: float | None
    corrected_at: datetime | None
    reason: str | None


class LoggedDecision(Reply):
    """A decision with its outcome.

    state: "rewarded", "pending", "expired" or "deferred"; explained: whether its explanation is stored.
    """

    decision_id: str
    arm_id: str
    estimate: float
    bonus: float | None
    index: float | None
    reason: str
    greedy_arm_id: str
    recommended_arm_id: str | None
    exploring: bool
    propensity: float | None
    seen: int
    created_at: datetime
    state: str
    features: tuple[float, ...] | dict[str, Any] | None
    context: tuple[float, ...] | dict[str, Any] | None
    due_at: datetime | None
    explained: bool
    reward: LoggedReward | None


class DecisionPage(Reply):
    """A page of decisions, newest first."""

    items: tuple[LoggedDecision, ...]
    next_cursor: str | None
