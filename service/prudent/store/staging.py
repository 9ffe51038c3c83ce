"""Statements about campaigns that are being imported: a key with rows and, until the last step, no public id.

Without an id nobody sees them, and their rows stand in nobody's way, like those of a deleted campaign. Their
``created_at`` is the time of the import's last step: one that has stopped is thereby told from one that goes on.
"""

from typing import Any

from sqlalchemy import Connection, exists, select, update

from prudent.store.campaigns import insert_campaign
from prudent.store.tables import campaigns

_IS_STAGED = campaigns.c.campaign_id.is_(None) & (campaigns.c.status != "deleted")


def stage(connection: Connection, values: dict[str, Any], now: int) -> int:
    """Insert a campaign that nobody sees yet; its new internal key."""
    return insert_campaign(connection, {**values, "campaign_id": None, "created_at": now})


def keep(connection: Connection, key: int, now: int) -> bool:
    """Note that the import goes on, and lock it against being given up; False if that has happened."""
    statement = update(campaigns).where(campaigns.c.key == key, _IS_STAGED).values(created_at=now)
    return connection.execute(statement).rowcount > 0


def publish(connection: Connection, key: int, campaign_id: str, created_at: int) -> bool:
    """Let everybody see it; False if it was given up. Raises IntegrityError where the id is taken."""
    statement = update(campaigns).where(campaigns.c.key == key, _IS_STAGED)
    return connection.execute(statement.values(campaign_id=campaign_id, created_at=created_at)).rowcount > 0


def give_up(connection: Connection, key: int) -> None:
    """Leave an unfinished import to be purged as a deleted campaign is. One that is complete is not touched."""
    connection.execute(update(campaigns).where(campaigns.c.key == key, _IS_STAGED).values(status="deleted"))


def is_any_idle(connection: Connection, since: int) -> bool:
    """Whether an unfinished import has made no step since then."""
    statement = select(exists().where(_IS_STAGED, campaigns.c.created_at < since))
    return bool(connection.execute(statement).scalar_one())


def give_up_idle(connection: Connection, since: int) -> None:
    """Leave imports that have made no step since then to be purged."""
    statement = update(campaigns).where(_IS_STAGED, campaigns.c.created_at < since)
    connection.execute(statement.values(status="deleted"))
