"""Commands against a campaign's state. What they write is collected; the batch inserts it in one go."""

from dataclasses import dataclass, field

import numpy as np
import orjson

from service.core.policy import Choice, Scores, choose
from service.ledger.candidates import Candidate, check_dimension, find_candidates, score
from service.ledger.commands import (
    Decision,
    Observe,
    ObserveReceipt,
    Reward,
    RewardReceipt,
    ScoredArm,
    Select,
    WarmStart,
)
from service.ledger.errors import ConflictError, InvalidCommandError
from service.ledger.state import CampaignState, features_from_bytes, features_to_bytes
from service.store.decisions import DecisionRow
from service.store.log import FoldRow, LogRow
from service.store.tables import OBSERVATION


@dataclass(slots=True)
class Writes:
    """What a batch will insert, by the ids that later commands of the same batch look up."""

    decisions: dict[str, DecisionRow] = field(default_factory=dict)
    observations: list[LogRow] = field(default_factory=list)
    rewarded: dict[str, LogRow] = field(default_factory=dict)
    plays: dict[tuple[int, int], int] = field(default_factory=dict)
    no_longer_due: set[str] = field(default_factory=set)

    def add_play(self, state: CampaignState, arm_id: str) -> None:
        """Count a play, while plays matter: above the warm-up they are not written."""
        arm = state.by_id.get(arm_id)
        if arm is None or state.plays[arm.position] >= state.configuration.algorithm.warmup:
            return
        state.plays[arm.position] += 1
        place = (state.key, arm.position)
        self.plays[place] = self.plays.get(place, 0) + 1


def select(
    state: CampaignState, request: Select, decision_id: str, digest: bytes | None, now: int, writes: Writes
) -> Decision:
    """Choose an arm and record the decision."""
    if state.status == "archived":
        raise ConflictError("the campaign is archived: it takes no new selects")
    candidates, chosen = find_candidates(state, request)
    scores = score(state, candidates)
    choice = choose(
        scores,
        plays=[None if one.position is None else state.plays[one.position] for one in candidates],
        warmup=state.configuration.algorithm.warmup,
        explore=request.explore,
        tie_seed=(state.creation.seed, decision_id),
    )
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
        seen=decision.observations,
        request_digest=digest,
        explanation=None if decision.arms is None else orjson.dumps(decision.arms).decode(),
        created_at=now,
        due_at=None if timeout is None else now + round(timeout * 1e6),
    )
    writes.add_play(state, decision.arm_id)
    return decision


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
        observations=state.sequence,
        arms=_explain(candidates, scores) if request.explain else None,
    )


def _explain(candidates: list[Candidate], scores: Scores) -> list[ScoredArm]:
    """Every candidate, best index first."""
    return [
        ScoredArm(candidates[i].arm_id, float(scores.estimates[i]), float(scores.bonuses[i]), float(scores.indexes[i]))
        for i in np.argsort(-scores.indexes, kind="stable")
    ]


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
        observations=row.seen,
        arms=arms,
    )


def reward(state: CampaignState, command: Reward, decision: DecisionRow, now: int, writes: Writes) -> RewardReceipt:
    """Record a decision's first reward and learn it."""
    arm_id = command.arm_id or decision.arm_id
    if arm_id != decision.arm_id:
        if state.shared:
            raise InvalidCommandError(
                "with the shared model the features of another arm are unknown: allowed is the decision's own arm",
                field="arm_id",
            )
        if arm_id not in state.by_id:
            raise InvalidCommandError("is no arm of the campaign", field="arm_id")
    check_reward(state, command.reward, "reward")
    if expire(state, decision, now, writes):
        raise default_was_learned()
    row = _append(state, writes, decision, arm_id, command.reward, "reward", now)
    return receipt_of(state, row, duplicate=False)


def repeat_reward(state: CampaignState, command: Reward, recorded: LogRow) -> RewardReceipt:
    """Answer a reward for a decision that has one. Raises ConflictError if it differs."""
    if recorded.source == "default":
        raise default_was_learned()
    if recorded.reward != command.reward:
        raise ConflictError("the decision has another reward already", field="reward")
    if command.arm_id is not None and command.arm_id != recorded.arm_id:
        raise ConflictError("the decision was rewarded for another arm already", field="arm_id")
    return receipt_of(state, recorded, duplicate=True)


def default_was_learned() -> ConflictError:
    """The answer to a reward that comes after its deadline."""
    return ConflictError("the reward came after its deadline: the campaign's default was learned instead")


