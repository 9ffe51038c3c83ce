"""Statements that delete what a campaign keeps no longer: decisions, and rows of the log that a snapshot replaces.

``campaigns.pruned`` counts the rewards in the log whose decision has gone so: `verify` finds a fault in every further
one.
"""

from collections.abc import Sequence

from sqlalchemy import Column, Connection, delete, func, select, update

from prudent.store.log import IS_OBSERVATION, IS_OF_DECISION, append
from prudent.store.tables import LogRow, campaigns, decisions, observations

LOOKED_AT_MAX = 1_000_000
"""Rows of a log among which old ones are looked for at a time."""


def find_retaining(connection: Connection, after: int, limit: int) -> list[tuple[int, int]]:
    """Key and retention_days of the next campaigns that do not keep their decisions for ever, after a key."""
    return _find(connection, campaigns.c.retention_days, after, limit)


def find_compacting(connection: Connection, after: int, limit: int) -> list[tuple[int, int]]:
    """Key and log_retention_days of the next campaigns that do not keep their log for ever, after a key."""
    return _find(connection, campaigns.c.log_retention_days, after, limit)


def _find(connection: Connection, days: Column[int], after: int, limit: int) -> list[tuple[int, int]]:
    # who does not keep the log does not keep decisions either, by which there is an index
    statement = select(campaigns.c.key, days).where(
        campaigns.c.retention_days > 0, days > 0, campaigns.c.key > after, campaigns.c.campaign_id.is_not(None)
    )
    return [(row[0], row[1]) for row in connection.execute(statement.order_by(campaigns.c.key).limit(limit))]


def find_old(connection: Connection, key: int, before: int, limit: int) -> list[str]:
    """Ids of a campaign's oldest decisions, of those made before an instant; none that still awaits its deadline."""
    statement = select(decisions.c.decision_id).where(
        decisions.c.key == key, decisions.c.created_at < before, decisions.c.due_at.is_(None)
    )
    ordered = statement.order_by(decisions.c.created_at, decisions.c.decision_id).limit(limit)
    return list(connection.execute(ordered).scalars())


def prune(connection: Connection, key: int, ids: Sequence[str]) -> None:
    """Delete decisions of a campaign, and count those that had a reward; another worker may have deleted some."""
    is_own = (decisions.c.key == key) & decisions.c.decision_id.in_(ids)
    gone = connection.execute(delete(decisions).where(is_own).returning(decisions.c.decision_id)).scalars().all()
    of_these = (observations.c.key == key) & IS_OBSERVATION & observations.c.decision_id.in_(gone)
    count = select(func.count()).select_from(observations).where(of_these)
    add_pruned(connection, key, connection.execute(count).scalar_one())


def add_pruned(connection: Connection, key: int, count: int) -> None:
    """So many more rewards of a campaign have no decision (fewer, if negative, but never less than none)."""
    if count:
        statement = update(campaigns).where(campaigns.c.key == key, campaigns.c.pruned + count >= 0)
        connection.execute(statement.values(pruned=campaigns.c.pruned + count))


def find_old_rows(connection: Connection, key: int, after: int, head: int, before: int) -> int:
    """The last row of a log, among those after one, up to which all were appended before an instant; 0 for none.

    head: which has been read before, since of rows that come meanwhile, one query may see what the other has not.
    Warm starts bring times of their own, and what is left of an erased row has none: they are as old as what follows.
    """
    rows = select(observations.c.sequence).where(
        observations.c.key == key,
        observations.c.sequence > after,
        observations.c.sequence <= min(head, after + LOOKED_AT_MAX),
        observations.c.source != "warm-start",
        observations.c.observed_at > 0,
    )
    young = rows.where(observations.c.observed_at >= before).order_by(observations.c.sequence).limit(1)
    first = connection.execute(young).scalar()
    old = rows if first is None else rows.where(observations.c.sequence < first)
    return connection.execute(old.order_by(observations.c.sequence.desc()).limit(1)).scalar() or 0


def compact(connection: Connection, beginning: LogRow) -> None:
    """Replace the rows of a log up to this one's place by it. The campaign's head is locked."""
    is_old = (observations.c.key == beginning.key) & (observations.c.sequence <= beginning.sequence)
    # a subquery, not a join: see `prudent.store.reports`
    made = select(decisions.c.key).where(IS_OF_DECISION).correlate(observations).scalar_subquery().label("made")
    rewards = select(made).where(is_old, IS_OBSERVATION, observations.c.decision_id.is_not(None)).subquery()
    gone = connection.execute(select(func.count()).select_from(rewards).where(rewards.c.made.is_(None))).scalar_one()
    connection.execute(delete(observations).where(is_old))
    append(connection, [beginning])
    add_pruned(connection, beginning.key, -gone)
