"""Errors in a door's own form, whoever raises them: the check of keys, the reading of a body, or the ledger."""

from collections.abc import Callable
from typing import Any

import orjson
from fastapi import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from prudent.api.problems import PROBLEM, respond_to
from prudent.api.server.middleware import own_path

Translator = Callable[[dict[str, Any], Scope], Response]
"""A problem, and the request that has it, as the response that the clients of a door understand."""
KEPT_HEADERS = frozenset({b"www-authenticate", b"allow", b"connection"})
"""Of a problem's response: the others are about its body, or say when to come back."""


class TranslateProblems:
    """Replaces the problems that are answered on the paths of a door."""

    def __init__(self, app: ASGIApp, path: str, translate: Translator) -> None:
        self._app, self._path, self._translate = app, path, translate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve; a problem is held back until it is complete. A defect is a problem as well."""
        if scope["type"] != "http" or not own_path(scope).startswith(self._path):
            await self._app(scope, receive, send)
            return
        start: Message | None = None
        body = b""

        async def watch(message: Message) -> None:
            nonlocal start, body
            if message["type"] == "http.response.start" and (b"content-type", PROBLEM.encode()) in message["headers"]:
                start = message
            elif start is None:
                await send(message)
            else:
                body += message.get("body", b"")

        try:
            await self._app(scope, receive, watch)
        except Exception as error:  # noqa: BLE001  # logged by respond_to
            response = respond_to(error)
            start, body = {"headers": response.raw_headers}, bytes(response.body)
        if start is not None:
            response = self._translate(orjson.loads(body), scope)
            response.raw_headers += [header for header in start["headers"] if header[0] in KEPT_HEADERS]
            await response(scope, receive, send)
