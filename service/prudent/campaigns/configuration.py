"""A campaign's configuration as the contract states it. Defaults are the contract's.

``None`` for a dial means "resolved from the rest": resolution.py fills in what has one value, and what depends
on the data (noise scale, conditioning, parameter bound) stays null and is reported by the model.
"""

from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from prudent.campaigns.events import EVENTS_MAX, EventName, EventRule
from prudent.campaigns.features import CONTEXT, FeatureDescriptions, Interactions
from prudent.campaigns.risk import Risk
from prudent.campaigns.values import (
    ARMS_MAX,
    DESCRIPTION_MAX,
    DIMENSION_MAX,
    EXACT_UNTIL_MAX,
    INTEGER_MAX,
    RETENTION_DAYS_MAX,
    ArmId,
    ArmValue,
    CampaignId,
    FeatureValues,
    RewardValue,
    Schema,
    known,
)
from prudent.core.measures import Measure

Positive = Annotated[float, Field(ge=1e-30, le=1e12)]
"""Wide enough for any use, and such that no product, square or quotient leaves float64's range."""


Dimension = Annotated[
    int, Field(ge=1, le=DIMENSION_MAX, description="Number of columns without the intercept; follows from features.")
]
Intercept = Annotated[bool, Field(description="Whether to add a constant feature of 1.")]


class SharedModel(Schema):
    """One parameter vector for all arms; each arm has features."""

    type: Literal["shared"]
    dimension: Dimension | None = None
    intercept: Annotated[
        bool | None, Field(description="Append a constant 1; true by default with the randomized exploration rule.")
    ] = None
    features: Annotated[FeatureDescriptions | None, Field(description="Of an arm.")] = None
    context_features: Annotated[
        FeatureDescriptions | None,
        Field(description="Of a request, sent as context; each needs an interaction with a feature of the arms."),
    ] = None
    interactions: Interactions = []


class DisjointModel(Schema):
    """One context per request, one parameter vector per arm. arms x dimension^2 may be at most 4,000,000."""

    type: Literal["disjoint"]
    dimension: Dimension | None = None
    intercept: Intercept = True
    features: FeatureDescriptions | None = None
    interactions: Interactions = []


class MultiArmedModel(Schema):
    """No features: each arm has a single value."""

    type: Literal["multi-armed"]


Model = Annotated[SharedModel | DisjointModel | MultiArmedModel, Field(discriminator="type")]


def _tags(union: Any) -> list[str]:
    """The values of a union's discriminator, as its members declare them."""
    members, field = get_args(union)
    return [
        tag for member in get_args(members) for tag in get_args(member.model_fields[field.discriminator].annotation)
    ]


UNION_TAGS = {"risk": _tags(Risk), "model": _tags(Model)}
"""What pydantic adds to the path of an error, below the field, to name the union member that it validated against."""


class ArmConfiguration(Schema):
    """An arm. In a shared model its features may be registered, so that requests need not repeat them."""

    arm_id: ArmId
    features: FeatureValues | None = None
    value: ArmValue = None


Conditioning = Annotated[float, Field(ge=1e-12, le=1e12)] | Literal["theory", "self-concordant"] | None
BonusName = Literal["local", "global", "local-tight", "global-tight", "self-scaled", "self-normalized"]
Delta = Annotated[float, Field(ge=1e-100, lt=1, description="1 - delta is the confidence behind the bonus.")]
Exploration = Annotated[float, Field(ge=0, le=1e6, description="Multiplies the bonus; 0 is greedy.")]
Warmup = Annotated[int, Field(ge=0, le=10_000, description="Plays of each registered arm before the index decides.")]
ExplorationRuleName = Literal["randomized", "optimistic"]
Floor = Annotated[
    float,
    Field(
        ge=0,
        le=1e6,
        description="In a tenth of the decisions an arm with fewer than floor * log(1 + n/K) observations is played, "
        "where the campaign has learned n and K arms are eligible; 0 switches it off.",
    ),
]
UniformShare = Annotated[
    float,
    Field(ge=0, le=1, description="Share of decisions that go to a uniformly drawn eligible arm."),
]


Budget = Annotated[
    Annotated[float, Field(ge=0.01, le=1)] | None,
    Field(
        description="Of any 100 consecutive decisions at most this share, rounded down, explores: chooses another arm "
        "than the best estimate, in the warm-up as well. Null: no limit."
    ),
]


class Forgetting(Schema):
    """What an observation weighs falls by half with every half-life of later observations of the campaign."""

    half_life: Annotated[int, Field(ge=10, le=1_000_000_000, description="In observations.")]


