"""The command line: the server and its database, keys, campaigns, tables, moves, evaluation, and tools for agents.

A command imports what it works with when it is called, so that help and usage errors do not wait for numpy, SQLAlchemy
and FastAPI.
"""

import gc
import os
import secrets
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from prudent.cli import agents, campaigns, evaluation, keys, tables, transfer
from prudent.cli.console import (
    DatabaseUrl,
    console,
    fail,
    inform,
    load_environment_file,
    load_key_file,
    settings_or_fail,
)
from prudent.environment import API_KEY_VARIABLE, PREFIX

if TYPE_CHECKING:
    import httpx

    from prudent.settings import Settings

GRACE_SECONDS = 8
DEMO_PORTS = 8000, 8019
PARTITIONS_MAX = 256
"""A look for an id in all campaigns opens each of them."""
app = typer.Typer(help="Prudent: risk-aware contextual bandits as a self-hosted service.", no_args_is_help=True)
app.add_typer(keys.app, name="keys")
app.add_typer(campaigns.app, name="campaigns")
app.add_typer(tables.app, name="features")
app.command("observations")(tables.observations_command)
app.command("export")(transfer.export_command)
app.command("import")(transfer.import_command)
app.command("evaluate")(evaluation.evaluate_command)
app.command("mcp")(agents.mcp_command)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        console.print(f"prudent {version('prudent')}", highlight=False)
        raise typer.Exit


@app.callback()
def _main(
    _version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """What all commands have in common."""


@app.command()
def serve(
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; default PRUDENT_HOST, else 127.0.0.1.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port to listen on; default PRUDENT_PORT, else 8000.")
    ] = None,
    database_url: DatabaseUrl = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes that speak HTTP; default PRUDENT_WORKERS, else 1.")
    ] = None,
    demo: Annotated[bool | None, typer.Option("--demo", help="Create a demo campaign.")] = None,
) -> None:
    """Serve the HTTP API. A SQLite database that does not exist yet is created."""
    import structlog
    import uvicorn

    from prudent.cli.database import described
    from prudent.observability import logs
    from prudent.preflight import NotServableError, asks_for_keys, prepare
    from prudent.store.engines import UnsupportedDatabaseError, parse_database_url
    from prudent.store.schema import UnknownRevisionError

    given: dict[str, Any] = {"host": host, "port": port, "database_url": database_url, "workers": workers, "demo": demo}
    settings = settings_or_fail(**{name: value for name, value in given.items() if value is not None})
    if settings.tracing:
        _check_tracing()
    try:
        lock = prepare(settings)
    except (NotServableError, UnknownRevisionError, UnsupportedDatabaseError) as error:
        fail(str(error))
    _export(settings)
    logs.configure(settings.log_level)
    database = described(parse_database_url(settings.database_url))
    if settings.demo:
        inform(f"database: {database}")
        _announce(settings, with_key=asks_for_keys(settings))
    else:
        structlog.get_logger(__name__).info("serving", database=database)  # every line of the log is JSON
    for kind in (signal.SIGTERM, signal.SIGINT):
        # uvicorn stops gracefully and then raises the signal again: a requested stop exits with 0
        signal.signal(kind, lambda *_: sys.exit(0))
    level = "warning" if settings.demo and settings.log_level == "info" else settings.log_level
    gc.disable()  # until everything is loaded: scanning it for garbage takes a seventh of the start
    with _several_processes(settings.workers):
        uvicorn.run(
            "prudent.app:create_app_from_environment",
            factory=True,
            host=settings.host,
            port=settings.port,
            workers=settings.workers,
            loop="auto",
            http="prudent.api.server.protocol:BoundedProtocol",
            ws="none",
            timeout_keep_alive=settings.limits.idle_seconds_max,
            access_log=False,
            server_header=False,
            log_config=logs.uvicorn_configuration(level),
            log_level=level,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
    if lock is not None:
        lock.close()


@app.command("demo")
def demo_command(
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Port to listen on; default the first free one from 8000.")
    ] = None,
) -> None:
    """Serve a demo campaign, from a database that is gone when you stop it. To keep one: prudent serve --demo."""
    from prudent.preflight import first_free_port

    if port is None:
        port = first_free_port("127.0.0.1", *DEMO_PORTS)
    with tempfile.TemporaryDirectory(prefix="prudent-demo-") as folder:
        serve(host="127.0.0.1", port=port, database_url=f"sqlite:///{folder}/prudent.db", workers=1, demo=True)


