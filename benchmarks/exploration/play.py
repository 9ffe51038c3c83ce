"""Playing a world, and what came of it."""

from dataclasses import dataclass

import numpy as np

from benchmarks.exploration.learners import Player
from benchmarks.exploration.problems import Problem
from benchmarks.exploration.worlds import World
from prudent_simulator.environments import FloatArray, IntArray

POINTS = 60
"""Of a run's curve: as many rounds as a picture needs."""
LOCK_SHARE, LOCK_OTHER, LOCK_REGRET = 0.02, 0.9, 0.5


@dataclass(frozen=True)
class Run:
    """One learner in one world. regret: (POINTS,) running totals after the rounds of `points`, reward units.

    uniform: (POINTS,) what a uniform draw among the arms that may be played is expected to lose in the same rounds.
    """

    regret: list[float]
    uniform: list[float]
    is_locked: bool


def points(rounds: int) -> IntArray:
    """The rounds after which a curve is kept, the last one among them; counted from 0."""
    return np.unique(np.linspace(0, rounds - 1, min(rounds, POINTS)).astype(np.int64))


def play(world: World, player: Player, name: str) -> IntArray:
    """Play all rounds; returns the arms chosen, (T,).

    A reward is learned before the decision that comes `delays` rounds after the next one. name: the decisions' ids
    are NAME-0, NAME-1 and so on.
    """
    rounds, arms = world.rewards.shape
    rewards: list[list[float]] = world.rewards.tolist()
    joins = [0] * arms if world.joins is None else world.joins.tolist()
    waits = [0] * rounds if world.delays is None else world.delays.tolist()
    due: list[list[int]] = [[] for _ in range(rounds + 1)]
    known = sum(at <= 0 for at in joins)
    chosen = np.zeros(rounds, dtype=np.int64)
    for number in range(rounds):
        while known < arms and joins[known] <= number:
            player.add_arm()
            known += 1
        for past in due[number]:
            arm = int(chosen[past])
            player.learn(arm, None if world.features is None else world.features[past], rewards[past][arm])
        features = None if world.features is None else world.features[number]
        chosen[number] = player.choose(f"{name}-{number}", features)
        due[min(number + 1 + waits[number], rounds)].append(number)
    return chosen


def judged(problem: Problem, world: World, chosen: IntArray) -> Run:
    """The regret of what was chosen, and whether the learner has locked in."""
    gaps = world.gaps()
    rounds = len(chosen)
    regret, uniform = gaps[np.arange(rounds), chosen], np.nanmean(gaps, axis=1)
    kept = points(rounds)
    return Run(
        np.cumsum(regret)[kept].tolist(),
        np.cumsum(uniform)[kept].tolist(),
        _is_locked(problem, gaps, chosen, regret, uniform),
    )


def _is_locked(problem: Problem, gaps: FloatArray, chosen: IntArray, regret: FloatArray, uniform: FloatArray) -> bool:
    """Whether the last quarter was lost.

    Without features: the best arm has less than 2 per cent of it and another one more than 90. With features, where
    no arm is best in all rounds: its regret is above half of what a uniform draw loses in it.
    """
    last = slice(len(chosen) - len(chosen) // 4, len(chosen))
    if problem.model != "multi-armed":
        return bool(regret[last].sum() > LOCK_REGRET * uniform[last].sum())
    shares = np.bincount(chosen[last], minlength=gaps.shape[1]) / len(chosen[last])
    best = int(np.nanargmin(gaps[-1]))
    return bool(shares[best] < LOCK_SHARE and shares.max() > LOCK_OTHER)
