"""Waiting for what happens in another process or thread."""

import time
from collections.abc import Callable

SECONDS_MAX = 30.0


def wait_for(condition: Callable[[], object], what: str = "nothing happened", seconds_max: float = SECONDS_MAX) -> None:
    """Return as soon as the condition holds. Raises AssertionError, which says `what`, if it does not in time."""
    deadline = time.monotonic() + seconds_max
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
