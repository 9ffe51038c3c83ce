"""What HTTP asks of every path: HEAD as GET, all methods in Allow, and an address that says what was meant."""

import re
import socket

import httpx
import pytest
from fastapi.routing import APIRoute

from prudent.app import create_app
from prudent.settings import Settings
from tests.api.contract import create, multi_armed, ok, on_sqlite, problem, select
from tests.servers import HOST, Server

pytestmark = on_sqlite


def methods_by_path() -> dict[str, set[str]]:
    """Of every route that there is, the dashboard's as well."""
    found: dict[str, set[str]] = {}
    waiting = list(create_app(Settings(database_url="sqlite:///none.db")).routes)
    while waiting:
        route = waiting.pop()
        waiting += getattr(getattr(route, "original_router", None), "routes", [])
        if isinstance(route, APIRoute):
            found.setdefault(route.path, set()).update(route.methods)
    return found


METHODS = methods_by_path()
assert len(METHODS) > 40


@pytest.mark.parametrize("path", ["/campaigns", "/campaigns/{id}", "/campaigns/{id}/model", "/health/live", "/docs"])
def test_head_is_answered_as_get_without_the_body(api: httpx.Client, path: str) -> None:
    """A monitor or a proxy that asks with HEAD would take the service for broken."""
    path = path.replace("{id}", create(api, multi_armed()))
    got, asked = api.get(path), api.head(path)
    assert (asked.status_code, asked.content) == (200, b"")
    differ = {"date", "x-request-id"}
    assert {name for name in got.headers if name not in differ} == {
        name for name in asked.headers if name not in differ
    }
    assert asked.headers["content-length"] == got.headers["content-length"] != "0"
    missing = api.head("/campaigns/none")
    assert (missing.status_code, missing.content) == (404, b"")
    assert 'method="HEAD",route="/campaigns/{campaign_id}",status="404"' in api.get("/metrics").text


def test_allow_has_all_methods_of_a_path(api: httpx.Client) -> None:
    """Each method is a route of its own, and a framework names those of the first one only."""
    campaign = create(api, multi_armed())
    reply = api.put(f"/campaigns/{campaign}", json={})
    problem(reply, 405)
    assert reply.headers["allow"] == "DELETE, GET, HEAD, PATCH"
    assert "PUT, but DELETE, GET, HEAD and PATCH" in reply.json()["detail"]
    assert api.get("/select").headers["allow"] == "POST"


@pytest.mark.parametrize(
    ("method", "path", "meant"),
    [
        ("POST", "/select/", "/select"),
        ("POST", "/selct", "/select"),
        ("POST", "/rewards", "/reward"),
        ("POST", "/select/batches", "/select/batch"),
        ("GET", "/campaigns/x/modle", "/campaigns/{campaign_id}/model"),
        ("GET", "/campaign/x", "/campaigns/{campaign_id}"),
        ("POST", "/v1/select", "/select"),
        ("POST", "/api/v2/select/batch", "/select/batch"),
        ("GET", "/report", "/campaigns/{campaign_id}/report"),
        ("GET", "/health", "/health/live"),
        ("GET", "/docs/", "/docs"),
        ("GET", "/health/reddy", "/health/ready"),
        ("GET", "/nothing/like/it", None),
        ("GET", "/" + "a" * 5_000, None),
    ],
)
def test_a_path_that_does_not_exist_is_told_the_nearest(
    api: httpx.Client, method: str, path: str, meant: str | None
) -> None:
    """A slash at the end is one of the first mistakes that everybody makes."""
    reply = api.request(method, path)
    problem(reply, 404)
    detail = reply.json()["detail"]
    assert detail == f"no such path: {'see /docs' if meant is None else f'did you mean {meant}?'}"


def test_the_good_paths_are_untouched(api: httpx.Client) -> None:
    """HEAD may not become a way around a method."""
    campaign = create(api, multi_armed())
    assert api.head("/select").status_code == 405
    assert ok(api.get(f"/campaigns/{campaign}"))["campaign_id"] == campaign


@pytest.mark.parametrize("path", sorted(path for path in METHODS if not path.startswith(("/ofrep/", "/personalizer/"))))
def test_every_path_knows_head_and_all_of_its_methods(api: httpx.Client, path: str) -> None:
    """A page or a call that was added later would answer a monitor with an error, or hide a method."""
    methods = METHODS[path] | ({"HEAD"} if "GET" in METHODS[path] else set())
    campaign = create(api, multi_armed())
    decision = select(api, campaign)["decision_id"]
    filled = re.sub(r"\{campaign_id\}", campaign, path).replace("{decision_id}", decision)
    filled = re.sub(r"\{[^}]+\}", "x", filled)
    refused = api.request("TRACE", filled)
    problem(refused, 405)
    assert refused.headers["allow"] == ", ".join(sorted(methods))
    if "GET" in methods:
        got, asked = api.get(filled), api.head(filled)
        assert (asked.status_code, asked.content) == (got.status_code, b"")
        assert asked.headers.get("content-type") == got.headers.get("content-type")


def sent_and_half_closed(server: Server, content: bytes) -> bytes:
    """All that a client is answered that sends, says that it sends no more, and reads until the end."""
    with socket.create_connection((HOST, server.port), timeout=30) as connection:
        connection.sendall(content)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


def test_a_client_that_has_sent_all_is_answered(api: httpx.Client, api_server: Server) -> None:
    """`nc -N`, and programs that close their side when they have asked, would get nothing."""
    body = b'{"campaign_id": "%s"}' % create(api, multi_armed()).encode()
    head = b"POST /select HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    one = head + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    slow = b"GET /campaigns HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for content in (one, slow, one * 3, slow + one + slow):
        answered = sent_and_half_closed(api_server, content)
        assert answered.count(b"HTTP/1.1 200") == content.count(b" HTTP/1.1")
    assert sent_and_half_closed(api_server, one + one[:-1]).count(b"HTTP/1.1 200") == 1
    assert sent_and_half_closed(api_server, slow[:-2]) == b""


def test_large_replies_are_compressed_for_those_who_ask(api: httpx.Client) -> None:
    """The model of fifty arms takes a second on a phone's network."""
    campaign = create(api, multi_armed(arms=[{"arm_id": f"arm-{place}"} for place in range(100)]))
    path = f"/campaigns/{campaign}"
    zipped, plain = api.get(path), api.get(path, headers={"Accept-Encoding": "identity"})
    assert zipped.headers["content-encoding"] == "gzip"
    assert int(zipped.headers["content-length"]) < int(plain.headers["content-length"]) / 3
    assert "content-encoding" not in plain.headers
    assert (zipped.json(), zipped.headers["vary"]) == (plain.json(), "Accept-Encoding")
    assert "content-encoding" not in api.get("/health/live").headers
    export = api.get(f"{path}/export")
    assert len(export.content) > 4_096
    assert "content-encoding" not in export.headers
    batch = api.post("/select/batch", json={"items": [{"campaign_id": campaign}] * 50})
    assert len(batch.content) > 4_096
    assert "content-encoding" not in batch.headers
