"""Replies about decisions, campaigns and models: their schemas, for the documentation."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from prudent.campaigns import Algorithm, Assignment, Holdout, Model, RewardRules, Risk
from prudent.core.exploration import Reason

PROBLEMS: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "An error",
        "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
}
"""For the documentation of every route: the form of an error."""
OBSERVATIONS = "How many observations the campaign has learned: rewards, default rewards and warm starts."
HEAD = (
    "The last sequence number of the campaign's log: how many observations are stored. Larger than observations while "
    "the campaign is paused."
)

Interval = Annotated[list[float], Field(min_length=2, max_length=2, description="Lower end, upper end.")]


class ScoredArmReply(BaseModel):
    """A candidate with its scores."""

    arm_id: str
    estimate: float = Field(description="Estimated risk-adjusted reward, in reward units.")
    bonus: float | None = Field(
        description="Exploration bonus, in reward units: large where the estimate is uncertain. null if infinite: with "
        "the bonus self-scaled, of an arm with too few observations."
    )
    index: float | None = Field(
        description="estimate + exploration x bonus; with the randomized rule the bonus is also multiplied by a draw "
        "that all candidates of a decision share. null if infinite."
    )


class ContributionReply(BaseModel):
    """A feature's contribution to an estimate."""

    feature: str = Field(
        description="The feature's name, or its position in the request if features have no names; `intercept` for the "
        "constant."
    )
    contribution: float = Field(
        description="Parameter times feature, after the campaign's centring and scaling; of a feature with several "
        "columns, their sum."
    )
    value: float | bool | str | None = Field(
        default=None, description="Of a feature with a name: what was sent; null for a missing value."
    )


INTERVAL = (
    "Asymptotic 95% interval (sandwich variance); not a guarantee, and not the bonus. null if it cannot be computed or "
    "would mislead: too few observations, a binding parameter_bound, features with hardly any variation in the "
    "observations, a regularization that may have moved the estimate by more than a quarter of the half-width, "
    "linucb-ogd-cr, or too many observations to sum over."
)


Limits = Annotated[list[float | None], Field(min_length=2, max_length=2, description="Lower limit, upper limit.")]
LIMITS = (
    "Lower and upper limit, which hold for all arms and all rounds together with probability 1 - delta: of the bonus "
    "self-scaled, calibrated by simulation, no guarantee; of the bonus self-normalized, proved under the condition of "
    "the model's guarantee_note, the lower one null, since no data give one. null with another bonus, and while the "
    "index is infinite"
)


class ExplainedArmReply(ScoredArmReply):
    """A candidate of an explained decision."""

    propensity: float | None = Field(
        default=None, description="Its probability of being played. null in explanations of releases before 0.2."
    )
    interval: Interval | None = Field(default=None, description=f"For the risk at these features. {INTERVAL}")
    interval_note: str | None = Field(default=None, description="Why there is no interval; null where there is one.")
    contributions: list[ContributionReply] | None = Field(
        default=None,
        description="They sum to the estimate. null for multi-armed campaigns, and for the lower-ranked candidates if "
        "there are more than 2,000 contributions.",
    )
    limits: Limits | None = Field(default=None, description=f"For the risk at these features. {LIMITS}.")


DUE_AT = (
    "The deadline for a reward; null once there is one, before a deferred decision is activated, and in campaigns "
    "without a timeout."
)
RECOMMENDED = "External choices only: the arm that the service recommends."


class DecisionReply(ScoredArmReply):
    """The fields of a decision in every reply about it: what `store.decisions.shown_columns` returns, and exploring."""

    decision_id: str
    reason: Reason = Field(
        description="The first that applies: external (the application chose), only-arm, greedy (explore was false), "
        "uniform, warmup, floor, index; baseline (its allowance did not cover these); holdout (which has this one)."
    )
    greedy_arm_id: str = Field(description="The arm with the best estimate.")
    recommended_arm_id: str | None = Field(default=None, description=RECOMMENDED)
    exploring: bool = Field(description="Whether the chosen arm is an arm other than the best estimate.")
    propensity: float | None = Field(
        description="Exact probability of the choice given the past: 1/n in an n-way tie of the optimistic rule; null "
        "for an external choice."
    )
    seen: int = Field(description="How many of the campaign's observations the choice was based on.")


class AnsweredDecisionReply(DecisionReply):
    """A decision as the select was answered."""

    campaign_id: str
    value: Any = Field(description="Of the chosen arm, as it is now: what the campaign says, or else the arm's id.")
    observations: int = Field(
        description="How many observations the campaign had learned when the choice was made. Equal to seen, also when "
        "the decision is returned again later."
    )
    arms: list[ExplainedArmReply] | None = Field(
        default=None, description="Only if explain is true: every candidate, best first."
    )


