"""Replies of reports: their schemas for the documentation, and how they are rendered."""

from dataclasses import asdict
from typing import Any, Literal

from pydantic import BaseModel, Field

from service.campaigns import Risk
from service.core.samples import INTERVAL_COUNT_MIN
from service.reporting.collection import RECENT, UNREGISTERED_MAX
from service.reporting.report import CampaignReport


class ExternalReply(BaseModel):
    """Choices that the application made itself."""

    decisions: int
    agreed: int = Field(description="Those that the service would have made, too.")
    agreement: float | None = Field(description="agreed / decisions; null without any.")


class RewardSourcesReply(BaseModel):
    """Where the observations of the log come from."""

    reward: int
    default: int = Field(description="The campaign's default reward, learned at a deadline.")
    warm_start: int = Field(alias="warm-start")


class RewardsReply(BaseModel):
    """What an arm's rewards show, whatever the features that they came with. Reward units; null without rewards."""

    n: int = Field(description="Observations of this arm, warm starts and defaults with them.")
    mean: float | None
    standard_deviation: float | None = Field(description="With n - 1; null for fewer than two.")
    minimum: float | None
    maximum: float | None
    risk: float | None = Field(description="The campaign's own measure of these rewards.")
    interval: tuple[float, float] | None = Field(
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
    observations: int = Field(description="Sequence up to which the model has learned.")
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
    observations: int = Field(description="Head of the log; rewards that wait while the campaign is paused included.")
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


def render_campaign_report(report: CampaignReport) -> dict[str, Any]:
    """A report as ReportReply: its fields have the contract's names."""
    return asdict(report)
