"""One campaign as a worker holds it: its configuration, its arms, and the policy folded from its log.

A state comes from the database: the campaign's row and arms, a snapshot for a head start, then the log. While a batch
runs, what it will insert is collected beside the states that it changes.
"""

from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np
import structlog
from numpy.typing import NDArray
from sqlalchemy import Connection, Engine

from prudent.campaigns import CampaignConfiguration, build_policy, index_settings
from prudent.core.policy import Policy, SolverCounts
from prudent.core.snapshot import FORMAT_VERSION, CorruptSnapshotError
from prudent.errors import InvalidCommandError
from prudent.store import campaigns, log
from prudent.store.campaigns import CampaignRow, Standing
from prudent.store.log import FoldRow
from prudent.store.tables import ArmRow, DecisionRow, LogRow, features_from_bytes

logger = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Arm:
    """A registered arm. position: order of registration, the block of a disjoint model."""

    arm_id: str
    position: int
    status: str
    features: NDArray[np.float64] | None


class CampaignState:
    """A campaign's state at ``sequence``: fold(log up to there). Owned by one thread at a time."""

    def __init__(self, row: CampaignRow, arms: list[ArmRow]) -> None:
        self.key = row.key
        self.creation = CampaignConfiguration.model_validate_json(row.creation)
        self.configuration = CampaignConfiguration.model_validate_json(row.configuration)
        self.policy: Policy = build_policy(self.creation, self.configuration, arms=len(arms))
        self.sequence = 0
        self.snapshot_sequence = 0
        self.solver_counted = SolverCounts(0, 0, 0)
        self._is_warm = False
        self.revision = row.revision
        self.standing = Standing(row.key, row.campaign_id, row.status, row.revision, row.learn_limit, row.head, None)
        self._set_arms(arms)
        self._marked = (0, self.standing, list(self.plays))

    @property
    def campaign_id(self) -> str:
        """Public id."""
        return self.configuration.campaign_id

    @property
    def shared(self) -> bool:
        """One parameter for all arms, with features per arm; else one parameter an arm."""
        return self.creation.model.type == "shared"

    @property
    def status(self) -> str:
        """As of the last batch."""
        return self.standing.status

    @property
    def head(self) -> int:
        """Last sequence number given, including this batch's."""
        return self.standing.head

    @property
    def learn_limit(self) -> int | None:
        """The head at the pause; None while learning."""
        return self.standing.learn_limit

    @property
    def target(self) -> int:
        """The sequence that the state must have: min(head, learn_limit)."""
        limit = self.learn_limit
        return self.head if limit is None else min(self.head, limit)

    @property
    def warming(self) -> bool:
        """Whether an active arm is below its warm-up: its plays then matter, and are read under the lock."""
        if self._is_warm:
            return False
        warmup = self.configuration.algorithm.warmup
        active = (plays for arm, plays in zip(self.arms, self.plays, strict=True) if arm.status == "active")
        self._is_warm = all(plays >= warmup for plays in active)
        return not self._is_warm

    @property
    def fold_digest(self) -> bytes:
        """Digest of all that the fold depends on besides the log; a snapshot is valid only for it."""
        return blake2b(self.creation.model_dump_json().encode(), digest_size=16).digest()

    def block_of(self, arm_id: str) -> int:
        """The block of parameters that an arm's observations belong to."""
        return 0 if self.shared else self.by_id[arm_id].position

    def check_dimension(self, features: NDArray[np.float64], field_name: str) -> None:
        """Raise InvalidCommandError unless there are as many features as the campaign has dimensions."""
        expected = self.policy.feature_map.dimension
        if len(features) != expected:
            raise InvalidCommandError(f"expected {expected} features, received {len(features)}", field=field_name)

    def reconfigure(self, row: CampaignRow, arms: list[ArmRow]) -> None:
        """Take over a newer revision: index settings, statuses, arms that were added. What was learned stays."""
        self.configuration = CampaignConfiguration.model_validate_json(row.configuration)
        if not self.shared:
            for _ in range(len(arms) - len(self.arms)):
                self.policy.add_block()
        self.policy.set_index(index_settings(self.configuration), self.configuration.algorithm.exploration)
        self._set_arms(arms)
        self.revision = row.revision

    def _set_arms(self, rows: list[ArmRow]) -> None:
        self.arms = [
            Arm(
                row.arm_id,
                row.position,
                row.status,
                None if row.features is None else features_from_bytes(row.features),
            )
            for row in rows
        ]
        self.by_id = {arm.arm_id: arm for arm in self.arms}
        self.inactive = {arm.arm_id: arm.status for arm in self.arms if arm.status != "active"}
        self.plays = [row.plays for row in rows]
        self._is_warm = False

    def fold(self, row: FoldRow) -> None:
        """Learn the next row of the log."""
        if row.sequence <= self.sequence:
            raise ValueError(f"row {row.sequence} of the log is folded already")
        self.policy.observe(self.block_of(row.arm_id), features_from_bytes(row.features), row.reward)
        self.sequence = row.sequence

    def advance_head(self) -> int:
        """Give the next sequence number."""
        self.standing = self.standing._replace(head=self.head + 1)
        return self.head

    def mark(self) -> None:
        """Remember this state, before a batch changes it."""
        self.policy.mark()
        self._marked = (self.sequence, self.standing, list(self.plays))

    def restore(self) -> None:
        """Return to the mark, exactly."""
        self.policy.restore()
        self.sequence, self.standing, plays = self._marked
        self.plays = list(plays)
        self._is_warm = False

    @property
    def nbytes(self) -> int:
        """Memory held, roughly: matrices, history, and the interpreter's objects."""
        return 20_000 + 500 * len(self.arms) + self.policy.nbytes


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

    def append(self, state: CampaignState, row: LogRow) -> LogRow:
        """Give a row the next sequence number, teach it unless the campaign is paused, and keep it for the log."""
        numbered = row._replace(sequence=state.advance_head())
        if state.learn_limit is None:
            state.fold(FoldRow(numbered.sequence, row.arm_id, row.features, row.reward))
        self.observations.append(numbered)
        return numbered


