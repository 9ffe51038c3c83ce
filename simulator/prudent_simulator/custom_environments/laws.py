"""Probability laws that an environment file may name, with their exact risks.

A law knows its mean, its support, the expected excess E(Y - v)+, the logarithm of E exp(g Y), and its quantiles, all
in closed form (but for the lognormal law's E exp(g Y), which has none and is integrated). Expectiles follow from the
excess by a root, entropic risks from the logarithm. Nothing here comes from the service, which these values judge.
"""

import math
from functools import cached_property
from typing import Annotated, Any, Literal, Protocol, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator
from scipy.optimize import brentq
from scipy.special import betainc, betaincinv, hyp1f1, lambertw, log_ndtr, logsumexp, ndtr, ndtri

from prudent_simulator.environments import FloatArray
from prudent_simulator.risks import TwoPieceNormal

Number = Annotated[float, Field(ge=-1e9, le=1e9)]
Positive = Annotated[float, Field(gt=0.0, le=1e9)]
Probability = Annotated[float, Field(gt=0.0, le=1.0)]
PARTS_MAX = 100
UNIFORM_MIN = 2.0**-53
"""Quantiles are asked for between this and 1 less it: a normal law has none at 0 and 1."""
_SUM_TOLERANCE = 1e-9


class Strict(BaseModel):
    """A part of the file: unknown fields are refused with the list of those that exist."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _known_fields(cls, given: Any) -> Any:
        if isinstance(given, dict):
            unknown = [str(name) for name in given if name not in cls.model_fields]
            if unknown:
                raise ValueError(f"unknown: {', '.join(unknown)}; allowed are {', '.join(cls.model_fields)}")
        return given


class _Law(Protocol):
    @property
    def mean(self) -> float: ...

    def support(self) -> tuple[float, float]: ...

    def excess(self, value: float) -> float: ...

    def log_exponential(self, rate: float) -> float: ...

    def quantile(self, uniforms: FloatArray) -> FloatArray: ...


class Normal(Strict):
    """The normal law."""

    law: Literal["normal"]
    mean: Number = 0.0
    deviation: Positive

    def support(self) -> tuple[float, float]:
        """Every number."""
        return -math.inf, math.inf

    def excess(self, value: float) -> float:
        """E(Y - value)+."""
        ratio = (value - self.mean) / self.deviation
        density = math.exp(-0.5 * ratio * ratio) / math.sqrt(2.0 * math.pi)
        return self.deviation * (density - ratio * float(ndtr(-ratio)))

    def log_exponential(self, rate: float) -> float:
        """Logarithm of E exp(rate Y)."""
        return rate * self.mean + 0.5 * (rate * self.deviation) ** 2

    def quantile(self, uniforms: FloatArray) -> FloatArray:
        """Turn uniforms on (0, 1) into draws."""
        drawn: FloatArray = self.mean + self.deviation * ndtri(uniforms)
        return drawn


class LogNormal(Strict):
    """The lognormal law, exp(N): purchases, waiting times, sizes. Positive, with a long tail of large values."""

    law: Literal["lognormal"]
    log_mean: Annotated[float, Field(ge=-100.0, le=100.0)] = 0.0
    log_deviation: Annotated[float, Field(gt=0.0, le=10.0)]

    @property
    def mean(self) -> float:
        """Mean."""
        return math.exp(self.log_mean + 0.5 * self.log_deviation**2)

    def support(self) -> tuple[float, float]:
        """Every positive number."""
        return 0.0, math.inf

    def excess(self, value: float) -> float:
        """E(Y - value)+, the price of an option in the model of Black and Scholes."""
        if value <= 0.0:
            return self.mean - value
        distance = (self.log_mean - math.log(value)) / self.log_deviation
        return self.mean * float(ndtr(distance + self.log_deviation)) - value * float(ndtr(distance))

    def log_exponential(self, rate: float) -> float:
        """Logarithm of E exp(rate Y): infinite for a positive rate, by the trapezoidal rule for a negative one.

        Over standard normals around the place where the integrand is largest (Asmussen, Jensen & Rojas-Nandayapa 2016,
        "On the Laplace transform of the lognormal distribution"); for such integrands the rule's error is rounding.
        """
        if rate >= 0.0:
            return math.inf if rate > 0.0 else 0.0
        lambert = float(lambertw(-rate * self.log_deviation**2 * math.exp(self.log_mean)).real)
        normals = np.linspace(-13.0, 13.0, 5_201) - lambert / self.log_deviation
        exponents = rate * np.exp(self.log_mean + self.log_deviation * normals) - 0.5 * normals**2
        return float(logsumexp(exponents)) + math.log((normals[1] - normals[0]) / math.sqrt(2.0 * math.pi))

    def quantile(self, uniforms: FloatArray) -> FloatArray:
        """Turn uniforms on (0, 1) into draws."""
        drawn: FloatArray = np.exp(self.log_mean + self.log_deviation * ndtri(uniforms))
        return drawn


class TwoPiece(Strict):
    """Two half normals glued at 0, its expectile at `level`: the noise of the paper's experiment 2."""

    law: Literal["two-piece-normal"]
    level: Annotated[float, Field(gt=0.0, lt=1.0)]
    scale: Positive

    @cached_property
    def _pieces(self) -> TwoPieceNormal:
        return TwoPieceNormal(self.level, self.scale)

    @property
    def mean(self) -> float:
        """Mean."""
        return self._pieces.mean

    def support(self) -> tuple[float, float]:
        """Every number."""
        return -math.inf, math.inf

    def excess(self, value: float) -> float:
        """E(Y - value)+."""
        return self._pieces.expected_excess(value)

    def log_exponential(self, rate: float) -> float:
        """Logarithm of E exp(rate Y); for a half normal E exp(g |N|) = 2 exp(g^2/2) Phi(g)."""
        sides = ((self._pieces.mass_below, -self._pieces.left), (1.0 - self._pieces.mass_below, self._pieces.right))
        terms = [
            math.log(2.0 * mass) + 0.5 * (rate * width) ** 2 + float(log_ndtr(rate * width)) for mass, width in sides
        ]
        return float(logsumexp(terms))

    def quantile(self, uniforms: FloatArray) -> FloatArray:
        """Turn uniforms on (0, 1) into draws."""
        below = self._pieces.mass_below
        low = self._pieces.left * ndtri(np.minimum(uniforms / below, 1.0) / 2.0)
        high = -self._pieces.right * ndtri(np.minimum((1.0 - uniforms) / (1.0 - below), 1.0) / 2.0)
        return np.where(uniforms < below, low, high)