class Baseline(Schema):
    """A known arm that the campaign's decisions together may be worth less than by a tolerance only."""

    arm_id: ArmId
    tolerance: Annotated[
        float,
        Field(
            ge=0.001,
            le=1,
            description="Each decision earns this share of the baseline's estimate for arms that may be worse than it.",
        ),
    ] = 0.1


BaselineRule = Annotated[
    Baseline | None,
    Field(description="Decisions that the allowance of the ones before does not cover get its arm. Null: none."),
]
ForgettingRule = Annotated[
    Forgetting | None,
    Field(description="Null: nothing is forgotten. linucb, linucb-onepass-cr, and linucb-cr for measures with a loss."),
]
ExactUntil = Annotated[
    int | None,
    Field(
        ge=1,
        le=EXACT_UNTIL_MAX,
        description="linucb-cr: learns its first so many observations by exact fits, and later ones by one pass from "
        "there, without their history; null: exact fits always. By default 10,000 with the randomized rule, else null; "
        "always null for measures learned in stages and with the bonus self-normalized.",
    ),
]
AlgorithmName = Literal["linucb", "linucb-cr", "linucb-ogd-cr", "linucb-onepass-cr"]


class Algorithm(Schema):
    """How a campaign learns and explores. docs/exploration.md and docs/mathematics.md explain each setting."""

    name: AlgorithmName = "linucb-cr"
    regularization: (
        Annotated[float, Field(ge=1e-12, le=1e12, description="Ridge weight alpha; null with limits.")] | None
    ) = None
    delta: Delta = 0.05
    noise_scale: (
        Annotated[Positive, Field(description="Noise scale sigma; null: estimated from the rewards.")] | None
    ) = None
    exploration: Exploration = 1.0
    exploration_rule: Annotated[
        ExplorationRuleName | None,
        Field(
            description="randomized: the bonus is multiplied by a draw per decision, and rewards are centred; "
            "optimistic: the paper's. By default randomized, with a noise_scale optimistic."
        ),
    ] = None
    floor: Annotated[
        Floor | None,
        Field(description="2 by default with the randomized rule, 0 with the optimistic one or exploration 0."),
    ] = None
    uniform_share: UniformShare = 0.0
    budget: Budget = None
    baseline: BaselineRule = None
    forgetting: ForgettingRule = None
    exact_until: ExactUntil = None
    parameter_bound: Annotated[Positive, Field(description="S, bound on the parameter's norm.")] | None = None
    projection: Annotated[bool, Field(description="Keep the estimate's norm within parameter_bound.")] = True
    feature_bound: Annotated[Positive, Field(description="L, bound on the features' norm.")] = 1.0
    bonus: Annotated[
        BonusName,
        Field(
            description="self-scaled: calibrated on the campaign's own scores, without dials; self-normalized: an "
            "upper limit with a proof, for multi-armed campaigns with linucb-cr. Both are chosen at creation. Of the "
            "others linucb has one of its own and ignores this."
        ),
    ] = "local-tight"
    conditioning: Conditioning = None
    warmup: Annotated[
        Warmup, Field(description="2 by default; 20 with the bonus self-scaled, 10 with self-normalized.")
    ] = 2
    radius: Annotated[
        Literal["per-arm", "joint"] | None,
        Field(description="disjoint and multi-armed; per-arm by default, null with self-scaled and self-normalized."),
    ] = None
    episode_length: Annotated[int, Field(ge=1, le=1_000_000, description="linucb-ogd-cr; 5 by default.")] | None = None
    step_size: (
        Annotated[
            Positive,
            Field(description="linucb-ogd-cr, harmonic schedule; 0.1 by default, unless the risk measure has its own."),
        ]
        | None
    ) = None
    step_schedule: Annotated[
        Literal["harmonic", "theory"] | None,
        Field(description="linucb-ogd-cr; theory by default, unless the risk measure has its own."),
    ] = None
    ogd_bonus: (
        Annotated[
            float,
            Field(
                ge=0,
                le=1e12,
                description="linucb-ogd-cr; the bonus gains ogd_bonus times the features' norm. Bounds the distance "
                "from the exact estimate where it is known; 0 by default.",
            ),
        ]
        | None
    ) = None


class AlgorithmChange(Schema):
    """The algorithm settings that can change at run time. Absent fields are left unchanged."""

    noise_scale: Positive | None = None
    exploration: Exploration = 1.0
    delta: Delta = 0.05
    bonus: BonusName = "local-tight"
    conditioning: Conditioning = None
    warmup: Warmup = 2
    floor: Floor = 2.0
    uniform_share: UniformShare = 0.0
    budget: Budget = None
    baseline: BaselineRule = None
    forgetting: ForgettingRule = None
    exact_until: ExactUntil = None


