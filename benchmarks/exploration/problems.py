"""The problems of the benchmark. Each is a campaign as somebody might have it, played without any dial."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.exploration.worlds import (
    World,
    arms_world,
    cases_world,
    delayed,
    generator_of,
    joined,
    linear_world,
    paper_world,
    swapped,
)
from prudent_simulator.custom_environments.laws import Discrete, Law, LogNormal, Mixture, Normal, Part, Simple

LATE = 500
DELAYS = (50, 500)
Draw = Callable[[int, np.random.Generator], World]


@dataclass(frozen=True)
class Problem:
    """A campaign and the worlds that it is played in.

    text: what it is, for the page. level: of the expectile, None for the mean. dimension: of the features, 0 for
    `multi-armed`. starters: how many arms there are at creation. experiment: the paper's number, or None.
    """

    name: str
    text: str
    rounds: int
    level: float | None
    arms: int
    draw: Draw
    model: str = "multi-armed"
    dimension: int = 0
    starters: int | None = None
    experiment: int | None = None

    def world(self, seed: int, rounds: int | None = None) -> World:
        """Draw one run's world. rounds: how many, instead of all of them, for a quick look."""
        count = self.rounds if rounds is None else rounds
        if self.experiment is not None:
            return paper_world(self.experiment, count, seed)
        return self.draw(count, generator_of(self.name, seed))

    def campaign(self, seed: int) -> dict[str, Any]:
        """The body of `POST /campaigns`, with every dial left alone."""
        risk = {"measure": "mean"} if self.level is None else {"measure": "expectile", "level": self.level}
        model = {"type": self.model} | ({"dimension": self.dimension} if self.dimension else {})
        count = self.arms if self.starters is None else self.starters
        arms = [{"arm_id": f"arm-{number}"} for number in range(1, count + 1)]
        return {"campaign_id": f"{self.name}-{seed}", "risk": risk, "model": model, "arms": arms, "seed": seed}


def normal(mean: float, deviation: float) -> Normal:
    """A normal law."""
    return Normal(law="normal", mean=mean, deviation=deviation)


def now_and_then(share: float, rare: Simple, usual: Simple) -> Mixture:
    """Usually this law, and the rare one with a probability of `share`."""
    parts = [Part(probability=share, of=rare), Part(probability=1.0 - share, of=usual)]
    return Mixture(law="mixture", parts=parts)


def always(value: float) -> Discrete:
    """One value."""
    return Discrete(law="discrete", values=[value], probabilities=[1.0])


def coin(win: float, prize: float = 1.0) -> Discrete:
    """The prize with a probability of `win`, else 0."""
    return Discrete(law="discrete", values=[prize, 0.0], probabilities=[win, 1.0 - win])


GAUSSIAN = ((1.0, 0.5), (1.6, 1.0), (2.2, 2.0), (3.2, 3.0), (1.2, 1.0))
"""(mean, deviation). By their 0.1-expectiles the second is the best and the fifth the worst."""
BEST, WORST = 1, 4
CATASTROPHES = (
    now_and_then(0.01, always(-50.0), normal(2.0, 1.0)),
    normal(1.0, 1.0),
    now_and_then(0.003, always(-50.0), normal(1.5, 1.0)),
    normal(0.6, 0.5),
)
REVENUE = tuple(
    now_and_then(share, LogNormal(law="lognormal", log_mean=middle, log_deviation=1.2), always(0.0))
    for share, middle in ((0.05, 3.0), (0.1, 2.6), (0.1, 2.0), (0.2, 1.0), (0.03, 3.2))
)
TAXI = (
    (normal(25.0, 2.0), normal(15.0, 2.0), normal(10.0, 2.0)),
    (now_and_then(1 / 3, always(-35.0), normal(25.0, 2.0)), normal(15.0, 2.0), normal(10.0, 2.0)),
)


def _gaussian(offset: float = 0.0) -> list[Law]:
    return [normal(offset + mean, deviation) for mean, deviation in GAUSSIAN]


def _arms(laws: Sequence[Law], level: float | None) -> Draw:
    return lambda rounds, generator: arms_world(laws, level, rounds, generator)


