"""The clock, and the time-ordered decision ids that the server makes."""

import os
import time
from collections.abc import Callable

from prudent.identifiers import KEY_MAX

Clock = Callable[[], int]
"""Microseconds since 1970, UTC."""

DAY_US = 86_400 * 1_000_000
DRAWN_AT_ONCE = 512
"""Ids whose random parts are drawn together."""


def _elapsed_ns() -> int:
    """Time since boot, including sleep where the system can tell."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic_ns() if boottime is None else time.clock_gettime_ns(boottime)


def steady_clock(wall: Callable[[], int] = time.time_ns, elapsed: Callable[[], int] = _elapsed_ns) -> Clock:
    """A clock that starts at the wall clock's time and then counts by itself: setting the wall clock moves no deadline.

    wall, elapsed: nanoseconds.
    """
    ahead = wall() - elapsed()
    return lambda: (ahead + elapsed()) // 1_000


class DecisionIds:
    """Time-ordered UUIDs (RFC 9562), increasing within a process even if the clock stops or steps back.

    With a campaign's key they are of version 8, and end with it: see `prudent.identifiers`. Otherwise of version 7.
    Each random key would touch another page of the index; increasing ones share the last page, which halves the time
    of a commit.
    """

    def __init__(self, clock: Clock, random_bytes: Callable[[int], bytes] = os.urandom) -> None:
        self._clock = clock
        self._random_bytes = random_bytes
        self._last = 0
        self._drawn = memoryview(b"")
        """Random bytes that no id has had yet. Asking the system for each id lets another thread run in between."""

    def __call__(self, key: int | None = None) -> str:
        """A new id. key: of the campaign that it is for."""
        # 48 bits of milliseconds and 12 of their fraction; if the clock has not advanced, count up by one
        self._last = max(self._last + 1, (self._clock() << 12) // 1_000)
        milliseconds, fraction = self._last >> 12, self._last & 0xFFF
        if not self._drawn:
            self._drawn = memoryview(self._random_bytes(8 * DRAWN_AT_ONCE))
        tail, self._drawn = int.from_bytes(self._drawn[:8], "big") & (1 << 62) - 1, self._drawn[8:]
        version = 7
        if key is not None and key <= KEY_MAX:
            version, tail = 8, tail & ~KEY_MAX | key
        text = f"{milliseconds << 80 | version << 76 | fraction << 64 | 0b10 << 62 | tail:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
