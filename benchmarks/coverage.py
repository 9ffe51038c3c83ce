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
import math
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import Progress

from benchmarks.replications import Dials, EntropicLearner, ExpectileLearner, Floats, Learner, play
from simulator.environments import CoinArms, ContextualArms, GaussianArms, Sampler, environment_of

PAGE = Path(__file__).parents[1] / "docs" / "coverage.md"
MARK = "<!-- Written by `make coverage` from here on. -->"
BONUSES = ("local", "local-tight", "global", "global-tight")
WARMUP, RIDGE, TARGET = 5, 0.1, 0.95
MULTIPLES = (0.0625, 0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
ENTROPIC_MULTIPLES = (0.015625, 0.03125, 0.0625, 0.125, 0.25, 0.5, 1.0, 2.0)
FINE = 8
"""Noise scales a doubling in the search for the target."""


@dataclass(frozen=True)
class Setting:
    """A learner. noise_scales empty: the data-driven dial. bound: S in the bonus, None for the estimate's norm."""

    experiment: int
    bonus: str
    projected: bool
    conditioning: float
    noise_scales: tuple[float, ...]
    bound: float | None = 1.0


@dataclass(frozen=True)
class Measured:
    """coverage: share of runs; median, low and high: regret's 50, 5 and 95 per cent points."""

    coverage: float
    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.coverage:.2f} · {self.median:.0f}"

    @property
    def regret(self) -> str:
        """Median and tails."""
        return f"{self.median:.0f} [{self.low:.0f}, {self.high:.0f}]"


@dataclass(frozen=True)
class Size:
    """How much is played."""

    runs: int
    rounds: int
    seed: int


Results = dict[Setting, dict[float | None, Measured]]


@lru_cache(maxsize=1)
def worlds(experiment: int, size: Size) -> tuple[Floats, Floats, Floats]:
    """Features (T, d, K, R), risks and rewards (T, K, R)."""
    drawn = Sampler(environment_of(experiment), size.seed, range(size.runs)).draw(size.rounds)
    features = drawn.features.transpose(1, 3, 2, 0)
    return tuple(  # type: ignore[return-value] # three arrays in, three out
        np.ascontiguousarray(array)
        for array in (features, drawn.risks.transpose(1, 2, 0), drawn.rewards.transpose(1, 2, 0))
    )


def curvatures(experiment: int) -> tuple[float, float]:
    """Smallest and largest d2 of the experiment's loss."""
    environment = environment_of(experiment)
    if isinstance(environment, CoinArms):
        lowest, highest = environment.reward_bounds
        reach = environment.gamma * (highest - lowest)
        return environment.gamma * math.exp(-reach), environment.gamma * math.exp(reach)
    assert isinstance(environment, GaussianArms | ContextualArms)
    return 2 * min(environment.level, 1 - environment.level), 2 * max(environment.level, 1 - environment.level)


def learner(experiment: int, dimension: int, runs: int, rounds: int, bound: float | None) -> Learner:
    """A learner of the experiment's risk."""
    environment = environment_of(experiment)
    if isinstance(environment, CoinArms):
        return EntropicLearner(environment.gamma, dimension, runs, RIDGE, bound)
    assert isinstance(environment, GaussianArms | ContextualArms)
    return ExpectileLearner(environment.level, dimension, runs, rounds, RIDGE, bound)


def measure(setting: Setting, size: Size) -> dict[float | None, Measured]:
    """Play a setting, all noise scales side by side."""
    features, risks, rewards = worlds(setting.experiment, size)
    scales = setting.noise_scales
    runs = size.runs * max(len(scales), 1)
    # S in the bonus is the ball's radius, too; where there is no ball the bonus may still have an S.
    bound = setting.bound if setting.projected else None
    dials = Dials(
        setting.bonus,
        np.repeat(scales, size.runs) if scales else None,
        setting.conditioning,
        setting.bound,
        curvatures(setting.experiment),
        RIDGE,
    )
    played = play(
        learner(setting.experiment, features.shape[1], runs, size.rounds, bound),
        features,
        risks,
        rewards,
        dials,
        WARMUP,
    )
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


def paper_scale(experiment: int) -> float:
    """The paper's noise scale."""
    return environment_of(experiment).noise_scale


def main_conditioning(experiment: int) -> float:
    """Theory for the expectile; self-concordant, 1 + 2 gamma L S, for the entropic risk."""
    lowest, highest = curvatures(experiment)
    return 3.0 if experiment == 3 else highest / lowest


def grid(experiment: int) -> tuple[float, ...]:
    """Noise scales around the paper's."""
    multiples = ENTROPIC_MULTIPLES if experiment == 3 else MULTIPLES
    return tuple(paper_scale(experiment) * multiple for multiple in multiples)


def main_settings() -> list[Setting]:
    """Every experiment, bonus and estimator."""
    return [
        Setting(experiment, bonus, projected, main_conditioning(experiment), grid(experiment))
        for experiment in (1, 2, 3)
        for bonus in BONUSES
        for projected in (True, False)
    ]


