"""Select: which arms a request is about, which of them is chosen, and what is recorded of it."""

from collections.abc import Iterable
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import orjson

from prudent.campaigns import Draft, Given
from prudent.core.baseline import Baseline, additions
from prudent.core.exploration import Choice, Scores, Standing, choose, propensities
from prudent.errors import ConflictError, InvalidCommandError, NoArmLeftError
from prudent.ledger.arms import Candidate
from prudent.ledger.candidates import log_candidates
from prudent.ledger.commands import Floats, Select
from prudent.ledger.explanation import explain
from prudent.ledger.holdout import draw_lot, mixed
from prudent.ledger.missing import arm_hint
from prudent.ledger.outcomes import Decision, Prospect, ScoredArm
from prudent.ledger.state import CampaignState, Writes
from prudent.store.statements import features_to_bytes
from prudent.store.tables import NOT_ACTIVATED, DecisionRow

NAMED_MAX = 12
"""Features whose names a message lists."""


def with_rows(state: CampaignState, request: Select) -> tuple[Select, Draft | None]:
    """The request with arrays in place of values by name, and the categories that it would add; None for arrays.

    Raises InvalidCommandError for values that the campaign's features do not take.
    """
    reader = state.reader
    if request.has_rows or (not request.is_named and reader.takes_arrays):
        return request, None
    draft = Draft(state.vocabulary)
    context = request.context
    if context is not None and (not state.shared or reader.has_context):
        context = reader.read(context, "context", draft, context=state.shared)
    arms: list[tuple[str, Given | None]] | None = None
    matrix = None
    if request.arms is not None and state.shared:
        given = [(f"arms.{order}.features", features) for order, (_, features) in enumerate(request.arms)]
        rows = [None if features is None else reader.values(features, field, draft) for field, features in given]
        if all(row is not None for row in rows) and not reader.has_context:
            matrix = np.array(rows)
        read = [None if row is None else np.array(row) for row in rows] if matrix is None else list(matrix)
        arms = [(arm_id, row) for (arm_id, _), row in zip(request.arms, read, strict=True)]
    return replace(request, arms=request.arms if arms is None else arms, matrix=matrix, context=context), draft


def brings_new(state: CampaignState, request: Select) -> bool:
    """Whether the request has a category that would be learned, as far as is known here."""
    reader, vocabulary = state.reader, state.vocabulary
    if not request.is_named:
        return False
    listed = (reader.brings_new(features, vocabulary) for _, features in request.arms or ())
    return any(listed) or reader.brings_new(request.context, vocabulary, context=state.shared)


