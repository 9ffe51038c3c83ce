"""Routes that read what happened: they take no turn in the ledger's queue, and no lock."""

from typing import Annotated

import orjson
from fastapi import APIRouter, Query, Response
from sqlalchemy import Connection

from prudent.api.campaigns import LIST_MAX, CampaignPath
from prudent.api.cursors import decode_cursor
from prudent.api.replies import PROBLEMS, json_reply
from prudent.api.report_replies import ReportReply, TrailReply, render_campaign_report, render_trail
from prudent.clock import Clock
from prudent.errors import NotFoundError
from prudent.reporting.decision_log import FROM_THE_NEWEST, Position, read_trail
from prudent.reporting.report import report
from prudent.store.read_pool import Reader
from prudent.store.tables import INSTANT_MAX

POSITION_PATTERN = r"([0-9]{1,19})/([A-Za-z0-9._~-]{1,128})"


def report_routes(read: Reader, clock: Clock) -> APIRouter:
    """The report and the audit trail."""
    router = APIRouter(tags=["reports"], responses=PROBLEMS)

    @router.get(
        "/campaigns/{campaign_id}/report",
        operation_id="getReport",
        responses={200: {"model": ReportReply}},
        response_class=Response,
    )
    async def get_report(campaign_id: CampaignPath) -> Response:
        """Report each arm's plays and rewards, the price of caution, and whether the campaign learns."""
        found = await read.in_pages(report, campaign_id, clock)
        if found is None:
            raise NotFoundError("there is no such campaign")
        return json_reply(render_campaign_report(found))

    @router.get(
        "/campaigns/{campaign_id}/decisions",
        operation_id="listDecisions",
        responses={200: {"model": TrailReply}},
        response_class=Response,
    )
    async def list_decisions(
        campaign_id: CampaignPath,
        limit: Annotated[int, Query(ge=1, le=LIST_MAX)] = 100,
        cursor: Annotated[str | None, Query(max_length=256, description="From the previous page.")] = None,
    ) -> Response:
        """List decisions with their rewards, newest first. Decisions made meanwhile do not move the pages."""
        before = FROM_THE_NEWEST if cursor is None else _position(cursor)
        page = await read(_read_page, campaign_id, before, limit, clock)
        if page is None:
            raise NotFoundError("there is no such campaign")
        return Response(page, media_type="application/json")

    return router


def _read_page(connection: Connection, campaign_id: str, before: Position, limit: int, clock: Clock) -> bytes | None:
    """The page as JSON, made off the event loop: a thousand decisions may have half a million features."""
    trail = read_trail(connection, campaign_id, before, limit, clock)
    return None if trail is None else orjson.dumps(render_trail(trail))


def _position(cursor: str) -> Position:
    created_at, decision_id = decode_cursor(cursor, POSITION_PATTERN).groups()
    return Position(min(int(created_at), INSTANT_MAX), decision_id)
