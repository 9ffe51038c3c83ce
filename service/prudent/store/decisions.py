"""Statements about decisions, those kept in memory for their rewards, and what of a decision is shown to users."""

from collections.abc import Collection, Iterable, Iterator
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, func, literal, null, select, tuple_, update

from prudent.store.statements import Insertion, Lookup, PairLookup, Prepared
from prudent.store.tables import INSTANT, NAME, NOT_ACTIVATED, DecisionKey, DecisionRow, campaigns, decisions

_HIDDEN = {
    "key",
    "features",
    "request_digest",
    "explanation",
    "created_at",
    "due_at",
    "candidates",
    "activated_at",
    "held_out",
    "allowance",
}
_SHOWN = [name for name in DecisionRow._fields if name not in _HIDDEN]
_SHOWN_AS = [name.removesuffix("_value") for name in _SHOWN]
"""``index`` would be a reserved word of SQL."""
_shown_values = attrgetter(*_SHOWN)

Place = tuple[int, str]
"""A decision's position among those of its campaign: its time, then its id."""


_COLUMNS = [decisions.c[name] for name in DecisionRow._fields]
_BY_KEY = PairLookup(select(*_COLUMNS), decisions.c.key, decisions.c.decision_id)
_BY_ID = Lookup(select(*_COLUMNS), decisions.c.decision_id)
_INSERTION = Insertion(decisions, DecisionRow._fields)
_IS_ONE = and_(decisions.c.key == bindparam("key_"), decisions.c.decision_id == bindparam("id_"))
_CLEAR_DUE = Prepared(update(decisions).where(_IS_ONE).values(due_at=null()))
_ACTIVATE = Prepared(
    update(decisions)
    .where(_IS_ONE, decisions.c.activated_at == NOT_ACTIVATED)
    .values(activated_at=bindparam("at"), due_at=bindparam("due"))
)
_DELETE = delete(decisions).where(_IS_ONE)
_DUE = (
    select(campaigns.c.campaign_id, decisions.c.decision_id)
    .join(campaigns, campaigns.c.key == decisions.c.key)
    .where(
        decisions.c.due_at.is_not(None),
        decisions.c.due_at <= bindparam("now"),
        campaigns.c.campaign_id.is_not(None),
        decisions.c.key.not_in(bindparam("left_out", expanding=True)),
    )
    .order_by(decisions.c.due_at)
    .limit(bindparam("limit_"))
)
IS_PLAY = decisions.c.activated_at.is_distinct_from(NOT_ACTIVATED)
ROW_BYTES = 1_000
"""A decision's row without its features, explanation and candidates, roughly."""
SUBJECT_PREFIX = "s-"
"""Of the ids of decisions for subjects, which may be erased."""
PENDING_MAX = 100_000
"""Counting stops here, so that it stays fast."""
_PENDING = select(func.count()).select_from(
    select(decisions.c.decision_id).where(decisions.c.due_at.is_not(None)).limit(PENDING_MAX).subquery()
)


def shown_columns(row: DecisionRow) -> dict[str, Any]:
    """What users see of a decision, under the names that they know; ids, numbers and names, as JSON takes them.

    A new column is shown, in replies and in the decision log, unless it is listed above as hidden.
    """
    return dict(zip(_SHOWN_AS, _shown_values(row), strict=True))


def find_decisions(connection: Connection, wanted: Collection[DecisionKey]) -> dict[DecisionKey, DecisionRow]:
    """These decisions, as far as they exist."""
    return _by_identity(_BY_KEY.rows(connection, wanted))


def find_anywhere(connection: Connection, ids: Collection[str]) -> dict[DecisionKey, DecisionRow]:
    """The decisions of any campaign with these ids, also of campaigns that are deleted or not yet imported."""
    return _by_identity(_BY_ID.rows(connection, ids))


def _by_identity(rows: Iterable[Any]) -> dict[DecisionKey, DecisionRow]:
    found = map(DecisionRow._make, rows)
    return {row.identity: row for row in found}


def find_ids(connection: Connection, key: int, prefix: str) -> list[str]:
    """The ids of all decisions of a campaign that begin so, in order. prefix: of ASCII, and not empty."""
    end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
    own = decisions.c.decision_id
    begins_so = select(own).where(decisions.c.key == key, own >= prefix, own < end)
    return list(connection.execute(begins_so.order_by(own)).scalars())


def insert_decisions(connection: Connection, rows: Iterable[DecisionRow]) -> None:
    """Insert in the order of ids, so that two workers that insert the same ids cannot deadlock."""
    _INSERTION.execute(connection, sorted(rows))


def clear_due(connection: Connection, identities: Iterable[DecisionKey]) -> None:
    """Clear the deadlines of these decisions: no reward is awaited any more."""
    _CLEAR_DUE.execute_many(connection, _parameters(identities))


def activate(connection: Connection, rows: Iterable[DecisionRow]) -> None:
    """Store when these decisions were activated and their deadlines, unless somebody else has come first."""
    values = [
        {"key_": row.key, "id_": row.decision_id, "at": row.activated_at, "due": row.due_at} for row in sorted(rows)
    ]
    _ACTIVATE.execute_many(connection, values)


