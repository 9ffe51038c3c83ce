"""Routes that move a campaign: export, streamed page by page, and import, step by step."""

from collections.abc import AsyncIterator, Iterable
from typing import Annotated, Any

import structlog
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse

from prudent.api.campaigns import CampaignPath
from prudent.api.rendering import json_reply, render_campaign, with_lag
from prudent.api.replies import PROBLEMS, CampaignReply
from prudent.api.server.authentication import author_of
from prudent.api.server.bodies import Bodies
from prudent.api.server.middleware import StrictRoute
from prudent.clock import Clock
from prudent.errors import CommandError, UnavailableError
from prudent.ledger.access import LedgerAccess
from prudent.ledger.administration import CampaignRecord
from prudent.ledger.commands import Author
from prudent.ledger.importing import AbandonImport, Import
from prudent.ledger.missing import no_campaign
from prudent.settings import Limits
from prudent.store.read_pool import Reader
from prudent.transfer.decision_table import MEDIA_TYPES, DecisionTable, begin_table
from prudent.transfer.exporting import Export, begin_export
from prudent.transfer.lines import MEDIA_TYPE
from prudent.transfer.reading import ImportReader
from prudent.transfer.table_formats import TableFormat

logger = structlog.get_logger(__name__)

_FILE: dict[str, Any] = {MEDIA_TYPE: {"schema": {"type": "string", "description": "One JSON object per line."}}}
_TABLES: dict[str, Any] = {
    MEDIA_TYPES["csv"].partition(";")[0]: {"schema": {"type": "string", "description": "With a header."}},
    MEDIA_TYPES["parquet"]: {"schema": {"type": "string", "format": "binary"}},
}
Format = Annotated[
    TableFormat | None,
    Query(
        description="One row per decision, with its features and its reward, in this format; "
        "by default all that an import needs."
    ),
]


async def export_file(read: Reader, clock: Clock, campaign_id: str, table: TableFormat | None) -> Response:
    """A campaign as a file: all of it, or its decisions as a table of this format. Raises NotFoundError."""
    if table is None:
        export: Export | DecisionTable | None = await read(begin_export, campaign_id, clock)
        name, kind = f"{campaign_id}.ndjson", MEDIA_TYPE
    else:
        export = await read(begin_table, campaign_id, clock, table)
        name, kind = f"{campaign_id}-decisions.{table}", MEDIA_TYPES[table]
    if export is None:
        raise await read(no_campaign, campaign_id)

    async def pages() -> AsyncIterator[bytes]:
        while (page := await read(export.next_page)) is not None:
            yield page

    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return with_lag(StreamingResponse(pages(), media_type=kind, headers=headers), read)


def transfer_routes(ledger: LedgerAccess, read: Reader, bodies: Bodies, limits: Limits, clock: Clock) -> APIRouter:
    """``/campaigns/{campaign_id}/export`` and ``/import``."""
    router = APIRouter(tags=["campaigns"], responses=PROBLEMS, route_class=StrictRoute)

    @router.get(
        "/campaigns/{campaign_id}/export",
        operation_id="exportCampaign",
        responses={
            200: {"content": _FILE | _TABLES, "description": "Header, arms, log, decisions, trailer; or decisions only"}
        },
        response_class=Response,
    )
    async def export_campaign(campaign_id: CampaignPath, format: Format = None) -> Response:  # noqa: A002  # its name
        """Export a campaign as it is now, with its log and its decisions: everything that an import needs.

        The last line is a trailer; a file without it is incomplete. With `format`, only its decisions as a table, which
        cannot be imported.
        """
        return await export_file(read, clock, campaign_id, format)

    @router.post(
        "/import",
        operation_id="importCampaign",
        status_code=201,
        responses={201: {"model": CampaignReply}},
        openapi_extra={"requestBody": {"required": True, "content": _FILE}},
        response_class=Response,
    )
    async def import_campaign(request: Request) -> Response:
        """Import an exported campaign under its own id, which must not exist yet.

        All of it is imported or, if a line is invalid, nothing. The campaign is not visible before it is complete.
        """
        reader, chunks = ImportReader(limits.body_bytes_max), bodies.stream_ndjson(request)
        author = author_of(request)
        try:
            async for chunk in chunks:
                await _take(reader, reader.feed(chunk), author)
            record = await _take(reader, reader.close(), author)
        except BaseException as error:
            await _give_up(reader.key)
            if isinstance(error, CommandError | UnavailableError):
                async for _ in chunks:  # a client that is still sending would not read the response
                    pass
            raise
        assert record is not None  # noqa: S101  # close() ends with a step, or raises
        return json_reply(render_campaign(record), 201)

    async def _take(reader: ImportReader, steps: Iterable[Import], author: Author) -> CampaignRecord | None:
        record = None
        for step in steps:
            record = await ledger.administer(step, author)
            if record is not None:
                reader.key = record.row.key
        return record

    async def _give_up(key: int) -> None:
        """Have the staged rows removed; if the ledger does not take the step, maintenance removes them later."""
        if not key:
            return
        try:
            await ledger.administer(AbandonImport(key))
        except UnavailableError as error:
            logger.warning("an unfinished import is left to maintenance", error=error.message)

    return router
