"""The risk measure in a campaign's configuration: one schema per measure, and the measure that it describes.

A measure is added here by its schema and its place in `Risk`; nothing else of a configuration names one.
"""

from abc import ABC, abstractmethod
from math import isclose
from typing import Annotated, Literal, Self

from pydantic import Field

from prudent.campaigns.values import InvalidConfigurationError, RewardValue, Schema, known
from prudent.core.measures import Cvar, Entropic, Expectile, Mean, MeanVariance, Measure, Moment, Quantile
from prudent.core.measures.entropic import EXPONENT_MAX
from prudent.core.measures.moment import Above, Capped, GainLoss, Logarithm, Outcome, Power, Shortfall

LEVEL_MIN = 1e-6
"""Of an expectile, a CVaR and a quantile; the level is at most 1 less it."""
GAMMA_MIN, GAMMA_MAX = 1e-9, 1e6
TOLERANCE_MIN, TOLERANCE_MAX = 1e-6, 1e9
"""Of the entropic measure's two forms, in magnitude: each is the other's range."""
FACTOR_MAX = 1e6
"""Of an aversion, and of what multiplies a loss."""
EXPONENT_RANGE = (1e-3, 4.0)
"""Of the power of a moment: the fourth power of the largest reward is still far from float64's range."""


class RiskSchema(Schema, ABC):
    """What the rest of a configuration asks of its risk measure."""

    def resolved(self) -> Self:
        """The same measure with every form of its parameter filled in. Raises InvalidConfigurationError."""
        return self

    def check(self, minimum: float | None, maximum: float | None, reach: float | None) -> None:
        """Raise InvalidConfigurationError where the resolved measure does not fit the rest of its campaign.

        minimum, maximum: of the rewards; reach: the largest prediction in the ball, L S; None where unbounded.
        """

    @abstractmethod
    def to_measure(self, minimum: float | None, maximum: float | None) -> Measure:
        """The measure of a configuration that is resolved and checked. minimum, maximum: of the rewards."""


class MeanRisk(RiskSchema):
    """The mean: bad outcomes get no extra weight."""

    measure: Literal["mean"]

    def to_measure(self, minimum: float | None, maximum: float | None) -> Measure:  # noqa: ARG002 -- for every reward
        """The mean."""
        return Mean()


class ExpectileRisk(RiskSchema):
    """The expectile: a shortfall below the value counts ``downside_weight`` times a surplus above it."""

    measure: Literal["expectile"]
    level: (
        Annotated[float, Field(ge=LEVEL_MIN, le=1 - LEVEL_MIN, description="Below 1/2 is cautious, 1/2 the mean.")]
        | None
    ) = None
    downside_weight: (
        Annotated[
            float,
            Field(ge=LEVEL_MIN, le=1 / LEVEL_MIN, description="level = 1/(1 + downside_weight), within level's range."),
        ]
        | None
    ) = None

    def resolved(self) -> Self:
        """Level and downside weight, each from the other."""
        weight = self.downside_weight
        level = _one_of(
            ("risk.level", self.level),
            ("risk.downside_weight", weight),
            None if weight is None else Expectile.level_of(weight),
        )
        if not LEVEL_MIN <= level <= 1 - LEVEL_MIN:
            raise InvalidConfigurationError(
                "risk.downside_weight", f"must give a level between {LEVEL_MIN:g} and 1 - {LEVEL_MIN:g}"
            )
        if weight is None:
            weight = Expectile(level).downside_weight
        return self.model_copy(update={"level": level, "downside_weight": weight})

    def to_measure(self, minimum: float | None, maximum: float | None) -> Measure:  # noqa: ARG002 -- for every reward
        """The expectile of this level."""
        return Expectile(known(self.level))


