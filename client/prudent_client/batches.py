"""Many requests as one: cut into bodies within the service's limits, and their answers put together."""

from collections.abc import Iterator, Sequence

import httpx

from prudent_client.encoding import encode
from prudent_client.errors import RejectedError, rejection
from prudent_client.models import ReplyT, valid
from prudent_client.requests import JsonObject

BATCH_ITEMS_MAX = 1_000
BATCH_BYTES_MAX = 15 * 2**18
"""The service takes 4 MiB; a little is left for the frame around the items."""


def results(
    kind: type[ReplyT], answers: Sequence[JsonObject], ids: Sequence[str | None]
) -> list[ReplyT | RejectedError]:
    """The reply of each item, or its error. ids: of the items, for messages."""
    return [
        valid(kind, answer)
        if httpx.codes.is_success(answer["status"])
        else rejection(answer["status"], answer, item=own_id)
        for answer, own_id in zip(answers, ids, strict=True)
    ]


def in_parts(items: Sequence[JsonObject]) -> Iterator[tuple[Sequence[JsonObject], bytes]]:
    """Cut items into parts within the limits, each with the body of its request."""
    for first in range(0, len(items), BATCH_ITEMS_MAX):
        part = items[first : first + BATCH_ITEMS_MAX]
        content = body_of(part)
        if len(content) <= BATCH_BYTES_MAX:
            yield part, content
        else:
            yield from ((smaller, body_of(smaller)) for smaller in _within_bytes(part))


def _within_bytes(items: Sequence[JsonObject]) -> Iterator[Sequence[JsonObject]]:
    start, size = 0, 0
    for position, item in enumerate(items):
        length = len(encode(item)) + 1
        if position > start and size + length > BATCH_BYTES_MAX:
            yield items[start:position]
            start, size = position, 0
        size += length
    yield items[start:]


def body_of(items: Sequence[JsonObject]) -> bytes:
    """The body of a request with these items."""
    return encode({"items": items})
