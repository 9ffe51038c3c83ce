"""One batch: many commands, one transaction. The order of its steps is the design; see docs/decisions/0002.

1. look up decisions by id; 2. lock the heads of campaigns that learn or are in warm-up, in key order; 3. read
their standing and fold what their logs have gained; 4. look up existing rewards, after the lock; 5. run the
commands, rewards of earlier decisions first; 6. insert decisions sorted by id, then log rows, then heads. The
caller commits. Steps 1 to 4 are `prudent.ledger.basis`.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from prudent.errors import (
    CampaignBusyError,
    CommandError,
    ConflictError,
    InvalidCommandError,
    NotFoundError,
    QuarantinedError,
)
from prudent.ledger import flags, rewards, selection
from prudent.ledger.basis import Basis
from prudent.ledger.commands import (
    Activate,
    Command,
    Compare,
    Describe,
    Evaluate,
    Expire,
    LearnEvent,
    Observe,
    Preview,
    Reward,
    Select,
)
from prudent.ledger.description import compare_arms, describe, known_report
from prudent.ledger.missing import (
    NO_CAMPAIGN,
    NO_DECISION,
    NOT_OF_CAMPAIGN,
    SEVERAL_DECISIONS,
    no_campaign,
)
from prudent.ledger.outcomes import Decision, Deferred, EventReceipt, Failed, Outcome, Postponed, Result
from prudent.ledger.queue import Shares
from prudent.ledger.state import CampaignState, Writes
from prudent.ledger.subjects import digest_of, event_key, single_id
from prudent.ledger.trail import REWARDED, Note, row_of
from prudent.store import campaigns, categories, decisions, log, trail
from prudent.store.tables import NOT_ACTIVATED, DecisionKey, DecisionRow, LogRow

HINTS_MAX = 16
"""Of one batch, at campaigns that may have been meant: the database is asked for each, while all others wait."""


class Batch:
    """One attempt at a batch on an open transaction.

    If it fails, `Basis.restore` returns the states to what they were.
    """

    def __init__(self, basis: Basis, *, new_id: Callable[[int], str]) -> None:
        self.basis = basis
        self._new_id = new_id
        self.writes = Writes()
        self.refused: list[tuple[CampaignState, int]] = []
        """The campaign of each reward that was refused, and its head at the time: they count once the batch is over."""
        self._shares = Shares()
        self._deferred: set[DecisionKey] = set()
        """The decisions of this batch's selects that are deferred."""
        self._missed = 0
        """How many commands have named campaigns that do not exist."""
        self._current: CampaignState | None = None
        self._executions: dict[type[Command], Callable[[Any], Result]] = {
            Select: self._select,
            Evaluate: self._evaluate,
            Reward: self._reward,
            LearnEvent: self._learn_event,
            Activate: self._activate,
            Expire: self._expire,
            Observe: self._observe,
            Preview: self._preview,
            Describe: self._describe,
            Compare: self._compare,
        }

    def run(self, commands: Sequence[Command]) -> list[Outcome]:
        """Execute the commands; the outcome of each, in their order."""
        self.basis.gather(commands)
        outcomes: list[Outcome] = [None] * len(commands)
        self._shares.begin()
        for place in self._order(commands):
            outcomes[place] = self._execute(commands[place])
        self._write()
        return outcomes

    def shared_ids(self) -> set[str]:
        """The ids of decisions that several campaigns use, among those that this batch has met."""
        met = self.basis.decisions.keys() | self.writes.decisions.keys()
        counts = Counter(decision_id for _, decision_id in met)
        return {decision_id for decision_id, count in counts.items() if count > 1}

    def _order(self, commands: Sequence[Command]) -> list[int]:
        """Rewards of decisions made before this batch go first; otherwise the order of arrival.

        All commands of a batch wait at the same time, so any order is one that could have happened. In this one every
        select has seen all these rewards, and a campaign is refitted once per batch instead of once per pair.
        """
        return sorted(range(len(commands)), key=lambda place: not self._is_reward_of_the_past(commands[place]))

    def _is_reward_of_the_past(self, command: Command) -> bool:
        if not command.learns or command.decision_id is None:
            return False
        return any(self._decision((key, command.decision_id)) for key in self.basis.keys_of(command))

    # 5. execution

    def _execute(self, command: Command) -> Outcome:
        self._current = None
        started = time.perf_counter()
        try:
            return self._executions[type(command)](command)
        except (CommandError, CampaignBusyError, QuarantinedError) as error:
            is_reward = isinstance(command, Reward | LearnEvent)
            if self._current is not None and is_reward and isinstance(error, CommandError):
                self.refused.append((self._current, self._current.head))
            return Failed(error)
        except _NotNow as reason:
            if isinstance(reason.outcome, Deferred) and command.decision_id is not None:
                self._deferred.add((reason.outcome.key, command.decision_id))
            return reason.outcome
        finally:
            if self._current is not None:
                seconds = time.perf_counter() - started
                self._shares.count(self._current.key, seconds)
                self._current.command_seconds += 0.25 * (seconds - self._current.command_seconds)

    def _state(self, key: int | None, missing: str) -> CampaignState:
        """The state to execute on. Raises if the campaign is gone, held by another worker, lent, or out of time."""
        if key is None:
            raise NotFoundError(missing)
        if key in self.basis.busy:
            raise CampaignBusyError("another worker holds this campaign: try again")
        if key in self.basis.behind:
            raise _NotNow(Postponed(key))
        if key in self.basis.states.quarantine.entries:
            reason = self.basis.states.quarantine.reason(key)
            raise QuarantinedError(f"the campaign is out of service: {reason}; other campaigns are served")
        state = self.basis.touched.get(key)
        if state is None:
            raise NotFoundError(missing)
        if self._shares.is_over(state.key, state.command_seconds):
            raise _NotNow(self._shares.deferral(state.key, state.campaign_id))
        self._current = state
        return state

    def _named(self, campaign_id: str) -> CampaignState:
        """The state of the campaign that a command names. Raises as `_state` does."""
        key = self.basis.keys.get(campaign_id)
        if key is None:
            self._missed += 1
            if self._missed > HINTS_MAX:
                raise NotFoundError(NO_CAMPAIGN)
            raise no_campaign(self.basis.connection, campaign_id)
        return self._state(key, NO_CAMPAIGN)

    def _decision(self, identity: DecisionKey) -> DecisionRow | None:
        """A decision of a living campaign, of this batch or before it."""
        writes = self.writes
        row = writes.decisions.get(identity) or self.basis.decisions.get(identity)
        if row is not None and row.activated_at == NOT_ACTIVATED:
            row = writes.activated.get(identity, row)
        return None if row is None or self.basis.name_of(row.key) is None else row

    def _select(self, command: Select) -> Result:
        return self._select_in(self._named(command.campaign_id), command)

    def _evaluate(self, command: Evaluate) -> Result:
        state = self._named(command.campaign_id)
        if state.status != "active":
            return flags.switch_off(state)
        request, ignored = flags.fitted(state, command)
        decision = self._select_in(state, request)
        if not decision.is_repeated:
            self.writes.ignored += ignored
        return decision

    def _select_in(self, state: CampaignState, command: Select) -> Decision:
        if command.subject is not None:
            return self._select_for(command.subject, state, command)
        request, draft = selection.with_rows(state, command)
        if command.decision_id is None:
            new_id = self._new_id(state.key)
            return selection.select(state, request, new_id, None, self.basis.now, self.writes, draft=draft)
        digest = request.digest()
        identity = state.key, command.decision_id
        earlier = self._decision(identity)
        is_too_old = earlier is not None and not state.keeps(earlier, self.basis.now)
        if is_too_old or (earlier is None and self._recorded_reward(identity) is not None):
            raise ConflictError(
                "was already used, for a decision that is kept no longer: each decision needs one of its own",
                field="decision_id",
            )
        if earlier is None:
            decision_id = command.decision_id
            return selection.select(state, request, decision_id, digest, self.basis.now, self.writes, draft=draft)
        if earlier.request_digest != digest:
            raise ConflictError(
                "was already used for a different request: each decision needs one of its own", field="decision_id"
            )
        return selection.repeat_decision(earlier, state.campaign_id, state.values.get(earlier.arm_id, earlier.arm_id))

    def _select_for(self, subject: str, state: CampaignState, command: Select) -> Decision:
        """The decision that stands for a subject, or the first one."""
        decision_id = next(iter(self.basis.ids_for(state, subject)), None)
        if decision_id is None:
            decision_id = single_id(self.basis.subject_keys[state.key], subject, self._new_id(state.key))
        earlier = self._decision((state.key, decision_id))
        if earlier is None:
            request, draft = selection.with_rows(state, command)
            made = selection.select(state, request, decision_id, None, self.basis.now, self.writes, draft=draft)
            is_available = selection.can_choose(state, command, made.row.arm_id)
            return made._replace(is_repeated=False, is_available=is_available)
        if earlier.activated_at == NOT_ACTIVATED and not command.is_deferred:
            earlier = rewards.activate(state, earlier, self.basis.now, self.writes)
        return selection.repeat_for_subject(earlier, state, command)

    def _reward(self, command: Reward) -> Result:
        if command.decision_id is None:
            return self._reward_of(command.subject or "", self._named(command.campaign_id or ""), command)
        state, decision, recorded = self._found(command.decision_id, command)
        if recorded is not None:
            return rewards.repeat_reward(state, command, recorded)
        if decision is None or not state.keeps(decision, self.basis.now):
            raise self._missing(command.decision_id, command, state)
        receipt = rewards.reward(state, command, decision, self.basis.now, self.writes)
        if command.author is not None:
            note = Note(REWARDED, command.decision_id)
            self.writes.trail.append(row_of(command.author, self.basis.now, state.key, state.campaign_id, note))
        return receipt

    def _found(
        self, decision_id: str, command: Reward | Activate
    ) -> tuple[CampaignState, DecisionRow | None, LogRow | None]:
        """The state of the campaign that a command means, the decision and its reward.

        Raises as `_state` does, and ConflictError if none is named and several have such a decision.
        """
        if command.campaign_id is not None:
            state = self._named(command.campaign_id)
        else:
            keys = [key for key in self.basis.keys_of(command) if self.basis.name_of(key) is not None]
            made = [key for key in keys if self._decision((key, decision_id)) is not None]
            if len(made) > 1:
                raise ConflictError(SEVERAL_DECISIONS, field="campaign_id")
            # if its select must wait for the campaign, so must what follows it
            state = self._state(next(iter(made or keys), None), NO_DECISION)
        identity = state.key, decision_id
        return state, self._decision(identity), self._recorded_reward(identity)

    def _missing(self, decision_id: str, command: Reward | Activate, state: CampaignState) -> Exception:
        """What to raise where there is no such decision, or not yet."""
        if (state.key, decision_id) in self._deferred:
            return _NotNow(self._shares.deferral(state.key, state.campaign_id))
        if command.campaign_id is not None:
            return NotFoundError(NOT_OF_CAMPAIGN, field="campaign_id")
        return NotFoundError(NO_DECISION)

    def _activate(self, command: Activate) -> Result:
        state, decision, recorded = self._found(command.decision_id, command)
        if recorded is None:
            if decision is None or not state.keeps(decision, self.basis.now):
                raise self._missing(command.decision_id, command, state)
            if decision.activated_at == NOT_ACTIVATED:
                rewards.activate(state, decision, self.basis.now, self.writes)
        return None

    def _reward_of(self, subject: str, state: CampaignState, command: Reward) -> Result:
        """The reward of a subject's latest decision, in this window or else in the one before."""
        if state.configuration.assignment.sticky_seconds is None:
            raise InvalidCommandError(
                "the campaign decides anew for each request (assignment.sticky_seconds is null): send the decision_id",
                field="subject",
            )
        for decision_id in self.basis.ids_for(state, subject):
            identity = state.key, decision_id
            decision = self._decision(identity)
            if decision is not None:
                recorded = self._recorded_reward(identity)
                if recorded is not None:
                    return rewards.repeat_reward(state, command, recorded)
                return rewards.reward(state, command, decision, self.basis.now, self.writes)
        raise NotFoundError("there is no decision for this subject, in this window or the one before")

    def _learn_event(self, command: LearnEvent) -> Result:
        """The reward that an event is, of the latest decision for its subject that waits for one.

        Where none waits, it does not matter whether the rule can make a reward of it.
        """
        state = self._named(command.campaign_id)
        rule = state.configuration.reward.events.get(command.event)
        unmatched = EventReceipt(state.campaign_id, None, None, duplicate=False)
        if rule is None:
            return unmatched
        secret = self.basis.subject_keys[state.key]
        own_key = event_key(secret, command.event_id)
        earlier = self._observations(state, [own_key]).get(own_key)
        if earlier is not None:
            same_subject = (earlier.decision_id or "").endswith(digest_of(secret, command.subject))
            if not same_subject or earlier.reward != rule.reward_of(command.value, command.body):
                raise ConflictError("this event_id was already used for another event", field="event_id")
            return EventReceipt(state.campaign_id, earlier.decision_id, earlier.reward, duplicate=True)
        now, writes = self.basis.now, self.writes
        for decision_id in self.basis.ids_for(state, command.subject, command.at):
            identity = state.key, decision_id
            decision = self._decision(identity)
            if decision is None or self._recorded_reward(identity) is not None:
                continue
            if rewards.expire(state, decision, now, writes):
                continue
            value = rule.reward_of(command.value, command.body)
            rewards.reward(state, Reward(decision_id, value), decision, now, writes, event_key=own_key)
            return EventReceipt(state.campaign_id, decision_id, value, duplicate=False)
        return unmatched

    def _recorded_reward(self, identity: DecisionKey) -> LogRow | None:
        return self.writes.rewarded.get(identity) or self.basis.recorded.get(identity)

    def _expire(self, command: Expire) -> Result:
        state = self._named(command.campaign_id)
        identity = state.key, command.decision_id
        decision = self._decision(identity)
        if decision is not None and self._recorded_reward(identity) is None:
            rewards.expire(state, decision, self.basis.now, self.writes)
        self.writes.no_longer_due.add(identity)
        return None

    def _observe(self, command: Observe) -> Result:
        state = self._named(command.campaign_id)
        ids = [one.observation_id for one in command.observations if one.observation_id is not None]
        return rewards.observe(state, command, self._observations(state, ids), self.basis.now, self.writes)

    def _observations(self, state: CampaignState, ids: Sequence[str]) -> dict[str, LogRow]:
        """The rows of a campaign's log with these ids of observations, and all of this batch that have one."""
        recorded = log.find_observations_by_id(self.basis.connection, state.key, ids)
        for row in self.writes.observations:
            if row.key == state.key and row.observation_id is not None:
                recorded[row.observation_id] = row
        return recorded

    def _preview(self, command: Preview) -> Result:
        key = self._named(command.campaign_id).key
        raise _NotNow(Postponed(key, lambda state: selection.preview(state, command.request)))

    def _describe(self, command: Describe) -> Result:
        state = self._named(command.campaign_id)
        damage = self.basis.states.quarantine.damaged.get(state.key)
        report = known_report(state, damage)
        if report is None:
            raise _NotNow(Postponed(state.key, lambda lent: describe(lent, damage)))
        return report

    def _compare(self, command: Compare) -> Result:
        key = self._named(command.campaign_id).key
        raise _NotNow(Postponed(key, lambda lent: compare_arms(lent, command)))

    # 6. writes

    def _write(self) -> None:
        writes, connection = self.writes, self.basis.connection
        if writes.categories:
            categories.insert_categories(connection, writes.categories)
        decisions.insert_decisions(connection, writes.decisions.values())
        if writes.observations:
            log.append(connection, writes.observations)
            heads = {row.key: self.basis.touched[row.key].head for row in writes.observations}
            campaigns.set_heads(connection, heads)
        campaigns.add_plays(connection, writes.plays)
        decisions.activate(connection, writes.activated.values())
        decisions.clear_due(connection, writes.no_longer_due)
        if writes.trail:
            trail.append(connection, writes.trail)


class _NotNow(Exception):  # noqa: N818  # a signal within this module, not an error
    def __init__(self, outcome: Postponed | Deferred) -> None:
        super().__init__(outcome)
        self.outcome = outcome
