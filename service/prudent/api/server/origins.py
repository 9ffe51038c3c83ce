"""Pages of other origins, which browsers let read an answer only if it says that they may."""

from collections.abc import Sequence

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from prudent.api.server.middleware import own_path

HEADERS = ("Authorization", "Content-Type", "If-None-Match", "X-API-Key")
"""What pages may send; without a preflight they could set none of these."""
PREFLIGHT_SECONDS = 3_600


class AllowOrigins:
    """Lets the pages of these origins use the paths below one path, and no others. Preflights need no key."""

    def __init__(self, app: ASGIApp, path: str, origins: Sequence[str]) -> None:
        self._app, self._path = app, path
        self._allowing = CORSMiddleware(
            app,
            allow_origins=origins,
            allow_methods=["POST"],
            allow_headers=HEADERS,
            expose_headers=["ETag"],
            max_age=PREFLIGHT_SECONDS,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve."""
        is_below = scope["type"] == "http" and own_path(scope).startswith(self._path)
        await (self._allowing if is_below else self._app)(scope, receive, send)
