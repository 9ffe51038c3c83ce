"""The form of the try page: made from the campaign, read back into a request, and shown as the curl that does it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from pydantic import ValidationError

from prudent.api.decisions import select_command
from prudent.api.problems import describe_validation
from prudent.api.requests import SelectRequest
from prudent.dashboard.formatting import feature_names
from prudent.dashboard.overview import Overview, default_features, usual_features
from prudent.errors import InvalidCommandError
from prudent.ledger.commands import Select
from prudent.store.tables import features_from_bytes

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
    """Whether a field belongs to the request; what else is sent is left out."""
    return name in {"asked", "explore", LISTED} or name.startswith("x.")


def make_form(seen: Overview, values: Mapping[str, str]) -> Form:
    """The form, with what was sent before; where nothing was, with what newest requests looked like."""
    kind = seen.configuration.model.type
    explore = "explore" in values or "asked" not in values
    if kind == "multi-armed":
        return Form(kind, [], None, explore)
    names = feature_names(seen.configuration)
    rows = _rows(seen)
    if not rows or len(rows) * len(names) > INPUTS_MAX:
        return Form(kind, [], values.get(LISTED) or _example(seen, names), explore)
    groups = [
        Group(
            title, [Input(key, name, values.get(key, _text(value))) for key, name, value in _cells(place, names, row)]
        )
        for place, (title, row) in enumerate(rows)
    ]
    return Form(kind, groups, None, explore)


def read_request(campaign_id: str, form: Form) -> tuple[dict[str, Any], dict[str, str]]:
    """The body of a select as the form says, and what is wrong with it by the name of the input."""
    body: dict[str, Any] = {"campaign_id": campaign_id}
    errors: dict[str, str] = {}
    if form.json is not None:
        try:
            listed = orjson.loads(form.json)
        except orjson.JSONDecodeError:
            errors[LISTED] = "is not valid JSON"
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


def curl(base: str, path: str, body: Mapping[str, Any], *, with_key: bool) -> str:
    """A command for a shell. The body has ids and numbers alone, so nothing in it ends the quotes."""
    lines = [f"curl -s {base}{path}", "-H 'Content-Type: application/json'"]
    if with_key:
        lines.append('-H "X-API-Key: $PRUDENT_API_KEY"')
    lines.append(f"-d '{orjson.dumps(body).decode()}'")
    return " \\\n  ".join(lines)


def _rows(seen: Overview) -> list[tuple[str, list[float]]]:
    """What there is to fill in: (arm, features) of the shared model, ("", context) of the disjoint one."""
    if seen.configuration.model.type == "disjoint":
        usual = usual_features(seen)
        return [("", (default_features(seen.configuration) if usual is None else usual).tolist())]
    rows = []
    for arm in seen.arms:
        if arm.status == "active":
            known = default_features(seen.configuration) if arm.features is None else features_from_bytes(arm.features)
            rows.append((arm.arm_id, known.tolist()))
    return rows


def _cells(place: int, names: Sequence[str], row: Sequence[float]) -> list[tuple[str, str, float]]:
    return [(f"x.{place}.{column}", name, row[column]) for column, name in enumerate(names)]


def _example(seen: Overview, names: Sequence[str]) -> str:
    values = default_features(seen.configuration).tolist()
    if seen.configuration.model.type == "disjoint":
        return orjson.dumps(values).decode()
    ids = [arm.arm_id for arm in seen.arms if arm.status == "active"] or ["first", "second"]
    shown = [{"arm_id": arm_id, "features": values[: len(names)]} for arm_id in ids[:3]]
    return orjson.dumps(shown, option=orjson.OPT_INDENT_2).decode()


def _text(value: float) -> str:
    return f"{value:.4g}"


def _number(one: Input, errors: dict[str, str]) -> float:
    try:
        return float(one.value)
    except ValueError:
        errors[one.name] = f"{one.label}: fill in a number"
        return 0.0
