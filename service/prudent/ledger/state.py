"""What a worker holds in memory of its campaigns.

A campaign's state is its configuration, its arms, and the policy folded from its log. It comes from the database: the
campaign's row and arms, a snapshot for a head start, then the log. The cache is bounded, and all that it holds can
be read again. While a batch runs, what it will insert is collected beside the states that it changes.
"""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
import structlog
from numpy.typing import NDArray

from prudent.campaigns import Draft, RowReader, build_policy, exploration_rule, index_settings, stored
from prudent.campaigns.values import alike
from prudent.clock import DAY_US
from prudent.core.budget import Spending
from prudent.core.exploration import Scores
from prudent.core.policy import Policy
from prudent.ledger.amendments import AmendedError, Amendments, begin, settings_of
from prudent.ledger.arms import Arm, Candidate
from prudent.ledger.quarantine import BAD_ROWS, BadRowError, Quarantine
from prudent.ledger.refusals import Refusals
from prudent.store import log
from prudent.store.campaigns import CampaignRow, Standing
from prudent.store.log import FoldRow
from prudent.store.statements import features_from_bytes
from prudent.store.tables import CONFIGURATION, OBSERVATION, ArmRow, CategoryRow, DecisionKey, DecisionRow, LogRow
from prudent.store.trail import TrailRow

logger = structlog.get_logger(__name__)

LARGE_BYTES = 8 * 2**20
"""A state of this size is loaded and dumped off the ledger's thread, which it would hold for too long."""
FOLD_PRODUCTS_MAX = 15_000_000
"""Observations x features^2: as much as a batch learns at once, a tenth of a second; more is learned in the loader."""


