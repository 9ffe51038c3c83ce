"""The risk measure in a campaign's configuration: one schema per measure, and the measure that it describes.

A measure is added here by its schema and its place in `Risk`; nothing else of a configuration names one.
"""

from abc import ABC, abstractmethod
from math import isclose
from typing import Annotated, Literal, Self

from pydantic import Field

from prudent.campaigns.values import InvalidConfigurationError, Schema, known
from prudent.core.measures import Entropic, Expectile, Mean, Measure
from prudent.core.measures.entropic import EXPONENT_MAX

LEVEL_MIN = 1e-6
"""Of an expectile; the level is at most 1 less it."""
GAMMA_MIN, GAMMA_MAX = 1e-9, 1e6
TOLERANCE_MIN, TOLERANCE_MAX = 1e-6, 1e9
"""Of the entropic measure's two forms, in magnitude: each is the other's range."""


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
        gamma = abs(known(self.gamma))
        exponent, what = gamma * (maximum - minimum), "the range of rewards"
        if reach is not None:
            over_ball = gamma * max(maximum + reach, reach - minimum)
            if over_ball > exponent:
                exponent, what = over_ball, "the largest prediction error in the ball"
        if exponent > EXPONENT_MAX:
            raise InvalidConfigurationError(
                "risk.gamma", f"|gamma| times {what} is {exponent:.6g}; it must be at most {EXPONENT_MAX:.0f}"
            )

    def to_measure(self, minimum: float | None, maximum: float | None) -> Measure:
        """The entropic risk of rewards within these bounds."""
        return Entropic(known(self.gamma), known(minimum), known(maximum))


Risk = Annotated[MeanRisk | ExpectileRisk | EntropicRisk, Field(discriminator="measure")]


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
