"""Errors as application/problem+json (RFC 9457). The input is never echoed."""

import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
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

from prudent.api.suggestions import meant
from prudent.campaigns import InvalidConfigurationError
from prudent.campaigns.configuration import UNION_TAGS
from prudent.campaigns.features import KINDS
from prudent.errors import (
    CommandError,
    ConflictError,
    InvalidCommandError,
    NotFoundError,
    UnavailableError,
)
from prudent.identifiers import ID_PATTERN
from prudent.observability.logs import request_id
from prudent.transfer.header import DamagedFileError

logger = structlog.get_logger(__name__)

ERRORS_MAX = 20
ERRORS_COUNTED_MAX = 10_000
"""Beyond this, no error is described: a million unknown fields would take fourteen seconds and half a gigabyte."""
PATH_COMPARED_MAX, ALIKE_MIN = 200, 0.7
"""Of a path that does not exist: the longest that is compared, and how like each of its steps must be."""
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
    InvalidCommandError: 422,
    DamagedFileError: 422,
    InvalidConfigurationError: 422,
}
"""Business errors do not know HTTP; this table maps them."""

PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")
"""A name from a request that may be shown: it could be a misspelling of one of ours."""
_NOT_FIELDS = re.compile(r"float|int|str|bool|constrained-.*|literal\[.*|nullable.*|function-.*")
_FORMS = re.compile(r"(list|dict)\[.*")
"""The two forms of features, in the path of an error in one of them."""


