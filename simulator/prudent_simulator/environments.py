"""The three experiments of the paper, drawn reproducibly.

Source: Saux & Maillard, "Risk-aware linear bandits with convex loss", AISTATS 2023, section on experiments, with
its errors corrected: the means of experiment 1 come from the exact expectile, the noise of experiment 2 is sampled
exactly, and a round's regret uses that round's own features.

Shapes: R replications, n rounds, K arms, d features. A replication has three random streams (features, size of the
noise, side of the noise), each keyed by (seed, experiment, replication, stream) and read in the order of the rounds.
So replications are independent, every algorithm meets the same rounds, and cutting a run into chunks of any length
changes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from prudent_simulator.risks import TwoPieceNormal, discrete_entropic, gaussian_expectile

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


class Stream(IntEnum):
    """What a random stream of a replication is for."""

    FEATURES = 0
    MAGNITUDE = 1
    SIDE = 2
    CAMPAIGN = 3


def stream_seed(seed: int, experiment: int, replication: int, stream: Stream) -> np.random.SeedSequence:
    """Key one random stream; different keys give independent streams."""
    return np.random.SeedSequence(seed, spawn_key=(experiment, replication, int(stream)))


@dataclass(frozen=True)
class Streams:
    """The generators of one replication."""

    features: np.random.Generator
    magnitude: np.random.Generator
    side: np.random.Generator

    @classmethod
    def of(cls, seed: int, experiment: int, replication: int) -> "Streams":
        """Open the streams of one replication."""
        kinds = (Stream.FEATURES, Stream.MAGNITUDE, Stream.SIDE)
        keys = [stream_seed(seed, experiment, replication, kind) for kind in kinds]
        return cls(*(np.random.Generator(np.random.Philox(key)) for key in keys))


class Environment(Protocol):
    """What an experiment offers to the sampler and to the campaign requests.

    An arm's risk in a round is <theta, features>.
    """

    @property
    def experiment(self) -> int:
        """Number in the paper."""

    @property
    def arm_count(self) -> int:
        """K."""

    @property
    def theta(self) -> FloatArray:
        """Parameter of the truth, (d,)."""

    @property
    def risk(self) -> dict[str, Any]:
        """The risk measure, as the HTTP contract writes it."""

    @property
    def noise_scale(self) -> float:
        """The paper's exploration dial, reward units."""

    @property
    def reward_bounds(self) -> tuple[float, float] | None:
        """Lowest and highest reward, or None when unbounded."""

    def features(self, streams: Streams, rounds: int) -> FloatArray:
        """Draw the features of every arm, (n, K, d)."""

    def rewards(self, streams: Streams, risks: FloatArray) -> FloatArray:
        """Draw the reward each arm would give, (n, K), from the arms' risks, (n, K)."""


def _unit_features(rounds: int, arms: int) -> FloatArray:
    return np.broadcast_to(np.eye(arms), (rounds, arms, arms)).copy()


@dataclass(frozen=True)
class GaussianArms:
    """Experiment 1: two normal arms, the wide one better on average and worse in the bad cases.

    Features e1 and e2, theta* = (1, 0): the 0.1-expectiles are 1 and 0. Means are therefore 1.4308 and 2.5848.
    """

    experiment: ClassVar[int] = 1
    arm_count: ClassVar[int] = 2
    noise_scale: ClassVar[float] = 0.1
    reward_bounds: ClassVar[None] = None
    level: float = 0.1
    deviations: tuple[float, float] = (0.5, 3.0)

    @property
    def theta(self) -> FloatArray:
        """Risk of each arm."""
        return np.array([1.0, 0.0])

    @property
    def risk(self) -> dict[str, Any]:
        """The expectile."""
        return {"measure": "expectile", "level": self.level}

    def features(self, streams: Streams, rounds: int) -> FloatArray:  # noqa: ARG002 - nothing is random here
        """Give the fixed features, (n, 2, 2)."""
        return _unit_features(rounds, self.arm_count)

    def rewards(self, streams: Streams, risks: FloatArray) -> FloatArray:
        """Draw normal rewards, (n, 2), shifted so that their expectile is the risk."""
        scaled = streams.magnitude.standard_normal(risks.shape) - gaussian_expectile(self.level)
        rewards: FloatArray = risks + np.array(self.deviations) * scaled
        return rewards


class Theta(StrEnum):
    """Which parameter experiment 2 uses."""

    NORMALISED = "normalised"
    PRINTED = "printed"


