"""Trying again in place of clients that do not: their protocols have no answer that says to come back later."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from prudent.errors import QuarantinedError, UnavailableError

T = TypeVar("T")

ANSWER_SECONDS_MAX = 1.8
"""So that an answer arrives within 2 s."""
PAUSE_SECONDS = 0.02
"""Before the second attempt; each later pause is twice as long as the one before."""


async def persistently(attempt: Callable[[], Awaitable[T]], seconds: float = ANSWER_SECONDS_MAX) -> T:
    """What an attempt gives, made again as long as it raises UnavailableError. It must be safe to repeat.

    seconds: after which even the last attempt is given up. Raises the last attempt's error. A campaign in quarantine
    will not be well again in time.
    """
    pause, given_up = PAUSE_SECONDS, UnavailableError("there was no answer in time")
    try:
        async with asyncio.timeout(seconds):
            while True:
                try:
                    return await attempt()
                except QuarantinedError:
                    raise
                except UnavailableError as error:
                    given_up = error
                await asyncio.sleep(pause)
                pause *= 2
    except TimeoutError:
        raise given_up from None


def settled(outcomes: list[Any]) -> list[Any]:
    """Outcomes of commands as they are, unless one may be another one later. Raises UnavailableError then."""
    for outcome in outcomes:
        if isinstance(outcome, UnavailableError) and not isinstance(outcome, QuarantinedError):
            raise outcome
    return outcomes
