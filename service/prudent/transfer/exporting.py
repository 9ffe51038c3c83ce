"""Writing a campaign's export, page by page: each page is read in a short transaction of its own.

The export describes the moment at which it started: the log up to the head, and the decisions made until then. Later
rows are left out, although the pages are read later: the log grows at its end, and every decision has its place in
time. Of what is erased while pages are read, a file may have a part; but no reward without its correction.
"""

from hashlib import blake2b
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection

from prudent.campaigns import RowReader, stored
from prudent.clock import Clock
from prudent.errors import UnavailableError
from prudent.ledger.candidates import KnownCandidates
from prudent.ledger.quarantine import BAD_ROWS
from prudent.store import campaigns, categories, decisions, log
from prudent.store.campaigns import CampaignRow
from prudent.store.decisions import Place
from prudent.store.statements import features_from_bytes
from prudent.store.tables import NOT_ACTIVATED, ArmRow, CategoryRow, DecisionRow
from prudent.transfer import lines

PAGE_ROWS = 500


class IncompleteExportError(UnavailableError):
    """The campaign, or a part of it that matters, was deleted meanwhile, or is damaged."""


class Start(NamedTuple):
    """A campaign at the start of its export.

    newest: its newest decision, if any; made: how many decisions it has; corrections: which rows of its log are any.
    """

    row: CampaignRow
    arms: list[ArmRow]
    learned: list[CategoryRow]
    newest: Place | None
    made: int
    now: int
    corrections: frozenset[int]


def read_start(connection: Connection, campaign_id: str, clock: Clock) -> Start | None:
    """A campaign as it is now; None if there is no such campaign."""
    row = campaigns.find_campaign(connection, campaign_id)
    if row is None:
        return None
    # The head was read first, so no reward below it lacks its decision or its arm.
    arms = campaigns.read_arms(connection, [row.key])[row.key]
    newest = decisions.newest_place(connection, row.key)
    made = decisions.count_rows(connection, row.key)
    # last, so that no row above has a category that is not there
    learned = categories.read_categories(connection, [row.key])[row.key]
    now = campaigns.read_clock(connection) or clock()
    amendments = log.read_amendments(connection, row.key, row.head)
    corrections = frozenset(one.sequence for one in amendments if one.decision_id is not None)
    return Start(row, arms, learned, newest, made, now, corrections)


def begin_export(connection: Connection, campaign_id: str, clock: Clock) -> "Export | None":
    """The export of a campaign as it is now; None if there is no such campaign."""
    start = read_start(connection, campaign_id, clock)
    return None if start is None else Export(start)


def check_presence(connection: Connection, key: int) -> None:
    """Raise IncompleteExportError if the campaign was deleted during the export."""
    row = campaigns.read_campaign(connection, key)
    if row is None or row.campaign_id is None:
        raise IncompleteExportError("the campaign was deleted during the export")


class DecisionPages:
    """The decisions of a campaign at the start of its export, oldest first, page by page."""

    def __init__(self, start: Start) -> None:
        self._row, self._newest = start.row, start.newest
        self._place: Place = (-1, "")
        self.reader = RowReader(stored(start.row.creation).model)
        self.vocabulary = self.reader.vocabulary(start.learned)
        is_shared = stored(start.row.creation).model.type == "shared"
        self.candidates = KnownCandidates(self.reader, start.arms, is_shared=is_shared)
        self.is_over = start.newest is None

    def next_page(self, connection: Connection) -> list[DecisionRow]:
        """Some of them, perhaps none: `is_over` says whether these were the last."""
        assert self._newest is not None  # noqa: S101  # it is over without one
        rows = decisions.read_between(connection, self._row.key, self._place, self._newest, PAGE_ROWS)
        if len(rows) < PAGE_ROWS:
            self.is_over = True
        else:
            self._place = (rows[-1].created_at, rows[-1].decision_id)
        # some were committed after the start, with earlier times: those made on a later state do not belong here
        return [row for row in rows if row.seen <= self._row.head and self._is_known(row)]

    def _is_known(self, row: DecisionRow) -> bool:
        """Whether all of its categories are in this file: those learned since its start are not."""
        is_known = self.reader.fault(features_from_bytes(row.features), self.vocabulary) is None
        return is_known and (row.candidates is None or self.candidates.fault(row, self.vocabulary) is None)


