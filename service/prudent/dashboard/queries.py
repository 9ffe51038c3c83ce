"""What the pages know: from the tables by the reader's threads, from the model as ``/model`` has it."""

import asyncio
import re
import time
from typing import NamedTuple

from sqlalchemy import Connection

from prudent.dashboard.cache import Remembered
from prudent.dashboard.overview import Overview, read_overview, usual_request
from prudent.dashboard.view import CampaignView, make_view
from prudent.errors import CommandError, NotFoundError, UnavailableError
from prudent.identifiers import ID_PATTERN
from prudent.ledger.commands import Describe, ModelReport, Preview, Prospect, Select
from prudent.ledger.ledger import Ledger
from prudent.store import campaigns, decisions, overview
from prudent.store.overview import RecentRow
from prudent.store.read_pool import Reader


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
        stamp, seen = await self._stamped(campaign_id)
        return await self._remembered.get(("view", campaign_id), stamp, lambda: self._view(seen))

    async def preview(self, request: Select) -> Prospect:
        """What a select would choose now. Raises CommandError and UnavailableError."""
        prospect: Prospect = await self._ledger.submit(Preview(request))
        return prospect

    async def decision(self, seen: Overview, decision_id: str) -> RecentRow | None:
        """A decision of the campaign with its reward, as it is now."""
        if not is_id(decision_id):
            return None
        return await self._read(overview.find_decision, seen.row.key, decision_id)

    async def _stamped(self, campaign_id: str) -> tuple[Stamp, Overview]:
        stamp = await self._read(_read_stamp, campaign_id) if is_id(campaign_id) else None
        if stamp is None:
            raise NotFoundError("there is no such campaign")

        async def make() -> Overview | None:
            return await self._read(read_overview, campaign_id)

        seen = await self._remembered.get(("overview", campaign_id), stamp, make)
        if seen is None:
            raise NotFoundError("there is no such campaign")
        return stamp, seen

    async def _view(self, seen: Overview) -> CampaignView:
        report, prospect = await asyncio.gather(self._describe(seen), self._prospect(seen))
        return await asyncio.to_thread(make_view, seen, report, prospect)

    async def _describe(self, seen: Overview) -> ModelReport | None:
        try:
            report: ModelReport = await self._ledger.submit(Describe(seen.configuration.campaign_id))
        except (CommandError, UnavailableError):
            return None  # the page says so
        return report

    async def _prospect(self, seen: Overview) -> Prospect | None:
        request = usual_request(seen)
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
