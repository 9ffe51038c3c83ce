"""Reading bodies: bounded before they are parsed, then validated from the bytes; and what their parts become."""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from fastapi import Request
from pydantic import BaseModel, TypeAdapter

from service.api.problems import BadBodyError
from service.ledger.commands import Floats
from service.ledger.errors import InvalidCommandError
from service.settings import Limits

T = TypeVar("T", bound=BaseModel)

_JSON = re.compile(r"application/([^/]+\+)?json")


async def read_body(request: Request, bytes_max: int) -> bytes:
    """The whole body. Raises BadBodyError: 415 if it is encoded or not JSON, 413 if it is too large."""
    headers = request.headers
    if headers.get("content-encoding", "identity").lower() != "identity":
        raise BadBodyError(415, "encoded bodies are not accepted: send it without Content-Encoding")
    # a page on another site can send a body without a type, unasked; browsers then name its Origin
    default = "" if "origin" in headers else "application/json"
    kind = headers.get("content-type", default).split(";")[0].strip().lower()
    if not _JSON.fullmatch(kind):
        raise BadBodyError(415, "send JSON, with Content-Type: application/json")
    too_large = BadBodyError(413, f"the body is larger than {bytes_max} bytes")
    declared = headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > bytes_max:
        raise too_large
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > bytes_max:
            raise too_large
        chunks.append(chunk)
    return b"".join(chunks)


def body_of(model: type[T], bytes_max: int) -> Callable[[Request], Awaitable[T]]:
    """A reader of bodies of one schema. Validating the bytes is 2 to 4 times faster than json.loads and a model."""
    adapter = TypeAdapter(model)

    async def read(request: Request) -> T:
        return adapter.validate_json(await read_body(request, bytes_max))

    return read


def documented(model: type[BaseModel], example: Any = None) -> dict[str, Any]:
    """The part of a route's OpenAPI that says what body it takes."""
    media: dict[str, Any] = {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}
    if example is not None:
        media["example"] = example
    return {"requestBody": {"required": True, "content": {"application/json": media}}}


def check_count(items: Sequence[object], limits: Limits) -> None:
    """Refuse an empty or an overlong batch. Raises InvalidCommandError or BadBodyError."""
    if len(items) > limits.batch_request_items_max:
        raise BadBodyError(
            413, f"a batch has at most {limits.batch_request_items_max} items, this one has {len(items)}"
        )
    if not items:
        raise InvalidCommandError("must have at least one item", field="items")


def floats(values: list[float] | None) -> Floats | None:
    """A list of features as an array."""
    return None if values is None else np.array(values, dtype=np.float64)
