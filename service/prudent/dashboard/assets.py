"""Files of the pages: our own and plotly's JavaScript, as its package ships it. None comes from another host."""

import asyncio
import gzip
import hashlib
import mimetypes
import re
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

from fastapi import APIRouter, Request, Response

STATIC = Path(__file__).parent / "static"
PLOTLY = "plotly.js"
YEAR = 365 * 86_400
_GUARD = re.compile(rb'getElementById\("([0-9a-f]{64})"\)')


@dataclass(frozen=True)
class Asset:
    """A file in memory. version: of its content, part of its address, so that the address may be kept for a year."""

    content: bytes
    media_type: str

    @cached_property
    def version(self) -> str:
        """Sixteen hex digits of the content's digest."""
        return hashlib.sha256(self.content).hexdigest()[:16]

    @cached_property
    def compressed(self) -> bytes:
        """By gzip: plotly's 5 MB are 1.5 MB on the wire."""
        return gzip.compress(self.content, 6, mtime=0)


class Assets:
    """The files by name. Read once, at the start; compressed when first asked for, off the event loop."""

    def __init__(self) -> None:
        paths = {path.name: path for path in sorted(STATIC.iterdir()) if path.is_file()}
        paths[PLOTLY] = plotly_path()
        self._assets = {
            name: Asset(path.read_bytes(), mimetypes.guess_type(path.name)[0] or "application/octet-stream")
            for name, path in paths.items()
        }
        found = _GUARD.search(self._assets[PLOTLY].content)
        self.plotly_guard = None if found is None else found[1].decode()
        """An id: where an element has it, plotly adds no style sheet for its maps, which our policy would refuse."""

    def address(self, name: str) -> str:
        """Path of a file, with its version."""
        return f"/dashboard/static/{name}?v={self._assets[name].version}"

    async def respond(self, name: str, request: Request) -> Response:
        """The file, or 304 where the browser has it; 404 for a name that is none."""
        asset = self._assets.get(name)
        if asset is None:
            return Response("there is no such file", 404, media_type="text/plain")
        is_current = request.query_params.get("v") == asset.version
        zipped = "gzip" in request.headers.get("accept-encoding", "")
        headers = {
            "Cache-Control": f"public, max-age={YEAR}, immutable" if is_current else "no-cache",
            "ETag": f'"{asset.version}{"-gzip" if zipped else ""}"',
            "Vary": "Accept-Encoding",
            "X-Content-Type-Options": "nosniff",
        }
        if headers["ETag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        content = asset.content
        if zipped:
            headers["Content-Encoding"] = "gzip"
            content = await asyncio.to_thread(lambda: asset.compressed)
        return Response(content, headers=headers, media_type=asset.media_type)


def plotly_path() -> Path:
    """Where the installed package has its JavaScript. It is not imported: that would take a second."""
    found = find_spec("plotly")
    if found is None or found.origin is None:
        raise RuntimeError("the package plotly is not installed")
    return Path(found.origin).parent / "package_data" / "plotly.min.js"


def asset_routes(assets: Assets) -> APIRouter:
    """The files, open to everybody: they are the same for all."""
    router = APIRouter(include_in_schema=False)

    @router.get("/dashboard/static/{name}")
    async def static(name: str, request: Request) -> Response:
        return await assets.respond(name, request)

    return router
