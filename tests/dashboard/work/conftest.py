"""A browser that runs no script, as HTTP sees it, and services whose forms it sends."""

import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import httpx
import pytest

from tests.api.keys import ADMIN_KEY, make_key
from tests.servers import Server

MANAGE = "/dashboard/manage"
CAMPAIGN = {
    "campaign_id": "c",
    "risk": {"measure": "mean"},
    "model": {"type": "multi-armed"},
    "arms": [{"arm_id": "a"}, {"arm_id": "b"}],
}
Values = dict[str, str]


class Browser(AbstractContextManager["Browser"]):
    """One that runs no script: it gets pages, and sends the forms on them."""

    def __init__(self, server: Server, key: str = "") -> None:
        origin = {"Origin": server.url, "Sec-Fetch-Site": "same-origin"}
        self.http = httpx.Client(base_url=server.url, timeout=60, trust_env=False, headers=origin)
        if key:
            self.sign_in(key)

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def sign_in(self, key: str) -> None:
        """Sign in. A key that was just made may not be known yet."""
        deadline = time.monotonic() + 60
        while self.http.post("/dashboard/login", data={"key": key}).status_code != 303:
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def token(self, path: str) -> str:
        """Of the form on this page."""
        found = re.search(r'name="token" value="([^"]+)"', self.http.get(path).text)
        assert found is not None
        return found[1]

    def send(self, path: str, **values: str) -> httpx.Response:
        """Fill in the form on a page, and send it."""
        return self.http.post(path, data={"token": self.token(path)} | values)

    def confirm(self, path: str, **values: str) -> httpx.Response:
        """The same, and press the button of the page that confirms it."""
        return self.send(path, confirmed="yes", **values)

    def text(self, path: str) -> str:
        """What a page says."""
        return words(self.http.get(path))


def words(page: httpx.Response) -> str:
    """The words of a page."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.text))


def error_of(page: httpx.Response, field: str) -> str:
    """What stands beside a field."""
    found = re.search(rf'id="{re.escape(field)}\.error">([^<]*)<', page.text)
    assert found is not None, page.text
    assert re.search(rf'id="{re.escape(field)}" name="[^"]*"[^>]* aria-invalid="true"', page.text)
    return found[1]


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service with keys, one of each role, and a campaign."""
    folder = tmp_path_factory.mktemp("work")
    url = f"sqlite:///{folder}/prudent.db"
    server = Server(url, folder / "server.log", environment={"PRUDENT_ADMIN_KEY": ADMIN_KEY})
    server.start(120)
    yield server
    server.kill()


@pytest.fixture(scope="module")
def keys(closed: Server) -> Values:
    """A key of each role, under the role's name."""
    return {role: make_key(closed.database_url, role, role) for role in ("reader", "writer", "admin")}


@pytest.fixture
def browser(closed: Server, keys: Values) -> Iterator[Browser]:
    """An admin's."""
    with Browser(closed, keys["admin"]) as opened:
        yield opened


def call(server: Server, method: str, path: str, body: Any = None) -> Any:
    """Use the API, with the operator's key."""
    sent = httpx.request(
        method, server.url + path, json=body, headers={"X-API-Key": ADMIN_KEY}, timeout=60, trust_env=False
    )
    sent.raise_for_status()
    return sent.json() if sent.content else None


def make(server: Server, campaign_id: str, **changes: Any) -> None:
    """A campaign made by the API."""
    call(server, "POST", "/campaigns", CAMPAIGN | {"campaign_id": campaign_id} | changes)
