"""What the pages know: from the tables by the reader's threads, from the model as ``/model`` has it."""

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Connection

from prudent.dashboard.campaign_view import CampaignView, make_view
from prudent.dashboard.overview import Overview, read_overview, usual_request
from prudent.errors import CommandError, NotFoundError, UnavailableError
from prudent.identifiers import ID_PATTERN
from prudent.ledger.commands import Describe, ModelReport, Preview, Prospect, Select
from prudent.ledger.ledger import Ledger
from prudent.store import campaigns, decisions, overview
from prudent.store.overview import RecentRow
from prudent.store.read_pool import Reader

V = TypeVar("V")
KEPT_MAX = 16
"""Things kept: of a campaign with many decisions about 3 MB."""
COSTLY = 20
"""Something that took a second to make is made again after so many seconds at the earliest, changed or not."""
SECONDS_MAX = 60.0
"""Something that has changed is never older than this."""


@dataclass
class _Kept:
    stamp: Hashable
    made_at: float
    seconds: float
    value: Any


class Remembered:
    """Values by name, with the stamp of what they were made of. clock: seconds, monotonic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._locks: dict[Hashable, tuple[asyncio.Lock, int]] = {}

    async def get(self, name: Hashable, stamp: Hashable, make: Callable[[], Awaitable[V]]) -> V:
        """The value that was made of the same stamp, or lately enough for its cost; else a new one. One at a time."""
        lock, waiting = self._locks.get(name, (asyncio.Lock(), 0))
        self._locks[name] = lock, waiting + 1
        try:
            async with lock:
                kept = self._kept.get(name)
                if kept is None or not self._is_fresh(kept, stamp):
                    started = self._clock()
                    value = await make()
                    kept = _Kept(stamp, self._clock(), self._clock() - started, value)
                    self._kept[name] = kept
                    if len(self._kept) > KEPT_MAX:
                        self._kept.popitem(last=False)
                if name in self._kept:
                    self._kept.move_to_end(name)
                found: V = kept.value
                return found
        finally:
            lock, waiting = self._locks[name]
            if waiting > 1:
                self._locks[name] = lock, waiting - 1
            else:
                del self._locks[name]

    def _is_fresh(self, kept: _Kept, stamp: Hashable) -> bool:
        return kept.stamp == stamp or self._clock() - kept.made_at < min(COSTLY * kept.seconds, SECONDS_MAX)


class Stamp(NamedTuple):
    """What changes whenever a campaign's page would; equal stamps, equal pages."""

    key: int
    revision: int
    status: str
    head: int
    newest: tuple[int, str] | None


class Looks:
    """Looks at campaigns, and remembers for a moment what it saw."""

    def __init__(self, ledger: Ledger, read: Reader) -> None:
        self._ledger, self._read = ledger, read
        self._remembered = Remembered(time.monotonic)

    async def overview(self, campaign_id: str) -> Overview:
        """The campaign as the tables have it. Raises NotFoundError."""
        return (await self._stamped(campaign_id))[1]

    async def campaign(self, campaign_id: str) -> CampaignView:
        """The campaign with what its model says. Raises NotFoundError."""
        stamp, campaign = await self._stamped(campaign_id)
        return await self._remembered.get(("view", campaign_id), stamp, lambda: self._view(campaign))

    async def preview(self, request: Select) -> Prospect:
        """What a select would choose now. Raises CommandError and UnavailableError."""
        prospect: Prospect = await self._ledger.submit(Preview(request))
        return prospect

    async def decision(self, campaign: Overview, decision_id: str) -> RecentRow | None:
        """A decision of the campaign with its reward, as it is now."""
        if not is_id(decision_id):
            return None
        return await self._read(overview.find_decision, campaign.row.key, decision_id)

    async def _stamped(self, campaign_id: str) -> tuple[Stamp, Overview]:
        stamp = await self._read(_read_stamp, campaign_id) if is_id(campaign_id) else None
        if stamp is None:
            raise NotFoundError("there is no such campaign")

        async def make() -> Overview | None:
            return await self._read(read_overview, campaign_id)

        campaign = await self._remembered.get(("overview", campaign_id), stamp, make)
        if campaign is None:
            raise NotFoundError("there is no such campaign")
        return stamp, campaign

    async def _view(self, campaign: Overview) -> CampaignView:
        report, prospect = await asyncio.gather(self._describe(campaign), self._prospect(campaign))
        return await asyncio.to_thread(make_view, campaign, report, prospect)

    async def _describe(self, campaign: Overview) -> ModelReport | None:
        try:
            report: ModelReport = await self._ledger.submit(Describe(campaign.configuration.campaign_id))
        except (CommandError, UnavailableError):
            return None  # the page says so
        return report

    async def _prospect(self, campaign: Overview) -> Prospect | None:
        request = usual_request(campaign)
        if request is None:
            return None
        try:
            return await self.preview(request)
        except (CommandError, UnavailableError):
            return None  # such as a change between the look at the tables and this one; the next look is right


def is_id(text: str) -> bool:
    """Whether it could be an id: nothing else may reach the database."""
    return re.fullmatch(ID_PATTERN, text) is not None


def _read_stamp(connection: Connection, campaign_id: str) -> Stamp | None:
    row = campaigns.find_campaign(connection, campaign_id)
    if row is None:
        return None
    return Stamp(row.key, row.revision, row.status, row.head, decisions.newest_place(connection, row.key))
