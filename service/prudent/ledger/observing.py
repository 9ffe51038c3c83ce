"""Observe: learn what was observed elsewhere, all of it or none."""

import numpy as np

from prudent.errors import ConflictError, InvalidCommandError
from prudent.ledger.candidates import check_dimension
from prudent.ledger.commands import Floats, Observe, ObserveReceipt, WarmStart
from prudent.ledger.rewarding import check_reward
from prudent.ledger.state import CampaignState
from prudent.ledger.writes import Writes
from prudent.store.log import LogRow
from prudent.store.tables import OBSERVATION, features_from_bytes, features_to_bytes


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
        writes.append(state, row)
        writes.add_play(state, row.arm_id)
    return ObserveReceipt(len(fresh), len(command.observations) - len(fresh), state.sequence, state.head)


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


def _features_of(state: CampaignState, one: WarmStart) -> Floats:
    """What the log keeps: an arm's features for the shared model, else the context, which may be empty."""
    arm = state.by_id.get(one.arm_id)
    if not state.shared and arm is None:
        raise InvalidCommandError("is no arm of the campaign", field="arm_id")
    expected = "features" if state.shared else "context"
    for field, value in (("features", one.features), ("context", one.context)):
        if value is not None and field != expected:
            raise InvalidCommandError(f"a {state.creation.model.type} campaign takes {expected}", field=field)
    given = one.features if state.shared else one.context
    if given is None and state.shared and arm is not None:
        given = arm.features
    if given is None:
        given = np.zeros(0)
    check_dimension(state, given, expected)
    return given


def _same_content(earlier: LogRow, row: LogRow, *, observed_at_given: bool) -> bool:
    return (
        earlier.arm_id == row.arm_id
        and bool(np.array_equal(features_from_bytes(earlier.features), features_from_bytes(row.features)))
        and earlier.reward == row.reward
        and earlier.propensity == row.propensity
        and (not observed_at_given or earlier.observed_at == row.observed_at)
    )
