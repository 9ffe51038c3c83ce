"""The only place where the parts meet."""

import asyncio
import multiprocessing
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version
from pathlib import Path

import structlog
from fastapi import FastAPI
from sqlalchemy import Engine

from prudent.api import campaigns, decisions, documentation, events, operations, problems, reports, transfer
from prudent.api.doors import ofrep, personalizer
from prudent.api.doors.loops import Loops
from prudent.api.doors.translation import TranslateProblems
from prudent.api.server import authentication
from prudent.api.server.bodies import Bodies
from prudent.api.server.connections import Connections
from prudent.api.server.middleware import AnswerHead, CompressReads, CountRequests, Requests, UnderPrefix
from prudent.api.server.origins import AllowOrigins
from prudent.clock import steady_clock
from prudent.dashboard.administration import administration_routes
from prudent.dashboard.demo_parcels import demo_routes
from prudent.dashboard.keys import key_routes
from prudent.dashboard.login import login_routes
from prudent.dashboard.pages import page_routes
from prudent.dashboard.queries import Queries
from prudent.dashboard.rendering import Pages, asset_routes, dashboard_assets
from prudent.dashboard.rewards import reward_routes
from prudent.dashboard.try_select import try_routes
from prudent.demo import create_demo
from prudent.environment import LEDGER_SOCKET_VARIABLE
from prudent.guide.library import Library, folder_of_pages
from prudent.guide.routes import guide_routes
from prudent.ledger.access import LedgerAccess
from prudent.ledger.ledger import Ledger
from prudent.observability import logs
from prudent.observability.metrics import Metrics
from prudent.observability.multiprocess import FOLDER_VARIABLE
from prudent.preflight import is_loopback
from prudent.processes.remote_ledger import RemoteLedger
from prudent.processes.runtime import tuned
from prudent.security.keys import FLAGS, KeyRing
from prudent.security.sessions import Sessions
from prudent.settings import Settings, read_settings
from prudent.store.engines import create_read_engine, create_write_engine, parse_database_url
from prudent.store.read_pool import Reader
from prudent.store.replica import Replica

logger = structlog.get_logger(__name__)


