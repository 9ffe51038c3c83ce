"""OpenFeature's web SDK in a browser, on a page of another origin than the service's."""

from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page

from tests.api.contract import ok
from tests.api.keys import ADMIN_KEY, make_key
from tests.conftest import migrate_empty
from tests.dashboard.conftest import browser  # noqa: F401  # a fixture
from tests.doors.conftest import STICKY, VALUES
from tests.servers import HOST, Server, free_port
from tests.waiting import wait_for

ADMIN = {"X-API-Key": ADMIN_KEY}
FALLBACKS = {"word": "none", "layout": {}, "discount": 0, "columns": 0, "banner": None}


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files, and keeps to itself which."""

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def origin(packages: Path) -> Iterator[str]:
    """The origin of a site whose pages have the SDK."""
    (packages / "index.html").write_text("<!doctype html><script src=/built/page.js></script>", encoding="utf-8")
    site = ThreadingHTTPServer((HOST, free_port()), partial(QuietHandler, directory=packages))
    Thread(target=site.serve_forever, daemon=True).start()
    yield f"http://{HOST}:{site.server_port}"
    site.shutdown()
    site.server_close()


@pytest.fixture(scope="module")
def service(origin: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service with keys, and with a flag of each kind that lets the site's pages evaluate it."""
    folder = tmp_path_factory.mktemp("flags")
    environment = {"PRUDENT_ADMIN_KEY": ADMIN_KEY, "PRUDENT_FLAG_ORIGINS": f"https://shop.example, {origin}"}
    server = Server(f"sqlite:///{folder}/prudent.db", folder / "server.log", environment=environment)
    migrate_empty(server.database_url)
    server.start()
    for kind, values in VALUES.items():
        arms = [{"arm_id": name, "value": value} for name, value in zip("ab", values, strict=True)]
        for client_side in (True, False):
            request = {
                "campaign_id": kind if client_side else f"{kind}-of-the-server",
                "risk": {"measure": "mean"},
                "model": {"type": "multi-armed"},
                "arms": arms,
                "assignment": STICKY,
                "reward": {"timeout_seconds": 0.001, "default": 0},
                "client_side": client_side,
            }
            ok(httpx.post(f"{server.url}/campaigns", json=request, headers=ADMIN, trust_env=False), 201)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def key(service: Server) -> str:
    """An evaluator's key, which the pages show to everybody; the service knows it, and has loaded its campaigns."""
    made = make_key(service.database_url, "shop", "evaluator")
    headers, body = {"Authorization": f"Bearer {made}"}, {"context": {"targetingKey": "nobody"}}

    def is_served() -> bool:
        address = f"{service.url}/ofrep/v1/evaluate/flags"
        return httpx.post(address, json=body, headers=headers, trust_env=False).is_success

    wait_for(is_served, "flags are not evaluated")
    return made


@pytest.fixture
def page(browser: Browser, origin: str) -> Iterator[Page]:  # noqa: F811
    """A page of the site."""
    context = browser.new_context()
    opened = context.new_page()
    opened.goto(f"{origin}/index.html")
    yield opened
    context.close()


def connect(page: Page, service: Server, key: str, subject: str, cache: str = "disabled") -> None:
    page.evaluate(
        "([url, key, subject, cache]) => connect(url, key, {targetingKey: subject, path: '/'}, cache)",
        [service.url, key, subject, cache],
    )


def evaluate(page: Page, flag: str, fallback: Any) -> Any:
    return page.evaluate("([flag, fallback]) => evaluate(flag, fallback)", [flag, fallback])


def observations(service: Server, campaign: str) -> int:
    found: int = ok(httpx.get(f"{service.url}/campaigns/{campaign}", headers=ADMIN, trust_env=False))["observations"]
    return found


def test_a_page_evaluates_its_flags_and_no_others(page: Page, service: Server, key: str) -> None:
    """The web SDK asks for all flags at once: a service's own campaigns would take each visitor for a decision."""
    connect(page, service, key, "visitor")
    for kind, values in VALUES.items():
        found = evaluate(page, kind, values[0])
        assert found.get("errorCode") is None
        assert found["value"] == values["ab".index(found["variant"])]
        stored = ok(
            httpx.get(f"{service.url}/decisions/{found['flagMetadata']['decisionId']}", headers=ADMIN, trust_env=False)
        )
        assert stored["due_at"] is None  # it may never be shown
        assert evaluate(page, f"{kind}-of-the-server", values[0])["errorCode"] == "FLAG_NOT_FOUND"
    assert page.evaluate("requests") == [200]


def test_a_visitor_keeps_the_variants(page: Page, service: Server, key: str) -> None:
    """A visitor would see another page after each load, and the browser would transfer the same flags every time."""
    connect(page, service, key, "regular", "local-cache-first")
    found = {kind: evaluate(page, kind, values[0]) for kind, values in VALUES.items()}
    page.reload()
    connect(page, service, key, "regular", "local-cache-first")
    page.wait_for_function("requests.length === 1")
    assert page.evaluate("requests") == [304]
    for kind, values in VALUES.items():
        assert evaluate(page, kind, values[0])["variant"] == found[kind]["variant"]
    page.evaluate("setContext({targetingKey: 'another', path: '/pay'})")
    assert evaluate(page, "word", "none")["flagMetadata"]["decisionId"] != (found["word"]["flagMetadata"]["decisionId"])


def test_a_page_is_learned_only_once_its_outcome_is_known(page: Page, service: Server, key: str) -> None:
    """All flags are evaluated at each load, most of them never looked at: each would learn the default reward."""
    before = observations(service, "banner")
    connect(page, service, key, "buyer")
    found = evaluate(page, "word", "none")
    body = {"campaign_id": "word", "subject": "buyer", "reward": 1}
    rewarded = ok(httpx.post(f"{service.url}/reward", json=body, headers=ADMIN, trust_env=False))
    assert rewarded["decision_id"] == found["flagMetadata"]["decisionId"]
    assert (rewarded["reward"], rewarded["duplicate"]) == (1, False)
    assert observations(service, "banner") == before


def test_a_page_can_do_nothing_else(page: Page, service: Server, key: str) -> None:
    """The key is in the page's source: whoever reads it could reward what they like, or read the campaigns."""
    script = """async ([url, key]) => {
        const send = async (method, path, body) => {
            try {
                const headers = {"Content-Type": "application/json", "X-API-Key": key};
                return (await fetch(url + path, {method, headers, body: body && JSON.stringify(body)})).status;
            } catch (error) { return error.name; }
        };
        return [
            await send("POST", "/ofrep/v1/evaluate/flags/word", {context: {targetingKey: "u"}}),
            await send("POST", "/reward", {campaign_id: "word", subject: "visitor", reward: 9}),
            await send("GET", "/campaigns"),
        ];
    }"""
    assert page.evaluate(script, [service.url, key]) == [200, "TypeError", "TypeError"]


def test_a_wrong_key_is_told_to_the_page(page: Page, service: Server) -> None:
    """Without the headers for its origin, a refusal would look like a failure of the network."""
    script = """async (url) => {
        const headers = {"Content-Type": "application/json", "X-API-Key": "wrong"};
        const reply = await fetch(url + "/ofrep/v1/evaluate/flags", {method: "POST", headers, body: "{}"});
        return [reply.status, (await reply.json()).errorCode];
    }"""
    assert page.evaluate(script, service.url) == [401, "GENERAL"]
