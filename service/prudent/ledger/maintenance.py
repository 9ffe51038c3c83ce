"""What the ledger's thread does between batches: snapshots, deadlines, removing rows, and reading logs again."""

import structlog
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from prudent.clock import DAY_US, Clock
from prudent.core.snapshot import FORMAT_VERSION
from prudent.ledger.commands import Expire
from prudent.ledger.state import LARGE_BYTES, CampaignState, States
from prudent.settings import Limits
from prudent.store import campaigns, decisions, log, retention
from prudent.store.tables import SnapshotRow

logger = structlog.get_logger(__name__)

PURGE_ROWS = 1_000
EXPIRE_ROWS = 500
SCRUB_ROWS = 200
"""About a millisecond: 17 million rows a day."""
PRUNE_ROWS = 1_000
PRUNE_CAMPAIGNS = 50
"""In one round."""
IMPORT_IDLE_SECONDS_MAX = 600
"""Between two steps of an import: after a longer pause it is abandoned."""


class Maintenance:
    """Chores. Each is safe to skip, to repeat and to run on several workers at once."""

    def __init__(self, write: Engine, read: Engine, states: States, *, clock: Clock, limits: Limits) -> None:
        self._write, self._read, self._states, self._clock = write, read, states, clock
        self._snapshot_every = limits.snapshot_observations
        self._to_snapshot: set[int] = set()
        self._scrubber = Scrubber(states.quarantine.damaged)
        self._pruned_key = 0
        """The campaign up to which old decisions have been deleted."""
        self._large: set[int] = set()

    def run(self) -> list[Expire]:
        """One round of chores; the deadlines that have passed."""
        self._note_due_snapshots()
        try:
            self._write_snapshot()
            self._purge()
            self._prune()
            with self._read.connect() as connection:
                self._scrubber.step(connection)
            return self._find_expired()
        except SQLAlchemyError as error:
            logger.warning("maintenance postponed", error=type(error).__name__)
            return []

    def finish(self) -> None:
        """Write the snapshots that are due, before the process ends."""
        self._note_due_snapshots()
        self._to_snapshot |= self._large
        try:
            while self._to_snapshot:
                key = self._to_snapshot.pop()
                state = self._states.get(key)
                if state is not None:
                    self._dump(state)
        except SQLAlchemyError as error:
            logger.warning("snapshots not written", error=type(error).__name__)

    def _note_due_snapshots(self) -> None:
        """Note which states have learned enough for a new snapshot, among those used since the last round."""
        for state in self._states.used():
            if state.sequence - state.snapshot_sequence >= self._snapshot_every:
                self._to_snapshot.add(state.key)

    def next_large(self) -> int | None:
        """The key of a state whose snapshot is due and takes long: `write_large` is for another thread to call."""
        return self._large.pop() if self._large else None

    def write_large(self, state: CampaignState) -> None:
        """Write a state's snapshot, on whichever thread owns the state at the time."""
        try:
            self._dump(state)
        except SQLAlchemyError as error:
            logger.warning("a large snapshot is postponed", error=type(error).__name__)

    def _write_snapshot(self) -> None:
        """Write one state's snapshot. States are committed here: batches end before chores begin."""
        if not self._to_snapshot:
            return
        key = self._to_snapshot.pop()
        state = self._states.get(key)
        if state is None:
            return
        if state.nbytes > LARGE_BYTES and state.policy.estimator.has_snapshots:
            self._large.add(key)
        else:
            self._dump(state)

    def _dump(self, state: CampaignState) -> None:
        """Write a state's snapshot."""
        key = state.key
        if state.amendments is not None and state.sequence < state.amendments.last:
            return  # it is not the state of this sequence: what it has learned is amended further on
        dumped = state.policy.dump()
        if dumped is None:
            state.snapshot_sequence = state.sequence
            return
        if not state.policy.estimator.is_sane():
            logger.error("a state is not finite and positive semi-definite: no snapshot of it", key=key)
            return
        with self._write.connect() as connection, connection.begin() as transaction:
            row = SnapshotRow(key, state.sequence, FORMAT_VERSION, state.fold_digest(state.last), dumped)
            log.write_snapshot(connection, row)
            campaigns.lock_heads(connection, [key])  # last, since a large snapshot takes long to write
            standing = campaigns.read_standings(connection, [key]).get(key)
            if standing is None or standing.revision != state.revision:
                transaction.rollback()  # it may have learned what was erased since
                return
        state.snapshot_sequence = state.sequence

    def _purge(self) -> None:
        with self._read.connect() as connection:
            since = (campaigns.read_clock(connection) or self._clock()) - IMPORT_IDLE_SECONDS_MAX * 1_000_000
            is_import_idle = campaigns.has_idle_staged(connection, since)
            key = campaigns.find_deleted(connection)
        if is_import_idle:
            with self._write.begin() as connection:
                campaigns.abandon_idle_staged(connection, since)
        if key is not None:
            self._states.drop(key)
            self._states.quarantine.forget(key)
            with self._write.begin() as connection:
                campaigns.purge_slice(connection, key, PURGE_ROWS)

    def _prune(self) -> None:
        """Delete decisions that are older than their campaigns keep them, of a few campaigns after the other."""
        old: dict[int, list[str]] = {}
        room = PRUNE_ROWS
        with self._read.connect() as connection:
            now = campaigns.read_clock(connection) or self._clock()
            found = retention.find_retaining(connection, self._pruned_key, PRUNE_CAMPAIGNS)
            for key, days in found:
                old[key] = retention.find_old(connection, key, now - days * DAY_US, room)
                room -= len(old[key])
                if room == 0:
                    break  # the next round goes on with this one
                self._pruned_key = key
            else:
                if len(found) < PRUNE_CAMPAIGNS:
                    self._pruned_key = 0
        if room < PRUNE_ROWS:
            with self._write.begin() as connection:
                # or a compaction could delete a reward that is just being counted as one without a decision
                campaigns.lock_heads(connection, old)
                for key, days in found:
                    # unless somebody has just decided otherwise
                    if old.get(key) and retention.find_retaining(connection, key - 1, 1) == [(key, days)]:
                        retention.prune(connection, key, old[key])

    def _find_expired(self) -> list[Expire]:
        with self._read.connect() as connection:
            now = campaigns.read_clock(connection) or self._clock()
            left_out = self._states.quarantine.held(self._clock())  # they would be found again and again
            return [Expire(*one) for one in decisions.find_due(connection, now, EXPIRE_ROWS, left_out)]


