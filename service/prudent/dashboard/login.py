"""Signing in with an API key, for browsers: they keep a session, never the key."""

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from prudent.api.problems import BadBodyError
from prudent.dashboard.forms import is_https, read_form
from prudent.dashboard.rendering import HEADERS, Pages
from prudent.security.keys import KeyRing
from prudent.security.sessions import COOKIE, SECONDS, Sessions, is_page


def login_routes(pages: Pages, ring: KeyRing, sessions: Sessions) -> APIRouter:
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
        if ring.role_of(key) is None:
            if ring.is_loaded:
                status, text = 401, "This is no valid key. It may have been revoked, or not copied as a whole."
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
        response = RedirectResponse(f"{root}/dashboard/login", 303, HEADERS)
        response.delete_cookie(COOKIE, path=root or "/", httponly=True, samesite="strict")
        return response

    return router


def _inside(wanted: str) -> str:
    """Where to go after signing in: an address of the dashboard and no other site's."""
    path = wanted.partition("?")[0]
    is_ours = is_page(path) and not wanted.startswith("//") and wanted.isascii() and wanted.isprintable()
    return wanted if is_ours and "\\" not in wanted else "/"
