"""Statements of reports, the decision log and the dashboard.

Reports read everything, page by page, each page in a short transaction: a long report holds none open. The dashboard
reads at most so many rows, however long the campaign has run.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import BindParameter, Connection, Row, bindparam, case, null, select, tuple_

from prudent.store import log
from prudent.store.decisions import IS_PLAY
from prudent.store.log import IS_OBSERVATION, IS_OF_DECISION
from prudent.store.tables import INSTANT, NAME, DecisionRow, decisions, observations

PLAYS_MAX = 10_000
"""Newest decisions that the dashboard reads."""
REWARDS_MAX = 10_000
"""Rows of the log that the dashboard reads: all of a shorter log, of a longer one as many from all over it."""
REWARD_BLOCKS = 100
"""From so many places."""

Rewarded = TypeVar("Rewarded", "RewardRow", "HeldRow")
_AT_HEAD: BindParameter[int] = bindparam("head")


class RewardRow(NamedTuple):
    """What is read of each of many rows of the log. decision_id: None for an observation made elsewhere.

    reward: as corrected; None for one that was taken back.
    """

    sequence: int
    arm_id: str
    reward: float | None
    source: str
    decision_id: str | None


class HeldRow(NamedTuple):
    """A rewarded decision that a holdout could have had. held_out: whether it has. reward: as in `RewardRow`."""

    sequence: int
    decision_id: str | None
    reward: float | None
    held_out: int


class PlayRow(NamedTuple):
    """What is read of each of many decisions. rewarded_arm_id: the arm that its reward was learned for, if any."""

    created_at: int
    decision_id: str
    arm_id: str
    recommended_arm_id: str | None
    due_at: int | None
    rewarded_arm_id: str | None


class ChoiceRow(NamedTuple):
    """How a decision was made, and when. allowance: as of `DecisionRow`."""

    arm_id: str
    greedy_arm_id: str
    recommended_arm_id: str | None
    created_at: int
    reason: str
    allowance: float | None


def explores(row: ChoiceRow | DecisionRow) -> bool:
    """Whether the service tried an arm other than the best estimate. To keep to the baseline is no trial."""
    return (row.recommended_arm_id or row.arm_id) != row.greedy_arm_id and row.reason != "baseline"


def is_trial(row: ChoiceRow | DecisionRow) -> bool:
    """Whether the policy explored: what is held out is measured against it, and is none of its choices."""
    return explores(row) and row.reason != "holdout"


class SeenRow(NamedTuple):
    """Features that were seen: of the arm, or the context. greedy_arm_id: None for an observation made elsewhere."""

    arm_id: str
    features: bytes
    greedy_arm_id: str | None


class LearnedReward(NamedTuple):
    """What came of a decision. arm_id: the arm that it was learned for, usually the decision's.

    reward: as corrected; None for one that was taken back. original: as it was first recorded, where it was corrected,
    with the time and the reason of the last correction.
    """

    arm_id: str
    reward: float | None
    source: str
    sequence: int
    observed_at: int
    original: float | None = None
    corrected_at: int | None = None
    reason: str | None = None


class RewardedDecision(NamedTuple):
    """A decision and its reward, None while there is none."""

    decision: DecisionRow
    reward: LearnedReward | None


_REWARD_COLUMNS = [observations.c[name] for name in RewardRow._fields]
_NEWEST_FIRST = decisions.c.created_at.desc(), decisions.c.decision_id.desc()
_REWARDS = (
    select(*_REWARD_COLUMNS)
    .where(
        observations.c.key == bindparam("key_"),
        observations.c.sequence > bindparam("after"),
        observations.c.sequence <= _AT_HEAD,
        IS_OBSERVATION,
    )
    .order_by(observations.c.sequence)
)
# Scalar subqueries where there could be joins: before PostgreSQL has looked at the tables, it may join them by another
# index than that of both columns, and read a whole log for each decision.
_HELD_OUT = (
    select(decisions.c.held_out).where(IS_OF_DECISION).correlate(observations).scalar_subquery().label("held_out")
)
_HELD = (
    select(observations.c.sequence, observations.c.decision_id, observations.c.reward, _HELD_OUT)
    .where(
        observations.c.key == bindparam("key_"),
        observations.c.sequence > bindparam("after"),
        observations.c.sequence <= _AT_HEAD,
        IS_OBSERVATION,
    )
    .subquery()
)
_PAGE_OF_HELD = select(_HELD).where(_HELD.c.held_out.is_not(None)).order_by(_HELD.c.sequence).limit(bindparam("limit_"))
_PAGE_OF_REWARDS = _REWARDS.limit(bindparam("limit_"))
_REWARDED_ARM = (
    select(observations.c.arm_id)
    .where(IS_OF_DECISION, observations.c.sequence <= _AT_HEAD)
    .correlate(decisions)
    .scalar_subquery()
    .label("rewarded_arm_id")
)
_PLAYS = select(*(decisions.c[name] for name in PlayRow._fields[:-1]), _REWARDED_ARM).where(
    decisions.c.key == bindparam("key_"), IS_PLAY
)
_PAGE_OF_PLAYS = (
    _PLAYS.where(
        tuple_(decisions.c.created_at, decisions.c.decision_id)
        > tuple_(bindparam("after", type_=INSTANT), bindparam("after_id", type_=NAME)),
        decisions.c.created_at <= bindparam("until"),
    )
    .order_by(decisions.c.created_at, decisions.c.decision_id)
    .limit(bindparam("limit_"))
)
_NEWEST_PLAYS = _PLAYS.order_by(*_NEWEST_FIRST).limit(bindparam("limit_"))
_CHOICES = (
    select(*(decisions.c[name] for name in ChoiceRow._fields))
    .where(decisions.c.key == bindparam("key_"))
    .order_by(*_NEWEST_FIRST)
    .limit(bindparam("limit_"))
)
_SEEN = (
    select(*(decisions.c[name] for name in SeenRow._fields))
    .where(decisions.c.key == bindparam("key_"))
    .order_by(*_NEWEST_FIRST)
    .limit(bindparam("limit_"))
)
_OBSERVED = (
    select(observations.c.arm_id, observations.c.features)
    .where(observations.c.key == bindparam("key_"), IS_OBSERVATION)
    .order_by(observations.c.sequence.desc())
    .limit(bindparam("limit_"))
)
_DECISIONS = select(*(decisions.c[name] for name in DecisionRow._fields)).where(decisions.c.key == bindparam("key_"))
# explanations and candidates are long, and a page has many: the log says only whether there is an explanation
_SHORTENED = {
    "explanation": case((decisions.c.explanation.is_not(None), "")).label("explanation"),
    "candidates": null().label("candidates"),
}
_DECISION_LOG = (
    select(*(_SHORTENED.get(name, decisions.c[name]) for name in DecisionRow._fields))
    .where(
        decisions.c.key == bindparam("key_"),
        tuple_(decisions.c.created_at, decisions.c.decision_id)
        < tuple_(bindparam("before", type_=INSTANT), bindparam("before_id", type_=NAME)),
    )
    .order_by(*_NEWEST_FIRST)
    .limit(bindparam("limit_"))
)


def read_rewards(connection: Connection, key: int, after: int, head: int, limit: int) -> list[RewardRow]:
    """A page of a campaign's log with after < sequence <= head, in order."""
    parameters = {"key_": key, "after": after, "head": head, "limit_": limit}
    return _corrected_rows(
        connection, key, [RewardRow._make(row) for row in connection.execute(_PAGE_OF_REWARDS, parameters)]
    )


