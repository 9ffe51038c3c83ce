"""Health checks, metrics, and the counting of requests."""

import asyncio
import time
from functools import cache

import structlog
from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, Counter, Histogram
from sqlalchemy import Connection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from prudent.api.replies import PROBLEMS, HealthReply
from prudent.errors import DatabaseUnavailableError
from prudent.ledger.ledger import Ledger
from prudent.observability.logs import REQUEST_ID_HEADER, request_id, request_ids
from prudent.observability.metrics import Metrics
from prudent.store.decisions import count_pending
from prudent.store.read_pool import Reader
from prudent.store.schema import UnknownRevisionError, current_revision, latest_revision

logger = structlog.get_logger(__name__)

READY_SECONDS_MAX = 2.0
"""Clients of readiness and metrics give up soon; they need an answer even if the database does not reply."""
LOG_SECONDS = 1.0
"""At most one line about failed requests per interval: an outage of the database must not fill the disk."""


def operation_routes(ledger: Ledger, read: Reader, metrics: Metrics) -> APIRouter:
    """``/health/live``, ``/health/ready`` and ``/metrics``."""
    router = APIRouter(tags=["operations"])
    needed = latest_revision()

    @router.get("/health/live", operation_id="live")
    async def live() -> HealthReply:
        """Whether the process is alive."""
        return HealthReply(status="ok")

    @router.get("/health/ready", operation_id="ready", responses={503: {"model": HealthReply}})
    async def ready(response: Response) -> HealthReply:
        """Whether it can serve: the ledger runs, and the database answers and has this schema or a newer one."""
        detail, remark = ledger.fault, None
        try:
            async with asyncio.timeout(READY_SECONDS_MAX):
                revision = await read(_revision)
        except (DatabaseUnavailableError, TimeoutError):
            detail = "the database does not answer"
        except UnknownRevisionError:
            # It was known at the start, so it was migrated since. Migrations only add, so the old version can go on:
            # if it were unready, all its workers would be taken out at once.
            remark = "a newer version has migrated the schema; this version keeps serving until it is replaced"
        else:
            if revision != needed:
                detail = f"the schema is at revision {revision}, but this version needs {needed}: run prudent migrate"
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
        """Prometheus metrics, summed over all workers of this `prudent serve`."""
        try:
            async with asyncio.timeout(READY_SECONDS_MAX):
                pending = await read(count_pending)
        except (DatabaseUnavailableError, TimeoutError):
            pending = None  # the counters matter most when the database is down
        return Response(await asyncio.to_thread(metrics.render, pending), media_type=CONTENT_TYPE_LATEST)

    return router


def _revision(connection: Connection) -> str | None:
    return current_revision(connection)


class CountRequests:
    """Gives each request an id, and counts it and its duration under its route's template, never its actual path.

    log_all: log every request at level debug; otherwise only responses of 500 and above, at a limited rate.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, *, log_all: bool = False) -> None:
        self._app, self._log_all = app, log_all
        self._id_of = request_ids()
        self._failed = 0
        self._logged_at = float("-inf")

        @cache  # there are few combinations, and finding a labelled counter takes longer than counting
        def counters(route: str, method: str, status: int) -> tuple[Counter, Histogram]:
            return metrics.requests.labels(route, method, status), metrics.request_seconds.labels(route)

        self._counters = counters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve, and count before the last byte is sent: a client that has the response finds it counted."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 500
        counted = False
        own_id = self._id_of(scope["headers"])
        request_id.set(own_id)

        def count() -> None:
            nonlocal counted
            counted = True
            route = getattr(scope.get("route"), "path", "other")
            passed = time.perf_counter() - started
            requests, seconds = self._counters(route, scope["method"], status)
            requests.inc()
            seconds.observe(passed)
            if self._log_all or status >= 500:
                self._log(route, scope["method"], status, passed)

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (REQUEST_ID_HEADER, own_id.encode())]
            elif not message.get("more_body", False) and not counted:
                count()
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            if not counted:
                count()

    def _log(self, route: str, method: str, status: int, passed: float) -> None:
        line = {"route": route, "method": method, "status": status, "seconds": round(passed, 6)}
        if status < 500:
            logger.debug("request", **line)
            return
        self._failed += 1
        now = time.monotonic()
        if self._log_all or now - self._logged_at >= LOG_SECONDS:
            logger.warning("request failed", **line, requests=self._failed)
            self._failed, self._logged_at = 0, now
