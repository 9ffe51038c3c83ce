"""Both clients against the real service, and over a connection that is cut before the answer comes."""

import asyncio
import contextlib
import select
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from prudent_client import (
    AsyncClient,
    AuthenticationError,
    Client,
    ConflictError,
    Decision,
    InvalidRequestError,
    NotFoundError,
    Observation,
    PermissionDeniedError,
    Receipt,
    Reward,
    Select,
    UnreachableError,
    new_id,
)
from tests.client.conftest import Player
from tests.commands import prudent
from tests.conftest import MakeServer
from tests.servers import HOST, Server, free_port

KEY = "a-key-of-more-than-32-characters-for-tests"


def campaign(name: str, **changes: object) -> dict[str, object]:
    return {
        "campaign_id": name,
        "risk": {"measure": "expectile", "level": 0.1},
        "model": {"type": "shared", "dimension": 2},
        "arms": [{"arm_id": "a", "features": [1, 0]}, {"arm_id": "b", "features": [0, 1]}],
        "algorithm": {"warmup": 0},
    } | changes


def test_the_whole_story(server_url: str) -> None:
    """What the documentation shows must work as a whole."""
    name = new_id()
    with Client(server_url, deadline_seconds=60) as client:
        assert client.health().status == "ok"
        created = client.create_campaign(campaign(name))
        assert created == client.create_campaign(campaign(name)) == client.get_campaign(name)
        assert name in {one.campaign_id for one in client.campaigns()}
        assert client.change_campaign(name, description="new").description == "new"
        assert client.add_arm(name, "c", np.array([0.5, 0.5])).features == (0.5, 0.5)
        assert client.change_arm(name, "c", "retired").status == "retired"
        receipt = client.observe(name, [Observation(arm_id="a", reward=0.5, features=[1, 0])])
        assert (receipt.accepted, receipt.observations, receipt.head) == (1, 1, 1)
        receipt = client.observe(name, [])
        assert (receipt.accepted, receipt.observations, receipt.head) == (0, 1, 1)
        decision = client.select(name, arms={"a": np.array([0.9, 0.1]), "new": [0.1, 0.9]}, explain=True)
        assert decision.arms is not None
        assert {one.arm_id for one in decision.arms} == {"a", "new"}
        assert (decision.seen, decision.observations) == (1, 1)
        first = client.reward(decision.decision_id, 0.7)
        assert (first.sequence, first.observations) == (2, 2)
        assert client.reward(decision.decision_id, 0.7) == first.model_copy(update={"duplicate": True})
        with pytest.raises(ConflictError):
            client.reward(decision.decision_id, 0.8)
        with pytest.raises(InvalidRequestError, match="features"):
            client.select(name, arms={"a": [1, 2, 3]})
        decided = client.select_batch([Select(campaign_id=name), Select(campaign_id="nobody")])
        assert isinstance(decided[0], Decision)
        assert isinstance(decided[1], NotFoundError)
        (rewarded,) = client.reward_batch([Reward(decided[0].decision_id, 1)])
        assert isinstance(rewarded, Receipt)
        assert client.model(name).observations == 3
        assert client.request("GET", f"/campaigns/{name}")["campaign_id"] == name
        client.delete_campaign(name)
        client.delete_campaign(name)
        with pytest.raises(NotFoundError):
            client.get_campaign(name)


def test_many_at_once(server_url: str) -> None:
    """The asynchronous client is there to wait for many answers at once."""
    name = new_id()

    async def run() -> int:
        async with AsyncClient(server_url, deadline_seconds=60) as client:
            await client.create_campaign(campaign(name))
            decisions = await asyncio.gather(*(client.select(name) for _ in range(40)))
            await asyncio.gather(*(client.reward(one.decision_id, 0.5) for one in decisions))
            assert name in [one.campaign_id async for one in client.campaigns()]
            return (await client.model(name)).observations

    assert asyncio.run(run()) == 40


def test_campaigns_are_read_page_by_page(server_url: str) -> None:
    """With more than a hundred campaigns the rest would be missing."""
    prefix = new_id()
    with Client(server_url, deadline_seconds=60) as client:
        names = [f"{prefix}-{number:03d}" for number in range(101)]
        for name in names:
            client.create_campaign({"campaign_id": name, "risk": {"measure": "mean"}, "model": {"type": "multi-armed"}})
        assert [one.campaign_id for one in client.campaigns() if one.campaign_id.startswith(prefix)] == names
        for name in names:
            client.delete_campaign(name)


