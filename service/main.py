"""The only place where the parts meet."""

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version

from fastapi import FastAPI
from threadpoolctl import threadpool_limits

from service.api import access, campaigns, decisions, documentation, operations, problems
from service.api.bodies import Bodies
from service.api.hot import HotRoutes, hot_routes
from service.api.reader import Reader
from service.demo import create_demo
from service.keys import KeyRing
from service.ledger.identifiers import steady_clock
from service.ledger.ledger import Ledger
from service.metrics import Metrics
from service.serving import is_loopback
from service.settings import Limits, Settings, read_settings
from service.store.engines import create_read_engine, create_write_engine, parse_database_url

YOUNG_OBJECTS_MAX = 10_000
"""Before they are looked at for cycles: a batch with its requests has thousands, and makes hardly any garbage."""


def create_app(settings: Settings) -> FastAPI:
    """The service. Nothing is opened or started before its lifespan begins."""
    url = parse_database_url(settings.database_url)
    write, read_engine = create_write_engine(url), create_read_engine(url)
    metrics = Metrics()
    ledger = Ledger(write, read_engine, limits=settings.limits, metrics=metrics, clock=steady_clock())
    read = Reader(read_engine)
    bodies = Bodies(settings.limits)
    ring = KeyRing(may_be_open=is_loopback(settings.host), admin_key=settings.admin_key)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[dict[str, Limits]]:
        # one thread a product: replays are then equal to the last bit, and small matrices are faster
        with threadpool_limits(1):
            ledger.start()
            if settings.demo:
                await create_demo(ledger)
            await access.load_keys(ring, read)
            watch = asyncio.create_task(access.watch_keys(ring, read, settings.keys_refresh_seconds))
            gc.collect()
            gc.freeze()  # the start-up heap is never garbage; scanning it made the slowest 1% of requests
            gc.set_threshold(YOUNG_OBJECTS_MAX, *gc.get_threshold()[1:])
            try:
                yield {"limits": settings.limits}  # for the connections' protocol
            finally:
                watch.cancel()
                with suppress(asyncio.CancelledError):
                    await watch
                ledger.stop()
                read.close()
                write.dispose()
                read_engine.dispose()

    app = FastAPI(
        title="Prudent",
        version=version("prudent"),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        # off, because looking for a tracer takes a tenth of a request even where there is none
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    deciding = decisions.decision_routes(ledger, bodies)
    app.add_middleware(HotRoutes, application=app, routes=hot_routes(deciding))
    if settings.auth:
        app.add_middleware(access.RequireKey, ring=ring)
    app.add_middleware(operations.CountRequests, metrics=metrics)
    problems.install(app)
    app.include_router(deciding)
    app.include_router(campaigns.campaign_routes(ledger, read, bodies))
    app.include_router(campaigns.arm_routes(ledger, bodies))
    app.include_router(campaigns.learning_routes(ledger, bodies))
    app.include_router(operations.operation_routes(ledger, read, metrics))
    documentation.install(app)
    return app


def create_app_from_environment() -> FastAPI:
    """For uvicorn's worker processes, which get their settings from the environment."""
    return create_app(read_settings())
