"""Reading bodies: bounded in size and time, then validated from the bytes; and features as arrays."""

import asyncio
import re
import time
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import numpy as np
from fastapi import Request
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from prudent.api.problems import BadBodyError, InvalidItemError
from prudent.api.wording import PLAIN_NAME
from prudent.campaigns import Given
from prudent.campaigns.values import ARMS_MAX, DIMENSION_MAX, RepeatedNameError, refuse_repeated_names
from prudent.errors import InvalidCommandError, OverloadedError
from prudent.ledger.commands import Floats
from prudent.settings import Limits
from prudent.transfer.lines import MEDIA_TYPE

T = TypeVar("T", bound=BaseModel)
V = TypeVar("V")
Raw = bytes | bytearray
"""A body, or an item of a batch, before it is parsed."""

NUMBER_BYTES = 21
"""Of a number between 0 and 1 with all of its digits, and what stands around it in an array."""
BREATH_BYTES = 2**16
"""After this much of a batch, other requests get a turn; smaller bodies need no further checks."""
BYTES_PER_OBJECT_MIN, FIELDS_PER_OBJECT_MAX, FIELDS_FREE = 12, 16, 100_000
"""Of the lists and objects of a batch on average: the smallest is an arm, {"arm_id":"a"}, and none has more than ten
fields. A body with smaller ones or more fields is no batch; one that could be takes at most 21 times its size."""

_JSON = re.compile(rb"application/([^/]+\+)?json")
_NDJSON = re.compile(rb"application/(x-)?(ndjson|jsonlines|jsonl)")


