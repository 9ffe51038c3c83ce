"""Errors as application/problem+json (RFC 9457). No text of a request is repeated."""

from collections.abc import Iterable, Sequence
from typing import Any

import orjson
import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import BaseRoute

from prudent.api.server.middleware import own_path
from prudent.api.suggestions import listed, nearest_path
from prudent.api.wording import errors_in_words
from prudent.campaigns import InvalidConfigurationError
from prudent.errors import (
    CommandError,
    ConflictError,
    InvalidCommandError,
    LateRewardError,
    NoArmLeftError,
    NotFoundError,
    UnavailableError,
)
from prudent.observability.logs import request_id
from prudent.transfer.header import DamagedFileError

logger = structlog.get_logger(__name__)

ERRORS_MAX = 20
ERRORS_COUNTED_MAX = 10_000
"""Beyond this, no error is described: a million unknown fields would take fourteen seconds and half a gigabyte."""
ERRORS_TOLD_MAX = 3
"""Of the errors, how many the detail says in full."""
BODY_SHOWN_MAX = 2**16
"""A larger body is not looked at again to say which values it had."""
TITLES = {
    400: "Bad request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    408: "Too slow",
    409: "Conflict",
    413: "Too large",
    415: "Unsupported media type",
    422: "Invalid request",
    431: "Head too large",
    500: "Internal error",
    503: "Unavailable",
}
STATUSES: dict[type[Exception], int] = {
    NotFoundError: 404,
    ConflictError: 409,
    LateRewardError: 409,
    NoArmLeftError: 422,
    InvalidCommandError: 422,
    DamagedFileError: 422,
    InvalidConfigurationError: 422,
}
"""Business errors do not know HTTP; this table maps them."""


OTHER_PATHS = {"/dashboard", "/docs", "/guide", "/openapi.json"}
"""What may be meant besides the API's own paths."""


class BadBodyError(Exception):
    """A body that is rejected before it is validated."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail


class InvalidItemError(Exception):
    """An invalid item of a batch of which either all items are accepted or none."""

    def __init__(self, place: int, error: ValidationError, size: int) -> None:
        super().__init__(place)
        self.place, self.error, self.size = place, error, size


def problem(status: int, detail: str, errors: Sequence[dict[str, str]] = ()) -> dict[str, Any]:
    """The body of a problem."""
    title = TITLES.get(status, "Error")
    kind = title.lower().replace(" ", "-")
    found = {"type": f"urn:prudent:{kind}", "title": title, "status": status, "detail": detail}
    return found | {"errors": list(errors[:ERRORS_MAX])}


PROBLEM = "application/problem+json"
"""The media type of every error."""


def respond(body: dict[str, Any], headers: dict[str, str] | None = None) -> Response:
    """A problem as a response, with the request's id, so that a user's report leads to the lines of the log."""
    named = body | {"request_id": request_id.get()}
    guarded = {"Cache-Control": "no-store"} | (headers or {})  # a defect's response passes no middleware of ours
    return Response(orjson.dumps(named), body["status"], guarded, PROBLEM)


def respond_to(error: Exception) -> Response:
    """The response to one of our own errors, or to a defect."""
    body = describe_error(error)
    seconds = getattr(error, "retry_after_seconds", UnavailableError.retry_after_seconds)
    return respond(body, {"Retry-After": str(seconds)} if body["status"] == 503 else None)


def describe_error(error: Exception) -> dict[str, Any]:
    """The problem for one of our own errors; a defect is logged and not shown."""
    if isinstance(error, UnavailableError):
        return problem(503, error.message)
    if isinstance(error, MemoryError):
        logger.error("memory is exhausted")
        return problem(503, "memory is exhausted: try again")
    status = STATUSES.get(type(error))
    if status is None:
        logger.error("request failed", exc_info=error)
        return problem(500, "an internal error; it has been logged under the request_id")
    message = error.message if isinstance(error, CommandError | InvalidConfigurationError) else str(error)
    field = getattr(error, "field", None)
    if field is None:
        return problem(status, message)
    return problem(status, _told(field, message), [{"field": field, "message": message}])


def describe_validation(
    error: ValidationError | RequestValidationError, *, below: tuple[str | int, ...] = (), size: int = 0
) -> dict[str, Any]:
    """The problem for an invalid body, path or query, or for its part at ``below``. size: in bytes."""
    if isinstance(error, ValidationError) and error.error_count() > ERRORS_COUNTED_MAX:
        return problem(422, f"the request is invalid: it has more than {ERRORS_COUNTED_MAX} errors")
    errors = errors_in_words(error, below=below, most=ERRORS_MAX, say_values=size <= BODY_SHOWN_MAX)
    told = [_told(**one) for one in errors[:ERRORS_TOLD_MAX]]
    others = [one["field"] for one in errors[ERRORS_TOLD_MAX:]]
    return problem(422, "; ".join([*told, *([f"and in {', '.join(others)}"] if others else [])]), errors)


def _told(field: str, message: str) -> str:
    return f"the body {message}" if field == "body" else f"{field}: {message}"


def _size_of(request: Request) -> int:
    """Of a request's body in bytes; one of unknown size counts as large."""
    declared = request.headers.get("content-length", "")
    if declared.isdigit():
        return int(declared)
    return BODY_SHOWN_MAX + 1 if "transfer-encoding" in request.headers else 0


