"""A form that makes a campaign, anew or like another one: what it asks, and the API's request that it stands for."""

from collections.abc import Mapping
from typing import Any

import orjson
from pydantic import ValidationError

from prudent.api.rendering import render_campaign
from prudent.campaigns import CampaignConfiguration, InvalidConfigurationError, Risk, resolve, stored
from prudent.dashboard.forms import Values, number, parsed
from prudent.errors import InvalidCommandError
from prudent.ledger.administration import CampaignRecord

WEIGHT, RISK = "risk.downside_weight", "risk"
FEATURES = "model.features"
ARMS = "arms"
ROWS, ROWS_MAX = 3, 60
"""Lines for features at first, and at most."""
PARTS = ("name", "kind", "categories", "period")
"""Of a line for a feature."""
NUMBERS = (
    "reward.minimum",
    "reward.maximum",
    "reward.timeout_seconds",
    "reward.default",
    "assignment.sticky_seconds",
    "holdout.share",
)
NAMES = (
    *("campaign_id", "description", WEIGHT, RISK, "model.type", ARMS, "holdout.arm_id", *NUMBERS),
    *(f"{FEATURES}.{row}.{part}" for row in range(ROWS_MAX) for part in PARTS),
)
"""The form's fields that an error may belong to."""
COPIED = frozenset(CampaignConfiguration.model_fields) - {"campaign_id", "description", "risk"}
"""What a campaign takes over from the one that it is made like."""


def rows(values: Mapping[str, str]) -> int:
    """How many lines for features the form has."""
    text = values.get("rows", "")
    return min(int(text), ROWS_MAX) if text.isdecimal() and len(text) < 5 else ROWS


def like(record: CampaignRecord) -> Values:
    """What the form is filled in with for a campaign like this one."""
    configuration = stored(record.row.configuration)
    values = {"campaign_id": f"{configuration.campaign_id[:120]}-copy", "description": configuration.description}
    weight = getattr(configuration.risk, "downside_weight", None)
    return values | ({RISK: _text(configuration.risk)} if weight is None else {WEIGHT: f"{weight:g}"})


def _text(risk: Risk) -> str:
    """A risk measure as JSON, without what follows from the rest of it."""
    kept = {name: value for name, value in risk.model_dump().items() if value is not None}
    for name in [name for name in kept if name != "measure"]:
        fewer = {other: value for other, value in kept.items() if other != name}
        try:
            follows = type(risk).model_validate(fewer).resolved() == risk
        except (ValidationError, InvalidConfigurationError):
            continue
        kept = fewer if follows else kept
    return orjson.dumps(kept).decode()


def tidy(values: Mapping[str, str]) -> Values:
    """The same form with the named features first, so that a line's place is that of its feature in the request."""
    lines = [[values.get(f"{FEATURES}.{row}.{part}", "") for part in PARTS] for row in range(rows(values))]
    lines.sort(key=lambda line: not line[0].strip())
    placed: Values = {}
    for row, line in enumerate(lines):
        placed |= {f"{FEATURES}.{row}.{part}": text for part, text in zip(PARTS, line, strict=True)}
    return {**values, **placed}


def requested(values: Mapping[str, str], source: CampaignRecord | None) -> CampaignConfiguration:
    """The request that the form stands for, checked. source: the campaign that it is to be like.

    Raises ValidationError, InvalidConfigurationError and InvalidCommandError.
    """
    body = _body(values) if source is None else _copied(source)
    body |= {"campaign_id": values.get("campaign_id", "").strip(), "description": values.get("description", "").strip()}
    body["risk"] = _risk(values)
    configuration = CampaignConfiguration.model_validate(body)
    resolve(configuration)
    return configuration


def _copied(source: CampaignRecord) -> dict[str, Any]:
    """A campaign's settings as they are now, with the arms that are not retired."""
    shown = render_campaign(source)
    body = {name: shown[name] for name in COPIED}
    kept = (arm for arm in shown["arms"] if arm["status"] != "retired")
    body["arms"] = [{name: arm[name] for name in ("arm_id", "features", "value")} for arm in kept]
    return body


def _risk(values: Mapping[str, str]) -> Any:
    other = values.get(RISK, "").strip()
    if other:
        return parsed(other, RISK)
    return {"measure": "expectile", "downside_weight": number(values.get(WEIGHT, ""))}


def _body(values: Mapping[str, str]) -> dict[str, Any]:
    features = _features(values)
    body: dict[str, Any] = {"model": {"type": "multi-armed"}, "arms": _arms(values)}
    if features:
        body["model"] = {"type": values.get("model.type", "disjoint"), "features": features}
    for path in NUMBERS:
        text = values.get(path, "").strip()
        if text:
            part, _, name = path.partition(".")
            body.setdefault(part, {})[name] = number(text)
    if "holdout" in body:
        arm_id = values.get("holdout.arm_id", "").strip()
        body["holdout"] |= {"arm_id": arm_id} if arm_id else {"policy": "uniform"}
    return body


def _features(values: Mapping[str, str]) -> list[dict[str, Any]]:
    """The features of the lines that have a name."""
    found = []
    for row in range(rows(values)):
        name, kind, categories, period = (values.get(f"{FEATURES}.{row}.{part}", "").strip() for part in PARTS)
        if not name:
            continue
        feature: dict[str, Any] = {"name": name, "kind": kind or "number"}
        if kind == "category":
            feature["categories"] = [one.strip() for one in categories.split(",") if one.strip()]
        if kind == "cyclic":
            feature["period"] = number(period)
        found.append(feature)
    return found


def _arms(values: Mapping[str, str]) -> list[dict[str, Any]]:
    """An arm of each line: its id and, after a space, its features as JSON."""
    arms = []
    for place, line in enumerate(filter(None, map(str.strip, values.get(ARMS, "").splitlines()))):
        arm_id, _, rest = line.partition(" ")
        arm: dict[str, Any] = {"arm_id": arm_id}
        if rest.strip():
            try:
                arm["features"] = parsed(rest, ARMS)
            except InvalidCommandError as error:
                message = f"line {place + 1}: what follows the id {error.message}"
                raise InvalidCommandError(message, field=ARMS) from None
        arms.append(arm)
    return arms