def find_due(connection: Connection, now: int, limit: int, left_out: Collection[int] = ()) -> list[tuple[str, str]]:
    """Decisions whose deadline has passed, by the public ids of their campaigns and their own, earliest first.

    None of campaigns that are deleted or imported. left_out: keys of campaigns that are not to be searched.
    """
    found = connection.execute(_DUE, {"now": now, "limit_": limit, "left_out": list(left_out)})
    return [(row[0], row[1]) for row in found]


def count_pending(connection: Connection) -> int:
    """How many decisions with a deadline await a reward, up to PENDING_MAX."""
    return int(connection.execute(_PENDING).scalar_one())


def delete_decisions(connection: Connection, identities: Iterable[DecisionKey]) -> None:
    """Delete these decisions."""
    values = _parameters(identities)
    if values:
        connection.execute(_DELETE, values)


def _parameters(identities: Iterable[DecisionKey]) -> list[dict[str, Any]]:
    return [{"key_": key, "id_": decision_id} for key, decision_id in sorted(identities)]


def count_plays(connection: Connection, key: int) -> dict[str, int]:
    """How many plays each arm of a campaign has: decisions, without those that are not activated."""
    statement = (
        select(decisions.c.arm_id, func.count()).where(decisions.c.key == key, IS_PLAY).group_by(decisions.c.arm_id)
    )
    return {row[0]: row[1] for row in connection.execute(statement)}


def count_plays_of(connection: Connection, key: int, arm_id: str, limit: int) -> int:
    """How many plays an arm has, up to a limit: no more rows are read than it takes to find so many."""
    plays = select(decisions.c.decision_id).where(decisions.c.key == key, decisions.c.arm_id == arm_id, IS_PLAY)
    return int(connection.execute(select(func.count()).select_from(plays.limit(limit).subquery())).scalar_one())


def count_rows(connection: Connection, key: int) -> int:
    """How many decisions a campaign has."""
    statement = select(func.count()).select_from(decisions).where(decisions.c.key == key)
    return int(connection.execute(statement).scalar_one())


def read_places(connection: Connection, key: int, after: Place, limit: int) -> list[Place]:
    """The positions of at most so many decisions of a campaign, oldest first, from the index alone."""
    place = tuple_(decisions.c.created_at, decisions.c.decision_id)
    first = tuple_(literal(after[0], INSTANT), literal(after[1], NAME))
    statement = select(decisions.c.created_at, decisions.c.decision_id).where(decisions.c.key == key, place > first)
    ordered = statement.order_by(decisions.c.created_at, decisions.c.decision_id).limit(limit)
    return [(row[0], row[1]) for row in connection.execute(ordered)]


def newest_place(connection: Connection, key: int) -> Place | None:
    """The position of a campaign's newest decision; None if there is none."""
    newest = (decisions.c.created_at.desc(), decisions.c.decision_id.desc())
    statement = select(decisions.c.created_at, decisions.c.decision_id).where(decisions.c.key == key)
    row = connection.execute(statement.order_by(*newest).limit(1)).first()
    return None if row is None else (row[0], row[1])


def read_between(connection: Connection, key: int, after: Place, until: Place, limit: int) -> list[DecisionRow]:
    """At most so many decisions of a campaign, oldest first, with after < place <= until."""
    place = tuple_(decisions.c.created_at, decisions.c.decision_id)
    first, last = (tuple_(literal(at, INSTANT), literal(decision_id, NAME)) for at, decision_id in (after, until))
    statement = select(*_COLUMNS).where(decisions.c.key == key, place > first, place <= last)
    ordered = statement.order_by(decisions.c.created_at, decisions.c.decision_id).limit(limit)
    return [DecisionRow._make(row) for row in connection.execute(ordered)]


class RecentDecisions:
    """A bounded cache, so that a reward need not read its decision back. The oldest go first.

    It is by id alone: an id that several campaigns use is not for here. A decision that is held never changes, so none
    is that waits for its activation, and none that another worker may erase. But it ends with its campaign: a caller
    must check that the campaign of a row from here still exists, and `forget` the row otherwise.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._rows: dict[str, DecisionRow] = {}

    def find(self, ids: Collection[str]) -> dict[str, DecisionRow]:
        """Those of these decisions that are known here."""
        rows = self._rows
        return {decision_id: rows[decision_id] for decision_id in ids if decision_id in rows}

    def keep(self, rows: Iterable[DecisionRow]) -> None:
        """Hold decisions that have been committed."""
        for row in rows:
            self.forget((row.decision_id,))
            if row.activated_at == NOT_ACTIVATED or row.decision_id.startswith(SUBJECT_PREFIX):
                continue
            self._rows[row.decision_id] = row
            self._bytes += _bytes_of(row)
        while self._bytes > self._bytes_max:
            self.forget((next(iter(self._rows)),))

    def clear(self) -> None:
        """Drop all of them."""
        self._rows.clear()
        self._bytes = 0

    def __iter__(self) -> Iterator[DecisionRow]:
        return iter(self._rows.values())

    def forget(self, ids: Iterable[str]) -> None:
        """Drop decisions that have been rewarded, whose campaign is gone, or whose id another campaign uses, too."""
        for decision_id in ids:
            row = self._rows.pop(decision_id, None)
            if row is not None:
                self._bytes -= _bytes_of(row)

    def __len__(self) -> int:
        return len(self._rows)


def _bytes_of(row: DecisionRow) -> int:
    return ROW_BYTES + len(row.features) + len(row.explanation or "") + len(row.candidates or b"")
