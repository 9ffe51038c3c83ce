"""The service below a path of a larger site: every link and redirect stays there, whatever the proxy does."""

import re
from collections.abc import Iterator

import httpx
import pytest

from tests.api.contract import ok, problem
from tests.api.keys import ADMIN_KEY
from tests.conftest import MakeServer
from tests.servers import Server

PREFIX = "/tools/prudent"


@pytest.fixture(scope="module")
def prefixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A client of a server behind a prefix, with keys in use."""
    folder = tmp_path_factory.mktemp("prefixed")
    environment = {"PRUDENT_ROOT_PATH": f"{PREFIX}/", "PRUDENT_ADMIN_KEY": ADMIN_KEY}
    server = Server(f"sqlite:///{folder}/prudent.db", folder / "log", environment=environment, arguments=["--demo"])
    server.start()
    with httpx.Client(base_url=server.url, headers={"X-API-Key": ADMIN_KEY}, trust_env=False, timeout=30) as client:
        yield client
    server.stop()


@pytest.mark.parametrize("before", [PREFIX, ""], ids=["left", "taken away"])
def test_all_works_behind_a_prefix(prefixed: httpx.Client, before: str) -> None:
    """Proxies differ in whether they take the prefix away; a link without it would lead out of the service."""
    made = ok(prefixed.post(f"{before}/select", json={"campaign_id": "demo"}))
    ok(prefixed.post(f"{before}/reward", json={"decision_id": made["decision_id"], "reward": 0.5}))
    decision = f"{before}/dashboard/campaigns/demo/decisions/{made['decision_id']}"
    for page in (
        f"{before}/",
        f"{before}/dashboard/campaigns/demo",
        f"{before}/dashboard/campaigns/demo/try",
        decision,
    ):
        reply = prefixed.get(page)
        assert reply.status_code == 200, page
        links = re.findall(r'(?:href|src|action)="(/[^"]*)"', reply.text)
        assert links
        assert [link for link in links if not link.startswith(f"{PREFIX}/")] == [], page
    swagger = prefixed.get(f"{before}/docs").text
    sources = re.findall(r'(?:href|src|data-schema)="([^"]+)"', swagger)
    assert all(source.startswith(f"{PREFIX}/") for source in sources)
    for source in sources:
        assert prefixed.get(source.removeprefix(PREFIX) if not before else source).status_code == 200
    assert ok(prefixed.get(f"{before}/openapi.json"))["servers"] == [{"url": PREFIX}]
    problem(prefixed.get(f"{before}/nothing"), 404)
    problem(prefixed.get(f"{before}/campaigns", headers={"X-API-Key": "wrong"}), 401)
    asked = prefixed.get(f"{before}/dashboard/campaigns/demo", headers={"X-API-Key": "wrong"})
    assert (asked.status_code, asked.headers["location"].partition("?")[0]) == (303, f"{PREFIX}/dashboard/login")
    assert 'route="/campaigns/{campaign_id}' not in asked.text
    assert prefixed.get(f"{before}/health/live", headers={"X-API-Key": ""}).status_code == 200


@pytest.mark.parametrize("before", [PREFIX, ""], ids=["left", "taken away"])
@pytest.mark.parametrize("endpoint", ["/personalizer/demo", "/personalizer/demo/"])
def test_personalizers_clients_work_behind_a_prefix(prefixed: httpx.Client, before: str, endpoint: str) -> None:
    """Their header and the forms of their endpoints were known at the top of the service only."""
    actions = {"actions": [{"id": "steady"}, {"id": "bold"}]}
    for address in (f"{before}{endpoint}/personalizer/v1.0/rank", f"{before}/personalizer/v1.0/rank?campaign=demo"):
        url = f"{prefixed.base_url}".rstrip("/") + address
        reply = httpx.post(url, json=actions, headers={"Ocp-Apim-Subscription-Key": ADMIN_KEY}, trust_env=False)
        assert ok(reply, 201)["rewardActionId"] in {"steady", "bold"}


def test_what_only_looks_like_the_prefix_is_a_path(prefixed: httpx.Client) -> None:
    """`/tools/prudently` is not below `/tools/prudent`."""
    problem(prefixed.get(f"{PREFIX}ly/campaigns"), 404)
    assert prefixed.get(PREFIX).status_code == 200


@pytest.mark.parametrize("wrong", ["https://example.org/prudent", "/a b", "/a//b", "/{x}"])
def test_a_prefix_is_a_path(make_server: MakeServer, sqlite_database: str, wrong: str) -> None:
    """An address in its place would make every link wrong."""
    server = make_server(sqlite_database, start=False, environment={"PRUDENT_ROOT_PATH": wrong})
    server.start(wait=False)
    assert server.process is not None
    assert server.process.wait(60) == 1
    assert "PRUDENT_ROOT_PATH must be a path such as /prudent" in server.log()
