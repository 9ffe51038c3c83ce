"""Which learners `benchmarks.coverage` measures, and what it keeps of each."""

import math
from dataclasses import dataclass, replace

from prudent_simulator.environments import CoinArms, ContextualArms, GaussianArms, environment_of

BONUSES = ("local", "local-tight", "global", "global-tight")
WARMUP, RIDGE, TARGET = 5, 0.1, 0.95
MULTIPLES = (0.25, 0.5, 1.0, 2.0, 4.0)
ENTROPIC_MULTIPLES = (0.0625, 0.125, 0.25, 0.5, 1.0, 2.0)
FINE = 4
"""Noise scales a doubling in the search for the target."""


@dataclass(frozen=True)
class Setting:
    """A learner. noise_scales empty: the data-driven dial. bound: S in the bonus, None for the estimate's norm.

    radius: the ball's, where there is one.
    """

    experiment: int
    bonus: str
    projected: bool
    conditioning: float
    noise_scales: tuple[float, ...]
    bound: float | None = 1.0
    radius: float = 1.0
    warmup: int = WARMUP
    ridge: float = RIDGE


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


Results = dict[Setting, dict[float | None, Measured]]


def curvatures(experiment: int) -> tuple[float, float]:
    """Smallest and largest d2 of the experiment's loss."""
    environment = environment_of(experiment)
    if isinstance(environment, CoinArms):
        lowest, highest = environment.reward_bounds
        reach = environment.gamma * (highest - lowest)
        return environment.gamma * math.exp(-reach), environment.gamma * math.exp(reach)
    assert isinstance(environment, GaussianArms | ContextualArms)
    return 2 * min(environment.level, 1 - environment.level), 2 * max(environment.level, 1 - environment.level)


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
    """The data-driven dial, also with the service's defaults; a wider ball; other entropic conditionings."""
    found = []
    for experiment in (1, 2, 3):
        for bonus in BONUSES:
            found.append(Setting(experiment, bonus, False, 1.0, (), None))
            found.append(Setting(experiment, bonus, True, 1.0, (), 1.0))
    for experiment in (1, 2, 3):
        # What a campaign has that sets no dial: two plays of each arm, a ridge of 1 (entropic: 0.1 |gamma|).
        ridges = (RIDGE,) if experiment == 3 else (RIDGE, 1.0)
        found += [Setting(experiment, "local-tight", False, 1.0, (), None, warmup=2, ridge=ridge) for ridge in ridges]
    for bonus in ("local", "local-tight"):
        wider = [
            Setting(number, bonus, True, main_conditioning(number), (paper_scale(number),), bound, 2.0)
            for number in (1, 2)
            for bound in (2.0, 1.0)
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
    """The same setting between the last scale that is too small and the first that is not, or below the grid."""
    covered = is_covered(measured)
    if not covered:
        return None
    first = covered[0]
    steps = range(1, FINE) if first > min(setting.noise_scales) else range(-4 * FINE, FINE, 2 * FINE)
    return replace(setting, noise_scales=tuple(first / 2 * 2 ** (step / FINE) for step in steps))
