"""Each arm's mean and its risk along the dial of a measure, from a log, and where the best arm changes.

Rewards of an arm are taken as they are, whatever led to its being chosen: if the incumbent gave an arm the easy cases,
the arm looks better than it is.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from prudent_simulator.environments import BoolArray, FloatArray
from prudent_simulator.offline_evaluation.measures import Measure
from prudent_simulator.offline_evaluation.reading import Log

_GRID = 400
_HALVINGS = 40
_EQUAL, _ROUNDING = 1e-9, 1e-15
"""Relative to the reward farthest from the median, and to the median: closer risks are equal, but for rounding."""


@dataclass(frozen=True)
class Dial:
    """How cautious a measure is, from the first of the values to the last.

    key: its name in JSON; noun: in a sentence; first: what the first value is. rewards_min: how many an arm should have
    for the last value. measure: from a value.
    """

    key: str
    noun: str
    first: str
    values: tuple[float, ...]
    rewards_min: int
    measure: Callable[[float], Measure]

    def grid(self) -> FloatArray:
        """Values in fine steps: equal ratios, or equal differences where the first is 0."""
        space = np.geomspace if self.values[0] > 0.0 else np.linspace
        return np.asarray(space(self.values[0], self.values[-1], _GRID))

    def between(self, low: float, high: float) -> float:
        """The middle of two values, as the grid goes."""
        return math.sqrt(low * high) if self.values[0] > 0.0 else 0.5 * (low + high)


class DialName(StrEnum):
    """The measures that have one."""

    EXPECTILE = "expectile"
    CVAR = "cvar"
    QUANTILE = "quantile"
    MEAN_VARIANCE = "mean-variance"


# At weight w about one reward in 1 + w decides as much as all others together; at level a the lowest share a decides.
DIALS: dict[str, Dial] = {
    "expectile": Dial(
        "downside_weight", "downside weight", "the mean", (1.0, 2.0, 4.0, 9.0, 19.0), 200,
        lambda weight: Measure("expectile", 1.0 / (1.0 + weight)),
    ),
    "cvar": Dial(
        "level", "level", "the mean", (1.0, 0.5, 0.25, 0.1, 0.05), 200, lambda level: Measure("cvar", level)
    ),
    "quantile": Dial(
        "level", "level", "the median", (0.5, 0.25, 0.1, 0.05), 200, lambda level: Measure("quantile", level)
    ),
    "mean-variance": Dial(
        "aversion", "aversion", "the mean", (0.0, 0.5, 1.0, 1.5, 2.0), 50,
        lambda aversion: Measure("mean-variance", aversion, "deviation"),
    ),
}  # fmt: skip
"""By measure. Of mean-variance the deviation is punished."""


@dataclass(frozen=True)
class Change:
    """From this value of the dial on, another arm is best. before, after: its name, or those of several equal ones."""

    at: float
    before: str
    after: str
    words: str


@dataclass(frozen=True)
class ArmRisks:
    """What K arms are worth at the W values of a dial.

    counts: (K,) rewards; risks: (K, W); leaders: at each value the arms with the largest risk, one unless several are
    equal; best_share: (K, W), in which share of the resamples the arm is the best, equals sharing; changes: of the
    leaders, from the first value to the last.
    """

    dial: Dial
    arms: list[str]
    counts: list[int]
    risks: FloatArray
    leaders: list[list[str]]
    best_share: FloatArray
    changes: list[Change]

    @property
    def best(self) -> list[str | None]:
        """Name of the best arm at each value, None where several are equal."""
        return [arms[0] if len(arms) == 1 else None for arms in self.leaders]


def _risks(samples: list[FloatArray], dial: Dial, values: Sequence[float]) -> FloatArray:
    """Give the risk of each sample at each value, (K, W)."""
    return np.array([[dial.measure(value).of_sample(sample) for value in values] for sample in samples])


def _tolerance(samples: list[FloatArray], median: float) -> float:
    """Give the difference of two risks below which they are equal, but for rounding. samples: less the median."""
    largest = max(float(np.abs(sample).max()) for sample in samples)
    return _EQUAL * largest + _ROUNDING * abs(median)


def _are_best(risks: FloatArray, tolerance: float) -> BoolArray:
    """Say of each arm and weight whether no arm is better there, (K, W)."""
    are_best: BoolArray = risks >= risks.max(axis=0) - tolerance
    return are_best


def _leaders(samples: list[FloatArray], dial: Dial, value: float, tolerance: float) -> list[int]:
    return np.flatnonzero(_are_best(_risks(samples, dial, [value]), tolerance)[:, 0]).tolist()


def _changes(arms: list[str], samples: list[FloatArray], dial: Dial, tolerance: float) -> list[Change]:
    """Look along a fine grid of values, and halve the steps in which the best arms change."""
    grid = dial.grid()
    leaders = [_leaders(samples, dial, float(value), tolerance) for value in grid]
    changes = []
    for place in range(1, _GRID):
        before, after = leaders[place - 1], leaders[place]
        if before == after:
            continue
        low, high = float(grid[place - 1]), float(grid[place])
        for _ in range(_HALVINGS):
            middle = dial.between(low, high)
            if _leaders(samples, dial, middle, tolerance) == before:
                low = middle
            else:
                high = middle
        changes.append(_change(dial, high, [arms[k] for k in before], [arms[k] for k in after]))
    return changes


def _together(arms: Sequence[str]) -> str:
    return arms[0] if len(arms) == 1 else f"{', '.join(arms[:-1])} and {arms[-1]}"


def _change(dial: Dial, value: float, before: Sequence[str], after: Sequence[str]) -> Change:
    """Say who is better than whom: an arm that leads on both sides is not better than before."""
    gone = [arm for arm in before if arm not in after]
    if not gone:
        what = f"{_together(after)} are equal"
    elif len(after) == 1:
        what = f"{after[0]} is better than {_together(gone)}"
    else:
        what = f"{_together(after)} are equal, and better than {_together(gone)}"
    article = "an" if dial.noun[0] in "aeiou" else "a"
    words = f"From {article} {dial.noun} of {value:.3g} on, {what}."
    return Change(value, _together(before), _together(after), words)


def arm_risks(log: Log, resamples: int, seed: int, measure: str = "expectile") -> ArmRisks:
    """Compare the arms of a log. resamples: of the bootstrap, arm by arm; seed: of its random numbers.

    measure: one of `DIALS`.
    """
    dial = DIALS[measure]
    arms = list(dict.fromkeys(row.arm for row in log.rows))
    # All these measures move with the rewards: relative to the median a large offset hides no differences.
    median = float(np.median([row.reward for row in log.rows]))
    samples = [np.sort([row.reward for row in log.rows if row.arm == arm]) - median for arm in arms]
    risks, tolerance = _risks(samples, dial, dial.values), _tolerance(samples, median)
    generator = np.random.default_rng(seed)
    wins = np.zeros_like(risks)
    for _ in range(resamples):
        drawn = [generator.choice(sample, size=sample.size) for sample in samples]
        winners = _are_best(_risks(drawn, dial, dial.values), tolerance)
        wins += winners / winners.sum(axis=0)
    leaders = [[arms[k] for k in np.flatnonzero(column)] for column in _are_best(risks, tolerance).T]
    counts = [sample.size for sample in samples]
    changes = _changes(arms, samples, dial, tolerance)
    return ArmRisks(dial, arms, counts, risks + median, leaders, wins / resamples, changes)


def in_words(result: ArmRisks) -> list[str]:
    """Say what the table means."""
    if len(result.arms) == 1:
        return ["The log has one arm only: there is nothing to choose."]
    first, dial = result.leaders[0], result.dial
    last = f"{dial.values[-1]:g}"
    are = "is best" if len(first) == 1 else "are equal" if len(first) == len(result.arms) else "are equal, and best"
    if not result.changes:
        reach = "up to" if dial.values[-1] > dial.values[0] else "down to"
        words = [f"{_together(first)} {are} by {dial.first} and at every {dial.noun} {reach} {last}."]
    else:
        words = [f"By {dial.first}, {_together(first)} {are}.", *(change.words for change in result.changes)]
    unsure = [
        f"{value:g} ({name}, in {share:.0%} of the resamples)"
        for value, name, share in zip(dial.values, result.best, result.best_share.max(axis=0), strict=True)
        if name is not None and share < 0.9
    ]
    if unsure:
        words.append(f"The log does not settle which arm is best at {dial.noun} {'; '.join(unsure)}.")
    short = [arm for arm, count in zip(result.arms, result.counts, strict=True) if count < dial.rewards_min]
    if short:
        size = "large" if dial.values[-1] > dial.values[0] else "small"
        words.append(
            f"Fewer than {dial.rewards_min} rewards: {', '.join(short)}. Rare bad outcomes may be missing, "
            f"and then the risks at {size} {dial.noun.split()[-1]}s look too good."
        )
    return words
