"""Forms: read as browsers send them, guarded against other sites, checked by the API's schemas, shown again if wrong.

A field is named by the path that the API has for it, so that an error of the API finds its field.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

import orjson
from fastapi import Request
from pydantic import ValidationError

from prudent.api.problems import BadBodyError, describe_error, describe_validation
from prudent.campaigns import InvalidConfigurationError
from prudent.campaigns.values import RepeatedNameError, refuse_repeated_names
from prudent.errors import CommandError, InvalidCommandError, UnavailableError
from prudent.security.sessions import Sessions

FORM_BYTES_MAX = 2**18
FORM_SECONDS_MAX = 30
FIELDS_MAX = 2_000
TOKEN = "token"  # noqa: S105  # the name of a field
CONFIRMED, AGAIN, MORE = "confirmed", "again", "more"
"""Names of the buttons that carry a form out, go back to it, and add lines to it."""
REFUSALS = (ValidationError, CommandError, InvalidConfigurationError, UnavailableError)
"""Why what a form asks for was not done."""
Values = dict[str, str]


def check_origin(request: Request) -> None:
    """Raise BadBodyError unless the form was sent by a page of this address.

    A browser states where a form comes from. A page of another site must use neither the reader's session nor an open
    service on the reader's machine. A client that states no origin is not a browser, and should use the API.
    """
    origin = request.headers.get("origin", "")
    try:
        place = urlsplit(origin).netloc
    except ValueError:  # it is no URL
        place = ""
    site = request.headers.get("sec-fetch-site", "same-origin")
    if not place or place != request.headers.get("host") or site != "same-origin":
        raise BadBodyError(403, "the form was not sent from a page of this service")


async def read_form(request: Request) -> Values:
    """The fields of a form; of repeated names the last counts. Raises BadBodyError."""
    check_origin(request)
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise BadBodyError(415, "a form must be sent as application/x-www-form-urlencoded")
    body = bytearray()
    try:
        async with asyncio.timeout(FORM_SECONDS_MAX):
            async for chunk in request.stream():
                body += chunk
                if len(body) > FORM_BYTES_MAX:
                    raise BadBodyError(413, f"the form is larger than {FORM_BYTES_MAX} bytes")
    except TimeoutError:
        raise BadBodyError(408, f"the form did not arrive in {FORM_SECONDS_MAX} seconds") from None
    try:
        return dict(parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=FIELDS_MAX))
    except ValueError:
        raise BadBodyError(422, "the form cannot be read") from None


async def read_own_form(request: Request, sessions: Sessions) -> Values:
    """The fields of a form that changes something, which must carry the token of its session. Raises BadBodyError."""
    values = await read_form(request)
    session = sessions.presented(request.scope["headers"])
    if not sessions.is_form_token(values.pop(TOKEN, ""), session):
        raise BadBodyError(403, "the form is of another session, or too old: load its page again")
    return values


@dataclass(frozen=True)
class Field:
    """A field to fill in. options: of a choice, as (value, words)."""

    name: str
    label: str
    kind: Literal["text", "number", "area", "choice"] = "text"
    help: str = ""
    options: Sequence[tuple[str, str]] = ()
    is_required: bool = True


@dataclass(frozen=True)
class Form:
    """A form as it is shown. errors: by name of the field; others: those that belong to no field."""

    values: Mapping[str, str]
    errors: Mapping[str, str] = field(default_factory=dict)
    others: Sequence[str] = ()

    @property
    def is_refused(self) -> bool:
        """Whether it is shown again because something is wrong."""
        return bool(self.errors or self.others)

    def is_used(self, *starts: str) -> bool:
        """Whether a field whose name starts so is filled in, or wrong."""
        return any(text and name.startswith(starts) for name, text in (*self.values.items(), *self.errors.items()))


def refused(values: Mapping[str, str], error: Exception, names: Sequence[str]) -> tuple[Form, int]:
    """The form with what is wrong beside its fields, in the API's words, and the status. names: of its fields."""
    problem = describe_validation(error) if isinstance(error, ValidationError) else describe_error(error)
    errors: dict[str, str] = {}
    others = []
    for one in problem["errors"] or [{"field": "", "message": problem["detail"]}]:
        path, message = one["field"], one["message"]
        place = _field_for(path, names)
        if place is None:
            others.append(f"{path}: {message}" if path else message)
        else:
            errors.setdefault(place, f"{_within(place, path)}{message}")
    return Form(values, errors, others), problem["status"]


def _field_for(path: str, names: Sequence[str]) -> str | None:
    """The field for a path of the API: its own, the first for a part of it, or the one that it is a part of."""
    if path in names:
        return path
    part = next((name for name in names if name.startswith(f"{path}.")), None)
    while part is None and path:
        path = path.rpartition(".")[0]
        part = path if path in names else None
    return part


def _within(place: str, path: str) -> str:
    """Where in a field it is, as a prefix: the third entry, or a part of that."""
    if not path.startswith(f"{place}."):
        return ""
    steps = path.removeprefix(f"{place}.").split(".")
    return ", ".join(f"entry {int(one) + 1}" if one.isdecimal() else one for one in steps) + ": "


def number(text: str) -> Any:
    """A number as a request has it; what is none is left for the API to refuse."""
    text = text.strip()
    try:
        return int(text) if text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        return text


def parsed(text: str, name: str) -> Any:
    """What a field holds as JSON. Raises InvalidCommandError."""
    try:
        value = orjson.loads(text)
        refuse_repeated_names(text.encode(), value)
    except RepeatedNameError as error:
        raise InvalidCommandError(f"has {error.name} twice in one object", field=name) from None
    except orjson.JSONDecodeError:
        raise InvalidCommandError("is not valid JSON; a text needs double quotes", field=name) from None
    return value
