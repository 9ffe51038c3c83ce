"""Statements about the log of observations, its running digest, and the snapshots that give its fold a head start.

Each row carries a digest of itself and of the digest before it, so that a row that was changed, lost or moved after it
was appended is found: by itself, or by the row that follows it. It is no signature; whoever can write rows can compute
it. Rows of a version that had no digests have none, and the next row begins anew. Of a row that was erased, only its
place and its digest are left: the row after it still follows from them. The same goes for the snapshot with which a log
begins whose older rows were replaced by it.
"""

import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from hashlib import blake2b
from operator import attrgetter
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection, and_, bindparam, delete, func, insert, literal_column, select, text, true, update

from prudent.store.statements import Insertion, Lookup, PairLookup
from prudent.store.tables import (
    CONFIGURATION,
    ERASURE,
    OBSERVATION,
    DecisionKey,
    LogRow,
    SnapshotRow,
    campaigns,
    decisions,
    heads,
    observations,
    snapshots,
)

PAGE_ROWS = 5_000
DIGEST_BYTES = 16
SEQUENCE_MAX = 2**63 - 1
_PACK = struct.Struct("<dd").pack
_NAN = float("nan")
SNAPSHOT = "snapshot"
"""The setting of a row with which a log begins."""
_BEGINNING = f'{{"{SNAPSHOT}":'


class Counts(NamedTuple):
    """How many rows of a log are rewards, and how many correct one or take it back."""

    rewards: int
    corrections: int


class FoldRow(NamedTuple):
    """What a fold reads of a log row."""

    sequence: int
    arm_id: str
    features: bytes
    reward: float
    decision_id: str | None
    observed_at: int
    kind: str
    detail: str | None


_folded = attrgetter(*FoldRow._fields)
_COLUMNS = [observations.c[name] for name in LogRow._fields]
# a literal, not a parameter: the index with decision_id is partial, and the planner must see that it applies
IS_OBSERVATION = observations.c.kind == literal_column(f"'{OBSERVATION}'")
IS_OF_DECISION = and_(
    observations.c.key == decisions.c.key, observations.c.decision_id == decisions.c.decision_id, IS_OBSERVATION
)
"""Joins a decision with its row of the log, if it has one."""
_BY_DECISION = PairLookup(select(*_COLUMNS).where(IS_OBSERVATION), observations.c.key, observations.c.decision_id)
_BY_OBSERVATION_ID = Lookup(
    select(*_COLUMNS).where(observations.c.key == bindparam("key")), observations.c.observation_id
)
_INSERTION = Insertion(observations, LogRow._fields)
_PAGE = (
    select(*(observations.c[name] for name in FoldRow._fields))
    .where(
        observations.c.key == bindparam("key_"),
        observations.c.sequence > bindparam("after"),
        observations.c.sequence <= bindparam("until"),
    )
    .order_by(observations.c.sequence)
    .limit(PAGE_ROWS)
)
# literals as above
_IS_AMENDMENT = observations.c.kind != literal_column(f"'{OBSERVATION}'")
_AMENDMENTS = (
    select(*(observations.c[name] for name in FoldRow._fields))
    .where(observations.c.key == bindparam("key_"), observations.c.sequence <= bindparam("until"), _IS_AMENDMENT)
    .order_by(observations.c.sequence)
)
_IS_BEGINNING = observations.c.detail.like(f"{_BEGINNING}%")
_SETTINGS = _AMENDMENTS.where(observations.c.kind == CONFIGURATION, ~_IS_BEGINNING)
_FIRST_AMENDMENT = (
    select(observations.c.sequence).where(observations.c.key == bindparam("key_"), _IS_AMENDMENT).limit(1)
)
_COUNTS = select(func.count(), func.count(observations.c.decision_id)).where(
    observations.c.key == bindparam("key_"),
    observations.c.sequence > bindparam("after"),
    observations.c.sequence <= bindparam("until"),
    _IS_AMENDMENT,
    func.coalesce(~_IS_BEGINNING, true()),
)
_CORRECTIONS = Lookup(
    select(*(observations.c[name] for name in FoldRow._fields))
    .where(observations.c.key == bindparam("key"), _IS_AMENDMENT)
    .order_by(observations.c.sequence),
    observations.c.decision_id,
)
_AMENDED = Lookup(
    select(*_COLUMNS).where(observations.c.key == bindparam("key"), _IS_AMENDMENT), observations.c.decision_id
)
_WHOLE_ROWS = (
    select(*_COLUMNS)
    .where(
        observations.c.key == bindparam("key_"),
        observations.c.sequence > bindparam("after"),
        observations.c.sequence <= bindparam("until"),
    )
    .order_by(observations.c.sequence)
    .limit(bindparam("limit_"))
)


