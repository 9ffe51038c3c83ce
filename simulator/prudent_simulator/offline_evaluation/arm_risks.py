"""Each arm's mean and its expectiles at several downside weights, from a log, and where the best arm changes.

Rewards of an arm are taken as they are, whatever led to its being chosen: if the incumbent gave an arm the easy cases,
the arm looks better than it is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prudent_simulator.environments import BoolArray, FloatArray
from prudent_simulator.offline_evaluation.measures import Measure
from prudent_simulator.offline_evaluation.reading import Log

WEIGHTS = (1.0, 2.0, 4.0, 9.0, 19.0)
_GRID = 400
_HALVINGS = 40
_EQUAL = 1e-9
"""Relative to the largest reward: risks that are closer than this are equal, but for rounding."""


@dataclass(frozen=True)
class Change:
    """Above this downside weight, another arm is best. before, after: its name, or those of several equal ones."""

    downside_weight: float
    before: str
    after: str
    words: str


@dataclass(frozen=True)
class ArmRisks:
    """What K arms are worth at W weights.

    counts: (K,) rewards; risks: (K, W), the first of which is the mean; leaders: at each weight the arms with the
    largest risk, one unless several are equal; best_share: (K, W), in which share of the resamples the arm is the
    best, equals sharing; changes: of the leaders, from weight 1 to 19.
    """

    arms: list[str]
    counts: list[int]
    risks: FloatArray
    leaders: list[list[str]]
    best_share: FloatArray
    changes: list[Change]

    @property
    def best(self) -> list[str | None]:
        """Name of the best arm at each weight, None where several are equal."""
        return [arms[0] if len(arms) == 1 else None for arms in self.leaders]


def _measure(weight: float) -> Measure:
    return Measure("expectile", 1.0 / (1.0 + weight))


def _risks(samples: list[FloatArray], weights: Sequence[float]) -> FloatArray:
    """Give the risk of each sample at each weight, (K, W)."""
    return np.array([[_measure(weight).of_sample(sample) for weight in weights] for sample in samples])


def _are_best(risks: FloatArray, samples: list[FloatArray]) -> BoolArray:
    """Say of each arm and weight whether no arm is better there, (K, W)."""
    largest = max(float(np.abs(sample).max()) for sample in samples)
    are_best: BoolArray = risks >= risks.max(axis=0) - _EQUAL * largest
    return are_best


def _leaders(samples: list[FloatArray], weight: float) -> list[int]:
    return np.flatnonzero(_are_best(_risks(samples, [weight]), samples)[:, 0]).tolist()


def _changes(arms: list[str], samples: list[FloatArray]) -> list[Change]:
    """Look along a fine grid of weights, and halve the steps in which the best arms change."""
    grid = np.geomspace(WEIGHTS[0], WEIGHTS[-1], _GRID)
    leaders = [_leaders(samples, float(weight)) for weight in grid]
    changes = []
    for place in range(1, _GRID):
        before, after = leaders[place - 1], leaders[place]
        if before == after:
            continue
        low, high = float(grid[place - 1]), float(grid[place])
        for _ in range(_HALVINGS):
            middle = math.sqrt(low * high)
            if _leaders(samples, middle) == before:
                low = middle
            else:
                high = middle
        changes.append(_change(high, [arms[k] for k in before], [arms[k] for k in after]))
    return changes


def _together(arms: Sequence[str]) -> str:
    return arms[0] if len(arms) == 1 else f"{', '.join(arms[:-1])} and {arms[-1]}"


def _change(weight: float, before: Sequence[str], after: Sequence[str]) -> Change:
    """Say who is better than whom: an arm that leads on both sides is not better than before."""
    gone = [arm for arm in before if arm not in after]
    if not gone:
        what = f"{_together(after)} are equal"
    elif len(after) == 1:
        what = f"{after[0]} is better than {_together(gone)}"
    else:
        what = f"{_together(after)} are equal, and better than {_together(gone)}"
    words = f"From a downside weight of {weight:.3g} on, {what}."
    return Change(weight, _together(before), _together(after), words)


def arm_risks(log: Log, resamples: int, seed: int) -> ArmRisks:
    """Compare the arms of a log. resamples: of the bootstrap, arm by arm; seed: of its random numbers."""
    arms = list(dict.fromkeys(row.arm for row in log.rows))
    samples = [np.sort([row.reward for row in log.rows if row.arm == arm]) for arm in arms]
    risks = _risks(samples, WEIGHTS)
    generator = np.random.default_rng(seed)
    wins = np.zeros_like(risks)
    for _ in range(resamples):
        drawn = [generator.choice(sample, size=sample.size) for sample in samples]
        winners = _are_best(_risks(drawn, WEIGHTS), drawn)
        wins += winners / winners.sum(axis=0)
    leaders = [[arms[k] for k in np.flatnonzero(column)] for column in _are_best(risks, samples).T]
    counts = [sample.size for sample in samples]
    return ArmRisks(arms, counts, risks, leaders, wins / resamples, _changes(arms, samples))


def in_words(result: ArmRisks) -> list[str]:
    """Say what the table means."""
    if len(result.arms) == 1:
        return ["The log has one arm only: there is nothing to choose."]
    first = result.leaders[0]
    are = "is best" if len(first) == 1 else "are equal" if len(first) == len(result.arms) else "are equal, and best"
    if not result.changes:
        words = [f"{_together(first)} {are} by the mean and at every downside weight up to {WEIGHTS[-1]:g}."]
    else:
        words = [f"By the mean, {_together(first)} {are}.", *(change.words for change in result.changes)]
    unsure = [
        f"{weight:g} ({name}, in {share:.0%} of the resamples)"
        for weight, name, share in zip(WEIGHTS, result.best, result.best_share.max(axis=0), strict=True)
        if name is not None and share < 0.9
    ]
    if unsure:
        words.append(f"The log does not settle which arm is best at downside weight {'; '.join(unsure)}.")
    # At weight w about one reward in 1 + w decides as much as all others together.
    short = [arm for arm, count in zip(result.arms, result.counts, strict=True) if count < 10.0 * (1.0 + WEIGHTS[-1])]
    if short:
        words.append(
            f"Fewer than {10 * (1 + WEIGHTS[-1]):.0f} rewards: {', '.join(short)}. Rare bad outcomes may be missing, "
            "and then the risks at large weights look too good."
        )
    return words
