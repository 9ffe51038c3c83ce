"""What every request has: an id, a count, and guards in its response; and what all routes refuse."""

import itertools
import re
import secrets
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import cache
from typing import Any

import structlog
from fastapi import Request, Response
from fastapi.routing import APIRoute
from prometheus_client import Counter, Histogram
from starlette.middleware.gzip import DEFAULT_EXCLUDED_CONTENT_TYPES, GZipMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from prudent.api.wording import PLAIN_NAME
from prudent.errors import InvalidCommandError
from prudent.observability.logs import REQUEST_ID_HEADER, request_id
from prudent.observability.metrics import Metrics
from prudent.transfer.decision_table import MEDIA_TYPES
from prudent.transfer.lines import MEDIA_TYPE

logger = structlog.get_logger(__name__)

LOG_SECONDS = 1.0
"""At most one line about failed requests per interval: an outage of the database must not fill the disk."""


COMPRESSED_BYTES_MIN, COMPRESSION_LEVEL = 4_096, 4
"""A smaller reply fits into few packets. Higher levels take twice as long for a tenth less."""
GUARDS = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
)
"""Headers of every response that does not set its own: nothing is stored, run or framed, whatever an id contains."""
Headers = Sequence[tuple[bytes, bytes]]
"""Names in lower case, as in ASGI."""
_SANE_ID = re.compile(rb"[A-Za-z0-9._~+/=:@-]{1,128}")


def request_ids() -> Callable[[Iterable[tuple[bytes, bytes]]], str]:
    """A function from a request's headers to its id: the client's or the proxy's if it is well-formed, else a new one.

    A new id is a random part per process and a counter: a random id per request would take ten times as long.
    """
    process, numbers = secrets.token_hex(8), itertools.count(1)

    def of(headers: Iterable[tuple[bytes, bytes]]) -> str:
        for name, value in headers:
            if name == REQUEST_ID_HEADER and _SANE_ID.fullmatch(value):
                return value.decode("ascii")
        return f"{process}-{next(numbers):x}"

    return of


class Requests:
    """Ids of requests, and what is counted and logged of each: under its route's template, never its actual path.

    log_all: log every request at level debug; otherwise only responses of 500 and above, at a limited rate.
    """

    def __init__(self, metrics: Metrics, *, log_all: bool = False) -> None:
        self.log_all = log_all
        self.id_of = request_ids()
        self._failed = 0
        self._logged_at = float("-inf")

        @cache  # there are few combinations, and finding a labelled counter takes longer than counting
        def counters(route: str, method: str, status: int) -> tuple[Counter, Histogram]:
            return metrics.requests.labels(route, method, status), metrics.request_seconds.labels(route)

        self._counters = counters

    def count(self, route: str, method: str, status: int, started: float) -> None:
        """A request has been answered. started: on the performance counter."""
        passed = time.perf_counter() - started
        requests, seconds = self._counters(route, method, status)
        requests.inc()
        seconds.observe(passed)
        if self.log_all or status >= 500:
            self._log(route, method, status, passed)

    def _log(self, route: str, method: str, status: int, passed: float) -> None:
        line = {"route": route, "method": method, "status": status, "seconds": round(passed, 6)}
        if status < 500:
            logger.debug("request", **line)
            return
        self._failed += 1
        now = time.monotonic()
        if self.log_all or now - self._logged_at >= LOG_SECONDS:
            logger.warning("request failed", **line, requests=self._failed)
            self._failed, self._logged_at = 0, now


def guarded(given: Headers, own_id: str) -> list[tuple[bytes, bytes]]:
    """A response's headers with `GUARDS`, and with the request's id."""
    names = [name for name, _ in given]
    guards = [guard for guard in GUARDS if guard[0] not in names]
    return [*given, *guards, (REQUEST_ID_HEADER, own_id.encode())]


class CountRequests:
    """Gives each request an id, counts it, and adds the id and `GUARDS` to its response."""

    def __init__(self, app: ASGIApp, requests: Requests) -> None:
        self._app, self._requests = app, requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve, and count before the last byte is sent: a client that has the response finds it counted."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        status = 500
        counted = False
        own_id = self._requests.id_of(scope["headers"])
        request_id.set(own_id)

        def count() -> None:
            nonlocal counted
            counted = True
            route = getattr(scope.get("route"), "path_format", "other")
            self._requests.count(route, scope["method"], status, started)

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = guarded(message["headers"], own_id)
            elif not message.get("more_body", False) and not counted:
                count()
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            if not counted:
                count()


class AnswerHead:
    """Answers HEAD as GET is answered. Servers leave out the body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve; the route is noted where a request's count looks for it."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        asked = {**scope, "method": "GET"}

        async def note(message: Message) -> None:
            if "route" in asked:
                scope["route"] = asked["route"]
            await send(message)

        await self._app(asked, receive, note)


class CompressReads:
    """Compresses the larger replies to GET, for clients that accept gzip: a report of many arms, a page.

    Not what is sent in reply to other methods, which is small or was asked for by programs that count microseconds; and
    not exports, which may take minutes of an event loop that others wait for.
    """

    def __init__(self, app: ASGIApp) -> None:
        excluded = (*DEFAULT_EXCLUDED_CONTENT_TYPES, MEDIA_TYPE, *MEDIA_TYPES.values())
        self._app = app
        self._compressing = GZipMiddleware(app, COMPRESSED_BYTES_MIN, COMPRESSION_LEVEL, exclude_content_types=excluded)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve."""
        is_read = scope["type"] == "http" and scope["method"] == "GET"
        await (self._compressing if is_read else self._app)(scope, receive, send)


class UnderPrefix:
    """Serves every path below a prefix, whether or not the proxy in front takes it away."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app, self._prefix = app, prefix

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve, with the path as ASGI has it: it begins with root_path."""
        if scope["type"] == "http":
            path = scope["path"].removeprefix(self._prefix)
            if not path.startswith("/"):  # all of it was the prefix, or only looked like it
                path = scope["path"] if path else "/"
            scope = {**scope, "root_path": self._prefix, "path": self._prefix + path}
        await self._app(scope, receive, send)


def own_path(scope: Scope) -> str:
    """The path of a request, without the prefix that it is served under."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


class StrictRoute(APIRoute):
    """A route that refuses query parameters that it does not have, or that come twice, as bodies refuse such fields."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What answers a request."""
        answer = super().get_route_handler()
        known = [one.alias for one in self.dependant.query_params]

        async def handle(request: Request) -> Response:
            if request.scope["query_string"]:
                _refuse_unknown_parameters(request, known)
            return await answer(request)

        return handle


def _refuse_unknown_parameters(request: Request, known: list[str]) -> None:
    seen: set[str] = set()
    for name, _ in request.query_params.multi_items():
        shown = name if PLAIN_NAME.fullmatch(name) else "(unknown parameter)"
        if name not in known:
            listed = f"this path takes {', '.join(known)}" if known else "this path takes none"
            raise InvalidCommandError(f"unknown query parameter: {listed}", field=shown)
        if name in seen:
            raise InvalidCommandError("appears twice in the query: send it once", field=shown)
        seen.add(name)
