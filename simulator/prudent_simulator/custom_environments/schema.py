"""What an environment file may say, checked: fields, names that must match, and combinations that make sense."""

from typing import Annotated, Any, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from prudent_simulator.custom_environments.laws import Law, Number, Positive, Strict
from prudent_simulator.settings import AlgorithmName, Bonus, Radius, StepSchedule

ARMS_MAX = 100
DIMENSION_MAX = 100
ROUNDS_MAX = 999_999
REPLICATIONS_MAX = 10_000
INTERCEPT = "intercept"

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9._~-]{1,64}$")]
Coefficients = Annotated[dict[Name, Number], Field(max_length=DIMENSION_MAX + 1)]


class Mean(Strict):
    """The average."""

    measure: Literal["mean"]


class Expectile(Strict):
    """The expectile, by level or by downside weight (1 - level) / level."""

    measure: Literal["expectile"]
    level: Annotated[float, Field(ge=1e-4, le=1.0 - 1e-4)] | None = None
    downside_weight: Annotated[float, Field(ge=1e-4, le=1e4)] | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if (self.level is None) == (self.downside_weight is None):
            raise ValueError("give either level or downside_weight")
        return self

    @property
    def p(self) -> float:
        """The level, whichever form was given."""
        return self.level if self.level is not None else 1.0 / (1.0 + (self.downside_weight or 0.0))


class Entropic(Strict):
    """The entropic risk; gamma below 0 is cautious."""

    measure: Literal["entropic"]
    gamma: Annotated[float, Field(ge=-1e6, le=1e6)]

    @model_validator(mode="after")
    def _not_zero(self) -> Self:
        if self.gamma == 0.0:
            raise ValueError("gamma must not be 0; for no aversion use the measure mean")
        return self


Level = Annotated[float, Field(ge=1e-4, le=1.0 - 1e-4)]


class Cvar(Strict):
    """The average of the worst share `level`."""

    measure: Literal["cvar"]
    level: Level


class Quantile(Strict):
    """What is exceeded with probability 1 - level."""

    measure: Literal["quantile"]
    level: Level


class MeanVariance(Strict):
    """The mean less aversion deviations, or less aversion/2 times the variance."""

    measure: Literal["mean-variance"]
    aversion: Annotated[float, Field(gt=0.0, le=1e6)]
    of: Literal["deviation", "variance"] = "deviation"


class Moment(Strict):
    """The average of a function of the reward, for the multi-armed model; the service checks its parameters."""

    measure: Literal["moment"]
    of: Literal["above", "shortfall", "capped", "gain-loss", "power", "log"]
    threshold: Number = 0.0
    lower: Number = 0.0
    upper: Number = 1.0
    reference: Number = 0.0
    factor: Positive = 1.0
    exponent: Annotated[float, Field(ge=1e-3, le=4.0)] = 1.0


Risk = Annotated[Mean | Expectile | Entropic | Cvar | Quantile | MeanVariance | Moment, Field(discriminator="measure")]


class Variable(Strict):
    """One number of the context, drawn anew each round; the model sees (value - center) / scale."""

    of: Law
    center: Number = 0.0
    scale: Positive = 1.0


class FromContext(Strict):
    """A feature that follows a context variable: offset + factor x value."""

    context: Name
    factor: Number = 1.0
    offset: Number = 0.0


def _kind(value: Any) -> str:
    if isinstance(value, dict):
        return "context" if "context" in value else "law"
    return "context" if isinstance(value, FromContext) else "law" if isinstance(value, Strict) else "number"


Feature = Annotated[
    Annotated[Number, Tag("number")] | Annotated[FromContext, Tag("context")] | Annotated[Law, Tag("law")],
    Discriminator(_kind),
]


class ArmBlock(Strict):
    """One option. reward: the law of its reward (multi-armed), or of the noise around <theta, features>."""

    arm_id: Name
    reward: Law
    theta: Coefficients | None = None
    spread: Coefficients | None = None
    features: Annotated[dict[Name, Feature], Field(max_length=DIMENSION_MAX)] | None = None


class RewardBounds(Strict):
    """Lowest and highest reward that the campaigns accept."""

    minimum: Number
    maximum: Number


class AlgorithmBlock(Strict):
    """An algorithm and what of its settings differs from the service's defaults.

    risk: what it maximises, if not the file's; its regret is still that of the file's.
    """

    name: AlgorithmName = Field(strict=False)
    label: Name | None = None
    risk: Risk | None = None
    regularization: Positive | None = None
    delta: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None
    noise_scale: Positive | None = None
    exploration: Annotated[float, Field(ge=0.0, le=1e6)] | None = None
    exploration_rule: Literal["randomized", "optimistic"] | None = None
    floor: Annotated[float, Field(ge=0.0, le=1e6)] | None = None
    parameter_bound: Positive | None = None
    projection: bool | None = None
    feature_bound: Positive | None = None
    bonus: Annotated[Bonus, Field(strict=False)] | Literal["self-scaled", "self-normalized"] | None = None
    conditioning: Positive | Literal["theory", "self-concordant"] | None = None
    warmup: Annotated[int, Field(ge=0, le=10_000)] | None = None
    radius: Annotated[Radius, Field(strict=False)] | None = None
    episode_length: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    step_size: Positive | None = None
    step_schedule: Annotated[StepSchedule, Field(strict=False)] | None = None
    ogd_bonus: Annotated[float, Field(ge=0.0, le=1e12)] | None = None

    @property
    def shown_as(self) -> str:
        """Label in tables and figures."""
        return self.label or self.name.value


