"""How often the alarm that the world changed is false, and how many observations it takes.

Campaigns of 10,000 rounds with three arms, all runs of a world at once: without features each arm has a fit of its
own, with features all share one, by ridge regression for the mean and by Newton steps for the expectile. The arm with
the best index is played, its bonus times |N(0, 1)|. In stationary worlds the share of runs is counted in which the
alarm of any arm is raised; in the others the leading arm's rewards rise or fall by one standard deviation halfway, and
its own observations are counted until its alarm. The tests of all runs step together, in arrays; the first runs are
repeated by the service's own, which must raise the same alarms. The constants were chosen with seeds from 1 to 99.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prudent.core import change
from prudent.core.change import ChangeWatch

Array = NDArray[np.float64]
ROUNDS, ARMS, REPEATED = 10_000, 3, 4
HALF = ROUNDS // 2
STUDENT = 2.5


def _student(rng: np.random.Generator, runs: int) -> Array:
    return rng.standard_t(STUDENT, runs) / math.sqrt(STUDENT / (STUDENT - 2.0))


def _lognormal(rng: np.random.Generator, runs: int) -> Array:
    square = 1.2**2
    deviation = math.sqrt((math.exp(square) - 1.0) * math.exp(square))
    return (math.exp(square / 2.0) - rng.lognormal(0.0, 1.2, runs)) / deviation


class World(NamedTuple):
    """levels: of the arms, in standard deviations of the noise; of clicks, their probabilities, without noise."""

    name: str
    noise: Callable[[np.random.Generator, int], Array] | None
    levels: tuple[float, float, float] = (0.0, 0.3, 0.6)
    level: float = 0.5
    features: int = 0
    directions: tuple[float, ...] = (-1.0, 1.0)


def _normal(rng: np.random.Generator, runs: int) -> Array:
    return rng.standard_normal(runs)


def _exponential(rng: np.random.Generator, runs: int) -> Array:
    return 1.0 - rng.exponential(1.0, runs)


def _rare(rng: np.random.Generator, runs: int) -> Array:
    return np.where(rng.random(runs) < 0.1, -3.0, 1.0 / 3.0)


WORLDS = (
    World("normal, mean", _normal),
    World("normal, expectile .1", _normal, level=0.1),
    World("Student's t, 2.5 degrees of freedom, mean", _student),
    World("lognormal losses, mean", _lognormal),
    World("exponential losses, expectile .1", _exponential, level=0.1),
    World("rare losses, expectile .1", _rare, level=0.1),
    World("clicks of 3, 4 and 5%, mean", None, (0.03, 0.04, 0.05), directions=(1.0,)),
    World("clicks of 30, 40 and 50%, mean", None, (0.3, 0.4, 0.5)),
    World("four features, spread depends on them, mean", _normal, features=4),
    World("four features, spread depends on them, expectile .1", _normal, level=0.1, features=4),
)


class Round(NamedTuple):
    """What all runs saw, (runs, ...): the block and the arm, its features and reward, and the fit afterwards."""

    block: NDArray[np.intp]
    arm: NDArray[np.intp]
    features: Array
    reward: Array
    theta: Array


def play(world: World, runs: int, rng: np.random.Generator, shift: float, leaders: NDArray[np.intp]) -> Iterator[Round]:
    """Yield the rounds. leaders: (runs,), filled in halfway, where their rewards shift."""
    width, blocks = max(1, world.features), 1 if world.features else ARMS
    theta, inverse = np.zeros((runs, blocks, width)), np.tile(np.eye(width), (runs, blocks, 1, 1))
    every, plays = np.arange(runs), np.zeros((runs, ARMS))
    own = np.zeros((runs, ARMS), dtype=np.intp) if world.features else np.tile(np.arange(ARMS), (runs, 1))
    for number in range(ROUNDS):
        if number == HALF:
            leaders[:] = plays.argmax(axis=1)
        x = np.ones((runs, ARMS, width))
        x[:, :, 1:] = rng.standard_normal((runs, ARMS, width - 1))
        metric = inverse[every[:, None], own]
        index = np.einsum("rki,rki->rk", x, theta[every[:, None], own])
        widths = np.sqrt(np.einsum("rki,rkij,rkj->rk", x, metric, x))
        index += 0.5 * math.sqrt(math.log(2.0 + number)) * np.abs(rng.standard_normal((runs, 1))) * widths
        arm = index.argmax(axis=1)
        plays[every, arm] += 1.0
        features, block = x[every, arm], own[every, arm]
        moved = np.where((arm == leaders) & (number >= HALF), shift, 0.0)
        reward = draw_rewards(world, rng, arm, features, moved)
        rest = reward - (features * theta[every, block]).sum(axis=1)
        curvature = 2.0 * np.where(rest < 0.0, 1.0 - world.level, world.level)
        direction = np.einsum("rij,rj->ri", inverse[every, block], features)
        share = curvature / (1.0 + curvature * (features * direction).sum(axis=1))
        inverse[every, block] -= share[:, None, None] * direction[:, :, None] * direction[:, None, :]
        theta[every, block] += (share * rest)[:, None] * direction
        yield Round(block, arm, features, reward, theta[every, block])


def draw_rewards(world: World, rng: np.random.Generator, arm: NDArray[np.intp], features: Array, moved: Array) -> Array:
    """Return the rewards, (runs,). moved: by how many standard deviations."""
    levels = np.array(world.levels)[arm]
    if world.noise is None:
        return (rng.random(len(arm)) < levels + moved * np.sqrt(levels * (1.0 - levels))).astype(np.float64)
    noise = world.noise(rng, len(arm))
    if not world.features:
        return levels + noise + moved
    # one fit for all arms knows none by name; the spread is 1 on average over the second feature
    spread = np.exp(0.3 * features[:, 1] - 0.045)
    return features @ np.linspace(0.5, -0.5, world.features) + spread * noise + moved


class Watches:
    """`ChangeWatch` of many runs, with the same numbers. alarms: (runs, arms), the first round with one."""

    def __init__(self, runs: int, blocks: int, width: int) -> None:
        self._every = np.arange(runs)
        self._sums = np.zeros((5, runs, ARMS))
        """Of each stream: residuals, their mean, their sum of squares about it, and both S."""
        self._observed = np.zeros((runs, blocks), dtype=np.int64)
        self._parameters = np.full((runs, blocks, width), np.nan)
        self.alarms = np.full((runs, ARMS), ROUNDS)

    def step(self, number: int, seen: Round) -> None:
        """Test a round. A stream that has raised its alarm is looked at no more."""
        every, arm = self._every, seen.arm
        known = self._parameters[every, seen.block]
        residual = seen.reward - (known * seen.features).sum(axis=1)
        count, mean, squares, rise, fall = self._sums[:, every, arm]
        with np.errstate(invalid="ignore", divide="ignore"):
            spread = np.sqrt(squares / count)
            score = np.clip((residual - mean) / spread, -change.SCORE_MAX, change.SCORE_MAX)
            slack = change.DRIFT + change.ERRORS / np.sqrt(count)
        tested = (count >= change.RESIDUALS_MIN) & (spread > change.ROUNDING * np.abs(seen.reward))
        rise = np.where(tested, np.maximum(0.0, rise + score - slack), rise)
        fall = np.where(tested, np.maximum(0.0, fall - score - slack), fall)
        count = count + 1.0
        step = residual - mean
        mean = mean + step / count
        squares = squares + step * (residual - mean)
        learned = ~np.isnan(residual)
        self._sums[:, every, arm] = np.where(
            learned, np.stack([count, mean, squares, rise, fall]), self._sums[:, every, arm]
        )
        raised = learned & (np.maximum(rise, fall) > change.THRESHOLD)
        alarms = self.alarms[every, arm]
        self.alarms[every, arm] = np.where(raised & (alarms == ROUNDS), number, alarms)
        self._observed[every, seen.block] += 1
        counts = self._observed[every, seen.block]
        lower = np.frexp(counts)[1] - 3
        due = (counts >= change.ESTIMATES_MIN) & (counts & ((1 << np.maximum(lower, 0)) - 1) == 0)
        self._parameters[every, seen.block] = np.where(due[:, None], seen.theta, known)


class DisagreementError(Exception):
    """The tests in arrays and the service's own have raised different alarms."""