def select(
    state: CampaignState,
    request: Select,
    decision_id: str,
    digest: bytes | None,
    now: int,
    writes: Writes,
    *,
    draft: Draft | None = None,
) -> Decision:
    """Choose an arm and record the decision. request: with arrays; draft: the categories that it brings."""
    if state.status == "archived":
        raise ConflictError("the campaign is archived and accepts no selects")
    candidates, external = find_candidates(state, request)
    scores = score_all(state, request, candidates)
    standing = _standing(state, candidates)
    spending = state.spending if state.rule.looks_back else None
    baseline = None
    if spending is not None:
        now, request = spending.time_of_next(now), within_budget(state, request)
        baseline = _baseline(state, candidates, scores) if external is None else None
    choice = _choose(state, request, decision_id, scores, standing)
    lot = chances = None
    if state.configuration.holdout is not None and external is None:
        arm_ids = [candidate.arm_id for candidate in candidates]
        lot = draw_lot(state.configuration.holdout, arm_ids, state.creation.seed, request.subject or decision_id)
    if lot is not None or baseline is not None or request.explain or state.creation.log_candidates:
        chances = propensities(scores, state.rule, standing, explore=request.explore)
    if baseline is not None and chances is not None:
        chances = baseline.restrict(chances)
        choice = baseline.settle(choice, chances)
    if lot is not None and chances is not None:
        choice, chances = lot.settle(choice, chances), mixed(lot.share, lot.chances, chances)
    recommended = candidates[choice.position]
    if spending is not None:
        spending.add(explored=choice.explores, made_at=now)
        if baseline is not None and (lot is None or not lot.is_held):
            spending.allowance += baseline.additions[choice.position]
    if external is None:
        chosen, position, own_scores = recommended, choice.position, scores
    else:
        # the arms of a decision are compared with each other by the bonus self-scaled
        others = candidates if state.policy.is_self_scaled else []
        compared = [external, *(other for other in others if other.arm_id != external.arm_id)]
        chosen, position, own_scores = external, 0, score(state, compared)
    arms = logged = None
    if chances is not None and request.explain:
        arms = explain(state, candidates, scores, choice, chances, draft)
    if chances is not None and state.creation.log_candidates:
        logged = log_candidates(state, candidates, chances)
    row = DecisionRow(
        decision_id=decision_id,
        key=state.key,
        arm_id=chosen.arm_id,
        features=features_to_bytes(chosen.features),
        estimate=own_scores.estimate_of(position),
        bonus=float(own_scores.bonuses[position]),
        index_value=own_scores.index_of(position, choice.multiplier),
        reason=choice.reason if external is None else "external",
        greedy_arm_id=candidates[choice.greedy_position].arm_id,
        recommended_arm_id=None if external is None else recommended.arm_id,
        propensity=choice.propensity if external is None else None,
        seen=state.sequence,
        request_digest=digest,
        explanation=None if arms is None else orjson.dumps(arms).decode(),
        created_at=now,
        due_at=None if request.is_deferred else state.configuration.reward.due_at(now),
        candidates=logged,
        activated_at=NOT_ACTIVATED if request.is_deferred else None,
        held_out=None if lot is None else int(lot.is_held),
        allowance=spending.allowance if spending is not None and state.rule.tolerance else None,
    )
    writes.decisions[row.identity] = row
    if not request.is_deferred:
        writes.add_play(state, row.arm_id)
    if draft is not None:
        writes.learn_categories(state, draft)
    return Decision(row, state.campaign_id, state.values.get(row.arm_id, row.arm_id), arms)


def repeat_decision(row: DecisionRow, campaign_id: str, value: Any) -> Decision:
    """A stored decision, as it was answered, with the value that its arm has now."""
    arms = None if row.explanation is None else [ScoredArm(**arm) for arm in orjson.loads(row.explanation)]
    return Decision(row, campaign_id, value, arms)


def repeat_for_subject(row: DecisionRow, state: CampaignState, request: Select) -> Decision:
    """The decision that stands for a subject, whatever else the request says."""
    is_available = can_choose(state, request, row.arm_id)
    decision = repeat_decision(row, state.campaign_id, state.values.get(row.arm_id, row.arm_id))
    return decision._replace(is_repeated=True, is_available=is_available)


def can_choose(state: CampaignState, request: Select, arm_id: str) -> bool:
    """Whether an arm is among those that a request leaves to choose from."""
    is_offered = arm_id in state.by_id if request.arms is None else any(name == arm_id for name, _ in request.arms)
    is_eligible = request.eligible is None or arm_id in request.eligible
    return is_offered and is_eligible and arm_id not in request.exclude and arm_id not in state.inactive


def preview(state: CampaignState, request: Select) -> Prospect:
    """What `select` might choose now; nothing is recorded. Its draws are not those that a select will have."""
    request, draft = with_rows(state, within_budget(state, request))
    candidates, _ = find_candidates(state, request)
    scores = score_all(state, request, candidates)
    standing = _standing(state, candidates)
    choice = _choose(state, request, "", scores, standing)
    chances = propensities(scores, state.rule, standing, explore=request.explore)
    baseline = _baseline(state, candidates, scores)
    if baseline is not None:
        chances = baseline.restrict(chances)
        choice = baseline.settle(choice, chances)
    return Prospect(
        arm_id=candidates[choice.position].arm_id,
        reason=choice.reason,
        propensity=choice.propensity,
        observations=state.sequence,
        arms=explain(state, candidates, scores, choice, chances, draft),
    )