def open_state(connection: Connection, key: int) -> CampaignState | None:
    """A state that has folded nothing yet; None if the campaign is gone."""
    row = campaigns.read_campaign(connection, key)
    if row is None or row.campaign_id is None:
        return None
    return CampaignState(row, campaigns.read_arms(connection, [key])[key])


def use_snapshot(connection: Connection, state: CampaignState) -> None:
    """Start from the stored snapshot, if it is valid for this state and within its log."""
    snapshot = log.find_snapshot(connection, state.key)
    if (
        snapshot is None
        or snapshot.format_version != FORMAT_VERSION
        or snapshot.configuration_digest != state.fold_digest
        or snapshot.sequence > state.target
    ):
        return
    try:
        state.policy.load(snapshot.state)
    except CorruptSnapshotError as error:
        logger.warning("snapshot is corrupt, folding the log from its start", key=state.key, error=str(error))
        return
    state.sequence = state.snapshot_sequence = snapshot.sequence


def catch_up(connection: Connection, state: CampaignState) -> None:
    """Fold what the log has after the state, up to its target."""
    if state.sequence == state.target:
        return
    for row in log.read_log(connection, state.key, state.sequence, state.target):
        state.fold(row)
    state.sequence = state.target


def load_behind(read: Engine, key: int) -> CampaignState | None:
    """A state close behind its head, read page by page outside any transaction; None if the campaign is gone."""
    with read.connect() as connection:
        state = open_state(connection, key)
        if state is None:
            return None
        use_snapshot(connection, state)
    while state.sequence < state.target:
        with read.connect() as connection:
            page = log.read_page(connection, key, state.sequence, state.target)
            standing = campaigns.read_standings(connection, [key]).get(key)
        if not page or standing is None:
            return state
        for row in page:
            state.fold(row)
        state.standing = standing
    return state