def digest_of(before: bytes | None, row: LogRow) -> bytes:
    """The running digest of a log whose last row is this one. before: the digest up to the row before it.

    Everything but the key is covered, which is another one where the campaign is moved to. -0.0 counts as 0.0, which
    SQLite makes of it.
    """
    sequence, kind, decision_id, observation_id, arm_id, features, reward, source, propensity, observed_at = row[1:11]
    hashed = blake2b(before or b"", digest_size=DIGEST_BYTES)
    hashed.update(orjson.dumps((sequence, kind, decision_id, observation_id, arm_id, source, observed_at)))
    hashed.update(_PACK(reward + 0.0, _NAN if propensity is None else propensity) + features)
    if row.detail is not None:
        hashed.update(row.detail.encode())
    return hashed.digest()


def erased(row: LogRow) -> LogRow:
    """What is left of a row that was erased: its place, and the digest from which that of the next row follows."""
    return LogRow(row.key, row.sequence, ERASURE, None, None, "", b"", 0.0, "reward", None, 0, row.digest, None)


def is_erased(row: LogRow | FoldRow) -> bool:
    """Whether a row was erased, with whatever it had said. The row that tells of an erasure says how much it was."""
    return row.kind == ERASURE and row.decision_id is None and row.detail is None


def begin_with(row: LogRow, state: dict[str, Any]) -> LogRow:
    """What replaces a row and those before it: their last place and digest, and a snapshot of what they have taught."""
    detail = orjson.dumps({SNAPSHOT: state}).decode()
    return erased(row)._replace(kind=CONFIGURATION, observed_at=row.observed_at, detail=detail)


def is_beginning(row: LogRow | FoldRow) -> bool:
    """Whether a row is the snapshot with which a log begins."""
    return row.kind == CONFIGURATION and row.detail is not None and row.detail.startswith(_BEGINNING)


def find_changed(rows: Sequence[LogRow], before: bytes | None) -> list[int]:
    """Sequence numbers of rows whose digest does not follow from them and the digest before them.

    rows: consecutive; before: the digest of the row before the first. Rows without a digest say nothing.
    """
    changed = []
    for row in rows:
        try:
            if is_erased(row):
                is_changed = row != erased(row)
            elif is_beginning(row):
                is_changed = before is not None
            else:
                is_changed = row.digest is not None and row.digest != digest_of(before, row)
        except (TypeError, struct.error):  # SQLite returns text where a number was, if that is what the page says
            is_changed = True
        if is_changed:
            changed.append(row.sequence)
        before = row.digest
    return changed


def describe_changed(changed: Sequence[int]) -> str:
    """What `find_changed` has found, as a fault."""
    which = f"row {changed[0]}" if len(changed) == 1 else f"{len(changed)} rows, the first of them {changed[0]},"
    return f"{which} of the log or the row before it was changed after it was appended"


def fold_row(row: LogRow) -> FoldRow:
    """What a fold reads of this row."""
    return FoldRow(
        row.sequence, row.arm_id, row.features, row.reward, row.decision_id, row.observed_at, row.kind, row.detail
    )


def find_observations(connection: Connection, wanted: Collection[DecisionKey]) -> dict[DecisionKey, LogRow]:
    """The rewards of these decisions, as far as there are any."""
    rows = (LogRow._make(row) for row in _BY_DECISION.rows(connection, wanted))
    return {(row.key, row.decision_id): row for row in rows if row.decision_id is not None}


def find_observations_by_id(connection: Connection, key: int, observation_ids: Collection[str]) -> dict[str, LogRow]:
    """The log rows of a campaign with these ids: of warm starts, as clients gave them, and of events."""
    rows = (LogRow._make(row) for row in _BY_OBSERVATION_ID.rows(connection, observation_ids, key=key))
    return {row.observation_id: row for row in rows if row.observation_id is not None}


