"""A form that makes a campaign, anew or like another one: what it asks, and the API's request that it stands for."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import orjson
from pydantic import ValidationError

from prudent.api.rendering import render_campaign
from prudent.campaigns import CampaignConfiguration, InvalidConfigurationError, Risk, chosen_settings, resolve, stored
from prudent.campaigns.configuration import Algorithm, AlgorithmName, BonusName, ExplorationRuleName
from prudent.dashboard.forms import Field, Values, number, parsed
from prudent.errors import InvalidCommandError
from prudent.ledger.administration import CampaignRecord

WEIGHT, RISK = "risk.downside_weight", "risk"
FEATURES, CONTEXT_FEATURES, INTERACTIONS = "model.features", "model.context_features", "model.interactions"
ARMS = "arms"
ROWS, ROWS_MAX = 3, 60
"""Lines for features of either kind at first, and at most."""
PARTS = ("name", "kind", "categories", "period")
"""Of a line for a feature."""


def _number(name: str, label: str, meaning: str) -> Field:
    return Field(name, label, "number", meaning, is_required=False)


def _choice(name: str, label: str, meaning: str, names: Sequence[str]) -> Field:
    return Field(name, label, "choice", meaning, [("", "default"), *((one, one) for one in names)], is_required=False)


SETTINGS: Mapping[str, Sequence[Field]] = {
    "Rewards, subjects and a holdout": (
        _number("reward.minimum", "Smallest reward", "Others are refused."),
        _number("reward.maximum", "Largest reward", "Others are refused."),
        _number("reward.timeout_seconds", "Deadline, in seconds", "For a decision's reward."),
        _number("reward.default", "Reward past the deadline", "Learned if none has come."),
        _number("assignment.sticky_seconds", "Sticky, in seconds", "For so long a subject keeps its arm."),
        _number("holdout.share", "Holdout", "Share of decisions that are not the policy's, as 0.1."),
        _number("retention_days", "Keep decisions, in days", "Older ones are deleted; empty keeps them."),
        _number("log_retention_days", "Keep the log, in days", "Older rows become a snapshot; empty keeps them."),
        Field("holdout.arm_id", "Holdout's arm", help="Empty: any arm, drawn uniformly.", is_required=False),
    ),
    "Learning and exploration": (
        _choice("algorithm.name", "Algorithm", "By default linucb-cr, for any risk measure.", get_args(AlgorithmName)),
        _choice("algorithm.exploration_rule", "Rule", "By default randomized.", get_args(ExplorationRuleName)),
        _choice("algorithm.bonus", "Bonus", "By default local-tight.", get_args(BonusName)),
        _number("algorithm.exploration", "Exploration", "Multiplies the bonus; 0 never explores."),
        _number("algorithm.budget", "Budget", "Largest share of decisions that explore, as 0.1."),
        _number("algorithm.warmup", "Warm-up", "Plays of each arm before its index counts."),
        _number("algorithm.noise_scale", "Noise scale", "Of the rewards; empty: estimated from them."),
        _number("algorithm.forgetting.half_life", "Half-life", "An observation counts half after so many later ones."),
    ),
}
"""What a campaign may have besides, by headline. Left empty, each has the API's default."""
NAMES = (
    *("campaign_id", "description", WEIGHT, RISK, ARMS, "model.type", INTERACTIONS),
    *(one.name for fields in SETTINGS.values() for one in fields),
    *(f"{group}.{row}.{part}" for group in (FEATURES, CONTEXT_FEATURES) for row in range(ROWS_MAX) for part in PARTS),
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
    return values | ({RISK: _text(configuration.risk)} if weight is None else {WEIGHT: repr(weight).removesuffix(".0")})


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
    placed = dict(values)
    for group in (FEATURES, CONTEXT_FEATURES):
        lines = [[values.get(f"{group}.{row}.{part}", "") for part in PARTS] for row in range(rows(values))]
        lines.sort(key=lambda line: not line[0].strip())
        for row, line in enumerate(lines):
            placed |= {f"{group}.{row}.{part}": text for part, text in zip(PARTS, line, strict=True)}
    return placed


def requested(values: Mapping[str, str], source: CampaignRecord | None) -> CampaignConfiguration:
    """The request that the form stands for, checked. source: the campaign that it is to be like.

    Raises ValidationError, InvalidConfigurationError and InvalidCommandError.
    """
    body = _body(values) if source is None else _copied(source)
    body |= {"campaign_id": values.get("campaign_id", "").strip(), "description": values.get("description", "").strip()}
    body["risk"] = _risk(values)
    configuration = CampaignConfiguration.model_validate(body)
    try:
        resolve(configuration)
    except InvalidConfigurationError as error:
        if source is None or error.field != "algorithm.name":
            raise
        body["algorithm"].pop("name")  # the measure cannot be learned so, and the form has no field for another one
        configuration = CampaignConfiguration.model_validate(body)
        resolve(configuration)
    return configuration


def _copied(source: CampaignRecord) -> dict[str, Any]:
    """A campaign's settings as they are now, with the arms that are not retired, and without what is about others.

    What only follows from its measure is left out: it is not what another measure needs.
    """
    shown = render_campaign(source)
    body = {name: shown[name] for name in COPIED}
    retired = _about_retired(source)
    if "holdout" in retired:
        body["holdout"] = None
    if "baseline" in retired:
        body["algorithm"] |= {"baseline": None}
    kept = (arm for arm in shown["arms"] if arm["status"] != "retired")
    body["arms"] = [{name: arm[name] for name in ("arm_id", "features", "value")} for arm in kept]
    same = body | {"campaign_id": shown["campaign_id"], "risk": shown["risk"]}
    return body | {"algorithm": chosen_settings(CampaignConfiguration.model_validate(same))}


def _about_retired(source: CampaignRecord) -> dict[str, str]:
    """The settings of a campaign that are about a retired arm, and which arm."""
    configuration = stored(source.row.configuration)
    settings = {"holdout": configuration.holdout, "baseline": configuration.algorithm.baseline}
    arms = {name: one.arm_id for name, one in settings.items() if one is not None and one.arm_id is not None}
    retired = {arm.arm_id for arm in source.arms if arm.status == "retired"}
    return {name: arm_id for name, arm_id in arms.items() if arm_id in retired}


def left_out(source: CampaignRecord | None) -> list[str]:
    """What a campaign like this one goes without besides its retired arms, in sentences."""
    if source is None:
        return []
    retired = _about_retired(source)
    notes = [f"The {name} is left out, as its arm {arm_id} is retired." for name, arm_id in retired.items()]
    algorithm = stored(source.row.configuration).algorithm.name
    if algorithm != Algorithm().name:
        notes.append(f"With a risk measure that {algorithm} cannot learn, it has the default algorithm.")
    return notes


def _risk(values: Mapping[str, str]) -> Any:
    other = values.get(RISK, "").strip()
    if other:
        return parsed(other, RISK)
    return {"measure": "expectile", "downside_weight": number(values.get(WEIGHT, ""))}


def _body(values: Mapping[str, str]) -> dict[str, Any]:
    body: dict[str, Any] = {"model": _model(values), "arms": _arms(values)}
    for one in (one for fields in SETTINGS.values() for one in fields):
        text = values.get(one.name, "").strip()
        if text:
            *parts, last = one.name.split(".")
            place = body
            for part in parts:
                place = place.setdefault(part, {})
            place[last] = number(text) if one.kind == "number" else text
    if "holdout" in body and "arm_id" not in body["holdout"]:
        body["holdout"]["policy"] = "uniform"
    return body


def _model(values: Mapping[str, str]) -> dict[str, Any]:
    given = {
        "features": _features(values, FEATURES),
        "context_features": _features(values, CONTEXT_FEATURES),
        "interactions": [
            [name.strip() for name in line.split("*")]
            for line in values.get(INTERACTIONS, "").splitlines()
            if line.strip()
        ],
    }
    model = {name: found for name, found in given.items() if found}
    return {"type": values.get("model.type", "disjoint"), **model} if model else {"type": "multi-armed"}


def _features(values: Mapping[str, str], group: str) -> list[dict[str, Any]]:
    """The features of the lines that have a name."""
    found = []
    for row in range(rows(values)):
        name, kind, categories, period = (values.get(f"{group}.{row}.{part}", "").strip() for part in PARTS)
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
