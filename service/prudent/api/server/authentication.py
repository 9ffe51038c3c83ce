"""Authentication and authorisation: the key is checked before anything else in a request."""

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal, cast
from urllib.parse import quote

import structlog
from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from prudent.api.problems import problem, respond
from prudent.api.server.middleware import Headers, own_path
from prudent.errors import DatabaseUnavailableError
from prudent.ledger.commands import Author
from prudent.security.keys import KeyRing, Role, digest_of, is_allowed, role_needed
from prudent.security.sessions import Sessions, is_page
from prudent.store.keys import find_ended_sessions, valid_keys, was_key_made
from prudent.store.read_pool import Reader

logger = structlog.get_logger(__name__)

LOG_SECONDS = 1.0
"""At most one line about rejected requests per interval: guessing keys must not fill the disk."""
_LOCALHOST = re.compile(rb"(localhost|127(\.[0-9]{1,3}){3}|\[::1\])(:[0-9]+)?", re.IGNORECASE)
_WHY_NOT = (
    "this request needs an API key, in X-API-Key or as Authorization: Bearer",
    "the API key of this request is not valid: it is mistyped, or was revoked",
    "this request has several API keys: send one, in X-API-Key or as Authorization: Bearer",
)
"""What is wrong with a request that has no key, one, or more."""
CHALLENGE = 'Bearer realm="prudent"'
LOGIN = "/dashboard/login"
ROLE = "prudent.role"
"""Where a request's scope holds its role; absent if keys are not in use."""
KEY_NAME = "prudent.key_name"
"""Where it holds the name of its key, which is what the trail has; absent if keys are not in use."""


class RequireKey:
    """Replies 401 to requests without a valid key, and 403 if the key's role does not allow the request."""

    def __init__(self, app: ASGIApp, ring: KeyRing, sessions: Sessions) -> None:
        self._app, self._ring, self._sessions = app, ring, sessions
        self._refused = 0
        self._logged_at = float("-inf")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or reject it."""
        needed = role_needed(scope["method"], own_path(scope)) if scope["type"] == "http" else None
        if needed is None:
            await self._app(scope, receive, send)
            return
        if self._ring.is_open:
            if names_this_machine(scope["headers"]):
                await self._app(scope, receive, send)
                return
            self._log(scope, "a Host header other than localhost")
            body = problem(
                403,
                "as long as there are no API keys, only requests to localhost are served: create one with prudent keys",
            )
            await respond(body)(scope, receive, send)
            return
        digest = self._digest_of(scope)
        role = None if digest is None else self._ring.role_of_digest(digest)
        if digest is not None and role is not None and is_allowed(role, needed):
            scope[ROLE], scope[KEY_NAME] = role, self._ring.name_of_digest(digest)
            await self._app(scope, receive, send)
            return
        is_seen = is_page(own_path(scope)) and scope["method"] in {"GET", "HEAD"}
        if role is not None and not (is_seen and not presented_keys(scope["headers"])):
            self._log(scope, "the role of the key does not allow it")
            body = problem(403, f"this request needs the role {needed}; the key has the role {role}")
            challenge = f'{CHALLENGE}, error="insufficient_scope"'
        elif not self._ring.is_loaded:
            await respond(problem(503, "the API keys are not loaded yet: try again"), {"Retry-After": "1"})(
                scope, receive, send
            )
            return
        elif is_seen:
            await respond_with_login(scope)(scope, receive, send)
            return
        else:
            self._log(scope, "no valid key")
            body = problem(401, _WHY_NOT[min(2, len(presented_keys(scope["headers"])))])
            challenge = CHALLENGE
        await respond(body, {"WWW-Authenticate": challenge})(scope, receive, send)

    def _digest_of(self, scope: Scope) -> bytes | None:
        """The digest of the request's only key or, on the dashboard's pages, of its session's."""
        keys = presented_keys(scope["headers"])
        if keys or not is_page(own_path(scope)):
            return digest_of(keys.pop()) if len(keys) == 1 else None
        session = self._sessions.presented(scope["headers"])
        return None if session is None else session.key

    def _log(self, scope: Scope, reason: str) -> None:
        """Log who was rejected, but never the key."""
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


def author_of(request: Request, via: Literal["API", "dashboard"] = "API") -> Author:
    """Who makes this request, for the trail."""
    return Author(request.scope.get(KEY_NAME), via)


def admits(ring: KeyRing, needed: Role, headers: Headers) -> bool:
    """Whether a request that needs this role may be made. Why not, says `RequireKey`."""
    if ring.is_open:
        return names_this_machine(headers)
    keys = presented_keys(headers)
    role = ring.role_of(keys.pop()) if len(keys) == 1 else None
    return role is not None and is_allowed(role, needed)


def respond_with_login(scope: Scope) -> Response:
    """Redirect a browser to the login page, and from there back."""
    root = scope.get("root_path", "")
    wanted = own_path(scope) + (f"?{query.decode('latin-1')}" if (query := scope["query_string"]) else "")
    return RedirectResponse(f"{root}{LOGIN}?next={quote(wanted, safe='')}", 303, {"Cache-Control": "no-store"})


def names_this_machine(headers: Headers) -> bool:
    """Whether the request's Host is localhost.

    DNS rebinding makes a browser on this machine resolve another site's name to this address, so that the pages of that
    site may read and send anything; the Host header reveals it.
    """
    return all(name != b"host" or _LOCALHOST.fullmatch(value) for name, value in headers)


def presented_keys(headers: Headers) -> set[bytes]:
    """The distinct keys of a request, in whatever headers."""
    found: set[bytes] = set()
    for name, value in headers:
        if name == b"x-api-key":
            found.add(value.strip())
        elif name == b"authorization":
            scheme, _, key = value.partition(b" ")
            if scheme.lower() == b"bearer":  # other schemes may be the proxy's
                found.add(key.strip())
    return found


@asynccontextmanager
async def current_keys(ring: KeyRing, sessions: Sessions, read: Reader, seconds: float) -> AsyncIterator[None]:
    """Within it the stored keys are known, and read again every so many seconds."""
    await load_keys(ring, sessions, read)
    watch = asyncio.create_task(_watch_keys(ring, sessions, read, seconds))
    try:
        yield
    finally:
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)


async def load_keys(ring: KeyRing, sessions: Sessions, read: Reader) -> None:
    """Read the stored keys and the sessions that have ended. If the database does not answer, the known ones stay."""
    try:
        stored, made, ended = await read(_stored)
    except DatabaseUnavailableError:
        logger.warning("the keys cannot be read: the database does not answer")
        return
    sessions.load(ended)
    ring.load(stored, was_key_made=made)


async def _watch_keys(ring: KeyRing, sessions: Sessions, read: Reader, seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        try:
            await load_keys(ring, sessions, read)
        except Exception:  # must go on: otherwise revoked keys would stay valid
            logger.exception("the keys cannot be read")


def _stored(connection: Connection) -> tuple[list[tuple[bytes, Role, str]], bool, set[bytes]]:
    keys = [(bytes(digest), cast("Role", role), name) for digest, role, name in valid_keys(connection)]
    return keys, was_key_made(connection), find_ended_sessions(connection)