class Scrubber:
    """Reads all logs again and again, a few rows at a time, and compares them with their running digest.

    A bit that has flipped in a row already learned would otherwise show at the next start without a snapshot, as
    another state. What is found is logged, and shown with the campaign's model; the campaign is served all the same,
    since its state in memory was learned from the row as it was.
    """

    def __init__(self, damaged: dict[int, str]) -> None:
        self._damaged = damaged
        self._key = self._sequence = 0
        """The campaign that was read last, and up to where; 0 for its start."""
        self._before: bytes | None = None

    def step(self, connection: Connection) -> None:
        """Read the next rows. Raises what the database raises."""
        found = campaigns.find_served(connection, self._key - 1)
        if found is None:
            self._turn_to(0)
            return
        key, campaign_id, head = found
        if key != self._key:
            self._turn_to(key)
        rows = log.read_rows(connection, key, self._sequence, head, SCRUB_ROWS)
        # a snapshot may have replaced the rows up to here, and further ones, since the last step
        before = None if rows and log.is_beginning(rows[0]) else self._before
        changed = log.find_changed(rows, before)
        if changed and key not in self._damaged:
            self._damaged[key] = log.describe_changed(changed)
            logger.error("a log is damaged", campaign_id=campaign_id, fault=self._damaged[key])
        if len(rows) < SCRUB_ROWS:
            self._turn_to(key + 1)
        else:
            self._sequence, self._before = rows[-1].sequence, rows[-1].digest

    def _turn_to(self, key: int) -> None:
        self._key, self._sequence, self._before = key, 0, None
