"""What a batch rests on: steps 1 to 4 of `prudent.ledger.batch`, which says why their order is this one."""

from collections.abc import Collection, Sequence

from sqlalchemy import Connection

from prudent.clock import DAY_US, Clock
from prudent.core.budget import WINDOW, Spending
from prudent.identifiers import key_in
from prudent.ledger import selection
from prudent.ledger.amendments import AmendedError
from prudent.ledger.commands import Command, LearnEvent, Select
from prudent.ledger.loading import AnotherDatabaseError, catch_up, open_state, use_snapshot
from prudent.ledger.quarantine import BAD_ROWS
from prudent.ledger.state import LARGE_BYTES, CampaignState, States
from prudent.ledger.subjects import windowed_ids
from prudent.store import campaigns, categories, decisions, log, reports
from prudent.store.campaigns import Standing
from prudent.store.decisions import SUBJECT_PREFIX, RecentDecisions
from prudent.store.tables import NOT_ACTIVATED, DecisionKey, DecisionRow, LogRow

BEHIND_MAX = 1_000
"""Rows that a batch folds by itself; a state further behind is loaded outside any transaction."""


class StaleDirectoryError(Exception):
    """A public id has another key, a decision's campaign is gone, or a campaign's selects need a lock by now."""


class Basis:
    """The decisions, campaigns' states and rewards that a batch's commands need, found, locked and brought up to date.

    now: the batch's time, by the database's clock if it has one. keys: of the campaigns that commands name, by public
    id. decisions: those that exist already, and recorded, their rewards. touched: the states to execute on, by key;
    subject_keys: what subjects of theirs are digested with. busy: keys of campaigns that another worker holds; behind:
    of those whose state must be loaded first.

    is_rerun: whether another attempt has failed: every campaign is locked, and what ids tell of keys is not believed.
    """

    def __init__(
        self,
        connection: Connection,
        states: States,
        *,
        clock: Clock,
        recent: RecentDecisions,
        loading: Collection[int] = (),
        skip_locked: bool = False,
        is_rerun: bool = False,
    ) -> None:
        self.connection = connection
        self.states = states
        self._clock = clock
        self._recent = recent
        self._skip_locked = skip_locked
        self._is_rerun = is_rerun
        self._loading = loading
        self.now = 0
        self.touched: dict[int, CampaignState] = {}
        self.subject_keys: dict[int, bytes] = {}
        self._marked: list[CampaignState] = []
        self._locked: set[int] = set()
        self.keys: dict[str, int] = {}
        self.decisions: dict[DecisionKey, DecisionRow] = {}
        self._remembered: dict[DecisionKey, DecisionRow] = {}
        self._hinted: dict[DecisionKey, DecisionRow] = {}
        """Those that were found where their ids say that they are."""
        self._places: dict[str, set[int]] = {}
        """The keys of the campaigns that have a decision with an id, or may have one after this batch."""
        self._rewarded: set[DecisionKey] = set()
        """The decisions of this batch's rewards."""
        self._standings: dict[int, Standing] = {}
        self.recorded: dict[DecisionKey, LogRow] = {}
        self._bringing: set[int] = set()
        """The keys of the campaigns whose selects bring categories that are unknown here."""
        self._showing: set[int] = set()
        """The keys of the campaigns whose stored categories must all be known."""
        self.busy: set[int] = set()
        self.behind: set[int] = set()

    def gather(self, commands: Sequence[Command]) -> None:
        """Find, lock and bring up to date what these commands need. Raises StaleDirectoryError: gather it anew."""
        self._find_keys(commands)
        self._find_decisions(commands)
        learning, others = self._campaigns_of(commands)
        self._find_new_categories(commands)
        self._lock(learning, others)
        self._read_standings(learning | others)
        self._bring_up_to_date()
        self._find_later_decisions(commands)
        self._find_rewards(commands)

    def name_of(self, key: int) -> str | None:
        """The campaign's public id; None once it is deleted."""
        standing = self._standings.get(key)
        return None if standing is None else standing.campaign_id

    def keys_of(self, command: Command) -> Collection[int]:
        """The keys of the campaigns that a command may be about: the one it names, or all that have its decision."""
        if command.campaign_id is not None:
            key = self.keys.get(command.campaign_id)
            return () if key is None else (key,)
        return self._places.get(command.decision_id or "", ())

    def restore(self) -> None:
        """Return every state to what it was before the commands ran."""
        for state in self._marked:
            state.restore()

    def forget(self) -> None:
        """After a commit of unknown outcome: drop the states, which may be ahead of the database."""
        for key in self.touched:
            self.states.drop(key)

    # 1. the keys of the campaigns that commands name, and decisions

    def _find_keys(self, commands: Sequence[Command]) -> None:
        missing = []
        for name in {command.campaign_id for command in commands if command.campaign_id is not None}:
            key = self.states.key_of(name)
            if key is None:
                missing.append(name)
            else:
                self.keys[name] = key
        self.keys |= campaigns.find_keys(self.connection, missing)

    def _find_decisions(self, commands: Sequence[Command]) -> None:
        """Each in the campaign that is named, else the one that its id names, else in all.

        A client's own id is looked for in all campaigns before it gets a decision, too: only an id that no other one
        uses may be remembered by itself.
        """
        ids = {command.decision_id for command in commands if command.decision_id is not None}
        recent = self._recent.find(ids)
        named: set[DecisionKey] = set()
        hinted: set[DecisionKey] = set()
        anywhere: set[str] = set()
        for command in commands:
            decision_id = command.decision_id
            if decision_id is None:
                continue
            key = self.keys.get(command.campaign_id or "")
            row = recent.get(decision_id)
            if row is not None and key in {None, row.key}:
                self._remembered[row.identity] = row
            elif not command.learns:
                anywhere.add(decision_id)
            elif key is not None:
                named.add((key, decision_id))
            elif command.campaign_id is None:
                hint = None if self._is_rerun else key_in(decision_id)
                if hint is None:
                    anywhere.add(decision_id)
                else:
                    hinted.add((hint, decision_id))
        found = decisions.find_decisions(self.connection, named | hinted)
        self._hinted = {identity: found[identity] for identity in hinted if identity in found}
        anywhere.update(decision_id for _, decision_id in hinted - found.keys())
        self.decisions = found | decisions.find_anywhere(self.connection, anywhere) | self._remembered
        for key, decision_id in self.decisions:
            self._places.setdefault(decision_id, set()).add(key)
        self._find_pruned(commands)

    def _find_pruned(self, commands: Sequence[Command]) -> None:
        """The reward of a decision that was pruned is still found in the log, by the campaign that its id names."""
        unknown = {one.decision_id for one in commands if one.learns and one.campaign_id is None} - self._places.keys()
        hints = [(key, one) for one in unknown if one is not None and (key := key_in(one)) is not None]
        for key, decision_id in log.find_observations(self.connection, hints):
            self._places.setdefault(decision_id, set()).add(key)

    def _campaigns_of(self, commands: Sequence[Command]) -> tuple[set[int], set[int]]:
        """Keys of the campaigns that will learn, and of the others that are needed."""
        learning: set[int] = set()
        others: set[int] = set()
        for command in commands:
            if not command.learns:
                keys = self.keys_of(command)
                others.update(keys)
                if command.decision_id is not None:
                    self._places.setdefault(command.decision_id, set()).update(keys)
        for command in commands:
            if command.learns:
                keys = self.keys_of(command)
                learning.update(keys)
                if command.decision_id is not None:
                    self._rewarded.update((key, command.decision_id) for key in keys)
        return learning, others - learning

    def _find_new_categories(self, commands: Sequence[Command]) -> None:
        """A category that is unknown here may be stored already, or else is learned under the head's lock."""
        for command in commands:
            key = self.keys.get(command.campaign_id or "")
            state = None if key is None else self.states.get(key)
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
            state = self.states.get(key)
            if self._is_rerun or state is None or state.rule.looks_back or state.warming or key in self._bringing:
                wanted.add(key)
        self._locked = campaigns.lock_heads(self.connection, wanted, skip_locked=self._skip_locked)
        if self._skip_locked:
            self.busy = wanted - self._locked

    # 3. standings and states

    def _read_standings(self, keys: set[int]) -> None:
        self._standings = campaigns.read_standings(self.connection, keys)
        for standing in self._standings.values():
            if self.states.epoch not in {None, standing.epoch}:
                raise AnotherDatabaseError(f"{self.states.epoch} became {standing.epoch}")
            self.states.epoch = standing.epoch
        clocks = [standing.now for standing in self._standings.values() if standing.now is not None]
        self.now = max(clocks) if clocks else self._clock()
        ended = [decision_id for key, decision_id in self._remembered if self.name_of(key) is None]
        self._recent.forget(ended)
        ended += [decision_id for key, decision_id in self._hinted if self.name_of(key) is None]
        stale = [name for name, key in self.keys.items() if self.name_of(key) != name]
        for name in stale:
            self.states.drop(self.keys[name])
            self.states.forget_name(name)
        if stale or ended:
            raise StaleDirectoryError

    def _bring_up_to_date(self) -> None:
        quarantine = self.states.quarantine
        held = quarantine.held(self._clock()) if quarantine.entries else ()
        for key, standing in self._standings.items():
            if standing.campaign_id is None or key in self.busy or key in held:
                continue
            if key in self._loading:
                self.behind.add(key)
                continue
            try:
                state = self._state_at(key, standing)
                if state is None:
                    continue
                behind = state.target - state.sequence
                if behind > BEHIND_MAX or state.takes_long(behind):
                    self.behind.add(key)
                    continue
                if state.sequence != state.target:
                    catch_up(self.connection, state)
            except AmendedError:
                self.states.drop(key)
                self.behind.add(key)
                continue
            except BAD_ROWS as error:
                self.states.drop(key)
                quarantine.put(key, standing.campaign_id, error, self._clock())
                continue
            if quarantine.entries:
                quarantine.release(key)
            self.touched[key] = state
        incomplete = (self._bringing | self._showing) & self.touched.keys()
        if incomplete:
            for key, rows in categories.read_categories(self.connection, incomplete).items():
                self.touched[key].vocabulary.extend(rows)
        self._find_spending()
        warming = [state for state in self.touched.values() if state.warming]
        if any(state.key not in self._locked for state in warming):
            raise StaleDirectoryError
        plays = campaigns.read_plays(self.connection, [state.key for state in warming])
        for state in warming:
            state.plays = [plays[state.key][arm.position] for arm in state.arms]
        for state in self.touched.values():
            self.states.put(state)
            state.mark()
            self._marked.append(state)

    def _find_spending(self) -> None:
        """Read what the latest decisions have spent, under the head's lock, where that decides about the next."""
        for state in self.touched.values():
            if not state.rule.looks_back:
                continue
            if state.key not in self._locked:
                raise StaleDirectoryError
            rows = reports.read_last_choices(self.connection, state.key, WINDOW - 1 if state.rule.limit else 1)
            explored = [reports.explores(row) for row in reversed(rows)]
            last, allowance = (rows[0].created_at, rows[0].allowance) if rows else (0, None)
            state.spending = Spending(explored, last, allowance or 0.0)

    def _state_at(self, key: int, standing: Standing) -> CampaignState | None:
        held = self.states.get(key)
        if held is not None and held.sequence > standing.head:
            raise AnotherDatabaseError(f"the log of campaign {key} ends at {standing.head}, before {held.sequence}")
        if held is not None and held.follow(standing):
            return held
        state = open_state(self.connection, standing, held)
        if state is None or state is held:
            return state
        self.states.drop(key)  # if one is held, it was loaded before the database became another
        if state.nbytes > LARGE_BYTES:
            self.behind.add(key)
            return None
        use_snapshot(self.connection, state)
        return state

    # 4. decisions for subjects, whose ids depend on the time and on the campaign, those that wait for their activation,
    # and existing rewards

    def _find_later_decisions(self, commands: Sequence[Command]) -> None:
        """After the lock, since another worker may just have made them."""
        wanted: set[DecisionKey] = set()
        for command in commands:
            if command.subject is None:
                continue
            state = self.touched.get(self.keys.get(command.campaign_id or "", -1))
            if state is None:
                continue
            if state.key not in self.subject_keys:
                self.subject_keys[state.key] = self._subject_key(state)
            ids = self.ids_for(state, command.subject, command.at if isinstance(command, LearnEvent) else None)
            own = {(state.key, decision_id) for decision_id in ids}
            wanted |= own
            if command.learns:
                self._rewarded |= own
        wanted.update(one for one in self._rewarded & self.decisions.keys() if self._may_be_stale(one))
        if not wanted:
            return
        found = decisions.find_decisions(self.connection, wanted)
        for identity in wanted - found.keys():
            self.decisions.pop(identity, None)
        self.decisions |= found

    def _may_be_stale(self, identity: DecisionKey) -> bool:
        """Whether it may have been activated, or erased with its subject, while this waited for the lock.

        Or deleted since it was last seen here, by a retention_days, at least one, that may be another one by now.
        """
        row = self.decisions[identity]
        is_old = identity in self._remembered and row.created_at < self.now - DAY_US
        return is_old or identity[1].startswith(SUBJECT_PREFIX) or row.activated_at == NOT_ACTIVATED

    def _subject_key(self, state: CampaignState) -> bytes:
        if state.subject_key is None:
            key, is_new = campaigns.subject_key(self.connection, state.key)
            if is_new:  # and gone if this batch is rolled back
                return key
            state.subject_key = key
        return state.subject_key

    def ids_for(self, state: CampaignState, subject: str, at: int | None = None) -> Sequence[str]:
        """The ids under which the decision that stands for a subject may be, latest first; none if none stands.

        at: microseconds since 1970; None for now, as which a later time counts.
        """
        sticky_seconds = state.configuration.assignment.sticky_seconds
        if sticky_seconds is None:
            return ()
        return windowed_ids(
            self.subject_keys[state.key], subject, sticky_seconds, self.now if at is None else min(at, self.now)
        )

    def _find_rewards(self, commands: Sequence[Command]) -> None:
        """Of rewards, and of selects whose decision may have been made and deleted."""
        wanted = set(self._rewarded)
        for command in commands:
            if command.decision_id is None or not isinstance(command, Select):
                continue
            state = self.touched.get(self.keys.get(command.campaign_id, 0))
            if state is None or not state.configuration.retention_days:
                continue
            identity = state.key, command.decision_id
            if identity not in self.decisions:
                wanted.add(identity)
        self.recorded = log.find_observations(self.connection, wanted)
