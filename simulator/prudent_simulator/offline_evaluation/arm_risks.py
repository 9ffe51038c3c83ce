"""Each arm's mean and its expectiles at several downside weights, from a log, and where the best arm changes.

Rewards of an arm are taken as they are, whatever led to its being chosen: if the incumbent gave an arm the easy cases,
the arm looks better than it is.
"""

import math
from dataclasses import dataclass

import numpy as np

from prudent_simulator.environments import FloatArray
from prudent_simulator.offline_evaluation.measures import Measure
from prudent_simulator.offline_evaluation.reading import Log

WEIGHTS = (1.0, 2.0, 4.0, 9.0, 19.0)
_GRID = 400
_HALVINGS = 40


@dataclass(frozen=True)
class Change:
    """Above this downside weight, another arm is best."""

    downside_weight: float
    before: str
    after: str


@dataclass(frozen=True)
class ArmRisks:
    """What K arms are worth at W weights.

    counts: (K,) rewards; risks: (K, W), the first of which is the mean; best_share: (K, W), in which share of the
    resamples the arm is the best; changes: of the best arm, from weight 1 to 19.
    """

    arms: list[str]
    counts: list[int]
    risks: FloatArray
    best_share: FloatArray
    changes: list[Change]

    @property
    def best(self) -> list[str]:
        """Name of the best arm at each weight."""
        return [self.arms[place] for place in self.risks.argmax(axis=0)]


def _measure(weight: float) -> Measure:
    return Measure("expectile", 1.0 / (1.0 + weight))


def _best(samples: list[FloatArray], weight: float) -> int:
    return int(np.argmax([_measure(weight).of_sample(sample) for sample in samples]))


def _changes(arms: list[str], samples: list[FloatArray]) -> list[Change]:
    """Look along a fine grid of weights, and halve the steps in which the best arm changes."""
    grid = np.geomspace(WEIGHTS[0], WEIGHTS[-1], _GRID)
    best = [_best(samples, float(weight)) for weight in grid]
    changes = []
    for place in range(1, _GRID):
        before, after = best[place - 1], best[place]
        if before == after:
            continue
        low, high = float(grid[place - 1]), float(grid[place])
        for _ in range(_HALVINGS):
            middle = math.sqrt(low * high)
            if _best(samples, middle) == before:
                low = middle
            else:
                high = middle
        changes.append(Change(high, arms[before], arms[after]))
    return changes


def arm_risks(log: Log, resamples: int, seed: int) -> ArmRisks:
    """Compare the arms of a log. resamples: of the bootstrap, arm by arm; seed: of its random numbers."""
    arms = list(dict.fromkeys(row.arm for row in log.rows))
    samples = [np.sort([row.reward for row in log.rows if row.arm == arm]) for arm in arms]
    risks = np.array([[_measure(weight).of_sample(sample) for weight in WEIGHTS] for sample in samples])
    generator = np.random.default_rng(seed)
    wins = np.zeros_like(risks)
    for _ in range(resamples):
        drawn = [generator.choice(sample, size=sample.size) for sample in samples]
        again = np.array([[_measure(weight).of_sample(sample) for weight in WEIGHTS] for sample in drawn])
        wins[again.argmax(axis=0), range(len(WEIGHTS))] += 1.0
    return ArmRisks(arms, [sample.size for sample in samples], risks, wins / resamples, _changes(arms, samples))


def in_words(result: ArmRisks) -> list[str]:
    """Say what the table means."""
    if len(result.arms) == 1:
        return ["The log has one arm only: there is nothing to choose."]
    best = result.best
    if not result.changes:
        words = [f"{best[0]} is best by the mean and at every downside weight up to {WEIGHTS[-1]:g}."]
    else:
        words = [f"By the mean, {best[0]} is best."]
        words += [
            f"From a downside weight of {change.downside_weight:.3g} on, {change.after} is better than {change.before}."
            for change in result.changes
        ]
    unsure = [
        f"{weight:g} ({name}, in {share:.0%} of the resamples)"
        for weight, name, share in zip(WEIGHTS, best, result.best_share.max(axis=0), strict=True)
        if share < 0.9
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
