"""The command `prudent-simulator`."""

import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from prudent_client import ClientError
from prudent_simulator.custom_environments.command import OwnRun, run_own
from prudent_simulator.custom_environments.loading import EnvironmentFileError, shipped_names
from prudent_simulator.environments import Theta, environment_of
from prudent_simulator.extras import MissingExtraError, needed_for
from prudent_simulator.offline_evaluation.command import replay_command, risk_command
from prudent_simulator.offline_evaluation.reading import LogError
from prudent_simulator.paper.cells import PaperError
from prudent_simulator.paper.command import paper, report
from prudent_simulator.processes import ServerStartError
from prudent_simulator.published import ROUNDS
from prudent_simulator.report import print_table, write_json
from prudent_simulator.runner import RunError, RunPlan, RunResult, run
from prudent_simulator.server import Database
from prudent_simulator.session import load_key_file, open_client, output_console, progress_bar, run_id_of
from prudent_simulator.settings import (
    CONDITIONING_NAMES,
    AlgorithmName,
    Bonus,
    Layout,
    Radius,
    Settings,
    StepSchedule,
    paper_settings,
)

_DEFAULT_ALGORITHMS = (AlgorithmName.LINUCB, AlgorithmName.LINUCB_CR, AlgorithmName.LINUCB_OGD_CR)

_ABOUT = "Plays the experiments of Saux & Maillard (2023), environments of your own, and logs of past decisions."
_PAPER_OPTIONS = (
    "algorithm",
    "model",
    "theta",
    "bonus",
    "conditioning",
    "projection",
    "parameter_bound",
    "noise_scale",
    "exploration",
    "step_schedule",
    "step_size",
    "radius",
)

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help=_ABOUT,
)


@app.callback(help=_ABOUT)
def _group() -> None:
    """Hold the commands together."""


app.command("risk")(risk_command)
app.command("replay")(replay_command)


def _conditioning(text: str) -> str | float:
    if text in CONDITIONING_NAMES:
        return text
    try:
        return float(text)
    except ValueError as error:
        raise typer.BadParameter(f"a number or one of {', '.join(CONDITIONING_NAMES)}") from error


def _play(plan: RunPlan, url: str | None, server: Database | None, api_key: str | None, *, keep: bool) -> RunResult:
    with open_client(url, server, api_key) as client, progress_bar() as progress:
        task = progress.add_task("Rounds", total=plan.rounds)
        return run(
            client,
            plan,
            clock=time.perf_counter,
            on_round=lambda done: progress.update(task, completed=done),
            keep=keep or server is not None,  # an own database goes away as a whole
        )