class EntropicRisk(RiskSchema):
    """The entropic risk: certainty equivalent under exponential utility. Needs reward bounds.

    Defaults with this measure: regularization 0.1 |gamma|; for linucb-ogd-cr the harmonic schedule with a step_size
    of 0.1 / (|gamma| feature_bound^2).
    """

    measure: Literal["entropic"]
    gamma: (
        Annotated[
            float,
            Field(ge=-GAMMA_MAX, le=GAMMA_MAX, description="Negative is cautious; at least 1e-9 in magnitude."),
        ]
        | None
    ) = None
    risk_tolerance: (
        Annotated[
            float,
            Field(
                ge=-TOLERANCE_MAX,
                le=TOLERANCE_MAX,
                description="gamma = -1/risk_tolerance: about the R at which one would accept a coin flip "
                "between winning R and losing R/2. At least 1e-6 in magnitude.",
            ),
        ]
        | None
    ) = None

    def resolved(self) -> Self:
        """Gamma and risk tolerance, each from the other."""
        tolerance = self.risk_tolerance
        # what is closer to 0 has a second form that no request may hold: replies could not be posted again
        if self.gamma is not None and abs(self.gamma) < GAMMA_MIN:
            raise InvalidConfigurationError(
                "risk.gamma", f"must be at least {GAMMA_MIN:g} in magnitude; for no aversion use the measure 'mean'"
            )
        if tolerance is not None and abs(tolerance) < TOLERANCE_MIN:
            raise InvalidConfigurationError("risk.risk_tolerance", f"must be at least {TOLERANCE_MIN:g} in magnitude")
        gamma = _one_of(
            ("risk.gamma", self.gamma),
            ("risk.risk_tolerance", tolerance),
            None if tolerance is None else Entropic.gamma_of(tolerance),
        )
        if tolerance is None:
            tolerance = -1 / gamma
        return self.model_copy(update={"gamma": gamma, "risk_tolerance": tolerance})

    def check(self, minimum: float | None, maximum: float | None, reach: float | None) -> None:
        """Bounds of the rewards, and no exponent that float64 could not work with."""
        if minimum is None or maximum is None:
            missing = "minimum" if minimum is None else "maximum"
            raise InvalidConfigurationError(f"reward.{missing}", "the entropic measure needs both reward bounds")
        gamma = abs(known(self.resolved().gamma))
        size, what = maximum - minimum, "the range of rewards"
        if reach is not None and max(maximum + reach, reach - minimum) > size:
            size, what = max(maximum + reach, reach - minimum), "the largest prediction error in the ball"
        if gamma * size <= EXPONENT_MAX:
            return
        if self.gamma is None:
            least = size / EXPONENT_MAX
            raise InvalidConfigurationError(
                "risk.risk_tolerance", f"must be at least {least:.6g} in magnitude, {what} over {EXPONENT_MAX:.0f}"
            )
        raise InvalidConfigurationError(
            "risk.gamma", f"|gamma| times {what} is {gamma * size:.6g}; it must be at most {EXPONENT_MAX:.0f}"
        )

    def to_measure(self, minimum: float | None, maximum: float | None) -> Measure:
        """The entropic risk of rewards within these bounds."""
        return Entropic(known(self.gamma), known(minimum), known(maximum))


Level = Annotated[float, Field(ge=LEVEL_MIN, le=1 - LEVEL_MIN, description="The share of bad cases, as 0.1.")]


class CvarRisk(RiskSchema):
    """The average of the worst share ``level`` of the rewards (conditional value at risk, expected shortfall)."""

    measure: Literal["cvar"]
    level: Level

    def to_measure(self, minimum: float | None, maximum: float | None) -> Measure:  # noqa: ARG002 -- for every reward
        """The CVaR of this level."""
        return Cvar(self.level)


class QuantileRisk(RiskSchema):
    """What the reward exceeds with probability 1 - ``level`` (value at risk)."""

    measure: Literal["quantile"]
    level: Level

    def to_measure(self, minimum: float | None, maximum: float | None) -> Measure:  # noqa: ARG002 -- for every reward
        """The quantile of this level."""
        return Quantile(self.level)


class MeanVarianceRisk(RiskSchema):
    """The mean less ``aversion`` standard deviations, or less ``aversion``/2 times the variance."""

    measure: Literal["mean-variance"]
    aversion: Annotated[
        float,
        Field(gt=0, le=FACTOR_MAX, description="Of deviations, or per reward unit where `of` is variance."),
    ]
    of: Annotated[Literal["deviation", "variance"], Field(description="What is punished.")] = "deviation"

    def to_measure(self, minimum: float | None, maximum: float | None) -> Measure:  # noqa: ARG002 -- for every reward
        """Mean-variance with this aversion."""
        return MeanVariance(self.aversion, self.of)


