"""How late a default is, beyond its deadline: `python -m tests.client.deadlines KIND URL COUNT`.

A process of its own, as an application is: that of the tests has so much in memory that its collector of garbage stops
it for longer than what is measured. Prints, as JSON, the seconds of the latest and the decisions that were seen.
"""

import asyncio
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from prudent_client import AsyncClient, Client, Decision

DEADLINE_SECONDS = 0.25
AT_ONCE = 10
Timed = tuple[Decision, float]


def select_in_threads(url: str, count: int) -> list[Timed]:
    """So many decisions, some at once, each with the seconds that it took."""
    with Client(url, deadline_seconds=DEADLINE_SECONDS) as client, ThreadPoolExecutor(AT_ONCE) as threads:

        def one(_: int) -> Timed:
            started = time.monotonic()
            return client.select("c", default="usual"), time.monotonic() - started

        return list(threads.map(one, range(count)))


async def select_in_tasks(url: str, count: int) -> list[Timed]:
    """The same with the client for asyncio."""
    turn = asyncio.Semaphore(AT_ONCE)
    async with AsyncClient(url, deadline_seconds=DEADLINE_SECONDS) as client:

        async def one() -> Timed:
            async with turn:
                started = time.monotonic()
                return await client.select("c", default="usual"), time.monotonic() - started

        return await asyncio.gather(*(one() for _ in range(count)))


def main() -> None:
    """Measure one kind of client against one server."""
    kind, url, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    made = select_in_threads(url, count) if kind == "sync" else asyncio.run(select_in_tasks(url, count))
    late_seconds = max(seconds for _, seconds in made) - DEADLINE_SECONDS
    decisions = sorted({(one.arm_id, one.reason) for one, _ in made})
    print(json.dumps({"made": len(made), "late_seconds": late_seconds, "decisions": decisions}))  # noqa: T201


if __name__ == "__main__":
    main()
