"""Statements that remove a deleted campaign's rows, a slice at a time."""

from sqlalchemy import Connection, delete, select

from prudent.store.tables import arms, campaigns, decisions, heads, observations, snapshots


def find_deleted(connection: Connection) -> int | None:
    """The key of a campaign that is unlinked but not yet purged."""
    statement = select(campaigns.c.key).where(campaigns.c.status == "deleted").limit(1)
    return connection.execute(statement).scalar()


def purge_slice(connection: Connection, key: int, rows: int) -> bool:
    """Delete at most so many rows of a deleted campaign; True when nothing of it is left.

    The log goes first: a decision that is still there then tells that its log row may be, too.
    """
    sequences = (
        select(observations.c.sequence).where(observations.c.key == key).order_by(observations.c.sequence).limit(rows)
    )
    statement = delete(observations).where(observations.c.key == key, observations.c.sequence.in_(sequences))
    if connection.execute(statement).rowcount:
        return False
    ids = select(decisions.c.decision_id).where(decisions.c.key == key).limit(rows)
    if connection.execute(delete(decisions).where(decisions.c.decision_id.in_(ids))).rowcount:
        return False
    for table in (snapshots, arms, heads):
        connection.execute(delete(table).where(table.c.key == key))
    connection.execute(delete(campaigns).where(campaigns.c.key == key))
    return True
