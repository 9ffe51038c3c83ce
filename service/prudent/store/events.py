"""Statements about which campaigns learn from which events."""

from collections.abc import Collection, Iterable

from sqlalchemy import Connection, insert, select

from prudent.store.statements import Lookup
from prudent.store.tables import campaigns, event_names

_CAMPAIGNS = Lookup(
    select(event_names.c.name, campaigns.c.campaign_id)
    .join(campaigns, campaigns.c.key == event_names.c.key)
    .where(campaigns.c.campaign_id.is_not(None))
    .order_by(campaigns.c.campaign_id),
    event_names.c.name,
)


def insert_names(connection: Connection, key: int, names: Iterable[str]) -> None:
    """Have a campaign learn from these events."""
    values = [{"name": name, "key": key} for name in sorted(names)]
    if values:
        connection.execute(insert(event_names), values)


def find_campaigns(connection: Connection, names: Collection[str]) -> dict[str, list[str]]:
    """The public ids of the campaigns that learn from each of these events, sorted."""
    found: dict[str, list[str]] = {}
    for name, campaign_id in _CAMPAIGNS.rows(connection, names):
        found.setdefault(name, []).append(campaign_id)
    return found
