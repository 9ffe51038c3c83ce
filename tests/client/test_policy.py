"""Both clients against a server that fails on order: what is tried again, when, and what becomes of the rest."""

import copy
import inspect
import pickle
import uuid
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import numpy as np
import orjson
import pytest

import prudent_client
from prudent_client import AsyncClient, Client, Observation, Retries, Reward, Select, new_id
from tests.client.conftest import Player
from tests.scripted import Answer, Script

BUSY: Answer = (503, {"retry-after": "2"}, b"{}")
DECISION = {
    "campaign_id": "c",
    "arm_id": "a",
    "estimate": 0.5,
    "bonus": 0.1,
    "index": 0.6,
    "reason": "index",
    "greedy_arm_id": "a",
    "exploring": False,
    "propensity": 1.0,
    "seen": 3,
    "observations": 3,
    "added later": 1,
}


def answer(content: object, status: int = 200) -> Answer:
    return status, {"content-type": "application/json", "x-request-id": "r-1"}, orjson.dumps(content)


def decision(name: str = "d", **more: Any) -> dict[str, Any]:
    return {"decision_id": name, **DECISION, **more}


def receipt(name: str, status: int = 200) -> dict[str, Any]:
    fields = {"campaign_id": "c", "arm_id": "a", "reward": 1.0, "sequence": 1, "observations": 1}
    fields |= {"duplicate": False, "learned": True}
    return {"status": status, "decision_id": name, **fields}


def test_a_busy_server_is_asked_again_when_it_says(scripted: Script, play: Player) -> None:
    """A 503 with Retry-After asks to come back; whoever comes back at once makes it worse."""
    scripted.answers = [BUSY, BUSY, answer(decision())]
    assert play(scripted.url, lambda client: client.select("c")).arm_id == "a"
    assert play.waited == [2.0, 2.0]


@pytest.mark.parametrize(("context", "attempts"), [({"targetingKey": "u"}, 2), ({"age": 3}, 1), ({}, 1)])
def test_a_flag_for_nobody_is_evaluated_once(
    scripted: Script, play: Player, context: dict[str, Any], attempts: int
) -> None:
    """With a targeting key the decision stands; without one a second attempt would be another decision."""
    flag = answer({"key": "f", "value": 1, "variant": "a", "reason": "SPLIT"})
    scripted.answers = [None, flag] if attempts == 2 else [None]
    if attempts == 2:
        assert play(scripted.url, lambda client: client.evaluate_flag("f", context)).value == 1
    else:
        with pytest.raises(prudent_client.UnreachableError):
            play(scripted.url, lambda client: client.evaluate_flag("f", context))
    assert len(scripted.requests) == attempts


@pytest.mark.parametrize(
    ("retry_after", "least", "most"),
    [
        ("3600", 5.0, 5.0),
        (format_datetime(datetime(2125, 1, 1, tzinfo=UTC), usegmt=True), 5.0, 5.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0, 0.0),
        ("soon", 0.05, 0.1),
        ("Fri, 31 Dec 9999 23:59:59 -0100", 0.05, 0.1),
        ("Mon, 01 Jan 99999999999 00:00:00 GMT", 0.05, 0.1),
    ],
)
def test_retry_after_is_understood(scripted: Script, play: Player, retry_after: str, least: float, most: float) -> None:
    """Proxies send dates and long times; a client that hangs for an hour looks broken."""
    scripted.answers = [(503, {"retry-after": retry_after}, b""), answer(decision())]
    play(scripted.url, lambda client: client.select("c"))
    (waited,) = play.waited
    assert least <= waited <= most


def test_a_lost_connection_is_tried_again_with_the_same_ids(scripted: Script, play: Player) -> None:
    """The first request may have been recorded: with another id it would be decided twice."""
    scripted.answers = [None, None, answer(decision())]
    play(scripted.url, lambda client: client.select("c", arms={"a": [1, 2]}))
    bodies = [orjson.loads(asked.body) for asked in scripted.requests]
    assert bodies[0] == bodies[1] == bodies[2]
    assert uuid.UUID(bodies[0]["decision_id"]).version == 7
    assert 0.05 <= play.waited[0] <= 0.1
    assert 0.1 <= play.waited[1] <= 0.2


