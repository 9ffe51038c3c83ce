"""Experiments with further risk measures, over HTTP: `python -m benchmarks.measures paper-results/measures`.

The shipped environment `worst-tenth` under CVaR, a quantile and the mean less deviations, and `couriers` under CVaR and
with losses that count fourfold; each beside LinUCB on the mean and `linucb-cr` on an expectile, of the same level where
the measure has one. Every experiment writes its regrets into the directory, which `prudent-simulator report --measures
DIRECTORY` takes; one that has been written is not played again, so the run may be interrupted between two of them.
"""

import argparse
import time
from pathlib import Path
from typing import Any, NamedTuple

from prudent_simulator.custom_environments.environment import OwnEnvironment
from prudent_simulator.custom_environments.loading import load_environment
from prudent_simulator.custom_environments.plan import OwnPlan
from prudent_simulator.custom_environments.report import print_tables, write_json
from prudent_simulator.custom_environments.schema import EnvironmentFile
from prudent_simulator.runner import play
from prudent_simulator.server import Database
from prudent_simulator.session import open_client, output_console, progress_bar


class Experiment(NamedTuple):
    """A shipped environment under a risk. level: of the expectile beside it."""

    name: str
    environment: str
    risk: dict[str, Any]
    level: float

    def load(self) -> OwnEnvironment:
        """The environment with this risk and the algorithms to compare."""
        content = load_environment(self.environment).file.model_dump(mode="json", exclude_none=True)
        expectile = {"measure": "expectile", "level": self.level}
        algorithms: list[dict[str, Any]] = [
            {"name": "linucb"},
            {"name": "linucb-cr", "risk": expectile, "label": f"expectile-{self.level:g}"},
            {"name": "linucb-cr"},
            {"name": "linucb-onepass-cr"},
        ]
        changes = {"name": self.name, "risk": self.risk, "algorithms": algorithms}
        return OwnEnvironment.of(EnvironmentFile.model_validate(content | changes))


EXPERIMENTS = (
    Experiment("cvar-0.1", "worst-tenth", {"measure": "cvar", "level": 0.1}, 0.1),
    Experiment("cvar-0.25", "worst-tenth", {"measure": "cvar", "level": 0.25}, 0.25),
    Experiment("quantile-0.1", "worst-tenth", {"measure": "quantile", "level": 0.1}, 0.1),
    Experiment("mean-1.5-deviations", "worst-tenth", {"measure": "mean-variance", "aversion": 1.5}, 0.05),
    Experiment("couriers-cvar-0.1", "couriers", {"measure": "cvar", "level": 0.1}, 0.1),
    Experiment(
        "couriers-gain-loss",
        "couriers",
        {"measure": "moment", "of": "gain-loss", "reference": 0.0, "factor": 4.0},
        0.2,
    ),
)


def run(experiment: Experiment, replications: int, rounds: int, directory: Path) -> None:
    """Play one experiment on a service of its own, print its tables, and write its file."""
    plan = OwnPlan(experiment.load(), replications, rounds, seed=0, run_id=experiment.name)
    with open_client(None, Database.SQLITE, None) as client, progress_bar() as progress:
        task = progress.add_task(experiment.name, total=rounds)
        played = play(
            client,
            plan,
            clock=time.perf_counter,
            on_round=lambda done: progress.update(task, completed=done),
            keep=True,
        )
    print_tables(output_console(), plan, played)
    write_json(plan, played, directory)


def main() -> None:
    """Play what is missing in the directory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--replications", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=1_000)
    names = [one.name for one in EXPERIMENTS]
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names))
    options = parser.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    for experiment in EXPERIMENTS:
        if experiment.name in options.only and not (options.directory / f"{experiment.name}.json").exists():
            run(experiment, options.replications, options.rounds, options.directory)


if __name__ == "__main__":
    main()
