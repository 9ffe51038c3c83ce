"""Reward, Expire and Observe: learn what came of a decision, or what was observed elsewhere, once each."""

import numpy as np

from prudent.campaigns import Draft, RewardRules
from prudent.errors import ConflictError, InvalidCommandError, LateRewardError
from prudent.ledger.commands import Floats, Observe, Reward, WarmStart
from prudent.ledger.missing import arm_hint
from prudent.ledger.outcomes import ObserveReceipt, RewardReceipt
from prudent.ledger.state import CampaignState, Writes
from prudent.store.statements import features_from_bytes, features_to_bytes
from prudent.store.tables import NOT_ACTIVATED, OBSERVATION, DecisionRow, LogRow


def reward(
    state: CampaignState,
    command: Reward,
    decision: DecisionRow,
    now: int,
    writes: Writes,
    *,
    event_key: str | None = None,
) -> RewardReceipt:
    """Record a decision's first reward and learn it. event_key: of the event that it came with."""
    arm_id = command.arm_id or decision.arm_id
    if arm_id != decision.arm_id:
        if state.shared:
            raise InvalidCommandError(
                "the shared model does not know the features of another arm: only the decision's own arm is allowed",
                field="arm_id",
            )
        _check_arm(state, arm_id)
    check_bounds(state.configuration.reward, command.reward)
    if expire(state, decision, now, writes):
        raise _default_was_learned()
    row = _append(state, writes, decision, arm_id, command.reward, "reward", now, event_key)
    return _receipt(state, row, duplicate=False)


def repeat_reward(state: CampaignState, command: Reward, recorded: LogRow) -> RewardReceipt:
    """Answer a reward for a decision that has one. Raises ConflictError if it differs."""
    if recorded.source == "default":
        raise _default_was_learned()
    if recorded.reward != command.reward:
        raise ConflictError(
            "the decision already has a different reward: POST /decisions/{decision_id}/correction replaces one",
            field="reward",
        )
    if command.arm_id is not None and command.arm_id != recorded.arm_id:
        raise ConflictError("the decision was already rewarded for another arm", field="arm_id")
    return _receipt(state, recorded, duplicate=True)


def activate(state: CampaignState, decision: DecisionRow, now: int, writes: Writes) -> DecisionRow:
    """A decision as it is once it has been shown: a play, whose deadline runs. It must not be activated yet."""
    shown = decision._replace(activated_at=now, due_at=state.configuration.reward.due_at(now))
    made_now = shown.identity in writes.decisions
    (writes.decisions if made_now else writes.activated)[shown.identity] = shown
    writes.add_play(state, shown.arm_id)
    return shown


def expire(state: CampaignState, decision: DecisionRow, now: int, writes: Writes) -> bool:
    """Learn the default reward of an unrewarded decision whose deadline has passed; whether it was learned."""
    default = state.configuration.reward.default
    if decision.due_at is None or now < decision.due_at or default is None:
        return False
    _append(state, writes, decision, decision.arm_id, default, "default", now)
    return True


def _default_was_learned() -> LateRewardError:
    """The answer to a reward that comes after its deadline."""
    return LateRewardError("the reward came after its deadline: the campaign's default was learned instead")


def _receipt(state: CampaignState, row: LogRow, *, duplicate: bool) -> RewardReceipt:
    """The answer to a recorded reward."""
    limit = state.learn_limit
    return RewardReceipt(
        decision_id=row.decision_id or "",
        campaign_id=state.campaign_id,
        arm_id=row.arm_id,
        reward=row.reward,
        sequence=row.sequence,
        observations=state.target,
        duplicate=duplicate,
        learned=limit is None or row.sequence <= limit,
    )


def _append(
    state: CampaignState,
    writes: Writes,
    decision: DecisionRow,
    arm_id: str,
    value: float,
    source: str,
    now: int,
    event_key: str | None = None,
) -> LogRow:
    _check_stored(state, decision, arm_id)
    if decision.activated_at == NOT_ACTIVATED:
        decision = activate(state, decision, now, writes)
    row = writes.append(
        state,
        LogRow(
            key=state.key,
            sequence=0,
            kind=OBSERVATION,
            decision_id=decision.decision_id,
            observation_id=event_key,
            arm_id=arm_id,
            features=decision.features,
            reward=value + 0.0,  # -0.0 becomes 0.0, as which SQLite stores it
            source=source,
            propensity=decision.propensity,
            observed_at=now,
        ),
    )
    writes.rewarded[decision.identity] = row
    if decision.due_at is not None:
        writes.no_longer_due.add(decision.identity)
    return row


