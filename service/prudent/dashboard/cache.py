"""What was read is kept for a moment, so that many readers, or a large campaign, cost no more than one."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

V = TypeVar("V")
KEPT_MAX = 16
"""Things kept: of a campaign with many decisions about 3 MB."""
COSTLY = 20
"""Something that took a second to make is made again after so many seconds at the earliest, changed or not."""
SECONDS_MAX = 60.0
"""Something that has changed is never older than this."""


@dataclass
class _Kept:
    stamp: Hashable
    made_at: float
    seconds: float
    value: Any


class Remembered:
    """Values by name, with the stamp of what they were made of. clock: seconds, monotonic."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._locks: dict[Hashable, tuple[asyncio.Lock, int]] = {}

    async def get(self, name: Hashable, stamp: Hashable, make: Callable[[], Awaitable[V]]) -> V:
        """The value that was made of the same stamp, or lately enough for its cost; else a new one. One at a time."""
        lock, waiting = self._locks.get(name, (asyncio.Lock(), 0))
        self._locks[name] = lock, waiting + 1
        try:
            async with lock:
                kept = self._kept.get(name)
                if kept is None or not self._is_fresh(kept, stamp):
                    started = self._clock()
                    value = await make()
                    kept = _Kept(stamp, self._clock(), self._clock() - started, value)
                    self._kept[name] = kept
                    if len(self._kept) > KEPT_MAX:
                        self._kept.popitem(last=False)
                if name in self._kept:
                    self._kept.move_to_end(name)
                found: V = kept.value
                return found
        finally:
            lock, waiting = self._locks[name]
            if waiting > 1:
                self._locks[name] = lock, waiting - 1
            else:
                del self._locks[name]

    def _is_fresh(self, kept: _Kept, stamp: Hashable) -> bool:
        return kept.stamp == stamp or self._clock() - kept.made_at < min(COSTLY * kept.seconds, SECONDS_MAX)
