"""How far estimates end from those of exact fits for ever, where one pass takes over after so many observations.

Four features and a constant, a linear reward with noise of Student's t with 4 degrees of freedom. Prints, for each
measure, the largest squared distance of a parameter in squared standard errors (sandwich) of the exact fit, medians
over the runs, as a table. With --times, how long the takeover at 10,000 observations takes.
"""

import argparse
import sys
import time

import numpy as np

from prudent.core.estimators import ExactMinimizer
from prudent.core.estimators.handover import one_pass_after
from prudent.core.measures import Array, Entropic, Expectile, Mean, Measure

OBSERVATIONS, FEATURES = 30_000, 5
UNTIL = (100, 1_000, 3_000, 10_000)
MEASURES: dict[str, Measure] = {
    "mean": Mean(),
    "expectile 0.1": Expectile(0.1),
    "entropic risk, gamma -0.5": Entropic(-0.5, -20.0, 20.0),
}


DIMENSIONS = (5, 20, 50, 100)


def observations(count: int, dimension: int, seed: int) -> tuple[Array, list[float]]:
    """Features, (count, dimension), the last of them 1, and rewards."""
    random = np.random.default_rng(seed)
    x = random.standard_normal((count, dimension))
    x[:, -1] = 1.0
    weights = random.standard_normal(dimension) * np.sqrt(FEATURES / dimension)
    return x, (x @ weights + np.clip(random.standard_t(4, count), -12.0, 12.0)).tolist()


def milliseconds(measure: Measure, dimension: int) -> float:
    """Processor time of the takeover, the least of three."""
    exact = ExactMinimizer(measure.loss, 1, dimension, 1.0, None)
    for row, reward in zip(*observations(UNTIL[-1], dimension, 0), strict=True):
        exact.observe(0, row, reward)
    found = []
    for _ in range(3):
        started = time.thread_time()
        one_pass_after(exact)
        found.append(time.thread_time() - started)
    return 1e3 * min(found)


def distances(measure: Measure, seed: int) -> list[float]:
    """For each number of observations, the largest squared distance of a parameter, in squared standard errors."""
    x, y = observations(OBSERVATIONS, FEATURES, seed)
    exact = ExactMinimizer(measure.loss, 1, FEATURES, 1.0, None)
    switched = []
    for row, reward in zip(x, y, strict=True):
        exact.observe(0, row, reward)
        for one in switched:
            one.observe(0, row, reward)
        if exact.observations in UNTIL:
            switched.append(one_pass_after(exact))
    exact.refresh()
    inverse = np.linalg.inv(exact.weighted_gram[0] + exact.regularization * np.eye(FEATURES))
    moments = exact.score_moments(0, has_intercept=True)
    assert moments is not None  # noqa: S101  # no ball, and certified
    errors = moments.quadratics(inverse)
    return [float(((one.theta[0] - exact.theta[0]) ** 2 / errors).max()) for one in switched]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--times", action="store_true")
    options = parser.parse_args()
    if options.times:
        print_times()
    else:
        print_distances(options.runs)


def print_times() -> None:
    """One row for each number of features."""
    sys.stdout.write(f"| features | {' | '.join(MEASURES)} |\n|---|{'---|' * len(MEASURES)}\n")
    for dimension in DIMENSIONS:
        times = " | ".join(f"{milliseconds(measure, dimension):.0f} ms" for measure in MEASURES.values())
        sys.stdout.write(f"| {dimension} | {times} |\n")


def print_distances(runs: int) -> None:
    """One row for each measure."""
    sys.stdout.write(f"| | {' | '.join(f'{count:,}' for count in UNTIL)} |\n|---|{'---|' * len(UNTIL)}\n")
    for name, measure in MEASURES.items():
        medians = np.median([distances(measure, seed) for seed in range(runs)], axis=0)
        sys.stdout.write(f"| {name} | {' | '.join(f'{one:.0e}' for one in medians)} |\n")


if __name__ == "__main__":
    main()