def _check_stored(state: CampaignState, decision: DecisionRow, arm_id: str) -> None:
    """Raise ConflictError for a decision that this service cannot have stored: its reward could not be learned."""
    expected = state.policy.feature_map.dimension
    if (
        len(decision.features) != 8 * expected
        or not state.reader.is_whole(features_from_bytes(decision.features), expected)
        or not (decision.propensity is None or 0.0 < decision.propensity <= 1.0)
        or not (state.shared or arm_id in state.by_id)
    ):
        raise ConflictError("the stored decision is damaged, so nothing can be learned from it: restore a backup")


def _check_arm(state: CampaignState, arm_id: str) -> None:
    if arm_id not in state.by_id:
        hint = arm_hint(arm_id, state.by_id)
        raise InvalidCommandError(f"must be a registered arm of the campaign: {hint}", field="arm_id")


def check_bounds(rules: RewardRules, value: float) -> None:
    """Raise InvalidCommandError for a reward that a campaign does not take."""
    if rules.minimum is not None and value < rules.minimum:
        raise InvalidCommandError(f"must be at least {rules.minimum:g}, the campaign's minimum", field="reward")
    if rules.maximum is not None and value > rules.maximum:
        raise InvalidCommandError(f"must be at most {rules.maximum:g}, the campaign's maximum", field="reward")


# Observations made elsewhere


def observe(
    state: CampaignState, command: Observe, recorded: dict[str, LogRow], now: int, writes: Writes
) -> ObserveReceipt:
    """Record and learn observations made elsewhere. All are checked before the first is learned."""
    known = dict(recorded)
    fresh: list[LogRow] = []
    draft = Draft(state.vocabulary)
    for order, one in enumerate(command.observations):
        row = _warm_start_row(state, one, f"items.{order}", now, draft)
        earlier = None if one.observation_id is None else known.get(one.observation_id)
        if earlier is None:
            fresh.append(row)
            if one.observation_id is not None:
                known[one.observation_id] = row
        elif not _has_same_content(earlier, row, observed_at_given=one.observed_at is not None):
            raise ConflictError("this observation_id already has other content", field=f"items.{order}")
    writes.learn_categories(state, draft)
    later = state.takes_long(len(fresh))
    for row in fresh:
        writes.append(state, row, later=later)
        writes.add_play(state, row.arm_id)
    return ObserveReceipt(len(fresh), len(command.observations) - len(fresh), state.target, state.head)


def _warm_start_row(state: CampaignState, one: WarmStart, place: str, now: int, draft: Draft) -> LogRow:
    try:
        check_bounds(state.configuration.reward, one.reward)
        features = _features_of(state, one, draft)
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
        reward=one.reward + 0.0,
        source="warm-start",
        propensity=one.propensity,
        observed_at=now if one.observed_at is None else one.observed_at,
    )


def _features_of(state: CampaignState, one: WarmStart, draft: Draft) -> Floats:
    """What the log keeps: an arm's features for the shared model, else the context, which may be empty."""
    if not state.shared:
        _check_arm(state, one.arm_id)
    expected, reader = "features" if state.shared else "context", state.reader
    for field, value in (("features", one.features), ("context", one.context)):
        if value is not None and field != expected and not reader.has_context:
            raise InvalidCommandError(f"a {state.creation.model.type} campaign takes {expected}", field=field)
    given = one.features if state.shared else one.context
    arm = state.by_id.get(one.arm_id)
    if given is None and state.shared and arm is not None and arm.features is not None:
        row = arm.features
    elif given is None:
        row = reader.read({} if reader.is_named else np.zeros(0), expected, draft)
    else:
        row = reader.read(given, expected, draft)
    if not reader.has_context:
        return row
    return np.concatenate(
        [row, reader.read({} if one.context is None else one.context, "context", draft, context=True)]
    )


def _has_same_content(earlier: LogRow, row: LogRow, *, observed_at_given: bool) -> bool:
    return (
        earlier.arm_id == row.arm_id
        and np.array_equal(features_from_bytes(earlier.features), features_from_bytes(row.features), equal_nan=True)
        and earlier.reward == row.reward
        and earlier.propensity == row.propensity
        and (not observed_at_given or earlier.observed_at == row.observed_at)
    )
