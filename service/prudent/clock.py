"""The clock, and the time-ordered decision ids that the server makes."""

import secrets
import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Microseconds since 1970, UTC."""


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
    """Time-ordered UUIDs (version 7, RFC 9562), increasing within a process even if the clock stops or steps back.

    Each random key would touch another page of the index; increasing ones share the last page, which halves the time
    of a commit.
    """

    def __init__(self, clock: Clock, random_bits: Callable[[int], int] = secrets.randbits) -> None:
        self._clock = clock
        self._random_bits = random_bits
        self._last = 0

    def __call__(self) -> str:
        """A new id."""
        # 48 bits of milliseconds and 12 of their fraction; if the clock has not advanced, count up by one
        self._last = max(self._last + 1, (self._clock() << 12) // 1_000)
        milliseconds, fraction = self._last >> 12, self._last & 0xFFF
        value = milliseconds << 80 | 0x7 << 76 | fraction << 64 | 0b10 << 62 | self._random_bits(62)
        text = f"{value:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
