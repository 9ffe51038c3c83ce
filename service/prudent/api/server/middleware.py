"""Middleware of every request: what counts it, and what serves the routes called thousands of times per second.

FastAPI matches the path, resolves dependencies and opens two exit stacks for every request. For a route that takes
nothing but the request itself none of that has any effect, and it is half of the event loop's work: `FastPath` goes
around the framework's routing, not around its checks.
"""

import itertools
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import cache
from typing import Any

import structlog
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.routing import APIRoute
from prometheus_client import Counter, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from prudent.api.problems import PLAIN_NAME
from prudent.errors import InvalidCommandError
from prudent.observability.logs import REQUEST_ID_HEADER, request_id
from prudent.observability.metrics import Metrics

logger = structlog.get_logger(__name__)

LOG_SECONDS = 1.0
"""At most one line about failed requests per interval: an outage of the database must not fill the disk."""


GUARDS = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
)
"""Headers of every response that does not set its own: nothing is stored, run or framed, whatever an id contains."""
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


class CountRequests:
    """Gives each request an id, and counts it and its duration under its route's template, never its actual path.

    Adds the id and `GUARDS` to the response.

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
                given = message["headers"]
                names = [name for name, _ in given]
                guards = [guard for guard in GUARDS if guard[0] not in names]
                message["headers"] = [*given, *guards, (REQUEST_ID_HEADER, own_id.encode())]
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


class FastPath:
    """Serves POST to the given routes, whose endpoints take only the request; passes everything else to the app.

    The routes stay registered with the framework: for the documentation, for other methods, and as the endpoints
    that are called. Errors are handled by the application's own handlers.
    """

    def __init__(self, app: ASGIApp, application: FastAPI, routes: Iterable[APIRoute]) -> None:
        self._app = app
        self._application = application
        self._routes = {route.path: route for route in routes}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        route = None
        if scope["type"] == "http" and scope["method"] == "POST" and not scope["query_string"]:
            route = self._routes.get(scope["path"])
        if route is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = route
        request = Request(scope, receive, send)
        try:
            response = await route.endpoint(request)
        except Exception as error:
            answer = self._handler_of(error)
            if answer is None:
                raise
            response = await answer(request, error)
        await response(scope, receive, send)

    def _handler_of(self, error: Exception) -> Callable[[Request, Exception], Awaitable[Response]] | None:
        """The handler of the nearest class, except Exception's: that one belongs to the outermost layer, which logs."""
        handlers = self._application.exception_handlers
        for kind in type(error).__mro__:
            if kind is not Exception and kind in handlers:
                return handlers[kind]  # type: ignore[return-value]  # all of ours are asynchronous
        return None


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


def post_routes(router: APIRouter) -> list[APIRoute]:
    """The routes of a router that has only POST routes."""
    return [route for route in router.routes if isinstance(route, APIRoute)]
