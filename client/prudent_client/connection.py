"""The options that both clients are opened with."""

import asyncio
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import httpx

CONNECT_SECONDS_MAX = 5.0
_LOCAL = ("127.0.0.1", "::1", "localhost")
T = TypeVar("T")


class OnePerPlace(Generic[T]):
    """What each place, a process or an event loop, must have of its own: threads, and connections.

    On its parent's connections a forked process would read the answers to its parent. make: makes it, now and in each
    other place that asks for it; place: tells one from another.
    """

    def __init__(self, make: Callable[[], T], place: Callable[[], object] = os.getpid) -> None:
        self._make, self._place = make, place
        self._made = place(), make()

    @property
    def own(self) -> T:
        """The one of this place."""
        here = self._place()
        there, made = self._made
        if there != here:
            made = self._make()
            self._made = here, made
        return made


def this_loop() -> tuple[int, asyncio.AbstractEventLoop | None]:
    """The process with its running event loop: connections of one that has ended cannot be used in the next."""
    try:
        return os.getpid(), asyncio.get_running_loop()
    except RuntimeError:
        return os.getpid(), None


def options(
    base_url: str, api_key: str | None, timeout_seconds: float, headers: Mapping[str, str] | None
) -> dict[str, Any]:
    """Arguments of httpx's clients. Raises ValueError for an invalid URL, and a key or header that cannot be sent."""
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL as error:
        raise ValueError(f"{base_url} is not a valid URL: {error}") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError(f"{base_url} is not an http:// or https:// URL")
    if url.query or url.fragment:
        raise ValueError(f"{base_url} is not the URL of a service, which has neither query nor fragment")
    own = {"Accept": "application/json", "User-Agent": "prudent-client", **(headers or {})}
    if api_key is not None:
        if not re.fullmatch(r"[!-~]+", api_key):
            raise ValueError("the API key must be printable ASCII without spaces")
        own["X-API-Key"] = api_key
    for name, value in own.items():
        if not re.fullmatch(r"[ -~]*", value):
            raise ValueError(f"the header {name} must be printable ASCII")
    return {
        "base_url": url,
        "headers": own,
        "timeout": httpx.Timeout(timeout_seconds, connect=min(timeout_seconds, CONNECT_SECONDS_MAX)),
        # A proxy set for the outer world must not catch calls to this machine.
        "trust_env": url.host not in _LOCAL,
    }


def within(timeout: httpx.Timeout, seconds: float | None) -> httpx.Timeout:
    """These time-outs, none of them above the seconds."""
    if seconds is None:
        return timeout
    return httpx.Timeout(
        **{step: seconds if most is None else min(most, seconds) for step, most in timeout.as_dict().items()}
    )
