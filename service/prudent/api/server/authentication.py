"""Who may call what: the key is checked before anything else of a request is looked at."""

import asyncio
import re
import time
from typing import cast
from urllib.parse import quote

import structlog
from sqlalchemy import Connection
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from prudent.api.problems import problem, respond
from prudent.errors import DatabaseUnavailableError
from prudent.security.keys import KeyRing, Role, is_allowed, role_needed
from prudent.security.sessions import Sessions, is_page
from prudent.store.keys import valid_keys, was_key_made
from prudent.store.read_pool import Reader

logger = structlog.get_logger(__name__)

LOG_SECONDS = 1.0
"""At most one line about refused requests in so long: guessing keys must not fill the disk."""
_LOCALHOST = re.compile(rb"(localhost|127(\.[0-9]{1,3}){3}|\[::1\])(:[0-9]+)?", re.IGNORECASE)
CHALLENGE = 'Bearer realm="prudent"'
LOGIN = "/dashboard/login"
ROLE = "prudent.role"
"""Where a request's scope says which role it has; absent where everybody may do everything."""


class RequireKey:
    """Answer 401 without a valid key, 403 if its role is too weak."""

    def __init__(self, app: ASGIApp, ring: KeyRing, sessions: Sessions) -> None:
        self._app, self._ring, self._sessions = app, ring, sessions
        self._refused = 0
        self._logged_at = float("-inf")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request through, or answer it."""
        needed = role_needed(scope["method"], scope["path"]) if scope["type"] == "http" else None
        if needed is None:
            await self._app(scope, receive, send)
            return
        if self._ring.is_open:
            if names_this_machine(scope["headers"]):
                await self._app(scope, receive, send)
                return
            self._log(scope, "a foreign Host")
            body = problem(403, "without keys only requests to localhost are answered: see prudent keys create")
            await respond(body)(scope, receive, send)
            return
        role = self._role_of(scope)
        if role is not None and is_allowed(role, needed):
            scope[ROLE] = role
            await self._app(scope, receive, send)
            return
        if role is not None:
            self._log(scope, "the key's role is too weak")
            body = problem(403, f"this needs a key with the role {needed}; this one is of a {role}")
            challenge = f'{CHALLENGE}, error="insufficient_scope"'
        elif not self._ring.is_loaded:
            await respond(problem(503, "the keys are not loaded yet: try again"), {"Retry-After": "1"})(
                scope, receive, send
            )
            return
        elif is_page(scope["path"]) and scope["method"] in {"GET", "HEAD"}:
            await respond_with_login(scope)(scope, receive, send)
            return
        else:
            self._log(scope, "no valid key")
            body = problem(401, "this needs a valid API key, in X-API-Key or as Authorization: Bearer")
            challenge = CHALLENGE
        await respond(body, {"WWW-Authenticate": challenge})(scope, receive, send)

    def _role_of(self, scope: Scope) -> Role | None:
        """The role of the request's one key or, at the dashboard's addresses alone, of its session."""
        keys = presented_keys(scope["headers"])
        if keys or not is_page(scope["path"]):
            return self._ring.role_of(keys.pop()) if len(keys) == 1 else None
        digest = self._sessions.presented(scope["headers"])
        return None if digest is None else self._ring.role_of_digest(digest)

    def _log(self, scope: Scope, reason: str) -> None:
        """Say who was refused, never with what."""
        self._refused += 1
        now = time.monotonic()
        if now - self._logged_at < LOG_SECONDS:
            return
        client = scope.get("client")
        logger.warning(
            "requests refused",
            reason=reason,
            method=scope["method"],
            client=None if client is None else client[0],
            requests=self._refused,
        )
        self._refused, self._logged_at = 0, now


def respond_with_login(scope: Scope) -> Response:
    """Lead a browser to the page where it gives a key, and from there back."""
    root = scope.get("root_path", "")
    wanted = scope["path"] + (f"?{query.decode('latin-1')}" if (query := scope["query_string"]) else "")
    return RedirectResponse(f"{root}{LOGIN}?next={quote(wanted, safe='')}", 303, {"Cache-Control": "no-store"})


def names_this_machine(headers: list[tuple[bytes, bytes]]) -> bool:
    """Whether the request was meant for localhost.

    The browser of somebody on this machine can be made to take another site's name for this address; that site's
    pages may then read and send what they like. The name betrays them.
    """
    return all(name != b"host" or _LOCALHOST.fullmatch(value) for name, value in headers)


def presented_keys(headers: list[tuple[bytes, bytes]]) -> set[bytes]:
    """The different keys that a request presents, however and however often it does."""
    found: set[bytes] = set()
    for name, value in headers:
        if name == b"x-api-key":
            found.add(value.strip())
        elif name == b"authorization":
            scheme, _, key = value.partition(b" ")
            if scheme.lower() == b"bearer":  # others may be the proxy's
                found.add(key.strip())
    return found


async def load_keys(ring: KeyRing, read: Reader) -> None:
    """Read the stored keys. While the database does not answer, those known so far stay."""
    try:
        stored, made = await read(_stored)
    except DatabaseUnavailableError:
        logger.warning("the keys cannot be read: the database does not answer")
        return
    ring.load(stored, was_key_made=made)


async def watch_keys(ring: KeyRing, read: Reader, seconds: float) -> None:
    """Follow the stored keys until cancelled."""
    while True:
        await asyncio.sleep(seconds)
        try:
            await load_keys(ring, read)
        except Exception:  # the watch must go on: without it no key could be revoked any more
            logger.exception("the keys cannot be read")


def _stored(connection: Connection) -> tuple[list[tuple[bytes, Role]], bool]:
    keys = [(bytes(digest), cast("Role", role)) for digest, role in valid_keys(connection)]
    return keys, was_key_made(connection)
