"""The page for trying a select by hand: a preview records nothing, a decision is a select like any other.

The form is built from the campaign, read back into a request, and shown as the curl command that sends the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import orjson
from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse
from pydantic import ValidationError

from prudent.api.decisions import select_command
from prudent.api.problems import describe_validation
from prudent.api.requests import SelectRequest
from prudent.dashboard import charts, formatting
from prudent.dashboard.campaign_view import decision_view, with_score
from prudent.dashboard.charts import ArmLine
from prudent.dashboard.drawing import Chart
from prudent.dashboard.login import read_form
from prudent.dashboard.overview import COLOURS, Overview, default_features, usual_features
from prudent.dashboard.queries import Queries
from prudent.dashboard.rendering import HEADERS, Pages, asks_for_keys, base_address, curl, page, sentence, step
from prudent.errors import ConflictError, InvalidCommandError
from prudent.ledger.commands import Decision, Prospect, Select
from prudent.ledger.ledger import Ledger
from prudent.store.statements import features_from_bytes

INPUTS_MAX = 240
"""Fields of a form; a request with more features is written as JSON."""
LISTED = "json"
"""Name of the text area for such a request."""


@dataclass(frozen=True)
class Input:
    """A number to fill in."""

    name: str
    label: str
    value: str


@dataclass(frozen=True)
class Group:
    """Inputs that belong together: an arm's features, or the context (title "")."""

    title: str
    inputs: list[Input]


@dataclass(frozen=True)
class Form:
    """A form, filled in. json: the text area's content where there are too many inputs, or no arms to ask about."""

    kind: str
    groups: list[Group]
    json: str | None
    explore: bool
    errors: dict[str, str] = field(default_factory=dict)


def is_input(name: str) -> bool:
    """Whether a field belongs to the request; other fields are ignored."""
    return name in {"asked", "explore", LISTED} or name.startswith("x.")


def make_form(campaign: Overview, values: Mapping[str, str]) -> Form:
    """The form with the submitted values, or else with values like those of the latest requests."""
    kind = campaign.configuration.model.type
    explore = "explore" in values or "asked" not in values
    if kind == "multi-armed":
        return Form(kind, [], None, explore)
    names = campaign.configuration.feature_names()
    rows = _rows(campaign)
    if not rows or len(rows) * len(names) > INPUTS_MAX:
        return Form(kind, [], values.get(LISTED) or _example(campaign, names), explore)
    groups = [
        Group(
            title, [Input(key, name, values.get(key, _text(value))) for key, name, value in _cells(place, names, row)]
        )
        for place, (title, row) in enumerate(rows)
    ]
    return Form(kind, groups, None, explore)


def read_request(campaign_id: str, form: Form) -> tuple[dict[str, Any], dict[str, str]]:
    """The body of a select, and messages by the name of the input they concern."""
    body: dict[str, Any] = {"campaign_id": campaign_id}
    errors: dict[str, str] = {}
    if form.json is not None:
        try:
            listed = orjson.loads(form.json)
        except orjson.JSONDecodeError:
            errors[LISTED] = "The text is not valid JSON"
        else:
            body["arms" if form.kind == "shared" else "context"] = listed
    elif form.groups:
        numbers = [[_number(one, errors) for one in group.inputs] for group in form.groups]
        if form.kind == "shared":
            body["arms"] = [
                {"arm_id": group.title, "features": row} for group, row in zip(form.groups, numbers, strict=True)
            ]
        else:
            body["context"] = numbers[0]
    if not form.explore:
        body["explore"] = False
    return body | {"explain": True}, errors


def to_command(body: dict[str, Any]) -> Select:
    """The request as the API would take it. Raises InvalidCommandError."""
    try:
        return select_command(SelectRequest.model_validate(body))
    except ValidationError as error:
        problem = describe_validation(error)
        first = problem["errors"][0]
        raise InvalidCommandError(first["message"], field=first["field"]) from None