@dataclass(frozen=True)
class ContextualArms:
    """Experiment 2: features that move around e1 and e2 in R^3, and two-piece normal noise.

    An arm's features are Z / ||Z|| with Z ~ N(e_k, 0.1^2 I). theta* is (0.9, 0, 0.1) made a unit vector, which is
    what the published figure ran, or (0.9, 0, 1) as the paper prints it, of norm 1.35, longer than the bound 1.
    The noise has 0.1-expectile 0 and scales 0.5 and 1.5 (means 0.841 and 2.523). In the disjoint setting both arms
    own a copy of the same theta*, so the rounds are those of the shared setting and only the learner differs.
    """

    experiment: ClassVar[int] = 2
    arm_count: ClassVar[int] = 2
    noise_scale: ClassVar[float] = 0.1
    reward_bounds: ClassVar[None] = None
    theta_choice: Theta = Theta.NORMALISED
    level: float = 0.1
    scales: tuple[float, float] = (0.5, 1.5)
    spread: float = 0.1

    @property
    def theta(self) -> FloatArray:
        """Parameter, (3,)."""
        if self.theta_choice is Theta.PRINTED:
            return np.array([0.9, 0.0, 1.0])
        direction = np.array([0.9, 0.0, 0.1])
        unit: FloatArray = direction / np.linalg.norm(direction)
        return unit

    @property
    def risk(self) -> dict[str, Any]:
        """The expectile."""
        return {"measure": "expectile", "level": self.level}

    def features(self, streams: Streams, rounds: int) -> FloatArray:
        """Draw unit vectors around e1 and e2, (n, 2, 3)."""
        drawn = streams.features.standard_normal((rounds, self.arm_count, 3))
        points = np.eye(self.arm_count, 3) + self.spread * drawn
        unit: FloatArray = points / np.linalg.norm(points, axis=-1, keepdims=True)
        return unit

    def rewards(self, streams: Streams, risks: FloatArray) -> FloatArray:
        """Draw rewards, (n, 2): the risk plus noise of expectile 0."""
        magnitudes = streams.magnitude.standard_normal(risks.shape)
        sides = streams.side.random(risks.shape)
        noises = [TwoPieceNormal(self.level, scale) for scale in self.scales]
        drawn = [noise.sample(magnitudes[:, arm], sides[:, arm]) for arm, noise in enumerate(noises)]
        rewards: FloatArray = risks + np.stack(drawn, axis=1)
        return rewards


@dataclass(frozen=True)
class CoinArms:
    """Experiment 3: two coins and the entropic risk with gamma = 1, which likes large wins.

    Rewards +-1 with probability 1/2, and +-2 with P(+2) = 1/4; features e1 and e2, so that theta* is the pair of
    exact entropic risks (0.4338, 0.6672).
    """

    experiment: ClassVar[int] = 3
    arm_count: ClassVar[int] = 2
    noise_scale: ClassVar[float] = 1.0
    reward_bounds: ClassVar[tuple[float, float]] = (-2.0, 2.0)
    gamma: float = 1.0
    stakes: tuple[float, float] = (1.0, 2.0)
    win_probabilities: tuple[float, float] = (0.5, 0.25)

    @property
    def theta(self) -> FloatArray:
        """Risk of each arm."""
        coins = zip(self.stakes, self.win_probabilities, strict=True)
        return np.array([discrete_entropic(self.gamma, [s, -s], [win, 1.0 - win]) for s, win in coins])

    @property
    def risk(self) -> dict[str, Any]:
        """The entropic risk."""
        return {"measure": "entropic", "gamma": self.gamma}

    def features(self, streams: Streams, rounds: int) -> FloatArray:  # noqa: ARG002 - nothing is random here
        """Give the fixed features, (n, 2, 2)."""
        return _unit_features(rounds, self.arm_count)

    def rewards(self, streams: Streams, risks: FloatArray) -> FloatArray:
        """Toss the coins, (n, 2)."""
        wins = streams.side.random(risks.shape) < np.array(self.win_probabilities)
        rewards: FloatArray = np.where(wins, 1.0, -1.0) * np.array(self.stakes)
        return rewards


@dataclass(frozen=True)
class Rounds:
    """Consecutive rounds of R replications, with what every arm would have given.

    features: (R, n, K, d); risks: (R, n, K), reward units; rewards: (R, n, K), reward units.
    """

    features: FloatArray
    risks: FloatArray
    rewards: FloatArray

    def regret(self, chosen: IntArray) -> FloatArray:
        """Score chosen arms, (R, n): best risk minus chosen risk, both at the round's own features, (R, n)."""
        of_chosen = np.take_along_axis(self.risks, chosen[..., None], axis=-1)[..., 0]
        scored: FloatArray = self.risks.max(axis=-1) - of_chosen
        return scored


class Sampler:
    """Draws the rounds of R replications of one experiment, chunk after chunk."""

    def __init__(self, environment: Environment, seed: int, replications: Sequence[int]) -> None:
        self._environment = environment
        self._streams = [Streams.of(seed, environment.experiment, number) for number in replications]

    def draw(self, rounds: int) -> Rounds:
        """Draw the next rounds of every replication."""
        environment, streams = self._environment, self._streams
        features = np.stack([environment.features(own, rounds) for own in streams])
        # A plain sum: a matrix product may round differently for another number of rounds.
        risks: FloatArray = (features * environment.theta).sum(axis=-1)
        rewards = np.stack([environment.rewards(own, risks[row]) for row, own in enumerate(streams)])
        return Rounds(features, risks, rewards)


def environment_of(experiment: int, theta: Theta = Theta.NORMALISED) -> Environment:
    """Give experiment 1, 2 or 3; theta matters only in experiment 2. Raises ValueError for another number."""
    if experiment == 1:
        return GaussianArms()
    if experiment == 2:
        return ContextualArms(theta)
    if experiment == 3:
        return CoinArms()
    raise ValueError(f"the paper has experiments 1, 2 and 3, not {experiment}")
