"""Corrections of rewards and restarts over HTTP, and by the client: what they answer, and what they refuse."""

import httpx
import pytest

from prudent_client import Client, ConflictError, InvalidRequestError, NotFoundError
from tests.api.contract import Json, create, multi_armed, new_id, ok, problem, reward, select


def corrected(api: httpx.Client, decision_id: str, body: Json) -> httpx.Response:
    return api.post(f"/decisions/{decision_id}/correction", json=body)


def estimates(api: httpx.Client, campaign: str) -> dict[str, float | None]:
    return {arm["arm_id"]: arm["theta"][0] for arm in ok(api.get(f"/campaigns/{campaign}/model"))["arms"]}


def played(api: httpx.Client, campaign: str, rewards: list[float]) -> list[str]:
    """Decisions for the arm a with these rewards."""
    ids = []
    for value in rewards:
        decision = select(api, campaign, chosen_arm_id="a")
        reward(api, decision["decision_id"], value)
        ids.append(decision["decision_id"])
    return ids


def test_a_correction_is_learned_as_if_it_had_been_so(api: httpx.Client) -> None:
    """A unit that was wrong for a day would stay in the estimates for good."""
    wrong, right = create(api, multi_armed()), create(api, multi_armed())
    ids = played(api, wrong, [1.0, 100.0, 3.0])
    played(api, right, [1.0, 2.0, 3.0])
    answer = ok(corrected(api, ids[1], {"reward": 2.0, "reason": "in cents"}))
    assert answer == {
        "decision_id": ids[1],
        "campaign_id": wrong,
        "arm_id": "a",
        "reward": 2.0,
        "previous": 100.0,
        "original": 100.0,
        "sequence": 4,
        "corrects": 2,
        "duplicate": False,
    }
    assert estimates(api, wrong) == pytest.approx(estimates(api, right), rel=1e-9)
    again = ok(corrected(api, ids[1], {"reward": 2.0, "reason": "in cents"}))
    assert (again["duplicate"], again["sequence"]) == (True, 4)
    taken = ok(corrected(api, ids[2], {"reward": None, "reason": "a test order"}))
    assert (taken["reward"], taken["previous"]) == (None, 3.0)
    fewer = create(api, multi_armed())
    played(api, fewer, [1.0, 2.0])
    assert estimates(api, wrong) == pytest.approx(estimates(api, fewer), rel=1e-9)


def test_a_correction_that_makes_no_sense_changes_nothing(api: httpx.Client) -> None:
    """Each is a clear answer, and the log is as it was."""
    campaign = create(api, multi_armed(reward={"minimum": 0, "maximum": 10}))
    (rewarded,) = played(api, campaign, [1.0])
    waiting = select(api, campaign)["decision_id"]
    before = ok(api.get(f"/campaigns/{campaign}"))
    good = {"reward": 2, "reason": "because"}
    problem(corrected(api, new_id("none"), good), 404)
    problem(corrected(api, waiting, good), 409)
    problem(corrected(api, rewarded, good | {"reward": 11}), 422, "reward")
    reasons = [("reason", text) for text in ("", "x" * 501, "a\x00b")]
    for field, value in (("reward", "2"), ("reward", True), *reasons, ("unknown", 1)):
        problem(corrected(api, rewarded, good | {field: value}), 422, field)
    for missing in good:
        problem(corrected(api, rewarded, {name: good[name] for name in good if name != missing}), 422, missing)
    problem(api.post(f"/campaigns/{campaign}/restart", json={"from": 2}), 422, "from")
    for value in (0, -1, 1.5, "1", None, 2**53):
        problem(api.post(f"/campaigns/{campaign}/restart", json={"from": value}), 422, "from")
    problem(api.post(f"/campaigns/{new_id('none')}/restart", json={"from": 1}), 404)
    assert ok(api.get(f"/campaigns/{campaign}")) == before


def test_the_client_corrects_and_restarts(api: httpx.Client) -> None:
    """What has a route of its own has a method, with the errors of every other one."""
    campaign = create(api, multi_armed())
    first, _ = played(api, campaign, [1.0, 3.0])
    fewer = create(api, multi_armed())
    played(api, fewer, [3.0])
    with Client(str(api.base_url), deadline_seconds=60) as client:
        assert client.correct(first, 2.0, "a slip").previous == 1.0
        assert client.restart(campaign, 2).campaign_id == campaign
        assert estimates(api, campaign) == pytest.approx(estimates(api, fewer), rel=1e-9)
        assert client.restart(campaign, 1).campaign_id == campaign
        assert estimates(api, campaign)["a"] == pytest.approx(2.5, rel=0.5)
        with pytest.raises(NotFoundError):
            client.correct(new_id("none"), 1.0, "x")
        with pytest.raises(ConflictError):
            client.correct(select(api, campaign)["decision_id"], 1.0, "x")
        with pytest.raises(InvalidRequestError, match="from"):
            client.restart(campaign, 99)
