"""The results of a run as a terminal table and as JSON."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from rich.console import Console
from rich.table import Table

from prudent_simulator.environments import ContextualArms, FloatArray
from prudent_simulator.published import ROUNDS, expected_value, published_value
from prudent_simulator.runner import Outcome, RunPlan, RunResult
from prudent_simulator.settings import AlgorithmName, CampaignPlan, Layout

PERCENTILES = (5, 25, 50, 75, 95)


def summary(regret: FloatArray) -> dict[str, float]:
    """Summarise the final regret of R replications.

    regret: (R, T) running totals, reward units; returns mean, median and percentiles, reward units.
    """
    final = regret[:, -1]
    at = np.percentile(final, PERCENTILES)
    named = {f"percentile_{percent}": float(value) for percent, value in zip(PERCENTILES, at, strict=True)}
    named["median"] = named.pop("percentile_50")
    return {"mean": float(final.mean()), **named}


def title(plan: RunPlan) -> str:
    """Name the run for a reader."""
    parts = [f"Experiment {plan.environment.experiment}"]
    if isinstance(plan.environment, ContextualArms):
        parts += [f"{plan.layout} model", f"{plan.environment.theta_choice} theta"]
    return ", ".join([*parts, f"{plan.replications} replications of {plan.rounds} rounds"])


def file_stem(plan: RunPlan) -> str:
    """Name the run's files."""
    stem = f"experiment-{plan.environment.experiment}"
    if plan.layout is not Layout.SHARED:
        stem += f"-{plan.layout}"
    if isinstance(plan.environment, ContextualArms) and plan.environment.theta_choice != "normalised":
        stem += f"-{plan.environment.theta_choice}"
    return stem


def _reference_values(plan: RunPlan, algorithm: AlgorithmName) -> tuple[str, str]:
    """Give the published and the expected final regret, or dashes where the run is another one than theirs."""
    environment = plan.environment
    other_theta = isinstance(environment, ContextualArms) and environment.theta_choice != "normalised"
    if plan.rounds != ROUNDS or other_theta:
        return "-", "-"
    published = published_value(environment.experiment, plan.layout, algorithm)
    expected = expected_value(environment.experiment, plan.layout, algorithm, plan.settings)
    return published or "-", expected or "-"


def _coverage(outcome: Outcome) -> str:
    return "-" if outcome.covered is None else f"{outcome.covered.mean():.2f}"


def in_brief(figures: dict[str, float]) -> str:
    """Write a summary as median [5%, 25%, 75%, 95%]."""
    tails = ", ".join(f"{figures[f'percentile_{percent}']:.0f}" for percent in PERCENTILES if percent != 50)
    return f"{figures['median']:.0f} [{tails}]"


def print_table(console: Console, result: RunResult) -> None:
    """Print the final regrets beside the published and expected ones."""
    plan = result.plan
    table = Table(title=f"Final regret: median [5%, 25%, 75%, 95%]. {title(plan)}")
    table.add_column("Algorithm", no_wrap=True)
    table.add_column("This run")
    table.add_column("Mean", justify="right", no_wrap=True)
    if plan.coverage:
        table.add_column("Coverage", justify="right", no_wrap=True)
    table.add_column("Expected")
    table.add_column("Published")
    for algorithm, outcome in result.outcomes.items():
        figures = summary(outcome.regret)
        published, expected = _reference_values(plan, algorithm)
        covered = [_coverage(outcome)] if plan.coverage else []
        mean = f"{figures['mean']:.0f}"
        table.add_row(algorithm.value, in_brief(figures), mean, *covered, expected, published)
    console.print(table)
    if plan.rounds != ROUNDS:
        console.print(f"Published and expected values exist for {ROUNDS} rounds only.")
    timings = result.timings
    if timings.pairs and timings.total_seconds > 0.0:
        speed = timings.pairs / timings.total_seconds
        console.print(
            f"{timings.pairs} decisions and rewards in {timings.total_seconds:.1f} s ({speed:.0f} per second)."
        )


def as_json(result: RunResult) -> bytes:
    """Write every curve as JSON.

    All but the key `timings` is the same for the same plan on an empty service. Regrets are running totals in reward
    units, one row per replication and one column per round.
    """
    plan = result.plan
    environment = plan.environment
    content: dict[str, Any] = {
        "experiment": environment.experiment,
        "model": plan.layout.value,
        "theta": environment.theta.tolist(),
        "replications": plan.replications,
        "rounds": plan.rounds,
        "seed": plan.seed,
        "run_id": plan.run_id,
        "settings": asdict(plan.settings),
        "algorithms": {name.value: _algorithm(plan, name, result.outcomes[name]) for name in plan.algorithms},
        "timings": asdict(result.timings),
    }
    return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_INDENT_2)


def _algorithm(plan: RunPlan, name: AlgorithmName, outcome: Outcome) -> dict[str, Any]:
    published, expected = _reference_values(plan, name)
    request = CampaignPlan(plan.environment, plan.layout, name, plan.settings).request("", 0)
    return {
        "request": {key: request[key] for key in ("risk", "model", "arms", "algorithm", "reward")},
        "final_regret": summary(outcome.regret),
        "published": published,
        "expected": expected,
        "coverage": None if outcome.covered is None else float(outcome.covered.mean()),
        "regret": np.ascontiguousarray(outcome.regret),
        "arms": np.ascontiguousarray(outcome.arms),
    }


def write_json(result: RunResult, folder: Path) -> Path:
    """Write the run's JSON into a folder and give its path."""
    path = folder / f"{file_stem(result.plan)}.json"
    path.write_bytes(as_json(result))
    return path
