"""From templates to responses: pages, error pages and static files, with the headers that protect them."""

import re
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from functools import wraps
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from prudent.api.assets import Assets
from prudent.api.problems import BadBodyError
from prudent.api.server.authentication import ROLE
from prudent.dashboard import formatting
from prudent.errors import CommandError, NotFoundError, QuarantinedError, UnavailableError
from prudent.security.keys import Role, is_allowed
from prudent.security.sessions import COOKIE, Sessions
from prudent.store import reports
from prudent.store.read_pool import Reader
from prudent.store.tables import DecisionRow

STATIC = Path(__file__).parent / "static"
_HOST = re.compile(r"[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?|\[[0-9a-fA-F:.]{2,45}\](:[0-9]{1,5})?")
Endpoint = Callable[..., Coroutine[Any, Any, Response]]

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
SEE_OTHER = 303
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",  # no-referrer would take the Origin from our own forms as well
    "Cross-Origin-Opener-Policy": "same-origin",
    "Vary": "Cookie",
}


def dashboard_assets() -> Assets:
    """The dashboard's scripts, styles and pictures."""
    return Assets("/dashboard/static", sorted(path for path in STATIC.iterdir() if path.is_file()))


def asset_routes(assets: Assets) -> APIRouter:
    """The files, open to everybody: they are the same for all."""
    router = APIRouter(include_in_schema=False)

    @router.get("/dashboard/static/{name}")
    async def static(name: str, request: Request) -> Response:
        return assets.respond(name, request)

    return router


class Pages:
    """Renders the templates. has_demo: whether the campaign named demo is the demo, which can be played on."""

    def __init__(self, assets: Assets, read: Reader, sessions: Sessions, *, has_demo: bool = False) -> None:
        self.read = read
        self._sessions = sessions
        self._environment = Environment(
            loader=PackageLoader("prudent.dashboard"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(
            number=formatting.number,
            percent=formatting.percent,
            count=formatting.count,
            plural=formatting.plural,
            fixed=formatting.fixed,
            short=formatting.short,
            abridged=formatting.abridged,
            instant=instant,
            step=step,
        )
        self._environment.tests["trial"] = is_trial
        self._environment.globals.update(asset=assets.address, version=version("prudent"), has_demo=has_demo, read=read)

    def render(self, request: Request, template: str, status: int = 200, **context: Any) -> HTMLResponse:
        """A page.

        Templates see root (before every path), role (None where no keys are in use), what it may do, and token: what
        makes the hidden field of forms.
        """
        role: Role | None = request.scope.get(ROLE)
        text = self._environment.get_template(template).render(
            root=request.scope.get("root_path", ""),
            role=role,
            may_write=role is None or is_allowed(role, "writer"),
            may_administer=role is None or is_allowed(role, "admin"),
            token=lambda: self._sessions.form_token(self._sessions.presented(request.scope["headers"])),
            has_session=COOKIE in request.cookies,
            **context,
        )
        return HTMLResponse(text, status, HEADERS)


def page(router: APIRouter, pages: Pages, path: str, method: str = "GET") -> Callable[[Endpoint], Endpoint]:
    """Add a route for browsers, whose errors are pages as well."""

    def register(endpoint: Endpoint) -> Endpoint:
        @wraps(endpoint)
        async def answer(request: Request, *args: Any, **kwargs: Any) -> Response:
            try:
                response = await endpoint(request, *args, **kwargs)
            except (CommandError, UnavailableError, BadBodyError) as error:
                status, title, text = _describe(error)
                return pages.render(request, "problem.html", status, title=title, text=text)
            if response.status_code == SEE_OTHER:
                await pages.read.catch_up()
            return response

        router.add_api_route(path, answer, methods=[method])
        return answer

    return register


def sentence(error: CommandError) -> str:
    """What is wrong with a request, with the field's name where there is one."""
    field = getattr(error, "field", None)
    return error.message if field is None else f"{field}: {error.message}"


def _describe(error: CommandError | UnavailableError | BadBodyError) -> tuple[int, str, str]:
    if isinstance(error, BadBodyError):
        return error.status, "Request refused", error.detail
    if isinstance(error, QuarantinedError):
        return 503, "Out of service", error.message
    if isinstance(error, UnavailableError):
        return 503, "Temporarily unavailable", error.message
    if isinstance(error, NotFoundError):
        return 404, "Not found", sentence(error)
    return 422, "Invalid request", sentence(error)


def is_trial(made: DecisionRow) -> bool:
    """Whether the policy tried an arm other than the best estimate; what is held out or chosen elsewhere is not its."""
    return reports.is_trial(made) and made.reason != "external"


def is_https(request: Request) -> bool:
    """Whether the reader's browser speaks TLS, to us or to the proxy in front."""
    return "https" in (request.url.scheme, request.headers.get("x-forwarded-proto", ""))


def base_address(request: Request) -> str:
    """The address under which the reader reaches this service, for commands to copy."""
    host = request.headers.get("host", "")
    if not _HOST.fullmatch(host):
        host = "127.0.0.1:8000"
    return f"{'https' if is_https(request) else 'http'}://{host}{request.scope.get('root_path', '')}"


def asks_for_keys(request: Request) -> bool:
    """Whether a command that a reader copies needs a key."""
    return ROLE in request.scope


def address(request: Request, *steps: str) -> str:
    """The path of a page of the dashboard, its steps quoted."""
    return "/".join([f"{request.scope.get('root_path', '')}/dashboard", *map(step, steps)])


def see(location: str) -> Response:
    """Have the browser get another page, so that a reload of it sends nothing again."""
    return RedirectResponse(location, SEE_OTHER, HEADERS)


def curl(base: str, path: str, body: Mapping[str, Any], *, with_key: bool) -> str:
    """A shell command. The body holds only ids and numbers, so nothing in it can end the quotes."""
    lines = [f"curl -s {base}{path}", "-H 'Content-Type: application/json'"]
    if with_key:
        lines.append('-H "X-API-Key: $PRUDENT_API_KEY"')
    lines.append(f"-d '{orjson.dumps(body).decode()}'")
    return " \\\n  ".join(lines)


def step(value: str) -> str:
    """Quote a segment of a path, or a value in a query."""
    return quote(value, safe="")


def instant(microseconds: int) -> Markup:
    """A time in UTC; the page's script shows it relative to now."""
    when = datetime.fromtimestamp(microseconds / 1e6, UTC)
    machine, text = when.isoformat(timespec="milliseconds"), f"{when:%Y-%m-%d %H:%M:%S} UTC"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(machine, text, text)  # format escapes
