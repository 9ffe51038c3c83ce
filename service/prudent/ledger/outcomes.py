"""What the ledger answers: the results of commands, and why a command was not executed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from prudent.core.comparison import Comparison
from prudent.core.exploration import Reason
from prudent.store.tables import DecisionRow

Interval = list[float]
"""Two ends, lower first."""
Limits = list[float | None]
"""The lower limit, None where no valid one exists, and the upper one."""


@dataclass(frozen=True, slots=True)
class ScoredArm:
    """One candidate of an explained decision. It is stored as JSON: what is added must have a default.

    bonus, index: None where they are infinite. interval: asymptotic, 95%, for the risk at its features; interval_note:
    why there is none; contributions: of each feature to the estimate, with its value where it has a name; limits: of
    the bonuses self-scaled and self-normalized.
    """

    arm_id: str
    estimate: float
    bonus: float | None
    index: float | None
    propensity: float | None = None
    interval: Interval | None = None
    interval_note: str | None = None
    contributions: list[dict[str, Any]] | None = None
    limits: Limits | None = None


class Decision(NamedTuple):
    """The answer to Select.

    row: what is stored of it; value: of its arm; arms: every candidate, best first, if asked by ``explain``. For a
    subject only: is_repeated, whether it was decided before; is_available, whether the request could still have its arm
    chosen.
    """

    row: DecisionRow
    campaign_id: str
    value: Any
    arms: Sequence[ScoredArm] | None
    is_repeated: bool | None = None
    is_available: bool | None = None


class SwitchedOff(NamedTuple):
    """The answer to Evaluate where nothing is decided.

    arm_id: of the arm that the flag has while it is off, with its value; observations: how many are learned.
    """

    arm_id: str
    value: Any
    observations: int


class CorrectionReceipt(NamedTuple):
    """The answer to Correct. Its fields have the contract's names.

    reward: as it counts now, None for one that was taken back; previous: as it counted before; original: as it was
    first recorded. sequence: the correction's place in the log; corrects: that of the reward.
    """

    decision_id: str
    campaign_id: str
    arm_id: str
    reward: float | None
    previous: float | None
    original: float
    sequence: int
    corrects: int
    duplicate: bool


class ErasureReceipt(NamedTuple):
    """The answer to EraseDecisions. Its fields have the contract's names. rows: of the log."""

    campaign_id: str
    decisions: int
    rows: int


class EventReceipt(NamedTuple):
    """The answer to LearnEvent. Its fields have the contract's names.

    decision_id, reward: of the decision that it was learned for, now or before; None where none waits for a reward.
    """

    campaign_id: str
    decision_id: str | None
    reward: float | None
    duplicate: bool


class RewardReceipt(NamedTuple):
    """The answer to Reward. Its fields have the contract's names.

    sequence: this reward's place in the campaign's log, the same on a repeat; observations: how many the campaign has
    learned by now.
    """

    decision_id: str
    campaign_id: str
    arm_id: str
    reward: float
    sequence: int
    observations: int
    duplicate: bool
    learned: bool


@dataclass(frozen=True, slots=True)
class ObserveReceipt:
    """The answer to Observe. observations: how many the campaign has learned afterwards; head: how long its log is."""

    accepted: int
    duplicates: int
    observations: int
    head: int


@dataclass(frozen=True, slots=True)
class Prospect:
    """The answer to Preview. arms: every candidate, best first; propensity: of the arm shown."""

    arm_id: str
    reason: Reason
    propensity: float
    observations: int
    arms: Sequence[ScoredArm]


@dataclass(frozen=True, slots=True)
class ArmModel:
    """What is known of one registered arm."""

    arm_id: str
    status: str
    theta: list[float] | None
    """Parameters of a disjoint model's arm."""
    radius: float | None
    inside_ball: bool | None
    """Whether a disjoint model's theta lies inside the ball of radius parameter_bound; None without a bound."""
    theta_intervals: list[Interval | None] | None
    """Asymptotic 95% intervals of a disjoint model's parameters."""
    limits: Limits | None = None
    """Of a bonus with limits, of an active arm whose features do not depend on the request."""


@dataclass(frozen=True, slots=True)
class ArmChange:
    """The last change of an arm's rewards that the alarm found, as `prudent.core.change.Change` has it.

    arm_id: None for arms that are not registered, which are watched together.
    """

    arm_id: str | None
    since: int
    raised: int
    size: float
    spread: float
    stands: bool


@dataclass(frozen=True, slots=True)
class ModelReport:
    """The answer to Describe; see the contract's ``GET /campaigns/{campaign_id}/model``.

    feature_names: of the parameters; features: what is known of each named one; frozen_at: the number of observations
    from which on learned centers and scales do not change any more.
    """

    campaign_id: str
    algorithm: str
    one_pass: bool
    observations: int
    head: int
    feature_names: list[str]
    features: list[dict[str, Any]] | None
    frozen_at: int | None
    theta: list[float] | None
    theta_intervals: list[Interval | None] | None
    arms: list[ArmModel]
    conditioning: float | None
    noise_scale: float | None
    parameter_bound: float | None
    radius: float | None
    guaranteed: bool
    guarantee_note: str
    center: float | None
    """What rewards are learned relative to; None where they are learned as they are."""
    inside_ball: bool | None
    regret_bound: float | None
    convergence: dict[str, int | bool | None]
    features_above_bound: int
    changes: list[ArmChange]
    refused_rewards: int
    """Since the last row of the log, by this worker."""
    warnings: list[str] = field(default_factory=list)
    state_digest: str | None = None


Result = (
    Decision | SwitchedOff | RewardReceipt | EventReceipt | ObserveReceipt | ModelReport | Prospect | Comparison | None
)


@dataclass(frozen=True, slots=True)
class Postponed:
    """The command was not executed: first its campaign's state must be loaded or, off the ledger's thread, worked on.

    work: what gives the command's result, from the state that this process has; None if the state must be loaded.
    """

    key: int
    work: Callable[[Any], "Result"] | None = None


@dataclass(frozen=True, slots=True)
class Deferred:
    """The command was not executed: its campaign has had its share of this batch's time, with so many commands."""

    key: int
    campaign_id: str
    share: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The command failed: it is wrong (CommandError), cannot run now (UnavailableError), or met a defect."""

    error: Exception


Outcome = Result | Postponed | Deferred | Failed