@app.command("migrate")
def migrate_command(
    database_url: DatabaseUrl = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            min=2,
            max=PARTITIONS_MAX,
            help="PostgreSQL: keep decisions and logs in so many partitions, by campaign; moves what there is.",
        ),
    ] = None,
) -> None:
    """Create the database's schema or bring it to this version. Safe to run from several places at once."""
    from prudent.cli.database import described, reported_failures
    from prudent.store.engines import (
        NEW_FILE_MODE,
        create_write_engine,
        parse_database_url,
    )
    from prudent.store.schema import campaigns_without_rule, migrate

    settings = settings_or_fail()
    with reported_failures():
        url = parse_database_url(database_url or settings.database_url)
        inform(f"database: {described(url)}")
        if partitions is not None and url.get_backend_name() == "sqlite":
            raise typer.BadParameter("SQLite has no partitions: use PostgreSQL", param_hint="--partitions")
        if url.get_backend_name() == "sqlite" and Path(url.database or "").parent.is_dir():
            Path(url.database or "").touch(NEW_FILE_MODE)
        engine = create_write_engine(url)
        try:
            before, after = migrate(engine, partitions=partitions)
            kept = 0 if before in (None, after) else campaigns_without_rule(engine)
        finally:
            engine.dispose()
    console.print(f"schema at {after}" if before == after else f"schema migrated from {before or 'none'} to {after}")
    if partitions is not None:
        console.print(f"decisions and observations are in {partitions} partitions each")
    if kept:
        console.print(
            f"campaigns that keep the optimistic exploration rule they were created with: {kept}; new ones are "
            "randomized by default, see docs/exploration.md"
        )


@app.command("verify")
def verify_command(
    database_url: DatabaseUrl = None,
    url: Annotated[str | None, typer.Option(help="A running server whose states are compared as well.")] = None,
    api_key: Annotated[str | None, typer.Option(envvar=API_KEY_VARIABLE, help="A reader's key, for --url.")] = None,
    deep: Annotated[bool, typer.Option("--deep", help="Compute the running digests of the logs as well.")] = False,
) -> None:
    """Replay every log and compare heads, rewards, snapshots and, with --url, a running server's states."""
    import httpx
    from threadpoolctl import threadpool_limits

    from prudent.cli.database import opened_database
    from prudent.ledger.verification import verify

    table = Table("campaign", "observations", *(["digest"] if deep else []), "snapshot", "live", "result")
    faults = checked = 0
    headers = {} if api_key is None else {"X-API-Key": api_key}
    try:
        client = httpx.Client(base_url=url or "", headers=headers, timeout=60)
    except httpx.InvalidURL as error:
        fail(f"cannot compare with the server at {url}: {error}")
    except UnicodeEncodeError:
        fail("the API key must be printable ASCII")
    # one BLAS thread, as in the service, so that sums are rounded the same way
    with threadpool_limits(1), client, opened_database(database_url, read_only=True) as engine:
        try:
            for verdict in verify(engine, None if url is None else lambda name: _live_model(client, name), deep=deep):
                checked += 1
                faults += bool(verdict.faults)
                result = "ok" if not verdict.faults else "; ".join(verdict.faults)
                if verdict.replaced:
                    result += f" (the log begins with a snapshot, in place of {verdict.replaced} rows)"
                shown = [verdict.digest] if deep else []
                shown += [verdict.snapshot, verdict.live, result]
                table.add_row(verdict.campaign_id, str(verdict.observations), *shown)
        except httpx.HTTPError as error:
            fail(f"cannot compare with the server at {url}: {error.__cause__ or error}")
    if not checked:
        console.print("the database has no campaigns: nothing to verify")
        return
    console.print(table)
    console.print(f"{checked} campaigns, {faults} with faults")
    raise typer.Exit(1 if faults else 0)


