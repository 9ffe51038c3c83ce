"""The results of an environment of one's own: tables, figure and JSON, as for the paper's experiments."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from rich.console import Console
from rich.table import Table

from prudent_simulator.custom_environments.plan import OwnPlan
from prudent_simulator.environments import FloatArray
from prudent_simulator.extras import needed_for
from prudent_simulator.report import in_brief, summary
from prudent_simulator.runner import Played

CONTEXTS = 10_000
_WELL_SPECIFIED = 1e-6
_EQUAL = 1e-9


@dataclass(frozen=True)
class Standing:
    """The arms' exact values over drawn contexts: averages and shares of being best, (K,) each."""

    mean: FloatArray
    risk: FloatArray
    best_by_mean: FloatArray
    best_by_risk: FloatArray

    @classmethod
    def of(cls, plan: OwnPlan) -> "Standing":
        """Draw contexts with the plan's seed and compare the arms there."""
        means, risks = plan.environment.standing(CONTEXTS, plan.seed)
        return cls(means.mean(axis=0), risks.mean(axis=0), _best_shares(means), _best_shares(risks))


def _best_shares(values: FloatArray) -> FloatArray:
    """Give in which share of the contexts each arm is best, (K,), from (n, K) values; equal ones share."""
    largest = values.max(axis=1, keepdims=True)
    are_best = values >= largest - _EQUAL * np.abs(values).max(axis=1, keepdims=True)
    shares: FloatArray = (are_best / are_best.sum(axis=1, keepdims=True)).mean(axis=0)
    return shares


def title(plan: OwnPlan) -> str:
    """Name the run for a reader."""
    return f"{plan.environment.file.name}, {plan.replications} replications of {plan.rounds} rounds"


def print_tables(console: Console, plan: OwnPlan, played: Played[str]) -> None:
    """Print what is true of the arms and how often they were played, then the final regrets."""
    standing = Standing.of(plan)
    arms = Table(title=f"The arms of {plan.environment.file.name}: exact values, averaged over {CONTEXTS:,} contexts")
    for column in ("Arm", "Mean", "Risk", "Best by mean", "Best by risk"):
        arms.add_column(column, justify="left" if column == "Arm" else "right")
    for name in played.outcomes:
        arms.add_column(f"Played by {name}", justify="right")
    for number, arm in enumerate(plan.arm_names):
        values = [f"{standing.mean[number]:.3f}", f"{standing.risk[number]:.3f}"]
        shares = [standing.best_by_mean[number], standing.best_by_risk[number]]
        shares += [float((outcome.arms == number).mean()) for outcome in played.outcomes.values()]
        arms.add_row(arm, *values, *(f"{share:.0%}" for share in shares))
    console.print(arms)
    table = Table(title=f"Final regret in the risk measure: median [5%, 25%, 75%, 95%]. {title(plan)}")
    table.add_column("Algorithm", no_wrap=True)
    table.add_column("Regret", justify="right")
    table.add_column("Mean", justify="right")
    if plan.coverage:
        table.add_column("Coverage", justify="right")
    for name, outcome in played.outcomes.items():
        figures = summary(outcome.regret)
        covered = "-" if outcome.covered is None else f"{outcome.covered.mean():.2f}"
        table.add_row(name, in_brief(figures), f"{figures['mean']:.0f}", *([covered] if plan.coverage else []))
    console.print(table)
    _, error = plan.environment.true_parameters()
    if error > _WELL_SPECIFIED:
        console.print(
            f"The risk is not linear in the features: the best parameters are off by up to {error:.3g}, so no "
            "algorithm can learn it exactly."
        )
    timings = played.timings
    if timings.pairs and timings.total_seconds > 0.0:
        speed = timings.pairs / timings.total_seconds
        console.print(
            f"{timings.pairs} decisions and rewards in {timings.total_seconds:.1f} s ({speed:.0f} per second)."
        )


def as_json(plan: OwnPlan, played: Played[str]) -> bytes:
    """Write the file, the truth and every curve as JSON; all but `timings` repeats on an empty service."""
    theta, error = plan.environment.true_parameters()
    standing = Standing.of(plan)
    content: dict[str, Any] = {
        "environment": plan.environment.file.model_dump(mode="json", exclude_none=True),
        "truth": {"parameters": theta, "misspecification": error, **asdict(standing)},
        "replications": plan.replications,
        "rounds": plan.rounds,
        "seed": plan.seed,
        "run_id": plan.run_id,
        "algorithms": {
            name: {
                "request": plan.configuration(name),
                "final_regret": summary(outcome.regret),
                "coverage": None if outcome.covered is None else float(outcome.covered.mean()),
                "regret": np.ascontiguousarray(outcome.regret),
                "arms": np.ascontiguousarray(outcome.arms),
            }
            for name, outcome in played.outcomes.items()
        },
        "timings": asdict(played.timings),
    }
    return orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_INDENT_2)


def write_json(plan: OwnPlan, played: Played[str], folder: Path) -> Path:
    """Write the JSON into a folder that exists, and give its path."""
    path = folder / f"{plan.environment.file.name}.json"
    path.write_bytes(as_json(plan, played))
    return path


def write_figure(plan: OwnPlan, played: Played[str], folder: Path) -> list[Path]:
    """Write the figure as PNG and SVG, and give the paths. Raises MissingExtraError without matplotlib."""
    with needed_for("drawing the figure", "simulator"):
        from prudent_simulator.figure import (  # matplotlib is slow to load, and needed only here
            Curves,
            colours_of,
            save_figure,
        )
    regrets = {name: outcome.regret for name, outcome in played.outcomes.items()}
    colours = colours_of({name: block.name for name, block in plan.blocks.items()})
    return save_figure(Curves(regrets, colours, title(plan)), folder / plan.environment.file.name)
