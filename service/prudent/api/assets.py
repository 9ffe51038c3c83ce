"""Files that everybody may have: in memory, once for all connections, with an address that says their version.

Nothing is opened, read or copied for a request, so a thousand clients that do not read what they asked for hold no more
than one.
"""

import gzip
import hashlib
import mimetypes
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fastapi import Request, Response

YEAR = 365 * 86_400


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
        """By gzip, about a third of its size on the wire."""
        return gzip.compress(self.content, 9, mtime=0)

    def respond(self, request: Request) -> Response:
        """The file, or 304 where the browser already has it."""
        is_current = request.query_params.get("v") == self.version
        zipped = "gzip" in request.headers.get("accept-encoding", "")
        headers = {
            "Cache-Control": f"public, max-age={YEAR}, immutable" if is_current else "no-cache",
            "ETag": f'"{self.version}{"-gzip" if zipped else ""}"',
            "Vary": "Accept-Encoding",
        }
        if headers["ETag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if zipped:
            headers["Content-Encoding"] = "gzip"
        return Response(self.compressed if zipped else self.content, headers=headers, media_type=self.media_type)


class Assets:
    """Files by name, under one address. Read once, at the start; compressed when first asked for."""

    def __init__(self, address: str, paths: Iterable[Path]) -> None:
        self._address = address
        self._assets = {
            path.name: Asset(path.read_bytes(), mimetypes.guess_type(path.name)[0] or "application/octet-stream")
            for path in paths
        }

    def add(self, name: str, asset: Asset) -> None:
        """Add a file that is on no disk."""
        self._assets[name] = asset

    def address(self, name: str) -> str:
        """Path of a file, with its version."""
        return f"{self._address}/{name}?v={self._assets[name].version}"

    def respond(self, name: str, request: Request) -> Response:
        """The file, 304 where the browser already has it, or 404 for an unknown name."""
        asset = self._assets.get(name)
        return Response("file not found", 404, media_type="text/plain") if asset is None else asset.respond(request)
