"""What the simulator adds to the client: whatever fails ends the run. The rest is tested in tests/client."""

import socket

import orjson
import pytest

from prudent_client import Observation, RejectedError, UnexpectedReplyError, UnreachableError
from prudent_simulator.client import Client
from tests.scripted import Answer, Script


def answer(content: object, status: int = 200) -> Answer:
    return status, {"content-type": "application/json"}, orjson.dumps(content)


def receipt(decision: str, status: int = 200) -> dict[str, object]:
    fields: dict[str, object] = {"campaign_id": "c", "arm_id": "a", "reward": 1.0, "sequence": 1, "observations": 1}
    fields |= {"duplicate": False, "learned": True}
    return {"status": status, "decision_id": decision, **fields}


def rewards(*decisions: str) -> list[dict[str, object]]:
    return [{"decision_id": decision, "reward": 1.0} for decision in decisions]


def test_a_lost_connection_is_tried_again(scripted: Script) -> None:
    """A run of an hour would end with one broken connection."""
    scripted.answers = [None, None, answer({"items": [receipt("d")]})]
    waited: list[float] = []
    with Client(scripted.url, sleep=waited.append) as client:
        assert [reply["decision_id"] for reply in client.reward_batch(rewards("d"))] == ["d"]
    assert waited == [0.1, 0.2]


def test_nobody_there_is_unreachable() -> None:
    """A closed port is named in the message."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with Client(url) as client, pytest.raises(UnreachableError, match=url):
            client.health()


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://localhost", "http://", "http://:port", ""])
def test_what_is_not_a_url_is_refused(url: str) -> None:
    """A mistyped URL is an error of one line, not a traceback."""
    with pytest.raises(UnreachableError, match="URL"):
        Client(url)


@pytest.mark.parametrize("content", [[1, 2], {"items": []}, {"items": 3}, {"items": [{"status": 200}]}])
def test_answers_outside_the_contract_are_refused(scripted: Script, content: object) -> None:
    """Another web server under this address must not pass for ours."""
    scripted.answers = [answer(content)]
    with Client(scripted.url) as client, pytest.raises(UnexpectedReplyError):
        client.reward_batch(rewards("d"))


def test_one_failed_item_stops_the_batch_and_is_named(scripted: Script) -> None:
    """A run that went on without a reward would show a wrong curve."""
    failed = {"status": 409, "title": "Conflict", "detail": "another reward is known"}
    scripted.answers = [answer({"items": [receipt("d1"), failed]})]
    with (
        Client(scripted.url) as client,
        pytest.raises(RejectedError, match=r"409 for decision d2: Conflict\. another reward is known"),
    ):
        client.reward_batch(rewards("d1", "d2"))


def test_items_that_stay_busy_fail(scripted: Script) -> None:
    """Patience has an end."""
    scripted.answers = [answer({"items": [{"status": 503, "detail": "locked"}]})]
    with (
        Client(scripted.url, attempts=3, sleep=lambda _: None) as client,
        pytest.raises(RejectedError, match="503 for decision d: locked"),
    ):
        client.reward_batch(rewards("d"))
    assert len(scripted.requests) == 3


def test_every_observation_is_accounted_for(scripted: Script) -> None:
    """A log that was learned in part would be judged as a whole."""
    scripted.answers = [answer({"accepted": 1, "duplicates": 0, "observations": 1, "head": 1})]
    items = [Observation(arm_id="a", reward=1.0)] * 2
    with Client(scripted.url) as client, pytest.raises(UnexpectedReplyError, match="account"):
        client.observe("c", items)


def test_headers_are_sent_with_every_call(scripted: Script) -> None:
    """A service with keys is reached too."""
    scripted.answers = [answer({"status": "ok"})]
    with Client(scripted.url, headers={"authorization": "Bearer k"}) as client:
        client.health()
    assert scripted.requests[0].headers["authorization"] == "Bearer k"
