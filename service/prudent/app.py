"""The only place where the parts meet."""

import asyncio
import gc
import multiprocessing
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from pathlib import Path

import structlog
from fastapi import FastAPI
from threadpoolctl import threadpool_limits

from prudent.api import campaigns, decisions, documentation, operations, problems, reports, transfer
from prudent.api.server import authentication
from prudent.api.server.bodies import Bodies
from prudent.api.server.connections import Connections
from prudent.api.server.middleware import AnswerHead, CountRequests, Requests
from prudent.clock import steady_clock
from prudent.dashboard.login import login_routes
from prudent.dashboard.pages import page_routes
from prudent.dashboard.queries import Queries
from prudent.dashboard.rendering import Pages, asset_routes, dashboard_assets
from prudent.dashboard.try_select import try_routes
from prudent.demo import create_demo
from prudent.ledger.ledger import Ledger
from prudent.observability import logs
from prudent.observability.metrics import Metrics
from prudent.observability.multiprocess import FOLDER_VARIABLE
from prudent.preflight import is_loopback
from prudent.security.keys import KeyRing
from prudent.security.sessions import Sessions
from prudent.settings import Settings, read_settings
from prudent.store.engines import create_read_engine, create_write_engine, parse_database_url
from prudent.store.read_pool import Reader

logger = structlog.get_logger(__name__)

YOUNG_OBJECTS_MAX = 10_000
"""Before they are looked at for cycles: a batch with its requests has thousands, and makes hardly any garbage."""


def create_app(settings: Settings, metrics_folder: Path | None = None) -> FastAPI:
    """The service. Nothing is opened or started before its lifespan begins.

    metrics_folder: where the workers of one `prudent serve` add up their counters.
    """
    url = parse_database_url(settings.database_url)
    write, read_engine = create_write_engine(url), create_read_engine(url)
    metrics = Metrics(metrics_folder)
    clock = steady_clock()
    ledger = Ledger(write, read_engine, limits=settings.limits, metrics=metrics, clock=clock)
    read = Reader(read_engine)
    bodies = Bodies(settings.limits)
    requests = Requests(metrics, log_all=settings.log_level == "debug")
    ring = KeyRing(may_be_open=is_loopback(settings.host), admin_key=settings.admin_key)
    sessions = Sessions(settings, clock=time.time)
    lane = None if settings.tracing else decisions.FastLane(ledger, bodies, ring if settings.auth else None, requests)
    assets = dashboard_assets()
    pages, queries = Pages(assets), Queries(ledger, read)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[dict[str, object]]:
        # one thread a product: replays are then equal to the last bit, and small matrices are faster
        with threadpool_limits(1):
            ledger.start()
            leave_with_parent()
            if settings.demo:
                await create_demo(ledger)
            await authentication.load_keys(ring, sessions, read)
            watch = asyncio.create_task(authentication.watch_keys(ring, sessions, read, settings.keys_refresh_seconds))
            gc.collect()
            gc.freeze()  # the start-up heap is never garbage; scanning it made the slowest 1% of requests
            gc.enable()  # prudent serve has loaded everything without it
            gc.set_threshold(YOUNG_OBJECTS_MAX, *gc.get_threshold()[1:])
            try:
                connections = Connections(settings.limits, metrics, asyncio.get_running_loop())
                # for the connections' protocol
                yield {"limits": settings.limits, "connections": connections, "lane": lane}
            finally:
                watch.cancel()
                with suppress(asyncio.CancelledError):
                    await watch
                ledger.stop()
                read.close()
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
    app.add_middleware(AnswerHead)
    if settings.auth:
        app.add_middleware(authentication.RequireKey, ring=ring, sessions=sessions)
    app.add_middleware(CountRequests, requests=requests)
    stop_tracing = trace_requests(app) if settings.tracing else lambda: None
    routers = (
        decisions.decision_routes(ledger, bodies),
        campaigns.campaign_routes(ledger, read, bodies),
        campaigns.arm_routes(ledger, bodies),
        campaigns.learning_routes(ledger, read, bodies),
        reports.report_routes(read, ledger, clock),
        transfer.transfer_routes(ledger, read, bodies, settings.limits, clock),
        operations.operation_routes(ledger, read, metrics),
        page_routes(ledger, read, queries, pages),
        try_routes(ledger, queries, pages),
        login_routes(pages, ring, sessions, ledger),
        asset_routes(assets),
    )
    for router in routers:
        app.include_router(router)
    documentation.install(app)
    problems.install(app, [route for router in (app.router, *routers) for route in router.routes])
    return app


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
    folder = os.environ.get(FOLDER_VARIABLE) if settings.workers > 1 else None
    return create_app(settings, None if folder is None else Path(folder))
