"""Health checks and metrics."""

import asyncio
from collections.abc import Sequence
from typing import Literal

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel
from sqlalchemy import Connection

from prudent.api.replies import PROBLEMS
from prudent.clock import Clock
from prudent.errors import DatabaseUnavailableError
from prudent.ledger.access import LedgerAccess
from prudent.observability.metrics import Metrics
from prudent.reporting.alarms import read_alarms
from prudent.store.decisions import count_pending
from prudent.store.read_pool import Reader
from prudent.store.replica import Replica
from prudent.store.schema import UnknownRevisionError, current_revision, latest_revision

READY_SECONDS_MAX = 2.0
"""Clients of readiness and metrics give up soon; they need an answer even if the database does not reply."""


class HealthReply(BaseModel):
    """Whether the process is alive, or ready to serve."""

    status: Literal["ok", "unavailable"]
    detail: str | None = None


def operation_routes(
    ledger: LedgerAccess,
    read: Reader,
    replica: Replica | None,
    metrics: Metrics,
    named: Sequence[str],
    clock: Clock,
) -> APIRouter:
    """``/health/live``, ``/health/ready`` and ``/metrics``. named: campaigns whose alarms are metrics."""
    router = APIRouter(tags=["operations"])
    needed = latest_revision()

    @router.get("/health/live", operation_id="live")
    async def live() -> HealthReply:
        """Whether the process is alive."""
        return HealthReply(status="ok")

    @router.get("/health/ready", operation_id="ready", responses={503: {"model": HealthReply}})
    async def ready(response: Response) -> HealthReply:
        """Whether it can serve: the ledger runs, and the database answers and has this schema or a newer one."""
        detail, remark = ledger.fault, ledger.remark
        try:
            async with asyncio.timeout(READY_SECONDS_MAX):
                revision = await read(_revision)
        except (DatabaseUnavailableError, TimeoutError):
            detail = "the database does not answer"
        except UnknownRevisionError:
            # It was known at the start, so it was migrated since. Old versions can use a newer schema:
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
        pending, alarms = None, {}
        try:
            async with asyncio.timeout(READY_SECONDS_MAX):
                pending = await read(count_pending)
                alarms = await read_alarms(ledger, read, named, clock)
        except (DatabaseUnavailableError, TimeoutError):
            pass  # the counters matter most when the database is down
        text = await asyncio.to_thread(metrics.render, pending, alarms, await _lag(replica))
        return Response(text, media_type=CONTENT_TYPE_LATEST)

    return router


async def _lag(replica: Replica | None) -> float | None:
    """How far the replica is behind; None if there is none, or if it does not answer."""
    if replica is None:
        return None
    try:
        async with asyncio.timeout(READY_SECONDS_MAX):
            return await replica.lag()
    except (DatabaseUnavailableError, TimeoutError):
        return None


def _revision(connection: Connection) -> str | None:
    return current_revision(connection)
