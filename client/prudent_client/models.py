"""The replies of the service. Fields that a newer service adds are ignored."""

from datetime import datetime
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from prudent_client.errors import UnexpectedReplyError


class Reply(BaseModel):
    """Base of all replies: read-only, and unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, protected_namespaces=())


ReplyT = TypeVar("ReplyT", bound=Reply)


def valid(kind: type[ReplyT], answer: dict[str, Any]) -> ReplyT:
    """The answer as an object of this kind. Raises UnexpectedReplyError if it is not one."""
    try:
        return kind.model_validate(answer)
    except ValidationError as error:
        raise UnexpectedReplyError(f"the reply is not a valid {kind.__name__}: see {_fields(error)}") from error


def _fields(error: ValidationError) -> str:
    return ", ".join(".".join(map(str, row["loc"])) for row in error.errors()[:5])


class ScoredArm(Reply):
    """A candidate's scores, in reward units: the estimated risk-adjusted reward, the exploration bonus, and the index.

    The index is estimate + exploration x bonus. None stands for infinity: with the bonus self-scaled, of an arm with
    too few observations. limits: lower and upper, of that bonus, in an explanation.
    """

    arm_id: str
    estimate: float
    bonus: float | None
    index: float | None
    limits: tuple[float | None, float] | None = None


class Decision(ScoredArm):
    """A decision, recorded before the reply.

    value: of the arm, or else its id. seen, observations: how many observations the campaign had learned when it was
    made; arms: only if asked for. Of a select for a subject: repeated, whether it was made before; arm_available,
    whether its arm could be chosen now. error: None, or, where the call's default came in place of a decision (with the
    reason "default", and nan for an estimate), what went wrong.
    """

    decision_id: str
    campaign_id: str
    value: Any = None
    reason: str
    greedy_arm_id: str
    exploring: bool
    propensity: float | None
    seen: int
    observations: int
    recommended_arm_id: str | None = None
    arms: tuple[ScoredArm, ...] | None = None
    repeated: bool | None = None
    arm_available: bool | None = None
    error: str | None = None


class Flag(Reply):
    """A campaign as a feature flag: the value of the arm that was chosen, which is the variant.

    reason: as OpenFeature spells it, "TARGETING_MATCH" for the best arm; metadata: the decision's id and the like.
    """

    key: str
    value: Any
    variant: str
    reason: str
    metadata: dict[str, bool | int | float | str] = Field(default_factory=dict)


class StoredDecision(Decision):
    """A decision as it was answered, whether a reward or a default was recorded for it, and its deadline, if any."""

    rewarded: bool
    created_at: datetime
    due_at: datetime | None = None


class Receipt(Reply):
    """A reward, recorded and learned before the reply.

    sequence: its place in the campaign's log, the same on a repeat; observations: how many the campaign has learned;
    duplicate: whether it had been recorded before, as after a retry; learned: false while the campaign is paused.
    """

    decision_id: str
    campaign_id: str
    arm_id: str
    reward: float
    sequence: int
    observations: int
    duplicate: bool
    learned: bool


class EventReward(Reply):
    """A reward that an event was. duplicate: whether the event had been learned before."""

    campaign_id: str
    decision_id: str
    reward: float
    duplicate: bool


class EventRefusal(Reply):
    """A campaign that refused an event, and learned nothing from it. detail: why."""

    campaign_id: str
    detail: str


class EventReceipt(Reply):
    """The rewards that an event was: none where no campaign names it, or no decision of its subject waits.

    refused: campaigns that had one waiting, too, but did not take this event.
    """

    rewarded: tuple[EventReward, ...]
    refused: tuple[EventRefusal, ...] = ()


class Correction(Reply):
    """A correction of a reward, recorded, and learned before the campaign's next reply.

    reward: as it counts now, None for one that was taken back; previous: as it counted before; original: as it was
    first recorded; sequence: the correction's place in the campaign's log; corrects: the reward's; duplicate: whether
    the reward counted so before.
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


class Erasure(Reply):
    """What was erased of a subject: decisions, and rows of the log, their rewards and corrections."""

    campaign_id: str
    decisions: int
    rows: int


class ObservationsReceipt(Reply):
    """How many of the observations made elsewhere were new.

    observations: how many the campaign has learned afterwards; head: how many its log has.
    """

    accepted: int
    duplicates: int
    observations: int
    head: int


class Arm(Reply):
    """A registered arm. value: what the application shows or does for it; its id, unless it has one of its own."""

    arm_id: str
    features: tuple[float, ...] | dict[str, Any] | None = None
    value: Any = None
    status: Literal["active", "paused", "retired"]


class Campaign(Reply):
    """A campaign with all defaults filled in; the API documentation describes its parts.

    observations: how many it has learned; head: how many its log has, more while it is paused.
    """

    campaign_id: str
    description: str = ""
    risk: dict[str, Any]
    model: dict[str, Any]
    arms: tuple[Arm, ...]
    algorithm: dict[str, Any]
    reward: dict[str, Any]
    assignment: dict[str, Any] = Field(default_factory=dict)
    holdout: dict[str, Any] | None = None
    client_side: bool = False
    retention_days: int = 0
    log_retention_days: int = 0
    seed: int
    log_candidates: bool = False
    status: Literal["active", "paused", "archived"]
    observations: int
    head: int
    created_at: datetime
    warnings: tuple[str, ...] = ()


class CampaignPage(Reply):
    """A page of campaigns."""

    items: tuple[Campaign, ...]
    next_cursor: str | None = None


class ArmModel(Reply):
    """What the model has learned about an arm; theta and radius are None for a shared model.

    limits: lower and upper, of the bonuses self-scaled and self-normalized; the latter has no lower one, None.
    """

    arm_id: str
    status: str
    theta: tuple[float, ...] | None = None
    radius: float | None = None
    limits: tuple[float | None, float] | None = None


class Change(Reply):
    """The last change of an arm's rewards that the alarm found. arm_id: None for arms that are not registered.

    since, raised: the rows of the log with which it began, and with which it was noticed. size: how much rewards moved,
    spread: their standard deviation before, in reward units. stands: whether the estimate is still mostly from before.
    """

    arm_id: str | None
    since: int
    raised: int
    size: float
    spread: float
    stands: bool


class Model(Reply):
    """What a campaign has learned, from how many observations, and what is guaranteed about it.

    one_pass: whether each observation is one step now, as with linucb-cr from exact_until observations on.
    conditioning, noise_scale: None with the bonuses self-scaled and self-normalized, which have neither.
    """

    campaign_id: str
    algorithm: str
    one_pass: bool = False
    observations: int
    head: int
    theta: tuple[float, ...] | None = None
    arms: tuple[ArmModel, ...]
    conditioning: float | None
    noise_scale: float | None
    guaranteed: bool
    guarantee_note: str = ""
    convergence: dict[str, int | bool | None] = Field(default_factory=dict)
    changes: tuple[Change, ...] = ()
    refused_rewards: int = 0
    warnings: tuple[str, ...] = ()


class Health(Reply):
    """Whether the service is ready."""

    status: str
    detail: str | None = None
