"""The bounded queue between the event loop and the ledger's thread."""

import asyncio
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from threading import Condition
from typing import Any, NamedTuple

from prudent.errors import OverloadedError
from prudent.ledger.administration import Administration
from prudent.ledger.commands import Command


@dataclass(slots=True, eq=False)
class Ticket:
    """Commands that were submitted together, and who waits for their outcomes."""

    outcomes: list[Any]
    remaining: int
    loop: asyncio.AbstractEventLoop | None = None
    future: asyncio.Future[list[Any]] | None = None

    def settle(self, slot: int, outcome: Any) -> bool:
        """Record one outcome; True when it was the last."""
        self.outcomes[slot] = outcome
        self.remaining -= 1
        return self.remaining == 0


class Entry(NamedTuple):
    """One command in the queue."""

    command: Command | Administration
    ticket: Ticket
    slot: int


@dataclass(slots=True)
class CommandQueue:
    """First in, first out; full past ``items_max`` or ``bytes_max``."""

    items_max: int
    bytes_max: int
    items: int = 0
    nbytes: int = 0
    changed: Condition = field(default_factory=Condition)
    """Hold it to access the queue; it is notified when there is something to do."""
    _entries: deque[Entry] = field(default_factory=deque)

    def put(self, entries: Sequence[Entry]) -> None:
        """Append all of them. Raises OverloadedError, and appends none, if they do not all fit."""
        items = sum(entry.command.items for entry in entries)
        nbytes = sum(entry.command.nbytes for entry in entries)
        with self.changed:
            # an empty queue accepts any request, whatever the bounds
            if self._entries and (self.items + items > self.items_max or self.nbytes + nbytes > self.bytes_max):
                raise OverloadedError("too many requests are waiting: try again")
            self._entries.extend(entries)
            self.items += items
            self.nbytes += nbytes
            self.changed.notify()

    def put_back(self, entries: Iterable[Entry]) -> None:
        """Return entries that could not be executed yet to the front. Call with ``changed`` held."""
        for entry in reversed(list(entries)):
            self._entries.appendleft(entry)
            self.items += entry.command.items
            self.nbytes += entry.command.nbytes

    def take(self, items_max: int) -> list[Entry]:
        """The next batch: one administrative command, or others up to the bound. Call with ``changed`` held."""
        taken: list[Entry] = []
        items = 0
        while self._entries:
            entry = self._entries[0]
            if taken and (not entry.command.is_batched or items + entry.command.items > items_max):
                break
            self._entries.popleft()
            taken.append(entry)
            items += entry.command.items
            self.nbytes -= entry.command.nbytes
            if not entry.command.is_batched:
                break
        self.items -= items
        return taken

    def __len__(self) -> int:
        return len(self._entries)