def test_observations_get_ids_too(scripted: Script, play: Player) -> None:
    """Without one a repeated warm start would be learned twice."""
    scripted.answers = [None, answer({"accepted": 2, "duplicates": 0, "observations": 2, "head": 2})]
    items = [Observation(arm_id="a", reward=1), Observation(arm_id="a", reward=1)]
    assert play(scripted.url, lambda client: client.observe("c", items)).accepted == 2
    first, second = (orjson.loads(asked.body)["items"] for asked in scripted.requests)
    assert first == second
    assert len({one["observation_id"] for one in first}) == 2


@pytest.mark.parametrize("last", [None, BUSY])
def test_patience_has_an_end(scripted: Script, play: Player, last: Answer) -> None:
    """A service that is gone must become an error, not a program that hangs."""
    scripted.answers = [last]
    expected = prudent_client.UnreachableError if last is None else prudent_client.UnavailableError
    with pytest.raises(expected):
        play(scripted.url, lambda client: client.get_campaign("c"), retries=Retries(attempts=4))
    assert len(scripted.requests) == 4
    assert len(play.waited) == 3


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, prudent_client.AuthenticationError),
        (403, prudent_client.PermissionDeniedError),
        (404, prudent_client.NotFoundError),
        (409, prudent_client.ConflictError),
        (413, prudent_client.InvalidRequestError),
        (422, prudent_client.InvalidRequestError),
        (500, prudent_client.RejectedError),
    ],
)
def test_what_will_not_change_is_asked_once(scripted: Script, play: Player, status: int, kind: type[Exception]) -> None:
    """A wrong request repeated seven times is seven wrong requests."""
    problem = {"title": "T", "detail": "D", "errors": [{"field": "model.dimension", "message": "expected\n3"}]}
    scripted.answers = [answer(problem, status)]
    with pytest.raises(kind) as caught:
        play(scripted.url, lambda client: client.select("c"))
    error = caught.value
    assert type(error) is kind
    assert isinstance(error, prudent_client.RejectedError)
    assert (error.status, error.title, error.detail, error.request_id) == (status, "T", "D", "r-1")
    assert error.errors == (("model.dimension", "expected\n3"),)
    assert str(error) == f"the service answered {status}: T. D. model.dimension: expected 3"
    assert len(scripted.requests) == 1


def test_errors_can_leave_their_process(scripted: Script, play: Player) -> None:
    """A pool of processes would break, or wait for ever, with the first request that is refused."""
    problem = {"title": "Invalid", "detail": "no", "errors": [{"field": "arms", "message": "too few"}]}
    scripted.answers = [(422, {"x-request-id": "r"}, orjson.dumps(problem))]
    with pytest.raises(prudent_client.InvalidRequestError) as caught:
        play(scripted.url, lambda client: client.select("c"))
    for error in (caught.value, prudent_client.NotFoundError(404, "Not found", item="d")):
        for same in (pickle.loads(pickle.dumps(error)), copy.deepcopy(error)):  # noqa: S301  # our own
            assert (type(same), str(same), vars(same)) == (type(error), str(error), vars(error))


def test_a_message_says_it_once(scripted: Script, play: Player) -> None:
    """The service says in a sentence what it also lists; a log line would have both."""
    listed = [{"field": "context", "message": "expected 2 features"}, {"field": "arms", "message": "must be absent"}]
    scripted.answers = [answer({"title": "T", "detail": "context: expected 2 features", "errors": listed}, 422)]
    with pytest.raises(prudent_client.InvalidRequestError) as caught:
        play(scripted.url, lambda client: client.select("c"))
    assert str(caught.value) == "the service answered 422: T. context: expected 2 features. arms: must be absent"


