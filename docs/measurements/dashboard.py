"""What a campaign's page costs when the campaign is long: `python -m docs.measurements.dashboard [ROWS]`.

A million decisions and their rewards (or ROWS) are written into an SQLite file, of a multi-armed campaign with three
arms that learns by linucb-onepass-cr. A server of its own then serves the page: the first time, again without a change,
and again after a reward. Meanwhile /health/live is asked without a pause: its slowest answer is how long the server
was held up.
"""

import json
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx

from service.ledger.identifiers import DecisionIds
from tests.servers import Server

ROWS = 1_000_000
ARMS = ("left", "middle", "right")
CAMPAIGN = {
    "campaign_id": "long",
    "risk": {"measure": "expectile", "level": 0.1},
    "model": {"type": "multi-armed"},
    "arms": [{"arm_id": arm_id} for arm_id in ARMS],
    "algorithm": {"name": "linucb-onepass-cr"},
}
DECISION = (
    "INSERT INTO decisions (decision_id, key, arm_id, features, estimate, bonus, index_value, reason, greedy_arm_id,"
    " propensity, seen, created_at) VALUES (?, ?, ?, x'', 0.5, 0.1, 0.6, 'index', ?, 1.0, ?, ?)"
)
OBSERVATION = (
    "INSERT INTO observations (key, sequence, kind, decision_id, arm_id, features, reward, source, observed_at)"
    " VALUES (?, ?, 'observation', ?, ?, x'', ?, 'reward', ?)"
)


def fill(path: Path, rows: int) -> None:
    """Write so many decisions and rewards of the one campaign there is."""
    with sqlite3.connect(path) as connection:
        ((key,),) = connection.execute("SELECT key FROM campaigns")
        now = time.time_ns() // 1_000 - rows
        new_id = DecisionIds(lambda: now)
        for start in range(0, rows, 50_000):
            made = []
            for number in range(start, min(rows, start + 50_000)):
                now += 1
                arm_id = ARMS[number % 3 if number % 7 == 0 else 2]
                made.append((new_id(), arm_id, number + 1, (number % 101) / 100, now))
            connection.executemany(DECISION, [(one[0], key, one[1], "right", one[2] - 1, one[4]) for one in made])
            connection.executemany(OBSERVATION, [(key, one[2], one[0], one[1], one[3], one[4]) for one in made])
        connection.execute("UPDATE heads SET head = ?", (rows,))
    connection.close()


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
        server = Server(f"sqlite:///{folder}/prudent.db", folder / "server.log")
        server.start()
        httpx.post(f"{server.url}/campaigns", json=CAMPAIGN, trust_env=False).raise_for_status()
        server.stop()
        fill(folder / "prudent.db", rows)
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
