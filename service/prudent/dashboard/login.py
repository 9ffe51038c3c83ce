"""Signing in with an API key: the browser keeps a session, never the key. Also reads the forms that browsers send."""

import asyncio
from urllib.parse import parse_qsl, urlsplit

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from prudent.api.problems import BadBodyError
from prudent.dashboard.rendering import HEADERS, Pages, is_https
from prudent.errors import UnavailableError
from prudent.ledger.access import LedgerAccess
from prudent.ledger.commands import EndSession
from prudent.security.keys import KeyRing, is_allowed
from prudent.security.sessions import COOKIE, SECONDS, Sessions, is_page

FORM_BYTES_MAX = 2**18
FORM_SECONDS_MAX = 30
FIELDS_MAX = 2_000


def check_origin(request: Request) -> None:
    """Raise BadBodyError unless the form was sent by a page of this address.

    A browser states where a form comes from. A page of another site must use neither the reader's session nor an open
    service on the reader's machine. A client that states no origin is not a browser, and should use the API.
    """
    origin = request.headers.get("origin", "")
    site = request.headers.get("sec-fetch-site", "same-origin")
    if not origin or urlsplit(origin).netloc != request.headers.get("host") or site != "same-origin":
        raise BadBodyError(403, "the form was not sent from a page of this service")


async def read_form(request: Request) -> dict[str, str]:
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


def login_routes(pages: Pages, ring: KeyRing, sessions: Sessions, ledger: LedgerAccess) -> APIRouter:
    """``/dashboard/login`` and ``/dashboard/logout``."""
    router = APIRouter(include_in_schema=False)

    @router.get("/dashboard/login")
    async def show(request: Request) -> Response:
        return pages.render(request, "login.html", wanted=_inside(request.query_params.get("next", "/")), error=None)

    @router.post("/dashboard/login")
    async def login(request: Request) -> Response:
        try:
            form = await read_form(request)
        except BadBodyError as error:
            return pages.render(request, "login.html", error.status, wanted="/", error=error.detail)
        key, wanted = form.get("key", "").strip().encode(), _inside(form.get("next", "/"))
        role = ring.role_of(key)
        if role is None or not is_allowed(role, "reader"):
            if role is not None:
                status, text = 403, f"This key has the role {role}, which may not look at campaigns."
            elif ring.is_loaded:
                status, text = 401, "This key is not valid. It may have been revoked, or only partly copied."
            else:
                status, text = 503, "The keys are not loaded yet: try again in a moment."
            return pages.render(request, "login.html", status, wanted=wanted, error=text)
        response = RedirectResponse(request.scope.get("root_path", "") + wanted, 303, HEADERS)
        response.set_cookie(
            COOKIE,
            sessions.issue(key),
            max_age=SECONDS,
            path=request.scope.get("root_path", "") or "/",
            secure=is_https(request),
            httponly=True,
            samesite="strict",
        )
        return response

    @router.post("/dashboard/logout")
    async def logout(request: Request) -> Response:
        root = request.scope.get("root_path", "")
        try:
            await read_form(request)
        except BadBodyError as error:
            return pages.render(request, "problem.html", error.status, title="Not signed out", text=error.detail)
        session = sessions.presented(request.scope["headers"])
        if session is not None:
            try:
                await ledger.administer(EndSession(session.id, session.expires_at))
            except UnavailableError as error:
                return pages.render(request, "problem.html", 503, title="Not signed out", text=error.message)
            sessions.end(session)
        response = RedirectResponse(f"{root}/dashboard/login", 303, HEADERS)
        response.delete_cookie(COOKIE, path=root or "/", httponly=True, samesite="strict")
        return response

    return router


def _inside(wanted: str) -> str:
    """Where to go after signing in: only to an address of the dashboard, never to another site."""
    path = wanted.partition("?")[0]
    is_ours = is_page(path) and not wanted.startswith("//") and wanted.isascii() and wanted.isprintable()
    return wanted if is_ours and "\\" not in wanted else "/"