class Beta(Strict):
    """The beta law stretched to [minimum, maximum]; bounded, and bell-shaped when both shapes are above 1."""

    law: Literal["beta"]
    a: Annotated[float, Field(ge=0.01, le=1000.0)]
    b: Annotated[float, Field(ge=0.01, le=1000.0)]
    minimum: Number = 0.0
    maximum: Number = 1.0

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.minimum >= self.maximum:
            raise ValueError("maximum must be above minimum")
        return self

    @property
    def mean(self) -> float:
        """Mean."""
        return self.minimum + (self.maximum - self.minimum) * self.a / (self.a + self.b)

    def support(self) -> tuple[float, float]:
        """Lowest and highest draw."""
        return self.minimum, self.maximum

    def excess(self, value: float) -> float:
        """E(Y - value)+, from the incomplete beta function."""
        width = self.maximum - self.minimum
        at = min(max((value - self.minimum) / width, 0.0), 1.0)
        above = 1.0 - float(betainc(self.a, self.b, at))
        share = self.a / (self.a + self.b) * (1.0 - float(betainc(self.a + 1.0, self.b, at)))
        return width * share + (self.minimum - value) * above

    def log_exponential(self, rate: float) -> float:
        """Logarithm of E exp(rate Y): Kummer's function, turned so that its argument is positive."""
        reach = rate * (self.maximum - self.minimum)
        if reach < 0.0:
            return rate * self.maximum + math.log(float(hyp1f1(self.b, self.a + self.b, -reach)))
        return rate * self.minimum + math.log(float(hyp1f1(self.a, self.a + self.b, reach)))

    def quantile(self, uniforms: FloatArray) -> FloatArray:
        """Turn uniforms on (0, 1) into draws."""
        drawn: FloatArray = self.minimum + (self.maximum - self.minimum) * betaincinv(self.a, self.b, uniforms)
        return drawn


class Uniform(Strict):
    """The uniform law on [minimum, maximum]: a beta law with both shapes 1."""

    law: Literal["uniform"]
    minimum: Number
    maximum: Number

    @cached_property
    def _beta(self) -> Beta:
        return Beta(law="beta", a=1.0, b=1.0, minimum=self.minimum, maximum=self.maximum)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.minimum >= self.maximum:
            raise ValueError("maximum must be above minimum")
        return self

    @property
    def mean(self) -> float:
        """Mean."""
        return self._beta.mean

    def support(self) -> tuple[float, float]:
        """Lowest and highest draw."""
        return self._beta.support()

    def excess(self, value: float) -> float:
        """E(Y - value)+."""
        return self._beta.excess(value)

    def log_exponential(self, rate: float) -> float:
        """Logarithm of E exp(rate Y)."""
        return self._beta.log_exponential(rate)

    def quantile(self, uniforms: FloatArray) -> FloatArray:
        """Turn uniforms on (0, 1) into draws."""
        return self._beta.quantile(uniforms)


def _sums_to_one(probabilities: list[float]) -> None:
    if abs(sum(probabilities) - 1.0) > _SUM_TOLERANCE:
        raise ValueError(f"probabilities must have sum 1, not {sum(probabilities):.12g}")