def other_settings() -> list[Setting]:
    """The data-driven dial; a ball twice as wide; other conditionings of the entropic loss."""
    found = []
    for experiment in (1, 2, 3):
        for bonus in BONUSES:
            found.append(Setting(experiment, bonus, False, 1.0, (), None))
            found.append(Setting(experiment, bonus, True, 1.0, (), 1.0))
    for bonus in ("local", "local-tight"):
        wider = [
            Setting(number, bonus, True, main_conditioning(number), (paper_scale(number),), 2.0) for number in (1, 2)
        ]
        conditionings = [Setting(3, bonus, True, number, (paper_scale(3),)) for number in (1.0, math.exp(8.0))]
        found += wider + conditionings
    return found


def is_covered(measured: dict[float | None, Measured]) -> list[float]:
    """The noise scales from which on every larger one is covered as often as wanted, in order."""
    kept: list[float] = []
    for scale in sorted((key for key in measured if key is not None), reverse=True):
        if measured[scale].coverage < TARGET:
            break
        kept.insert(0, scale)
    return kept


def finer(setting: Setting, measured: dict[float | None, Measured]) -> Setting | None:
    """The same setting between the last scale that is too small and the first that is not."""
    covered = is_covered(measured)
    if not covered or covered[0] == min(setting.noise_scales):
        return None
    below = covered[0] / 2
    return replace(setting, noise_scales=tuple(below * 2 ** (step / FINE) for step in range(1, FINE)))


def row(cells: Sequence[object]) -> str:
    """A line of a Markdown table."""
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def table(head: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table, all but the first column to the right."""
    rule = "|---|" + "---:|" * (len(head) - 1)
    return "\n".join([row(head), rule, *map(row, rows), ""])


def grid_tables(results: Results) -> list[str]:
    """Coverage and regret over the grid, an experiment and an estimator at a time."""
    found = []
    for experiment in (1, 2, 3):
        for projected in (True, False):
            chosen = {s: r for s, r in results.items() if (s.experiment, s.projected) == (experiment, projected)}
            where = "in the ball" if projected else "without the ball"
            found.append(f"### Experiment {experiment}, {where}: coverage · median regret by noise scale\n")
            head = ["bonus", *(f"{scale:.4g}" for scale in grid(experiment))]
            found.append(table(head, [[s.bonus, *(r[scale] for scale in grid(experiment))] for s, r in chosen.items()]))
    return found


def equal_coverage_table(results: Results, fine: Results) -> str:
    """Each bonus at the smallest noise scale with the wanted coverage."""
    rows: list[list[object]] = []
    paper: dict[tuple[int, bool], float] = {}
    by_family = {(s.experiment, s.bonus, s.projected): r for s, r in fine.items()}
    for setting, coarse in results.items():
        measured = coarse | by_family.get((setting.experiment, setting.bonus, setting.projected), {})
        covered = is_covered(measured)
        name = [setting.experiment, setting.bonus, "yes" if setting.projected else "no"]
        if not covered:
            rows.append([*name, "none tried", "", "", ""])
            continue
        scale = covered[0]
        found = measured[scale]
        shown = f"≤ {scale:.4g}" if scale == min(setting.noise_scales) else f"{scale:.4g}"
        paper.setdefault((setting.experiment, setting.projected), found.median)
        ratio = found.median / paper[setting.experiment, setting.projected]
        rows.append([*name, shown, f"{found.coverage:.3f}", found.regret, f"{ratio:.2f}"])
    head = ["experiment", "bonus", "ball", "noise scale", "coverage", "regret, median [5%, 95%]", "of the paper's"]
    return table(head, rows)


def paper_dial_table(results: Results) -> str:
    """Coverage and regret at the paper's noise scale."""
    head = ["experiment", "bonus", "ball", "noise scale", "coverage", "regret, median [5%, 95%]"]
    rows = []
    for setting, measured in results.items():
        scale = paper_scale(setting.experiment)
        found = measured[scale]
        ball = "yes" if setting.projected else "no"
        rows.append([setting.experiment, setting.bonus, ball, scale, f"{found.coverage:.3f}", found.regret])
    return table(head, rows)


def other_table(results: Results) -> str:
    """What is not on the grid."""
    head = ["experiment", "bonus", "ball", "S", "conditioning", "noise scale", "coverage", "regret, median [5%, 95%]"]
    rows = []
    for setting, measured in results.items():
        for scale, found in measured.items():
            bound = "of the estimate" if setting.bound is None else setting.bound
            dial = "data-driven" if scale is None else f"{scale:.4g}"
            ball = "yes" if setting.projected else "no"
            settings = [setting.experiment, setting.bonus, ball, bound, f"{setting.conditioning:.4g}", dial]
            rows.append([*settings, f"{found.coverage:.3f}", found.regret])
    return table(head, rows)


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
        kept = PAGE.read_text().split(MARK)[0] if PAGE.exists() else ""
        PAGE.write_text(f"{kept}{MARK}\n\n{text}")


if __name__ == "__main__":
    main()