def weigh(state: CampaignState, candidates: list[Candidate], *, explore: bool) -> tuple[Scores, list[float]]:
    """Estimates and bonuses of candidates, and with what probability each of them is chosen."""
    scores = score(state, candidates)
    return scores, propensities(scores, state.rule, _standing(state, candidates), explore=explore)


def within_budget(state: CampaignState, request: Select) -> Select:
    """The request, without exploration where the campaign's budget for it is spent."""
    if not state.rule.limit or state.spending is None or state.spending.allows(state.rule.limit):
        return request
    return replace(request, explore=False)


def _baseline(state: CampaignState, candidates: list[Candidate], scores: Scores) -> Baseline | None:
    """What the campaign's baseline leaves to choose from; None without one, or where it is no candidate."""
    setting, spending = state.configuration.algorithm.baseline, state.spending
    if setting is None or spending is None:
        return None
    position = next((k for k, one in enumerate(candidates) if one.arm_id == setting.arm_id), None)
    if position is None:
        return None
    added = additions(scores, position, setting.tolerance, state.policy.estimator.observations)
    return Baseline(position, added, spending.allowance)


def _choose(state: CampaignState, request: Select, decision_id: str, scores: Scores, standing: Standing) -> Choice:
    """The choice; the campaign's seed and the decision's id give its draws."""
    return choose(scores, state.rule, standing, explore=request.explore, seed=(state.creation.seed, decision_id))


def _standing(state: CampaignState, candidates: list[Candidate]) -> Standing:
    plays = observations = None
    if state.warming:
        plays = [None if one.position is None else state.plays[one.position] for one in candidates]
    if state.rule.floor:
        counts = state.policy.floor_counts.weighed
        observations = [inf if one.position is None else counts[one.position] for one in candidates]
    return Standing(state.policy.estimator.observations, plays, observations)


# Candidates


def find_candidates(state: CampaignState, request: Select) -> tuple[list[Candidate], Candidate | None]:
    """The arms to choose from, in the request's order, and the one that the application has chosen itself.

    Raises InvalidCommandError if the request does not fit the campaign, or leaves no arm.
    """
    known = _listed_arms(state, request) if state.shared else _registered_arms(state, request)
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
        raise NoArmLeftError(
            "no arm is left to choose from: see eligible, exclude, and which arms are paused or retired", field="arms"
        )
    external = None
    if request.chosen_arm_id is not None:
        external = known.get(request.chosen_arm_id)
        if external is None:
            hint = arm_hint(request.chosen_arm_id, known)
            raise InvalidCommandError(f"must be one of the arms of this request: {hint}", field="chosen_arm_id")
    return candidates, external


def score_all(state: CampaignState, request: Select, candidates: list[Candidate]) -> Scores:
    """The scores of a request's candidates. Those of a shared model's registered arms are kept until it changes."""
    if request.arms is not None or request.context is not None or not _is_plain(state):
        return score(state, candidates, request.matrix)
    stamp = (state.policy.version, state.revision, [candidate.position for candidate in candidates])
    if state.scored is None or state.scored[0] != stamp:
        state.scored = stamp, score(state, candidates)
    return state.scored[1]


def _is_plain(state: CampaignState) -> bool:
    """Whether registered arms have features of their own, which only a change of the campaign can change."""
    model = state.creation.model
    return model.type == "shared" and model.features is None and not state.reader.has_context


def score(state: CampaignState, candidates: list[Candidate], matrix: Floats | None = None) -> Scores:
    """Estimate, bonus and index of each candidate. matrix: the request's, used if no listed arm was left out."""
    features, blocks = state.features_and_blocks(candidates, matrix)
    arms = None
    if state.policy.is_self_scaled:
        arms = np.array([candidate.position for candidate in candidates], dtype=np.intp)
    return state.policy.score(features, blocks, arms)


