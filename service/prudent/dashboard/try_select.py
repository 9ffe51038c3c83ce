"""The page for trying a select by hand: a preview records nothing, a decision is a select like any other.

The form is built from the campaign, read back into a request, and shown as the curl command that sends the same.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlencode

import numpy as np
import orjson
from fastapi import APIRouter, Request, Response
from numpy.typing import NDArray
from pydantic import ValidationError

from prudent.api.decisions import select_command
from prudent.api.problems import describe_validation
from prudent.api.requests import SelectRequest
from prudent.campaigns.features import CONTEXT
from prudent.campaigns.rows import OTHER, Column
from prudent.campaigns.values import RepeatedNameError, refuse_repeated_names
from prudent.dashboard import charts, formatting
from prudent.dashboard.arms import SHOWN_MAX, ArmLine, added, with_score
from prudent.dashboard.campaign_view import decision_view
from prudent.dashboard.drawing import Chart
from prudent.dashboard.forms import read_form
from prudent.dashboard.overview import COLOURS, Overview, usual_features
from prudent.dashboard.queries import Queries
from prudent.dashboard.rendering import Pages, address, asks_for_keys, base_address, curl, page, see, sentence
from prudent.errors import ConflictError, InvalidCommandError
from prudent.ledger.access import LedgerAccess
from prudent.ledger.commands import Select
from prudent.ledger.outcomes import Decision, Prospect
from prudent.store.statements import features_from_bytes

INPUTS_MAX = 240
"""Fields of a form; a request with more features is written as JSON."""
LISTED = "json"
"""Name of the text area for such a request."""


Row = dict[str, Any]
"""Values by the keys of the row's columns or, without names, by place."""
MISSING = ""
"""What is filled in for a value that is not to be sent."""
YES, NO = "yes", "no"


@dataclass(frozen=True)
class Input:
    """A field to fill in: a checkbox, one of the options, one of the hints or another text, or a number."""

    name: str
    label: str
    value: str
    kind: Literal["number", "choice", "text", "check"] = "number"
    options: Sequence[str] = ()
    is_required: bool = True


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
    rows = _rows(campaign)
    width = len(campaign.configuration.feature_names())
    if not any(title or kind == "disjoint" for title, _ in rows) or len(rows) * width > INPUTS_MAX:
        return Form(kind, [], values.get(LISTED) or _example(campaign), explore)
    groups = [Group(title, _inputs(campaign, place, row, values)) for place, (title, row) in enumerate(rows)]
    return Form(kind, groups, None, explore)


def _inputs(campaign: Overview, place: int, row: Row, values: Mapping[str, str]) -> list[Input]:
    """A field for each feature of a part of a row, filled in with what was submitted or else with the row."""
    reader = campaign.reader
    if not reader.is_named:
        names = campaign.configuration.feature_names()
        cells = enumerate(zip(names, row.values(), strict=True))
        return [
            Input(key := f"x.{place}.{column}", name, values.get(key, _text(value))) for column, (name, value) in cells
        ]
    columns = {column.key: column for column in reader.columns}
    return [
        _input(campaign, f"x.{place}.{order}", columns[key], value, values)
        for order, (key, value) in enumerate(row.items())
    ]


def _input(campaign: Overview, key: str, column: Column, value: Any, values: Mapping[str, str]) -> Input:
    kind, missing = column.feature.kind, column.may_miss
    options = [MISSING] if missing else []
    if kind == "boolean" and not missing:
        checked = key in values if "asked" in values else bool(value)
        return Input(key, column.key, YES if checked else "", "check", is_required=False)
    if kind == "boolean":
        shown = values.get(key, MISSING if value is None else YES if value else NO)
        return Input(key, column.key, shown, "choice", [MISSING, YES, NO], is_required=False)
    if kind != "category":
        shown = values.get(key, MISSING if value is None else _text(value))
        return Input(key, column.key, shown, is_required=not missing)
    texts = list(campaign.vocabulary.values(column.key).values())
    shown = values.get(key, value if isinstance(value, str) else MISSING)
    if campaign.vocabulary.has_room(column.key):
        return Input(key, column.key, shown, "text", texts, is_required=not missing)
    options += [*texts, OTHER] if column.has_other else texts
    return Input(key, column.key, shown, "choice", options, is_required=not missing)


