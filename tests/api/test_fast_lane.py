"""The fast lane of select and reward: the same answers as the application's, byte for byte, and that it is taken."""

import asyncio
import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from prudent.api.server.protocol import BoundedProtocol
from prudent.app import create_app
from prudent.settings import Settings
from tests.api.bad_requests import body_with, requests
from tests.api.contract import MARKER, Json, create, multi_armed, new_id, ok, on_sqlite, shared
from tests.api.test_bad_fields import BAD_IDS, IDS, NOT_NUMBERS, NUMBERS
from tests.conftest import MakeServer, migrate_empty
from tests.servers import HOST, free_port

LANE, APPLICATION = "application/json", "application/json; charset=UTF-8"
"""What a body's type decides: the lane takes the usual spellings only."""
NO_REQUESTS = [b"", b" ", b"[]", b"null", b"{", b'{"a":', b"{}}", b"\xff\xfe\x00", b'{"a": "\xff"}', b"[" * 20_000]


def answers(api: httpx.Client, path: str, body: str | bytes, **headers: str) -> list[Json]:
    """Status, headers and body by both ways, without what differs between any two answers."""
    found = []
    for kind in (LANE, APPLICATION):
        reply = api.post(path, content=body, headers={"Content-Type": kind, **headers})
        kept = {name: value for name, value in reply.headers.items() if name not in {"date", "x-request-id"}}
        content = reply.content.replace(reply.headers["x-request-id"].encode(), b"an id")
        kept["content-length"] = str(len(content) if len(reply.content) == int(kept["content-length"]) else "wrong")
        found.append({"status": reply.status_code, "headers": kept, "names": [*reply.headers], "content": content})
    return found


def spoilt(target: Json) -> Iterator[tuple[str, str | bytes]]:
    """Paths and bad bodies, of every kind that the two routes can be sent."""
    routes = {name: one for name, one in requests(target).items() if name in {"select", "select-context", "reward"}}
    for name, (_, path, good) in routes.items():
        for body in NO_REQUESTS:
            yield path, body
        for extra in ('"unknown": 1}', f'"{MARKER} <": 1}}', '"reward": 0, "reward": 1}', '"campaign_id": "x"}'):
            yield path, json.dumps(good)[:-1] + ", " + extra
        for missing in {"campaign_id", "reward", *(["decision_id"] if name == "reward" else [])} & good.keys():
            yield path, json.dumps({field: value for field, value in good.items() if field != missing})
    for route, place, _ in NUMBERS:
        if route in routes:
            _, path, good = routes[route]
            yield from ((path, body_with(good, place, text)) for text in NOT_NUMBERS)
    for route, place, _ in IDS:
        if route in routes:
            _, path, good = routes[route]
            yield from ((path, body_with(good, place, json.dumps(bad))) for bad in BAD_IDS.values() if bad is not None)
    for campaign in (new_id("none"), target["disjoint"]):
        yield "/select", json.dumps({"campaign_id": campaign, "arms": [{"arm_id": "a", "features": [1, 0]}]})
    for features in ([1], [1, 2, 3], {"x": 1}, [1e7, 0], []):
        yield "/select", json.dumps({"campaign_id": target["shared"], "arms": [{"arm_id": "a", "features": features}]})
    yield "/reward", json.dumps({"decision_id": new_id("none"), "reward": 1})
    yield "/reward", json.dumps({"decision_id": target["other_decision"], "reward": 101})


@on_sqlite
def test_a_bad_request_has_the_same_answer_by_both_ways(api: httpx.Client, target: Json) -> None:
    """Two ways with checks of their own would drift apart; there is one of each, and the lane may not change words."""
    statuses: Counter[int] = Counter()
    for path, body in spoilt(target):
        lane, application = answers(api, path, body)
        assert lane == application, (path, body)
        statuses[int(lane["status"])] += 1
    assert statuses[422] > 150
    assert statuses[404] >= 2
    assert set(statuses) == {404, 422}


