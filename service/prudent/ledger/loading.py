"""States read from the database and brought forward, in a batch or by the loader's thread; and what a database lost."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy import Connection, Engine

from prudent.campaigns import build_policy
from prudent.core.snapshot import FORMAT_VERSION, CorruptSnapshotError
from prudent.ledger.amendments import AmendedError, amendments_of
from prudent.ledger.state import CampaignState, States
from prudent.store import campaigns, categories, decisions, log
from prudent.store.campaigns import Standing
from prudent.store.decisions import RecentDecisions
from prudent.store.log import FoldRow
from prudent.store.tables import DecisionKey

logger = structlog.get_logger(__name__)

NAMES_MAX = 10
"""Campaigns that are named in a line of the log."""
IDS_MAX = 1_000
"""Decisions that are looked up at a time."""


class AnotherDatabaseError(Exception):
    """The database is not the one that memory was read from: restored, restarted, or failed over. Forget, and rerun."""


def open_state(connection: Connection, standing: Standing, held: CampaignState | None = None) -> CampaignState | None:
    """The state to go on from, at this standing; None if the campaign is gone.

    It is the one that is held, with the configuration of now, if it was read from this database; otherwise a new one,
    which has folded nothing yet. Raises AmendedError if what is held has learned what was erased.
    """
    if held is not None and held.follow(standing):
        return held
    key = standing.key
    row = campaigns.read_campaign(connection, key)
    if row is None or row.campaign_id is None:
        return None
    arms = campaigns.read_arms(connection, [key])[key]
    if held is not None and held.standing.epoch == standing.epoch:
        state = held
        _refuse_erased(connection, state)
        state.reconfigure(row, arms)
    else:
        state = CampaignState(row, arms)
        if state.vocabulary.learns:
            state.vocabulary.extend(categories.read_categories(connection, [key])[key])
        state.standing = standing
        amend(state, log.read_amendments(connection, key, state.target), state.target)
    state.standing = standing
    return state


def amend(state: CampaignState, rows: Sequence[FoldRow], until: int) -> None:
    """Have a state that has folded nothing yet learn a log up to `until` as these rows, its amendments, say."""
    if rows:
        state.amendments = amendments_of(rows, until)
        state.creation = state.amendments.creation(state.creation)
        state.policy = build_policy(state.creation, state.configuration, arms=len(state.arms))


def _refuse_erased(connection: Connection, state: CampaignState) -> None:
    """Raise AmendedError if rows that a state may have learned were erased; an erasure raises the revision."""
    erased = amendments_of(log.read_amendments(connection, state.key, state.sequence), state.sequence).erased
    if erased != (0 if state.amendments is None else state.amendments.erased):
        raise AmendedError("rows of the log were erased")


def use_snapshot(connection: Connection, state: CampaignState) -> None:
    """Start from the stored snapshot, if it is valid for this state and within its log."""
    snapshot = log.find_snapshot(connection, state.key)
    if snapshot is None or snapshot.format_version != FORMAT_VERSION or snapshot.sequence > state.target:
        return
    if state.amendments is not None and snapshot.sequence < state.amendments.last:
        return
    last = next(log.read_log(connection, state.key, snapshot.sequence - 1, snapshot.sequence), None)
    if snapshot.configuration_digest != state.fold_digest(last):
        return
    try:
        state.policy.load(snapshot.state)
    except CorruptSnapshotError as error:
        logger.warning("snapshot is corrupt, folding the log from its start", key=state.key, error=str(error))
        return
    state.sequence, state.snapshot_sequence, state.last = snapshot.sequence, snapshot.sequence, last


def catch_up(connection: Connection, state: CampaignState) -> None:
    """Fold what the log has after the state, up to its target. Raises AnotherDatabaseError and AmendedError."""
    learn(state, log.read_log(connection, state.key, state.anchor, state.target))
    state.sequence = state.target


def learn(state: CampaignState, rows: Iterable[FoldRow]) -> None:
    """Fold rows from the state's anchor on. Raises AnotherDatabaseError unless the first is the last one learned.

    Whatever brings a held state forward comes through here, so that no state grows from a log that it is not of.
    """
    following = iter(rows)
    if state.last is not None:
        first = next(following, None)
        if first is not None and first != state.last and (log.is_erased(first) or log.is_beginning(first)):
            raise AmendedError(f"row {first.sequence} of the log was replaced")
        if first != state.last:
            raise AnotherDatabaseError(f"row {state.last.sequence} of the log of campaign {state.key} is another one")
    state.fold_all(following)


def load_behind(read: Engine, key: int, held: CampaignState | None) -> CampaignState | None:
    """A state close behind its head, read page by page outside any transaction; None if the campaign is gone.

    held: one that is further behind, to go on from. Raises AnotherDatabaseError if the log is not the one it is of.
    """
    with read.connect() as connection:
        standing = campaigns.read_standings(connection, [key]).get(key)
        if standing is None or standing.campaign_id is None:
            return None
        try:
            state = open_state(connection, standing, held)
        except AmendedError:
            state = open_state(connection, standing)
        if state is None:
            return None
        if state is not held:
            use_snapshot(connection, state)
    while state.sequence < state.target:
        with read.connect() as connection:
            standing = campaigns.read_standings(connection, [key]).get(key)
            if standing is None:
                return None
            if standing.epoch != state.standing.epoch:
                raise AnotherDatabaseError(f"{state.standing.epoch} became {standing.epoch}")
            if not state.follow(standing):  # what follows may be of an arm that has just been added
                return load_behind(read, key, state)
            page = log.read_page(connection, key, state.anchor, state.target)
        before = state.sequence
        try:
            learn(state, page)
        except AmendedError:
            return load_behind(read, key, None)
        if state.sequence == before:
            return state
    return state


@dataclass(frozen=True)
class Held:
    """What a worker held when it found that the database is another one: it was there once."""

    epoch: str | None
    states: Sequence[tuple[int, str, FoldRow | None]]
    decisions: Sequence[DecisionKey]


def held(states: States, recent: RecentDecisions, now: int) -> Held:
    """What these hold now, but for decisions that their campaigns keep no longer."""
    known = {state.key: state for state in states}
    latest = [(state.key, state.campaign_id, state.last) for state in states]
    made = [row.identity for row in recent if row.key not in known or known[row.key].keeps(row, now)]
    return Held(states.epoch, latest, made)


def report_losses(read: Engine, before: Held) -> None:
    """Log how much of it the database does not have. An operator learns how long the lost tail is."""
    read.dispose()  # its idle connections lead to the database that was, and would fail
    lost: dict[str, int] = {}
    with read.connect() as connection:
        keys = {key for key, _, _ in before.states} | {key for key, _ in before.decisions}
        heads = campaigns.read_standings(connection, keys)
        # of one that was created after a lost one there is no trace either; of one after a deleted one there is
        deleted = {key for key in keys - heads.keys() if key < max(heads, default=0)}
        deleted |= {key for key, standing in heads.items() if standing.campaign_id is None}
        for key, name, last in before.states:
            if last is None or key in deleted:
                continue
            rows = log.read_page(connection, key, last.sequence - 1, last.sequence)
            if rows == [last] or any(map(log.is_erased, rows)):
                continue
            beginning = log.find_beginning(connection, key)
            if beginning is not None and last.sequence <= beginning.sequence:
                continue  # it was replaced
            # at least: rows that others had recorded since are unknown here, rows recorded anew hide the lost ones
            head = heads[key].head if key in heads else 0
            lost[name] = max(1, last.sequence - head)
    missing, made = 0, [identity for identity in before.decisions if identity[0] not in deleted]
    for first in range(0, len(made), IDS_MAX):
        part = made[first : first + IDS_MAX]
        with read.connect() as connection:
            missing += len(part) - len(decisions.find_decisions(connection, part))
    with read.connect() as connection:
        server = campaigns.describe_server(connection)
    note = logger.error if lost or missing else logger.info
    details: dict[str, Any] = {"rewards_lost": sum(lost.values()), "decisions_lost": missing, **server}
    if lost:
        details["campaigns"] = list(lost)[:NAMES_MAX]
    note("the database was restarted, restored or failed over", **details)
