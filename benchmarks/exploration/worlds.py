"""What a problem draws before anything is played: the features, the risk and the reward of every arm in every round.

A world is a function of the problem's name and a seed. All learners meet the same worlds, so that differences between
them are not differences of luck; the reward that an arm gives in a round does not depend on what was played before.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np

from prudent_simulator.custom_environments.laws import UNIFORM_MIN, Law, expectile
from prudent_simulator.environments import FloatArray, IntArray, Sampler, environment_of


@dataclass(frozen=True)
class World:
    """One run's rounds: T of them, K arms.

    risks, rewards: (T, K), reward units. features: None for `multi-armed`, (T, d) for `disjoint`, (T, K, d) for
    `shared`. joins: (K,) the round from which each arm may be played, in order; delays: (T,) how many rounds pass
    before the round's reward is learned, None where it is learned before the next decision.
    """

    risks: FloatArray
    rewards: FloatArray
    features: FloatArray | None = None
    joins: IntArray | None = None
    delays: IntArray | None = None

    def gaps(self) -> FloatArray:
        """How far each arm's risk is below the best of those that may be played, (T, K); nan before an arm joins."""
        rounds = np.arange(len(self.risks))[:, None]
        is_there = np.ones(self.risks.shape, dtype=bool) if self.joins is None else rounds >= self.joins
        known = np.where(is_there, self.risks, np.nan)
        gaps: FloatArray = np.nanmax(known, axis=1, keepdims=True) - known
        return gaps


def generator_of(name: str, seed: int) -> np.random.Generator:
    """The random numbers of a problem's world."""
    key = crc32(f"exploration, {name}".encode())
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=(key,))))


def risk_of(law: Law, level: float | None) -> float:
    """The law's expectile, or its mean for level None, in reward units."""
    return law.mean if level is None else expectile(law, level)


def draw_from(law: Law, generator: np.random.Generator, count: int) -> FloatArray:
    """Draw (count,) rewards."""
    return law.quantile(np.clip(generator.random(count), UNIFORM_MIN, 1.0 - UNIFORM_MIN))


def arms_world(laws: Sequence[Law], level: float | None, rounds: int, generator: np.random.Generator) -> World:
    """Arms whose rewards have a law each, the same in every round."""
    rewards = np.stack([draw_from(law, generator, rounds) for law in laws], axis=1)
    risks = np.array([risk_of(law, level) for law in laws])
    return World(np.broadcast_to(risks, rewards.shape), rewards)


def delayed(world: World, low: int, high: int, generator: np.random.Generator) -> World:
    """The same world with each reward learned `low` to `high` rounds late, uniformly."""
    return replace(world, delays=generator.integers(low, high, endpoint=True, size=len(world.risks)))


def joined(world: World, arm: int, at: int) -> World:
    """The same world with an arm that joins in round `at`; it becomes the last one."""
    order = [k for k in range(world.risks.shape[1]) if k != arm] + [arm]
    joins = np.zeros(len(order), dtype=np.int64)
    joins[-1] = at
    return replace(world, risks=world.risks[:, order], rewards=world.rewards[:, order], joins=joins)


def swapped(world: World, one: int, other: int, at: int) -> World:
    """The same world with two arms' rewards exchanged from round `at` on."""
    order = np.arange(world.risks.shape[1])
    order[[one, other]] = other, one
    is_after = (np.arange(len(world.risks)) >= at)[:, None]
    risks, rewards = (np.where(is_after, array[:, order], array) for array in (world.risks, world.rewards))
    return replace(world, risks=risks, rewards=rewards)


def cases_world(laws: Sequence[Sequence[Law]], level: float, rounds: int, generator: np.random.Generator) -> World:
    """Contexts that are one of C cases, equally often, with a law for each case and arm: laws[case][arm].

    Two cases are one feature, 0 or 1; more are the case's unit vector.
    """
    cases = len(laws)
    case = generator.integers(cases, size=rounds)
    rewards = np.empty((rounds, len(laws[0])))
    for number, of_case in enumerate(laws):
        rows = np.flatnonzero(case == number)
        rewards[rows] = np.stack([draw_from(law, generator, len(rows)) for law in of_case], axis=1)
    risks = np.array([[risk_of(law, level) for law in of_case] for of_case in laws])
    features = case[:, None].astype(np.float64) if cases == 2 else np.eye(cases)[case]
    return World(risks[case], rewards, features)


def linear_world(law: Law, level: float, rounds: int, generator: np.random.Generator, *, arms: int, size: int) -> World:
    """Arms with standard normal features in R^size, risk <theta, x> with a unit theta, and spread exp(x_1/2).

    law: of the noise, before it is shifted to an expectile of 0 at `level`.
    """
    direction = generator.standard_normal(size)
    theta = direction / np.linalg.norm(direction)
    features = generator.standard_normal((rounds, arms, size))
    risks = features @ theta
    noise = draw_from(law, generator, rounds * arms).reshape(rounds, arms) - expectile(law, level)
    return World(risks, risks + np.exp(0.5 * features[:, :, 0]) * noise, features)


def paper_world(experiment: int, rounds: int, seed: int) -> World:
    """A replication of the paper's experiment; the arms of experiment 1 have no features but their number."""
    drawn = Sampler(environment_of(experiment), 0, [seed]).draw(rounds)
    features = None if experiment == 1 else drawn.features[0]
    return World(drawn.risks[0], drawn.rewards[0], features)