class Export:
    """The lines of a campaign's file, page by page, until ``next_page`` returns None."""

    def __init__(self, start: Start) -> None:
        self._row, self._arms, self._learned, _, self._made, self._now, self._corrections = start
        self._rules = stored(start.row.creation).reward
        self._digest = blake2b(digest_size=lines.DIGEST_BYTES)
        self._begun = self._ended = False
        self._sequence = 0
        self._pages = DecisionPages(start)
        self._decisions = 0

    @property
    def rows(self) -> int:
        """Rows of the log plus decisions, at the start of the export."""
        return self._row.head + self._made

    @property
    def rows_written(self) -> int:
        """How many of them have been written."""
        return self._sequence + self._decisions

    def next_page(self, connection: Connection) -> bytes | None:
        """Whole lines; None after the last. Raises IncompleteExportError."""
        if self._ended:
            return None
        if not self._begun:
            self._begun = True
            page = self._header()
        elif self._sequence < self._row.head:
            page = self._log_page(connection)
        elif not self._pages.is_over:
            page = self._decision_page(connection)
        else:
            self._ended = True
            return self._trailer(connection)
        self._digest.update(page)
        return page

    def _header(self) -> bytes:
        row = self._row
        fields = {
            "format": lines.FORMAT,
            "version": lines.VERSION,
            "exported_at": lines.instant(self._now),
            "campaign_id": row.campaign_id,
            "status": row.status,
            "revision": row.revision,
            "learn_limit": row.learn_limit,
            "head": row.head,
            "arms": len(self._arms),
            "decisions": self._made,
            "created_at": lines.instant(row.created_at),
            "creation": orjson.Fragment(row.creation),
            "configuration": orjson.Fragment(row.configuration),
            "subject_key": None if row.subject_key is None else row.subject_key.hex(),
        }
        page = [lines.write("header", fields), *map(lines.write_category, self._learned)]
        return b"".join(page + [lines.write_arm(arm, self._show) for arm in self._arms])

    def _show(self, features: bytes) -> list[float] | dict[str, Any]:
        return self._pages.reader.write(features_from_bytes(features), self._pages.vocabulary)

    def _log_page(self, connection: Connection) -> bytes:
        rows = log.read_rows(connection, self._row.key, self._sequence, self._row.head, PAGE_ROWS)
        first = self._sequence + 1
        if rows and not self._sequence and log.is_beginning(rows[0]):
            first = rows[0].sequence
        if [row.sequence for row in rows] != list(range(first, first + len(rows))) or not rows:
            raise IncompleteExportError(
                "rows of the campaign's log are missing: it was deleted during the export, or a snapshot has replaced "
                "them: begin again, or run prudent verify"
            )
        if any(log.is_erased(row) and row.sequence in self._corrections for row in rows):
            raise IncompleteExportError("a corrected reward was erased during the export: begin again")
        self._sequence = rows[-1].sequence
        try:
            return b"".join(lines.write_observation(row, self._show) for row in rows)
        except BAD_ROWS as error:
            raise IncompleteExportError("a row of the campaign's log is damaged: run prudent verify") from error

    def _decision_page(self, connection: Connection) -> bytes:
        rows = [self._at_start(row) for row in self._pages.next_page(connection)]
        deadlines = self._lost_deadlines(connection, rows)
        self._decisions += len(rows)
        return b"".join(
            lines.write_decision(
                row, deadlines.get(row.decision_id, row.due_at), self._show, self._pages.candidates.read(row)
            )
            for row in rows
        )

    def _at_start(self, row: DecisionRow) -> DecisionRow:
        """The decision as it was at the start of the export: not activated, if it has been since."""
        if row.activated_at is None or row.activated_at <= self._now:
            return row
        return row._replace(activated_at=NOT_ACTIVATED, due_at=None)

    def _lost_deadlines(self, connection: Connection, rows: list[DecisionRow]) -> dict[str, int]:
        """Deadlines of decisions that were pending at the start of the export and have been rewarded since."""
        timeout = self._rules.timeout_seconds
        if timeout is None:
            return {}
        waiting = [row.identity for row in rows if row.due_at is None and row.activated_at != NOT_ACTIVATED]
        rewarded = log.find_observations(connection, waiting)
        return {
            row.decision_id: (row.activated_at or row.created_at) + round(timeout * 1e6)
            for row in rows
            if row.identity in rewarded and rewarded[row.identity].sequence > self._row.head
        }

    def _trailer(self, connection: Connection) -> bytes:
        check_presence(connection, self._row.key)
        fields = {
            "arms": len(self._arms),
            "head": self._row.head,
            "decisions": self._decisions,
            "digest": self._digest.hexdigest(),
        }
        return lines.write("trailer", fields)
