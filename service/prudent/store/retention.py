"""Statements that delete decisions which a campaign keeps no longer. Rewards stay in the log, without their decisions.

``campaigns.pruned`` counts the rewards whose decision has gone so: `verify` finds a fault in every further one.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, delete, func, select, update

from prudent.store.log import IS_OBSERVATION
from prudent.store.tables import campaigns, decisions, observations


def find_retaining(connection: Connection, after: int, limit: int) -> list[tuple[int, int]]:
    """Key and retention_days of the next campaigns that do not keep their decisions for ever, after a key."""
    statement = select(campaigns.c.key, campaigns.c.retention_days).where(
        campaigns.c.retention_days > 0, campaigns.c.key > after, campaigns.c.campaign_id.is_not(None)
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
    """So many more rewards of a campaign have no decision (fewer, if negative)."""
    if count:
        statement = update(campaigns).where(campaigns.c.key == key)
        connection.execute(statement.values(pruned=campaigns.c.pruned + count))