class Bodies:
    """Reads the bodies of all requests: each is bounded in size and time, and all together in size."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._held = 0
        self._converting = asyncio.Lock()

    def validator(self, model: type[T]) -> Callable[[Raw], T]:
        """A function from bytes to a model, 2 to 4 times faster than json.loads followed by validation.

        It raises InvalidCommandError for too many fields: each unknown one would cost half a kilobyte of errors.
        """
        adapter, fields_max = TypeAdapter(model), self._limits.body_fields_max

        def validate(body: Raw) -> T:
            if len(body) > BREATH_BYTES and body.count(b":") > fields_max:
                raise InvalidCommandError(f"has more than {fields_max} fields", field="body")
            found = adapter.validate_json(body)
            _refuse_repeated_names(body, found)
            return found

        return validate

    @property
    def bytes_max(self) -> int:
        """Of a body that is no batch."""
        return self._limits.body_bytes_max

    def of(self, model: type[T]) -> Callable[[Request], Awaitable[T]]:
        """A reader of bodies of one schema."""
        return self.converted(self.validator(model))

    def converted(self, convert: Callable[[Raw], V]) -> Callable[[Request], Awaitable[V]]:
        """A reader of bodies that gives what `convert` makes of them."""

        async def read(request: Request) -> V:
            body = await self._receive(request, self._limits.body_bytes_max)
            try:
                return convert(body)
            finally:
                self._held -= len(body)

        return read

    async def refuse(self, request: Request, message: str) -> None:
        """Raise InvalidCommandError with this message for a body that says something: `{}`, of any type, does not."""
        body = await self._receive_any(request, self._limits.body_bytes_max)
        self._held -= len(body)
        if b"".join(body.split()) not in {b"", b"{}"}:
            raise InvalidCommandError(message, field="body")

    def batches_of(
        self, envelope: type[BaseModel], convert: Callable[[Raw], V]
    ) -> Callable[[Request], Awaitable[list[V]]]:
        """A reader of batches: parsed in one go, then each item is converted as if it had been sent on its own.

        One batch at a time, since a parsed one takes up to 14 times its size. A ValidationError of convert refuses the
        batch.
        """

        async def read(request: Request) -> list[V]:
            body = await self._receive(request, self._limits.batch_body_bytes_max)
            try:
                if len(body) <= BREATH_BYTES:
                    return await self._convert(body, envelope, convert)
                async with self._converting:
                    return await self._convert(body, envelope, convert)
            finally:
                self._held -= len(body)

        return read

    async def stream_ndjson(self, request: Request) -> AsyncIterator[bytes]:
        """The pieces of a body that is never in memory as a whole. Raises BadBodyError."""
        limits = self._limits
        _check_head(request.scope["headers"], limits.import_body_bytes_max, _NDJSON, MEDIA_TYPE)
        received, waited, more = 0, 0.0, True
        while more:
            # the time of a usual body for every piece of its size
            seconds = limits.body_seconds_max * (1 + received // limits.body_bytes_max) - waited
            asked = time.monotonic()
            try:
                async with asyncio.timeout(seconds):
                    message = await request.receive()
            except TimeoutError:
                raise BadBodyError(408, "the body arrives too slowly") from None
            waited += time.monotonic() - asked
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            chunk, more = message.get("body", b""), message.get("more_body", False)
            received += len(chunk)
            if received > limits.import_body_bytes_max:
                raise BadBodyError(413, f"the file is larger than the limit of {limits.import_body_bytes_max} bytes")
            yield chunk

    async def _convert(self, body: Raw, envelope: type[BaseModel], convert: Callable[[Raw], V]) -> list[V]:
        values: list[V] = []
        worked = 0
        for item in self._items_of(body, envelope):
            text = to_json(item, inf_nan_mode="constants")  # a number out of range is its item's fault, not the batch's
            if len(text) > self._limits.body_bytes_max:
                raise _too_large_item(self._limits.body_bytes_max)
            try:
                values.append(convert(text))
            except ValidationError as error:
                raise InvalidItemError(len(values), error, len(text)) from None
            worked += len(text)
            if worked > BREATH_BYTES:
                worked = 0
                await asyncio.sleep(0)
        return values

    def _items_of(self, body: Raw, envelope: type[BaseModel]) -> list[Any]:
        """The items, parsed and not validated. Raises for what is not exactly {"items": [...]}."""
        objects = body.count(b"{")
        is_dense = objects + body.count(b"[") > len(body) // BYTES_PER_OBJECT_MIN
        has_too_many_fields = body.count(b":") > FIELDS_PER_OBJECT_MAX * objects + FIELDS_FREE
        if len(body) > BREATH_BYTES and (is_dense or has_too_many_fields):
            raise InvalidCommandError(
                "has more lists, objects or fields than a batch of its size can have", field="body"
            )
        if 0 < objects * self._limits.body_bytes_max < len(body):
            raise _too_large_item(self._limits.body_bytes_max)  # now, as a list of digits takes nine times its size
        try:
            found = from_json(body)
        except ValueError:
            raise _what_is_wrong(body, envelope) from None
        is_batch = isinstance(found, dict) and found.keys() == {"items"} and isinstance(found["items"], list)
        if not is_batch:
            raise _what_is_wrong(body, envelope)
        _refuse_repeated_names(body, found)
        items: list[Any] = found["items"]
        items_max = self._limits.batch_request_items_max
        if len(items) > items_max:
            raise BadBodyError(413, f"a batch has at most {items_max} items, this one has {len(items)}")
        if not items:
            raise InvalidCommandError("must have at least one item", field="items")
        return items

    async def _receive(self, request: Request, bytes_max: int) -> Raw:
        """The whole body. Raises BadBodyError or OverloadedError. Its size counts until the caller releases it."""
        _check_head(request.scope["headers"], bytes_max)
        return await self._receive_any(request, bytes_max)

    async def _receive_any(self, request: Request, bytes_max: int) -> Raw:
        """The same, of any type."""
        first = _first_message(request.receive)
        if not isinstance(first, Awaitable) and first["type"] == "http.request" and not first.get("more_body", False):
            body: Raw = first.get("body", b"")
            self._hold(len(body), 0, bytes_max)
            return body
        return await self._receive_in_time(request.receive, first, bytes_max)

    async def _receive_in_time(self, receive: Receive, first: Message | Awaitable[Message], bytes_max: int) -> Raw:
        """A body that has not arrived in one piece. first: its first piece, or what to await for it."""
        body: Raw = b""
        seconds = self._limits.body_seconds_max
        try:
            async with asyncio.timeout(seconds):
                message, more = (await first if isinstance(first, Awaitable) else first), True
                while more:
                    if message["type"] == "http.disconnect":
                        raise ClientDisconnect
                    chunk, more = message.get("body", b""), message.get("more_body", False)
                    self._hold(len(chunk), len(body), bytes_max)
                    if body:
                        if isinstance(body, bytes):
                            body = bytearray(body)
                        body += chunk
                    else:
                        body = chunk
                    if more:
                        message = await receive()
        except BaseException as error:
            self._held -= len(body)
            if isinstance(error, TimeoutError):
                raise BadBodyError(408, f"the body did not arrive within {seconds} seconds") from None
            raise
        return body

    def _hold(self, added: int, before: int, bytes_max: int) -> None:
        """Count the growth of a body. Raises BadBodyError or OverloadedError, and then counts nothing."""
        if before + added > bytes_max:
            raise _too_large(bytes_max)
        if self._held + added > self._limits.bodies_bytes_max:
            raise OverloadedError("too many large requests at the same time: try again")
        self._held += added


def _what_is_wrong(body: Raw, envelope: type[BaseModel]) -> Exception:
    """Why the body is no batch; in detail for a small one only, as every unknown field would be an error of its own."""
    if len(body) <= BREATH_BYTES and not body.lstrip().startswith(b"["):
        try:
            envelope.model_validate_json(body)
        except ValidationError as error:
            return error
    return InvalidCommandError('must be JSON of the form {"items": [...]}, without other fields', field="body")


def _refuse_repeated_names(body: Raw, parsed: object) -> None:
    try:
        refuse_repeated_names(body, parsed)
    except RepeatedNameError as error:
        field = error.name if PLAIN_NAME.fullmatch(error.name) else "body"
        raise InvalidCommandError("appears twice in one object: send it once", field=field) from None


def _first_message(receive: Receive) -> Message | Awaitable[Message]:
    """The message that has already arrived, without a timer: nearly every body comes in one piece with its head.

    Otherwise what to await for it. A server's `receive()` may be any awaitable; only a coroutine can be tried.
    """
    waiting = receive()
    if not isinstance(waiting, Coroutine):
        return waiting
    try:
        waiting.send(None)
    except StopIteration as arrived:
        message: Message = arrived.value
        return message
    waiting.close()
    return receive()


def _check_head(
    headers: list[tuple[bytes, bytes]],
    bytes_max: int,
    accepted: re.Pattern[bytes] = _JSON,
    usual: str = "application/json",
) -> None:
    """Raise BadBodyError: 415 if the body is encoded or has another type, 413 if its declared length is too large.

    headers: with lower-case names, as in ASGI; of several with the same name, the first counts.
    """
    encoding = kind = declared = None
    is_from_page = False
    for name, value in headers:
        if name == b"content-type":
            kind = value if kind is None else kind
        elif name == b"content-length":
            declared = value if declared is None else declared
        elif name == b"content-encoding":
            encoding = value if encoding is None else encoding
        elif name == b"origin":
            is_from_page = True
    if encoding is not None and encoding.lower() != b"identity":
        raise BadBodyError(415, "encoded bodies are not supported: send the body without Content-Encoding")
    # a page of another site can send a body without a type and without a preflight; browsers then send its Origin
    if kind is None:
        kind = b"" if is_from_page else usual.encode()
    if not accepted.fullmatch(kind) and not accepted.fullmatch(kind.split(b";")[0].strip().lower()):
        kind_of_body = "JSON" if accepted is _JSON else "NDJSON"
        raise BadBodyError(
            415, f"send {kind_of_body}, with the header Content-Type: {usual} (curl: -H 'Content-Type: {usual}')"
        )
    if declared is not None and declared.isdigit() and int(declared) > bytes_max:
        raise _too_large(bytes_max)


def _too_large(bytes_max: int) -> BadBodyError:
    return BadBodyError(413, f"the body is larger than the limit of {bytes_max} bytes{_in_numbers(bytes_max)}")


def _too_large_item(bytes_max: int) -> BadBodyError:
    return BadBodyError(413, f"an item of a batch has at most {bytes_max} bytes{_in_numbers(bytes_max)}")


def _in_numbers(bytes_max: int) -> str:
    """What fits into so many bytes, in words."""
    numbers = bytes_max // NUMBER_BYTES
    return (
        f", about {numbers} numbers of all their digits: {numbers // DIMENSION_MAX} arms with {DIMENSION_MAX} "
        f"features, or {ARMS_MAX} with {numbers // ARMS_MAX}; features that are registered with an arm need not be sent"
    )


def as_given(values: list[float] | dict[str, Any] | None) -> Given | None:
    """A list of features as an array; values by name as they are."""
    return np.array(values, dtype=np.float64) if isinstance(values, list) else values


def matrix_of(lists: Sequence[list[float] | dict[str, Any] | None]) -> Floats | None:
    """Lists of features as one array, (K, d); None unless all are present, lists, and of the same length."""
    width = len(lists[0]) if lists and isinstance(lists[0], list) else None
    if width is None:
        return None
    values = array("d")
    for one in lists:
        if not isinstance(one, list) or len(one) != width:
            return None
        values.fromlist(one)  # three times as fast as numpy's own way from nested lists
    return np.frombuffer(values, np.float64).reshape(len(lists), width)