class BadBodyError(Exception):
    """A body that is rejected before it is validated."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail


class InvalidItemError(Exception):
    """An invalid item of a batch of which either all items are accepted or none."""

    def __init__(self, place: int, error: ValidationError) -> None:
        super().__init__(place)
        self.place, self.error = place, error


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
    return problem(status, f"{field}: {message}", [{"field": field, "message": message}])


def describe_validation(
    error: ValidationError | RequestValidationError, *, below: tuple[str | int, ...] = ()
) -> dict[str, Any]:
    """The problem for an invalid body, path or query, or for its part at ``below``."""
    if isinstance(error, ValidationError):
        if error.error_count() > ERRORS_COUNTED_MAX:
            return problem(422, f"the request is invalid: it has more than {ERRORS_COUNTED_MAX} errors")
        details: Sequence[Any] = error.errors(include_url=False, include_input=False)
    else:
        details = error.errors()
    details = _of_the_form_sent(details)
    title = error.title if isinstance(error, ValidationError) else ""
    errors = [{"field": _field(one, below), "message": _message(one, title)} for one in details[:ERRORS_MAX]]
    if len(errors) == 1 and errors[0]["field"] == "body":
        return problem(422, errors[0]["message"].replace("must", "the body must", 1), errors)
    fields = ", ".join(dict.fromkeys(one["field"] for one in errors))
    return problem(422, f"invalid fields: {fields}", errors)


def _of_the_form_sent(details: Sequence[Any]) -> Sequence[Any]:
    """The errors without those of the form of features that was not sent: an array, or an object with names.

    What is neither has one error.
    """
    kept = []
    for one in details:
        location = one["loc"]
        if one["type"] in {"list_type", "dict_type"} and location and _FORMS.match(str(location[-1])):
            place = location[:-1]
            others = [other for other in details if other is not one and other["loc"][: len(place)] == place]
            if any(other["type"] not in {"list_type", "dict_type"} for other in others):
                continue
            if one["type"] == "dict_type" and others:
                continue
            one = one | {"type": "features_type", "loc": place}
        kept.append(one)
    return kept


def is_not_json(error: ValidationError) -> bool:
    """Whether the body could not be parsed at all."""
    return (
        error.error_count() == 1 and error.errors(include_url=False, include_input=False)[0]["type"] == "json_invalid"
    )


def _field(error: Any, below: tuple[str | int, ...]) -> str:
    """Dotted path of the field. An unknown name is shown only if it could be a misspelling of one of ours."""
    if error["type"] == "json_invalid":
        return "body"
    location = [*below, *error["loc"]]
    if error["type"] == "extra_forbidden" and not PLAIN_NAME.fullmatch(str(location[-1])):
        location[-1] = "(unknown field)"
    if location and location[0] in {"body", "query", "path"}:  # FastAPI's, of parameters
        del location[0]
    names = [
        str(part)
        for place, part in enumerate(location)
        if isinstance(part, int)
        or place == 0
        or not _is_label(part, location[place - 1], last=place == len(location) - 1)
    ]
    return ".".join(names) or "body"


def _is_label(part: str, before: str | int, *, last: bool) -> bool:
    """Whether pydantic put this into the path to name a member of a union instead of a field."""
    if _FORMS.fullmatch(part) or (isinstance(before, int) and part in KINDS):
        return True
    return part in UNION_TAGS.get(str(before), ()) or (last and bool(_NOT_FIELDS.fullmatch(part)))


def _message(error: Any, schema: str) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind == "union_tag_invalid":
        return f"{context['discriminator']} must be one of {context['expected_tags']}".replace("'", "", 2)
    if kind == "union_tag_not_found":
        return f"{context['discriminator']} is required".replace("'", "")
    if kind == "extra_forbidden":
        is_name = PLAIN_NAME.fullmatch(str(error["loc"][-1])) is not None
        known = meant(schema, error["loc"]) if is_name else None
        return "unknown field" + (f": did you mean {known}?" if known else "")
    if kind == "string_pattern_mismatch" and context.get("pattern") == ID_PATTERN:
        return "must be an id: 1 to 128 letters, digits and characters of . _ ~ -, without spaces"
    if kind == "features_type":
        return "must be a list of numbers or an object of values by name"
    if kind == "json_invalid":
        return f"the body is not valid JSON: {context.get('error', 'it cannot be parsed')}"
    if kind == "value_error":
        return str(context.get("error", "is not valid"))
    message: str = error["msg"].replace(" after validation", "")
    for kind_of_value in ("Input should", "String should", "List should"):
        message = message.replace(kind_of_value, "must", 1) if message.startswith(kind_of_value) else message
    return message[:1].lower() + message[1:]


def nearest_path(path: str, templates: Iterable[str]) -> str | None:
    """The template of the path that may have been meant: the same but for a step misspelt, or a slash at the end."""
    if len(path) > PATH_COMPARED_MAX:
        return None
    steps = path.rstrip("/").split("/")
    best, found = 0.0, None
    for template in templates:
        wanted = template.split("/")
        if len(wanted) != len(steps):
            continue
        ratios = [
            SequenceMatcher(None, step, one).ratio()
            for step, one in zip(steps, wanted, strict=True)
            if one and not one.startswith("{")
        ]
        if ratios and min(ratios) > ALIKE_MIN and sum(ratios) / len(ratios) > best:
            best, found = sum(ratios) / len(ratios), template
    return found


def methods_of(path: str, routes: Iterable[BaseRoute]) -> list[str]:
    """All methods that a path supports, over the routes that it matches."""
    methods: set[str] = set()
    for route in routes:
        if isinstance(route, APIRoute) and route.path_regex.match(path):
            methods |= route.methods or set()
    return sorted(methods | ({"HEAD"} if "GET" in methods else set()))


def install(app: FastAPI, routes: Sequence[BaseRoute]) -> None:
    """Answer every kind of error with a problem. routes: all there are, to say which one may have been meant."""
    templates = [route.path for route in routes if isinstance(route, APIRoute) and route.include_in_schema]

    async def on_own(_request: Request, error: Exception) -> Response:
        return respond_to(error)

    async def on_validation(_request: Request, error: Exception) -> Response:
        assert isinstance(error, ValidationError | RequestValidationError)  # noqa: S101  # by registration
        return respond(describe_validation(error))

    async def on_invalid_item(_request: Request, error: Exception) -> Response:
        assert isinstance(error, InvalidItemError)  # noqa: S101  # by registration
        return respond(describe_validation(error.error, below=("items", error.place)))

    async def on_bad_body(_request: Request, error: Exception) -> Response:
        assert isinstance(error, BadBodyError)  # noqa: S101  # by registration
        # the rest of the body is not read, so the connection cannot be used again
        return respond(problem(error.status, error.detail), {"Connection": "close"})

    async def on_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101  # by registration
        status, headers = error.status_code, dict(error.headers or {})
        detail = TITLES.get(status, "error")
        if status == 404:
            nearest = nearest_path(request.url.path, templates)
            detail = f"no such path: {'see /docs' if nearest is None else f'did you mean {nearest}?'}"
        elif status == 405:
            allowed = methods_of(request.url.path, routes)
            headers["Allow"] = ", ".join(allowed)
            detail = f"this path does not support this method, but {' and '.join(allowed)}: see /docs"
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
