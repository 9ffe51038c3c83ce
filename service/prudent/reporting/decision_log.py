"""The decision log: a campaign's decisions, newest first, each with its outcome; and single decisions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from sqlalchemy import Connection

from prudent.campaigns import RowReader, Vocabulary, stored
from prudent.ledger.amendments import first_row
from prudent.ledger.finding import find_decision
from prudent.ledger.outcomes import Decision
from prudent.ledger.selection import repeat_decision
from prudent.reporting.collection import is_expired
from prudent.store import campaigns, categories, log, reports
from prudent.store.campaigns import CampaignRow
from prudent.store.reports import LearnedReward, RewardedDecision
from prudent.store.tables import INSTANT_MAX, NOT_ACTIVATED, DecisionRow

State = Literal["rewarded", "pending", "expired", "deferred"]


class Position(NamedTuple):
    """Where a page ended. The id tells decisions of the same microsecond apart: a batch makes hundreds."""

    created_at: int
    decision_id: str


FROM_THE_NEWEST = Position(INSTANT_MAX, "")


class LoggedDecision(NamedTuple):
    """A decision with its outcome. is_learned: None without a reward, False while the campaign is paused."""

    decision: DecisionRow
    reward: LearnedReward | None
    state: State
    is_learned: bool | None


@dataclass(frozen=True, slots=True)
class LogPage:
    """A page. features_are: of the chosen arm, or the context. next_position: None on the last page.

    reader, vocabulary: of the campaign's rows.
    """

    features_are: Literal["features", "context"]
    decisions: list[LoggedDecision]
    next_position: Position | None
    reader: RowReader
    vocabulary: Vocabulary


class FoundDecision(NamedTuple):
    """A decision as it was answered, and whether the log has a reward or a default of it."""

    decision: Decision
    is_rewarded: bool


def read_decision(connection: Connection, decision_id: str, campaign_id: str | None) -> FoundDecision:
    """A decision by its id. Raises CommandError as `prudent.ledger.finding.find_decision` does."""
    row, campaign = find_decision(connection, decision_id, campaign_id)
    rewarded = log.find_observations(connection, [row.identity])
    arms = campaigns.read_arms(connection, [row.key])[row.key]
    values = {arm.arm_id: arm.parsed_value for arm in arms if arm.value is not None}
    decision = repeat_decision(row, campaign.campaign_id or "", values.get(row.arm_id, row.arm_id))
    return FoundDecision(decision, bool(rewarded))


def read_decisions(
    connection: Connection, campaign_id: str, before: Position, limit: int, clock: Callable[[], int]
) -> LogPage | None:
    """The page of decisions older than a position; None if there is no such campaign.

    New decisions come before the first page and shift nothing. clock: as in `collection`.
    """
    campaign = campaigns.find_campaign(connection, campaign_id)
    if campaign is None:
        return None
    configuration = stored(campaign.configuration)
    now = None
    if configuration.reward.timeout_seconds is not None:
        now = campaigns.read_clock(connection) or clock()
    rows = reports.read_decision_log(connection, campaign.key, before, campaign.head, limit + 1)
    page = rows[:limit]
    oldest = page[-1].decision if page else None
    last = None if oldest is None or len(rows) <= limit else Position(oldest.created_at, oldest.decision_id)
    first = first_row(connection, campaign)
    logged = [LoggedDecision(*row, _state(row, now), _is_learned(row.reward, first, campaign)) for row in page]
    reader = RowReader(configuration.model)
    vocabulary = reader.vocabulary()
    if vocabulary.learns:
        learned = categories.read_categories(connection, [campaign.key])[campaign.key]
        vocabulary.extend(learned)
    kind: Literal["features", "context"] = "features" if configuration.model.type == "shared" else "context"
    return LogPage(kind, logged, last, reader, vocabulary)


def _state(row: RewardedDecision, now: int | None) -> State:
    if row.reward is not None:
        return "rewarded"
    if row.decision.activated_at == NOT_ACTIVATED:
        return "deferred"
    return "expired" if is_expired(row.decision.due_at, now) else "pending"


def _is_learned(reward: LearnedReward | None, first: int, campaign: CampaignRow) -> bool | None:
    return None if reward is None else first <= reward.sequence <= campaign.observations
