"""What a campaign's page costs when the campaign is long: `python -m docs.measurements.dashboard [ROWS]`.

A million decisions and their rewards (or ROWS) are written into an SQLite file, of a multi-armed campaign with three
arms that learns by linucb-onepass-cr. A server of its own then serves the page: the first time, again without a change,
and again after a reward. Meanwhile /health/live is asked without a pause: its slowest answer is how long the server
was held up.
"""

import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from docs.measurements.filling import fill
from prudent.campaigns import CampaignConfiguration, resolve
from prudent.store.engines import create_write_engine, parse_database_url
from prudent.store.schema import migrate
from tests.servers import Server

ROWS = 1_000_000
ARMS = ("left", "middle", "right")
CONFIGURATION = resolve(
    CampaignConfiguration.model_validate(
        {
            "campaign_id": "long",
            "risk": {"measure": "expectile", "level": 0.1},
            "model": {"type": "multi-armed"},
            "arms": [{"arm_id": arm_id} for arm_id in ARMS],
            "algorithm": {"name": "linucb-onepass-cr"},
        }
    )
)


def pairs(rows: int) -> Iterator[tuple[str, bytes, float]]:
    """The right arm mostly, and rewards from 0 to 1."""
    for number in range(rows):
        yield ARMS[number % 3 if number % 7 == 0 else 2], b"", (number % 101) / 100


class Watch(threading.Thread):
    """Asks for /health/live until stopped. slowest: seconds."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url, self.slowest, self.stopped = url, 0.0, threading.Event()

    def run(self) -> None:
        """Ask, and remember the slowest answer."""
        with httpx.Client(base_url=self.url, timeout=60, trust_env=False) as client:
            while not self.stopped.is_set():
                started = time.perf_counter()
                client.get("/health/live").raise_for_status()
                self.slowest = max(self.slowest, time.perf_counter() - started)


def page(client: httpx.Client) -> float:
    """Seconds for the page."""
    started = time.perf_counter()
    client.get("/dashboard/campaigns/long").raise_for_status()
    return time.perf_counter() - started


def main(rows: int) -> None:
    """Fill, serve, measure, print."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        url = f"sqlite:///{folder}/prudent.db"
        write = create_write_engine(parse_database_url(url))
        migrate(write)
        fill(write, CONFIGURATION, pairs(rows))
        write.dispose()
        server = Server(url, folder / "server.log")
        server.start()
        try:
            with httpx.Client(base_url=server.url, timeout=120, trust_env=False) as client:
                # the first commands wait for the log to be folded, which is not the dashboard's cost
                while client.get("/campaigns/long/model").status_code == httpx.codes.SERVICE_UNAVAILABLE:
                    pass
                watch = Watch(server.url)
                watch.start()
                first = page(client)
                same = statistics.median(page(client) for _ in range(20))
                made = client.post("/select", json={"campaign_id": "long"}).raise_for_status().json()
                client.post("/reward", json={"decision_id": made["decision_id"], "reward": 1}).raise_for_status()
                time.sleep(20 * first)  # or what was read would still count as fresh
                changed = page(client)
                watch.stopped.set()
                watch.join()
        finally:
            server.kill()
    figures = {"first": first, "unchanged": same, "changed": changed, "slowest /health/live": watch.slowest}
    print(json.dumps({"rows": rows} | {name: round(seconds, 3) for name, seconds in figures.items()}, indent=1))  # noqa: T201


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else ROWS)