_DEFAULT_ALGORITHMS = (AlgorithmBlock(name=AlgorithmName.LINUCB), AlgorithmBlock(name=AlgorithmName.LINUCB_CR))


class EnvironmentFile(Strict):
    """A whole file. docs/environments.md describes every field."""

    name: Name
    description: Annotated[str, Field(max_length=2000)] = ""
    risk: Risk
    model: Literal["multi-armed", "disjoint", "shared"]
    theta_is: Literal["mean", "risk"] = "mean"
    context: Annotated[dict[Name, Variable], Field(max_length=DIMENSION_MAX)] = {}
    intercept: bool | None = None
    theta: Coefficients | None = None
    spread: Coefficients | None = None
    arms: Annotated[list[ArmBlock], Field(min_length=2, max_length=ARMS_MAX)]
    reward_bounds: RewardBounds | None = None
    algorithms: Annotated[list[AlgorithmBlock], Field(min_length=1, max_length=20)] = list(_DEFAULT_ALGORITHMS)
    rounds: Annotated[int, Field(ge=1, le=ROUNDS_MAX)] = 1500
    replications: Annotated[int, Field(ge=1, le=REPLICATIONS_MAX)] = 20

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        _check_names(self)
        {"multi-armed": _check_multi_armed, "disjoint": _check_disjoint, "shared": _check_shared}[self.model](self)
        risks = [self.risk, *(block.risk for block in self.algorithms)]
        if self.reward_bounds is None and any(isinstance(risk, Entropic) for risk in risks):
            raise ValueError("reward_bounds: the entropic risk needs them (minimum and maximum)")
        if self.intercept is not None and self.model != "shared":
            raise ValueError("intercept: only a shared model has the choice")
        if isinstance(self.risk, Moment) and self.model != "multi-armed":
            raise ValueError("risk: a moment is not linear in features; use the multi-armed model")
        if self.reward_bounds is not None and self.reward_bounds.minimum >= self.reward_bounds.maximum:
            raise ValueError("reward_bounds: maximum must be above minimum")
        return self


def _check_names(file: EnvironmentFile) -> None:
    arms = [arm.arm_id for arm in file.arms]
    labels = [block.shown_as for block in file.algorithms]
    for what, names in (("arms: arm_id", arms), ("algorithms: label", labels)):
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(f"{what}: duplicate {', '.join(sorted(twice))}")
    if INTERCEPT in file.context:
        raise ValueError(f"context: {INTERCEPT} is the name of the constant; choose another")


def _refuse(place: str, given: dict[str, object], because: str) -> None:
    for field, value in given.items():
        if value:
            raise ValueError(f"{place}{field}: {because}")


def _check_coefficients(place: str, given: Coefficients | None, allowed: list[str]) -> None:
    unknown = [name for name in given or {} if name not in allowed]
    if unknown:
        raise ValueError(f"{place}: unknown: {', '.join(unknown)}; allowed are {', '.join(allowed)}")


def _check_multi_armed(file: EnvironmentFile) -> None:
    because = "the multi-armed model has none: reward is all there is"
    _refuse("", {"context": file.context, "theta": file.theta, "spread": file.spread}, because)
    for number, arm in enumerate(file.arms):
        _refuse(f"arms.{number}.", {"theta": arm.theta, "spread": arm.spread, "features": arm.features}, because)


def _check_disjoint(file: EnvironmentFile) -> None:
    if not file.context:
        raise ValueError("context: the disjoint model needs at least one variable; without any it is multi-armed")
    _refuse("", {"theta": file.theta, "spread": file.spread}, "the disjoint model has it in each arm")
    allowed = [INTERCEPT, *file.context]
    for number, arm in enumerate(file.arms):
        _refuse(f"arms.{number}.", {"features": arm.features}, "the disjoint model has a context instead")
        if arm.theta is None:
            raise ValueError(f"arms.{number}.theta: is missing; allowed are {', '.join(allowed)}")
        _check_coefficients(f"arms.{number}.theta", arm.theta, allowed)
        _check_coefficients(f"arms.{number}.spread", arm.spread, allowed)


def _check_shared(file: EnvironmentFile) -> None:
    if not file.theta:
        raise ValueError("theta: the shared model needs one, with a number for each feature")
    allowed = list(file.theta)
    _check_coefficients("spread", file.spread, allowed)
    for number, arm in enumerate(file.arms):
        _refuse(f"arms.{number}.", {"theta": arm.theta, "spread": arm.spread}, "the shared model has it above the arms")
        given = arm.features or {}
        _check_coefficients(f"arms.{number}.features", dict.fromkeys(given, 0.0), allowed)
        missing = [name for name in allowed if name not in given]
        if missing:
            raise ValueError(f"arms.{number}.features: missing: {', '.join(missing)}")
        for name, feature in given.items():
            if isinstance(feature, FromContext) and feature.context not in file.context:
                known = ", ".join(file.context) or "none"
                raise ValueError(f"arms.{number}.features.{name}.context: unknown; the context has {known}")
