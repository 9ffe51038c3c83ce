"""The rows of the grid: an experiment, an algorithm, and every setting that it runs with.

`paper`: the three experiments with the three algorithms of the paper, its bonus and its constants, the estimate kept in
the ball. Experiment 2 has one parameter per arm, as in the published figure. Gradient descent takes the step sizes of
the theory, and experiment 3 the conditioning that matches the published curve.

`ours`: what else is worth comparing. The same experiments (and experiment 2 with one shared parameter) with a bonus
without the paper's factor 2, the global bonus, the one-pass estimator, the data-driven dial, the published step sizes,
and without the ball, as the published runs were; experiment 3 with each way to set the conditioning.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from prudent_simulator.environments import Environment, environment_of
from prudent_simulator.settings import (
    AlgorithmName,
    Bonus,
    CampaignPlan,
    Layout,
    Settings,
    StepSchedule,
    paper_settings,
)

_MEAN = AlgorithmName.LINUCB
_EXACT = AlgorithmName.LINUCB_CR
_GRADIENT = AlgorithmName.LINUCB_OGD_CR
_ONEPASS = AlgorithmName.LINUCB_ONEPASS_CR


class Group(StrEnum):
    """Which rows to run."""

    PAPER = "paper"
    OURS = "ours"
    ALL = "all"


class Variant(StrEnum):
    """What sets a row apart from the paper's algorithm of that name."""

    PAPER = "paper"
    TIGHT = "tight"
    GLOBAL = "global"
    DIAL = "dial"
    UNPROJECTED = "unprojected"
    HARMONIC = "harmonic"
    THEORY_CONDITIONING = "theory-conditioning"
    SELF_CONCORDANT = "self-concordant"


_CHANGES: dict[Variant, dict[str, Any]] = {
    Variant.PAPER: {},
    Variant.TIGHT: {"bonus": Bonus.LOCAL_TIGHT},
    Variant.GLOBAL: {"bonus": Bonus.GLOBAL},
    Variant.DIAL: {
        "bonus": Bonus.LOCAL_TIGHT,
        "noise_scale": None,
        "parameter_bound": None,
        "conditioning": None,
    },
    Variant.UNPROJECTED: {"projection": False},
    Variant.HARMONIC: {"step_schedule": StepSchedule.HARMONIC, "step_size": 0.1},
    Variant.THEORY_CONDITIONING: {"conditioning": "theory"},
    Variant.SELF_CONCORDANT: {"conditioning": "self-concordant"},
}
_LABELS = {
    Variant.PAPER: "",
    Variant.TIGHT: "tight bonus",
    Variant.GLOBAL: "global bonus",
    Variant.DIAL: "data-driven dial, tight bonus",
    Variant.UNPROJECTED: "without the ball",
    Variant.HARMONIC: "published steps 0.1/n",
    Variant.THEORY_CONDITIONING: "conditioning by theory",
    Variant.SELF_CONCORDANT: "conditioning self-concordant",
}


@dataclass(frozen=True)
class Row:
    """One row of the results."""

    experiment: int
    layout: Layout
    algorithm: AlgorithmName
    variant: Variant
    group: Group

    @property
    def problem(self) -> str:
        """Name of the experiment with its layout: `1`, `2-shared`, `2-disjoint` or `3`."""
        return f"{self.experiment}-{self.layout}" if self.experiment == 2 else str(self.experiment)

    @property
    def key(self) -> str:
        """Name of the row, part of file names and ids."""
        stem = f"{self.problem}-{self.algorithm}"
        return stem if self.variant is Variant.PAPER else f"{stem}-{self.variant}"

    @property
    def label(self) -> str:
        """Name of the row for a reader."""
        described = _LABELS[self.variant]
        return f"{self.algorithm}, {described}" if described else self.algorithm.value

    @property
    def environment(self) -> Environment:
        """The experiment."""
        return environment_of(self.experiment)

    @property
    def settings(self) -> Settings:
        """Every setting of the algorithm."""
        base = replace(paper_settings(self.environment, self.layout), step_schedule=StepSchedule.THEORY)
        return replace(base, **_CHANGES[self.variant])

    def request(self) -> dict[str, Any]:
        """Give what the row's campaigns share of the body of `POST /campaigns`."""
        body = CampaignPlan(self.environment, self.layout, self.algorithm, self.settings).request("", 0)
        return {name: body[name] for name in ("risk", "model", "arms", "algorithm", "reward")}


_PROBLEMS = ((1, Layout.SHARED), (2, Layout.DISJOINT), (2, Layout.SHARED), (3, Layout.SHARED))
_PUBLISHED = ((1, Layout.SHARED), (2, Layout.DISJOINT), (3, Layout.SHARED))
_OURS = (
    (_EXACT, Variant.TIGHT),
    (_EXACT, Variant.DIAL),
    (_ONEPASS, Variant.PAPER),
    (_EXACT, Variant.UNPROJECTED),
    (_EXACT, Variant.GLOBAL),
    (_GRADIENT, Variant.HARMONIC),
)


def _every_row() -> Iterator[Row]:
    for problem in _PROBLEMS:
        group = Group.PAPER if problem in _PUBLISHED else Group.OURS
        for algorithm in (_MEAN, _EXACT, _GRADIENT):
            yield Row(*problem, algorithm, Variant.PAPER, group)
        for algorithm, variant in _OURS:
            yield Row(*problem, algorithm, variant, Group.OURS)
        if problem[0] == 3:
            for variant in (Variant.SELF_CONCORDANT, Variant.THEORY_CONDITIONING):
                yield Row(*problem, _EXACT, variant, Group.OURS)


ROWS: tuple[Row, ...] = tuple(_every_row())


def select_rows(
    group: Group,
    experiments: frozenset[int] = frozenset(),
    algorithms: frozenset[AlgorithmName] = frozenset(),
    keys: frozenset[str] = frozenset(),
) -> list[Row]:
    """Give the rows with these keys, or of a group; of these experiments and algorithms where any are named."""
    return [
        row
        for row in ROWS
        if (row.key in keys if keys else group in (Group.ALL, row.group))
        and (not experiments or row.experiment in experiments)
        and (not algorithms or row.algorithm in algorithms)
    ]