def _listed_arms(state: CampaignState, request: Select) -> dict[str, Candidate]:
    """Shared model: the arms that the request lists or, if it lists none, the registered ones."""
    context = _context_of_shared(state, request)
    if request.arms is None:
        if not state.arms:
            raise InvalidCommandError("the campaign has no registered arms: list them with features", field="arms")
        listed: list[tuple[str, Any]] = [(arm.arm_id, arm.features) for arm in state.arms if arm.status == "active"]
    else:
        listed = list(request.arms)
    known: dict[str, Candidate] = {}
    is_kept = request.arms is None and context is None and _is_plain(state)
    if is_kept and state.listed is not None and state.listed[0] == state.revision:
        return state.listed[1]
    expected, by_id = state.reader.arm_length, state.by_id
    must_be_registered = state.policy.is_self_scaled
    for order, (arm_id, features) in enumerate(listed):
        if arm_id in known:
            raise InvalidCommandError("is listed twice", field=f"arms.{order}.arm_id")
        arm = by_id.get(arm_id)
        if arm is None and must_be_registered:
            raise InvalidCommandError(
                "is not registered, and the bonus self-scaled keeps scores for each arm: register it first",
                field=f"arms.{order}.arm_id",
            )
        if features is None:
            features = None if arm is None else arm.features
            if features is None:
                raise InvalidCommandError(
                    "no features are registered for this arm: send them", field=f"arms.{order}.features"
                )
        if len(features) != expected:
            _refuse_length(expected, features, f"arms.{order}.features")
        if context is not None:
            features = np.concatenate([features, context])
        known[arm_id] = Candidate(arm_id, features, None if arm is None else arm.position)
    if is_kept:
        state.listed = state.revision, known
    return known


def _context_of_shared(state: CampaignState, request: Select) -> Floats | None:
    """The request's features in a shared model, which follow the arm's in a row; None if it has none."""
    context = request.context
    if not state.reader.has_context:
        if context is not None:
            raise InvalidCommandError(
                "the shared model takes features per arm, not a context, unless it has context_features",
                field="context",
            )
        return None
    if isinstance(context, np.ndarray):
        return context
    return state.reader.read({}, "context", Draft(state.vocabulary), context=True)


def _refuse_length(expected: int, features: Floats, field: str) -> None:
    raise InvalidCommandError(f"expected {expected} features, received {len(features)}", field=field)


def _registered_arms(state: CampaignState, request: Select) -> dict[str, Candidate]:
    """Disjoint and multi-armed models: the registered arms, all with the request's context."""
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
        names = f": {', '.join(state.creation.feature_names()[:NAMED_MAX])}" if state.reader.is_named else ""
        raise InvalidCommandError(
            f"the disjoint model needs a context of {state.reader.arm_length} features{names}", field="context"
        )
    assert isinstance(context, np.ndarray)  # noqa: S101  # `with_rows` came before
    if len(context) != state.reader.arm_length:
        _refuse_length(state.reader.arm_length, context, "context")
    if not state.arms:
        raise InvalidCommandError("the campaign has no arms", field="arms")
    return {arm.arm_id: Candidate(arm.arm_id, context, arm.position) for arm in state.arms}


def _check_names(request: Select, known: dict[str, Candidate], state: CampaignState) -> None:
    for arm_id in sorted(request.eligible or ()):
        if arm_id in state.inactive:
            raise InvalidCommandError(f"names an arm that is {state.inactive[arm_id]}", field="eligible")
        if arm_id not in known:
            raise _not_in(known, arm_id, "eligible")
    for arm_id in sorted(request.exclude):
        if arm_id not in known and arm_id not in state.by_id:
            raise _not_in(known, arm_id, "exclude")
    if request.eligible is not None and not request.eligible:
        raise InvalidCommandError("must name at least one arm, or be absent", field="eligible")


def _not_in(known: Iterable[str], arm_id: str, field: str) -> InvalidCommandError:
    return InvalidCommandError(f"names an arm that is not in this request: {arm_hint(arm_id, known)}", field=field)
