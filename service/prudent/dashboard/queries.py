"""What the pages read: rows of the tables in the read pool's threads, the model's numbers as ``/model`` has them."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Connection

from prudent.dashboard.campaign_view import CampaignView, make_view
from prudent.dashboard.overview import Overview, read_overview, usual_request
from prudent.dashboard.trail import SHOWN_MAX, Change, changes
from prudent.errors import CommandError, QuarantinedError, UnavailableError
from prudent.identifiers import is_id
from prudent.ledger.access import LedgerAccess
from prudent.ledger.commands import Describe, Preview, Select
from prudent.ledger.missing import no_campaign
from prudent.ledger.outcomes import ModelReport, Prospect
from prudent.ledger.quarantine import BAD_ROWS
from prudent.reporting.changes import describe_changes
from prudent.reporting.holdout import HoldoutReport, read_groups, report_holdout
from prudent.reporting.policies import PolicyReport, policy_of
from prudent.store import campaigns, decisions, reports, trail
from prudent.store.campaigns import CampaignRow
from prudent.store.read_pool import Reader
from prudent.store.reports import RewardedDecision

V = TypeVar("V")
CACHED_MAX = 16
"""Cached values; that of a campaign with many decisions takes about 3 MB."""
COSTLY = 20
"""A value is rebuilt at the earliest after this many times as long as it took to build, changed or not."""
SECONDS_MAX = 60.0
"""A value that has changed is never served for longer than this."""


@dataclass
class _Cached:
    stamp: Hashable
    built_at: float
    seconds: float
    value: Any


class Cache:
    """Values by name, each with a stamp of its source. clock: seconds, monotonic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._values: OrderedDict[Hashable, _Cached] = OrderedDict()
        self._locks: dict[Hashable, tuple[asyncio.Lock, int]] = {}

    async def get(self, name: Hashable, stamp: Hashable, make: Callable[[], Awaitable[V]]) -> V:
        """The cached value if its stamp is the same or it is recent for its cost; else a new one, built only once."""
        lock, waiting = self._locks.get(name, (asyncio.Lock(), 0))
        self._locks[name] = lock, waiting + 1
        try:
            async with lock:
                cached = self._values.get(name)
                if cached is None or not self._is_fresh(cached, stamp):
                    started = self._clock()
                    value = await make()
                    cached = _Cached(stamp, self._clock(), self._clock() - started, value)
                    self._values[name] = cached
                    if len(self._values) > CACHED_MAX:
                        self._values.popitem(last=False)
                if name in self._values:
                    self._values.move_to_end(name)
                found: V = cached.value
                return found
        finally:
            lock, waiting = self._locks[name]
            if waiting > 1:
                self._locks[name] = lock, waiting - 1
            else:
                del self._locks[name]

    def forget(self, name: Hashable) -> None:
        """Build the value anew when it is next asked for."""
        self._values.pop(name, None)

    def _is_fresh(self, cached: _Cached, stamp: Hashable) -> bool:
        return cached.stamp == stamp or self._clock() - cached.built_at < min(COSTLY * cached.seconds, SECONDS_MAX)


class Stamp(NamedTuple):
    """Changes whenever a campaign's page would; equal stamps mean equal pages."""

    key: int
    revision: int
    status: str
    head: int
    newest: tuple[int, str] | None


class Queries:
    """Reads campaigns, and caches them for a moment, so that many readers of a page cost no more than one."""

    def __init__(self, ledger: LedgerAccess, read: Reader) -> None:
        self._ledger, self._read = ledger, read
        self._cache = Cache(time.monotonic)

    async def overview(self, campaign_id: str) -> Overview:
        """The campaign as stored. Raises NotFoundError."""
        return (await self._stamped(campaign_id))[1]

    async def campaign(self, campaign_id: str) -> CampaignView:
        """All that the campaign's page shows. Raises NotFoundError and QuarantinedError."""
        try:
            stamp, campaign = await self._stamped(campaign_id)
            return await self._cache.get(("view", *_settings_of(stamp)), stamp, lambda: self._view(campaign))
        except BAD_ROWS:  # the page is made of the rows that the model is made of
            await self._ledger.submit(Describe(campaign_id))
            raise

    async def preview(self, request: Select) -> Prospect:
        """What a select would choose now. Raises CommandError and UnavailableError."""
        prospect: Prospect = await self._ledger.submit(Preview(request))
        return prospect

    def forget(self, campaign: Overview) -> None:
        """Show the campaign as it is: somebody who has sent a reward by hand wants to see it, whatever a page costs."""
        for part in ("view", "overview"):
            self._cache.forget((part, *_settings_of(campaign.row)))

    async def changes(self, campaign: Overview) -> list[Change]:
        """The campaign's latest changes by people, as they are now."""
        return changes(await self._read(trail.latest_of_campaign, campaign.row.key, SHOWN_MAX))

    async def decision(self, campaign: Overview, decision_id: str) -> RewardedDecision | None:
        """A decision of the campaign with its reward, as it is now."""
        if not is_id(decision_id):
            return None
        return await self._read(reports.find_decision, campaign.row.key, decision_id)

    async def _stamped(self, campaign_id: str) -> tuple[Stamp, Overview]:
        stamp = await self._read(_read_stamp, campaign_id) if is_id(campaign_id) else None
        if stamp is None:
            raise await self._read(no_campaign, campaign_id)

        async def make() -> Overview | None:
            return await self._read(read_overview, campaign_id)

        campaign = await self._cache.get(("overview", *_settings_of(stamp)), stamp, make)
        if campaign is None:
            raise await self._read(no_campaign, campaign_id)
        return stamp, campaign

    async def _view(self, campaign: Overview) -> CampaignView:
        report, prospect, policy = await asyncio.gather(
            self._describe(campaign), self._prospect(campaign), self._policy(campaign)
        )
        raised = [] if report is None else report.changes
        found = await self._read(describe_changes, campaign.row.key, raised) if raised else []
        holdout = await self._holdout(campaign)
        return await asyncio.to_thread(make_view, campaign, report, prospect, policy, found, holdout)

    async def _holdout(self, campaign: Overview) -> HoldoutReport | None:
        if campaign.configuration.holdout is None:
            return None
        held, decided = await self._read.in_pages(read_groups, campaign.row)
        return await asyncio.to_thread(report_holdout, campaign.configuration, held, decided)

    async def _policy(self, campaign: Overview) -> PolicyReport | None:
        return None if campaign.seen is None else await policy_of(self._ledger, campaign.seen)

    async def _describe(self, campaign: Overview) -> ModelReport | None:
        try:
            report: ModelReport = await self._ledger.submit(Describe(campaign.configuration.campaign_id))
        except QuarantinedError:
            raise
        except (CommandError, UnavailableError):
            return None  # the page says so
        return report

    async def _prospect(self, campaign: Overview) -> Prospect | None:
        request = usual_request(campaign) if campaign.row.head else None  # no reward, no estimate
        if request is None:
            return None
        try:
            return await self.preview(request)
        except (CommandError, UnavailableError):
            return None  # the campaign changed after the tables were read; the next refresh is right


def _settings_of(campaign: Stamp | CampaignRow) -> tuple[int, int, str]:
    """What people change: a page that was read before is not shown for a moment longer."""
    return campaign.key, campaign.revision, campaign.status


def _read_stamp(connection: Connection, campaign_id: str) -> Stamp | None:
    row = campaigns.find_campaign(connection, campaign_id)
    if row is None:
        return None
    return Stamp(row.key, row.revision, row.status, row.head, decisions.newest_place(connection, row.key))
