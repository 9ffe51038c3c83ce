"""What the protocol asks of a lane: a way past the application for the requests of which there are most."""

import asyncio
from typing import Any, Protocol

from prudent.api.server.middleware import Headers


class Passage(Protocol):
    """A request whose command has been submitted."""

    @property
    def outcomes(self) -> asyncio.Future[list[Any]]:
        """It can be answered when they are known."""


class Lane(Protocol):
    """Answers some requests without the application: `prudent.api.decisions.FastLane`."""

    def takes(self, method: bytes, url: bytes, size: int | None) -> bool:
        """Whether a request with this head may be for the lane. size: of the body, if declared."""

    def enter(self, url: bytes, headers: Headers, body: bytes) -> Passage | None:
        """Submit the command of a request; None if the application must answer it."""

    def leave(self, passage: Any) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        """The response to a request whose outcome is known: status, headers and body."""