def read_request(campaign_id: str, form: Form) -> tuple[dict[str, Any], dict[str, str]]:
    """The body of a select, and messages by the name of the input they concern."""
    body: dict[str, Any] = {"campaign_id": campaign_id}
    errors: dict[str, str] = {}
    if form.json is not None:
        try:
            listed = orjson.loads(form.json)
            refuse_repeated_names(form.json.encode(), listed)
        except RepeatedNameError:
            errors[LISTED] = "The text has a name twice in one object"
        except orjson.JSONDecodeError:
            errors[LISTED] = "The text is not valid JSON"
        else:
            body["arms" if form.kind == "shared" else "context"] = listed
    elif form.groups:
        parts = [(group.title, _given(group, errors)) for group in form.groups]
        if form.kind == "shared":
            body["arms"] = [{"arm_id": title, "features": part} for title, part in parts if title]
        for title, part in parts:
            if not title:
                body["context"] = part
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


def _rows(campaign: Overview) -> list[tuple[str, Row]]:
    """Default values: (arm, features) for a shared model, ("", context) for the request."""
    reader = campaign.reader
    usual = usual_features(campaign)
    whole = reader.default() if usual is None else usual
    if campaign.configuration.model.type == "disjoint":
        return [("", _shown(campaign, whole))]
    rows = []
    own, context = reader.split(reader.default())
    for arm in campaign.arms:
        if arm.status == "active":
            known = own if arm.features is None else features_from_bytes(arm.features)
            rows.append((arm.arm_id, _shown(campaign, known)))
    if reader.has_context:
        places = len(own)
        context = reader.split(whole)[1]
        shown = campaign.reader.show(np.concatenate([own, context]), campaign.vocabulary)
        rows.append(("", dict(list(shown.items())[places:])))
    return rows


def _shown(campaign: Overview, row: NDArray[np.float64]) -> Row:
    if campaign.reader.is_named:
        return campaign.reader.show(row, campaign.vocabulary)
    return {str(place): value for place, value in enumerate(row.tolist())}


def _example(campaign: Overview) -> str:
    reader = campaign.reader
    own = reader.write(reader.split(reader.default())[0], campaign.vocabulary)
    if campaign.configuration.model.type == "disjoint":
        return orjson.dumps(own).decode()
    ids = [arm.arm_id for arm in campaign.arms if arm.status == "active"] or ["first", "second"]
    shown = [{"arm_id": arm_id, "features": own} for arm_id in ids[:3]]
    return orjson.dumps(shown, option=orjson.OPT_INDENT_2).decode()


def _text(value: float) -> str:
    return repr(value).removesuffix(".0")  # exactly, as it is sent again


def _given(group: Group, errors: dict[str, str]) -> list[Any] | dict[str, Any]:
    """What a request sends for these inputs: an array of numbers, or values by name."""
    values = [_value(one, errors) for one in group.inputs]
    if all(one.kind == "number" and one.is_required for one in group.inputs):
        return values
    names = [one.label.removeprefix(CONTEXT) if not group.title else one.label for one in group.inputs]
    return {name: value for name, value in zip(names, values, strict=True) if value is not None}


def _value(one: Input, errors: dict[str, str]) -> Any:
    if one.kind == "check":
        return one.value == YES
    if one.value == MISSING and not one.is_required:
        return None
    if one.kind == "choice" and set(one.options) <= {MISSING, YES, NO}:
        return one.value == YES
    if one.kind in {"choice", "text"}:
        return one.value
    try:
        return float(one.value)
    except ValueError:
        errors[one.name] = f"{one.label}: enter a number"
        return 0.0


def try_routes(ledger: LedgerAccess, queries: Queries, pages: Pages) -> APIRouter:
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
        return see(f"{address(request, 'campaigns', campaign_id, 'try')}?{query}#decision")

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
            added=added,
            shown_max=SHOWN_MAX,
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
