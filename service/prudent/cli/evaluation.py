"""The command `prudent evaluate`: other policies, judged on a campaign's own log."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from prudent.cli.console import ApiKey, DatabaseUrl, ServerUrl, console, fail, refuse_both, settings_or_fail
from prudent.cli.transfer import PIECE_BYTES, opened_file, progress_bar

if TYPE_CHECKING:
    from rich.progress import Progress

    from prudent.core.off_policy import Estimate
    from prudent.evaluation.evaluation import Evaluation, OtherPolicy
    from prudent.evaluation.log import CampaignLog


def evaluate_command(
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="A file written by prudent export; - for standard input.")
    ] = None,
    campaign: Annotated[
        str | None, typer.Option(help="Instead of a file: a campaign of the database, or of the server with --url.")
    ] = None,
    downside_weight: Annotated[
        list[float] | None, typer.Option(help="Also judge the campaign with this downside weight. May be repeated.")
    ] = None,
    level: Annotated[list[float] | None, typer.Option(help="The same, as the level of the expectile.")] = None,
    gamma: Annotated[list[float] | None, typer.Option(help="Also judge it with this entropic risk.")] = None,
    mean: Annotated[bool, typer.Option("--mean", help="Also judge it with the mean.")] = False,
    configuration: Annotated[
        list[Path] | None,
        typer.Option(
            help="Also judge another configuration: a JSON file with the risk, and with the fields of algorithm and "
            "reward, that differ from the campaign's. May be repeated."
        ),
    ] = None,
    greedy: Annotated[
        bool, typer.Option("--greedy", help="Also judge the best estimates of the campaign and of each configuration.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    database_url: DatabaseUrl = None,
    url: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Estimate what each arm alone, another risk level or another configuration would have earned, from the own log.

    The campaign's log has the propensity of every decision. A policy that the log does not support is refused.
    """
    from threadpoolctl import threadpool_limits

    from prudent.errors import CommandError
    from prudent.evaluation.evaluation import evaluate

    if (file is None) == (campaign is None):
        fail("give either a file or --campaign")
    if campaign is None and (url is not None or database_url is not None):
        fail("--url and --database-url go with --campaign")
    risks: list[tuple[str, dict[str, Any]]] = [
        *((f"downside weight {value:g}", _expectile("downside_weight", value)) for value in downside_weight or ()),
        *((f"level {value:g}", _expectile("level", value)) for value in level or ()),
        *((f"gamma {value:g}", {"risk": {"measure": "entropic", "gamma": value}}) for value in gamma or ()),
        *([("mean", {"risk": {"measure": "mean"}})] if mean else ()),
        *((path.stem, _changes(path)) for path in configuration or ()),
    ]
    # one BLAS thread, as in the service, so that sums are rounded the same way
    with threadpool_limits(1), progress_bar() as progress:
        try:
            log = _read(file, campaign, database_url, url, api_key, progress)
            others = _others(log, risks, greedy=greedy)
            task = progress.add_task("replaying", total=len(log.decisions))
            measures = [log.creation.measure(), *(one.configuration.measure() for one in others)]
            found = evaluate(log, others, measures, lambda: progress.advance(task))
        except CommandError as error:
            fail(error.message if error.field is None else f"{error.field}: {error.message}")
    if as_json:
        _print_json(found)
    else:
        _print(log, found)


def _expectile(name: str, value: float) -> dict[str, Any]:
    return {"risk": {"measure": "expectile", name: value}}