class SelectReply(AnsweredDecisionReply):
    """A decision, durable before this reply."""

    repeated: bool | None = Field(
        default=None, description="For a subject only: whether this is a decision that was made before."
    )
    arm_available: bool | None = Field(
        default=None,
        description="For a subject only: whether the request could have this arm chosen now; false if it has been "
        "paused or retired, or is not among the arms that the request allows.",
    )


class StoredDecisionReply(AnsweredDecisionReply):
    """A decision as it was answered, and what became of it."""

    rewarded: bool = Field(description="Whether a reward, or the campaign's default, has been recorded for it.")
    created_at: datetime
    due_at: datetime | None = Field(description=DUE_AT)


class RewardReply(BaseModel):
    """A reward, durable and learned before this reply."""

    decision_id: str
    campaign_id: str
    arm_id: str
    reward: float
    sequence: int = Field(description="This reward's place in the campaign's log, from 1; the same on a repeat.")
    observations: int = Field(description=OBSERVATIONS)
    duplicate: bool = Field(description="Whether this reward had been recorded before.")
    learned: bool = Field(description="false while the campaign is paused.")


class CorrectionReply(BaseModel):
    """A correction, durable before this reply, and learned before the campaign's next one."""

    decision_id: str
    campaign_id: str
    arm_id: str
    reward: float | None = Field(description="As it counts now; null for one that was taken back.")
    previous: float | None = Field(description="As it counted before this request.")
    original: float = Field(description="As it was first recorded.")
    sequence: int = Field(description="The correction's place in the campaign's log.")
    corrects: int = Field(description="The reward's place in the campaign's log.")
    duplicate: bool = Field(description="Whether the reward counted so before; then nothing was recorded.")


class ItemStatus(BaseModel):
    """The status that an item of a batch would have had as a request of its own."""

    status: int


class SelectItemReply(SelectReply, ItemStatus):
    """A decision of a batch."""


class RewardItemReply(RewardReply, ItemStatus):
    """A reward of a batch."""


class FailedItemReply(ItemStatus):
    """An item that failed; the other items are not affected."""

    title: str
    detail: str
    errors: list["FieldError"] = []


class SelectBatchReply(BaseModel):
    """Answers in the order of the items."""

    items: list[SelectItemReply | FailedItemReply]


class RewardBatchReply(BaseModel):
    """Answers in the order of the items."""

    items: list[RewardItemReply | FailedItemReply]


class ObservationsReply(BaseModel):
    """How many of the observations were new."""

    accepted: int
    duplicates: int
    observations: int = Field(description=OBSERVATIONS)
    head: int = Field(description=HEAD)


class ArmReply(BaseModel):
    """A registered arm."""

    arm_id: str
    features: list[float] | dict[str, Any] | None
    value: Any = Field(description="Its own, or else its id.")
    status: Literal["active", "paused", "retired"]


class CampaignReply(BaseModel):
    """A campaign as resolved, with defaults filled in."""

    campaign_id: str
    description: str
    risk: Risk
    model: Model
    arms: list[ArmReply]
    algorithm: Algorithm
    reward: RewardRules
    assignment: Assignment
    holdout: Holdout | None
    client_side: bool
    retention_days: int
    log_retention_days: int
    seed: int
    log_candidates: bool
    status: Literal["active", "paused", "archived"]
    observations: int = Field(description=OBSERVATIONS)
    head: int = Field(description=HEAD)
    created_at: datetime
    warnings: list[str] = Field(
        description="Settings that may cause problems, such as too small a regularization for the features' scale."
    )


class CampaignListReply(BaseModel):
    """A page of campaigns; pass ``next_cursor`` as cursor for the next one."""

    items: list[CampaignReply]
    next_cursor: str | None


class ArmModelReply(BaseModel):
    """What the model has learned about an arm."""

    arm_id: str
    status: str
    theta: list[float] | None
    radius: float | None
    inside_ball: bool | None = Field(
        description="Disjoint and multi-armed: whether the norm of theta is below parameter_bound; null without one."
    )
    theta_intervals: list[Interval | None] | None = Field(description=f"For each parameter. {INTERVAL}")
    limits: Limits | None = Field(
        description=f"Multi-armed, and shared at registered features. {LIMITS}; of active arms."
    )


