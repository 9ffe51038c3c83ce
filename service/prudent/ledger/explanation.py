"""Why a decision was made: every candidate, best first, with an interval and what each feature adds."""

import numpy as np

from prudent.core.policy import Scores
from prudent.ledger.candidates import Candidate, features_and_blocks
from prudent.ledger.commands import Interval, ScoredArm
from prudent.ledger.state import CampaignState

CONTRIBUTIONS_MAX = 2_000
"""Numbers of a decision: an explanation is stored with it. The best arms have theirs, as many as fit."""


def explain(state: CampaignState, candidates: list[Candidate], scores: Scores) -> list[ScoredArm]:
    """Every candidate, best index first."""
    features, blocks = features_and_blocks(state, candidates)
    intervals = state.policy.intervals(features, blocks).tolist()
    names = feature_names(state)
    order = np.argsort(-scores.indexes, kind="stable").tolist()
    told = set(order[: CONTRIBUTIONS_MAX // len(names)]) if names else set()
    contributions = state.policy.contributions(features, blocks).tolist() if told else []
    return [
        ScoredArm(
            arm_id=candidates[i].arm_id,
            estimate=float(scores.estimates[i]),
            bonus=float(scores.bonuses[i]),
            index=float(scores.indexes[i]),
            interval=interval_of(intervals[i]),
            contributions=(
                [{"feature": name, "contribution": value} for name, value in zip(names, contributions[i], strict=True)]
                if i in told
                else None
            ),
        )
        for i in order
    ]


def feature_names(state: CampaignState) -> list[str]:
    """Of each feature as the model sees it: its name or its place in the request, then the intercept.

    None for a multi-armed campaign.
    """
    model = state.creation.model
    if model.type == "multi-armed":
        return []
    if model.features is not None:
        names = [feature.name for feature in model.features]
    else:
        names = [f"{'features' if state.shared else 'context'}[{place}]" for place in range(model.dimension)]
    return [*names, "intercept"] if model.intercept else names


def interval_of(ends: list[float]) -> Interval | None:
    """The ends, lower first; None for nan, where there is none."""
    low, high = ends
    return [low, high] if low <= high else None