def read_held(connection: Connection, key: int, after: int, head: int, limit: int) -> list[HeldRow]:
    """A page of the rewarded decisions that a campaign's holdout could have had, with after < sequence <= head."""
    parameters = {"key_": key, "after": after, "head": head, "limit_": limit}
    return _corrected_rows(
        connection, key, [HeldRow._make(row) for row in connection.execute(_PAGE_OF_HELD, parameters)]
    )


def read_plays(
    connection: Connection, key: int, after: tuple[int, str], until: int, head: int, limit: int
) -> list[PlayRow]:
    """A page of a campaign's decisions after (created_at, id), made by `until`, with their rewards up to `head`."""
    parameters = {"key_": key, "after": after[0], "after_id": after[1], "until": until, "head": head, "limit_": limit}
    return [PlayRow._make(row) for row in connection.execute(_PAGE_OF_PLAYS, parameters).all()]


def read_last_choices(connection: Connection, key: int, limit: int) -> list[ChoiceRow]:
    """How the newest decisions of a campaign were made, newest first."""
    return [ChoiceRow._make(row) for row in connection.execute(_CHOICES, {"key_": key, "limit_": limit})]


def read_seen(connection: Connection, key: int, limit: int) -> list[SeenRow]:
    """The features of the newest decisions, newest first; without any decision, of the newest observations."""
    parameters = {"key_": key, "limit_": limit}
    rows = [SeenRow._make(row) for row in connection.execute(_SEEN, parameters)]
    return rows or [SeenRow(*row, None) for row in connection.execute(_OBSERVED, parameters)]


