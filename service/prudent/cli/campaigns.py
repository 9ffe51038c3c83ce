"""Commands about campaigns: create, list and show them, change their status, delete them."""

from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from rich.table import Column, Table

from prudent.cli.console import ApiKey, DatabaseUrl, ServerUrl, checked_id, console, fail

if TYPE_CHECKING:
    from prudent.ledger.commands import CampaignStatus

Json = dict[str, Any]
CampaignId = Annotated[str, typer.Argument(metavar="CAMPAIGN", help="The campaign's id.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, as the API returns it.")]

app = typer.Typer(
    help="Create, list, show, pause, activate, archive and delete campaigns; on the database, or through a server with "
    "--url. Servers may be running on the database: they notice a change as they notice one of another worker, at the "
    "next request.",
    no_args_is_help=True,
)


@app.command()
def create(
    file: Annotated[
        typer.FileBinaryRead,
        typer.Argument(metavar="FILE", help="A body of POST /campaigns; - for the input."),
    ],
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
    url: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Create a campaign, and show it with its defaults filled in. Doing it again changes nothing.

    With --url it needs an admin's key.
    """
    from prudent.cli.campaign_sources import opened_source

    with opened_source(database_url, url, api_key) as source:
        created = source.create(file.read())
    _show(created, as_json=as_json)


@app.command("list")
def list_command(
    as_json: AsJson = False, database_url: DatabaseUrl = None, url: ServerUrl = None, api_key: ApiKey = None
) -> None:
    """List all campaigns. With --url it needs a reader's key."""
    from prudent.cli.campaign_sources import opened_source

    with opened_source(database_url, url, api_key, read_only=True) as source:
        found = list(source.all())
    if as_json:
        _print_json(found)
        return
    if not found:
        console.print("there are no campaigns")
        return
    table = Table(Column("campaign", overflow="fold"), "status", "model", "algorithm", "arms", "observations")
    for one in found:
        table.add_row(
            one["campaign_id"],
            one["status"],
            one["model"]["type"],
            one["algorithm"]["name"],
            str(len(one["arms"])),
            str(one["observations"]),
        )
    console.print(table, markup=False)


@app.command()
def show(
    campaign: CampaignId,
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
    url: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Show a campaign and its arms; with --json all of its settings. With --url it needs a reader's key."""
    from prudent.cli.campaign_sources import opened_source

    with opened_source(database_url, url, api_key, read_only=True) as source:
        found = source.one(checked_id(campaign))
    _show(found, as_json=as_json)


def _show(found: Json, *, as_json: bool) -> None:
    if as_json:
        _print_json(found)
        return
    facts = Table(show_header=False)
    for name in ("campaign_id", "description", "status", "observations", "head", "created_at"):
        facts.add_row(name, str(found[name]))
    facts.add_row("risk", _risk(found["risk"]))
    facts.add_row("model", _model(found["model"]))
    facts.add_row("algorithm", found["algorithm"]["name"])
    for warning in found["warnings"]:
        facts.add_row("warning", warning)
    arms = Table("arm", "status")
    for arm in found["arms"]:
        arms.add_row(arm["arm_id"], arm["status"])
    console.print(facts, arms, markup=False)


def _model(model: Json) -> str:
    """In brief: the features are in the JSON."""
    shown = {name: value for name, value in model.items() if not isinstance(value, list) and value is not None}
    return ", ".join(f"{name} {value}" for name, value in shown.items())


@app.command()
def pause(
    campaign: CampaignId, database_url: DatabaseUrl = None, url: ServerUrl = None, api_key: ApiKey = None
) -> None:
    """Stop learning: selects are still answered, and rewards are stored and learned once it is active again.

    With --url it needs an admin's key.
    """
    _set_status(campaign, "paused", database_url, url, api_key)


@app.command()
def activate(
    campaign: CampaignId, database_url: DatabaseUrl = None, url: ServerUrl = None, api_key: ApiKey = None
) -> None:
    """Resume selecting and learning; rewards stored during a pause are learned first.

    With --url it needs an admin's key.
    """
    _set_status(campaign, "active", database_url, url, api_key)


@app.command()
def archive(
    campaign: CampaignId, database_url: DatabaseUrl = None, url: ServerUrl = None, api_key: ApiKey = None
) -> None:
    """Refuse new selects; rewards of earlier ones are still learned. With --url it needs an admin's key."""
    _set_status(campaign, "archived", database_url, url, api_key)


@app.command()
def delete(
    campaign: CampaignId,
    confirm: Annotated[str | None, typer.Option(help="The campaign's id again, to skip the prompt.")] = None,
    database_url: DatabaseUrl = None,
    url: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Delete a campaign with its log and its decisions, permanently. Consider prudent export first.

    With --url it needs an admin's key.
    """
    from prudent.cli.campaign_sources import opened_source

    campaign_id = checked_id(campaign)
    with opened_source(database_url, url, api_key) as source:
        found = source.one(campaign_id)
        if confirm is None:
            question = f"{found['head']} observations of {campaign_id} will be lost. To delete it, type its id"
            confirm = typer.prompt(question, err=True)
        if confirm != campaign_id:
            fail(f"nothing was deleted: expected the campaign's id, {campaign_id}")
        source.delete(campaign_id)
    console.print(f"{campaign_id} is deleted", markup=False, highlight=False)


def _set_status(
    campaign: str, status: "CampaignStatus", database_url: str | None, url: str | None, api_key: str | None
) -> None:
    from prudent.cli.campaign_sources import opened_source

    campaign_id = checked_id(campaign)
    with opened_source(database_url, url, api_key) as source:
        source.set_status(campaign_id, status)
    console.print(f"{campaign_id} is {status}", markup=False, highlight=False)


def _risk(risk: Json) -> str:
    level = risk.get("level", risk.get("gamma"))
    return str(risk["measure"]) if level is None else f"{risk['measure']} {level:g}"


def _print_json(value: object) -> None:
    typer.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())