def _rows(campaign: Overview) -> list[tuple[str, list[float]]]:
    """Default values: (arm, features) for a shared model, ("", context) for a disjoint one."""
    if campaign.configuration.model.type == "disjoint":
        usual = usual_features(campaign)
        return [("", (default_features(campaign.configuration) if usual is None else usual).tolist())]
    rows = []
    for arm in campaign.arms:
        if arm.status == "active":
            known = (
                default_features(campaign.configuration) if arm.features is None else features_from_bytes(arm.features)
            )
            rows.append((arm.arm_id, known.tolist()))
    return rows


def _cells(place: int, names: Sequence[str], row: Sequence[float]) -> list[tuple[str, str, float]]:
    return [(f"x.{place}.{column}", name, row[column]) for column, name in enumerate(names)]


def _example(campaign: Overview, names: Sequence[str]) -> str:
    values = default_features(campaign.configuration).tolist()
    if campaign.configuration.model.type == "disjoint":
        return orjson.dumps(values).decode()
    ids = [arm.arm_id for arm in campaign.arms if arm.status == "active"] or ["first", "second"]
    shown = [{"arm_id": arm_id, "features": values[: len(names)]} for arm_id in ids[:3]]
    return orjson.dumps(shown, option=orjson.OPT_INDENT_2).decode()


def _text(value: float) -> str:
    return f"{value:.4g}"


def _number(one: Input, errors: dict[str, str]) -> float:
    try:
        return float(one.value)
    except ValueError:
        errors[one.name] = f"{one.label}: enter a number"
        return 0.0


def try_routes(ledger: Ledger, queries: Queries, pages: Pages) -> APIRouter:
    """``/dashboard/campaigns/{campaign_id}/try``."""
    router = APIRouter(include_in_schema=False)
    path = "/dashboard/campaigns/{campaign_id}/try"

    @page(router, pages, path)
    async def show(request: Request, campaign_id: str) -> Response:
        return await answer(request, await queries.overview(campaign_id), dict(request.query_params))

    @page(router, pages, path, "POST")
    async def send(request: Request, campaign_id: str) -> Response:
        values = {name: value for name, value in (await read_form(request)).items() if is_input(name)}
        campaign = await queries.overview(campaign_id)
        body, errors = read_request(campaign_id, make_form(campaign, values))
        if errors:
            return await answer(request, campaign, values, 422)
        try:
            decision: Decision = await ledger.submit(to_command(body))
        except (InvalidCommandError, ConflictError) as error:
            return await answer(request, campaign, values, 422, sentence(error))
        # redirect to a GET, so that a reload records nothing
        query = urlencode(values | {"decision": decision.row.decision_id})
        root = request.scope.get("root_path", "")
        address = f"{root}/dashboard/campaigns/{step(campaign_id)}/try?{query}#decision"
        return RedirectResponse(address, 303, HEADERS)

    async def answer(
        request: Request, campaign: Overview, values: dict[str, str], status: int = 200, refusal: str | None = None
    ) -> Response:
        form = make_form(campaign, values)
        body, errors = read_request(campaign.configuration.campaign_id, form)
        prospect = None
        if not errors and refusal is None:
            try:
                prospect = await queries.preview(to_command(body))
            except (InvalidCommandError, ConflictError) as error:
                refusal = sentence(error)
        made = await queries.decision(campaign, values["decision"]) if values.get("decision") else None
        return pages.render(
            request,
            "try.html",
            status,
            campaign=campaign,
            formatting=formatting,
            form=form,
            errors=errors,
            refusal=refusal,
            prospect=prospect,
            chart=None if prospect is None else _chart(campaign, prospect),
            same=curl(base_address(request), "/select", body, with_key=asks_for_keys(request)),
            made=made,
            decision=None if made is None else decision_view(request, campaign, made),
        )

    return router


def _chart(campaign: Overview, prospect: Prospect) -> Chart | None:
    coloured = campaign.coloured
    lines = [
        with_score(ArmLine(arm.arm_id, "active", coloured.get(arm.arm_id)), arm) for arm in prospect.arms[:COLOURS]
    ]
    return charts.worth(lines, campaign.configuration.measure().quantity)