def create_app(settings: Settings, metrics_folder: Path | None = None, ledger_socket: Path | None = None) -> FastAPI:
    """The service. Nothing is opened or started before its lifespan begins.

    metrics_folder: where the processes of one `prudent serve` add up their counters. ledger_socket: where the one that
    has the ledger is found; None for a ledger in this process.
    """
    url = parse_database_url(settings.database_url)
    read_engine = create_read_engine(url)
    metrics = Metrics(metrics_folder)
    metrics.workers.set(1)
    clock = steady_clock()
    write: Engine | None = None
    ledger: LedgerAccess
    if ledger_socket is None:
        write = create_write_engine(url)
        ledger = Ledger(write, read_engine, limits=settings.limits, metrics=metrics, clock=clock)
    else:
        ledger = RemoteLedger(ledger_socket, limits=settings.limits, metrics=metrics)
    read = Reader(read_engine)
    replica = replica_of(settings, read)
    far = replica or read
    bodies = Bodies(settings.limits)
    requests = Requests(metrics, log_all=settings.log_level == "debug")
    ring = KeyRing(may_be_open=is_loopback(settings.host), admin_key=settings.admin_key)
    sessions = Sessions(settings, clock=time.time)
    flags = ofrep.Flags(ledger, read, bodies, clock)
    lane = None
    if not settings.tracing:
        lane = decisions.FastLane(ledger, bodies, ring if settings.auth else None, requests, [flags])
    assets = dashboard_assets()
    pages, queries = Pages(assets, far, sessions, has_demo=settings.demo), Queries(ledger, far)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[dict[str, object]]:
        try:
            with tuned():
                async with ledger.opened():
                    leave_with_parent()
                    if settings.demo:
                        await create_demo(ledger)
                    async with authentication.current_keys(ring, sessions, read, settings.keys_refresh_seconds):
                        connections = Connections(settings.limits, metrics, asyncio.get_running_loop())
                        # for the connections' protocol
                        yield {"limits": settings.limits, "connections": connections, "lane": lane}
        finally:
            read.close()
            if replica is not None:
                replica.close()
            if write is not None:
                write.dispose()
            read_engine.dispose()
            stop_tracing()

    app = FastAPI(
        title="Prudent",
        version=version("prudent"),
        lifespan=lifespan,
        openapi_url=None,  # documentation.py serves it
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # off, because looking for a tracer takes a tenth of a request even where there is none
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    app.add_middleware(CompressReads)
    app.add_middleware(AnswerHead)
    if settings.auth:
        app.add_middleware(authentication.RequireKey, ring=ring, sessions=sessions)
    app.add_middleware(TranslateProblems, path=FLAGS, translate=ofrep.translate)
    app.add_middleware(personalizer.ReadPersonalizerHeads)
    app.add_middleware(TranslateProblems, path=personalizer.PREFIX, translate=personalizer.translate)
    if settings.flag_origins:
        app.add_middleware(AllowOrigins, path=FLAGS, origins=settings.flag_origins)
    app.add_middleware(CountRequests, requests=requests)
    if settings.root_path:
        app.add_middleware(UnderPrefix, prefix=settings.root_path)
    stop_tracing = trace_requests(app) if settings.tracing else lambda: None
    routers = (
        campaigns.campaign_routes(ledger, read, bodies),  # first, as the documentation's other examples need a campaign
        decisions.decision_routes(ledger, read, bodies),
        events.event_routes(ledger, read, bodies, metrics),
        ofrep.flag_routes(flags, bodies),
        personalizer.personalizer_routes(Loops(ledger, read, metrics, clock), bodies),
        campaigns.arm_routes(ledger, bodies),
        campaigns.learning_routes(ledger, read, bodies),
        reports.report_routes(far, ledger, clock),
        transfer.transfer_routes(ledger, far, bodies, settings.limits, clock),
        operations.operation_routes(ledger, read, replica, metrics, settings.metrics_campaigns, clock),
        page_routes(ledger, far, queries, pages, clock),
        try_routes(ledger, queries, pages),
        reward_routes(ledger, queries, pages, sessions),
        administration_routes(ledger, read, pages, sessions),
        key_routes(ledger, read, pages, ring, sessions),
        login_routes(pages, ring, sessions, ledger),
        asset_routes(assets),
        guide_routes(Library(folder_of_pages()), icon=assets.address("icon.svg")),
        *([demo_routes(ledger, pages)] if settings.demo else []),
    )
    documentation.install(app)  # first, as its large files are what an attacker would ask for
    for router in routers:  # not included: a router in a router is matched before its routes are, at their price again
        app.router.routes.extend(router.routes)
    problems.install(app, app.routes)
    return app


def replica_of(settings: Settings, primary: Reader) -> Replica | None:
    """A reader of the standby that the settings name; None if they name none."""
    if not settings.read_database_url:
        return None
    return Replica(create_read_engine(parse_database_url(settings.read_database_url), may_be_standby=True), primary)


def leave_with_parent() -> None:
    """Stop this worker, gracefully, when the process that started it is gone: nobody could stop or replace it."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    loop, sentinel = asyncio.get_running_loop(), parent.sentinel

    def leave() -> None:
        loop.remove_reader(sentinel)
        logger.error("the parent process is gone: this worker stops")
        os.kill(os.getpid(), signal.SIGTERM)

    loop.add_reader(sentinel, leave)


def trace_requests(app: FastAPI) -> Callable[[], None]:
    """Trace all that the application answers; what to call when it stops. Needs the extra `telemetry`."""
    from prudent.observability import tracing

    provider = tracing.create_tracer_provider()
    app.add_middleware(tracing.TraceRequests, provider=provider)
    return provider.shutdown


def create_app_from_environment() -> FastAPI:
    """For uvicorn's worker processes, which get their settings from the environment."""
    settings = read_settings()
    logs.configure(settings.log_level)
    if settings.workers == 1:
        return create_app(settings)
    return create_app(settings, Path(os.environ[FOLDER_VARIABLE]), Path(os.environ[LEDGER_SOCKET_VARIABLE]))
