"""From templates to responses: everything is escaped, and the policy lets a page run our own files alone."""

from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from prudent.api.server.authentication import ROLE
from prudent.dashboard import formatting
from prudent.dashboard.assets import Assets
from prudent.security.keys import Role, is_allowed
from prudent.security.sessions import COOKIE

EMPTY_STYLE = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
"""Of no content at all: plotly adds an empty style element, and then its rules by script."""
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        f"style-src 'self' {EMPTY_STYLE}",
        "img-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "private, no-cache",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # no-referrer would take the Origin from our own forms as well
    "Cross-Origin-Opener-Policy": "same-origin",
    "Vary": "Cookie",
}


class Pages:
    """Renders the templates."""

    def __init__(self, assets: Assets) -> None:
        self._environment = Environment(
            loader=PackageLoader("prudent.dashboard"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
        self._environment.filters.update(
            number=formatting.number,
            percent=formatting.percent,
            count=formatting.count,
            fixed=formatting.fixed,
            short=formatting.short,
            instant=instant,
            step=step,
        )
        self._environment.globals.update(asset=assets.address, guard=assets.plotly_guard, version=version("prudent"))

    def render(self, request: Request, template: str, status: int = 200, **context: Any) -> HTMLResponse:
        """A page. Templates see root (before every path), role (None where no keys are in use), and may_write."""
        role: Role | None = request.scope.get(ROLE)
        text = self._environment.get_template(template).render(
            root=request.scope.get("root_path", ""),
            role=role,
            may_write=role is None or is_allowed(role, "writer"),
            has_session=COOKIE in request.cookies,
            **context,
        )
        return HTMLResponse(text, status, HEADERS)


def asks_for_keys(request: Request) -> bool:
    """Whether a command that a reader copies needs a key."""
    return ROLE in request.scope


def step(value: str) -> str:
    """A part of a path or query."""
    return quote(value, safe="")


def instant(microseconds: int) -> Markup:
    """A time in UTC; the page's script turns it into the reader's own way of saying it."""
    when = datetime.fromtimestamp(microseconds / 1e6, UTC)
    machine, text = when.isoformat(timespec="milliseconds"), f"{when:%Y-%m-%d %H:%M:%S} UTC"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(machine, text, text)  # format escapes
