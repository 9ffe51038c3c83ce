"""What the pages say of a stored decision."""

from dataclasses import dataclass

from fastapi import Request

from prudent.dashboard import formatting
from prudent.dashboard.forms import base_address
from prudent.dashboard.overview import Overview
from prudent.dashboard.rendering import asks_for_keys
from prudent.dashboard.requests import curl
from prudent.store.overview import RecentRow
from prudent.store.tables import features_from_bytes

FEATURES_MAX = 60
"""Features that are listed."""


@dataclass(frozen=True)
class DecisionView:
    """reason and meaning: in a word and in a sentence. features: of the chosen arm, or the context."""

    reason: str
    meaning: str
    features: list[tuple[str, float]]
    reward_curl: str
    colour: int | None


def decision_view(request: Request, seen: Overview, made: RecentRow) -> DecisionView:
    """The decision in words, and how to send its reward; the example is the estimate, within the reward's bounds."""
    rules = seen.configuration.reward
    example = made.estimate
    if rules.minimum is not None:
        example = max(example, rules.minimum)
    if rules.maximum is not None:
        example = min(example, rules.maximum)
    body = {"decision_id": made.decision_id, "reward": float(f"{example:.2g}")}
    reason, meaning = formatting.REASONS[made.reason]
    names = formatting.feature_names(seen.configuration)
    return DecisionView(
        reason=reason,
        meaning=meaning,
        features=list(zip(names, features_from_bytes(made.features).tolist(), strict=True))[:FEATURES_MAX],
        reward_curl=curl(base_address(request), "/reward", body, with_key=asks_for_keys(request)),
        colour=seen.coloured.get(made.arm_id),
    )
