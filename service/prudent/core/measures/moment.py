"""Generalised moments: the average of a function of the reward, such as whether it reaches a target."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from prudent.core.measures.loss import Array
from prudent.core.measures.mean import Mean, SquaredLoss
from prudent.core.measures.measure import Measure
from prudent.core.measures.samples import outcomes_of


class Outcome(ABC):
    """A function T of the reward. title: of E T(Y); aim: what a campaign that maximises it looks for."""

    __slots__ = ()

    name: ClassVar[str]
    """The word for it in configurations."""

    @property
    @abstractmethod
    def title(self) -> str:
        """What its average is, as the literature says it."""

    @property
    @abstractmethod
    def aim(self) -> str:
        """What a campaign looks for that maximises its average."""

    @abstractmethod
    def of(self, rewards: Array) -> Array:
        """Return T(y), (n,); nan or infinite where there is none."""

    def moved(self, scale: float, shift: float) -> Self:  # noqa: ARG002 -- for those that have one
        """Return the function with T'(scale y + shift) = scale T(y) + shift. Raises ValueError where there is none."""
        raise ValueError(f"the unit of the outcome {self.name!r} is not that of the rewards")


@dataclass(frozen=True, slots=True)
class Above(Outcome):
    """1 where the reward reaches the threshold, and 0 elsewhere: its average is the chance to reach it."""

    name = "above"

    threshold: float

    @property
    def title(self) -> str:
        """The probability."""
        return f"probability of a reward of at least {self.threshold:.4g}"

    @property
    def aim(self) -> str:
        """The target."""
        return f"Maximises how often the reward is at least {self.threshold:.4g}."

    def of(self, rewards: Array) -> Array:
        """Return 1 or 0."""
        return (rewards >= self.threshold).astype(np.float64)


@dataclass(frozen=True, slots=True)
class Shortfall(Outcome):
    """-(threshold - y)+: how far the reward falls short of a floor, 0 above it."""

    name = "shortfall"

    threshold: float

    @property
    def title(self) -> str:
        """The average shortfall, negative."""
        return f"average shortfall of the reward below {self.threshold:.4g}"

    @property
    def aim(self) -> str:
        """The floor."""
        return f"Keeps the average shortfall below {self.threshold:.4g} small; what lies above it counts nothing."

    def of(self, rewards: Array) -> Array:
        """Return the negative shortfall."""
        return np.minimum(rewards - self.threshold, 0.0)


@dataclass(frozen=True, slots=True)
class Capped(Outcome):
    """The reward, no less than `lower` and no more than `upper`: outliers count no further."""

    name = "capped"

    lower: float
    upper: float

    @property
    def title(self) -> str:
        """The mean with its caps."""
        return f"mean of the reward capped at {self.lower:.4g} and {self.upper:.4g}"

    @property
    def aim(self) -> str:
        """The caps."""
        return f"Maximises the average reward, counting none below {self.lower:.4g} or above {self.upper:.4g}."

    def of(self, rewards: Array) -> Array:
        """Return the clipped reward."""
        return np.clip(rewards, self.lower, self.upper)

    def moved(self, scale: float, shift: float) -> Self:
        """Move the caps."""
        return type(self)(scale * self.lower + shift, scale * self.upper + shift)


@dataclass(frozen=True, slots=True)
class GainLoss(Outcome):
    """r + (y - r)+ - factor (r - y)+ around a reference r: a loss counts factor times a gain."""

    name = "gain-loss"

    reference: float
    factor: float

    @property
    def title(self) -> str:
        """The reference and the factor."""
        return f"mean reward with losses below {self.reference:.4g} counted {self.factor:.4g} times"

    @property
    def aim(self) -> str:
        """The same as a sentence."""
        return f"Maximises the average reward, with what is below {self.reference:.4g} counted {self.factor:.4g} times."

    def of(self, rewards: Array) -> Array:
        """Return the reward with its loss multiplied."""
        distance = rewards - self.reference
        return self.reference + np.maximum(distance, 0.0) + self.factor * np.minimum(distance, 0.0)

    def moved(self, scale: float, shift: float) -> Self:
        """Move the reference."""
        return type(self)(scale * self.reference + shift, self.factor)


@dataclass(frozen=True, slots=True)
class Power(Outcome):
    """y^exponent, for rewards that are not negative: below 1 large rewards count less than in proportion."""

    name = "power"

    exponent: float

    @property
    def title(self) -> str:
        """The power."""
        return f"mean of the reward to the power {self.exponent:.4g}"

    @property
    def aim(self) -> str:
        """The same as a sentence."""
        return f"Maximises the average of the reward to the power {self.exponent:.4g}."

    def of(self, rewards: Array) -> Array:
        """Return the power; nan for a negative reward."""
        with np.errstate(invalid="ignore", over="ignore"):
            return np.power(rewards, self.exponent)


@dataclass(frozen=True, slots=True)
class Logarithm(Outcome):
    """log y, for positive rewards: what counts is by how many per cent they grow."""

    name = "log"

    @property
    def title(self) -> str:
        """The logarithm."""
        return "mean logarithm of the reward"

    @property
    def aim(self) -> str:
        """What it means."""
        return "Maximises the average growth: the mean of the logarithm of the reward."

    def of(self, rewards: Array) -> Array:
        """Return the logarithm; nan or -inf for a reward that is not positive."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.log(rewards)


@dataclass(frozen=True, slots=True)
class Moment(Measure):
    """E T(Y) for a function T: the mean of the outcomes T(y), and learned as that. Its unit is T's."""

    name = "moment"
    noun = "moment"
    meaning = "A moment is the average of what is made of each reward: whether it reaches a target, for instance."

    function: Outcome
    loss: SquaredLoss = field(default=SquaredLoss(), init=False, repr=False)

    @property
    def title(self) -> str:
        """Its name with that of its function."""
        return f"moment ({self.function.title})"

    @property
    def aim(self) -> str:
        """That of its function."""
        return self.function.aim

    @property
    def quantity(self) -> str:
        """What an estimate is of."""
        return self.function.title

    def outcome(self, reward: float) -> float:
        """Return T(y). Raises ValueError for a reward without one."""
        learned = float(self.function.of(np.array([reward]))[0])
        if not math.isfinite(learned):
            raise ValueError(f"the reward {reward} has no outcome: {self.quantity}")
        return learned

    def centre(self, outcomes: Array) -> float:
        """Return the mean of outcomes, (n,)."""
        return Mean().risk(outcomes)

    def risk(self, values: ArrayLike, weights: ArrayLike | None = None) -> float:
        """Return the mean of T over a sample; see `Measure.risk`. Raises ValueError, too, for a value without T."""
        outcomes, masses = outcomes_of(values, weights)
        return Mean().risk(self.function.of(outcomes), masses)

    def transformed(self, scale: float, shift: float) -> Self:
        """Return the measure with its function moved. Raises ValueError for one that has another unit than rewards."""
        return type(self)(self.function.moved(scale, shift))

    def interval(self, values: Array, risk: float) -> tuple[float, float] | None:
        """Return that of the mean of the outcomes."""
        return Mean().interval(self.function.of(values), risk)
