"""F10. What a browser keeps: answers, sessions that were signed out, and what errors tell about keys."""

import sqlite3
import time
from collections.abc import Iterator

import httpx
import pytest

from prudent.security.sessions import COOKIE
from tests.api.keys import ADMIN_KEY, ARMS, CALLS, CAMPAIGN, make_key, prudent
from tests.conftest import MakeServer
from tests.servers import Server

pytestmark = pytest.mark.slow

REFRESH_SECONDS = 1
REFRESH = {"PRUDENT_KEYS_REFRESH_SECONDS": str(REFRESH_SECONDS), "PRUDENT_ADMIN_KEY": ADMIN_KEY}
REFUSED = {"wrong": "prudent_" + "x" * 43, "empty": "", "cut": ADMIN_KEY[:-1], "long": "k" * 8_000}
OPEN_FILES = ("/docs", "/docs/static/", "/openapi.json", "/dashboard/static/")


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service with keys."""
    folder = tmp_path_factory.mktemp("closed")
    server = Server(f"sqlite:///{folder}/prudent.db", folder / "server.log", environment=REFRESH)
    server.start()
    with httpx.Client(base_url=server.url, headers={"X-API-Key": ADMIN_KEY}, trust_env=False) as http:
        http.post("/campaigns", json=CAMPAIGN | ARMS).raise_for_status()
    yield server
    server.kill()


def browser(server: Server, cookie: str | None = None) -> httpx.Client:
    """A browser without connections, perhaps with a cookie: whichever worker takes the next one answers."""
    headers = {"Origin": server.url, "Sec-Fetch-Site": "same-origin"}
    cookies = {} if cookie is None else {COOKIE: cookie}
    return httpx.Client(base_url=server.url, headers=headers, cookies=cookies, timeout=30, trust_env=False)


def signed_in(server: Server) -> str:
    """The cookie of a new session."""
    with browser(server) as http:
        assert http.post("/dashboard/login", data={"key": ADMIN_KEY}).status_code == 303
        return http.cookies[COOKIE]


def opens(server: Server, cookie: str) -> bool:
    """Whether the cookie opens the dashboard."""
    with browser(server, cookie) as http:
        return http.get("/").status_code == 200


@pytest.mark.parametrize(("database", "workers"), [("sqlite", 1), ("sqlite", 2), ("postgres", 2)])
def test_a_session_that_was_signed_out_is_over(
    request: pytest.FixtureRequest, make_server: MakeServer, database: str, workers: int
) -> None:
    """F10. A copy of the cookie opened the dashboard for seven days after the user had signed out.

    A fault of commit a92648e.
    """
    server = make_server(request.getfixturevalue(f"{database}_database"), workers=workers, environment=REFRESH)
    cookie, other = signed_in(server), signed_in(server)
    assert all(opens(server, cookie) for _ in range(5))
    with browser(server, cookie) as http:
        assert http.post("/dashboard/logout", data={"end": "1"}).status_code == 303
        assert workers > 1 or not opens(server, cookie)  # at once where it was signed out
    deadline = time.monotonic() + 20
    while any(opens(server, cookie) for _ in range(10)) and time.monotonic() < deadline:
        time.sleep(0.2)
    time.sleep(REFRESH_SECONDS)  # all ten may have come to the worker that knows
    assert not any(opens(server, cookie) for _ in range(10))
    assert all(opens(server, other) for _ in range(5))  # another session of the same key is another session
    server.restart()
    assert not any(opens(server, cookie) for _ in range(5))
    assert opens(server, other)
    with browser(server, cookie) as http:  # signing out twice is no error
        assert http.post("/dashboard/logout", data={"end": "1"}).status_code == 303


def test_signing_out_says_so_when_it_cannot_be_recorded(make_server: MakeServer, sqlite_database: str) -> None:
    """F10. Whoever believes to be signed out, and is not, leaves the machine to the next person."""
    server = make_server(sqlite_database, environment=REFRESH | {"PRUDENT_ANSWER_SECONDS_MAX": "1"})
    cookie = signed_in(server)
    with sqlite3.connect(sqlite_database.removeprefix("sqlite:///")) as database, browser(server, cookie) as http:
        database.execute("BEGIN IMMEDIATE")
        reply = http.post("/dashboard/logout", data={"end": "1"})
        database.rollback()
        assert reply.status_code == 503
        assert "Not signed out" in reply.text
        assert http.post("/dashboard/logout", data={"end": "1"}).status_code == 303


def test_nothing_with_data_is_stored_and_everything_has_a_policy(closed: Server) -> None:
    """F10. A proxy or a browser would keep rewards and features; a page without a policy runs what an id contains.

    A fault of commit a92648e: no answer of the API had Cache-Control, and /docs no policy.
    """
    cookie = signed_in(closed)
    with browser(closed) as http:
        replies = [http.get(path) for path in ("/", "/dashboard/campaigns/c")]  # to the login
    with browser(closed, cookie) as http:
        pages = ["/", "/dashboard/campaigns/c", "/dashboard/campaigns/c/try", "/dashboard/nothing", "/dashboard/login"]
        replies += [http.get(path) for path in (*pages, *OPEN_FILES[:1], *OPEN_FILES[2:3], "/docs/static/start.js")]
        replies += [http.get(path) for path in ("/docs/static/nothing", "/health/live", "/health/ready", "/nowhere")]
        replies += [http.request(method, path, json=body) for method, path, body, _ in CALLS]  # 401
        http.headers["X-API-Key"] = ADMIN_KEY
        replies += [http.request(method, path, json=body) for method, path, body, _ in CALLS if method != "DELETE"]
        replies += [http.post("/select", content=b"{"), http.put("/campaigns"), http.get("/campaigns/none")]
    assert {200, 201, 303, 401, 404, 405, 415} <= {reply.status_code for reply in replies}
    for reply in replies:
        path, policy = reply.url.path, reply.headers["content-security-policy"]
        caching = reply.headers["cache-control"]
        assert caching == "no-store" or path.startswith(OPEN_FILES), path
        assert "default-src 'none'" in policy, path
        assert "frame-ancestors 'none'" in policy, path
        assert "script-src 'unsafe-inline'" not in policy, path
        assert reply.headers["x-content-type-options"] == "nosniff", path
        for name in ("cache-control", "content-security-policy", "x-content-type-options"):
            assert len(reply.headers.get_list(name)) == 1, path


def test_a_refused_key_is_refused_in_the_same_words(closed: Server) -> None:
    """F10. A difference between a key that never was and one that was revoked would be worth trying."""
    url = closed.database_url
    revoked = make_key(url, "revoked", "admin")
    with httpx.Client(base_url=closed.url, headers={"X-API-Key": revoked}, trust_env=False) as http:
        deadline = time.monotonic() + 20
        while http.get("/campaigns").status_code != 200 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert http.get("/campaigns").status_code == 200
        assert prudent("keys", "revoke", "revoked", "--database-url", url).exit_code == 0
        while http.get("/campaigns").status_code == 200 and time.monotonic() < deadline:
            time.sleep(0.1)
    answers, pages, details = set(), set(), set()
    for key in (*REFUSED.values(), revoked, None):
        with browser(closed) as http:
            for path in ("/campaigns", "/campaigns/c", "/campaigns/none", "/nowhere"):
                reply = http.get(path, headers={} if key is None else {"X-API-Key": key})
                told = {name: value for name, value in reply.json().items() if name != "request_id"}
                details.add((key is None, told.pop("detail")))
                fixed = {name: value for name, value in reply.headers.items() if name not in {"x-request-id", "date"}}
                fixed["content-length"] = ""  # the request's id has one digit more, now and then
                answers.add((reply.status_code, str(told), str(sorted(fixed.items()))))
            reply = http.post("/dashboard/login", data={"key": key or ""})
            pages.add((reply.status_code, reply.text))
    assert len(answers) == 1
    assert len(pages) == 1
    assert len(details) == 2  # whoever sends no key is told so
