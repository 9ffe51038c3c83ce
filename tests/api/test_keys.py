"""API keys: nobody without one gets in, a role may do what it is for, and a revoked key stops working."""

import http.client as http_client
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from prudent.security.keys import role_needed
from tests.api.contract import ok, problem
from tests.api.keys import ADMIN_KEY, ARMS, CALLS, CAMPAIGN, MAY, make_key, prudent, refusal
from tests.conftest import MakeServer, migrate_empty
from tests.promises import Promise
from tests.servers import HOST, Server

REFRESH_SECONDS = 1
SEEN_SECONDS_MAX = 15
BAD_KEYS = {
    "wrong": b"prudent_" + b"x" * 43,
    "empty": b"",
    "blank": b" ",
    "beginning": ADMIN_KEY[:-1].encode(),
    "longer": ADMIN_KEY.encode() + b"x",
    "not-ascii": "schlüssel-€".encode(),
    "not-utf-8": b"\xff\xfe\x80",
    "8-kilobytes": b"k" * 8_192,
    "with-name": b"admin:" + ADMIN_KEY.encode(),
    "upper-case": ADMIN_KEY.upper().encode(),
}


def statuses_until(http: httpx.Client, wanted: int, headers: dict[str, str]) -> set[int]:
    """The statuses that were seen until the wanted one."""
    seen: set[int] = set()
    deadline = time.monotonic() + SEEN_SECONDS_MAX
    while wanted not in seen and time.monotonic() < deadline:
        seen.add(http.get("/campaigns", headers=headers).status_code)
        time.sleep(0.05)
    return seen


def send(server: Server, method: str, path: str, body: Any, headers: list[tuple[bytes, bytes]]) -> httpx.Response:
    """Send these bytes as headers, which httpx would refuse to."""
    connection = http_client.HTTPConnection(HOST, server.port, timeout=30)
    connection.putrequest(method, path)
    for name, value in headers:
        connection.putheader(name, value)
    content = b"" if body is None else json.dumps(body).encode()
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(len(content)))
    connection.endheaders(content)
    reply = connection.getresponse()
    found = httpx.Response(reply.status, headers=reply.getheaders(), content=reply.read())
    connection.close()
    return found


@dataclass(frozen=True)
class Closed:
    """A server that asks for keys, with one of each role."""

    server: Server
    keys: dict[str, str]

    @property
    def database(self) -> str:
        """Which kind of database it has."""
        return self.server.database_url.partition(":")[0]


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def closed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    """The service with keys, on either database; the admin's is the operator's own."""
    folder = tmp_path_factory.mktemp("closed")
    url = f"sqlite:///{folder}/prudent.db"
    if request.param == "postgres":
        url = request.getfixturevalue("postgres").create_database()
    migrate_empty(url)
    keys = {role: make_key(url, role, role) for role in ("evaluator", "reader", "writer")} | {"admin": ADMIN_KEY}
    server = Server(url, folder / "server.log", environment={"PRUDENT_ADMIN_KEY": ADMIN_KEY})
    server.start()
    yield Closed(server, keys)
    server.stop()
    if request.param == "postgres":
        request.getfixturevalue("postgres").drop_database(url)


@pytest.fixture
def http(closed: Closed) -> Iterator[httpx.Client]:
    """A client without a key."""
    with httpx.Client(base_url=closed.server.url, timeout=30, trust_env=False) as opened:
        yield opened


def test_each_role_may_do_what_it_is_for_and_no_more(closed: Closed, http: httpx.Client, promise: Promise) -> None:
    """R22. An application's key could delete a campaign, or a dashboard's key write."""
    admin = {"X-API-Key": closed.keys["admin"]}
    for name in ("c", "d"):
        body = CAMPAIGN | ARMS | {"campaign_id": name}
        assert http.post("/campaigns", json=body, headers=admin).status_code == 201
    unauthorised = errors = calls = 0
    for method, path, body, needed in CALLS:
        for role, may in MAY.items():
            reply = http.request(method, path, json=body, headers={"Authorization": f"Bearer {closed.keys[role]}"})
            calls += 1
            errors += reply.status_code >= 500
            if needed not in may:
                unauthorised += reply.is_success
                assert needed in refusal(reply, path, 403)
                assert 'error="insufficient_scope"' in reply.headers["www-authenticate"]
            else:
                assert reply.is_success, f"{role} {method} {path}: {reply.text}"
    promise("R22", f"{closed.database}, roles: {calls} calls, {unauthorised} unauthorised 2xx, {errors} 5xx")
    assert (unauthorised, errors) == (0, 0)


def test_a_campaign_moves_with_the_right_keys(closed: Closed, http: httpx.Client) -> None:
    """R22. An application's key could bring a past that nobody decided; a backup would need the strongest key."""
    keys = {role: {"Authorization": f"Bearer {key}"} for role, key in closed.keys.items()}
    body = CAMPAIGN | ARMS | {"campaign_id": "moved"}
    assert http.post("/campaigns", json=body, headers=keys["admin"]).status_code == 201
    exported = http.get("/campaigns/moved/export", headers=keys["reader"])
    problem(http.get("/campaigns/moved/export"), 401)
    assert http.delete("/campaigns/moved?confirm=moved", headers=keys["admin"]).status_code == 204
    kind = {"Content-Type": "application/x-ndjson"}
    for headers, status in ((kind, 401), (kind | keys["reader"], 403), (kind | keys["writer"], 403)):
        problem(http.post("/import", content=exported.content, headers=headers), status)
    assert http.post("/import", content=exported.content, headers=kind | keys["admin"]).status_code == 201


