"""One way to play a call on both clients."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from prudent_client import AsyncClient, Client

Action = Callable[[Any], Any]


class Player:
    """Plays calls on one kind of client; `waited` has the pauses that it would have made.

    Without a deadline, unless the options have one: no time passes while it waits.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.waited: list[float] = []

    def __call__(self, url: str, action: Action, **options: Any) -> Any:
        """What a call, such as `lambda client: client.health()`, returns or raises."""
        options = {"deadline_seconds": None, **options}
        if self.kind == "sync":
            with Client(url, sleep=self.waited.append, **options) as client:
                return action(client)

        async def sleep(seconds: float) -> None:
            self.waited.append(seconds)

        async def run() -> Any:
            async with AsyncClient(url, sleep=sleep, **options) as client:
                return await action(client)

        return asyncio.run(run())


@pytest.fixture(params=["sync", "async"])
def play(request: pytest.FixtureRequest) -> Player:
    """Play a call on the synchronous client, and on the other."""
    return Player(request.param)
