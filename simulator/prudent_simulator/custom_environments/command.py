"""Playing an environment file from the command line: `prudent-simulator run --environment`."""

import time
from dataclasses import dataclass
from pathlib import Path

from prudent_simulator.custom_environments.loading import load_environment
from prudent_simulator.custom_environments.plan import OwnPlan
from prudent_simulator.custom_environments.report import print_tables, write_figure, write_json
from prudent_simulator.extras import MissingExtraError
from prudent_simulator.runner import play
from prudent_simulator.server import Database
from prudent_simulator.session import open_client, output_console, progress_bar, run_id_of


@dataclass(frozen=True)
class OwnRun:
    """What the command line says about a run; None is the file's own value."""

    environment: str
    url: str | None
    server: Database | None
    replications: int | None
    rounds: int | None
    seed: int
    coverage: bool
    output: Path | None
    keep: bool
    run_id: str | None
    api_key: str | None


def run_own(asked: OwnRun) -> None:
    """Play an environment, print its tables and save its curves. Raises EnvironmentFileError for a wrong file."""
    environment = load_environment(asked.environment)
    file = environment.file
    plan = OwnPlan(
        environment=environment,
        replications=file.replications if asked.replications is None else asked.replications,
        rounds=file.rounds if asked.rounds is None else asked.rounds,
        seed=asked.seed,
        run_id=run_id_of(asked.run_id, f"{file.name[:40]}.seed-{asked.seed}", asked.server),
        coverage=asked.coverage,
    )
    if asked.output is not None:
        asked.output.mkdir(parents=True, exist_ok=True)
    with open_client(asked.url, asked.server, asked.api_key) as client, progress_bar() as progress:
        task = progress.add_task("Rounds", total=plan.rounds)
        played = play(
            client,
            plan,
            clock=time.perf_counter,
            on_round=lambda done: progress.update(task, completed=done),
            keep=asked.keep or asked.server is not None,  # an own database goes away as a whole
        )
    console = output_console()
    print_tables(console, plan, played)
    if asked.output is not None:
        console.print(f"Wrote {write_json(plan, played, asked.output)}", highlight=False, soft_wrap=True)
        try:
            paths = write_figure(plan, played, asked.output)
        except MissingExtraError as error:
            console.print(f"No figure: {error}", markup=False, highlight=False, soft_wrap=True)
            return
        for path in paths:
            console.print(f"Wrote {path}", highlight=False, soft_wrap=True)
