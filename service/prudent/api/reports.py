"""Reports and the decision log: routes and replies. They take no turn in the ledger's queue, and no lock."""

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, Field
from sqlalchemy import Connection

from prudent.api.alarms import ChangeReply, StallReply
from prudent.api.campaigns import LIST_MAX, CampaignPath
from prudent.api.holdout import HoldoutReply
from prudent.api.rendering import json_reply, render_instant, render_shown, with_lag
from prudent.api.replies import (
    DUE_AT,
    HEAD,
    OBSERVATIONS,
    PROBLEMS,
    RECOMMENDED,
    DecisionReply,
    Interval,
)
from prudent.api.requests import decode_cursor, encode_cursor
from prudent.api.server.middleware import StrictRoute
from prudent.campaigns import Risk
from prudent.clock import Clock
from prudent.core.measures import INTERVAL_COUNT_MIN
from prudent.ledger.access import LedgerAccess
from prudent.ledger.missing import no_campaign
from prudent.reporting.changes import model_of
from prudent.reporting.collection import RECENT, UNREGISTERED_MAX
from prudent.reporting.decision_log import FROM_THE_NEWEST, LoggedDecision, LogPage, Position, read_decisions
from prudent.reporting.groups import FEATURES_MAX
from prudent.reporting.policies import SEEN_MAX, policy_of, read_seen
from prudent.reporting.report import CampaignReport, report
from prudent.store.read_pool import Reader
from prudent.store.reports import LearnedReward
from prudent.store.statements import features_from_bytes
from prudent.store.tables import INSTANT_MAX

POSITION_PATTERN = r"([0-9]{1,19})/([A-Za-z0-9._~-]{1,128})"


class ExternalReply(BaseModel):
    """Choices made by the application itself."""

    decisions: int
    agreed: int = Field(description="Those in which the service would have chosen the same arm.")
    agreement: float | None = Field(description="agreed / decisions; null without any.")


class RewardSourcesReply(BaseModel):
    """Observations by source."""

    reward: int
    default: int = Field(description="Default rewards, learned at a deadline.")
    warm_start: int


class RewardsReply(BaseModel):
    """Statistics of an arm's rewards, regardless of features. Reward units; null without rewards."""

    n: int = Field(description="Observations of this arm, including warm starts and defaults.")
    mean: float | None
    standard_deviation: float | None = Field(description="With divisor n - 1; null for fewer than two rewards.")
    minimum: float | None
    maximum: float | None
    risk: float | None = Field(description="The campaign's risk measure of these rewards.")
    interval: Interval | None = Field(
        description="Asymptotic 95% interval for the risk (sandwich variance, Student's t); not a guarantee. null for "
        f"fewer than {INTERVAL_COUNT_MIN} rewards, and if all are equal."
    )
    sources: RewardSourcesReply


class ArmReportReply(BaseModel):
    """An arm in the report."""

    arm_id: str
    status: Literal["active", "paused", "retired"] | None = Field(description="null for an arm that is not registered.")
    plays: int = Field(
        description="Decisions for this arm, including external ones; of pruned decisions, those with a reward. Warm "
        "starts are observations, not plays."
    )
    share: float | None = Field(description="Share of the plays of all arms; null without plays.")
    pending: int = Field(description="Decisions waiting for a reward.")
    expired: int = Field(
        description="Decisions whose timeout has passed and that have neither a reward nor a default yet."
    )
    external: ExternalReply
    rewards: RewardsReply


class PriceOfCautionReply(BaseModel):
    """What the mean would choose instead, among the active arms that have rewards; nulls in campaigns with features."""

    best_by_mean: str | None
    best_by_risk: str | None
    mean_difference: float | None = Field(
        description="Mean of best_by_mean minus mean of best_by_risk; never negative."
    )
    risk_difference: float | None = Field(
        description="Risk measure of best_by_risk minus that of best_by_mean; never negative."
    )
    sentence: str = Field(description="The same in a sentence.")


class LearningReply(BaseModel):
    """Whether the campaign is learning, and what it has found."""

    paused: bool = Field(description="Rewards are stored, and learned when the campaign is active again.")
    observations: int = Field(description=OBSERVATIONS)
    recent_decisions: int = Field(description=f"How many decisions exploring_share counts: at most the last {RECENT}.")
    exploring_share: float | None = Field(
        description="Share of them in which the service's choice was an arm other than the best estimate. For external "
        "choices, the recommended arm counts; decisions that were held out do not."
    )
    leading_arm_id: str | None = Field(
        description="The active arm with the best risk; null where several share it, and in campaigns with features, "
        "where `policy` says which arm is best in which contexts."
    )
    runner_up_arm_id: str | None
    separated: bool | None = Field(
        description="Whether the leader's risk interval lies entirely above the runner-up's, and still would after one "
        "more reward as bad as the worst of the campaign; null if one of them is null. Evidence, not a guarantee: an "
        "outcome rarer than one in unseen_one_in may not have been seen."
    )
    unseen_one_in: float | None = Field(
        description="An outcome of the leader rarer than one in so many may not have been seen: a third of its "
        "rewards. null where separated is."
    )
    undecided_arm_ids: list[str] = Field(
        description="Arms that the leader is not separated from, or that share the best risk: they may still turn out "
        "better."
    )
    note: str = Field(description="The same in words; with features, the policy's sentence.")


