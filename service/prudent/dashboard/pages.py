"""The pages that only show: the list of campaigns, a campaign, a decision."""

from typing import Literal

import orjson
from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from prudent.api.transfer import export_file
from prudent.clock import Clock
from prudent.dashboard import formatting
from prudent.dashboard.arms import SHOWN_MAX, added, arm_table
from prudent.dashboard.campaign_view import decision_view, health
from prudent.dashboard.overview import LISTED_MAX, Overview, read_list
from prudent.dashboard.queries import Queries
from prudent.dashboard.rendering import HEADERS, Pages, asks_for_keys, base_address, curl, page
from prudent.dashboard.rules import rules
from prudent.dashboard.trend import COMPARED_FROM
from prudent.dashboard.try_select import make_form, read_request
from prudent.errors import NotFoundError
from prudent.identifiers import is_id
from prudent.ledger.access import LedgerAccess
from prudent.ledger.missing import no_campaign
from prudent.store.read_pool import Reader
from prudent.store.reports import PLAYS_MAX

LATEST = 12
"""Decisions in the table of the latest ones."""
FIRST_CAMPAIGN = {
    "campaign_id": "couriers",
    "description": "Which courier should take the parcel?",
    "risk": {"measure": "expectile", "downside_weight": 9},
    "model": {"type": "multi-armed"},
    "arms": [{"arm_id": "steady"}, {"arm_id": "bold"}],
}


def page_routes(ledger: LedgerAccess, read: Reader, queries: Queries, pages: Pages, clock: Clock) -> APIRouter:
    """``/`` and the pages below it."""
    router = APIRouter(include_in_schema=False)

    @page(router, pages, "/")
    async def show_list(request: Request, after: str = "") -> Response:
        after = after if is_id(after) else ""
        found = await read(read_list, after)
        return pages.render(
            request,
            "campaigns.html",
            items=found[:LISTED_MAX],
            more=found[LISTED_MAX - 1].campaign_id if len(found) > LISTED_MAX else None,
            after=after,
            fault=ledger.fault,
            create=curl(base_address(request), "/campaigns", FIRST_CAMPAIGN, with_key=asks_for_keys(request)),
        )

    @page(router, pages, "/dashboard")
    @page(router, pages, "/dashboard/")
    async def to_list(request: Request) -> Response:
        return RedirectResponse(f"{request.scope.get('root_path', '')}/", 308, HEADERS)

    @page(router, pages, "/dashboard/campaigns/{campaign_id}")
    async def show_campaign(
        request: Request, campaign_id: str, arm: str = "", order: str = "", first: str = ""
    ) -> Response:
        view = await queries.campaign(campaign_id)
        campaign = view.campaign
        changes = await queries.changes(campaign)
        return pages.render(
            request,
            "campaign.html",
            campaign=campaign,
            view=view,
            formatting=formatting,
            table=arm_table(view.lines, arm, order, int(first) if first.isdecimal() and len(first) < 10 else 0),
            best_arms=[one for one in view.policy.arms if one.share][:SHOWN_MAX] if view.policy else [],
            findings=health(view, ledger.fault, clock()),
            recent=campaign.recent[:LATEST],
            plays_max=PLAYS_MAX,
            compared_from=COMPARED_FROM,
            curls=_curls(request, campaign),
            rules=rules(campaign.configuration),
            changes=changes,
            changed=changes[0] if changes and "changed" in request.query_params else None,
        )

    @page(router, pages, "/dashboard/campaigns/{campaign_id}/export")
    async def export(
        request: Request,  # noqa: ARG001  # what every page takes
        campaign_id: str,
        table: Literal["csv"] | None = None,
    ) -> Response:
        if not is_id(campaign_id):
            raise await read(no_campaign, campaign_id)
        return await export_file(read, clock, campaign_id, table)

    @page(router, pages, "/dashboard/campaigns/{campaign_id}/decisions/{decision_id}")
    async def show_decision(request: Request, campaign_id: str, decision_id: str) -> Response:
        campaign = await queries.overview(campaign_id)
        made = await queries.decision(campaign, decision_id)
        if made is None:
            raise NotFoundError("this campaign has no decision with this ID")
        arms = orjson.loads(made.decision.explanation or "[]")
        return pages.render(
            request,
            "decision.html",
            campaign=campaign,
            made=made,
            decision=decision_view(request, campaign, made),
            formatting=formatting,
            added=added,
            arms=arms[:SHOWN_MAX],
            more_arms=max(0, len(arms) - SHOWN_MAX),
        )

    return router


def _curls(request: Request, campaign: Overview) -> dict[str, str]:
    """Commands to copy: a select, a reward, that of the latest decision, and the end of a pause."""
    base, with_key = base_address(request), asks_for_keys(request)
    campaign_id = campaign.configuration.campaign_id
    body, _ = read_request(campaign_id, make_form(campaign, {}))
    reward = {"decision_id": "THE-DECISION-ID", "reward": 1.0}
    latest = reward | {"decision_id": campaign.recent[0].decision.decision_id} if campaign.recent else reward
    resume = curl(base, f"/campaigns/{campaign_id}", {"status": "active"}, with_key=with_key)
    return {
        "select": curl(base, "/select", body, with_key=with_key),
        "reward": curl(base, "/reward", reward, with_key=with_key),
        "latest_reward": curl(base, "/reward", latest, with_key=with_key),
        "resume": resume.replace("curl -s", "curl -s -X PATCH", 1),
    }
