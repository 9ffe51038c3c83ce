"""R27. What the metrics say is what happened: as the clients know it, and as the database does."""

import asyncio
import socket
import time
from collections import Counter

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import text

from prudent.store.engines import create_read_engine, parse_database_url
from tests.conftest import MakeServer
from tests.promises import Promise, length
from tests.servers import HOST, Server
from tests.trust.load import Load, Record, create_campaigns

Requests = Counter[tuple[str, str, str]]
"""By method, route and status."""


def counted(server: Server) -> tuple[Requests, dict[str, float]]:
    """The requests that the metrics know of, and the samples without labels."""
    requests: Requests = Counter()
    plain: dict[str, float] = {}
    scraped = httpx.get(f"{server.url}/metrics", timeout=30, trust_env=False).text
    for family in text_string_to_metric_families(scraped):
        for sample in family.samples:
            if sample.name == "prudent_requests_total":
                labels = sample.labels
                requests[labels["method"], labels["route"], labels["status"]] += round(sample.value)
            elif not sample.labels:
                plain[sample.name] = sample.value
    return requests, plain


def send_bad_requests(server: Server) -> Requests:
    """Requests that fail in every layer; what they were."""
    sent: Requests = Counter()
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as http:
        for method, path, route, body in (
            ("GET", "/nowhere", "other", None),
            ("PUT", "/campaigns", "/campaigns", None),
            ("GET", "/campaigns/none", "/campaigns/{campaign_id}", None),
            ("POST", "/select", "/select", {"campaign_id": "none"}),
            ("POST", "/select", "/select", {}),
            ("POST", "/reward", "/reward", {"decision_id": "none", "reward": 1}),
        ):
            reply = http.request(method, path, json=body)
            sent[method, route, str(reply.status_code)] += 1
    for request, status in ((b"no HTTP\r\n\r\n", "400"), (b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000, "431")):
        with socket.create_connection((HOST, server.port), timeout=10) as connection:
            connection.sendall(request)
            assert connection.recv(65_536).startswith(f"HTTP/1.1 {status} ".encode())
        sent["none", "unparsed", status] += 1
    return sent


@pytest.mark.parametrize(("database", "workers"), [("sqlite", 1), ("sqlite", 2), ("postgres", 2)])
def test_metrics_equal_the_truth(
    request: pytest.FixtureRequest, make_server: MakeServer, promise: Promise, database: str, workers: int
) -> None:
    """R27. An alarm that rests on a counter that misses failures would stay silent."""
    url: str = request.getfixturevalue(f"{database}_database")
    server = make_server(url, workers=workers)
    before, _ = counted(server)
    create_campaigns(server.url)
    created, _ = counted(server)
    record = Record()
    asyncio.run(Load(server.url, record).run(length("METRICS_SECONDS", 2)))
    bad = send_bad_requests(server)
    deadline = time.monotonic() + 10
    after, plain = counted(server)
    while plain["prudent_rewards_total"] < len(record.rewards) and time.monotonic() < deadline:
        after, plain = counted(server)
    engine = create_read_engine(parse_database_url(url))
    with engine.connect() as connection:
        stored = {
            table: connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one()  # noqa: S608  # constants
            for table in ("decisions", "observations")
        }
    engine.dispose()
    wrong = [name for name, count in bad.items() if after[name] - created[name] != count]
    is_pair = {"/select", "/reward"}.__contains__
    answered = sum(after[name] - before[name] for name in after if is_pair(name[1]))
    known = sum(record.statuses.values()) + sum(count for (_, route, _), count in bad.items() if is_pair(route))
    promise(
        "R27",
        f"{database}, {workers} workers: {known} selects and rewards answered, {answered} counted; "
        f"decisions {stored['decisions']}, counted {plain['prudent_decisions_total']:.0f}; "
        f"observations {stored['observations']}, counted {plain['prudent_observations_total']:.0f}; "
        f"other counts that differ: {len(wrong)}",
    )
    assert not record.unknown
    assert wrong == []
    assert answered == known
    assert stored["decisions"] == plain["prudent_decisions_total"] == len(record.decisions)
    assert stored["observations"] == plain["prudent_observations_total"] == plain["prudent_rewards_total"]
    assert stored["observations"] == len(record.rewards)
