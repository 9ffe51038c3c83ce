"""Statements of reports: pages by key, each short, so that a long report holds no transaction open."""

from typing import NamedTuple

from sqlalchemy import BindParameter, Connection, and_, bindparam, select, tuple_

from prudent.store.log import IS_OBSERVATION, IS_OF_DECISION
from prudent.store.tables import INSTANT, NAME, decisions, observations

_AT_HEAD: BindParameter[int] = bindparam("head")


class RewardRow(NamedTuple):
    """What a report reads of a row of the log. decision_id: None for an observation made elsewhere."""

    sequence: int
    arm_id: str
    reward: float
    source: str
    decision_id: str | None


class PlayRow(NamedTuple):
    """What a report reads of a decision. rewarded_arm_id: the arm that its reward was learned for; None without."""

    created_at: int
    decision_id: str
    arm_id: str
    recommended_arm_id: str | None
    due_at: int | None
    rewarded_arm_id: str | None


class TrailRow(NamedTuple):
    """A decision with its reward, if it has one. features: little-endian float64 bytes; times as in the tables."""

    decision_id: str
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
    created_at: int
    due_at: int | None
    explained: bool
    rewarded_arm_id: str | None
    reward: float | None
    source: str | None
    sequence: int | None
    observed_at: int | None


class ChoiceRow(NamedTuple):
    """How a decision was made."""

    arm_id: str
    greedy_arm_id: str
    recommended_arm_id: str | None


_REWARDS = (
    select(*(observations.c[name] for name in RewardRow._fields))
    .where(
        observations.c.key == bindparam("key_"),
        observations.c.sequence > bindparam("after"),
        observations.c.sequence <= _AT_HEAD,
        IS_OBSERVATION,
    )
    .order_by(observations.c.sequence)
    .limit(bindparam("limit_"))
)
_WITH_REWARD = decisions.outerjoin(observations, and_(IS_OF_DECISION, observations.c.sequence <= _AT_HEAD))
_REWARDED_ARM = observations.c.arm_id.label("rewarded_arm_id")
_ORDER = decisions.c.created_at, decisions.c.decision_id
_PLAYS = (
    select(
        *(decisions.c[name] for name in PlayRow._fields[:-1]),
        _REWARDED_ARM,
    )
    .select_from(_WITH_REWARD)
    .where(
        decisions.c.key == bindparam("key_"),
        tuple_(*_ORDER) > tuple_(bindparam("after", type_=INSTANT), bindparam("after_id", type_=NAME)),
        decisions.c.created_at <= bindparam("until"),
    )
    .order_by(*_ORDER)
    .limit(bindparam("limit_"))
)
_CHOICES = (
    select(*(decisions.c[name] for name in ChoiceRow._fields))
    .where(decisions.c.key == bindparam("key_"))
    .order_by(*(column.desc() for column in _ORDER))
    .limit(bindparam("limit_"))
)
_TRAIL = (
    select(
        *(decisions.c[name] for name in TrailRow._fields[:13]),
        decisions.c.explanation.is_not(None).label("explained"),
        _REWARDED_ARM,
        *(observations.c[name] for name in TrailRow._fields[15:]),
    )
    .select_from(_WITH_REWARD)
    .where(
        decisions.c.key == bindparam("key_"),
        tuple_(*_ORDER) < tuple_(bindparam("before", type_=INSTANT), bindparam("before_id", type_=NAME)),
    )
    .order_by(*(column.desc() for column in _ORDER))
    .limit(bindparam("limit_"))
)


def read_rewards(connection: Connection, key: int, after: int, head: int, limit: int) -> list[RewardRow]:
    """A page of a campaign's log with after < sequence <= head, in order."""
    parameters = {"key_": key, "after": after, "head": head, "limit_": limit}
    return [RewardRow._make(row) for row in connection.execute(_REWARDS, parameters).all()]


def read_plays(
    connection: Connection, key: int, after: tuple[int, str], until: int, head: int, limit: int
) -> list[PlayRow]:
    """A page of a campaign's decisions after (created_at, id), made by `until`, with their rewards up to `head`."""
    parameters = {"key_": key, "after": after[0], "after_id": after[1], "until": until, "head": head, "limit_": limit}
    return [PlayRow._make(row) for row in connection.execute(_PLAYS, parameters).all()]


def read_last_choices(connection: Connection, key: int, limit: int) -> list[ChoiceRow]:
    """How the newest decisions of a campaign were made, newest first."""
    return [ChoiceRow._make(row) for row in connection.execute(_CHOICES, {"key_": key, "limit_": limit})]


def read_trail(connection: Connection, key: int, before: tuple[int, str], head: int, limit: int) -> list[TrailRow]:
    """A campaign's decisions before (created_at, id), newest first, with their rewards up to `head`."""
    parameters = {"key_": key, "before": before[0], "before_id": before[1], "head": head, "limit_": limit}
    return [TrailRow._make(row) for row in connection.execute(_TRAIL, parameters).all()]