def read_amendments(connection: Connection, key: int, until: int) -> list[FoldRow]:
    """The rows of a campaign's log that are no observations, with sequence <= until, in order."""
    return [FoldRow._make(row) for row in connection.execute(_AMENDMENTS, {"key_": key, "until": until})]


def read_settings(connection: Connection, key: int, until: int) -> list[FoldRow]:
    """The settings of the fold in a campaign's log, with sequence <= until, in order; not what the log begins with."""
    return [FoldRow._make(row) for row in connection.execute(_SETTINGS, {"key_": key, "until": until})]


def has_amendments(connection: Connection, key: int) -> bool:
    """Whether a campaign's log has rows that are no observations."""
    return connection.execute(_FIRST_AMENDMENT, {"key_": key}).first() is not None


def count_rewards(connection: Connection, key: int, after: int, until: int) -> Counts:
    """The rewards and corrections in a campaign's log with after < sequence <= until, at the cost of the latter.

    All rows that a snapshot has replaced count as rewards: nobody knows any more how many of them were.
    """
    amendments, corrections = connection.execute(_COUNTS, {"key_": key, "after": after, "until": until}).one()
    return Counts(until - after - amendments, corrections)


def value_of(row: FoldRow) -> float | None:
    """What a reward counts as after this correction or erasure."""
    return None if row.kind == ERASURE else row.reward


def find_corrections(connection: Connection, key: int, decision_ids: Collection[str]) -> dict[str, list[FoldRow]]:
    """The corrections and erasures of these decisions' rewards, oldest first, by decision id."""
    found: dict[str, list[FoldRow]] = {}
    for row in map(FoldRow._make, _CORRECTIONS.rows(connection, decision_ids, key=key)):
        found.setdefault(row.decision_id or "", []).append(row)
    for rows in found.values():
        rows.sort()
    return found


def read_places(connection: Connection, key: int, after: tuple[int, str], limit: int) -> list[tuple[int, str]]:
    """Sequence and decision, "" for none, of at most so many rows of a campaign's log, in order, after such a place."""
    statement = select(observations.c.sequence, func.coalesce(observations.c.decision_id, "")).where(
        observations.c.key == key, observations.c.sequence > after[0]
    )
    return [(row[0], row[1]) for row in connection.execute(statement.order_by(observations.c.sequence).limit(limit))]


def find_rows(connection: Connection, key: int, decision_ids: Collection[str]) -> list[LogRow]:
    """All rows of a campaign's log that are about these decisions: their rewards, and corrections of them."""
    rewarded = find_observations(connection, [(key, one) for one in decision_ids])
    return [*rewarded.values()] + [LogRow._make(row) for row in _AMENDED.rows(connection, decision_ids, key=key)]


def overwrite(connection: Connection, rows: Iterable[LogRow]) -> None:
    """Store these rows in place of those at their places."""
    for row in rows:
        place = observations.c.key == row.key, observations.c.sequence == row.sequence
        connection.execute(update(observations).where(*place).values(row._asdict()))


def append(connection: Connection, rows: Iterable[LogRow]) -> None:
    """Append to the logs, in key and sequence order."""
    _INSERTION.execute(connection, sorted(rows, key=lambda row: (row.key, row.sequence)))


def read_page(connection: Connection, key: int, after: int, until: int) -> list[FoldRow]:
    """At most PAGE_ROWS rows of a campaign's log, with after < sequence <= until, in order."""
    parameters = {"key_": key, "after": after, "until": until}
    return [FoldRow._make(row) for row in connection.execute(_PAGE, parameters)]


def read_rows(connection: Connection, key: int, after: int, until: int, limit: int) -> list[LogRow]:
    """At most so many whole rows of a campaign's log, with after < sequence <= until, in order."""
    parameters = {"key_": key, "after": after, "until": until, "limit_": limit}
    return [LogRow._make(row) for row in connection.execute(_WHOLE_ROWS, parameters)]