def _changes(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        fail(f"cannot read {path}: {error.strerror}")
    except ValueError as error:
        fail(f"{path}: is not JSON: {error}")
    if not isinstance(content, dict):
        fail(f'{path}: must be an object such as {{"risk": {{"measure": "mean"}}}}')
    return content


def _others(log: "CampaignLog", risks: list[tuple[str, dict[str, Any]]], *, greedy: bool) -> "list[OtherPolicy]":
    """The configurations to judge, each with its own name."""
    from pydantic import ValidationError

    from prudent.api.problems import describe_validation
    from prudent.errors import InvalidCommandError
    from prudent.evaluation.evaluation import OtherPolicy
    from prudent.evaluation.policies import reconfigured

    others = []
    for name, changes in risks:
        try:
            others.append(OtherPolicy(name, reconfigured(log.configuration, changes)))
        except ValidationError as error:
            fail(f"{name}: {describe_validation(error)['detail']}")
        except InvalidCommandError as error:
            fail(f"{name}: {error.message if error.field is None else f'{error.field}: {error.message}'}")
    if greedy:
        named = [("the campaign", log.configuration), *((one.name, one.configuration) for one in others)]
        others += [OtherPolicy(f"{name}, best estimates", one, explore=False) for name, one in named]
    return others


def _read(
    file: str | None,
    campaign: str | None,
    database_url: str | None,
    url: str | None,
    api_key: str | None,
    progress: "Progress",
) -> "CampaignLog":
    """The log, from a file or as an export of the campaign as it is now."""
    from prudent.evaluation.log import read_export

    with _exported(campaign, database_url, url, api_key, progress) if campaign else opened_file(file or "") as opened:
        source, size = opened
        task = progress.add_task("reading", total=size)
        pieces = iter(lambda: source.read(PIECE_BYTES), b"")
        return read_export(pieces, settings_or_fail().limits.body_bytes_max, lambda done: progress.advance(task, done))


@contextmanager
def _exported(
    campaign: str, database_url: str | None, url: str | None, api_key: str | None, progress: "Progress"
) -> Iterator[tuple[IO[bytes], int | None]]:
    from prudent.cli.moving import export_from_database, export_from_server

    refuse_both(database_url, url)
    with tempfile.TemporaryFile() as kept:
        if url is not None:
            export_from_server(url, api_key, campaign, kept, progress)
        else:
            export_from_database(database_url, campaign, kept, progress)
        size = kept.tell()
        kept.seek(0)
        yield kept, size


def _print_json(found: "Evaluation") -> None:
    from prudent.evaluation.report import notes

    content = asdict(found)
    for policy, shown in zip(found.policies, content["policies"], strict=True):
        shown["mean"] = None if policy.mean is None else policy.mean._asdict()
        for name in ("values", "gains"):
            shown[name] = {title: one._asdict() for title, one in getattr(policy, name).items()}
    typer.echo(json.dumps(content | {"notes": notes(found)}, indent=2, ensure_ascii=False))


def _print(log: "CampaignLog", found: "Evaluation") -> None:
    from prudent.evaluation.report import notes

    console.print(
        f"{found.judged} of the {found.decisions} decisions of {log.creation.campaign_id} are judged, by their "
        "recorded propensities.",
        highlight=False,
    )
    support = Table("Policy", title="What the log says about each policy")
    for column in ("Rows", "Effective rows", "Largest weight", "Mean weight"):
        support.add_column(column, justify="right")
    for one in found.policies:
        numbers = (f"{one.effective:.0f}", f"{one.weight_max:.4g}", f"{one.mean_weight:.3f}")
        support.add_row(one.name, str(one.rows), *numbers)
    console.print(support)
    for title in found.measures:
        console.print(_table(found, title))
    for sentence in notes(found):
        console.print(sentence, highlight=False)


def _table(found: "Evaluation", title: str) -> Table:
    """The values under one measure, and by how much they exceed the campaign's."""
    with_ips = title == found.measures[0]
    table = Table("Policy", title=f"Value of each policy: {title}")
    columns = [*(["IPS", "95% interval"] if with_ips else []), "SNIPS", "95% interval", "Minus the campaign's"]
    for column in columns:
        table.add_column(column, justify="right")
    for one in found.policies:
        if one.refusal is not None or one.mean is None:
            table.add_row(one.name, *["no support"] * (1 + with_ips))
            continue
        cells = [*(_cells(one.mean) if with_ips else ()), *_cells(one.values[title])]
        if title in one.gains:
            value, interval = _cells(one.gains[title])
            cells.append(f"{value} ({interval})")
        table.add_row(one.name, *cells)
    return table


def _cells(estimate: "Estimate") -> tuple[str, str]:
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.4g}", "unknown"
    return f"{estimate.value:.4g}", f"{estimate.low:.4g} to {estimate.high:.4g}"