def read_decision_log(
    connection: Connection, key: int, before: tuple[int, str], head: int, limit: int
) -> list[RewardedDecision]:
    """A campaign's decisions before (created_at, id), newest first, with their rewards up to `head`.

    Explanations and candidates are not read: an explanation is empty where there is one, candidates are None.
    """
    parameters = {"key_": key, "before": before[0], "before_id": before[1], "limit_": limit}
    return _rewarded(connection, key, connection.execute(_DECISION_LOG, parameters), head)


def newest_plays(connection: Connection, key: int, limit: int = PLAYS_MAX) -> list[PlayRow]:
    """The newest decisions of a campaign, newest first."""
    parameters = {"key_": key, "head": log.SEQUENCE_MAX, "limit_": limit}
    return [PlayRow._make(row) for row in connection.execute(_NEWEST_PLAYS, parameters)]


def newest_decisions(connection: Connection, key: int, limit: int) -> list[RewardedDecision]:
    """The newest decisions of a campaign with their rewards, newest first."""
    statement = _DECISIONS.order_by(*_NEWEST_FIRST).limit(limit)
    return _rewarded(connection, key, connection.execute(statement, {"key_": key}))


def find_decision(connection: Connection, key: int, decision_id: str) -> RewardedDecision | None:
    """One decision of a campaign with its reward."""
    found = connection.execute(_DECISIONS.where(decisions.c.decision_id == decision_id), {"key_": key})
    return next(iter(_rewarded(connection, key, found)), None)


def sample_rewards(connection: Connection, key: int, first: int, head: int) -> list[RewardRow]:
    """The log of a campaign from a row to its head, or `REWARDS_MAX` rows of it in evenly spaced blocks, in order."""
    before, length = first - 1, head - first + 1
    if length <= REWARDS_MAX:
        blocks = [(before, head)]
    else:
        rows = REWARDS_MAX // REWARD_BLOCKS
        starts = (before + length * block // REWARD_BLOCKS for block in range(REWARD_BLOCKS))
        blocks = [(start, start + rows) for start in starts]
    sampled = [
        RewardRow._make(row)
        for after, until in blocks
        for row in connection.execute(_REWARDS, {"key_": key, "after": after, "head": until})
    ]
    return _corrected_rows(connection, key, sampled)


def _corrected_rows(connection: Connection, key: int, rows: list[Rewarded]) -> list[Rewarded]:
    """The rows with what they count as now."""
    if not log.has_amendments(connection, key):
        return rows
    ids = [row.decision_id for row in rows if row.decision_id is not None]
    values = {one: log.value_of(found[-1]) for one, found in log.find_corrections(connection, key, ids).items()}
    return [row._replace(reward=values.get(row.decision_id or "", row.reward)) for row in rows]


def _corrected(connection: Connection, key: int, rows: list[RewardedDecision]) -> list[RewardedDecision]:
    """The decisions with what their rewards count as now, and what they were."""
    if not log.has_amendments(connection, key):
        return rows
    found = log.find_corrections(connection, key, [row.decision.decision_id for row in rows])
    corrected = []
    for row in rows:
        corrections = found.get(row.decision.decision_id)
        if corrections and row.reward is not None:
            last = corrections[-1]
            reward = row.reward._replace(
                reward=log.value_of(last),
                original=row.reward.reward,
                corrected_at=last.observed_at,
                reason=last.detail,
            )
            row = row._replace(reward=reward)  # the same decision
        corrected.append(row)
    return corrected


def _rewarded(
    connection: Connection, key: int, rows: Iterable[Row[Any]], head: int = log.SEQUENCE_MAX
) -> list[RewardedDecision]:
    """The decisions with their rewards up to `head`, as these count now."""
    made = [DecisionRow._make(row) for row in rows]
    found = log.find_observations(connection, [row.identity for row in made])
    learned = {
        identity: LearnedReward(row.arm_id, row.reward, row.source, row.sequence, row.observed_at)
        for identity, row in found.items()
        if row.sequence <= head
    }
    return _corrected(connection, key, [RewardedDecision(row, learned.get(row.identity)) for row in made])
