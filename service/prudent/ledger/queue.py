"""The bounded queue between the event loop and the ledger's thread, and how campaigns share its time."""

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from threading import Condition
from typing import Any, NamedTuple

from prudent.errors import OverloadedError
from prudent.ledger.administration import Administration
from prudent.ledger.commands import Command
from prudent.ledger.outcomes import Deferred
from prudent.ledger.trail import Authored

BATCH_SECONDS, CAMPAIGN_SECONDS = 0.12, 0.08
"""For a batch's commands, if some of them are expected to take long, and for those of one campaign among them: the rest
wait for the next batch. Elapsed time: reading the thread's own is a system call, twice a command."""
ELAPSED_SECONDS = 0.25
"""For a batch's commands, however short they are expected to be."""
LIGHT_SECONDS = 0.002
"""A command that is expected to take no longer is executed as long as its campaign's share lasts."""


@dataclass(slots=True, eq=False)
class Ticket:
    """Commands that were submitted together, and who waits for their outcomes."""

    outcomes: list[Any]
    remaining: int
    loop: asyncio.AbstractEventLoop | None = None
    future: asyncio.Future[list[Any]] | None = None
    timer: asyncio.TimerHandle | None = None
    """Fails the future if the outcomes come too late."""

    @property
    def is_given_up(self) -> bool:
        """Whether nobody waits any more: the client was told that the outcome is unknown."""
        return self.future is not None and self.future.done()

    def settle(self, slot: int, outcome: Any) -> bool:
        """Record one outcome; True when it was the last."""
        self.outcomes[slot] = outcome
        self.remaining -= 1
        return self.remaining == 0


class Entry(NamedTuple):
    """One command in the queue."""

    command: Command | Administration | Authored
    ticket: Ticket
    slot: int


@dataclass(slots=True)
class _Lane:
    """Commands of a campaign that have been deferred, and those that came after them. share: most in one batch."""

    campaign_id: str
    share: int
    entries: deque[Entry] = field(default_factory=deque)
    decision_ids: set[str | None] = field(default_factory=set)


@dataclass(slots=True)
class CommandQueue:
    """First in, first out; full past ``items_max`` or ``bytes_max``.

    A campaign whose commands take long has a lane of its own, so that the others overtake it. What nobody waits for any
    more is not executed.
    """

    items_max: int
    bytes_max: int
    items: int = 0
    nbytes: int = 0
    changed: Condition = field(default_factory=Condition)
    """Hold it to access the queue; it is notified when there is something to do."""
    _entries: deque[Entry] = field(default_factory=deque)
    _lanes: dict[int, _Lane] = field(default_factory=dict)

    def put(self, entries: Sequence[Entry]) -> None:
        """Append all of them. Raises OverloadedError, and appends none, if they do not all fit."""
        items = sum(entry.command.items for entry in entries)
        nbytes = sum(entry.command.nbytes for entry in entries)
        with self.changed:
            # an empty queue accepts any request, whatever the bounds
            if self and (self.items + items > self.items_max or self.nbytes + nbytes > self.bytes_max):
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

    def defer(self, key: int, campaign_id: str, entries: Sequence[Entry], share: int) -> None:
        """Return entries of a campaign that has had its share of a batch. Call with ``changed`` held.

        share: how many of its commands a batch has time for.
        """
        lane = self._lanes.setdefault(key, _Lane(campaign_id, share))
        lane.share = max(1, share)
        for entry in reversed(entries):
            lane.entries.appendleft(entry)
            lane.decision_ids.add(entry.command.decision_id)  # type: ignore[union-attr]  # only batched ones are deferred
            self.items += entry.command.items
            self.nbytes += entry.command.nbytes

    def take(self, items_max: int) -> list[Entry]:
        """The next batch: one administrative command, or others up to the bound. Call with ``changed`` held."""
        is_alone = bool(self._entries) and not self._entries[0].command.is_batched
        taken = self._take_from_lanes(items_max) if self._lanes and not is_alone else []
        items = sum(entry.command.items for entry in taken)
        while self._entries:
            entry = self._entries[0]
            if entry.ticket.is_given_up or (self._lanes and self._send_to_lane(entry)):
                self._entries.popleft()
                if entry.ticket.is_given_up:
                    self.items -= entry.command.items
                    self.nbytes -= entry.command.nbytes
                continue
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

    def _take_from_lanes(self, items_max: int) -> list[Entry]:
        """As many commands of each slow campaign as a batch has time for, in turn."""
        taken: list[Entry] = []
        for key, lane in list(self._lanes.items()):
            del self._lanes[key]
            count = 0
            while lane.entries and count < lane.share and len(taken) < items_max:
                entry = lane.entries.popleft()
                self.nbytes -= entry.command.nbytes
                if entry.ticket.is_given_up:
                    self.items -= entry.command.items
                    continue
                taken.append(entry)
                count += 1
            if lane.entries:
                lane.share *= 2  # unless some of these are deferred again
                self._lanes[key] = lane  # behind the others
        return taken

    def _send_to_lane(self, entry: Entry) -> bool:
        """Put a command behind those of its campaign that wait in a lane; False if there are none."""
        command = entry.command
        if not command.is_batched:
            return False
        name, decision_id = command.campaign_id, command.decision_id  # type: ignore[union-attr]  # is_batched
        for lane in self._lanes.values():
            if lane.campaign_id == name if name is not None else decision_id in lane.decision_ids:
                lane.entries.append(entry)
                lane.decision_ids.add(decision_id)
                return True
        return False

    def __len__(self) -> int:
        return len(self._entries) + len(self._lanes)


class Shares:
    """How long each campaign's commands have taken in a batch, and whether there is time for another."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self._spent: dict[int, float] = {}
        self.begin()

    def begin(self) -> None:
        """The first command is about to be executed."""
        self._started = time.perf_counter()

    def count(self, key: int, seconds: float) -> None:
        """A command of this campaign took so long."""
        self._spent[key] = self._spent.get(key, 0.0) + seconds
        self._counts[key] = self._counts.get(key, 0) + 1

    def deferral(self, key: int, campaign_id: str) -> Deferred:
        """What becomes of a command that must wait."""
        return Deferred(key, campaign_id, self._counts.get(key, 0))

    def is_over(self, key: int, expected: float) -> bool:
        """Whether a command of this campaign that is expected to take so long must wait. A batch's first need not."""
        if not self._spent:
            return False
        own, passed = self._spent.get(key, 0.0), time.perf_counter() - self._started
        if own > CAMPAIGN_SECONDS or passed > ELAPSED_SECONDS:
            return True
        return expected > LIGHT_SECONDS and (own + expected > CAMPAIGN_SECONDS or passed + expected > BATCH_SECONDS)