def methods_of(path: str, routes: Iterable[BaseRoute]) -> list[str]:
    """All methods that a path supports, over the routes that it matches."""
    methods: set[str] = set()
    for route in routes:
        if isinstance(route, APIRoute) and route.path_regex.match(path):
            methods |= route.methods or set()
    return sorted(methods | ({"HEAD"} if "GET" in methods else set()))


def install(app: FastAPI, routes: Sequence[BaseRoute]) -> None:
    """Answer every kind of error with a problem. routes: all there are, to say which one may have been meant."""
    templates = [
        route.path
        for route in routes
        if isinstance(route, APIRoute) and (route.include_in_schema or route.path in OTHER_PATHS)
    ]

    async def on_own(_request: Request, error: Exception) -> Response:
        return respond_to(error)

    async def on_validation(request: Request, error: Exception) -> Response:
        assert isinstance(error, ValidationError | RequestValidationError)  # noqa: S101  # by registration
        return respond(describe_validation(error, size=_size_of(request)))

    async def on_invalid_item(_request: Request, error: Exception) -> Response:
        assert isinstance(error, InvalidItemError)  # noqa: S101  # by registration
        return respond(describe_validation(error.error, below=("items", error.place), size=error.size))

    async def on_bad_body(_request: Request, error: Exception) -> Response:
        assert isinstance(error, BadBodyError)  # noqa: S101  # by registration
        # the rest of the body is not read, so the connection cannot be used again
        return respond(problem(error.status, error.detail), {"Connection": "close"})

    async def on_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101  # by registration
        status, headers = error.status_code, dict(error.headers or {})
        detail = TITLES.get(status, "error")
        if status == 404:
            nearest = nearest_path(own_path(request.scope), templates)
            detail = f"no such path: {'see /docs' if nearest is None else f'did you mean {nearest}?'}"
        elif status == 405:
            allowed = methods_of(own_path(request.scope), routes)
            headers["Allow"] = ", ".join(allowed)
            detail = f"this path does not support {request.method}, but {listed(allowed)}: see /docs"
        return respond(problem(status, detail), headers)

    async def on_disconnect(_request: Request, _error: Exception) -> Response:
        return Response(status_code=499)  # nobody reads it, but without it a traceback would be logged

    for own in (CommandError, UnavailableError, InvalidConfigurationError, Exception):
        app.add_exception_handler(own, on_own)
    for invalid in (ValidationError, RequestValidationError):
        app.add_exception_handler(invalid, on_validation)
    app.add_exception_handler(InvalidItemError, on_invalid_item)
    app.add_exception_handler(BadBodyError, on_bad_body)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(ClientDisconnect, on_disconnect)