def expire(state: CampaignState, decision: DecisionRow, now: int, writes: Writes) -> bool:
    """Learn the default reward of an unrewarded decision whose deadline has passed; whether it was learned."""
    default = state.configuration.reward.default
    if decision.due_at is None or now < decision.due_at or default is None:
        return False
    _append(state, writes, decision, decision.arm_id, default, "default", now)
    return True


def receipt_of(state: CampaignState, row: LogRow, *, duplicate: bool) -> RewardReceipt:
    """The answer that belongs to a recorded reward."""
    limit = state.learn_limit
    return RewardReceipt(
        decision_id=row.decision_id or "",
        campaign_id=state.campaign_id,
        arm_id=row.arm_id,
        reward=row.reward,
        observations=row.sequence,
        duplicate=duplicate,
        learned=limit is None or row.sequence <= limit,
    )


def check_reward(state: CampaignState, value: float, field_name: str) -> None:
    """Raise InvalidCommandError for a reward outside the campaign's bounds."""
    rules = state.configuration.reward
    if rules.minimum is not None and value < rules.minimum:
        raise InvalidCommandError(f"must be at least {rules.minimum:g}, the campaign's minimum", field=field_name)
    if rules.maximum is not None and value > rules.maximum:
        raise InvalidCommandError(f"must be at most {rules.maximum:g}, the campaign's maximum", field=field_name)


def _append(
    state: CampaignState,
    writes: Writes,
    decision: DecisionRow,
    arm_id: str,
    value: float,
    source: str,
    now: int,
) -> LogRow:
    row = LogRow(
        key=state.key,
        sequence=state.advance_head(),
        kind=OBSERVATION,
        decision_id=decision.decision_id,
        observation_id=None,
        arm_id=arm_id,
        features=decision.features,
        reward=value,
        source=source,
        propensity=decision.propensity,
        observed_at=now,
    )
    _learn(state, row)
    writes.observations.append(row)
    writes.rewarded[decision.decision_id] = row
    if decision.due_at is not None:
        writes.no_longer_due.add(decision.decision_id)
    return row


def _learn(state: CampaignState, row: LogRow) -> None:
    if state.learn_limit is None or row.sequence <= state.learn_limit:
        state.fold(FoldRow(row.sequence, row.arm_id, row.features, row.reward))


def observe(
    state: CampaignState, command: Observe, recorded: dict[str, LogRow], now: int, writes: Writes
) -> ObserveReceipt:
    """Record and learn observations made elsewhere. All are checked before the first is learned."""
    seen = dict(recorded)
    fresh: list[LogRow] = []
    for order, one in enumerate(command.observations):
        row = _warm_start_row(state, one, f"items.{order}", now)
        earlier = None if one.observation_id is None else seen.get(one.observation_id)
        if earlier is None:
            fresh.append(row)
            if one.observation_id is not None:
                seen[one.observation_id] = row
        elif not _same_content(earlier, row, observed_at_given=one.observed_at is not None):
            raise ConflictError("this observation_id has other content already", field=f"items.{order}")
    for row in fresh:
        numbered = row._replace(sequence=state.advance_head())
        _learn(state, numbered)
        writes.observations.append(numbered)
        writes.add_play(state, row.arm_id)
    return ObserveReceipt(len(fresh), len(command.observations) - len(fresh), state.head)


def _warm_start_row(state: CampaignState, one: WarmStart, place: str, now: int) -> LogRow:
    try:
        check_reward(state, one.reward, "reward")
        features = _features_of(state, one)
    except InvalidCommandError as error:
        raise InvalidCommandError(error.message, field=f"{place}.{error.field}") from None
    return LogRow(
        key=state.key,
        sequence=0,
        kind=OBSERVATION,
        decision_id=None,
        observation_id=one.observation_id,
        arm_id=one.arm_id,
        features=features_to_bytes(features),
        reward=one.reward,
        source="warm-start",
        propensity=one.propensity,
        observed_at=now if one.observed_at is None else one.observed_at,
    )


def _features_of(state: CampaignState, one: WarmStart) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    arm = state.by_id.get(one.arm_id)
    name = "features" if state.shared else "context"
    if arm is None and not state.shared:
        raise InvalidCommandError("is no arm of the campaign", field="arm_id")
    features = one.features
    if features is None:
        features = arm.features if arm is not None and state.shared else None
        if features is None:
            features = np.zeros(0)
    check_dimension(state, features, name)
    return features


def _same_content(earlier: LogRow, row: LogRow, *, observed_at_given: bool) -> bool:
    return (
        earlier.arm_id == row.arm_id
        and bool(np.array_equal(features_from_bytes(earlier.features), features_from_bytes(row.features)))
        and earlier.reward == row.reward
        and earlier.propensity == row.propensity
        and (not observed_at_given or earlier.observed_at == row.observed_at)
    )