@pytest.mark.parametrize("body", [b"<html>", b"[1]", b"", b'{"errors": 3, "title": null}'])
def test_a_proxys_error_page_is_still_an_error(scripted: Script, play: Player, body: bytes) -> None:
    """Proxies write pages of their own."""
    scripted.answers = [(404, {}, body)]
    with pytest.raises(prudent_client.NotFoundError, match="404"):
        play(scripted.url, lambda client: client.model("c"))


@pytest.mark.parametrize(
    "given",
    [(200, {}, b"<html>"), answer([1]), answer({}), answer(decision(estimate="high")), (302, {"location": "/"}, b"")],
)
def test_what_does_not_speak_the_contract_is_named(scripted: Script, play: Player, given: Answer) -> None:
    """Another web server at this address must not pass for ours."""
    scripted.answers = [given]
    with pytest.raises(prudent_client.UnexpectedReplyError):
        play(scripted.url, lambda client: client.select("c"))


@pytest.mark.parametrize("content", [{"items": []}, {"items": 3}, {"items": [{}]}, {"items": [{"status": 200}]}])
def test_a_batch_is_answered_item_for_item(scripted: Script, play: Player, content: object) -> None:
    """A reward would be taken for recorded that nobody has seen."""
    scripted.answers = [answer(content)]
    with pytest.raises(prudent_client.UnexpectedReplyError):
        play(scripted.url, lambda client: client.reward_batch([Reward("d", 1)]))


def test_a_failed_item_fails_no_other(scripted: Script, play: Player) -> None:
    """One decision that is gone would take the receipts of all others with it."""
    failed = {"status": 409, "title": "Conflict", "detail": "another reward is known", "errors": []}
    scripted.answers = [answer({"items": [receipt("d1"), failed]})]
    first, second = play(scripted.url, lambda client: client.reward_batch([Reward("d1", 1), Reward("d2", 1)]))
    assert first.decision_id == "d1"
    assert isinstance(second, prudent_client.ConflictError)
    assert (second.item, second.detail) == ("d2", "another reward is known")


def test_busy_items_alone_are_sent_again(scripted: Script, play: Player) -> None:
    """A campaign locked for a moment answers 503 for its items, in a batch that is otherwise done."""
    scripted.answers = [
        answer({"items": [receipt("d1"), {"status": 503}, receipt("d3")]}),
        answer({"items": [receipt("d2")]}),
    ]
    rewards = [Reward(name, 1) for name in ("d1", "d2", "d3")]
    got = play(scripted.url, lambda client: client.reward_batch(rewards))
    assert [one.decision_id for one in got] == ["d1", "d2", "d3"]
    assert orjson.loads(scripted.requests[1].body) == {"items": [{"decision_id": "d2", "reward": 1.0}]}


def test_batches_stay_within_the_limits(scripted: Script, play: Player) -> None:
    """The service takes at most 1,000 items and 4 MiB a request."""
    names = [f"d{number}" for number in range(2_500)]
    parts = [names[:1_000], names[1_000:2_000], names[2_000:]]
    scripted.answers = [answer({"items": [receipt(name) for name in part]}) for part in parts]
    got = play(scripted.url, lambda client: client.reward_batch([Reward(name, 1) for name in names]))
    assert [one.decision_id for one in got] == names
    assert [len(orjson.loads(asked.body)["items"]) for asked in scripted.requests] == [1_000, 1_000, 500]
    scripted.requests.clear()
    items = [{"decision_id": name, "padding": "x" * 1_500_000} for name in names[:5]]
    scripted.answers = [
        answer({"items": [receipt(name) for name in part]}) for part in (names[:2], names[2:4], names[4:5])
    ]
    play(scripted.url, lambda client: client.request_batch("/reward/batch", items))
    assert max(len(asked.body) for asked in scripted.requests) < 4 * 2**20
    assert len(scripted.requests) == 3


def test_an_empty_batch_asks_nothing(scripted: Script, play: Player) -> None:
    """The service refuses empty batches, so none is sent."""
    assert play(scripted.url, lambda client: client.select_batch([])) == []
    assert scripted.requests == []


