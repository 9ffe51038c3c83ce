"""Decision ids made by the server, and the clock they are ordered by."""

import secrets
import time
from collections.abc import Callable

Clock = Callable[[], int]
"""Microseconds since 1970, UTC."""


def _elapsed_ns() -> int:
    """Since the machine's start, sleep included where the system can tell."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic_ns() if boottime is None else time.clock_gettime_ns(boottime)


def steady_clock(wall: Callable[[], int] = time.time_ns, elapsed: Callable[[], int] = _elapsed_ns) -> Clock:
    """A clock that starts at the wall clock's time and then counts by itself: no deadline moves when that is set.

    wall, elapsed: nanoseconds.
    """
    ahead = wall() - elapsed()
    return lambda: (ahead + elapsed()) // 1_000


class DecisionIds:
    """Time-ordered UUIDs (version 7, RFC 9562), rising within a process even where the clock stands or steps back.

    Random keys would touch a page of the index each; rising ones share the last page and halve the commit's time.
    """

    def __init__(self, clock: Clock, random_bits: Callable[[int], int] = secrets.randbits) -> None:
        self._clock = clock
        self._random_bits = random_bits
        self._last = 0

    def __call__(self) -> str:
        """A new id."""
        # 48 bits of milliseconds and 12 of their fraction; a stopped clock is pushed on by one step
        self._last = max(self._last + 1, (self._clock() << 12) // 1_000)
        milliseconds, fraction = self._last >> 12, self._last & 0xFFF
        value = milliseconds << 80 | 0x7 << 76 | fraction << 64 | 0b10 << 62 | self._random_bits(62)
        text = f"{value:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
