"""How often the index's interval holds, and what a bonus costs once it does: `make coverage`.

The paper's three experiments (shared model, 1,500 rounds, alpha 0.1, delta 0.05, S = L = 1, five plays of each arm
first), every bonus, a grid of noise scales and the data-driven dial, with the estimator in the ball and without.
Coverage is the share of runs in which |estimate - risk| <= bonus for both arms in all rounds after the warm-up;
regret is summed over all rounds. Bonuses are compared at the smallest noise scale at which 95 per cent of the runs
are covered, because a noise scale means something else to each of them.

The learner is `benchmarks.replications`, not the service's. Every learner meets the same worlds. Writes its tables
into docs/coverage.md, below the mark; `--quick` prints a small version and writes nothing.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import Progress

from benchmarks.coverage_settings import (
    RIDGE,
    Measured,
    Results,
    Setting,
    curvatures,
    finer,
    main_settings,
    other_settings,
)
from benchmarks.coverage_tables import equal_coverage_table, grid_tables, other_table, paper_dial_table, write_end
from benchmarks.replications import Dials, EntropicLearner, ExpectileLearner, Learner, play
from benchmarks.small_matrices import Floats
from prudent_simulator.environments import CoinArms, ContextualArms, GaussianArms, Sampler, environment_of

PAGE = Path(__file__).parents[1] / "docs" / "coverage.md"
MARK = "<!-- Written by `make coverage` from here on. -->"


@dataclass(frozen=True)
class Size:
    """How much is played."""

    runs: int
    rounds: int
    seed: int


@lru_cache(maxsize=1)
def worlds(experiment: int, size: Size) -> tuple[Floats, Floats, Floats]:
    """Features (T, d, K, R), risks and rewards (T, K, R)."""
    drawn = Sampler(environment_of(experiment), size.seed, range(size.runs)).draw(size.rounds)
    features = drawn.features.transpose(1, 3, 2, 0)
    return tuple(  # type: ignore[return-value] # three arrays in, three out
        np.ascontiguousarray(array)
        for array in (features, drawn.risks.transpose(1, 2, 0), drawn.rewards.transpose(1, 2, 0))
    )


def learner(
    experiment: int, dimension: int, runs: int, rounds: int, ball: float | None, ridge: float = RIDGE
) -> Learner:
    """A learner of the experiment's risk."""
    environment = environment_of(experiment)
    if isinstance(environment, CoinArms):
        return EntropicLearner(environment.gamma, dimension, runs, ridge, ball)
    assert isinstance(environment, GaussianArms | ContextualArms)
    return ExpectileLearner(environment.level, dimension, runs, rounds, ridge, ball)


def measure(setting: Setting, size: Size) -> dict[float | None, Measured]:
    """Play a setting, all noise scales side by side."""
    features, risks, rewards = worlds(setting.experiment, size)
    scales = setting.noise_scales
    runs = size.runs * max(len(scales), 1)
    ball = setting.radius if setting.projected else None
    dials = Dials(
        setting.bonus,
        np.repeat(scales, size.runs) if scales else None,
        setting.conditioning,
        setting.bound,
        curvatures(setting.experiment),
        setting.ridge,
    )
    player = learner(setting.experiment, features.shape[1], runs, size.rounds, ball, setting.ridge)
    played = play(player, features, risks, rewards, dials, setting.warmup)
    keys: tuple[float | None, ...] = scales or (None,)
    measured = {}
    for key, worst, regret in zip(
        keys, np.split(played.worst, len(keys)), np.split(played.regret, len(keys)), strict=True
    ):
        low, median, high = np.percentile(regret, (5, 50, 95))
        measured[key] = Measured(float((worst <= 1.0).mean()), float(median), float(low), float(high))
    return measured


def measure_all(settings: Sequence[Setting], size: Size, processes: int, title: str) -> Results:
    """Measure settings on several cores, with a progress bar; results in the settings' order."""
    results: Results = {}
    with Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task(title, total=len(settings))
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            pending = {pool.submit(measure, setting, size): setting for setting in settings}
            for done in as_completed(pending):
                results[pending[done]] = done.result()
                progress.advance(bar)
    return {setting: results[setting] for setting in settings}


def main() -> None:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=1500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="40 runs of 300 rounds, printed and not written")
    options = parser.parse_args()
    size = Size(40, 300, options.seed) if options.quick else Size(options.runs, options.rounds, options.seed)
    began = time.monotonic()
    results = measure_all(main_settings(), size, options.processes, "Grid of noise scales")
    closer = [found for setting, measured in results.items() if (found := finer(setting, measured))]
    fine = measure_all(closer, size, options.processes, "Around 95 per cent")
    others = measure_all(other_settings(), size, options.processes, "Data-driven and other dials")
    minutes = (time.monotonic() - began) / 60
    played = f"{size.runs} runs of {size.rounds} rounds, seed {size.seed}"
    summary = f"{played}; {minutes:.0f} minutes on {options.processes} cores.\n"
    text = "\n".join(
        [
            summary,
            "## At equal coverage\n",
            equal_coverage_table(results, fine),
            "## At the paper's noise scale\n",
            paper_dial_table(results),
            "## The data-driven dial, a wider ball, other conditionings\n",
            other_table(others),
            "## The grid\n",
            *grid_tables(results),
        ]
    )
    sys.stdout.write(text)
    if not options.quick:
        write_end(PAGE, MARK, text)


if __name__ == "__main__":
    main()
