"""How often the intervals of `replay` cover with few matched rows: `python -m docs.measurements.few_rows`.

For samples of 60 and 150 rows of laws with a rare loss and without: percentiles of the bootstrap, as they were given
for any number of rows; percentile-t, as they are given below 200; and the bounds from the range of the rewards. Covered
are the mean and the expectile at level 0.2. A minute.
"""

import math
import sys
from collections.abc import Callable

import numpy as np

from prudent_simulator.custom_environments.laws import UNIFORM_MIN, Discrete, Law, Mixture, Normal, Part, expectile
from prudent_simulator.environments import FloatArray
from prudent_simulator.offline_evaluation.bounds import lower_bound, upper_bound
from prudent_simulator.offline_evaluation.measures import MEAN, Measure, bootstrap, interval, studentized

SAMPLES, RESAMPLES = 200, 200
CAUTIOUS = Measure("expectile", 0.2)


def loss_of(share: float) -> Law:
    """A normal law that loses 50 with a small probability."""
    loss = Discrete(law="discrete", values=[-50.0], probabilities=[1.0])
    usual = Normal(law="normal", mean=2.0, deviation=1.0)
    parts = [Part(probability=share, of=loss), Part(probability=1.0 - share, of=usual)]
    return Mixture(law="mixture", parts=parts)


LAWS: tuple[tuple[str, Law, float, float], ...] = (
    ("normal", Normal(law="normal", mean=2.0, deviation=1.0), -10.0, 10.0),
    ("loss in 1 of 50", loss_of(0.02), -50.0, 10.0),
    ("loss in 1 of 20", loss_of(0.05), -50.0, 10.0),
)
"""Name, law, and the range of the rewards."""


def intervals(
    rewards: FloatArray, measure: Measure, low: float, high: float, generator: np.random.Generator, resamples: int
) -> list[tuple[float, float] | None]:
    """The three intervals of one sample."""
    count = rewards.size

    def statistic(counts: FloatArray) -> FloatArray:
        value = measure.of_masses(rewards, counts / count)
        return np.array([value, measure.error_of(rewards, counts / count, counts, value)])

    value, error = statistic(np.ones(count)).tolist()
    drawn = bootstrap(statistic, count, resamples, generator)
    bounds = lower_bound(measure, rewards, low), upper_bound(measure, rewards, high)
    return [interval(drawn[:, 0]), studentized(value, error, drawn[:, 0], drawn[:, 1]), bounds]


def coverage(
    law: Law, rows: int, measure: Measure, low: float, high: float, samples: int = SAMPLES, resamples: int = RESAMPLES
) -> tuple[FloatArray, FloatArray]:
    """How often each of the three covers, and their median widths."""
    truth = law.mean if measure is MEAN else expectile(law, measure.dial)
    covered, widths = np.zeros((samples, 3)), np.full((samples, 3), np.nan)
    for seed in range(samples):
        generator = np.random.default_rng((seed, rows))
        rewards = law.quantile(np.clip(generator.random(rows), UNIFORM_MIN, 1.0 - UNIFORM_MIN))
        for place, ends in enumerate(intervals(rewards, measure, low, high, generator, resamples)):
            if ends is not None:
                covered[seed, place] = ends[0] <= truth <= ends[1]
                widths[seed, place] = ends[1] - ends[0]
    return covered.mean(axis=0), np.nanmedian(widths, axis=0)


def main(write: Callable[[str], object] = sys.stdout.write) -> None:
    """Print a table in Markdown."""
    write("| law | rows | of | percentiles | percentile-t | bounds | median widths |\n|---|---|---|---|---|---|---|\n")
    for name, law, low, high in LAWS:
        for rows in (60, 150):
            for measure in (MEAN, CAUTIOUS):
                covered, widths = coverage(law, rows, measure, low, high)
                shares = " | ".join(f"{share:.2f}" for share in covered)
                shown = ", ".join(f"{width:.2g}" for width in widths if math.isfinite(width))
                write(f"| {name} | {rows} | {measure.name} | {shares} | {shown} |\n")


if __name__ == "__main__":
    main()
