"""The campaign that a log is played through: what is given, completed by what the log shows."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from prudent_client import Observation
from prudent_simulator.custom_environments.loading import EnvironmentFileError, parse_mapping, read_file
from prudent_simulator.offline_evaluation.reading import Log, LogError, Row
from prudent_simulator.settings import AlgorithmName

_ARM_ID = re.compile(r"[A-Za-z0-9._~-]{1,128}")


@dataclass(frozen=True)
class CampaignOptions:
    """What the command line says. file: a campaign as for POST /campaigns, in JSON or YAML; the rest replaces it."""

    file: Path | None = None
    downside_weight: float | None = None
    level: float | None = None
    gamma: float | None = None
    mean: bool = False
    algorithm: AlgorithmName | None = None
    minimum: float | None = None
    maximum: float | None = None

    def risk(self) -> dict[str, Any] | None:
        """Give the risk measure asked for, None where there is none. Raises LogError for more than one."""
        asked: list[dict[str, Any]] = [
            {"measure": "expectile", name: value}
            for name, value in (("downside_weight", self.downside_weight), ("level", self.level))
            if value is not None
        ]
        asked += [{"measure": "entropic", "gamma": self.gamma}] if self.gamma is not None else []
        asked += [{"measure": "mean"}] if self.mean else []
        if len(asked) > 1:
            raise LogError("give one of --downside-weight, --level, --gamma and --mean")
        return asked[0] if asked else None


def campaign_of(log: Log, options: CampaignOptions, campaign_id: str) -> dict[str, Any]:
    """Write the body of `POST /campaigns`. Raises LogError where log and campaign do not belong together.

    Deadlines for rewards are left out: a decision that the log cannot answer must not be learned as a default.
    """
    body = _given(options)
    risk = options.risk()
    if risk is not None:
        body["risk"] = risk
    if not body.get("risk"):
        raise LogError("say which risk counts: --downside-weight, --level, --gamma, --mean, or a risk in --campaign")
    body["campaign_id"] = campaign_id
    if options.algorithm is not None:
        body["algorithm"] = _part(body, "algorithm") | {"name": options.algorithm.value}
    elif body["risk"] == {"measure": "mean"}:
        body["algorithm"] = {"name": AlgorithmName.LINUCB.value} | _part(body, "algorithm")
    bounds = {"minimum": options.minimum, "maximum": options.maximum}
    reward = _part(body, "reward") | {name: value for name, value in bounds.items() if value is not None}
    body["reward"] = {name: value for name, value in reward.items() if name in bounds}
    _set_model(body, log)
    _set_arms(body, log)
    return body


def described_features(options: CampaignOptions) -> dict[str, dict[str, Any]]:
    """The features that the campaign names, by their names; none where it names none."""
    model = _part(_given(options), "model")
    features = model.get("features") if model.get("type") == "disjoint" else None
    listed = features if isinstance(features, list) else []
    return {str(one["name"]): one for one in listed if isinstance(one, dict) and "name" in one}


def _given(options: CampaignOptions) -> dict[str, Any]:
    if options.file is None:
        return {}
    content = parse_mapping(str(options.file), read_file(str(options.file)))
    try:
        json.dumps(content, allow_nan=False)  # orjson would write null for nan, and a text for a date
        orjson.dumps(content)
    except (TypeError, ValueError, RecursionError) as error:
        raise EnvironmentFileError(f"{options.file}: cannot be sent as JSON: {error}") from None
    return content


def _part(body: dict[str, Any], name: str) -> dict[str, Any]:
    part = body.get(name) or {}
    if not isinstance(part, dict):
        raise LogError(f"the campaign's {name} must be a mapping of fields")
    return part


def _set_model(body: dict[str, Any], log: Log) -> None:
    first = log.rows[0]
    has = "context" if first.context is not None else "features" if first.features is not None else None
    if not body.get("model"):
        if first.context is not None and log.schema is not None:
            body["model"] = {"type": "disjoint", "features": log.schema}
        elif first.context is not None:
            body["model"] = {"type": "disjoint", "dimension": len(first.context)}
        elif first.features is not None:
            body["model"] = {"type": "shared", "dimension": len(first.features[first.arm])}
        else:
            body["model"] = {"type": "multi-armed"}
    model = _part(body, "model")
    needs = {"disjoint": "context", "multi-armed": None}.get(str(model.get("type")), has)
    if needs != has or (needs == "context" and model.get("type") == "shared"):
        shown = {None: "neither context nor features", "context": "a context", "features": "features"}
        raise LogError(f"{log.path}: the campaign's model is {model.get('type')}, and the log has {shown[has]}")
    described = model.get("features")
    if log.context_names and isinstance(described, list):
        names = tuple(str(one.get("name")) if isinstance(one, dict) else "" for one in described)
        if names != log.context_names:
            raise LogError(
                f"{log.path}: the context is {', '.join(log.context_names)}, and the campaign's features are "
                f"{', '.join(names)}: give the same, in the same order"
            )


def _set_arms(body: dict[str, Any], log: Log) -> None:
    if not body.get("arms"):
        body["arms"] = [{"arm_id": arm} for arm in log.arms]
        known = set(log.arms)
    else:
        listed = body["arms"] if isinstance(body["arms"], list) else []
        known = {str(arm.get("arm_id")) for arm in listed if isinstance(arm, dict)}
    for row in log.rows:
        if not _ARM_ID.fullmatch(row.arm):
            raise LogError(
                f"{log.path}: {log.unit} {row.line}: arm: must be 1 to 128 characters out of A-Z a-z 0-9 . _ ~ -"
            )
        if row.features is None and row.arm not in known:
            listed_arms = ", ".join(sorted(known))
            raise LogError(
                f"{log.path}: {log.unit} {row.line}: arm: {row.arm} is unknown; the campaign has {listed_arms}"
            )


def select_part(row: Row) -> dict[str, Any]:
    """Write what a select request says about the case."""
    if row.context is not None:
        return {"context": row.context}
    if row.features is not None:
        return {"arms": [{"arm_id": arm, "features": values} for arm, values in row.features.items()]}
    return {}


def observation(row: Row) -> Observation:
    """Write a row as an observation of a warm start; its line is its id, so that sending it again does no harm."""
    return Observation(
        observation_id=f"line-{row.line}",
        arm_id=row.arm,
        reward=row.reward,
        context=row.context,
        features=None if row.features is None else row.features[row.arm],
    )