class EstimateAtReply(BaseModel):
    """The model's estimate for an arm, in reward units."""

    arm_id: str
    estimate: float
    interval: Interval | None = Field(description="Asymptotic 95% interval; not a guarantee. null where there is none.")


class PolicyArmReply(BaseModel):
    """Where an arm has the best estimate."""

    arm_id: str
    share: float = Field(
        description="Of the contexts seen: disjoint, by the model as it is now; shared, of the decisions, each by the "
        "model at the time."
    )
    average_estimate: float | None = Field(
        description="The estimate for this arm, averaged over the contexts seen; null for shared."
    )
    typical: list[float] | dict[str, Any] | None = Field(
        description="disjoint: of the contexts in which the arm is best, the one closest to their middle; shared: the "
        "arm's features. As sent. null for arms that are best nowhere, and beyond the first 8."
    )
    ranges: list[Interval | None] | None = Field(
        description="disjoint: of each feature, from the 10% to the 90% quantile of the contexts in which the arm is "
        "best; null for a feature that is no number."
    )
    estimates: list[EstimateAtReply] = Field(description="At the typical context, best first; at most 3 arms.")


class GroupReply(BaseModel):
    """Contexts with about the same value of a feature."""

    value: str = Field(
        description="In words: yes or no; a category, or (other); a number, or the range of a quarter of the contexts; "
        "(missing)."
    )
    contexts: int
    shares: dict[str, float] = Field(description="By arm: in how many of these contexts it is the best.")


class FeatureGroupsReply(BaseModel):
    """The contexts by one feature."""

    feature: str
    told: float = Field(
        description="How much of what is uncertain about the best arm this feature takes away, from 0 to 1: their "
        "mutual information over the entropy of the best arm (Theil's uncertainty coefficient)."
    )
    groups: list[GroupReply] = Field(description="In the order of the feature's values.")


class PolicyReply(BaseModel):
    """Which arm is best in which contexts, by the model's estimates."""

    contexts: int = Field(description=f"How many were looked at: those of the latest decisions, at most {SEEN_MAX:,}.")
    feature_names: list[str]
    average_estimate: float | None = Field(
        description="The estimate for each context's best arm, averaged over the contexts; null for shared."
    )
    arms: list[PolicyArmReply] = Field(description="The arms that are best most often first.")
    by_feature: list[FeatureGroupsReply] = Field(
        description=f"For whom which arm is best, by the {FEATURES_MAX} features of requests that say most about it."
    )
    sentence: str


class UnlistedReply(BaseModel):
    """Unregistered arms that are not listed one by one."""

    plays: int
    rewards: int


class BaselineReply(BaseModel):
    """What the campaign's baseline allows, and how often it had to be kept to."""

    arm_id: str
    tolerance: float
    allowance: float = Field(
        description="Of the decisions so far, for arms that may be worse than the baseline, in reward units."
    )
    held: int = Field(description="Recent decisions that went to the baseline because it did not cover another arm.")
    sentence: str = Field(description="The same in a sentence.")


class ReportReply(BaseModel):
    """What happened in a campaign, up to the head of its log when the report started."""

    campaign_id: str
    status: Literal["active", "paused", "archived"]
    risk: Risk
    observations: int = Field(description=OBSERVATIONS)
    head: int = Field(description=f"{HEAD} The report covers the rewards up to it.")
    first_row: int = Field(
        description="The first row of the log that counts, 1 unless the campaign was restarted: rewards before it are "
        "in no figure, and their decisions are plays all the same."
    )
    plays: int
    pending: int
    expired: int
    external: ExternalReply
    arms: list[ArmReportReply] = Field(
        description=f"Registered arms in order, then the first {UNREGISTERED_MAX:,} others that were encountered."
    )
    unlisted: UnlistedReply
    price_of_caution: PriceOfCautionReply
    learning: LearningReply
    policy: PolicyReply | None = Field(description="Campaigns with features only.")
    changes: list[ChangeReply] | None = Field(
        description="What the alarm that the world changed found, latest first; null where the model cannot be asked."
    )
    stalls: list[StallReply] = Field(description="Signs that an active campaign stands still; usually empty.")
    baseline: BaselineReply | None = Field(description="Campaigns with a baseline only.")
    holdout: HoldoutReply | None = Field(description="Campaigns with a holdout only.")
    interval_note: str


class LoggedRewardReply(BaseModel):
    """The reward of a decision."""

    arm_id: str = Field(
        description="The arm that the reward was learned for: the decision's, unless the reward named another."
    )
    reward: float | None = Field(description="As it counts now; null for one that was taken back.")
    source: Literal["reward", "default"]
    sequence: int = Field(description="Its place in the campaign's log, from 1.")
    learned: bool = Field(description="false while the campaign is paused, and of what came before a restart.")
    observed_at: datetime
    original: float | None = Field(description="As it was first recorded, if it was corrected since.")
    corrected_at: datetime | None = Field(description="When it was last corrected.")
    reason: str | None = Field(description="Of the last correction.")


