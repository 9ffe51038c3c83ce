"""Two servers on one database behind the compose file's proxy, which gives each campaign to one of them."""

import asyncio
import random
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import MakeServer
from tests.machine import missing
from tests.promises import Promise, length
from tests.scripted import Script
from tests.servers import HOST, Server, ServerError
from tests.trust.clusters import HaProxy
from tests.trust.invariants import Findings, check, prudent_verify
from tests.trust.load import CAMPAIGNS, Load, Record, create_campaigns, send_again, working
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

DEATHS = length("PROXY_DEATHS", 6)
TAKE_OVER_SECONDS_MAX = 5.0
SEED = 22

MakeProxy = Callable[[Sequence[Server]], HaProxy]


@pytest.fixture
def proxy() -> Iterator[MakeProxy]:
    with ExitStack() as stack:

        def start(servers: Sequence[Server]) -> HaProxy:
            try:
                made = HaProxy([server.port for server in servers])
            except ServerError as error:
                missing(str(error))
            stack.callback(made.remove)
            return made

        yield start


@pytest.fixture
def servers(make_server: MakeServer, postgres_database: str) -> list[Server]:
    return [make_server(postgres_database) for _ in range(2)]


def requests_of(server: Server) -> int:
    """How many requests it has answered, checks of its health aside."""
    text = httpx.get(f"{server.url}/metrics", trust_env=False).raise_for_status().text
    return sum(
        int(sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "prudent_requests_total" and sample.labels["route"] not in {"/health/ready", "/metrics"}
    )


def wait_until_both_serve(url: str, servers: list[Server]) -> None:
    """The proxy finds out within a second; without a campaign they take turns."""
    before = [requests_of(server) for server in servers]

    def both() -> bool:
        httpx.get(f"{url}/health/live", trust_env=False)
        return all(requests_of(server) > count for server, count in zip(servers, before, strict=True))

    wait_for(both)


def found_after(url: str, record: Record, servers: list[Server]) -> Findings:
    """What contradicts the invariants, or a replay in either server's memory, once everything has an answer."""
    send_again(url, record)
    found = check(servers[0].database_url, record)
    if found.none:
        for server in servers:
            prudent_verify(server.database_url, server.url)
    return found


def test_a_campaign_has_one_worker(proxy: MakeProxy, servers: list[Server]) -> None:
    """Two that serve the same campaigns take half as much again of the processors, and do less together."""
    url = proxy(servers).url
    wait_until_both_serve(url, servers)
    create_campaigns(servers[0].url)
    owners = set()
    with httpx.Client(base_url=url, trust_env=False) as http:
        for campaign_id in CAMPAIGNS:
            before = [requests_of(server) for server in servers]
            decision = http.post("/select", json={"campaign_id": campaign_id}).raise_for_status().json()["decision_id"]
            named = {"campaign_id": campaign_id, "decision_id": decision}
            large = [{**named, "decision_id": f"{campaign_id}-{number}"} for number in range(50)]
            for reply in (
                http.post("/reward", json={**named, "reward": 1.0}),
                http.post(
                    "/reward", json={"decision_id": decision, "reward": 1.0}, headers={"Prudent-Campaign": campaign_id}
                ),
                http.post("/select/batch", json={"items": large}),
                http.get(f"/decisions/{decision}", params={"campaign_id": campaign_id}),
                http.get(f"/campaigns/{campaign_id}"),
                http.get(f"/campaigns/{campaign_id}/model"),
                http.post("/select", json={"campaign_id": campaign_id, "context": None}),
            ):
                assert reply.status_code == httpx.codes.OK, reply.text
            served = [requests_of(server) - count for server, count in zip(servers, before, strict=True)]
            assert sorted(served) == [0, 8], served
            owners.add(served.index(8))
    assert owners == {0, 1}  # so do these four names fall


def test_large_bodies_pass(proxy: MakeProxy, servers: list[Server]) -> None:
    """A body is looked at for its campaign as far as it fits the proxy's memory; the rest must arrive all the same."""
    url = proxy(servers).url
    wait_until_both_serve(url, servers)
    create_campaigns(servers[0].url)
    items = [{"arm_id": "a", "reward": 0.5, "observation_id": f"o{number:0100d}"} for number in range(1_000)]
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as http:
        learned = http.post("/campaigns/ridge/observations", json={"items": items}).raise_for_status()
        assert len(learned.request.content) > 2**17
        file = http.get("/campaigns/ridge/export").raise_for_status().content
        assert len(file) > 2**18
        http.delete("/campaigns/ridge", params={"confirm": "ridge"}).raise_for_status()
        back = http.post("/import", content=file, headers={"Content-Type": "application/x-ndjson"}).raise_for_status()
        assert back.json()["observations"] == len(items)
        for size in (2**21, 5 * 2**20):  # as the service says it, and as the proxy does
            too_large = http.post("/select", content=b"x" * size)
            assert too_large.status_code == httpx.codes.REQUEST_ENTITY_TOO_LARGE
            assert too_large.json()["type"] == "urn:prudent:too-large"


def test_deaths_lose_nothing(proxy: MakeProxy, servers: list[Server], promise: Promise) -> None:
    """Campaigns go from one server to the other and back, while both have learned for them."""
    url, record = proxy(servers).url, Record()
    create_campaigns(servers[0].url)
    draw = random.Random(SEED)  # noqa: S311  # of tests

    async def run() -> None:
        async with working(Load(url, record, names_campaigns=True)):
            for _ in range(DEATHS):
                victim = draw.choice(servers)
                await asyncio.to_thread(victim.kill if draw.random() < 0.8 else victim.stop)
                await asyncio.sleep(draw.uniform(0.0, 0.5))
                await asyncio.to_thread(victim.start)
                await asyncio.sleep(draw.uniform(0.2, 1.5))

    asyncio.run(run())
    found = found_after(url, record, servers)
    promise("owners", f"{DEATHS} deaths behind a proxy, {record.acknowledged:,} acknowledged: {found}")
    assert found.none, found.faults
    assert not record.wrong_statuses
    assert record.without_retry_after == 0
    assert record.acknowledged > DEATHS


def test_a_server_that_hangs_is_replaced(proxy: MakeProxy, servers: list[Server], promise: Promise) -> None:
    """Its campaigns would stand still with it, and it would write afterwards what others have replaced."""
    url, record = proxy(servers).url, Record()
    create_campaigns(servers[0].url)
    wait_until_both_serve(url, servers)
    seconds: list[float] = []

    async def served(campaign_id: str, number: int) -> None:
        """Until a select of this campaign is answered."""
        async with httpx.AsyncClient(base_url=url, timeout=1, trust_env=False) as http:
            while True:
                try:
                    body = {"campaign_id": campaign_id, "decision_id": f"hang-{number}-{campaign_id}"}
                    if (await http.post("/select", json=body)).status_code == httpx.codes.OK:
                        return
                except httpx.TransportError:
                    pass
                await asyncio.sleep(0.05)

    async def run() -> None:
        clock = asyncio.get_running_loop().time
        async with working(Load(url, record, names_campaigns=True)):
            for number, server in enumerate(servers):
                await asyncio.sleep(0.5)
                assert server.process is not None
                server.process.send_signal(signal.SIGSTOP)
                stopped = clock()
                try:
                    await asyncio.gather(*(served(campaign_id, number) for campaign_id in CAMPAIGNS))
                    seconds.append(clock() - stopped)
                    await asyncio.sleep(0.5)
                finally:
                    server.process.send_signal(signal.SIGCONT)
                await asyncio.to_thread(wait_until_both_serve, url, servers)

    asyncio.run(run())
    found = found_after(url, record, servers)
    promise("owners", f"servers that hang: replaced within {max(seconds):.1f} s; {record.acknowledged:,}: {found}")
    assert found.none, found.faults
    assert not record.wrong_statuses
    assert max(seconds) < TAKE_OVER_SECONDS_MAX


def test_where_a_request_comes_from_is_the_proxys_to_say(scripted: Script) -> None:
    """Clients could give themselves any address, and https."""
    scripted.answers = [(200, {}, b"{}")]
    try:
        proxy = HaProxy([int(scripted.url.rpartition(":")[2])])
    except ServerError as error:
        missing(str(error))
    try:
        claims = {"X-Forwarded-For": "192.0.2.1", "X-Forwarded-Proto": "https"}
        wait_for(lambda: httpx.post(f"{proxy.url}/select", json={}, headers=claims, trust_env=False).is_success)
    finally:
        proxy.remove()
    (asked,) = [one for one in scripted.requests if one.method == "POST"]
    assert (asked.headers["x-forwarded-for"], asked.headers["x-forwarded-proto"]) == (HOST, "http")


def test_without_a_server_the_proxy_says_so(proxy: MakeProxy, servers: list[Server]) -> None:
    """A page of HTML, or a 502 without Retry-After, is nothing that clients are prepared for."""
    url = proxy(servers).url
    wait_until_both_serve(url, servers)
    for server in servers:
        server.kill()
    reply = httpx.post(f"{url}/select", json={"campaign_id": "ridge"}, trust_env=False)
    assert reply.status_code == httpx.codes.SERVICE_UNAVAILABLE
    assert reply.headers["Content-Type"] == "application/problem+json"
    assert reply.headers["Retry-After"] == "1"
    assert reply.json()["type"] == "urn:prudent:unavailable"
    for server in servers:
        server.start()
    wait_until_both_serve(url, servers)
    for path in ("/metrics", "/%6Detrics"):
        assert httpx.get(url + path, trust_env=False).status_code == httpx.codes.NOT_FOUND