def test_bad_keys_open_nothing(closed: Closed, promise: Promise) -> None:
    """R22. A key that is wrong, empty, not ASCII or very long would let somebody in, or be a server error."""
    presented: list[list[tuple[bytes, bytes]]] = [[]]
    for key in BAD_KEYS.values():
        presented += [[(b"X-API-Key", key)], [(b"Authorization", b"Bearer " + key)]]
        presented += [[(b"X-API-Key", closed.keys["admin"].encode()), (b"Authorization", b"Bearer " + key)]]
        presented += [[(b"X-API-Key", closed.keys["admin"].encode()), (b"X-API-Key", key)]]
    good = closed.keys["admin"].encode()
    presented += [[(b"Authorization", value)] for value in (good, b"Basic " + good, b"Bearer", b"Bearer\t" + good)]
    presented += [[(b"X-API-Key", good), (b"Authorization", b"Bearer " + closed.keys["reader"].encode())]]
    unauthorised = errors = calls = 0
    for headers in presented:
        for method, path, body, _ in CALLS:
            reply = send(closed.server, method, path, body, headers)
            calls += 1
            unauthorised += reply.is_success
            errors += reply.status_code >= 500
            refusal(reply, path, 401)
            assert reply.headers["www-authenticate"].startswith("Bearer")
    promise("R22", f"{closed.database}, bad keys: {calls} calls, {unauthorised} unauthorised 2xx, {errors} 5xx")
    assert (unauthorised, errors) == (0, 0)
    log = closed.server.log()
    assert "requests refused" in log
    assert not any(key in log for key in closed.keys.values())
    assert "Traceback" not in log


def test_both_headers_and_a_proxys_own_are_understood(closed: Closed, http: httpx.Client) -> None:
    """A client that sends its key twice, or sits behind a proxy with a password, would be locked out."""
    key = closed.keys["reader"]
    for headers in (
        {"X-API-Key": key},
        {"Authorization": f"bearer {key}"},
        {"X-API-Key": key, "Authorization": f"Bearer {key}"},
        {"X-API-Key": key, "Authorization": "Basic dTpw"},
    ):
        ok(http.get("/campaigns", headers=headers))


def test_what_is_open_shows_no_data(closed: Closed, http: httpx.Client) -> None:
    """B37. A health check cannot send a key; nothing else may be open."""
    for path in ("/health/live", "/health/ready", "/docs", "/guide/index", "/openapi.json"):
        assert http.get(path).status_code == 200
    for path in (
        "/nowhere",
        "/health/live/",
        "/health/live%0A",
        "/docs/../metrics",
        "/select%0A",
        "/docs%2f",
    ):
        assert http.get(path).status_code in {401, 404}
        problem(http.post(path, json={"campaign_id": "c"}, headers={"X-API-Key": closed.keys["writer"]}), 403)


def test_the_description_says_which_key_each_operation_needs(closed: Closed, http: httpx.Client) -> None:
    """A generated client would not know that it has to send a key; a new route would be open to writers unseen."""
    schema = http.get("/openapi.json").json()
    assert set(schema["components"]["securitySchemes"]) == {"apiKey", "bearer"}
    roles = {(method, path.partition("?")[0]): role for method, path, _, role in CALLS}
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            actual = path.replace("{campaign_id}", "c").replace("{arm_id}", "b").replace("{decision_id}", "d")
            actual = actual.replace("{key}", "c")
            if actual.startswith("/health/"):
                assert operation["security"] == []
                continue
            expected = roles.get((method.upper(), actual), "admin" if method == "delete" or path == "/import" else None)
            assert role_needed(method.upper(), path) == expected, (method, path)
            assert operation["security"] == [{"apiKey": []}, {"bearer": []}]
            assert f"`{expected}`" in operation["description"]


def test_a_key_is_refused_before_its_body_is_read(closed: Closed, http: httpx.Client) -> None:
    """Somebody without a key could make the service read and parse 4 MiB."""
    problem(http.post("/select/batch", content=b"\xff" * 2**20), 401)
    problem(http.post("/select", content=b"{}", headers={"Content-Encoding": "gzip"}), 401)


def test_keys_are_seen_while_the_service_runs(make_server: MakeServer, database_url: str) -> None:
    """The first key closes an open service; a revoked one would work until the next restart."""
    environment = {"PRUDENT_KEYS_REFRESH_SECONDS": str(REFRESH_SECONDS)}
    server = make_server(database_url, environment=environment)
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as client:
        ok(client.get("/campaigns"))
        key = make_key(database_url, "first", "reader")
        assert 401 in statuses_until(client, 401, {})
        headers = {"X-API-Key": key}
        ok(client.get("/campaigns", headers=headers))
        assert prudent("keys", "revoke", "first", "--database-url", database_url).exit_code == 0
        assert 401 in statuses_until(client, 401, headers)
        server.restart()  # all keys are revoked: it must not be open again
        problem(client.get("/campaigns"), 401)
        problem(client.get("/campaigns", headers=headers), 401)


def test_verify_takes_a_key(closed: Closed) -> None:
    """A live server could not be verified any more once it has keys."""
    campaign = CAMPAIGN | {"campaign_id": "verified"}
    made = httpx.post(
        f"{closed.server.url}/campaigns", json=campaign, headers={"X-API-Key": ADMIN_KEY}, trust_env=False
    )
    assert made.status_code in {200, 201}
    arguments = ("verify", "--database-url", closed.server.database_url, "--url", closed.server.url)
    assert prudent(*arguments).exit_code == 1
    done = prudent(*arguments, environment={"PRUDENT_API_KEY": closed.keys["reader"]})
    assert done.exit_code == 0, done.stdout + done.stderr