def _refuse_paper_options(context: typer.Context) -> None:
    """What describes an algorithm or the paper's model stands in the file of an environment of one's own."""
    sources = {name: context.get_parameter_source(name) for name in _PAPER_OPTIONS}
    given = [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    if given:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise typer.BadParameter(f"{options}: goes with --experiment; with --environment the file says it")


def _settings(base: Settings, changes: Mapping[str, object]) -> Settings:
    given = {name: value for name, value in changes.items() if value is not None}
    try:
        return replace(base, **given)  # type: ignore[arg-type] # the command line has checked the types
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


@app.command("run")
def run_command(
    context: typer.Context,
    experiment: Annotated[int | None, typer.Option(min=1, max=3, help="Which experiment of the paper.")] = None,
    environment: Annotated[
        str | None,
        typer.Option(
            help="Instead of an experiment: a YAML file that describes an environment of your own, or one that comes "
            f"with the simulator: {', '.join(shipped_names())}."
        ),
    ] = None,
    url: Annotated[str | None, typer.Option(help="Address of a running service.")] = None,
    server: Annotated[
        Database | None, typer.Option(help="Start a service of our own on a temporary database instead.")
    ] = None,
    replications: Annotated[
        int | None,
        typer.Option(min=1, max=10_000, help="Independent repetitions. Default: 20, or what the environment says."),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            min=1, max=999_999, help="Rounds in each. Default: the paper's 1500, or what the environment says."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random numbers.")] = 0,
    algorithm: Annotated[
        list[AlgorithmName] | None,
        typer.Option(help="Repeat for several. Default: linucb, linucb-cr and linucb-ogd-cr."),
    ] = None,
    model: Annotated[
        Layout,
        typer.Option(
            help="Experiment 2: shared; disjoint (the paper's stacked form, one parameter per arm and a joint "
            "radius); common-context (the service's disjoint model, a harder problem)."
        ),
    ] = Layout.SHARED,
    theta: Annotated[
        Theta, typer.Option(help="Experiment 2: the parameter of the published figure, or as printed.")
    ] = Theta.NORMALISED,
    bonus: Annotated[Bonus, typer.Option(help="Exploration bonus (the paper: local).")] = Bonus.LOCAL,
    conditioning: Annotated[
        str | None,
        typer.Option(
            help="theory, self-concordant (entropic) or a number. Default: theory, and 1 in experiment 3, which "
            "does not learn with theory."
        ),
    ] = None,
    projection: Annotated[
        bool, typer.Option("--projection/--no-projection", help="Keep estimates in the ball; the paper's runs did not.")
    ] = True,
    parameter_bound: Annotated[
        float | None,
        typer.Option(help="S, the bound on the parameter's norm. Default: 1, and sqrt(2) for the disjoint model."),
    ] = None,
    noise_scale: Annotated[
        float | None, typer.Option(help="Noise scale sigma. Default: the paper's, 0.1, 0.1 and 1.")
    ] = None,
    exploration: Annotated[float, typer.Option(min=0.0, help="Factor on the bonus.")] = 1.0,
    step_schedule: Annotated[
        StepSchedule, typer.Option(help="Step sizes of linucb-ogd-cr (the paper: harmonic).")
    ] = StepSchedule.HARMONIC,
    step_size: Annotated[float, typer.Option(help="First harmonic step of linucb-ogd-cr.")] = 0.1,
    radius: Annotated[Radius, typer.Option(help="Confidence radius of the common-context model.")] = Radius.JOINT,
    coverage: Annotated[
        bool, typer.Option("--coverage", help="Also check |estimate - risk| <= bonus for all arms and rounds (slower).")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(help="Folder for the JSON of all curves and the figure (PNG, SVG).")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the campaigns on the service.")] = False,
    run_id: Annotated[
        str | None,
        typer.Option(
            help="Part of all ids. The service breaks ties by them, so set it to reproduce a run on --url exactly. "
            "Default: random with --url, fixed by experiment and seed with --server."
        ),
    ] = None,
    api_key: Annotated[
        str | None, typer.Option(envvar="PRUDENT_API_KEY", help="API key, if the service requires one.")
    ] = None,
) -> None:
    """Run an experiment or an environment of your own, print its final regrets, and save its curves."""
    if (url is None) == (server is None):
        raise typer.BadParameter("give either --url or --server")
    if environment is not None:
        if experiment is not None:
            raise typer.BadParameter("give either --experiment or --environment")
        _refuse_paper_options(context)
        run_own(OwnRun(environment, url, server, replications, rounds, seed, coverage, output, keep, run_id, api_key))
        return
    if experiment is None:
        raise typer.BadParameter("give either --experiment or --environment")
    of_paper = environment_of(experiment, theta)
    changes = {
        "bonus": bonus,
        "conditioning": None if conditioning is None else _conditioning(conditioning),
        "projection": projection,
        "parameter_bound": parameter_bound,
        "noise_scale": noise_scale,
        "exploration": exploration,
        "step_schedule": step_schedule,
        "step_size": step_size,
        "radius": radius,
    }
    plan = RunPlan(
        environment=of_paper,
        layout=model,
        algorithms=tuple(algorithm or _DEFAULT_ALGORITHMS),
        settings=_settings(paper_settings(of_paper, model), changes),
        replications=replications or 20,
        rounds=rounds or ROUNDS,
        seed=seed,
        run_id=run_id_of(run_id, f"experiment-{experiment}.seed-{seed}", server),
        coverage=coverage,
    )
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
    result = _play(plan, url, server, api_key, keep=keep)
    console = output_console()
    print_table(console, result)
    if output is not None:
        console.print(f"Wrote {write_json(result, output)}", highlight=False, soft_wrap=True)
        try:
            with needed_for("drawing the figure", "simulator"):
                from prudent_simulator.figure import write_figure  # matplotlib is slow to load, and needed only here
        except MissingExtraError as error:
            console.print(f"No figure: {error}", markup=False, highlight=False, soft_wrap=True)
            return
        for path in write_figure(result, output):
            console.print(f"Wrote {path}", highlight=False, soft_wrap=True)


app.command("paper")(paper)
app.command("report")(report)


def _interrupt(signum: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001 - the signature of a handler
    raise KeyboardInterrupt


def main() -> None:
    """Run the command line; failures are one line on standard error and a status that is not 0."""
    signal.signal(signal.SIGTERM, _interrupt)  # so that a service of our own is ended too
    errors = Console(stderr=True)
    try:
        load_key_file()
        try:
            app()
        finally:
            if sys.stdout is not None:  # a service may be started without one
                sys.stdout.flush()
    except (
        ClientError,
        EnvironmentFileError,
        LogError,
        MissingExtraError,
        PaperError,
        RunError,
        ServerStartError,
        OSError,
    ) as error:
        if not isinstance(error, BrokenPipeError):  # the reader has seen enough
            errors.print(f"Error: {error}", markup=False, highlight=False, soft_wrap=True)
        if isinstance(error, OSError):  # what is left would fail once more when Python ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)


if __name__ == "__main__":
    main()
