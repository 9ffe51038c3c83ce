"""Signing in with an API key: the browser keeps a session, never the key."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from prudent.api.problems import BadBodyError
from prudent.dashboard.forms import read_form
from prudent.dashboard.rendering import HEADERS, Pages, is_https
from prudent.errors import UnavailableError
from prudent.ledger.access import LedgerAccess
from prudent.ledger.commands import EndSession
from prudent.security.keys import KeyRing, is_allowed, role_needed
from prudent.security.sessions import COOKIE, SECONDS, Sessions, is_page


def login_routes(pages: Pages, ring: KeyRing, sessions: Sessions, ledger: LedgerAccess) -> APIRouter:
    """``/dashboard/login`` and ``/dashboard/logout``."""
    router = APIRouter(include_in_schema=False)

    @router.get("/dashboard/login")
    async def show(request: Request) -> Response:
        wanted = _inside(request.query_params.get("next", "/"))
        return pages.render(request, "login.html", wanted=wanted, needed=_needed(wanted), error=None)

    @router.post("/dashboard/login")
    async def login(request: Request) -> Response:
        try:
            form = await read_form(request)
        except BadBodyError as error:
            return pages.render(request, "login.html", error.status, wanted="/", needed="reader", error=error.detail)
        key, wanted = form.get("key", "").strip().encode(), _inside(form.get("next", "/"))
        role = ring.role_of(key)
        if role is None or not is_allowed(role, "reader"):
            if role is not None:
                status, text = 403, f"This key has the role {role}, which may not look at campaigns."
            elif ring.is_loaded:
                status, text = 401, "This key is not valid. It may have been revoked, or only partly copied."
            else:
                status, text = 503, "The keys are not loaded yet: try again in a moment."
            return pages.render(request, "login.html", status, wanted=wanted, needed=_needed(wanted), error=text)
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


def _needed(wanted: str) -> str:
    """The role that the wanted page needs."""
    return role_needed("GET", wanted.partition("?")[0]) or "reader"
