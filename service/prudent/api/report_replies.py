"""Replies of reports: their schemas for the documentation, and how they are rendered."""

from dataclasses import asdict
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from prudent.api.cursors import encode_cursor
from prudent.api.replies import (
    HEAD,
    OBSERVATIONS,
    RECOMMENDED,
    DecisionReply,
    Interval,
    render_instant,
    render_shown,
)
from prudent.campaigns import Risk
from prudent.core.measures import INTERVAL_COUNT_MIN
from prudent.reporting.collection import RECENT, UNREGISTERED_MAX
from prudent.reporting.decision_log import Entry, Trail
from prudent.reporting.report import CampaignReport
from prudent.store.reports import LearnedReward
from prudent.store.tables import features_from_bytes


class ExternalReply(BaseModel):
    """Choices that the application made itself."""

    decisions: int
    agreed: int = Field(description="Those that the service would have made, too.")
    agreement: float | None = Field(description="agreed / decisions; null without any.")


class RewardSourcesReply(BaseModel):
    """Where the observations of the log come from."""

    reward: int
    default: int = Field(description="The campaign's default reward, learned at a deadline.")
    warm_start: int


class RewardsReply(BaseModel):
    """What an arm's rewards show, whatever the features that they came with. Reward units; null without rewards."""

    n: int = Field(description="Observations of this arm, warm starts and defaults with them.")
    mean: float | None
    standard_deviation: float | None = Field(description="With n - 1; null for fewer than two.")
    minimum: float | None
    maximum: float | None
    risk: float | None = Field(description="The campaign's own measure of these rewards.")
    interval: Interval | None = Field(
        description="Asymptotic 95% interval for the risk (sandwich variance, Student's t); no guarantee. null for "
        f"fewer than {INTERVAL_COUNT_MIN} rewards, and where all are equal."
    )
    sources: RewardSourcesReply


class ArmReportReply(BaseModel):
    """One arm."""

    arm_id: str
    status: Literal["active", "paused", "retired"] | None = Field(description="null for an arm that is not registered.")
    plays: int = Field(
        description="Decisions for this arm, external ones with them; of decisions that were pruned, those with a "
        "reward. Warm starts are observations and no plays."
    )
    share: float | None = Field(description="Of the plays of all arms; null without any.")
    pending: int = Field(description="Decisions that wait for a reward.")
    expired: int = Field(description="Decisions whose timeout has passed, without a reward or default so far.")
    external: ExternalReply
    rewards: RewardsReply


class PriceOfCautionReply(BaseModel):
    """What the mean would have chosen instead, among the arms that can be chosen and have rewards."""

    best_by_mean: str | None
    best_by_risk: str | None
    mean_difference: float | None = Field(description="Mean that best_by_mean has more than best_by_risk; never < 0.")
    risk_difference: float | None = Field(description="Risk measure that best_by_risk has more; never < 0.")
    sentence: str = Field(description="The same in a line of English.")


class LearningReply(BaseModel):
    """Whether the campaign learns, and what it has found."""

    paused: bool = Field(description="Rewards are stored, and not learned until the campaign is active again.")
    observations: int = Field(description=OBSERVATIONS)
    recent_decisions: int = Field(description=f"How many exploring_share is of: at most the last {RECENT}.")
    exploring_share: float | None = Field(
        description="Share of them in which the service's own choice was not the arm with the best estimate. Of an "
        "external choice, what it would have chosen counts."
    )
    leading_arm_id: str | None = Field(description="Best risk of its rewards, among the arms that can be chosen.")
    runner_up_arm_id: str | None
    separated: bool | None = Field(
        description="Whether the leader's risk interval lies above the runner-up's, all of it. null where one of them "
        "has none. Evidence, not a guarantee."
    )
    undecided_arm_ids: list[str] = Field(
        description="Arms whose interval reaches the leader's, or that have none: they may still turn out better."
    )
    note: str


class UnlistedReply(BaseModel):
    """Arms that are not registered and not listed: those after the first 1,000."""

    plays: int
    rewards: int


class ReportReply(BaseModel):
    """What happened in a campaign, up to the head of its log when the report was begun."""

    campaign_id: str
    status: Literal["active", "paused", "archived"]
    risk: Risk
    observations: int = Field(description=OBSERVATIONS)
    head: int = Field(description=f"{HEAD} The report counts the rewards up to it.")
    plays: int
    pending: int
    expired: int
    external: ExternalReply
    arms: list[ArmReportReply] = Field(
        description=f"Registered arms in their order, then the first {UNREGISTERED_MAX:,} others that were met."
    )
    unlisted: UnlistedReply
    price_of_caution: PriceOfCautionReply
    learning: LearningReply
    interval_note: str


class TrailRewardReply(BaseModel):
    """A decision's reward."""

    arm_id: str = Field(description="The arm that it was learned for; another than the decision's if it said so.")
    reward: float
    source: Literal["reward", "default"]
    sequence: int = Field(description="Its place in the campaign's log, from 1.")
    learned: bool = Field(description="false while it waits for the end of a pause.")
    observed_at: datetime


class TrailEntryReply(DecisionReply):
    """A decision, and what came of it."""

    created_at: datetime
    state: Literal["rewarded", "pending", "expired"] = Field(
        description="expired: the campaign's timeout has passed without a reward, or with a default that is just being "
        "learned."
    )
    recommended_arm_id: str | None = Field(description=RECOMMENDED)
    features: list[float] | None = Field(description="Shared model: of the arm, as sent.")
    context: list[float] | None = Field(description="Disjoint model: of the request, as sent.")
    due_at: datetime | None = Field(description="Until when a reward is waited for; null once there is one.")
    explained: bool = Field(description="Whether its explanation is stored: the same select with explain shows it.")
    reward: TrailRewardReply | None


class TrailReply(BaseModel):
    """A page of decisions, newest first; pass ``next_cursor`` as cursor for the next one."""

    items: list[TrailEntryReply]
    next_cursor: str | None


def render_trail(trail: Trail) -> dict[str, Any]:
    """A page as TrailReply."""
    last = trail.next_position
    return {
        "items": [_render_entry(entry, trail.features_are) for entry in trail.entries],
        "next_cursor": None if last is None else encode_cursor(f"{last.created_at}/{last.decision_id}"),
    }


def _render_entry(entry: Entry, features_are: str) -> dict[str, Any]:
    row = entry.decision
    features = features_from_bytes(row.features).tolist()
    return {
        "decision_id": row.decision_id,
        "created_at": render_instant(row.created_at),
        "state": entry.state,
        **render_shown(row),
        "features": features if features_are == "features" else None,
        "context": features if features_are == "context" else None,
        "due_at": None if row.due_at is None else render_instant(row.due_at),
        "explained": row.explanation is not None,
        "reward": None if entry.reward is None else _render_reward(entry.reward, entry.is_learned),
    }


def _render_reward(reward: LearnedReward, is_learned: bool | None) -> dict[str, Any]:
    return reward._asdict() | {"learned": is_learned, "observed_at": render_instant(reward.observed_at)}


def render_campaign_report(report: CampaignReport) -> dict[str, Any]:
    """A report as ReportReply: its fields have the contract's names."""
    return asdict(report)
