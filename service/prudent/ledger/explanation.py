"""What a decision is explained by: the scores of every candidate, and what each feature adds to its estimate."""

from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prudent.campaigns import Draft
from prudent.campaigns.rows import OTHER
from prudent.core.encoding import Encoder
from prudent.core.exploration import Choice, Scores
from prudent.ledger.arms import Candidate
from prudent.ledger.outcomes import Interval, ScoredArm
from prudent.ledger.state import CampaignState

CONTRIBUTIONS_MAX = 2_000
"""Contributions in one explanation, which is stored with its decision: as many of the best arms as fit have theirs."""


def explain(
    state: CampaignState,
    candidates: list[Candidate],
    scores: Scores,
    choice: Choice,
    chances: list[float],
    draft: Draft | None,
) -> list[ScoredArm]:
    """Every candidate, best index first, with its propensity, an interval and what each feature adds.

    chances: the propensities, in the candidates' order.
    """
    features, blocks = state.features_and_blocks(candidates)
    intervals, notes = state.policy.intervals(features, blocks)
    ends = intervals.tolist()
    names = part_names(state)
    order = np.argsort(-(scores.estimates + choice.multiplier * scores.widths), kind="stable").tolist()
    detailed = set(order[: CONTRIBUTIONS_MAX // len(names)]) if names else set()
    contributions = state.policy.contributions(features, blocks).tolist() if detailed else []
    return [
        ScoredArm(
            arm_id=candidates[i].arm_id,
            estimate=scores.estimate_of(i),
            bonus=_finite(float(scores.bonuses[i])),
            index=_finite(scores.index_of(i, choice.multiplier)),
            propensity=chances[i],
            interval=interval_of(ends[i]),
            interval_note=notes[i],
            limits=scores.limits_of(i),
            contributions=(
                _contributions(state, candidates[i].features, names, contributions[i], draft) if i in detailed else None
            ),
        )
        for i in order
    ]


def _finite(value: float) -> float | None:
    return value if value < inf else None


def _contributions(
    state: CampaignState, features: NDArray[np.float64], names: list[str], parts: list[float], draft: Draft | None
) -> list[dict[str, Any]]:
    """Of each named feature, interaction and the intercept, with the value that was sent where there is one."""
    found: list[dict[str, Any]] = [
        {"feature": name, "contribution": part} for name, part in zip(names, parts, strict=True)
    ]
    if state.reader.is_named:
        for one, value in zip(found, state.reader.show(features, draft or state.vocabulary).values(), strict=False):
            one["value"] = value
    return found


def part_names(state: CampaignState) -> list[str]:
    """What an estimate is explained by: features, by name or place in the request, interactions, the intercept.

    Empty for a multi-armed campaign.
    """
    feature_map = state.policy.feature_map
    return feature_map.part_names if isinstance(feature_map, Encoder) else _plain_names(state)


def feature_names(state: CampaignState) -> list[str]:
    """Of each parameter; empty for a multi-armed campaign."""
    feature_map = state.policy.feature_map
    if not isinstance(feature_map, Encoder):
        return _plain_names(state)
    texts = [state.vocabulary.values(one.key) if one.is_category else {} for one in state.reader.columns]
    # a category that is still to be learned has its place for a name
    return feature_map.column_names(lambda place, position: texts[place].get(position, str(position or OTHER)))


def _plain_names(state: CampaignState) -> list[str]:
    names = state.creation.feature_names()
    return [*names, "intercept"] if names and state.policy.feature_map.intercept else names


def interval_of(ends: list[float]) -> Interval | None:
    """The ends, lower first; None for nan, which stands for no interval."""
    low, high = ends
    return [low, high] if low <= high else None