def test_keys_and_roles_have_errors_of_their_own(make_server: MakeServer, sqlite_database: str, play: Player) -> None:
    """A wrong key and one that may not do this are repaired by different people."""
    server = make_server(sqlite_database, environment={"PRUDENT_ADMIN_KEY": KEY})
    made = prudent("keys", "create", "reports", "--role", "reader", "--database-url", sqlite_database)
    reader = made.stdout.strip()
    assert play(server.url, lambda client: client.health()).status == "ok"
    with pytest.raises(AuthenticationError):
        play(server.url, lambda client: client.get_campaign("c"))
    with pytest.raises(NotFoundError):
        play(server.url, lambda client: client.get_campaign("c"), api_key=KEY)
    deadline = time.monotonic() + 30  # until the running worker knows the new key
    while True:
        try:
            play(server.url, lambda client: client.select("c"), api_key=reader)
        except PermissionDeniedError:
            break
        except AuthenticationError:
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_nobody_there(play: Player) -> None:
    """The address that was tried belongs into the message."""
    url = f"http://{HOST}:{free_port()}"
    with pytest.raises(UnreachableError, match=url):
        play(url, lambda client: client.get_campaign("c"))
    assert len(play.waited) == 6


@dataclass
class Cutter:
    """A proxy that lets the first requests through to the service, and cuts the connection before the answer."""

    server: Server
    cuts: int
    url: str = ""

    def serve(self, listening: socket.socket) -> None:
        with contextlib.suppress(OSError):  # closed: the test is over
            while True:
                accepted, _ = listening.accept()
                with accepted, socket.create_connection((HOST, self.server.port), timeout=10) as service:
                    self._pass_on(accepted, service)

    def _pass_on(self, accepted: socket.socket, service: socket.socket) -> None:
        while True:
            readable, _, _ = select.select([accepted, service], [], [], 30)
            if accepted in readable:  # a request may come in pieces
                data = accepted.recv(65_536)
                if not data:
                    return
                service.sendall(data)
            if service in readable:
                data = service.recv(65_536)  # when it answers, the decision is recorded
                if not data:
                    return
                if self.cuts > 0:
                    self.cuts -= 1
                    return
                accepted.sendall(data)


@pytest.fixture
def cutter(server: Server) -> Iterator[Cutter]:
    """The shared server behind a proxy that cuts the next two connections."""
    found = Cutter(server, cuts=2)
    with socket.create_server((HOST, 0)) as listening:
        found.url = f"http://{HOST}:{listening.getsockname()[1]}"
        thread = threading.Thread(target=found.serve, args=(listening,), daemon=True)
        thread.start()
        yield found
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(10)


def test_a_cut_connection_decides_and_learns_once(cutter: Cutter, play: Player) -> None:
    """The service has recorded what nobody was told: asked again, it must not decide or learn a second time."""
    name = new_id()
    with Client(cutter.server.url, deadline_seconds=60) as direct:
        direct.create_campaign(campaign(name))
        decision = play(cutter.url, lambda client: client.select(name))
        assert len(play.waited) == 2
        assert direct.select(name, decision_id=decision.decision_id) == decision
        cutter.cuts = 2
        receipt = play(cutter.url, lambda client: client.reward(decision.decision_id, 0.5))
        assert receipt.duplicate  # an earlier attempt was learned
        assert len(play.waited) == 4
        assert direct.model(name).observations == 1


@pytest.mark.parametrize("infinite", [float("inf"), float("-inf"), np.float32("inf")])
def test_an_infinite_value_is_not_taken_for_a_missing_one(server_url: str, infinite: float) -> None:
    """A ratio by zero would be decided, and learned, like a value that nobody knows."""
    name = new_id()
    features = [{"name": "ratio", "missing": "indicator"}, {"name": "plan", "kind": "category", "capacity": 3}]
    model = {"type": "disjoint", "features": features}
    with Client(server_url, deadline_seconds=60) as client:
        client.create_campaign(campaign(name, model=model, arms=[{"arm_id": "a"}]))
        with pytest.raises(InvalidRequestError, match=r"context\.ratio"):
            client.select(name, context={"ratio": infinite, "plan": "free"})
        with pytest.raises(InvalidRequestError, match=r"context\.plan"):
            client.select(name, context={"ratio": 1, "plan": infinite})
        with pytest.raises(InvalidRequestError, match=r"ratio"):
            client.evaluate_flag(name, {"ratio": infinite, "plan": "free"})
        assert client.select(name, context={"ratio": float("nan"), "plan": "free"}).arm_id == "a"


def test_ids_of_dots_reach_no_other_call(server_url: str) -> None:
    """A misread arm's id would pause the whole campaign, and a subject of such a name could never be erased."""
    name = new_id()
    with Client(server_url, deadline_seconds=60) as client:
        client.create_campaign(campaign(name))
        for dots in (".", ".."):
            with pytest.raises(NotFoundError, match="no such arm"):
                client.change_arm(name, dots, "paused")
            with pytest.raises(NotFoundError, match="no such decision"):
                client.get_decision(dots)
            with pytest.raises(NotFoundError, match="no such campaign"):
                client.evaluate_flag(dots, {})
            client.select(name, subject=dots)
            assert client.erase_subject(name, dots).decisions == 1
        assert client.get_campaign(name).status == "active"