class CampaignState:
    """A campaign's state at ``sequence``: fold(log up to there). Owned by one thread at a time."""

    def __init__(self, row: CampaignRow, arms: list[ArmRow]) -> None:
        self.key = row.key
        self.creation = stored(row.creation)
        self.configuration = stored(row.configuration)
        self.policy: Policy = build_policy(self.creation, self.configuration, arms=len(arms))
        self.rule = exploration_rule(self.configuration)
        self.reader = RowReader(self.creation.model)
        self.vocabulary = self.reader.vocabulary()
        self.sequence = 0
        self.last: FoldRow | None = None
        """The last row learned."""
        self.amendments: Amendments | None = None
        """Where there are any: what has been learned is right only from their last row on."""
        self.refusals = Refusals()
        self.snapshot_sequence = 0
        self.solver_counted = self.policy.solver_counts
        self.spending: Spending | None = None
        """As of the last batch with a select, where the campaign has a budget for exploration or a baseline."""
        self._is_warm = False
        self.revision, self.subject_key = row.revision, row.subject_key
        self.standing = Standing(row.key, row.campaign_id, row.status, row.revision, row.learn_limit, row.head)
        self.command_seconds = 0.0
        """What a command took lately, on average."""
        self.scored: tuple[object, Scores] | None = None
        """The scores of registered arms, and the state that they belong to: the same for many selects."""
        self.listed: tuple[int, dict[str, Candidate]] | None = None
        """The registered arms as candidates, and the revision that they belong to."""
        self.described: tuple[object, object] | None = None
        """The last report, and the state that it belongs to."""
        self._set_arms(arms)
        self._marked: tuple[int, FoldRow | None, Standing, list[int]] = (0, None, self.standing, list(self.plays))

    @property
    def campaign_id(self) -> str:
        """Public id."""
        return self.configuration.campaign_id

    @property
    def shared(self) -> bool:
        """Whether there is one parameter for all arms, with features per arm; else there is one parameter per arm."""
        return self.creation.model.type == "shared"

    @property
    def status(self) -> str:
        """The status as of the last batch."""
        return self.standing.status

    @property
    def head(self) -> int:
        """The last sequence number assigned, including this batch's."""
        return self.standing.head

    @property
    def learn_limit(self) -> int | None:
        """The head at the pause; None while learning."""
        return self.standing.learn_limit

    def keeps(self, decision: DecisionRow, now: int) -> bool:
        """Whether the campaign still has a decision, deleted already or not: it is young enough, or has a deadline."""
        days = self.configuration.retention_days
        return days == 0 or decision.created_at >= now - days * DAY_US or (decision.due_at or 0) > now

    @property
    def anchor(self) -> int:
        """Where to read the log from, so that the last row learned comes first: the sequence before it."""
        return self.sequence if self.last is None else self.last.sequence - 1

    @property
    def target(self) -> int:
        """The sequence that the state should reach: min(head, learn_limit)."""
        limit = self.learn_limit
        return self.head if limit is None else min(self.head, limit)

    @property
    def warming(self) -> bool:
        """Whether an active arm is below its warm-up: plays then matter, and are read under the lock."""
        if self._is_warm:
            return False
        warmup = self.configuration.algorithm.warmup
        active = (plays for arm, plays in zip(self.arms, self.plays, strict=True) if arm.status == "active")
        self._is_warm = all(plays >= warmup for plays in active)
        return not self._is_warm

    def fold_digest(self, last: FoldRow | None) -> bytes:
        """Digest of what the state after this row depends on: a snapshot is valid only with the same digest.

        The row stands for the log up to it: a snapshot must not survive a restore that took its rows back.
        """
        content = f"{self.creation.model_dump_json()}{last}"
        return blake2b(content.encode(), digest_size=16).digest()

    def block_of(self, arm_id: str) -> int:
        """The block of parameters that an arm's observations belong to."""
        return 0 if self.shared else self.by_id[arm_id].position

    def features_and_blocks(
        self, candidates: Sequence[Candidate], matrix: NDArray[np.float64] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.intp] | None]:
        """What the policy takes: (K, d) and None for the shared model, else the one context and each arm's block.

        matrix: the features of a request's arms, used if none of them was left out.
        """
        if self.shared:
            if matrix is None or len(matrix) != len(candidates):
                matrix = np.array([candidate.features for candidate in candidates])
            return matrix, None
        return candidates[0].features, np.array([candidate.position for candidate in candidates], dtype=np.intp)

    def follow(self, standing: Standing) -> bool:
        """Take over what the database says now; False if it is another database or configuration than this state's."""
        if self.standing.epoch != standing.epoch or self.revision != standing.revision:
            return False
        self.standing = standing
        return True

    def reconfigure(self, row: CampaignRow, arms: list[ArmRow]) -> None:
        """Apply a newer revision: index settings, statuses, arms that were added. What was learned stays."""
        self.configuration = stored(row.configuration)
        for _ in range(len(arms) - len(self.arms)):
            self.policy.add_arm(has_block=not self.shared)
        self.policy.set_index(index_settings(self.configuration), self.configuration.algorithm.exploration)
        self.rule = exploration_rule(self.configuration)
        self._set_arms(arms)
        self.revision = row.revision

    def _set_arms(self, rows: list[ArmRow]) -> None:
        if any(row.position != place for place, row in enumerate(rows)):
            raise BadRowError("the rows of its arms are incomplete")
        own = [None if row.features is None else features_from_bytes(row.features) for row in rows]
        if any(one is not None and not self.reader.is_whole(one, self.reader.arm_length) for one in own):
            raise BadRowError("the features of one of its arms are damaged")
        self.arms = [
            Arm(row.arm_id, row.position, row.status, features, row.since)
            for row, features in zip(rows, own, strict=True)
        ]
        self.by_id = {arm.arm_id: arm for arm in self.arms}
        self.values = alike({row.arm_id: row.parsed_value for row in rows if row.value is not None})
        self.inactive = {arm.arm_id: arm.status for arm in self.arms if arm.status != "active"}
        self.plays = [row.plays for row in rows]
        self._is_warm = False

    def fold(self, row: FoldRow) -> None:
        """Learn the next row of the log. Raises AmendedError if it amends what has been learned."""
        if row.sequence <= self.sequence:
            raise ValueError(f"row {row.sequence} of the log has already been folded")
        if row.kind != OBSERVATION:
            self._amend(row)
        else:
            reward = row.reward if self.amendments is None else self.amendments.reward_of(row)
            if reward is not None:
                arm = self.by_id.get(row.arm_id)
                position = None if arm is None or row.sequence <= arm.since else arm.position
                features = features_from_bytes(row.features)
                self.policy.observe(self.block_of(row.arm_id), features, reward, position, row.sequence)
        self.sequence, self.last = row.sequence, row

    def _amend(self, row: FoldRow) -> None:
        """Take in a row that is no observation. Raises AmendedError if it is not known yet what it amends."""
        settings = settings_of(row) if row.kind == CONFIGURATION else {}
        if "half_life" in settings:
            self.policy.set_half_life(settings["half_life"])
        elif log.SNAPSHOT in settings:
            if self.sequence:
                raise ValueError("a snapshot can only be the first row of a log")
            if self.amendments is None or self.amendments.first <= row.sequence:
                begin(self.policy, settings[log.SNAPSHOT])
        elif self.amendments is None or self.amendments.until < row.sequence:
            raise AmendedError(f"row {row.sequence} of the log amends earlier ones")

    def fold_all(self, rows: Iterable[FoldRow]) -> None:
        """Learn the next rows of the log, as they are stored. Raises BadRowError."""
        for row in rows:
            try:
                self.fold(row)
            except BAD_ROWS as error:
                why = "it names an arm that the campaign does not have" if isinstance(error, KeyError) else str(error)
                raise BadRowError(f"row {row.sequence} of its log cannot be learned: {why}") from error

    def number(self, row: LogRow) -> LogRow:
        """The row with the next sequence number and the log's digest up to it; it is the head from now on."""
        numbered = row._replace(sequence=self.head + 1)
        numbered = numbered._replace(digest=log.digest_of(self.standing.digest, numbered))
        self.standing = self.standing._replace(head=numbered.sequence, digest=numbered.digest)
        return numbered

    def mark(self) -> None:
        """Save this state before a batch changes it."""
        self.policy.mark()
        if self.vocabulary.learns:
            self.vocabulary.mark()
        self._marked = (self.sequence, self.last, self.standing, list(self.plays))

    def restore(self) -> None:
        """Return exactly to the saved state."""
        self.policy.restore()
        if self.vocabulary.learns:
            self.vocabulary.restore()
        self.sequence, self.last, self.standing, plays = self._marked
        self.plays = list(plays)
        self._is_warm = False

    def takes_long(self, rows: int) -> bool:
        """Whether learning so many observations would hold the ledger's thread for too long."""
        solved = self.creation.algorithm.exact_until if (self.policy.left_exact or rows + 1) <= rows else 0
        return (rows + (solved or 0)) * self.policy.feature_map.model_dimension**2 > FOLD_PRODUCTS_MAX

    @property
    def nbytes(self) -> int:
        """Memory held, roughly: matrices, history, and the interpreter's objects."""
        return 20_000 + 500 * len(self.arms) + self.policy.nbytes