class LoggedDecisionReply(DecisionReply):
    """A decision with its outcome."""

    recommended_arm_id: str | None = Field(description=RECOMMENDED)
    created_at: datetime
    state: Literal["rewarded", "pending", "expired", "deferred"] = Field(
        description="expired: the campaign's timeout has passed without a reward, or the default is just being "
        "learned; deferred: not activated yet."
    )
    features: list[float] | dict[str, Any] | None = Field(description="Shared model: of the arm, as sent.")
    context: list[float] | dict[str, Any] | None = Field(
        description="Disjoint model, or context_features: of the request, as sent. `(other)` is a text that was none "
        "of the categories; null, a missing value."
    )
    due_at: datetime | None = Field(description=DUE_AT)
    explained: bool = Field(description="Whether the explanation is stored: the same select with explain returns it.")
    reward: LoggedRewardReply | None


class DecisionListReply(BaseModel):
    """A page of decisions, newest first; pass ``next_cursor`` as cursor to get the next page."""

    items: list[LoggedDecisionReply]
    next_cursor: str | None


def render_decisions(page: LogPage) -> dict[str, Any]:
    """A page as DecisionListReply."""
    last = page.next_position
    return {
        "items": [_render_decision(one, page) for one in page.decisions],
        "next_cursor": None if last is None else encode_cursor(f"{last.created_at}/{last.decision_id}"),
    }


def _render_decision(logged: LoggedDecision, page: LogPage) -> dict[str, Any]:
    row = logged.decision
    own, context = page.reader.parts(features_from_bytes(row.features), page.vocabulary)
    is_shared = page.features_are == "features"
    return {
        **render_shown(row),
        "created_at": render_instant(row.created_at),
        "state": logged.state,
        "features": own if is_shared else None,
        "context": context if is_shared else own,
        "due_at": None if row.due_at is None else render_instant(row.due_at),
        "explained": row.explanation is not None,
        "reward": None if logged.reward is None else _render_reward(logged.reward, logged.is_learned),
    }


def _render_reward(reward: LearnedReward, is_learned: bool | None) -> dict[str, Any]:
    corrected = None if reward.corrected_at is None else render_instant(reward.corrected_at)
    rendered = {"learned": is_learned, "observed_at": render_instant(reward.observed_at), "corrected_at": corrected}
    return reward._asdict() | rendered


def render_campaign_report(report: CampaignReport) -> dict[str, Any]:
    """A report as ReportReply: its fields have the contract's names."""
    rendered = asdict(report)
    for change in rendered["changes"] or ():
        change |= {name: render_instant(change[name]) for name in ("since_at", "raised_at")}
    return rendered


def report_routes(read: Reader, ledger: LedgerAccess, clock: Clock) -> APIRouter:
    """The report and the decision log."""
    router = APIRouter(tags=["reports"], responses=PROBLEMS, route_class=StrictRoute)

    @router.get(
        "/campaigns/{campaign_id}/report",
        operation_id="getReport",
        responses={200: {"model": ReportReply}},
        response_class=Response,
    )
    async def get_report(campaign_id: CampaignPath) -> Response:
        """Report the plays and rewards of each arm, the price of caution, and what the campaign has learned."""
        seen = await read(read_seen, campaign_id)
        policy = None if seen is None else await policy_of(ledger, seen)
        model = await model_of(ledger, campaign_id)
        found = await read.in_pages(report, campaign_id, clock, policy, model)
        if found is None:
            raise await read(no_campaign, campaign_id)
        return with_lag(json_reply(render_campaign_report(found)), read)

    @router.get(
        "/campaigns/{campaign_id}/decisions",
        operation_id="listDecisions",
        responses={200: {"model": DecisionListReply}},
        response_class=Response,
    )
    async def list_decisions(
        campaign_id: CampaignPath,
        limit: Annotated[int, Query(ge=1, le=LIST_MAX)] = 100,
        cursor: Annotated[str | None, Query(max_length=256, description="next_cursor of the previous page.")] = None,
    ) -> Response:
        """List decisions with their rewards, newest first. New decisions do not shift the pages."""
        before = FROM_THE_NEWEST if cursor is None else _position(cursor)
        page = await read(_read_page, campaign_id, before, limit, clock)
        if page is None:
            raise await read(no_campaign, campaign_id)
        return with_lag(Response(page, media_type="application/json"), read)

    return router


def _read_page(connection: Connection, campaign_id: str, before: Position, limit: int, clock: Clock) -> bytes | None:
    """The page as JSON, rendered off the event loop: a thousand decisions may have half a million features."""
    page = read_decisions(connection, campaign_id, before, limit, clock)
    return None if page is None else orjson.dumps(render_decisions(page))


def _position(cursor: str) -> Position:
    created_at, decision_id = decode_cursor(cursor, POSITION_PATTERN).groups()
    return Position(min(int(created_at), INSTANT_MAX), decision_id)
