"""Statements about campaigns: their rows, heads and arms, from staging and creation to removal.

A campaign that is being imported is staged: it has a key and rows but, until the last step, no public id. Without an
id nobody sees it, and its rows get in nobody's way, like those of a deleted campaign. Its ``created_at`` is the time
of the import's last step, which distinguishes an abandoned import from one in progress.
"""

import secrets
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    bindparam,
    cast,
    delete,
    exists,
    extract,
    func,
    insert,
    literal_column,
    null,
    select,
    update,
)

from prudent.store.statements import Lookup, Prepared
from prudent.store.tables import (
    ArmRow,
    arms,
    campaigns,
    categories,
    decisions,
    event_names,
    heads,
    observations,
    snapshots,
)

SUBJECT_KEY_BYTES = 32


class CampaignRow(NamedTuple):
    """A row of ``campaigns`` with its head: the sequence of the last row of its log."""

    key: int
    campaign_id: str | None
    configuration: str
    creation: str
    status: str
    revision: int
    learn_limit: int | None
    created_at: int
    subject_key: bytes | None
    head: int

    @property
    def observations(self) -> int:
        """How many rows of its log the campaign has learned; while it is paused, those up to its learn_limit."""
        return self.head if self.learn_limit is None else min(self.head, self.learn_limit)


class Standing(NamedTuple):
    """What a batch reads of a campaign once its head is locked.

    digest: of the log up to its head; now: the database's clock, if it has one; epoch: which server, database and
    tables these are, in words that differ after a restart, a failover, and a restore: what is held in memory may then
    be more than the database has.
    """

    key: int
    campaign_id: str | None
    status: str
    revision: int
    learn_limit: int | None
    head: int
    digest: bytes | None = None
    now: int | None = None
    epoch: str | None = None


_WITH_HEAD = campaigns.join(heads, heads.c.key == campaigns.c.key)
_ROW = select(*(campaigns.c[name] for name in CampaignRow._fields[:-1]), heads.c.head).select_from(_WITH_HEAD)
# not a join: planned while the log is nearly empty, PostgreSQL reads all of it, and keeps the plan while it grows
_LAST_DIGEST = (
    select(observations.c.digest)
    .where(observations.c.key == heads.c.key, observations.c.sequence == heads.c.head)
    .scalar_subquery()
)
_STANDING_COLUMNS = [*(campaigns.c[name] for name in Standing._fields[:-4]), heads.c.head, _LAST_DIGEST]
_CLOCK_US = cast(extract("epoch", func.clock_timestamp()) * 1_000_000, BigInteger)
# all in the server's memory; a restored table has another file, or another oid if it is in partitions, which have the
# files, and a database recreated from a template has another oid
_EPOCH: ColumnElement[str] = literal_column(
    "concat_ws('/', extract(epoch FROM pg_postmaster_start_time()), "
    "(SELECT oid FROM pg_database WHERE datname = current_database()), "
    "coalesce(pg_relation_filenode('decisions'), 'decisions'::regclass::oid), "
    "coalesce(pg_relation_filenode('observations'), 'observations'::regclass::oid))"
)
_STANDING = {
    "postgresql": Lookup(select(*_STANDING_COLUMNS, _CLOCK_US, _EPOCH).select_from(_WITH_HEAD), campaigns.c.key),
    "sqlite": Lookup(select(*_STANDING_COLUMNS, null(), null()).select_from(_WITH_HEAD), campaigns.c.key),
}
_KEYS = Lookup(select(campaigns.c.campaign_id, campaigns.c.key), campaigns.c.campaign_id)
_HEADS = select(heads.c.key).order_by(heads.c.key)
_LOCK = Lookup(_HEADS.with_for_update(key_share=True), heads.c.key)
_LOCK_FREE_ONES = Lookup(_HEADS.with_for_update(key_share=True, skip_locked=True), heads.c.key)
_SET_HEAD = Prepared(update(heads).where(heads.c.key == bindparam("key_")).values(head=bindparam("head_")))
_ARMS = Lookup(select(*(arms.c[name] for name in ArmRow._fields)).order_by(arms.c.key, arms.c.position), arms.c.key)
_PLAYS = Lookup(select(arms.c.key, arms.c.position, arms.c.plays), arms.c.key)
_ADD_PLAYS = Prepared(
    update(arms)
    .where(arms.c.key == bindparam("key_"), arms.c.position == bindparam("position_"))
    .values(plays=arms.c.plays + bindparam("added"))
)
_IS_STAGED = campaigns.c.campaign_id.is_(None) & (campaigns.c.status != "deleted")


def find_keys(connection: Connection, campaign_ids: Collection[str]) -> dict[str, int]:
    """Internal keys by public id."""
    return {row[0]: row[1] for row in _KEYS.rows(connection, campaign_ids)}


