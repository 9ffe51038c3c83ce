"""Old rows of logs, replaced by a snapshot of what they have taught.

The state up to the last old row is computed from the log itself, with all amendments so far, as a loader computes it.
What is learned from the snapshot on is then what the whole log would teach; see docs/decisions/0050-compaction.md.
"""

import time
from collections.abc import Iterator

import structlog
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from prudent.clock import DAY_US, Clock
from prudent.ledger.amendments import snapshot_of
from prudent.ledger.loading import open_state
from prudent.ledger.quarantine import BAD_ROWS
from prudent.ledger.state import CampaignState
from prudent.store import campaigns, log, retention
from prudent.store.campaigns import Standing
from prudent.store.tables import LogRow

logger = structlog.get_logger(__name__)

CAMPAIGNS = 50
"""Looked at in one round."""
ROWS = 2_000
"""Replaced in one transaction, except where the estimator's state only begins to be one later."""
STATE_BYTES_MAX = 2 * 2**20
"""Of a snapshot: a larger one would be written again with every thousand rows, and fit no line of an export."""
REST_SECONDS = 3_600.0
"""Before a log is looked at again that could not be replaced."""


class Compaction:
    """Rounds for a thread of its own. Each is safe to skip, to repeat and to run on several workers at once."""

    def __init__(self, write: Engine, read: Engine, clock: Clock) -> None:
        self._write, self._read, self._clock = write, read, clock
        self._key = 0
        """The campaign up to which logs have been looked at."""
        self._resting: dict[int, float] = {}

    def run(self) -> None:
        """Replace the oldest rows of the next campaign that has any to replace. Raises nothing."""
        try:
            self._run()
        except SQLAlchemyError as error:
            logger.warning("the compaction of logs is postponed", error=type(error).__name__)
        except Exception:
            logger.exception("the compaction of logs failed")

    def _run(self) -> None:
        with self._read.connect() as connection:
            now = campaigns.read_clock(connection) or self._clock()
            found = retention.find_compacting(connection, self._key, CAMPAIGNS)
        for key, days in found:
            before = (now // DAY_US - days) * DAY_US  # whole days, so that not each row has its own transaction
            if self._resting.get(key, 0.0) < time.monotonic() and self._compact(key, days, before):
                return  # the next round goes on with this one
            self._key = key
        if len(found) < CAMPAIGNS:
            self._key = 0

    def _compact(self, key: int, days: int, before: int) -> bool:
        """Replace rows that were observed before an instant, if there are any; whether it has. days: that are kept."""
        with self._read.connect() as connection:
            standing = campaigns.read_standings(connection, [key]).get(key)
            # what amends a paused campaign's log is not learned before it goes on
            if standing is None or standing.learn_limit is not None:
                return False
            if retention.find_old(connection, key, before, 1):
                return False  # decisions go first, or they would be shown as if they had no reward
            replaced = log.find_beginning(connection, key)
            after = 0 if replaced is None else replaced.sequence
            until = retention.find_old_rows(connection, key, after, standing.head, before)
            if not until:
                return False
            beginning = self._begin(connection, standing, until)
            amendments = log.read_amendments(connection, key, standing.head)
        if beginning is None:
            self._resting[key] = time.monotonic() + REST_SECONDS
            return False
        with self._write.begin() as connection:
            campaigns.lock_heads(connection, [key])
            now = campaigns.read_standings(connection, [key]).get(key)
            if now is None or (now.epoch, now.learn_limit) != (standing.epoch, None):
                return False
            if log.read_amendments(connection, key, now.head) != amendments:
                return False
            if retention.find_compacting(connection, key - 1, 1) != [(key, days)]:
                return False  # somebody has just decided otherwise
            retention.compact(connection, beginning)
        logger.info("a snapshot has replaced rows of a log", campaign_id=standing.campaign_id, until=beginning.sequence)
        return True

    def _begin(self, connection: Connection, standing: Standing, until: int) -> LogRow | None:
        """What is to replace rows up to this one, or some of them; None if nothing can."""
        try:
            state = open_state(connection, standing)
            last = None if state is None else _fold(state, _rows(connection, standing.key, until))
        except BAD_ROWS as error:
            logger.error("a log cannot be compacted", campaign_id=standing.campaign_id, error=str(error))
            return None
        if state is None or last is None or not state.policy.estimator.is_sane():
            return None
        snapshot = snapshot_of(state.policy, None if state.amendments is None else state.amendments.exact_until)
        if snapshot is None or len(snapshot["state"]) > STATE_BYTES_MAX:
            return None
        return log.begin_with(last, snapshot)


def _fold(state: CampaignState, rows: Iterator[LogRow]) -> LogRow | None:
    """Learn old rows; the last one, or None if some have changed since they were appended, or gone meanwhile."""
    last: LogRow | None = None
    for count, row in enumerate(rows):
        if count >= ROWS and state.policy.estimator.has_snapshots:
            break
        if log.find_changed([row], None if last is None else last.digest):
            return None  # the scrubber tells of it, and the rows are the evidence
        if last is not None and log.is_beginning(row):
            return None  # another process has replaced those before it
        state.fold_all([log.fold_row(row)])
        last = row
    return last


def _rows(connection: Connection, key: int, until: int) -> Iterator[LogRow]:
    after = 0
    while page := log.read_rows(connection, key, after, until, ROWS):
        yield from page
        after = page[-1].sequence
