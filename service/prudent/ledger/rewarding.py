"""Reward and Expire: learn what came of a decision, once."""

from prudent.errors import ConflictError, InvalidCommandError
from prudent.ledger.commands import Reward, RewardReceipt
from prudent.ledger.state import CampaignState
from prudent.ledger.writes import Writes
from prudent.store.decisions import DecisionRow
from prudent.store.log import LogRow
from prudent.store.tables import OBSERVATION


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
        sequence=row.sequence,
        observations=state.sequence,
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
    state: CampaignState, writes: Writes, decision: DecisionRow, arm_id: str, value: float, source: str, now: int
) -> LogRow:
    row = writes.append(
        state,
        LogRow(
            key=state.key,
            sequence=0,
            kind=OBSERVATION,
            decision_id=decision.decision_id,
            observation_id=None,
            arm_id=arm_id,
            features=decision.features,
            reward=value,
            source=source,
            propensity=decision.propensity,
            observed_at=now,
        ),
    )
    writes.rewarded[decision.decision_id] = row
    if decision.due_at is not None:
        writes.no_longer_due.add(decision.decision_id)
    return row