def _live_model(client: "httpx.Client", campaign_id: str) -> dict[str, Any] | None:
    reply = client.get(f"/campaigns/{campaign_id}/model")
    if reply.status_code == 404:
        return None
    reply.raise_for_status()
    try:
        model = reply.json()
    except ValueError:
        model = None
    if not isinstance(model, dict) or "observations" not in model:
        fail(f"{reply.url} is not a reply of Prudent; check --url")
    return model


def _export(settings: "Settings") -> None:
    """Put the settings into the environment, from which worker processes read them."""
    for name in ("database_url", "host", "port", "workers"):
        os.environ[PREFIX + name.upper()] = str(getattr(settings, name))
    os.environ[PREFIX + "DEMO"] = "1" if settings.demo else ""
    # a session that one worker opens is valid at all of them
    os.environ[PREFIX + "SESSION_SECRET"] = settings.session_secret or settings.admin_key or secrets.token_hex(32)


def _check_tracing() -> None:
    try:
        import_module("prudent.observability.tracing")
    except ModuleNotFoundError as error:
        fail(f"PRUDENT_TRACING is on, but {error.name} is not installed: pip install 'prudent[telemetry]'")


@contextmanager
def _several_processes(workers: int) -> Iterator[None]:
    """Give several workers the ledger's process, and a folder in which counters are added up, until they have ended."""
    if workers == 1:
        yield
        return
    from prudent.observability.multiprocess import FOLDER_VARIABLE
    from prudent.processes.supervision import LedgerNotStartedError, ledger_process

    with tempfile.TemporaryDirectory(prefix="prudent-metrics-") as folder:
        os.environ[FOLDER_VARIABLE] = folder
        try:
            with ledger_process(Path(folder)):
                yield
        except LedgerNotStartedError as error:
            fail(str(error))


def _announce(settings: "Settings", *, with_key: bool) -> None:
    """Print what a newcomer can try."""
    base = f"http://{settings.host}:{settings.port}"
    key = ' -H "X-API-Key: $PRUDENT_API_KEY"' if with_key else ""
    header = f"-H 'Content-Type: application/json'{key}"
    own = "THE-VALUE-OF-PRUDENT_ADMIN_KEY" if settings.admin_key else "$(prudent keys create me --role admin)"
    about_keys = f"Every call needs a key:\n\n  export PRUDENT_API_KEY={own}\n\n" if with_key else ""
    console.print(
        f"""
Prudent is starting at {base} with the campaign 'demo': three couriers. One of them is the best
on average but sometimes loses a parcel. Stop it with Ctrl-C. {about_keys}In another terminal, ask which one to send:

  curl -s {base}/select {header} -d '{{"campaign_id": "demo", "decision_id": "parcel-1", "explain": true}}'

and report the outcome as a reward (larger is better):

  curl -s {base}/reward {header} -d '{{"decision_id": "parcel-1", "reward": 0.62}}'

Dashboard:            {base}/
What it has learned:  curl -s {base}/campaigns/demo/model{key}
All API calls:        {base}/docs
The documentation:    {base}/guide
""",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def main() -> None:
    """Entry point; what the system refuses, such as a write to a full disk, is one line on standard error."""
    try:
        load_environment_file()
        load_key_file()
        try:
            app()
        finally:
            if sys.stdout is not None:  # a service may be started without one
                sys.stdout.flush()
    except typer.Exit as ended:  # of the first two; the app takes its own
        sys.exit(ended.exit_code)
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # the reader has seen enough
            inform(f"prudent: {error}")
        # what is left would fail once more when Python ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)


if __name__ == "__main__":
    main()
