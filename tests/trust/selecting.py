"""Clients that select as fast as they are answered: `python -m tests.trust.selecting URL CAMPAIGN_ID CLIENTS`.

They are an application's, with httpx, in a process of its own: what the tests' process does meanwhile is no part of
what is measured. It prints "ready", goes on until its input ends, and then prints, as JSON, when each answer came and
how long it took.
"""

import json
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Self

import httpx

from tests.servers import ROOT, Server, clean_environment

SECONDS_MAX = 120


class Answer(NamedTuple):
    """ended: by the system's monotonic clock, which is the same in all processes. took: seconds. status: 0 for none."""

    ended: float
    took: float
    status: int


class Selecting:
    """Selects of one campaign by a process of their own, while the block lasts; afterwards their answers."""

    def __init__(self, server: Server, campaign_id: str, clients: int) -> None:
        self._command = [sys.executable, "-m", "tests.trust.selecting", server.url, campaign_id, str(clients)]
        self.answers: list[Answer] = []

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command,
            cwd=ROOT,
            env=clean_environment({}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_: object) -> None:
        printed, _errors = self._process.communicate("", timeout=SECONDS_MAX)
        self.answers = [Answer(*one) for one in json.loads(printed)]

    @property
    def failures(self) -> int:
        """How many were not answered, or not as they should be."""
        return sum(one.status != httpx.codes.OK for one in self.answers)

    def between(self, started: float, ended: float) -> list[float]:
        """Seconds that each answer took, of those that came in this time."""
        return [one.took for one in self.answers if started <= one.ended < ended]


def select_until(over: threading.Event, url: str, campaign_id: str) -> list[Answer]:
    """The answers that one client gets."""
    answers = []
    with httpx.Client(base_url=url, timeout=SECONDS_MAX, trust_env=False) as client:
        while not over.is_set():
            started = time.monotonic()
            try:
                status = client.post("/select", json={"campaign_id": campaign_id}).status_code
            except httpx.HTTPError:
                status = 0
            ended = time.monotonic()
            answers.append(Answer(ended, ended - started, status))
    return answers


def main() -> None:
    """Run the clients until the input ends."""
    url, campaign_id, clients = sys.argv[1], sys.argv[2], int(sys.argv[3])
    over = threading.Event()
    with ThreadPoolExecutor(clients) as threads:
        running = [threads.submit(select_until, over, url, campaign_id) for _ in range(clients)]
        print("ready", flush=True)  # noqa: T201
        sys.stdin.read()
        over.set()
    print(json.dumps([answer for one in running for answer in one.result()]))  # noqa: T201


if __name__ == "__main__":
    main()
