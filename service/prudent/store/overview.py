"""Statements of the dashboard: what it reads of a campaign has a bound, however long the campaign has run."""

from typing import NamedTuple

from sqlalchemy import Connection, bindparam, select

from prudent.store.log import IS_OBSERVATION, IS_OF_DECISION
from prudent.store.tables import decisions, observations

PLAYS_MAX = 10_000
"""Newest decisions that are read."""
REWARDS_MAX = 10_000
"""Rows of the log that are read: all of a shorter log, of a longer one as many from all over it."""
REWARD_BLOCKS = 100
"""From so many places."""


class PlayRow(NamedTuple):
    """What the dashboard reads of each of many decisions. answered: the sequence of its reward, or None."""

    created_at: int
    arm_id: str
    greedy_arm_id: str
    recommended_arm_id: str | None
    answered: int | None


class RewardRow(NamedTuple):
    """What it reads of each of many rows of the log."""

    sequence: int
    arm_id: str
    reward: float


class RecentRow(NamedTuple):
    """A decision with its reward, None while there is none. rewarded_arm_id: of the log, where it is another arm."""

    decision_id: str
    created_at: int
    arm_id: str
    features: bytes
    estimate: float
    bonus: float
    index_value: float
    reason: str
    greedy_arm_id: str
    recommended_arm_id: str | None
    propensity: float | None
    seen: int
    explanation: str | None
    reward: float | None
    sequence: int | None
    source: str | None
    rewarded_arm_id: str | None
    observed_at: int | None


_WITH_REWARD = decisions.outerjoin(observations, IS_OF_DECISION)
_NEWEST_FIRST = decisions.c.created_at.desc(), decisions.c.decision_id.desc()
_PLAYS = (
    select(*(decisions.c[name] for name in PlayRow._fields[:-1]), observations.c.sequence)
    .select_from(_WITH_REWARD)
    .where(decisions.c.key == bindparam("key_"))
    .order_by(*_NEWEST_FIRST)
    .limit(bindparam("limit_"))
)
_RECENT = (
    select(
        *(decisions.c[name] for name in RecentRow._fields[:13]),
        observations.c.reward,
        observations.c.sequence,
        observations.c.source,
        observations.c.arm_id.label("rewarded_arm_id"),
        observations.c.observed_at,
    )
    .select_from(_WITH_REWARD)
    .where(decisions.c.key == bindparam("key_"))
)
_BLOCK = (
    select(*(observations.c[name] for name in RewardRow._fields))
    .where(
        observations.c.key == bindparam("key_"),
        observations.c.sequence > bindparam("after"),
        observations.c.sequence <= bindparam("until"),
        IS_OBSERVATION,
    )
    .order_by(observations.c.sequence)
)


def newest_plays(connection: Connection, key: int, limit: int = PLAYS_MAX) -> list[PlayRow]:
    """The newest decisions of a campaign, newest first."""
    return [PlayRow._make(row) for row in connection.execute(_PLAYS, {"key_": key, "limit_": limit})]


def recent_decisions(connection: Connection, key: int, limit: int) -> list[RecentRow]:
    """The newest decisions of a campaign with their rewards, newest first."""
    statement = _RECENT.order_by(*_NEWEST_FIRST).limit(limit)
    return [RecentRow._make(row) for row in connection.execute(statement, {"key_": key})]


def find_decision(connection: Connection, key: int, decision_id: str) -> RecentRow | None:
    """One decision of a campaign with its reward."""
    row = connection.execute(_RECENT.where(decisions.c.decision_id == decision_id), {"key_": key}).first()
    return None if row is None else RecentRow._make(row)


def sample_rewards(connection: Connection, key: int, head: int) -> list[RewardRow]:
    """The log of a campaign up to its head, or `REWARDS_MAX` rows of it in evenly spaced blocks, in order."""
    if head <= REWARDS_MAX:
        blocks = [(0, head)]
    else:
        rows = REWARDS_MAX // REWARD_BLOCKS
        starts = (head * block // REWARD_BLOCKS for block in range(REWARD_BLOCKS))
        blocks = [(start, start + rows) for start in starts]
    return [
        RewardRow._make(row)
        for after, until in blocks
        for row in connection.execute(_BLOCK, {"key_": key, "after": after, "until": until})
    ]