def lock_heads(connection: Connection, keys: Collection[int], *, skip_locked: bool = False) -> set[int]:
    """Lock these campaigns against other workers' learning, in key order; the keys that were locked.

    FOR NO KEY UPDATE on Postgres: it does not conflict with the share lock that a foreign key takes. On SQLite
    the write transaction itself is the lock, so no statement is needed.
    """
    if connection.dialect.name == "sqlite":
        return set(keys)
    lookup = _LOCK_FREE_ONES if skip_locked else _LOCK
    return {row[0] for row in lookup.rows(connection, sorted(keys))}


def read_standings(connection: Connection, keys: Collection[int]) -> dict[int, Standing]:
    """Status, revision, learn limit and head of these campaigns, and the digest of their logs."""
    lookup = _STANDING[connection.dialect.name]
    return {row[0]: Standing._make(row) for row in lookup.rows(connection, sorted(keys))}


def set_heads(connection: Connection, values: dict[int, int]) -> None:
    """Move the heads of campaigns that learned, in key order."""
    _SET_HEAD.execute_many(connection, [{"key_": key, "head_": values[key]} for key in sorted(values)])


def read_campaign(connection: Connection, key: int) -> CampaignRow | None:
    """One campaign by its internal key."""
    row = connection.execute(_ROW.where(campaigns.c.key == key)).first()
    return None if row is None else CampaignRow._make(row)


def find_campaign(connection: Connection, campaign_id: str) -> CampaignRow | None:
    """One campaign by its public id."""
    row = connection.execute(_ROW.where(campaigns.c.campaign_id == campaign_id)).first()
    return None if row is None else CampaignRow._make(row)


def neighbours(connection: Connection, campaign_id: str, count: int) -> list[str]:
    """The ids just before and just after one in their order, at most so many on either side."""
    own = campaigns.c.campaign_id
    before = select(own).where(own < campaign_id).order_by(own.desc()).limit(count)
    after = select(own).where(own > campaign_id).order_by(own).limit(count)
    return sorted([*connection.execute(before).scalars(), *connection.execute(after).scalars()])


def list_campaigns(connection: Connection, *, after: str, limit: int) -> list[CampaignRow]:
    """Campaigns in the order of their ids, after a given one."""
    statement = _ROW.where(campaigns.c.campaign_id > after).order_by(campaigns.c.campaign_id).limit(limit)
    return [CampaignRow._make(row) for row in connection.execute(statement)]


def find_client_side(connection: Connection, limit: int) -> list[str]:
    """The ids of the first campaigns that are flags of web pages and apps, in their order."""
    statement = select(campaigns.c.campaign_id).where(
        campaigns.c.client_side == 1, campaigns.c.campaign_id.is_not(None)
    )
    return list(connection.execute(statement.order_by(campaigns.c.campaign_id).limit(limit)).scalars())


def insert_campaign(connection: Connection, values: dict[str, Any]) -> int:
    """Insert a campaign with its head at 0; its new internal key."""
    key = connection.execute(insert(campaigns).values(values).returning(campaigns.c.key)).scalar_one()
    connection.execute(insert(heads).values(key=key, head=0))
    return int(key)


def update_campaign(connection: Connection, key: int, values: dict[str, Any]) -> None:
    """Change a campaign's row and raise its revision."""
    statement = update(campaigns).where(campaigns.c.key == key)
    connection.execute(statement.values(revision=campaigns.c.revision + 1, **values))


def read_arms(connection: Connection, keys: Collection[int]) -> dict[int, list[ArmRow]]:
    """The arms of these campaigns, in order of registration."""
    found: dict[int, list[ArmRow]] = {key: [] for key in keys}
    for row in _ARMS.rows(connection, sorted(keys)):
        found[row[0]].append(ArmRow._make(row))
    return found


def read_plays(connection: Connection, keys: Collection[int]) -> dict[int, dict[int, int]]:
    """Plays of each arm by position, for these campaigns."""
    found: dict[int, dict[int, int]] = {key: {} for key in keys}
    for key, position, plays in _PLAYS.rows(connection, sorted(keys)):
        found[key][position] = plays
    return found


def subject_key(connection: Connection, key: int) -> tuple[bytes, bool]:
    """What a campaign's subjects are digested with, and whether it was made just now."""
    stored = select(campaigns.c.subject_key).where(campaigns.c.key == key)
    found: bytes | None = connection.execute(stored).scalar()
    if found is not None:
        return found, False
    # on PostgreSQL another worker may come first: then this waits for it, and changes nothing
    made = update(campaigns).where(campaigns.c.key == key, campaigns.c.subject_key.is_(None))
    connection.execute(made.values(subject_key=secrets.token_bytes(SUBJECT_KEY_BYTES)))
    return connection.execute(stored).scalar_one(), True


def insert_arms(connection: Connection, rows: Iterable[ArmRow]) -> None:
    """Register arms."""
    values = [row._asdict() for row in rows]
    if values:
        connection.execute(insert(arms), values)