def _changed(change: Callable[[World, np.random.Generator], World]) -> Draw:
    return lambda rounds, generator: change(arms_world(_gaussian(), 0.1, rounds, generator), generator)


def _twenty(rounds: int, generator: np.random.Generator) -> World:
    middles, deviations = generator.standard_normal((10, 20)), generator.uniform(0.5, 2.0, size=20)
    laws = [[normal(m, s) for m, s in zip(row, deviations.tolist(), strict=True)] for row in middles.tolist()]
    return cases_world(laws, 0.2, rounds, generator)


def _nothing(rounds: int, generator: np.random.Generator) -> World:
    raise TypeError(f"the paper's worlds are drawn by its experiment's number: {rounds}, {generator}")


ALL: tuple[Problem, ...] = (
    Problem(
        "gaussian", "Five normal arms that differ more in spread than in level.", 2_000, 0.1, 5, _arms(_gaussian(), 0.1)
    ),
    Problem(
        "offset",
        "The same arms with 20 added to every reward: minutes, prices, temperatures.",
        2_000,
        0.1,
        5,
        _arms(_gaussian(20.0), 0.1),
    ),
    Problem(
        "clicks",
        "Clicks of 1, 2, 3, 4 and 5 per cent; the mean.",
        3_000,
        None,
        5,
        _arms([coin(n / 100) for n in range(1, 6)], None),
    ),
    Problem(
        "revenue",
        "Revenue of visitors: 0 but for 3 to 20 per cent of them, who spend a lognormal amount.",
        2_000,
        0.2,
        5,
        _arms(REVENUE, 0.2),
    ),
    Problem(
        "catastrophes",
        "Four arms, of which the two best on average lose 50 in 1 of 100 and in 3 of 1,000 rounds.",
        3_000,
        0.2,
        4,
        _arms(CATASTROPHES, 0.2),
    ),
    Problem("catastrophes-long", "The same catastrophes, 20,000 rounds.", 20_000, 0.2, 4, _arms(CATASTROPHES, 0.2)),
    Problem(
        "jackpot",
        "A sure 0.5 against 10 with a probability of 0.1; the mean.",
        2_000,
        None,
        2,
        _arms([always(0.5), coin(0.1, 10.0)], None),
    ),
    Problem(
        "late-arm",
        f"The normal arms, of which the best is added in round {LATE}.",
        2_000,
        0.1,
        5,
        _changed(lambda world, _: joined(world, BEST, LATE)),
        starters=4,
    ),
    Problem(
        "delay",
        f"The normal arms, each reward learned {DELAYS[0]} to {DELAYS[1]} rounds later.",
        3_000,
        0.1,
        5,
        _changed(lambda world, generator: delayed(world, *DELAYS, generator)),
    ),
    Problem(
        "drift",
        "The normal arms, of which the best and the worst change places at half time.",
        2_000,
        0.1,
        5,
        _changed(lambda world, _: swapped(world, BEST, WORST, len(world.risks) // 2)),
    ),
    Problem(
        "taxi",
        "The taxi of the tutorial: three routes, and whether it is the rush hour.",
        2_000,
        0.2,
        3,
        lambda rounds, generator: cases_world(TAXI, 0.2, rounds, generator),
        "disjoint",
        1,
    ),
    Problem(
        "twenty-arms",
        "Twenty arms and ten kinds of customer, whose 200 levels are standard normal.",
        6_000,
        0.2,
        20,
        _twenty,
        "disjoint",
        10,
    ),
    Problem(
        "shared",
        "Five arms described by five features; the spread of the rewards depends on the first.",
        2_000,
        0.2,
        5,
        lambda rounds, generator: linear_world(normal(0.0, 1.0), 0.2, rounds, generator, arms=5, size=5),
        "shared",
        5,
    ),
    Problem("experiment-1", "The paper's experiment 1.", 1_500, 0.1, 2, _nothing, experiment=1),
    Problem("experiment-2", "The paper's experiment 2.", 1_500, 0.1, 2, _nothing, "shared", 3, experiment=2),
)
