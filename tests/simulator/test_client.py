"""The client against a server that fails on order."""

import socket

import orjson
import pytest

from simulator.client import (
    Client,
    ServerRejected,
    ServerUnreachable,
    UnexpectedReply,
)
from tests.simulator.conftest import Answer, Script

BUSY: Answer = (503, {"retry-after": "2"}, b"{}")


def answer(content: object, status: int = 200) -> Answer:
    return status, {"content-type": "application/json"}, orjson.dumps(content)


def receipt(decision: str, status: int = 200) -> dict[str, object]:
    return {
        "status": status,
        "decision_id": decision,
        "arm_id": "a",
        "observations": 1,
        "duplicate": False,
        "learned": True,
    }


def rewards(*decisions: str) -> list[dict[str, object]]:
    return [{"decision_id": decision, "reward": 1.0} for decision in decisions]


def test_a_busy_server_is_tried_again_when_it_says(scripted: Script) -> None:
    """A 503 with Retry-After is a request to come back, not a failure of the run."""
    scripted.answers = [BUSY, BUSY, answer({"campaign_id": "c"}, 201)]
    waited: list[float] = []
    with Client(scripted.url, sleep=waited.append) as client:
        assert client.create_campaign({"campaign_id": "c"}) == {"campaign_id": "c"}
    assert waited == [2.0, 2.0]
    assert len({asked.body for asked in scripted.requests}) == 1


def test_a_lost_connection_is_tried_again(scripted: Script) -> None:
    """The ids are the simulator's own, so the same request may be sent twice."""
    scripted.answers = [None, None, answer({"items": [receipt("d")]})]
    waited: list[float] = []
    with Client(scripted.url, sleep=waited.append) as client:
        assert [reply["decision_id"] for reply in client.reward_batch(rewards("d"))] == ["d"]
    assert waited == [0.1, 0.2]


@pytest.mark.parametrize("last", [None, BUSY])
def test_it_gives_up_in_the_end(scripted: Script, last: Answer) -> None:
    """A dead server must end the run rather than hang it."""
    scripted.answers = [last]
    waited: list[float] = []
    expected = ServerUnreachable if last is None else ServerRejected
    with Client(scripted.url, attempts=4, sleep=waited.append) as client, pytest.raises(expected):
        client.get_campaign("c")
    assert len(scripted.requests) == 4
    assert len(waited) == 3


