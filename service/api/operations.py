"""Health, metrics and the counting of requests."""

import asyncio
import time
from functools import cache

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, Counter, Histogram, generate_latest
from sqlalchemy import Connection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.api.reader import Reader
from service.api.replies import PROBLEMS, HealthReply
from service.ledger.errors import DatabaseUnavailableError
from service.ledger.ledger import Ledger
from service.metrics import Metrics
from service.store.schema import UnknownRevisionError, current_revision, latest_revision

READY_SECONDS_MAX = 2.0
"""Who asks for readiness gives up soon; until then it wants a no."""


def operation_routes(ledger: Ledger, read: Reader, metrics: Metrics) -> APIRouter:
    """``/health/live``, ``/health/ready`` and ``/metrics``."""
    router = APIRouter(tags=["operations"])
    needed = latest_revision()

    @router.get("/health/live", operation_id="live")
    async def live() -> HealthReply:
        """Whether the process answers."""
        return HealthReply(status="ok")

    @router.get("/health/ready", operation_id="ready", responses={503: {"model": HealthReply}})
    async def ready(response: Response) -> HealthReply:
        """Whether it can serve: the ledger runs, the database answers and has the schema, or a newer one."""
        detail, remark = ledger.fault, None
        try:
            async with asyncio.timeout(READY_SECONDS_MAX):
                revision = await read(_revision)
        except (DatabaseUnavailableError, TimeoutError):
            detail = "the database does not answer"
        except UnknownRevisionError:
            # Known at the start, so migrated since. Migrations only add, so that the old version serves until it is
            # replaced: unready, all its workers would leave at once.
            remark = "a newer version has migrated the schema; this one goes on serving until it is replaced"
        else:
            if revision != needed:
                detail = f"the schema is at {revision}, needed is {needed}: run prudent migrate"
        if detail is None:
            return HealthReply(status="ok", detail=remark)
        response.status_code = 503
        return HealthReply(status="unavailable", detail=detail)

    @router.get(
        "/metrics",
        operation_id="metrics",
        responses=PROBLEMS | {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
        response_class=Response,
    )
    async def show_metrics() -> Response:
        """Prometheus metrics of this worker."""
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return router


def _revision(connection: Connection) -> str | None:
    return current_revision(connection)


class CountRequests:
    """Count each request and its time under its route's template, never under the ids in its path."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app

        @cache  # routes, methods and statuses are few, and finding a labelled counter takes longer than counting
        def counters(route: str, method: str, status: int) -> tuple[Counter, Histogram]:
            return metrics.requests.labels(route, method, status), metrics.request_seconds.labels(route)

        self._counters = counters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve, then count."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 500

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            requests, seconds = self._counters(route, scope["method"], status)
            requests.inc()
            seconds.observe(time.perf_counter() - started)
