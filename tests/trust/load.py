"""Clients that keep their own list of what they were told, and what they were not.

Every request names its ids, so it may be sent again; a client that got no answer, or 503, does that later.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

CLIENTS = 16
CAMPAIGNS = {
    "ridge": {"risk": {"measure": "mean"}, "algorithm": {"name": "linucb"}},
    "exact": {"risk": {"measure": "expectile", "level": 0.1}, "algorithm": {"name": "linucb-cr"}},
    "streamed": {"risk": {"measure": "expectile", "level": 0.1}, "algorithm": {"name": "linucb-ogd-cr"}},
    "one-pass": {"risk": {"measure": "expectile", "level": 0.1}, "algorithm": {"name": "linucb-onepass-cr"}},
}
SUCCESS = 200
UNAVAILABLE = 503
NOT_FOUND = 404

Request = tuple[str, dict[str, Any]]


@dataclass
class Record:
    """What the clients know. decisions: arm by id; rewards: (value, sequence) by decision id."""

    decisions: dict[str, tuple[str, str]] = field(default_factory=dict)
    rewards: dict[str, tuple[float, int]] = field(default_factory=dict)
    unknown: list[Request] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    without_retry_after: int = 0
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)
    last_success: float = 0.0

    @property
    def acknowledged(self) -> int:
        """How many decisions and rewards were acknowledged."""
        return len(self.decisions) + len(self.rewards)

    @property
    def wrong_statuses(self) -> Counter[int]:
        """Answers other than 200 and 503."""
        return Counter({code: n for code, n in self.statuses.items() if code not in {SUCCESS, UNAVAILABLE}})

    def note(self, request: Request, reply: httpx.Response) -> bool:
        """Keep what a reply says; whether it is a success."""
        self.statuses[reply.status_code] += 1
        if reply.status_code == UNAVAILABLE:
            self.without_retry_after += "retry-after" not in reply.headers
            self.unknown.append(request)
        if reply.status_code != SUCCESS:
            return False
        body = reply.json()
        if request[0] == "/select":
            self.decisions[body["decision_id"]] = (body["campaign_id"], body["arm_id"])
        else:
            self.rewards[body["decision_id"]] = (request[1]["reward"], body["sequence"])
        return True


def create_campaigns(url: str) -> None:
    """One campaign an algorithm; no warm-up, so that selects take no lock."""
    with httpx.Client(base_url=url, timeout=30, trust_env=False) as http:
        for name, changes in CAMPAIGNS.items():
            arms = [{"arm_id": arm} for arm in "abc"]
            body = {"campaign_id": name, "model": {"type": "multi-armed"}, "arms": arms}
            http.post("/campaigns", json=body | changes).raise_for_status()


class Load:
    """Clients that select and reward until they are told to stop, whatever happens to the server."""

    def __init__(self, url: str, record: Record, *, clients: int = CLIENTS, names_campaigns: bool = False) -> None:
        """names_campaigns: also with rewards, so that a proxy knows whose they are."""
        self._url, self._record, self._clients, self._names_campaigns = url, record, clients, names_campaigns
        self._names = list(CAMPAIGNS)

    async def run(self, seconds: float) -> None:
        """Work for so long."""
        async with working(self):
            await asyncio.sleep(seconds)

    async def run_until(self, stop: asyncio.Event) -> None:
        """Work until the event is set."""
        limits = httpx.Limits(max_connections=self._clients, max_keepalive_connections=self._clients)
        async with httpx.AsyncClient(base_url=self._url, limits=limits, timeout=30, trust_env=False) as http:
            await asyncio.gather(*(self._one_client(http, number, stop) for number in range(self._clients)))

    async def _one_client(self, http: httpx.AsyncClient, client: int, stop: asyncio.Event) -> None:
        while not stop.is_set():
            number = next(self._record.numbers)
            decision_id = f"d{number:07d}"
            campaign = {"campaign_id": self._names[client % len(self._names)]}
            select = ("/select", {**campaign, "decision_id": decision_id})
            reward = ("/reward", {"decision_id": decision_id, "reward": (number * 0.37) % 1})
            if self._names_campaigns:
                reward[1].update(campaign)
            if not (await self.send(http, select) and await self.send(http, reward)):
                await asyncio.sleep(0.02)

    async def send(self, http: httpx.AsyncClient, request: Request) -> bool:
        """Send one request; whether it succeeded."""
        try:
            reply = await http.post(request[0], json=request[1])
        except httpx.TransportError:
            self._record.unknown.append(request)
            return False
        success = self._record.note(request, reply)
        if success:
            self._record.last_success = asyncio.get_running_loop().time()
        return success


@asynccontextmanager
async def working(*loads: Load) -> AsyncIterator[None]:
    """Have clients work, until the end, however it comes."""
    stop = asyncio.Event()
    tasks = [asyncio.create_task(load.run_until(stop)) for load in loads]
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(*tasks)


def send_again(url: str, record: Record, *, gone: bool = False) -> None:
    """What got no answer is sent again, until each has one. Raises AssertionError where one is refused.

    gone: a reward may be for a decision that the database has lost, and be answered 404.
    """
    accepted = {SUCCESS, UNAVAILABLE, *([NOT_FOUND] if gone else [])}
    with httpx.Client(base_url=url, timeout=30, trust_env=False) as http:
        for _ in range(100):
            unknown, record.unknown = record.unknown, []
            for path, body in sorted(unknown, key=lambda request: request[0], reverse=True):  # selects first
                reply = http.post(path, json=body)
                record.note((path, body), reply)
                assert reply.status_code in accepted, reply.text
            if not record.unknown:
                return
    raise AssertionError(f"still without an answer: {record.unknown[:3]}")