def update_arm(connection: Connection, key: int, position: int, values: dict[str, Any]) -> None:
    """Change one arm."""
    connection.execute(update(arms).where(arms.c.key == key, arms.c.position == position).values(values))


def add_plays(connection: Connection, added: dict[tuple[int, int], int]) -> None:
    """Add to the plays of arms, by (key, position) and in that order."""
    values = [{"key_": key, "position_": position, "added": added[key, position]} for key, position in sorted(added)]
    _ADD_PLAYS.execute_many(connection, values)


def read_clock(connection: Connection) -> int | None:
    """The database's clock in microseconds since 1970, UTC; None where it has none of its own (SQLite)."""
    if connection.dialect.name != "postgresql":
        return None
    return int(connection.execute(select(_CLOCK_US)).scalar_one())


def describe_server(connection: Connection) -> dict[str, Any]:
    """What tells servers and their histories apart, for an operator; nothing on SQLite."""
    if connection.dialect.name != "postgresql":
        return {}
    identifier: ColumnElement[int] = literal_column("(SELECT system_identifier FROM pg_control_system())")
    segment: ColumnElement[str] = literal_column(
        "pg_walfile_name(pg_current_wal_insert_lsn())"
    )  # begins with the timeline, hexadecimal
    row = connection.execute(select(identifier, segment, _EPOCH)).one()
    return {"system_identifier": str(row[0]), "timeline": int(row[1][:8], 16), "epoch": row[2]}


def stage(connection: Connection, values: dict[str, Any], now: int) -> int:
    """Insert a campaign that nobody sees yet; its new internal key."""
    return insert_campaign(connection, {**values, "campaign_id": None, "created_at": now})


def keep_staged(connection: Connection, key: int, now: int) -> bool:
    """Note that the import makes progress, and lock it against being abandoned; False if that has happened."""
    statement = update(campaigns).where(campaigns.c.key == key, _IS_STAGED).values(created_at=now)
    return connection.execute(statement).rowcount > 0


def publish_staged(connection: Connection, key: int, campaign_id: str, created_at: int) -> bool:
    """Let everybody see it; False if it was abandoned. Raises IntegrityError if the id is taken."""
    statement = update(campaigns).where(campaigns.c.key == key, _IS_STAGED)
    return connection.execute(statement.values(campaign_id=campaign_id, created_at=created_at)).rowcount > 0


def abandon_staged(connection: Connection, key: int) -> None:
    """Leave an unfinished import to be purged like a deleted campaign. A complete one is not touched."""
    connection.execute(update(campaigns).where(campaigns.c.key == key, _IS_STAGED).values(status="deleted"))


def has_idle_staged(connection: Connection, since: int) -> bool:
    """Whether an unfinished import has made no step since then."""
    statement = select(exists().where(_IS_STAGED, campaigns.c.created_at < since))
    return bool(connection.execute(statement).scalar_one())


def abandon_idle_staged(connection: Connection, since: int) -> None:
    """Leave imports that have made no step since then to be purged."""
    statement = update(campaigns).where(_IS_STAGED, campaigns.c.created_at < since)
    connection.execute(statement.values(status="deleted"))


def find_served(connection: Connection, after: int) -> tuple[int, str, int] | None:
    """Key, public id and head of the first campaign with a key above this one that has a public id."""
    statement = select(campaigns.c.key, campaigns.c.campaign_id, heads.c.head).select_from(_WITH_HEAD)
    statement = statement.where(campaigns.c.key > after, campaigns.c.campaign_id.is_not(None))
    row = connection.execute(statement.order_by(campaigns.c.key).limit(1)).first()
    return None if row is None else (row[0], row[1], row[2])


def find_deleted(connection: Connection) -> int | None:
    """The key of a campaign that is deleted but not yet purged."""
    statement = select(campaigns.c.key).where(campaigns.c.status == "deleted").limit(1)
    return connection.execute(statement).scalar()


def purge_slice(connection: Connection, key: int, rows: int) -> bool:
    """Delete at most so many rows of a deleted campaign; True when nothing of it is left.

    The log goes first: as long as a decision is there, its log row may be, too.
    """
    sequences = (
        select(observations.c.sequence).where(observations.c.key == key).order_by(observations.c.sequence).limit(rows)
    )
    statement = delete(observations).where(observations.c.key == key, observations.c.sequence.in_(sequences))
    if connection.execute(statement).rowcount:
        return False
    ids = select(decisions.c.decision_id).where(decisions.c.key == key).limit(rows)
    if connection.execute(delete(decisions).where(decisions.c.key == key, decisions.c.decision_id.in_(ids))).rowcount:
        return False
    for table in (snapshots, categories, event_names, arms, heads):
        connection.execute(delete(table).where(table.c.key == key))
    connection.execute(delete(campaigns).where(campaigns.c.key == key))
    return True