def test_nobody_there_is_unreachable() -> None:
    """A closed port is named in the message."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with Client(url) as client, pytest.raises(ServerUnreachable, match=url):
            client.health()


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://localhost", "http://", "http://:port", ""])
def test_what_is_no_address_is_refused(url: str) -> None:
    """A mistyped address is an error of one line, not a traceback."""
    with pytest.raises(ServerUnreachable, match="address"):
        Client(url)


def test_a_rejection_carries_the_problem(scripted: Script) -> None:
    """Users must learn which field was wrong."""
    problem = {
        "type": "about:blank",
        "title": "Unprocessable",
        "status": 422,
        "detail": "wrong dimension",
        "errors": [{"field": "model.dimension", "message": "expected\n3"}],
    }
    scripted.answers = [(422, {"content-type": "application/problem+json"}, orjson.dumps(problem))]
    with Client(scripted.url) as client, pytest.raises(ServerRejected) as caught:
        client.create_campaign({"campaign_id": "c"})
    error = caught.value
    assert (error.status, error.title, error.detail) == (422, "Unprocessable", "wrong dimension")
    assert error.errors == (("model.dimension", "expected\n3"),)
    text = "the service answered 422: Unprocessable. wrong dimension. model.dimension: expected 3"
    assert str(error) == text
    assert len(scripted.requests) == 1


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b"", b'{"errors": 3, "title": null}'])
def test_an_error_without_a_problem_body_is_still_an_error(scripted: Script, body: bytes) -> None:
    """Proxies in front of the service write pages of their own."""
    scripted.answers = [(404, {}, body)]
    with Client(scripted.url) as client, pytest.raises(ServerRejected, match="404"):
        client.model("c")


@pytest.mark.parametrize("content", [[1, 2], {"items": []}, {"items": 3}, {"items": [{"status": 200}]}])
def test_answers_outside_the_contract_are_refused(scripted: Script, content: object) -> None:
    """Another web server under this address must not pass for ours."""
    scripted.answers = [answer(content)]
    with Client(scripted.url) as client, pytest.raises(UnexpectedReply):
        client.reward_batch(rewards("d"))


def test_one_failed_item_stops_the_batch_and_is_named(scripted: Script) -> None:
    """A run that went on without a reward would show a wrong curve."""
    failed = {"status": 409, "title": "Conflict", "detail": "another reward is known"}
    scripted.answers = [answer({"items": [receipt("d1"), failed]})]
    with (
        Client(scripted.url) as client,
        pytest.raises(ServerRejected, match=r"409 for decision d2: Conflict\. another reward is known"),
    ):
        client.reward_batch(rewards("d1", "d2"))


def test_busy_items_alone_are_sent_again(scripted: Script) -> None:
    """A campaign locked for a moment answers 503 for its items, in a batch that is otherwise done."""
    scripted.answers = [
        answer({"items": [receipt("d1"), {"status": 503}, receipt("d3")]}),
        answer({"items": [receipt("d2")]}),
    ]
    with Client(scripted.url, sleep=lambda _: None) as client:
        assert [reply["decision_id"] for reply in client.reward_batch(rewards("d1", "d2", "d3"))] == ["d1", "d2", "d3"]
    assert orjson.loads(scripted.requests[1].body) == {"items": rewards("d2")}


def test_items_that_stay_busy_fail(scripted: Script) -> None:
    """Patience has an end."""
    scripted.answers = [answer({"items": [{"status": 503, "detail": "locked"}]})]
    with (
        Client(scripted.url, attempts=3, sleep=lambda _: None) as client,
        pytest.raises(ServerRejected, match="503 for decision d: locked"),
    ):
        client.reward_batch(rewards("d"))
    assert len(scripted.requests) == 3


def test_batches_stay_within_the_limit_of_items(scripted: Script) -> None:
    """The service takes at most 1,000 items a call."""
    names = [f"d{number}" for number in range(2_500)]
    parts = [names[:1_000], names[1_000:2_000], names[2_000:]]
    scripted.answers = [answer({"items": [receipt(name) for name in part]}) for part in parts]
    with Client(scripted.url) as client:
        assert [reply["decision_id"] for reply in client.reward_batch(rewards(*names))] == names
    sent = [[item["decision_id"] for item in orjson.loads(asked.body)["items"]] for asked in scripted.requests]
    assert sent == parts


def test_batches_stay_within_the_limit_of_bytes(scripted: Script) -> None:
    """The service takes at most 16 MiB a call."""
    names = [f"d{number}" for number in range(5)]
    items = [{"decision_id": name, "padding": "x" * 6_000_000} for name in names]
    parts = [names[:2], names[2:4], names[4:]]
    scripted.answers = [answer({"items": [receipt(name) for name in part]}) for part in parts]
    with Client(scripted.url) as client:
        assert [reply["decision_id"] for reply in client.reward_batch(items)] == names
    assert max(len(asked.body) for asked in scripted.requests) < 16 * 1024 * 1024


def test_an_empty_batch_asks_nothing(scripted: Script) -> None:
    """The service refuses empty batches, so none is sent."""
    with Client(scripted.url) as client:
        assert client.select_batch([]) == []
    assert scripted.requests == []


def test_deleting_what_is_gone_is_no_error(scripted: Script) -> None:
    """A deletion whose answer was lost is repeated."""
    scripted.answers = [None, answer({"title": "Not Found"}, 404), answer({"title": "Conflict"}, 409)]
    with Client(scripted.url, sleep=lambda _: None) as client:
        client.delete_campaign("a~b")
        asked = scripted.requests[-1]
        assert (asked.method, asked.path) == ("DELETE", "/campaigns/a~b?confirm=a~b")
        with pytest.raises(ServerRejected):
            client.delete_campaign("c")


def test_headers_are_sent_with_every_call(scripted: Script) -> None:
    """A service with keys is reached too."""
    scripted.answers = [answer({})]
    with Client(scripted.url, headers={"authorization": "Bearer k"}) as client:
        assert client.health() == {}
    assert scripted.requests[0].headers["authorization"] == "Bearer k"
