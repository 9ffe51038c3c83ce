"""Routes that read what happened: they take no turn in the ledger's queue, and no lock."""

from fastapi import APIRouter, Response

from service.api.campaigns import CampaignPath
from service.api.reader import Reader
from service.api.replies import PROBLEMS, json_reply
from service.api.report_replies import ReportReply, render_campaign_report
from service.ledger.errors import NotFoundError
from service.ledger.identifiers import Clock
from service.reporting.report import report


def report_routes(read: Reader, clock: Clock) -> APIRouter:
    """The report."""
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

    return router