_PARAMETERS = {
    "above": ("threshold",),
    "shortfall": ("threshold",),
    "capped": ("lower", "upper"),
    "gain-loss": ("reference", "factor"),
    "power": ("exponent",),
    "log": (),
}
"""What each kind of moment needs, and no other kind has."""


class MomentRisk(RiskSchema):
    """The average of a function of the reward; the estimates are in the unit of that function.

    above: 1 where the reward is at least ``threshold``, else 0; shortfall: reward - ``threshold``, at most 0; capped:
    the reward within ``lower`` and ``upper``; gain-loss: the reward, what is below ``reference`` multiplied by
    ``factor``; power: reward to the power ``exponent``, needs reward.minimum of at least 0; log: needs reward.minimum
    above 0.
    """

    measure: Literal["moment"]
    of: Literal["above", "shortfall", "capped", "gain-loss", "power", "log"]
    threshold: RewardValue | None = None
    lower: RewardValue | None = None
    upper: RewardValue | None = None
    reference: RewardValue | None = None
    factor: Annotated[float, Field(gt=0, le=FACTOR_MAX)] | None = None
    exponent: Annotated[float, Field(ge=EXPONENT_RANGE[0], le=EXPONENT_RANGE[1])] | None = None

    def resolved(self) -> Self:
        """The same: a kind has its own parameters and no others."""
        for name in ("threshold", "lower", "upper", "reference", "factor", "exponent"):
            is_needed, is_given = name in _PARAMETERS[self.of], getattr(self, name) is not None
            if is_needed and not is_given:
                raise InvalidConfigurationError(f"risk.{name}", f"is required for a moment of {self.of!r}")
            if is_given and not is_needed:
                users = " and ".join(repr(kind) for kind, names in _PARAMETERS.items() if name in names)
                raise InvalidConfigurationError(f"risk.{name}", f"applies only to a moment of {users}")
        if self.of == "capped" and known(self.lower) >= known(self.upper):
            raise InvalidConfigurationError("risk.upper", "must be above risk.lower")
        return self

    def check(self, minimum: float | None, maximum: float | None, reach: float | None) -> None:  # noqa: ARG002 -- of one
        """Rewards that the function is defined for."""
        if self.of == "log" and (minimum is None or minimum <= 0):
            raise InvalidConfigurationError(
                "reward.minimum", "must be above 0 for a moment of 'log': other rewards have no logarithm"
            )
        if self.of == "power" and (minimum is None or minimum < 0):
            raise InvalidConfigurationError(
                "reward.minimum", "must be at least 0 for a moment of 'power': negative rewards have no such power"
            )

    def to_measure(self, minimum: float | None, maximum: float | None) -> Measure:  # noqa: ARG002 -- bounds are checked
        """The mean of this function."""
        return Moment(self._function())

    def _function(self) -> Outcome:
        match self.of:
            case "above":
                return Above(known(self.threshold))
            case "shortfall":
                return Shortfall(known(self.threshold))
            case "capped":
                return Capped(known(self.lower), known(self.upper))
            case "gain-loss":
                return GainLoss(known(self.reference), known(self.factor))
            case "power":
                return Power(known(self.exponent))
            case "log":
                return Logarithm()


Risk = Annotated[
    MeanRisk | ExpectileRisk | EntropicRisk | CvarRisk | QuantileRisk | MeanVarianceRisk | MomentRisk,
    Field(discriminator="measure"),
]


def _one_of(first: tuple[str, float | None], second: tuple[str, float | None], converted: float | None) -> float:
    """The first form's value, given in either form or, as replies show it, in both."""
    (name, value), (other, _) = first, second
    if value is None:
        if converted is None:
            raise InvalidConfigurationError(name, f"give {name} or {other}")
        return converted
    if converted is not None and not isclose(value, converted, rel_tol=1e-12):
        raise InvalidConfigurationError(other, f"contradicts {name}: give one of the two")
    return value