class RewardRules(Schema):
    """Bounds on rewards, and what happens if no reward arrives."""

    minimum: Annotated[RewardValue | None, Field(description="Rewards below it are refused.")] = None
    maximum: Annotated[RewardValue | None, Field(description="Rewards above it are refused.")] = None
    timeout_seconds: Annotated[
        Annotated[float, Field(gt=0, le=366 * 86_400.0)] | None,
        Field(description="How long a decision waits for its reward."),
    ] = None
    default: Annotated[
        RewardValue | None,
        Field(description="Learned as the reward once the timeout has passed; needs timeout_seconds."),
    ] = None
    events: Annotated[
        dict[EventName, EventRule],
        Field(max_length=EVENTS_MAX, description="Events that are rewards, by name; needs assignment.sticky_seconds."),
    ] = {}

    def due_at(self, shown_at: int) -> int | None:
        """The deadline for the reward of a decision that is shown then, in microseconds; None if there is none."""
        return None if self.timeout_seconds is None else shown_at + round(self.timeout_seconds * 1e6)


class Assignment(Schema):
    """What a request for a subject is answered with."""

    sticky_seconds: (
        Annotated[
            int,
            Field(
                ge=60,
                le=366 * 86_400,
                description="For so long the first decision for a subject stands, in windows of this length that begin "
                "at the same time for all; null: every request decides anew.",
            ),
        ]
        | None
    ) = None


class Holdout(Schema):
    """A share of the decisions that the policy does not make, so that what it gains can be measured."""

    share: Annotated[float, Field(ge=0.001, le=0.5, description="Of the subjects, or of the decisions without one.")]
    arm_id: Annotated[ArmId | None, Field(description="What they get: this arm.")] = None
    policy: Annotated[
        Literal["uniform"] | None, Field(description="Or one of the arms of the request, drawn uniformly.")
    ] = None


CHANGEABLE = ("description", "client_side", "retention_days", "log_retention_days")
"""What may change of a campaign, besides its status and the dials of its algorithm."""


class CampaignConfiguration(Schema):
    """A campaign, as a request to create it. Only campaign_id, risk and model are required."""

    campaign_id: CampaignId
    description: Annotated[str, Field(max_length=DESCRIPTION_MAX)] = ""
    risk: Risk
    model: Model
    arms: Annotated[list[ArmConfiguration], Field(max_length=ARMS_MAX)] = []
    algorithm: Algorithm = Algorithm()
    reward: RewardRules = RewardRules()
    assignment: Assignment = Assignment()
    holdout: Annotated[
        Holdout | None, Field(description="Needs one of arm_id and policy; what is held out is learned like the rest.")
    ] = None
    client_side: Annotated[
        bool, Field(description="Whether it is a flag of web pages and apps, which evaluate all such flags at once.")
    ] = False
    retention_days: Annotated[
        int,
        Field(
            ge=0,
            le=RETENTION_DAYS_MAX,
            description="Decisions older than so many days are deleted; what was learned of them stays. 0: none is.",
        ),
    ] = 0
    log_retention_days: Annotated[
        int,
        Field(
            ge=0,
            le=RETENTION_DAYS_MAX,
            description="Rows of the log older than so many days are replaced by a snapshot of what was learned of "
            "them. At least retention_days, which it needs. 0: none is.",
        ),
    ] = 0
    seed: Annotated[int, Field(ge=0, le=INTEGER_MAX, description="Breaks ties, together with the decision id.")] = 0
    log_candidates: Annotated[
        bool,
        Field(
            description="Whether each decision keeps all of its candidates, with their features and propensities: what "
            "other policies of a shared model, and other learners, need of the log."
        ),
    ] = False

    def measure(self) -> Measure:
        """The risk measure of a resolved campaign. Raises ValueError for one that is not resolved."""
        return self.risk.to_measure(self.reward.minimum, self.reward.maximum)

    def feature_names(self) -> list[str]:
        """The name of each feature of a request, or its place in the request where the configuration names none."""
        model = self.model
        if isinstance(model, MultiArmedModel):
            return []
        if model.features is not None:
            context = model.context_features or [] if isinstance(model, SharedModel) else []
            return [one.name for one in model.features] + [CONTEXT + one.name for one in context]
        word = "features" if isinstance(model, SharedModel) else "context"
        return [f"{word}[{place}]" for place in range(known(model.dimension))]