class ArmChangeReply(BaseModel):
    """The last change of an arm's rewards that the alarm found; see docs/changing-world.md."""

    arm_id: str | None = Field(description="null for arms that are not registered, which are watched together.")
    since: int = Field(description="The row of the log with which it began.")
    raised: int = Field(description="The row of the log with which the alarm was raised.")
    size: float = Field(description="How much the rewards have moved relative to the estimates, in reward units.")
    spread: float = Field(description="The standard deviation of the rewards about the estimates, before it.")
    stands: bool = Field(description="Whether the estimate still rests on more from before the change than since.")


class ModelReply(BaseModel):
    """What the model has learned."""

    campaign_id: str
    algorithm: str
    one_pass: bool = Field(
        description="Whether each observation is one step now, and looked at once: always with linucb-onepass-cr, with "
        "linucb-cr from exact_until observations on."
    )
    observations: int = Field(description=OBSERVATIONS)
    head: int = Field(description=HEAD)
    feature_names: list[str] = Field(
        description="One per parameter, in order: names of features, or their positions; empty for multi-armed. "
        "A feature with several columns has one for each, such as country=de."
    )
    features: list[dict[str, Any]] | None = Field(
        description="Of each named feature: how often it was missing or none of its categories in what was learned, "
        "the range seen or the categories, and the center and scale in use."
    )
    frozen_at: int | None = Field(
        description="The observation at which learned centers and scales were settled; null before, and without any."
    )
    theta: list[float] | None = Field(description="Shared model: the parameters.")
    theta_intervals: list[Interval | None] | None = Field(description=f"Shared model, for each parameter. {INTERVAL}")
    arms: list[ArmModelReply]
    conditioning: float | None = Field(
        description="The value in use; null with the bonuses self-scaled and self-normalized."
    )
    noise_scale: float | None = Field(
        description="The value in use; estimated from the data where the configuration says null."
    )
    parameter_bound: float | None
    radius: float | None
    guaranteed: bool
    guarantee_note: str
    center: float | None = Field(
        description="What rewards are learned relative to: the campaign's risk measure of its rewards, taken anew at "
        "1, 2, 4, 8, ... observations. Everything published has it added again. null where rewards are learned as "
        "they are: with the optimistic rule, and without an intercept."
    )
    inside_ball: bool | None = Field(
        description="Whether the norm of every theta is below parameter_bound, so that the bound does not bind; null "
        "if the campaign has no parameter_bound."
    )
    regret_bound: float | None = Field(
        description="Upper bound for the regret of the observations so far, in reward units, with the probability and "
        "under the conditions of guarantee_note, provided that every round was decided by index after the rewards of "
        "all earlier rounds. null if nothing is guaranteed, exploration is below 1, decisions are drawn, or there are "
        "no arms yet."
    )
    convergence: dict[str, int | bool | None]
    features_above_bound: int
    changes: list[ArmChangeReply] = Field(description="What the alarm found; empty where nothing has changed.")
    refused_rewards: int = Field(
        description="Rewards refused one after the other, since the last row of the log, by the worker that answers."
    )
    warnings: list[str]
    state_digest: str | None = Field(description="Digest of the state's bytes; null while fits are exact.")


class KnownFeatureReply(BaseModel):
    """A named feature: its schema, and what the learned observations held of it."""

    model_config = ConfigDict(populate_by_name=True)

    described: dict[str, Any] = Field(alias="schema", description="As the campaign was created, with its defaults.")
    name: str = Field(description="In a shared model, that of a request's feature is preceded by `context.`.")
    kind: Literal["number", "boolean", "category", "cyclic"]
    missing: int = Field(description="How often it was not sent.")
    other: int | None = Field(default=None, description="A category: how often it was none of its categories.")
    categories: list[str] | None = Field(default=None, description="A category: those known, by position from 1.")
    minimum: float | None = Field(default=None, description="The smallest value; null before the first.")
    maximum: float | None = Field(default=None, description="The largest value; null before the first.")
    center: float | None = Field(default=None, description="A number: in use; null before one is learned.")
    scale: float | None = Field(default=None, description="A number: in use; null before one is learned.")


class FeaturesReply(BaseModel):
    """A campaign's features; none where they have no names."""

    campaign_id: str
    observations: int = Field(description=OBSERVATIONS)
    dimension: int | None = Field(description="Columns of the model, without the intercept; null for multi-armed.")
    interactions: list[list[str]]
    frozen_at: int | None = Field(
        description="The observation at which learned centers and scales were settled; null before, and without any."
    )
    features: list[KnownFeatureReply]


class FieldError(BaseModel):
    """An error in a field."""

    field: str
    message: str


class Problem(BaseModel):
    """An error, in the form of RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[FieldError] = []
    request_id: str | None = Field(default=None, description="Also in the X-Request-ID header and in the logs.")
