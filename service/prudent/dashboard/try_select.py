"""The page where a select is tried by hand: a preview records nothing, a decision is a select like any other."""

from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from prudent.dashboard import figures, formatting
from prudent.dashboard.decision_view import decision_view
from prudent.dashboard.error_pages import page, sentence
from prudent.dashboard.figures import ArmLine, Figure
from prudent.dashboard.forms import base_address, read_form
from prudent.dashboard.overview import COLOURS, Overview
from prudent.dashboard.queries import Looks
from prudent.dashboard.rendering import HEADERS, Pages, asks_for_keys, step
from prudent.dashboard.requests import curl, is_input, make_form, read_request, to_command
from prudent.dashboard.summary import with_score
from prudent.errors import ConflictError, InvalidCommandError
from prudent.ledger.commands import Decision, Prospect
from prudent.ledger.ledger import Ledger


def trying_routes(ledger: Ledger, looks: Looks, pages: Pages) -> APIRouter:
    """``/dashboard/campaigns/{campaign_id}/try``."""
    router = APIRouter(include_in_schema=False)
    path = "/dashboard/campaigns/{campaign_id}/try"

    @page(router, pages, path)
    async def show(request: Request, campaign_id: str) -> Response:
        return await answer(request, await looks.overview(campaign_id), dict(request.query_params))

    @page(router, pages, path, "POST")
    async def send(request: Request, campaign_id: str) -> Response:
        values = {name: value for name, value in (await read_form(request)).items() if is_input(name)}
        seen = await looks.overview(campaign_id)
        body, errors = read_request(campaign_id, make_form(seen, values))
        if errors:
            return await answer(request, seen, values, 422)
        try:
            decision: Decision = await ledger.submit(to_command(body))
        except (InvalidCommandError, ConflictError) as error:
            return await answer(request, seen, values, 422, sentence(error))
        # back to a GET, so that reloading decides nothing
        query = urlencode(values | {"decision": decision.decision_id})
        root = request.scope.get("root_path", "")
        address = f"{root}/dashboard/campaigns/{step(campaign_id)}/try?{query}#decision"
        return RedirectResponse(address, 303, HEADERS)

    async def answer(
        request: Request, seen: Overview, values: dict[str, str], status: int = 200, refusal: str | None = None
    ) -> Response:
        form = make_form(seen, values)
        body, errors = read_request(seen.configuration.campaign_id, form)
        prospect = None
        if not errors and refusal is None:
            try:
                prospect = await looks.preview(to_command(body))
            except (InvalidCommandError, ConflictError) as error:
                refusal = sentence(error)
        made = await looks.decision(seen, values["decision"]) if values.get("decision") else None
        return pages.render(
            request,
            "try.html",
            status,
            seen=seen,
            formatting=formatting,
            form=form,
            errors=errors,
            refusal=refusal,
            prospect=prospect,
            chart=None if prospect is None else _chart(seen, prospect),
            same=curl(base_address(request), "/select", body, with_key=asks_for_keys(request)),
            made=made,
            decision=None if made is None else decision_view(request, seen, made),
        )

    return router


def _chart(seen: Overview, prospect: Prospect) -> Figure | None:
    coloured = seen.coloured
    lines = [
        with_score(ArmLine(arm.arm_id, "active", coloured.get(arm.arm_id)), arm) for arm in prospect.arms[:COLOURS]
    ]
    return figures.worth(lines, formatting.unit(seen.configuration))
