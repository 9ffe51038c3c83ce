"""The audit trail: a campaign's decisions, newest first, each with what came of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from sqlalchemy import Connection

from prudent.campaigns import CampaignConfiguration
from prudent.reporting.deadlines import is_expired
from prudent.store import campaigns, reports
from prudent.store.reports import LearnedReward, RewardedDecision
from prudent.store.tables import INSTANT_MAX, DecisionRow

State = Literal["rewarded", "pending", "expired"]


class Position(NamedTuple):
    """Where a page ended. Ids tell decisions of the same microsecond apart: a batch makes hundreds."""

    created_at: int
    decision_id: str


FROM_THE_NEWEST = Position(INSTANT_MAX, "")


class Entry(NamedTuple):
    """A decision and what came of it. is_learned: None without a reward, False while it waits for a pause to end."""

    decision: DecisionRow
    reward: LearnedReward | None
    state: State
    is_learned: bool | None


@dataclass(frozen=True, slots=True)
class Trail:
    """A page. features_are: what a decision's features are of. next_position: None on the last page."""

    features_are: Literal["features", "context"]
    entries: list[Entry]
    next_position: Position | None


def read_trail(
    connection: Connection, campaign_id: str, before: Position, limit: int, clock: Callable[[], int]
) -> Trail | None:
    """The page of decisions older than a position; None if there is no such campaign.

    New decisions come before the first page and move nothing. clock: as in `collection`.
    """
    campaign = campaigns.find_campaign(connection, campaign_id)
    if campaign is None:
        return None
    configuration = CampaignConfiguration.model_validate_json(campaign.configuration)
    now = None
    if configuration.reward.timeout_seconds is not None:
        now = campaigns.read_clock(connection) or clock()
    rows = reports.read_decision_log(connection, campaign.key, before, campaign.head, limit + 1)
    page = rows[:limit]
    oldest = page[-1].decision if page else None
    last = None if oldest is None or len(rows) <= limit else Position(oldest.created_at, oldest.decision_id)
    entries = [Entry(*row, _state(row, now), _is_learned(row.reward, campaign.learn_limit)) for row in page]
    return Trail("features" if configuration.model.type == "shared" else "context", entries, last)


def _state(row: RewardedDecision, now: int | None) -> State:
    if row.reward is not None:
        return "rewarded"
    return "expired" if is_expired(row.decision.due_at, now) else "pending"


def _is_learned(reward: LearnedReward | None, learn_limit: int | None) -> bool | None:
    return None if reward is None else learn_limit is None or reward.sequence <= learn_limit