def test_deleting_what_is_gone_is_done(scripted: Script, play: Player) -> None:
    """A deletion whose answer was lost is repeated, and finds nothing."""
    scripted.answers = [None, answer({"title": "Not Found"}, 404)]
    play(scripted.url, lambda client: client.delete_campaign("a~b"))
    asked = scripted.requests[-1]
    assert (asked.method, asked.path) == ("DELETE", "/campaigns/a~b?confirm=a~b")


def test_only_what_is_given_is_sent(scripted: Script, play: Player) -> None:
    """A default that a client repeats is one that the service can never change."""
    scripted.answers = [answer(decision())]
    play(scripted.url, lambda client: client.select("c", decision_id="d", eligible=["a"], explore=False))
    assert orjson.loads(scripted.requests[0].body) == {
        "campaign_id": "c",
        "decision_id": "d",
        "eligible": ["a"],
        "explore": False,
    }


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), np.float64("nan")])
def test_a_correction_to_no_number_takes_nothing_back(scripted: Script, play: Player, reward: float) -> None:
    """A mean of nothing, computed for a correction, would take the reward back in silence."""
    scripted.answers = [answer({})]
    with pytest.raises(ValueError, match="finite"):
        play(scripted.url, lambda client: client.correct("d", reward, "recomputed"))
    assert scripted.requests == []


def test_the_key_is_sent_and_not_shown(scripted: Script, play: Player) -> None:
    """A key in a traceback is a key in every log."""
    scripted.answers = [answer({}, 401)]
    with pytest.raises(prudent_client.AuthenticationError) as caught:
        play(scripted.url, lambda client: client.health(), api_key="the-key")
    assert scripted.requests[0].headers["x-api-key"] == "the-key"
    assert "the-key" not in str(caught.value)
    with pytest.raises(ValueError, match="printable") as refused:
        play(scripted.url, lambda client: client.health(), api_key="with\nnewline")
    assert "newline" not in str(refused.value)


def test_a_header_that_cannot_be_sent_is_named_and_not_shown(scripted: Script, play: Player) -> None:
    """Whoever pasted a key with a curly quote read of a codec and an ordinal, or saw the key in a log."""
    for value in ("Bearer schl\xfcssel", "Bearer schl\nssel"):
        with pytest.raises(ValueError, match="the header authorization must be printable ASCII") as refused:
            play(scripted.url, lambda client: client.health(), headers={"authorization": value})
        assert "schl" not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["localhost:8000", "ftp://localhost", "http://", "http://:port", "http://h/?a=b", "http://h/#a", ""]
)
def test_what_is_no_address_is_refused_at_once(url: str, play: Player) -> None:
    """A mistyped address would be tried seven times."""
    with pytest.raises(ValueError, match="URL"):
        play(url, lambda client: client.health())


@pytest.mark.parametrize("wrong", [{"attempts": 0}, {"first_pause_seconds": 9}, {"jitter": 1.5}])
def test_retries_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    """No attempt at all would return nothing, as if all were well."""
    with pytest.raises(ValueError, match="must"):
        Retries(**wrong)


def test_both_clients_have_the_same_calls() -> None:
    """Whoever moves to asyncio would miss a call, or an argument."""

    def calls(kind: type) -> dict[str, list[tuple[str, object, object]]]:
        return {
            name: [
                (one.name, one.default, str(one.annotation)) for one in inspect.signature(method).parameters.values()
            ]
            for name, method in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_")
        }

    assert calls(Client) == calls(AsyncClient)
    assert {"select", "reward", "select_batch", "reward_batch", "observe", "campaigns", "close"} <= calls(Client).keys()


def test_ids_are_ordered_by_time() -> None:
    """Random ids are several times slower to insert."""
    first, second = (Select(campaign_id="c").decision_id for _ in range(2))
    assert first[:8] <= second[:8]
    assert len({new_id() for _ in range(1_000)}) == 1_000
    assert all((uuid.UUID(one).version, uuid.UUID(one).variant) == (7, uuid.RFC_4122) for one in (first, second))