def read_log(connection: Connection, key: int, after: int, until: int) -> Iterator[FoldRow]:
    """All rows of a campaign's log with after < sequence <= until, in order, page by page."""
    while after < until:
        page = read_page(connection, key, after, until)
        if not page:
            return
        yield from page
        after = page[-1].sequence


def find_beginning(connection: Connection, key: int) -> LogRow | None:
    """The snapshot with which a campaign's log begins, if its older rows were replaced by one."""
    first = next(iter(read_rows(connection, key, 0, SEQUENCE_MAX, 1)), None)
    return first if first is not None and is_beginning(first) else None


def describe_gaps(connection: Connection, key: int, head: int) -> str | None:
    """What is wrong with the sequence numbers of a log up to its head; None if they are whole."""
    statement = select(func.count(), func.min(observations.c.sequence), func.max(observations.c.sequence))
    count, first, last = connection.execute(
        statement.where(observations.c.key == key, observations.c.sequence <= head)
    ).one()
    beginning = find_beginning(connection, key)
    should = 1 if beginning is None else beginning.sequence
    if head and (count, first, last) != (head - should + 1, should, head):
        return f"the log should be {should} to {head}, but has {count} rows from {first} to {last}"
    return None


def count_warm_starts(connection: Connection, key: int) -> dict[str, int]:
    """How many warm-start observations each arm of a campaign has."""
    statement = (
        select(observations.c.arm_id, func.count())
        .where(observations.c.key == key, observations.c.source == "warm-start")
        .group_by(observations.c.arm_id)
    )
    return {row[0]: row[1] for row in connection.execute(statement)}


def find_snapshot(connection: Connection, key: int) -> SnapshotRow | None:
    """The campaign's snapshot, if it has one."""
    columns = [snapshots.c[name] for name in SnapshotRow._fields]
    row = connection.execute(select(*columns).where(snapshots.c.key == key)).first()
    return None if row is None else SnapshotRow._make(row)


def delete_snapshot(connection: Connection, key: int) -> None:
    """Delete a campaign's snapshot, if it has one."""
    connection.execute(delete(snapshots).where(snapshots.c.key == key))


def write_snapshot(connection: Connection, snapshot: SnapshotRow) -> None:
    """Store a snapshot unless it lies beyond the log, or a later one is stored that does not.

    One of the same sequence is replaced: it may be corrupt. A state that is ahead of the log was learned before the
    database became another one, as after a failover.
    """
    is_key = snapshots.c.key == snapshot.key
    stored = connection.execute(select(snapshots.c.sequence).where(is_key)).scalar()
    head = connection.execute(select(heads.c.head).where(heads.c.key == snapshot.key)).scalar()
    if head is None or snapshot.sequence > head:
        return
    if stored is None:
        connection.execute(insert(snapshots).values(snapshot._asdict()))
    elif stored <= snapshot.sequence or stored > head:
        connection.execute(update(snapshots).where(is_key).values(snapshot._asdict()))


def find_faults(connection: Connection, key: int, head: int) -> list[str]:
    """What contradicts the promises in one campaign's log: gaps, and rewards without a decision or of another one."""
    faults = []
    is_key = observations.c.key == key
    gaps = describe_gaps(connection, key, head)
    if gaps is not None:
        faults.append(gaps)
    if connection.dialect.name == "postgresql":
        # two indexes begin with the key; before a table is analysed they cost the same, and a loop over the wrong one
        # reads all decisions of the campaign for each reward
        connection.execute(text("SET LOCAL enable_nestloop = off"))
    strangers = connection.execute(
        select(func.count())
        .select_from(observations.join(decisions, IS_OF_DECISION))
        .where(is_key, decisions.c.features != observations.c.features)
    ).scalar_one()
    if strangers:
        faults.append(f"{strangers} rewards do not fit the decision that they name")
    orphans = connection.execute(
        select(func.count())
        .select_from(observations.outerjoin(decisions, IS_OF_DECISION))
        .where(is_key, IS_OBSERVATION, observations.c.decision_id.is_not(None), decisions.c.decision_id.is_(None))
    ).scalar_one()
    pruned = connection.execute(select(campaigns.c.pruned).where(campaigns.c.key == key)).scalar_one()
    if orphans > pruned:
        faults.append(f"{orphans - pruned} rewards name a decision that is not there")
    return faults
