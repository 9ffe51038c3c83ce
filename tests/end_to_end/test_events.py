"""Bodies as Segment, RudderStack and CloudEvents senders write them, against two workers on both databases."""

import json
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from prudent_client import Client
from tests.conftest import MakeServer

BODIES = {
    path.stem: json.loads(path.read_text(encoding="utf-8"))
    for path in (Path(__file__).parents[1] / "fixtures/events").glob("*.json")
}
TYPES = {"cloudevents": "application/cloudevents+json; charset=UTF-8"}
CAMPAIGN = {
    "campaign_id": "shop",
    "risk": {"measure": "mean"},
    "model": {"type": "multi-armed"},
    "arms": [{"arm_id": "one-click"}, {"arm_id": "two-steps"}],
    "assignment": {"sticky_seconds": 366 * 86_400},
    "reward": {
        "events": {
            "Order Completed": {"value": "properties.revenue", "scale": 0.01},
            "example.shop.order.completed": {"value": "data.total", "scale": 0.01},
        }
    },
}
BUYERS, COPIES, SENDERS = 8, 5, 6
"""Of each dialect; how often each event is sent; how many send at the same time."""


def event(dialect: str, subject: str, number: int) -> dict[str, Any]:
    """The recorded body, as it would be about this subject's order today."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    body: dict[str, Any] = json.loads(json.dumps(BODIES[dialect]))
    body |= {name: now for name in ("time", "timestamp", "originalTimestamp", "sentAt", "receivedAt") if name in body}
    if dialect == "cloudevents":
        body |= {"id": f"A234-{number}", "subject": subject, "partitionkey": subject}
        body["data"]["total"] = 10 + number
    else:
        body["messageId"] += f"-{number}"
        body["properties"]["revenue"] = 10 + number
        body["anonymousId" if body["userId"] == "" else "userId"] = subject
    return body


def others(dialect: str, subject: str) -> list[dict[str, Any]]:
    """What the same sender says beside it, and what is about nobody that was decided for."""
    body = event(dialect, subject, 0)
    if dialect == "cloudevents":
        return [body | {"id": "other", "type": "example.shop.order.viewed"}, body | {"id": "none", "subject": "nobody"}]
    return [
        body | {"messageId": "page", "type": "page", "name": "Checkout"},
        body | {"messageId": "viewed", "event": "Order Viewed"},
        body | {"messageId": "none", "userId": "nobody", "anonymousId": "nobody"},
    ]


@pytest.mark.parametrize("seed", [7])
def test_recorded_events_reward_once(make_server: MakeServer, database_url: str, seed: int) -> None:
    """Queues deliver at least once and in any order, to whichever worker is free: revenue would be learned twice."""
    server = make_server(database_url, workers=2)
    chance = random.Random(seed)  # noqa: S311
    with Client(server.url, deadline_seconds=60) as client:
        client.create_campaign(CAMPAIGN)  # type: ignore[arg-type]
        due: list[tuple[str, dict[str, Any]]] = []
        expected: dict[str, float] = {}
        for place, dialect in enumerate(sorted(BODIES)):
            for number in range(place * BUYERS, (place + 1) * BUYERS):
                subject = f"{dialect}-{number}"
                expected[client.select("shop", subject=subject).decision_id] = (10 + number) / 100
                due += [(dialect, event(dialect, subject, number))] * COPIES
            due += [(dialect, one) for one in others(dialect, f"{dialect}-{place * BUYERS}")]
        chance.shuffle(due)
        statuses = Counter(deliver(server.url, due))
        assert set(statuses) == {200, 202}, statuses
        assert statuses[200] == len(expected) * COPIES
        logged = {one.decision_id: one.reward for one in client.decisions("shop")}
        assert {name: reward and reward.reward for name, reward in logged.items()} == pytest.approx(expected)
        assert client.get_campaign("shop").observations == len(expected)
        counts = counted(server.url)
    assert counts == {
        "rewarded": len(expected),
        "duplicate": len(expected) * (COPIES - 1),
        "unmatched": statuses[202],
        "conflict": 0,
        "refused": 0,
    }


def deliver(url: str, due: list[tuple[str, dict[str, Any]]]) -> list[int]:
    """Send them from several senders at once, each on connections of its own; the statuses."""

    def send(part: list[tuple[str, dict[str, Any]]]) -> list[int]:
        found = []
        for dialect, body in part:
            headers = {"content-type": TYPES.get(dialect, "application/json")}
            with httpx.Client(base_url=url, timeout=60, trust_env=False) as api:  # on either worker
                found.append(api.post("/events", content=json.dumps(body), headers=headers).status_code)
        return found

    with ThreadPoolExecutor(SENDERS) as senders:
        parts = [due[start::SENDERS] for start in range(SENDERS)]
        return [status for part in senders.map(send, parts) for status in part]


def counted(url: str) -> dict[str, float]:
    """The events that both workers have counted, by what became of them."""
    lines = httpx.get(f"{url}/metrics", timeout=60, trust_env=False).text.splitlines()
    start = 'prudent_events_total{outcome="'
    found = (line.removeprefix(start).split('"} ') for line in lines if line.startswith(start))
    return {outcome: float(value) for outcome, value in found}