@dataclass(slots=True)
class Writes:
    """What a batch will insert, by what later commands of the same batch look up."""

    decisions: dict[DecisionKey, DecisionRow] = field(default_factory=dict)
    observations: list[LogRow] = field(default_factory=list)
    rewarded: dict[DecisionKey, LogRow] = field(default_factory=dict)
    plays: dict[tuple[int, int], int] = field(default_factory=dict)
    activated: dict[DecisionKey, DecisionRow] = field(default_factory=dict)
    no_longer_due: set[DecisionKey] = field(default_factory=set)
    categories: list[CategoryRow] = field(default_factory=list)
    trail: list[TrailRow] = field(default_factory=list)
    missing: int = 0
    others: int = 0
    """Values of named features that were not sent, or that were none of a feature's categories."""
    ignored: int = 0
    """Attributes of flags' contexts that are none of their campaigns' features."""

    def learn_categories(self, state: CampaignState, draft: Draft) -> None:
        """Keep the categories that a request has brought, now that it is recorded."""
        state.vocabulary.extend(draft.added)
        self.categories += (CategoryRow(state.key, *one) for one in draft.added)

    def add_play(self, state: CampaignState, arm_id: str) -> None:
        """Count a play of an arm that is below its warm-up; above it plays are not written."""
        arm = state.by_id.get(arm_id)
        if arm is None or state.plays[arm.position] >= state.configuration.algorithm.warmup:
            return
        state.plays[arm.position] += 1
        place = (state.key, arm.position)
        self.plays[place] = self.plays.get(place, 0) + 1

    def append(self, state: CampaignState, row: LogRow, *, later: bool = False) -> LogRow:
        """Assign the next sequence number to a row, learn it unless the campaign is paused, and keep it for the log.

        later: have it learned from the log, before the campaign's next command. What comes after it is then as well.
        """
        numbered = state.number(row)
        later = later or (state.policy.left_exact == 1 and state.takes_long(1))
        if state.learn_limit is None and not later and state.sequence == numbered.sequence - 1:
            state.fold(log.fold_row(numbered))
        self.observations.append(numbered)
        if state.policy.seen is not None:
            missing, others = state.policy.odd_values(features_from_bytes(row.features))
            self.missing += missing
            self.others += others
        return numbered


