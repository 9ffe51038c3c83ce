"""Statements about the trail: who changed what."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from sqlalchemy import Connection, insert, select, update

from prudent.store.tables import trail


class TrailRow(NamedTuple):
    """A row of ``trail``, as `prudent.store.tables` describes it, without its number."""

    at: int
    key: int | None
    campaign_id: str | None
    author: str | None
    via: str
    action: str
    subject: str | None
    detail: str | None


_COLUMNS = [trail.c[name] for name in TrailRow._fields]


def append(connection: Connection, rows: Iterable[TrailRow]) -> None:
    """Note changes, in their order."""
    connection.execute(insert(trail), [row._asdict() for row in rows])


def latest_of_campaign(connection: Connection, key: int, limit: int) -> list[TrailRow]:
    """The last changes of a campaign, newest first."""
    found = select(*_COLUMNS).where(trail.c.key == key).order_by(trail.c.number.desc()).limit(limit)
    return [TrailRow(*row) for row in connection.execute(found)]


def latest(connection: Connection, limit: int) -> list[TrailRow]:
    """The last changes of whatever, newest first."""
    found = select(*_COLUMNS).order_by(trail.c.number.desc()).limit(limit)
    return [TrailRow(*row) for row in connection.execute(found)]


def forget_subjects(connection: Connection, key: int, subjects: Collection[str]) -> None:
    """Take the names of what was erased out of a campaign's trail."""
    named = (trail.c.key == key) & trail.c.subject.in_(subjects)
    connection.execute(update(trail).where(named).values(subject=None))
