"""The commands `prudent-simulator risk` and `prudent-simulator replay`."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console

from prudent_client import ClientError, UnreachableError
from prudent_simulator.client import Client
from prudent_simulator.offline_evaluation.arm_risks import ArmRisks, DialName, arm_risks, in_words
from prudent_simulator.offline_evaluation.campaign import CampaignOptions, campaign_of, described_features
from prudent_simulator.offline_evaluation.estimates import Session
from prudent_simulator.offline_evaluation.measures import RESAMPLES_MAX, Measure
from prudent_simulator.offline_evaluation.reading import Columns, Log, read_log
from prudent_simulator.offline_evaluation.report import print_arm_risks, print_shadow, print_uniform, print_weighted
from prudent_simulator.offline_evaluation.shadow import Shadow, look_in_shadow
from prudent_simulator.offline_evaluation.uniform import UniformReplay, is_uniform, replay_uniform, with_uniform
from prudent_simulator.offline_evaluation.weighted import WeightedEvaluation, evaluate_weighted
from prudent_simulator.server import Database
from prudent_simulator.session import finite, open_client, output_console, progress_bar, run_id_of
from prudent_simulator.settings import AlgorithmName

LogFile = Annotated[
    Path,
    typer.Argument(
        exists=True, dir_okay=False, readable=True, help="The log: CSV with a header, JSON lines, or *.parquet."
    ),
]
ArmColumn = Annotated[str, typer.Option(help="Name of the field with the arm.")]
RewardColumn = Annotated[str, typer.Option(help="Name of the field with the reward.")]
Resamples = Annotated[int, typer.Option(min=10, max=RESAMPLES_MAX, help="Resamples of the bootstrap.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of all random numbers.")]
Delimiter = Annotated[str, typer.Option(help="What separates the fields of CSV; a tab as \\t.")]
Decimal = Annotated[str, typer.Option(help="The decimal sign of numbers in CSV.")]
Encoding = Annotated[str, typer.Option(help="The encoding of CSV and JSON lines, for example cp1252.")]
_BOOTSTRAPS = {"uniform": 2, "weighted": 1, "shadow": 0}
"""How many bootstraps the progress bar counts."""
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


def _print_json(content: dict[str, Any]) -> None:
    typer.echo(orjson.dumps(content, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_INDENT_2).decode())


def risk_command(
    file: LogFile,
    arm_column: ArmColumn = "arm",
    reward_column: RewardColumn = "reward",
    resamples: Resamples = 1000,
    seed: Seed = 0,
    measure: Annotated[
        DialName,
        typer.Option(
            help="expectile by downside weight, cvar or quantile by level, mean-variance by aversion to deviations."
        ),
    ] = DialName.EXPECTILE,
    delimiter: Delimiter = ",",
    decimal: Decimal = ".",
    encoding: Encoding = "utf-8",
    as_json: AsJson = False,
) -> None:
    """Show each arm's mean and its risk from mild to strong caution, and where the best arm changes."""
    form = _character(delimiter)
    columns = Columns(arm_column, reward_column, delimiter=form, decimal=decimal, encoding=encoding)
    log = read_log(file, columns, rewards_only=True)
    result = arm_risks(log, resamples, seed, measure)
    if as_json:
        _print_json(_as_json(result))
    else:
        print_arm_risks(output_console(), result)


def _character(delimiter: str) -> str:
    return delimiter.replace("\\t", "\t")


def _as_json(result: ArmRisks) -> dict[str, Any]:
    """The result, with the dial's values and those of the changes under its name."""
    key = result.dial.key
    content = {name: value for name, value in vars(result).items() if name not in {"dial", "changes"}}
    changes = [{key: change.at, **{k: v for k, v in vars(change).items() if k != "at"}} for change in result.changes]
    return {
        f"{key}s": result.dial.values,
        **content,
        "changes": changes,
        "best": result.best,
        "words": in_words(result),
    }