@on_sqlite
def test_a_good_request_has_the_same_answer_by_both_ways(api: httpx.Client) -> None:
    """A repeated decision and a repeated reward are answered from what is stored, whichever way they come."""
    campaign = create(api, shared())
    arms = [{"arm_id": "a", "features": [1, 0]}, {"arm_id": "b", "features": [0, 1.5]}]
    for explain in (False, True):
        decision = {"campaign_id": campaign, "decision_id": new_id("d"), "arms": arms, "explain": explain}
        first, *others = (answers(api, "/select", json.dumps(decision)) for _ in range(3))
        assert first[0]["status"] == 200
        assert all(pair == first for pair in others)
        assert first[0] == first[1]
        reward = json.dumps({"decision_id": decision["decision_id"], "reward": 0.1})
        assert json.loads(answers(api, "/reward", reward)[0]["content"])["duplicate"] is False
        lane, application = answers(api, "/reward", reward)
        assert lane == application
        assert json.loads(lane["content"])["duplicate"] is True
        wrong = answers(api, "/reward", reward.replace("0.1", "0.2"))
        assert wrong[0]["status"] == 409
        assert wrong[0] == wrong[1]


def test_keys_are_asked_for_by_both_ways(make_server: MakeServer, tmp_path: Path) -> None:
    """A way around the middleware that checks keys would be a way around the keys."""
    server = make_server(f"sqlite:///{tmp_path}/prudent.db", environment={"PRUDENT_ADMIN_KEY": "k" * 40})
    with httpx.Client(base_url=server.url, trust_env=False) as api:
        body = json.dumps({"decision_id": "x", "reward": 1})
        for headers in ({}, {"X-API-Key": "wrong"}, {"X-API-Key": "k" * 40, "Authorization": "Bearer other"}):
            lane, application = answers(api, "/reward", body, **headers)
            assert lane == application
            assert lane["status"] == 401
        for headers in ({"X-API-Key": "k" * 40}, {"Authorization": f"bearer {'k' * 40}"}):
            lane, application = answers(api, "/reward", body, **headers)
            assert lane == application
            assert lane["status"] == 404
    with httpx.Client(base_url=server.url, trust_env=False) as api:
        text = api.get("/metrics", headers={"X-API-Key": "k" * 40}).text
        assert 'prudent_requests_total{method="POST",route="/reward",status="404"} 4.0' in text


class Counting:
    """The application, and the paths that it was asked to answer."""

    def __init__(self, settings: Settings) -> None:
        self._app = create_app(settings)
        self.asked: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        if scope["type"] == "http":
            self.asked.append(scope["path"])
        await self._app(scope, receive, send)


@pytest.fixture
def counting(tmp_path: Path) -> Iterator[tuple[Counting, int]]:
    """The service in a thread of this process, and its port."""
    url = f"sqlite:///{tmp_path}/prudent.db"
    migrate_empty(url)
    application = Counting(Settings(database_url=url))
    port = free_port()
    server = uvicorn.Server(
        uvicorn.Config(application, host=HOST, port=port, http=BoundedProtocol, ws="none", log_level="warning")
    )
    thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield application, port
    server.should_exit = True
    thread.join()


def exchange(connection: socket.socket, *pieces: bytes, pause: float = 0.0) -> bytes:
    """Send the pieces, and receive one answer."""
    for piece in pieces:
        connection.sendall(piece)
        time.sleep(pause)
    answer = b""
    while b"\r\n\r\n" not in answer or len(answer.partition(b"\r\n\r\n")[2]) < _length(answer):
        arrived = connection.recv(65_536)
        assert arrived, answer
        answer += arrived
    return answer


def _length(answer: bytes) -> int:
    head = answer.partition(b"\r\n\r\n")[0].lower()
    return int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])


def test_the_lane_is_taken_and_left(counting: tuple[Counting, int]) -> None:
    """Head and body in one packet or in two at once are for the lane; everything unusual is the application's."""
    application, port = counting
    with httpx.Client(base_url=f"http://{HOST}:{port}", trust_env=False) as api:
        campaign = create(api, multi_armed())
        application.asked.clear()
        for _ in range(3):
            decision = ok(api.post("/select", json={"campaign_id": campaign}))["decision_id"]
            ok(api.post("/reward", json={"decision_id": decision, "reward": 1}))
    assert application.asked == []
    body = json.dumps({"campaign_id": campaign}).encode()

    def head(*more: bytes, path: bytes = b"/select") -> bytes:
        lines = [b"POST " + path + b" HTTP/1.1", b"Host: localhost", b"Content-Type: application/json", *more]
        return b"\r\n".join([*lines, b"", b""])

    length = b"Content-Length: %d" % len(body)
    with socket.create_connection((HOST, port), timeout=15) as connection:
        for pieces, pause in (([head(length) + body], 0.0), ([head(length), body], 0.0), ([head(length), body], 0.01)):
            assert exchange(connection, *pieces, pause=pause).startswith(b"HTTP/1.1 200 ")
        assert application.asked == []
        unusual = (
            [head(length), body[:5], body[5:]],
            [head(length) + body[:5], body[5:]],
            [head(b"Content-Length: 0"), b""],
            [head(length, path=b"/select?x=1"), body],
            [head(length, b"Content-Encoding: identity"), body],
            [head(b"Transfer-Encoding: chunked"), b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)],
        )
        for number, pieces in enumerate(unusual):
            answer = exchange(connection, *pieces, pause=0.2)
            assert answer.startswith(b"HTTP/1.1 422 " if number in {2, 3} else b"HTTP/1.1 200 "), answer
            assert len(application.asked) == number + 1
        # two at once: the second waits for its turn
        both = exchange(connection, (head(length) + body) * 2)
        while both.count(b"HTTP/1.1 200 ") < 2:
            both += connection.recv(65_536)
        assert len(application.asked) == len(unusual)


