"""One batch: many commands, one transaction. The order of its steps is the design; see docs/decisions/0002.

1. look up decisions by id; 2. lock the heads of campaigns that learn or are in warm-up, in key order; 3. read
their standing and fold what their logs have gained; 4. look up existing rewards, after the lock; 5. run the
commands, rewards of earlier decisions first; 6. insert decisions sorted by id, then log rows, then heads. The
caller commits.
"""

import time
from collections.abc import Callable, Collection, Sequence
from typing import Any

from sqlalchemy import Connection

from prudent.clock import Clock
from prudent.errors import CampaignBusyError, CommandError, ConflictError, NotFoundError, QuarantinedError
from prudent.ledger import rewards, selection
from prudent.ledger.commands import Command, Compare, Describe, Expire, Observe, Preview, Reward, Select
from prudent.ledger.description import compare_arms, describe, known_report
from prudent.ledger.loading import AnotherDatabaseError, catch_up, open_state, use_snapshot
from prudent.ledger.outcomes import Deferred, Failed, Outcome, Postponed, Result
from prudent.ledger.quarantine import BAD_ROWS
from prudent.ledger.queue import Shares
from prudent.ledger.state import LARGE_BYTES, CampaignState, States, Writes
from prudent.store import campaigns, categories, decisions, log
from prudent.store.campaigns import Standing
from prudent.store.decisions import RecentDecisions
from prudent.store.tables import DecisionRow, LogRow

BEHIND_MAX = 1_000
"""Rows that a batch folds by itself; a state further behind is loaded outside any transaction."""


class StaleDirectoryError(Exception):
    """A public id has another key, or a campaign entered its warm-up, since this process last looked."""


