"""Which arms a request is about: those it lists or the registered ones, less what it excludes."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prudent.core.policy import Scores
from prudent.errors import InvalidCommandError
from prudent.ledger.commands import Floats, Select
from prudent.ledger.state import CampaignState


class Candidate(NamedTuple):
    """An arm that may be recommended. features: of the arm, or the request's context. position: if registered."""

    arm_id: str
    features: Floats
    position: int | None


def find_candidates(state: CampaignState, request: Select) -> tuple[list[Candidate], Candidate | None]:
    """The arms to choose from, in the request's order, and the one that the application has chosen itself.

    Raises InvalidCommandError where the request does not fit the campaign, or leaves no arm.
    """
    known = _shared(state, request) if state.shared else _with_context(state, request)
    if state.inactive or request.exclude or request.eligible is not None:
        _check_names(request, known, state)
        candidates = [
            candidate
            for arm_id, candidate in known.items()
            if arm_id not in state.inactive
            and arm_id not in request.exclude
            and (request.eligible is None or arm_id in request.eligible)
        ]
    else:
        candidates = list(known.values())
    if not candidates:
        raise InvalidCommandError("no arm is left to choose from", field="arms")
    chosen = None
    if request.chosen_arm_id is not None:
        chosen = known.get(request.chosen_arm_id)
        if chosen is None:
            raise InvalidCommandError("is no arm of this request", field="chosen_arm_id")
    return candidates, chosen


def score(state: CampaignState, candidates: list[Candidate], matrix: Floats | None = None) -> Scores:
    """Estimate, bonus and index of each candidate. matrix: the request's, used where no listed arm was left out."""
    return state.policy.score(*features_and_blocks(state, candidates, matrix))


def features_and_blocks(
    state: CampaignState, candidates: list[Candidate], matrix: Floats | None = None
) -> tuple[Floats, NDArray[np.intp] | None]:
    """What the policy takes: (K, d) and None for the shared model, else the one context and each arm's block."""
    if state.shared:
        if matrix is None or len(matrix) != len(candidates):
            matrix = np.array([candidate.features for candidate in candidates])
        return matrix, None
    return candidates[0].features, np.array([candidate.position for candidate in candidates], dtype=np.intp)


def check_dimension(state: CampaignState, features: Floats, field: str) -> None:
    """Raise InvalidCommandError unless there are as many features as the campaign has dimensions."""
    expected = state.policy.feature_map.dimension
    if len(features) != expected:
        raise InvalidCommandError(f"expected {expected} features, received {len(features)}", field=field)


def _shared(state: CampaignState, request: Select) -> dict[str, Candidate]:
    if request.context is not None:
        raise InvalidCommandError("the shared model takes features per arm, not a context", field="context")
    if request.arms is None:
        if not state.arms:
            raise InvalidCommandError("the campaign has no registered arms: list them with features", field="arms")
        listed = [(arm.arm_id, arm.features) for arm in state.arms if arm.status == "active"]
    else:
        listed = list(request.arms)
    known: dict[str, Candidate] = {}
    expected, by_id = state.policy.feature_map.dimension, state.by_id
    for order, (arm_id, features) in enumerate(listed):
        if arm_id in known:
            raise InvalidCommandError("is there twice", field=f"arms.{order}.arm_id")
        arm = by_id.get(arm_id)
        if features is None:
            features = None if arm is None else arm.features
            if features is None:
                raise InvalidCommandError("this arm has no registered features", field=f"arms.{order}.features")
        if len(features) != expected:
            check_dimension(state, features, f"arms.{order}.features")
        known[arm_id] = Candidate(arm_id, features, None if arm is None else arm.position)
    return known


def _with_context(state: CampaignState, request: Select) -> dict[str, Candidate]:
    if request.arms is not None:
        raise InvalidCommandError(
            "only the shared model takes arms with features; restrict the choice with eligible", field="arms"
        )
    context = request.context
    if state.creation.model.type == "multi-armed":
        if context is not None:
            raise InvalidCommandError("a multi-armed campaign takes no context", field="context")
        context = np.zeros(0)
    elif context is None:
        expected = state.policy.feature_map.dimension
        raise InvalidCommandError(f"the disjoint model needs a context of {expected} features", field="context")
    check_dimension(state, context, "context")
    if not state.arms:
        raise InvalidCommandError("the campaign has no arms", field="arms")
    return {arm.arm_id: Candidate(arm.arm_id, context, arm.position) for arm in state.arms}


def _check_names(request: Select, known: dict[str, Candidate], state: CampaignState) -> None:
    for arm_id in sorted(request.eligible or ()):
        if arm_id in state.inactive:
            raise InvalidCommandError(f"names an arm that is {state.inactive[arm_id]}", field="eligible")
        if arm_id not in known:
            raise InvalidCommandError("names an arm that is not in this request", field="eligible")
    for arm_id in sorted(request.exclude):
        if arm_id not in known and arm_id not in state.by_id:
            raise InvalidCommandError("names an arm that is not in this request", field="exclude")
    if request.eligible is not None and not request.eligible:
        raise InvalidCommandError("must name at least one arm, or be absent", field="eligible")