class States:
    """A bounded cache, least recently used first out. Dropping a state loses nothing: it is a fold of the log."""

    epoch: str | None = None
    """Of the database that they, and the recent decisions, were read from; None until it is known."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._states: OrderedDict[int, tuple[CampaignState, int]] = OrderedDict()
        self._keys: dict[str, int] = {}
        self._unmeasured: set[int] = set()
        self.quarantine = Quarantine()

    def get(self, key: int) -> CampaignState | None:
        """The state of a campaign, which becomes the most recently used."""
        entry = self._states.get(key)
        if entry is None:
            return None
        self._states.move_to_end(key)
        return entry[0]

    def put(self, state: CampaignState) -> None:
        """Hold a state, which becomes the most recently used. Its size is taken in `measure`."""
        key = state.key
        _, size = self._states.get(key, (None, 0))
        self._states[key] = (state, size)
        self._states.move_to_end(key)
        self._unmeasured.add(key)
        self._keys[state.campaign_id] = key

    def __iter__(self) -> Iterator[CampaignState]:
        return (state for state, _ in self._states.values())

    def clear(self) -> None:
        """Drop all of them, and the names and the epoch."""
        self._states.clear()
        self._keys.clear()
        self._unmeasured.clear()
        self._bytes, self.epoch = 0, None

    def used(self) -> list[CampaignState]:
        """The states put since the last `measure`."""
        return [self._states[key][0] for key in self._unmeasured if key in self._states]

    def measure(self) -> None:
        """Take the size of the states put since the last time: once a second, not once per batch."""
        for key in self._unmeasured:
            entry = self._states.get(key)
            if entry is not None:
                state, before = entry
                size = state.nbytes
                self._states[key] = (state, size)
                self._bytes += size - before
        self._unmeasured.clear()

    def drop(self, key: int) -> CampaignState | None:
        """Drop a state; the next use loads it again. Returns it, for somebody else to own."""
        entry = self._states.pop(key, None)
        if entry is None:
            return None
        self._bytes -= entry[1]
        self.forget_name(entry[0].campaign_id)
        return entry[0]

    def evict(self) -> int:
        """Drop the least recently used states until the bound holds; how many were dropped. One always stays."""
        self.measure()
        evicted = 0
        while self._bytes > self._bytes_max and len(self._states) > 1:
            self.drop(next(iter(self._states)))
            evicted += 1
        return evicted

    def key_of(self, campaign_id: str) -> int | None:
        """The key that this public id had when last seen; the batch checks whether it still has it."""
        return self._keys.get(campaign_id)

    def forget_name(self, campaign_id: str) -> None:
        """Drop a public id, which may have another key by now."""
        self._keys.pop(campaign_id, None)

    def __len__(self) -> int:
        return len(self._states)

    @property
    def changed(self) -> int:
        """Campaigns held in whose world a change stands."""
        return sum(state.policy.change_watch.stands for state in self)

    @property
    def nbytes(self) -> int:
        """Bytes held, as of the last measuring."""
        return self._bytes