class Batch:
    """One attempt at a batch on an open transaction. If it fails, ``restore`` returns the states to what they were."""

    def __init__(
        self,
        connection: Connection,
        states: States,
        *,
        clock: Clock,
        new_id: Callable[[], str],
        recent: RecentDecisions,
        loading: Collection[int] = (),
        skip_locked: bool = False,
        lock_all: bool = False,
    ) -> None:
        self._connection = connection
        self._states = states
        self._clock = clock
        self._new_id = new_id
        self._recent = recent
        self._skip_locked = skip_locked
        self._lock_all = lock_all
        self._loading = loading
        self.touched: dict[int, CampaignState] = {}
        self._marked: list[CampaignState] = []
        self._locked: set[int] = set()
        self._keys: dict[str, int] = {}
        self._decisions: dict[str, DecisionRow] = {}
        self._remembered: dict[str, DecisionRow] = {}
        self._selected: dict[str, int] = {}
        """The keys of the campaigns of this batch's selects, by decision id."""
        self._rewarded: set[str] = set()
        """The decisions of this batch's rewards."""
        self._standings: dict[int, Standing] = {}
        self._recorded: dict[str, LogRow] = {}
        self._bringing: set[int] = set()
        """The keys of the campaigns whose selects bring categories that are unknown here."""
        self._showing: set[int] = set()
        """The keys of the campaigns whose stored categories must all be known."""
        self._busy: set[int] = set()
        self._behind: set[int] = set()
        self.writes = Writes()
        self._now = 0
        self._shares = Shares()
        self._deferred: set[str] = set()
        """The decisions of this batch's selects that are deferred."""
        self._current: CampaignState | None = None
        self._executions: dict[type[Command], Callable[[Any], Result]] = {
            Select: self._select,
            Reward: self._reward,
            Expire: self._expire,
            Observe: self._observe,
            Preview: self._preview,
            Describe: self._describe,
            Compare: self._compare,
        }

    def run(self, commands: Sequence[Command]) -> list[Outcome]:
        """Execute the commands; the outcome of each, in their order."""
        self._find_decisions(commands)
        self._find_keys(commands)
        learning, others = self._campaigns_of(commands)
        self._find_new_categories(commands)
        self._lock(learning, others)
        self._read_standings(learning | others)
        self._bring_up_to_date()
        self._find_rewards()
        outcomes: list[Outcome] = [None] * len(commands)
        self._shares.begin()
        for place in self._order(commands):
            outcomes[place] = self._execute(commands[place])
        self._write()
        return outcomes

    def _order(self, commands: Sequence[Command]) -> list[int]:
        """Rewards of decisions made before this batch go first; otherwise the order of arrival.

        All commands of a batch wait at the same time, so any order is one that could have happened. In this one every
        select has seen all these rewards, and a campaign is refitted once per batch instead of once per pair.
        """
        return sorted(range(len(commands)), key=lambda place: not self._is_reward_of_the_past(commands[place]))

    def _is_reward_of_the_past(self, command: Command) -> bool:
        return command.learns and command.decision_id is not None and self._decision(command.decision_id) is not None

    def remember(self) -> None:
        """After the commit: keep new decisions, which are likely to be rewarded soon, and drop rewarded ones."""
        self._recent.keep(self.writes.decisions.values())
        self._recent.forget(self.writes.rewarded)

    def restore(self) -> None:
        """Return every state to what it was before the commands ran."""
        for state in self._marked:
            state.restore()

    def forget(self) -> None:
        """After a commit of unknown outcome: drop the states, which may be ahead of the database."""
        for key in self.touched:
            self._states.drop(key)

    # 1. decisions, and the keys of the campaigns that commands name

    def _find_decisions(self, commands: Sequence[Command]) -> None:
        ids = {command.decision_id for command in commands if command.decision_id is not None}
        if not ids:
            return
        self._remembered = self._recent.find(ids)
        self._decisions = decisions.find_decisions(self._connection, ids - self._remembered.keys()) | self._remembered
        self._rewarded = {one.decision_id for one in commands if one.learns and one.decision_id is not None}
        # the reward of a pruned decision is still found in the log
        self._recorded = log.find_observations(self._connection, self._rewarded - self._decisions.keys())

    def _find_keys(self, commands: Sequence[Command]) -> None:
        missing = []
        for name in {command.campaign_id for command in commands if command.campaign_id is not None}:
            key = self._states.key_of(name)
            if key is None:
                missing.append(name)
            else:
                self._keys[name] = key
        self._keys |= campaigns.find_keys(self._connection, missing)

    def _campaigns_of(self, commands: Sequence[Command]) -> tuple[set[int], set[int]]:
        """Keys of the campaigns that will learn, and of the others that are needed."""
        learning: set[int] = set()
        others: set[int] = set()
        for command in commands:
            name, decision_id = command.campaign_id, command.decision_id
            key = None if name is None else self._keys.get(name)
            if decision_id is not None:
                row = self._decisions.get(decision_id) or self._recorded.get(decision_id)
                if name is None:
                    key = row.key if row is not None else self._selected.get(decision_id)
                elif key is not None:
                    self._selected[decision_id] = key
                    if row is not None:
                        others.add(row.key)
            if key is not None:
                (learning if command.learns else others).add(key)
        return learning, others - learning

    def _find_new_categories(self, commands: Sequence[Command]) -> None:
        """A category that is unknown here may be stored already, or else is learned under the head's lock."""
        for command in commands:
            key = self._keys.get(command.campaign_id or "")
            state = None if key is None else self._states.get(key)
            if key is None or state is None or not state.vocabulary.learns:
                continue
            if isinstance(command, Select) and selection.brings_new(state, command):
                self._bringing.add(key)
            elif not isinstance(command, Select) or command.explain:
                self._showing.add(key)

    # 2. locks

    def _lock(self, learning: set[int], others: set[int]) -> None:
        wanted = set(learning)
        for key in others:
            state = self._states.get(key)
            if self._lock_all or state is None or state.warming or key in self._bringing:
                wanted.add(key)
        self._locked = campaigns.lock_heads(self._connection, wanted, skip_locked=self._skip_locked)
        if self._skip_locked:
            self._busy = wanted - self._locked

    # 3. standings and states

    def _read_standings(self, keys: set[int]) -> None:
        self._standings = campaigns.read_standings(self._connection, keys)
        for standing in self._standings.values():
            if self._states.epoch not in {None, standing.epoch}:
                raise AnotherDatabaseError(f"{self._states.epoch} became {standing.epoch}")
            self._states.epoch = standing.epoch
        clocks = [standing.now for standing in self._standings.values() if standing.now is not None]
        self._now = max(clocks) if clocks else self._clock()
        ended = [row.decision_id for row in self._remembered.values() if self._name_of(row.key) is None]
        self._recent.forget(ended)
        stale = [name for name, key in self._keys.items() if self._name_of(key) != name]
        for name in stale:
            self._states.drop(self._keys[name])
            self._states.forget_name(name)
        if stale or ended:
            raise StaleDirectoryError

    def _bring_up_to_date(self) -> None:
        quarantine = self._states.quarantine
        held = quarantine.held(self._clock()) if quarantine.entries else ()
        for key, standing in self._standings.items():
            if standing.campaign_id is None or key in self._busy or key in held:
                continue
            if key in self._loading:
                self._behind.add(key)
                continue
            try:
                state = self._state_at(key, standing)
                if state is None:
                    continue
                behind = state.target - state.sequence
                if behind > BEHIND_MAX or state.takes_long(behind):
                    self._behind.add(key)
                    continue
                if state.sequence != state.target:
                    catch_up(self._connection, state)
            except BAD_ROWS as error:
                self._states.drop(key)
                quarantine.put(key, standing.campaign_id, error, self._clock())
                continue
            if quarantine.entries:
                quarantine.release(key)
            self.touched[key] = state
        incomplete = (self._bringing | self._showing) & self.touched.keys()
        if incomplete:
            for key, rows in categories.read_categories(self._connection, incomplete).items():
                self.touched[key].learn_categories(rows)
        warming = [state for state in self.touched.values() if state.warming]
        if any(state.key not in self._locked for state in warming):
            raise StaleDirectoryError
        plays = campaigns.read_plays(self._connection, [state.key for state in warming])
        for state in warming:
            state.plays = [plays[state.key][arm.position] for arm in state.arms]
        for state in self.touched.values():
            self._states.put(state)
            state.mark()
            self._marked.append(state)

    def _state_at(self, key: int, standing: Standing) -> CampaignState | None:
        state = self._states.get(key)
        if state is not None and state.sequence > standing.head:
            raise AnotherDatabaseError(f"the log of campaign {key} ends at {standing.head}, before {state.sequence}")
        if state is not None and state.standing.epoch != standing.epoch:  # loaded before the database became another
            self._states.drop(key)
            state = None
        if state is None:
            state = open_state(self._connection, key)
            if state is None:
                return None
            if state.nbytes > LARGE_BYTES:
                self._behind.add(key)
                return None
            use_snapshot(self._connection, state)
        elif state.revision != standing.revision:
            row = campaigns.read_campaign(self._connection, key)
            if row is None:
                return None
            state.reconfigure(row, campaigns.read_arms(self._connection, [key])[key])
        state.standing = standing
        return state

    # 4. existing rewards

    def _find_rewards(self) -> None:
        if self._rewarded:
            self._recorded |= log.find_observations(self._connection, self._rewarded)

    # 5. execution

    def _execute(self, command: Command) -> Outcome:
        self._current = None
        started = time.thread_time()
        try:
            return self._executions[type(command)](command)
        except (CommandError, CampaignBusyError, QuarantinedError) as error:
            return Failed(error)
        except _NotNow as reason:
            if isinstance(reason.outcome, Deferred) and command.decision_id is not None:
                self._deferred.add(command.decision_id)
            return reason.outcome
        finally:
            if self._current is not None:
                seconds = time.thread_time() - started
                self._shares.count(self._current.key, seconds)
                self._current.command_seconds += 0.25 * (seconds - self._current.command_seconds)

    def _state(self, key: int | None, missing: str) -> CampaignState:
        """The state to execute on. Raises if the campaign is gone, held by another worker, lent, or out of time."""
        if key is None:
            raise NotFoundError(missing)
        if key in self._busy:
            raise CampaignBusyError("another worker holds this campaign: try again")
        if key in self._behind:
            raise _NotNow(Postponed(key))
        if key in self._states.quarantine.entries:
            reason = self._states.quarantine.reason(key)
            raise QuarantinedError(f"the campaign is out of service: {reason}; other campaigns are served")
        state = self.touched.get(key)
        if state is None:
            raise NotFoundError(missing)
        if self._shares.is_over(state.key, state.command_seconds):
            raise _NotNow(self._shares.deferral(state.key, state.campaign_id))
        self._current = state
        return state

    def _named(self, campaign_id: str) -> CampaignState:
        """The state of the campaign that a command names. Raises as `_state` does."""
        return self._state(self._keys.get(campaign_id), "there is no such campaign")

    def _decision(self, decision_id: str) -> DecisionRow | None:
        """A decision of a living campaign, of this batch or before it."""
        row = self.writes.decisions.get(decision_id) or self._decisions.get(decision_id)
        return None if row is None or self._name_of(row.key) is None else row

    def _name_of(self, key: int) -> str | None:
        """The campaign's public id; None once it is deleted."""
        standing = self._standings.get(key)
        return None if standing is None else standing.campaign_id

    def _select(self, command: Select) -> Result:
        state = self._named(command.campaign_id)
        request, draft = selection.with_rows(state, command)
        if command.decision_id is None:
            new_id = self._new_id()
            return selection.select(state, request, new_id, None, self._now, self.writes, draft=draft)
        digest = request.digest()
        held = self._decisions.get(command.decision_id)
        if held is not None and held.key in self._busy:  # another worker may be deleting that campaign
            raise CampaignBusyError("another worker holds this decision's campaign: try again")
        earlier = self._decision(command.decision_id)
        if earlier is None:
            decision_id = command.decision_id
            return selection.select(state, request, decision_id, digest, self._now, self.writes, draft=draft)
        if earlier.key != state.key or earlier.request_digest != digest:
            raise ConflictError("this decision_id was already used for a different request", field="decision_id")
        return selection.repeat_decision(earlier, state.campaign_id)

    def _reward(self, command: Reward) -> Result:
        decision = self._decision(command.decision_id)
        recorded = self._recorded_reward(command.decision_id)
        known = decision or recorded
        # if its select must wait for the campaign, so must the reward
        key = known.key if known is not None else self._selected.get(command.decision_id)
        state = self._state(key, "there is no such decision")
        if recorded is not None:
            return rewards.repeat_reward(state, command, recorded)
        if decision is None:
            if command.decision_id in self._deferred:
                raise _NotNow(self._shares.deferral(state.key, state.campaign_id))
            raise NotFoundError("there is no such decision")
        return rewards.reward(state, command, decision, self._now, self.writes)

    def _recorded_reward(self, decision_id: str) -> LogRow | None:
        row = self.writes.rewarded.get(decision_id) or self._recorded.get(decision_id)
        return None if row is None or self._name_of(row.key) is None else row

    def _expire(self, command: Expire) -> Result:
        decision = self._decision(command.decision_id)
        if decision is not None and self._recorded_reward(command.decision_id) is None:
            rewards.expire(self._state(decision.key, ""), decision, self._now, self.writes)
        self.writes.no_longer_due.add(command.decision_id)
        return None

    def _observe(self, command: Observe) -> Result:
        state = self._named(command.campaign_id)
        ids = [one.observation_id for one in command.observations if one.observation_id is not None]
        recorded = log.find_warm_starts(self._connection, state.key, ids)
        for row in self.writes.observations:
            if row.key == state.key and row.observation_id is not None:
                recorded[row.observation_id] = row
        return rewards.observe(state, command, recorded, self._now, self.writes)

    def _preview(self, command: Preview) -> Result:
        key = self._named(command.campaign_id).key
        raise _NotNow(Postponed(key, lambda state: selection.preview(state, command.request)))

    def _describe(self, command: Describe) -> Result:
        state = self._named(command.campaign_id)
        damage = self._states.quarantine.damaged.get(state.key)
        report = known_report(state, damage)
        if report is None:
            raise _NotNow(Postponed(state.key, lambda lent: describe(lent, damage)))
        return report

    def _compare(self, command: Compare) -> Result:
        key = self._named(command.campaign_id).key
        raise _NotNow(Postponed(key, lambda lent: compare_arms(lent, command)))

    # 6. writes

    def _write(self) -> None:
        writes = self.writes
        replaced = {decision_id for decision_id in writes.decisions if decision_id in self._decisions}
        if replaced:  # of campaigns that are deleted but not purged yet
            log.delete_of_decisions(self._connection, replaced)
            decisions.delete_decisions(self._connection, replaced)
        if writes.categories:
            categories.insert_categories(self._connection, writes.categories)
        decisions.insert_decisions(self._connection, writes.decisions.values())
        if writes.observations:
            # what was found for a decision that is rewarded only now is of a campaign deleted or not yet imported
            log.delete_of_decisions(self._connection, writes.rewarded.keys() & self._recorded.keys())
            log.append(self._connection, writes.observations)
            campaigns.set_heads(self._connection, {row.key: self.touched[row.key].head for row in writes.observations})
        campaigns.add_plays(self._connection, writes.plays)
        decisions.clear_due(self._connection, writes.no_longer_due)


class _NotNow(Exception):  # noqa: N818  # a signal within this module, not an error
    def __init__(self, outcome: Postponed | Deferred) -> None:
        super().__init__(outcome)
        self.outcome = outcome
