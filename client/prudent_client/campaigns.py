"""The body of `POST /campaigns`, for type checkers and editors: at run time these are plain dictionaries.

What is left out has the service's default; the API's documentation says what each field means.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Required, TypedDict

Interactions = Sequence[tuple[str, str] | list[str]]


class Risk(TypedDict, total=False):
    """The risk measure, and the parameters of this one."""

    measure: Required[Literal["mean", "expectile", "entropic", "cvar", "quantile", "mean-variance", "moment"]]
    level: float
    downside_weight: float
    gamma: float
    risk_tolerance: float
    aversion: float
    of: Literal["deviation", "variance", "above", "shortfall", "capped", "gain-loss", "power", "log"]
    threshold: float
    lower: float
    upper: float
    reference: float
    factor: float
    exponent: float


class Basis(TypedDict):
    """A number's effect that is not a line."""

    type: Literal["spline", "piecewise-linear"]
    knots: Sequence[float]


class Feature(TypedDict, total=False):
    """A named feature, and the settings of its kind; a number, if none is given."""

    name: Required[str]
    kind: Literal["number", "boolean", "category", "cyclic"]
    missing: Literal["error", "center", "indicator"]
    center: float | Literal["learned"] | None
    scale: float | Literal["learned"] | None
    basis: Basis | None
    categories: Sequence[str]
    capacity: int | None
    unknown: Literal["other", "error"]
    period: float


class CampaignModel(TypedDict, total=False):
    """What rewards depend on."""

    type: Required[Literal["shared", "disjoint", "multi-armed"]]
    dimension: int | None
    intercept: bool | None
    features: Sequence[Feature] | None
    context_features: Sequence[Feature] | None
    interactions: Interactions


class NewArm(TypedDict, total=False):
    """An arm to register."""

    arm_id: Required[str]
    features: Mapping[str, Any] | Sequence[float] | None
    value: Any


class Forgetting(TypedDict):
    """In how many observations the weight of an observation falls by half."""

    half_life: int


class Baseline(TypedDict, total=False):
    """A known arm that decisions leave as far as an allowance covers only."""

    arm_id: Required[str]
    tolerance: float


class Algorithm(TypedDict, total=False):
    """How a campaign learns and explores."""

    name: Literal["linucb", "linucb-cr", "linucb-ogd-cr", "linucb-onepass-cr"]
    regularization: float | None
    delta: float
    noise_scale: float | None
    exploration: float
    exploration_rule: Literal["randomized", "optimistic"] | None
    floor: float | None
    uniform_share: float
    budget: float | None
    baseline: Baseline | None
    forgetting: Forgetting | None
    exact_until: int | None
    parameter_bound: float | None
    projection: bool
    feature_bound: float
    bonus: Literal["local", "global", "local-tight", "global-tight", "self-scaled", "self-normalized"]
    conditioning: float | Literal["theory", "self-concordant"] | None
    warmup: int
    radius: Literal["per-arm", "joint"] | None
    episode_length: int | None
    step_size: float | None
    step_schedule: Literal["harmonic", "theory"] | None
    ogd_bonus: float | None


class EventRule(TypedDict, total=False):
    """What an event is worth as a reward: needs one of value and constant."""

    value: str | None
    scale: float
    constant: float | None


class RewardRules(TypedDict, total=False):
    """Bounds on rewards, and what happens if none arrives."""

    minimum: float | None
    maximum: float | None
    timeout_seconds: float | None
    default: float | None
    events: Mapping[str, EventRule]


class Assignment(TypedDict, total=False):
    """For how long the first decision for a subject stands."""

    sticky_seconds: int | None


class Holdout(TypedDict, total=False):
    """A share of the decisions that the policy does not make: needs one of arm_id and policy."""

    share: Required[float]
    arm_id: str | None
    policy: Literal["uniform"] | None


class NewCampaign(TypedDict, total=False):
    """A campaign to create."""

    campaign_id: Required[str]
    description: str
    risk: Required[Risk]
    model: Required[CampaignModel]
    arms: Sequence[NewArm]
    algorithm: Algorithm
    reward: RewardRules
    assignment: Assignment
    holdout: Holdout | None
    client_side: bool
    retention_days: int
    log_retention_days: int
    seed: int
    log_candidates: bool
