"""The erasure of a subject: nothing of it is left, and everything else is as if it had never been."""

from urllib.parse import quote

import httpx
import pytest

from prudent_client import Client
from tests.api.contract import Json, create, disjoint, multi_armed, new_id, ok, problem, select

STICKY = {"sticky_seconds": 366 * 86_400}


def erase(api: httpx.Client, campaign: str, subject: str) -> Json:
    return ok(api.delete(f"/campaigns/{campaign}/subjects/{quote(subject, safe='')}"))


def reward_for(api: httpx.Client, campaign: str, subject: str, value: float) -> Json:
    return ok(api.post("/reward", json={"campaign_id": campaign, "subject": subject, "reward": value}))


def play(api: httpx.Client, campaign: str, subjects: list[str]) -> None:
    for number, subject in enumerate(subjects):
        arm = "abc"[number % 3]
        select(api, campaign, subject=subject, context=[len(subject), number], chosen_arm_id=arm)
        reward_for(api, campaign, subject, len(subject) + number / 10)


def thetas(api: httpx.Client, campaign: str) -> list[float]:
    return [value for arm in ok(api.get(f"/campaigns/{campaign}/model"))["arms"] for value in arm["theta"]]


def test_what_is_erased_has_never_been(api: httpx.Client) -> None:
    """The model would still say what the person did."""
    for algorithm in ("linucb-cr", "linucb-onepass-cr"):
        settings = {"assignment": STICKY, "algorithm": {"name": algorithm, "warmup": 0, "floor": 0}}
        whole, less = create(api, disjoint(**settings)), create(api, disjoint(**settings))
        names = ["u", "vv", "www", "x/y ü", "zzzzz"]
        play(api, whole, names)
        for number, subject in enumerate(names):
            if subject != "x/y ü":
                select(api, less, subject=subject, context=[len(subject), number], chosen_arm_id="abc"[number % 3])
                reward_for(api, less, subject, len(subject) + number / 10)
        assert thetas(api, whole) != pytest.approx(thetas(api, less), rel=0.01)
        assert erase(api, whole, "x/y ü") == {"campaign_id": whole, "decisions": 1, "rows": 1}
        assert thetas(api, whole) == pytest.approx(thetas(api, less), rel=1e-9, abs=1e-9)
        reports = [ok(api.get(f"/campaigns/{one}/report"))["arms"] for one in (whole, less)]
        mine, theirs = ([(arm["plays"], arm["rewards"]) for arm in arms] for arms in reports)
        assert mine == theirs
        assert erase(api, whole, "x/y ü") == {"campaign_id": whole, "decisions": 0, "rows": 0}
        again = {"campaign_id": whole, "subject": "x/y ü", "reward": 1}
        problem(api.post("/reward", json=again), 404)
        assert select(api, whole, subject="x/y ü", context=[1, 1])["repeated"] is False


def test_corrections_and_decisions_without_a_reward_go_as_well(api: httpx.Client) -> None:
    """A reason that somebody wrote down may be the most personal of all."""
    campaign = create(api, multi_armed(assignment=STICKY))
    decision = select(api, campaign, subject="u")["decision_id"]
    reward_for(api, campaign, "u", 1)
    ok(api.post(f"/decisions/{decision}/correction", json={"reward": 2, "reason": "u called and complained"}))
    waiting = select(api, campaign, subject="v")["decision_id"]
    assert erase(api, campaign, "u")["rows"] == 2
    assert erase(api, campaign, "v") == {"campaign_id": campaign, "decisions": 1, "rows": 0}
    exported = api.get(f"/campaigns/{campaign}/export").text
    assert "complained" not in exported
    for gone in (decision, waiting):
        problem(api.get(f"/decisions/{gone}"), 404)
        problem(api.post(f"/decisions/{gone}/correction", json={"reward": 1, "reason": "x"}), 404)
        problem(api.post("/reward", json={"decision_id": gone, "reward": 1}), 404)
        assert gone not in exported
    assert select(api, campaign, subject="w")["repeated"] is False


def test_others_are_left_alone(api: httpx.Client) -> None:
    """An erasure in one campaign, or of one subject, must not reach another."""
    one, other = (create(api, multi_armed(assignment=STICKY)) for _ in range(2))
    kept = [select(api, campaign, subject="u") for campaign in (one, other)][1]
    beside = select(api, one, subject="uu")
    anew = create(api, multi_armed())
    made = [select(api, anew, subject="u")["decision_id"] for _ in range(3)]
    erase(api, one, "u")
    assert select(api, other, subject="u") == kept | {"repeated": True}
    assert select(api, one, subject="uu") == beside | {"repeated": True}
    assert erase(api, anew, "u")["decisions"] == 3
    for decision in made:
        problem(api.get(f"/decisions/{decision}"), 404)
    assert erase(api, create(api, multi_armed()), "nobody")["decisions"] == 0
    problem(api.delete(f"/campaigns/{new_id('none')}/subjects/u"), 404)
    problem(api.delete(f"/campaigns/{one}/subjects/{'x' * 257}"), 422, "subject")


def test_an_export_of_what_is_left_is_imported(api: httpx.Client) -> None:
    """The log's digest must still prove that nothing else was changed."""
    campaign = create(api, multi_armed(assignment=STICKY))
    for name in "abcde":
        select(api, campaign, subject=name)
        reward_for(api, campaign, name, 1)
    erase(api, campaign, "a")
    erase(api, campaign, "c")
    exported = api.get(f"/campaigns/{campaign}/export").text
    before = ok(api.get(f"/campaigns/{campaign}/model"))
    api.delete(f"/campaigns/{campaign}", params={"confirm": campaign})
    headers = {"Content-Type": "application/x-ndjson"}
    lines = exported.splitlines(keepends=True)
    place = next(number for number, line in enumerate(lines) if '"kind":"erasure"' in line)
    for spoilt in (
        lines[place].replace('"arm_id":""', '"arm_id":"a"'),
        lines[place].replace('"reward":0.0', '"reward":5.0'),
    ):
        body = "".join([*lines[:place], spoilt, *lines[place + 1 :]])
        assert "erased row" in problem(api.post("/import", content=body, headers=headers), 422)["detail"]
    assert api.post("/import", content=exported, headers=headers).status_code == 201
    after = ok(api.get(f"/campaigns/{campaign}/model"))
    assert [arm["theta"] for arm in after["arms"]] == [arm["theta"] for arm in before["arms"]]
    assert after["warnings"] == before["warnings"]
    assert api.get(f"/campaigns/{campaign}/export").text.splitlines()[1:-1] == exported.splitlines()[1:-1]


def test_the_client_erases(api: httpx.Client) -> None:
    """What the service can do, the client can."""
    campaign = create(api, multi_armed(assignment=STICKY))
    with Client(str(api.base_url), deadline_seconds=60) as client:
        client.select(campaign, subject="a b/c")
        assert client.erase_subject(campaign, "a b/c").decisions == 1
        assert client.erase_subject(campaign, "a b/c").decisions == 0