def measure(world: World, runs: int, seed: int, shift: float) -> tuple[float, Array]:
    """Return the share of runs with an alarm before anything changes, and how late the others' right one is, (n,).

    Where nothing changes, the first is the share with any alarm. Raises DisagreementError.
    """
    rng, leaders = np.random.default_rng(seed), np.full(runs, -1)
    blocks, every = 1 if world.features else ARMS, np.arange(runs)
    watches = Watches(runs, blocks, max(1, world.features))
    own = [ChangeWatch(blocks, ARMS) for _ in range(min(runs, REPEATED))]
    first: list[dict[int, int]] = [{} for _ in own]
    seen_since = np.zeros((runs, HALF + 1), dtype=np.int64)
    for number, seen in enumerate(play(world, runs, rng, shift, leaders)):
        watches.step(number, seen)
        if number >= HALF:
            place = number - HALF
            seen_since[:, place + 1] = seen_since[:, place] + (seen.arm == leaders)
        for run, watch in enumerate(own):
            block, arm = int(seen.block[run]), int(seen.arm[run])
            if watch.observe(block, seen.features[run], float(seen.reward[run]), arm, number + 1):
                watch.renew(block, seen.theta[run], 0.0)
            if arm not in first[run] and arm in watch.changes():
                first[run][arm] = number
    for run, alarms in enumerate(first):
        if alarms != {arm: place for arm, place in enumerate(watches.alarms[run].tolist()) if place < ROUNDS}:
            raise DisagreementError
    if not shift:
        return float((watches.alarms < ROUNDS).any(axis=1).mean()), np.zeros(0)
    raised = watches.alarms[every, leaders]
    delays = np.where(raised < ROUNDS, seen_since[every, np.clip(raised - HALF + 1, 0, HALF)], np.inf)
    return float((raised < HALF).mean()), delays[raised >= HALF]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--changes", type=int, default=300, help="runs with a change")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--only", default="", help="worlds whose names contain this")
    options = parser.parse_args()
    sys.stdout.write("| rewards and measure | false alarms | falls: within 150, median | rises: within 150, median |\n")
    sys.stdout.write("|---|---|---|---|\n")
    for place, world in enumerate(WORLDS):
        if options.only not in world.name:
            continue
        false, _ = measure(world, options.runs, options.seed + place, 0.0)
        cells = {-1.0: "-", 1.0: "-"}
        for shift in world.directions:
            _, delays = measure(world, options.changes, options.seed + 1_000 + place, shift)
            cells[shift] = f"{(delays <= 150).mean():.1%}, {np.median(delays):.0f}"
        sys.stdout.write(f"| {world.name} | {false:.1%} | {cells[-1.0]} | {cells[1.0]} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
