"""Select: choose an arm and record the decision."""

import orjson

from prudent.core.policy import Choice, Scores, choose
from prudent.errors import ConflictError
from prudent.ledger.candidates import Candidate, find_candidates, score
from prudent.ledger.commands import Decision, Prospect, ScoredArm, Select
from prudent.ledger.explanation import explain
from prudent.ledger.state import CampaignState
from prudent.ledger.writes import Writes
from prudent.store.decisions import DecisionRow
from prudent.store.tables import features_to_bytes


def select(
    state: CampaignState, request: Select, decision_id: str, digest: bytes | None, now: int, writes: Writes
) -> Decision:
    """Choose an arm and record the decision."""
    if state.status == "archived":
        raise ConflictError("the campaign is archived: it takes no new selects")
    candidates, chosen = find_candidates(state, request)
    scores = score(state, candidates, request.matrix)
    choice = _choose(state, request, decision_id, candidates, scores)
    decision = _decide(state, request, decision_id, candidates, scores, choice, chosen)
    used = chosen if chosen is not None else candidates[choice.position]
    timeout = state.configuration.reward.timeout_seconds
    writes.decisions[decision_id] = DecisionRow(
        decision_id=decision_id,
        key=state.key,
        arm_id=decision.arm_id,
        features=features_to_bytes(used.features),
        estimate=decision.estimate,
        bonus=decision.bonus,
        index_value=decision.index,
        reason=decision.reason,
        greedy_arm_id=decision.greedy_arm_id,
        recommended_arm_id=decision.recommended_arm_id,
        propensity=decision.propensity,
        seen=decision.seen,
        request_digest=digest,
        explanation=None if decision.arms is None else orjson.dumps(decision.arms).decode(),
        created_at=now,
        due_at=None if timeout is None else now + round(timeout * 1e6),
    )
    writes.add_play(state, decision.arm_id)
    return decision


def preview(state: CampaignState, request: Select) -> Prospect:
    """What `select` would choose now. Nothing is recorded; where a draw breaks a tie, this one's draw is another."""
    candidates, _ = find_candidates(state, request)
    scores = score(state, candidates, request.matrix)
    choice = _choose(state, request, "", candidates, scores)
    return Prospect(
        arm_id=candidates[choice.position].arm_id,
        reason=choice.reason,
        tied=round(1 / choice.propensity),
        observations=state.sequence,
        arms=explain(state, candidates, scores),
    )


def _choose(
    state: CampaignState, request: Select, decision_id: str, candidates: list[Candidate], scores: Scores
) -> Choice:
    """The choice by index; the decision's id seeds the draw where arms tie."""
    plays = None
    if state.warming:
        plays = [None if one.position is None else state.plays[one.position] for one in candidates]
    return choose(
        scores,
        plays=plays,
        warmup=state.configuration.algorithm.warmup,
        explore=request.explore,
        tie_seed=(state.creation.seed, decision_id),
    )


def _decide(
    state: CampaignState,
    request: Select,
    decision_id: str,
    candidates: list[Candidate],
    scores: Scores,
    choice: Choice,
    chosen: Candidate | None,
) -> Decision:
    recommended = candidates[choice.position].arm_id
    if chosen is None:
        estimate, bonus, index = (
            float(values[choice.position]) for values in (scores.estimates, scores.bonuses, scores.indexes)
        )
    else:
        alone = score(state, [chosen])
        estimate, bonus, index = float(alone.estimates[0]), float(alone.bonuses[0]), float(alone.indexes[0])
    return Decision(
        decision_id=decision_id,
        campaign_id=state.campaign_id,
        arm_id=recommended if chosen is None else chosen.arm_id,
        estimate=estimate,
        bonus=bonus,
        index=index,
        reason=choice.reason if chosen is None else "external",
        greedy_arm_id=candidates[choice.greedy_position].arm_id,
        recommended_arm_id=None if chosen is None else recommended,
        propensity=choice.propensity if chosen is None else None,
        seen=state.sequence,
        arms=explain(state, candidates, scores) if request.explain else None,
    )


def repeat_decision(row: DecisionRow, campaign_id: str) -> Decision:
    """A stored decision, as it was answered."""
    arms = None if row.explanation is None else [ScoredArm(**arm) for arm in orjson.loads(row.explanation)]
    return Decision(
        decision_id=row.decision_id,
        campaign_id=campaign_id,
        arm_id=row.arm_id,
        estimate=row.estimate,
        bonus=row.bonus,
        index=row.index_value,
        reason=row.reason,  # type: ignore[arg-type]  # written by select() alone
        greedy_arm_id=row.greedy_arm_id,
        recommended_arm_id=row.recommended_arm_id,
        propensity=row.propensity,
        seen=row.seen,
        arms=arms,
    )