def replay_command(
    file: LogFile,
    url: Annotated[str | None, typer.Option(help="Address of a running service.")] = None,
    server: Annotated[
        Database | None, typer.Option(help="Start a service of our own on a temporary database instead.")
    ] = None,
    campaign: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="The campaign, as for POST /campaigns, in JSON or YAML. Model and arms are taken from the log where "
            "it names none.",
        ),
    ] = None,
    downside_weight: Annotated[
        float | None,
        typer.Option(
            callback=finite, help="Evaluate the expectile: a shortfall counts this many times as much as a surplus."
        ),
    ] = None,
    level: Annotated[
        float | None, typer.Option(callback=finite, help="The same as a level, 1 / (1 + downside weight).")
    ] = None,
    gamma: Annotated[
        float | None,
        typer.Option(callback=finite, help="Evaluate the entropic risk; below 0 is cautious. Needs reward bounds."),
    ] = None,
    mean: Annotated[bool, typer.Option("--mean", help="Evaluate the mean.")] = False,
    algorithm: Annotated[AlgorithmName | None, typer.Option(help="Default: the service's.")] = None,
    minimum: Annotated[float | None, typer.Option(callback=finite, help="Lowest possible reward.")] = None,
    maximum: Annotated[float | None, typer.Option(callback=finite, help="Highest possible reward.")] = None,
    fit: Annotated[
        float,
        typer.Option(
            callback=finite, min=0.05, max=0.95, help="Share of the rows to fit on (not with uniform propensities)."
        ),
    ] = 0.8,
    arm_column: ArmColumn = "arm",
    reward_column: RewardColumn = "reward",
    propensity_column: Annotated[str, typer.Option(help="Name of the field with the propensity.")] = "propensity",
    context_column: Annotated[
        list[str] | None, typer.Option(help="Repeat for each field of the context. Default: context.*")
    ] = None,
    all_columns: Annotated[
        bool, typer.Option("--all-columns", help="All other columns are the context, but those to --ignore.")
    ] = False,
    ignore: Annotated[list[str] | None, typer.Option(help="With --all-columns: a column that is left out.")] = None,
    uniform: Annotated[
        bool, typer.Option("--uniform", help="The arms were drawn with equal probabilities, as in an A/B test.")
    ] = False,
    delimiter: Delimiter = ",",
    decimal: Decimal = ".",
    encoding: Encoding = "utf-8",
    resamples: Resamples = 1000,
    seed: Seed = 0,
    as_json: AsJson = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the campaign on the service.")] = False,
    run_id: Annotated[
        str | None,
        typer.Option(help="Part of all ids. Default: random with --url, fixed by the seed with --server."),
    ] = None,
    api_key: Annotated[
        str | None, typer.Option(envvar="PRUDENT_API_KEY", help="API key, if the service requires one.")
    ] = None,
) -> None:
    """Evaluate a campaign on a log of past decisions, before it goes live.

    With uniform propensities the campaign is replayed while it learns; with others a fitted, frozen one is evaluated
    by weighting; without any, calibration and agreement are shown, which is not an estimate of its value.
    """
    if (url is None) == (server is None):
        raise typer.BadParameter("give either --url or --server")
    options = CampaignOptions(campaign, downside_weight, level, gamma, mean, algorithm, minimum, maximum)
    if all_columns and context_column:
        raise typer.BadParameter("give either --all-columns or --context-column")
    columns = Columns(
        arm_column,
        reward_column,
        propensity_column,
        tuple(context_column or ()),
        is_all_context=all_columns,
        ignored=tuple(ignore or ()),
        described=described_features(options),
        delimiter=_character(delimiter),
        decimal=decimal,
        encoding=encoding,
    )
    log = read_log(file, columns)
    log = with_uniform(log, columns) if uniform else log
    name = run_id_of(run_id, f"replay.seed-{seed}", server)
    body = campaign_of(log, options, name) | {"seed": seed}
    with (
        open_client(url, server, api_key) as client,
        _campaign(client, body, keep=keep or server is not None) as created,
        progress_bar() as progress,
    ):
        way = _way(log, created)
        task = progress.add_task("Rows and resamples", total=len(log.rows) + _BOOTSTRAPS[way] * resamples)
        session = Session(
            client=client,
            log=log,
            campaign_id=name,
            measure=Measure.of_campaign(created["risk"]),
            run_id=name,
            resamples=resamples,
            seed=seed,
            minimum=created["reward"]["minimum"],
            maximum=created["reward"]["maximum"],
            on_step=lambda done: progress.advance(task, done),
        )
        found = _judge(session, way, created, fit)
    if as_json:
        settings = {key: created[key] for key in ("risk", "model", "algorithm", "reward")}
        _print_json({"judged": way, "campaign": settings, **asdict(found)})
    else:
        _print(output_console(), found, session.measure, log)


@contextmanager
def _campaign(client: Client, body: dict[str, Any], *, keep: bool) -> Iterator[dict[str, Any]]:
    """Create the campaign, give it as the service resolved it, and delete it afterwards unless it is to be kept."""
    created = client.create_campaign(body)
    try:
        yield created
    except UnreachableError:
        raise  # there is nobody to ask for a deletion
    except BaseException:
        with suppress(ClientError):  # the first failure is the one to tell
            _delete(client, body, keep=keep)
        raise
    _delete(client, body, keep=keep)


def _delete(client: Client, body: dict[str, Any], *, keep: bool) -> None:
    if not keep:
        client.delete_campaign(body["campaign_id"])


def _way(log: Log, created: dict[str, Any]) -> str:
    """Choose how to judge: by what is known of how the log's choices were made."""
    propensities = {row.propensity for row in log.rows}
    if propensities <= {None, 1.0}:
        return "shadow"  # a log that never explored has no propensities to weigh with
    return "uniform" if is_uniform(log.rows, len(created["arms"])) else "weighted"


def _judge(
    session: Session, way: str, created: dict[str, Any], fit: float
) -> UniformReplay | WeightedEvaluation | Shadow:
    if way == "uniform":
        arms = [arm["arm_id"] for arm in created["arms"]]
        return replay_uniform(session, arms, created["algorithm"]["warmup"])
    return evaluate_weighted(session, fit) if way == "weighted" else look_in_shadow(session, fit)


def _print(console: Console, found: UniformReplay | WeightedEvaluation | Shadow, measure: Measure, log: Log) -> None:
    if isinstance(found, UniformReplay):
        print_uniform(console, found, measure)
    elif isinstance(found, WeightedEvaluation):
        print_weighted(console, found, measure)
    else:
        if log.rows[0].propensity is not None:
            console.print("All propensities are 1: the log never explored, so there is nothing to weigh.")
        print_shadow(console, found, measure)