def test_answers_come_in_order_wherever_a_packet_ends(counting: tuple[Counting, int]) -> None:
    """A client that does not wait for its answers would take the second one for the first."""
    _, port = counting
    with httpx.Client(base_url=f"http://{HOST}:{port}", trust_env=False) as api:
        campaign = create(api, multi_armed())
    body = json.dumps({"campaign_id": campaign}).encode()
    select = (
        b"POST /select HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        % len(body)
    )
    both = select + body + b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for end in range(len(select) - 8, len(select) + 1):
        with socket.create_connection((HOST, port), timeout=15) as connection:
            answer = exchange(connection, both[:end], both[end:], pause=0.05)
            while b'"decision_id"' not in answer or b'"status":"ok"' not in answer:
                answer += connection.recv(65_536)
        assert answer.index(b'"decision_id"') < answer.index(b'"status":"ok"'), both[end:][:8]


@pytest.mark.parametrize("offer", [b"Upgrade, HTTP2-Settings", b"Upgrade, HTTP2-Settings, close"])
@pytest.mark.parametrize("pause", [None, 0.1])
def test_a_client_that_offers_another_protocol_is_answered(
    counting: tuple[Counting, int], offer: bytes, pause: float | None
) -> None:
    """Java's own client offers HTTP/2 with every request, and none of its selects would be read."""
    _, port = counting
    with httpx.Client(base_url=f"http://{HOST}:{port}", trust_env=False) as api:
        campaign = create(api, multi_armed())
    body = json.dumps({"campaign_id": campaign}).encode()
    lines = [b"POST /select HTTP/1.1", b"Connection: " + offer, b"Content-Length: %d" % len(body), b"Host: localhost"]
    lines += [b"HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA", b"Upgrade: h2c", b"Content-Type: application/json"]
    head = b"\r\n".join([*lines, b"", b""])
    pieces = [head + body] if pause is None else [head[:-1], head[-1:] + body[:5], body[5:]]
    with socket.create_connection((HOST, port), timeout=15) as connection:
        for _ in range(1 if b"close" in offer else 3):
            answer = exchange(connection, *pieces, pause=pause or 0.0)
            assert answer.startswith(b"HTTP/1.1 200 "), answer


def test_a_stop_waits_for_the_requests_in_the_lane(make_server: MakeServer, tmp_path: Path) -> None:
    """A stop would close connections whose requests are under way, and nobody would know what became of them."""
    server = make_server(f"sqlite:///{tmp_path}/prudent.db")
    with httpx.Client(base_url=server.url, trust_env=False) as api:
        campaign = create(api, multi_armed())
    body = json.dumps({"campaign_id": campaign}).encode()
    request = (
        b"POST /select HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
        % (len(body), body)
    )
    answers: Counter[bytes] = Counter()

    def ask() -> None:
        with socket.create_connection((HOST, server.port), timeout=15) as connection, suppress(ConnectionError):
            while True:
                connection.sendall(request)
                arrived = connection.recv(65_536)
                if not arrived:
                    return
                answers[arrived[:13]] += 1

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    server.stop()
    for thread in threads:
        thread.join()
    server.start()
    with httpx.Client(base_url=server.url, trust_env=False) as api:
        lines = api.get(f"/campaigns/{campaign}/export", params={"format": "ndjson"}).text.splitlines()
    assert answers.keys() <= {b"HTTP/1.1 200 ", b"HTTP/1.1 503 "}
    assert len(lines) == answers[b"HTTP/1.1 200 "] > 0