class Discrete(Strict):
    """Finitely many values."""

    law: Literal["discrete"]
    values: Annotated[list[Number], Field(min_length=1, max_length=PARTS_MAX)]
    probabilities: Annotated[list[Probability], Field(min_length=1, max_length=PARTS_MAX)]

    @model_validator(mode="after")
    def _matching(self) -> Self:
        if len(self.values) != len(self.probabilities):
            raise ValueError(f"{len(self.values)} values and {len(self.probabilities)} probabilities: give as many")
        _sums_to_one(self.probabilities)
        return self

    @property
    def mean(self) -> float:
        """Mean."""
        return math.fsum(p * value for p, value in zip(self.probabilities, self.values, strict=True))

    def support(self) -> tuple[float, float]:
        """Lowest and highest value."""
        return min(self.values), max(self.values)

    def excess(self, value: float) -> float:
        """E(Y - value)+."""
        pairs = zip(self.probabilities, self.values, strict=True)
        return math.fsum(p * max(own - value, 0.0) for p, own in pairs)

    def log_exponential(self, rate: float) -> float:
        """Logarithm of E exp(rate Y)."""
        return float(logsumexp(rate * np.array(self.values), b=np.array(self.probabilities)))

    def quantile(self, uniforms: FloatArray) -> FloatArray:
        """Turn uniforms on (0, 1) into draws."""
        edges = np.cumsum(self.probabilities)[:-1]
        return np.array(self.values)[np.searchsorted(edges, uniforms, side="right")]


Simple = Annotated[Normal | LogNormal | TwoPiece | Beta | Uniform | Discrete, Field(discriminator="law")]


class Part(Strict):
    """A law of a mixture and how often it is drawn from."""

    probability: Probability
    of: Simple


class Mixture(Strict):
    """One of several laws, at random: good days and bad days."""

    law: Literal["mixture"]
    parts: Annotated[list[Part], Field(min_length=1, max_length=PARTS_MAX)]

    @model_validator(mode="after")
    def _whole(self) -> Self:
        _sums_to_one([part.probability for part in self.parts])
        return self

    @property
    def mean(self) -> float:
        """Mean."""
        return math.fsum(part.probability * part.of.mean for part in self.parts)

    def support(self) -> tuple[float, float]:
        """Lowest and highest draw."""
        ranges = [part.of.support() for part in self.parts]
        return min(low for low, _ in ranges), max(high for _, high in ranges)

    def excess(self, value: float) -> float:
        """E(Y - value)+."""
        return math.fsum(part.probability * part.of.excess(value) for part in self.parts)

    def log_exponential(self, rate: float) -> float:
        """Logarithm of E exp(rate Y)."""
        return float(logsumexp([math.log(part.probability) + part.of.log_exponential(rate) for part in self.parts]))

    def quantile(self, uniforms: FloatArray) -> FloatArray:
        """Turn uniforms on (0, 1) into draws: the uniform picks the part, and where it fell in it the value."""
        edges = np.concatenate([[0.0], np.cumsum([part.probability for part in self.parts])])
        edges[-1] = 1.0
        drawn = np.empty_like(uniforms)
        for part, low, high in zip(self.parts, edges[:-1], edges[1:], strict=True):
            inside = (low <= uniforms) & (uniforms < high)
            within = (uniforms[inside] - low) / (high - low)
            drawn[inside] = part.of.quantile(np.clip(within, UNIFORM_MIN, 1.0 - UNIFORM_MIN))
        return drawn


Law = Annotated[Normal | LogNormal | TwoPiece | Beta | Uniform | Discrete | Mixture, Field(discriminator="law")]


def expectile(law: _Law, level: float) -> float:
    """Give the expectile of a law: where level E(Y - v)+ = (1 - level) E(v - Y)+.

    level: in (0, 1); returns reward units. The difference of both sides falls in v, so the root is bracketed by
    doubling steps away from the mean. Source: Saux & Maillard 2023, Example 1.
    """

    def balance(value: float) -> float:
        above = law.excess(value)
        return level * above - (1.0 - level) * (above - law.mean + value)

    at_mean = balance(law.mean)
    if at_mean == 0.0:
        return law.mean
    step = math.copysign(max(1e-3, law.excess(law.mean)), at_mean)
    while balance(law.mean + step) * at_mean > 0.0:
        step *= 2.0
    low, high = sorted((law.mean, law.mean + step))
    return float(brentq(balance, low, high, xtol=1e-13, rtol=4.0 * np.finfo(float).eps, maxiter=500))


def entropic(law: _Law, gamma: float) -> float:
    """Give the entropic risk log(E exp(gamma Y)) / gamma, in reward units. Source: the paper, Example 2."""
    return law.log_exponential(gamma) / gamma
