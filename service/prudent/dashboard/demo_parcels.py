"""The button on the demo's page that sends more parcels, so that a newcomer sees it learn."""

from fastapi import APIRouter, Request, Response

from prudent.dashboard.forms import read_form
from prudent.dashboard.rendering import Pages, address, page, see
from prudent.demo import send_more_parcels
from prudent.ledger.access import LedgerAccess


def demo_routes(ledger: LedgerAccess, pages: Pages) -> APIRouter:
    """``POST /dashboard/campaigns/demo/parcels``, where the service has a demo campaign."""
    router = APIRouter(include_in_schema=False)

    @page(router, pages, "/dashboard/campaigns/demo/parcels", "POST")
    async def send(request: Request) -> Response:
        await read_form(request)
        await send_more_parcels(ledger)
        return see(address(request, "campaigns", "demo"))

    return router
