"""POST /select: who is chosen, why, and what the reply says."""

from collections.abc import Callable

import httpx
import pytest

from tests.api.contract import (
    Json,
    create,
    disjoint,
    model,
    multi_armed,
    new_id,
    ok,
    on_sqlite,
    problem,
    read,
    reward,
    select,
    shared,
    stored,
    teach,
)

FIELDS = {
    "decision_id",
    "campaign_id",
    "arm_id",
    "value",
    "estimate",
    "bonus",
    "index",
    "reason",
    "greedy_arm_id",
    "exploring",
    "propensity",
    "seen",
    "observations",
}
SCORES = ("estimate", "bonus", "index")
"""The last one is the decision's own, by its draw; the others are the state's."""
LISTED = [{"arm_id": "a", "features": [0.9, 0.1]}, {"arm_id": "b", "features": [0.1, 0.9]}]
MODELS = pytest.mark.parametrize(
    ("make", "fields"),
    [(shared, {}), (shared, {"arms": LISTED}), (disjoint, {"context": [1, 2]}), (multi_armed, {})],
    ids=["registered", "listed", "disjoint", "multi-armed"],
)


def taught(api: httpx.Client, request: Json, best: str, **fields: object) -> str:
    """A campaign in which one arm was rewarded 1 and the others 0, ten times each."""
    campaign_id = create(api, request)
    names = [arm["arm_id"] for arm in request["arms"]]
    teach(api, campaign_id, [(name, 1.0 if name == best else 0.0) for name in names for _ in range(10)], **fields)
    return campaign_id


@MODELS
def test_reply(api: httpx.Client, make: Callable[[], Json], fields: Json) -> None:
    """A client written from the contract would miss a field, or get one it does not know."""
    campaign_id = create(api, make())
    body = select(api, campaign_id, **fields)
    assert set(body) == FIELDS
    assert body["campaign_id"] == campaign_id
    assert (body["seen"], body["observations"], body["reason"]) == (0, 0, "index")
    assert body["exploring"] is (body["arm_id"] != body["greedy_arm_id"])
    others = [select(api, campaign_id, **fields)["decision_id"] for _ in range(3)]
    assert len({body["decision_id"], *others}) == 4
    explained = select(api, campaign_id, explain=True, **fields)
    assert set(explained) == FIELDS | {"arms"}
    assert {one["arm_id"] for one in explained["arms"]} == ({"a", "b"} if make is shared else {"a", "b", "c"})
    shown = {
        "arm_id",
        "estimate",
        "bonus",
        "index",
        "propensity",
        "interval",
        "interval_note",
        "contributions",
        "limits",
    }
    assert all(set(one) == shown for one in explained["arms"])
    multipliers = [(one["index"] - one["estimate"]) / one["bonus"] for one in explained["arms"]]
    assert multipliers == pytest.approx([multipliers[0]] * len(multipliers))  # one draw for all arms
    assert multipliers[0] >= 0


@MODELS
def test_the_optimistic_index(api: httpx.Client, make: Callable[..., Json], fields: Json) -> None:
    """With the paper's rule the index would not be the one that the theorem is about."""
    campaign_id = create(api, make(algorithm={"warmup": 0, "exploration_rule": "optimistic"}))
    body = select(api, campaign_id, **fields)
    assert body["index"] == pytest.approx(body["estimate"] + body["bonus"])


@MODELS
def test_best_arm_is_learned(api: httpx.Client, make: Callable[[], Json], fields: Json) -> None:
    """Rewards would be stored and not learned, or would teach another arm than the one they were for."""
    campaign_id = taught(api, make(), "b", **fields)
    assert model(api, campaign_id)["observations"] == 10 * (2 if make is shared else 3)
    body = select(api, campaign_id, explain=True, **fields)
    assert body["greedy_arm_id"] == "b"
    assert body["estimate"] == pytest.approx({item["arm_id"]: item["estimate"] for item in body["arms"]}["b"])
    indexes = [one["index"] for one in body["arms"]]
    assert indexes == sorted(indexes, reverse=True)
    assert (body["arms"][0]["arm_id"], body["arms"][0]["index"]) == (body["arm_id"], body["index"])
    assert body["seen"] == body["observations"] == 10 * len(body["arms"])


@MODELS
def test_greedy(api: httpx.Client, make: Callable[[], Json], fields: Json) -> None:
    """Where exploring is not allowed (at night, for VIPs), it would explore all the same."""
    request = make() | {"algorithm": {"warmup": 1_000, "exploration": 100}}
    campaign_id = taught(api, request, "b", **fields)
    body = select(api, campaign_id, explore=False, **fields)
    assert (body["reason"], body["arm_id"], body["greedy_arm_id"], body["exploring"]) == ("greedy", "b", "b", False)
    assert body["propensity"] == 1
    assert select(api, campaign_id, **fields)["reason"] == "warmup"


@MODELS
def test_restricted_choice(api: httpx.Client, make: Callable[[], Json], fields: Json) -> None:
    """B33. An arm that is out of stock would be offered, or one outside the allowed subset."""
    campaign_id = taught(api, make(), "b", **fields)
    only = select(api, campaign_id, eligible=["a"], explain=True, **fields)
    assert (only["arm_id"], only["reason"], only["propensity"]) == ("a", "only-arm", 1)
    assert [one["arm_id"] for one in only["arms"]] == ["a"]
    assert (only["greedy_arm_id"], only["exploring"]) == ("a", False)
    for _ in range(5):
        assert select(api, campaign_id, exclude=["b"], **fields)["arm_id"] != "b"
    both = select(api, campaign_id, eligible=["a", "b"], exclude=["a"], **fields)
    assert (both["arm_id"], both["reason"]) == ("b", "only-arm")
    assert select(api, campaign_id, eligible=["b", "a"], exclude=[], explore=False, **fields)["arm_id"] == "b"


@MODELS
def test_more_places_by_selecting_again(api: httpx.Client, make: Callable[[], Json], fields: Json) -> None:
    """X16. A page with two places would show one arm twice, or a worse one above a better one."""
    request = make()
    campaign_id = taught(api, request, "b", **fields)
    names = [arm["arm_id"] for arm in request["arms"]]
    before = read(api, campaign_id)["observations"]
    places: list[Json] = []
    for _ in names:
        asked: Json = {"exclude": [one["arm_id"] for one in places], "explore": False, "decision_id": new_id("place")}
        places.append(select(api, campaign_id, **asked, **fields))
        assert select(api, campaign_id, **asked, **fields) == places[-1]
    assert places[0]["arm_id"] == "b"
    assert sorted(one["arm_id"] for one in places) == names
    assert all(one["estimate"] < places[0]["estimate"] for one in places[1:])
    full = {"campaign_id": campaign_id, "exclude": names, **fields}
    problem(api.post("/select", json=full), 422, "arms")
    rewarded = [reward(api, one["decision_id"], 0.5) for one in places]
    assert [(one["arm_id"], one["sequence"] - before) for one in rewarded] == [
        (one["arm_id"], number) for number, one in enumerate(places, start=1)
    ]


@MODELS
@pytest.mark.parametrize(
    ("restriction", "field"),
    [
        ({"eligible": []}, "eligible"),
        ({"eligible": ["unknown"]}, "eligible"),
        ({"eligible": ["a", "unknown"]}, "eligible"),
        ({"eligible": ["a", "a"]}, "eligible"),
        ({"exclude": ["unknown"]}, "exclude"),
        ({"exclude": ["b", "b"]}, "exclude"),
        ({"exclude": ["a"], "eligible": ["a"]}, "arms"),
        ({"chosen_arm_id": "unknown"}, "chosen_arm_id"),
    ],
    ids=str,
)
@on_sqlite
def test_restriction_that_makes_no_sense(
    api: httpx.Client, make: Callable[[], Json], fields: Json, restriction: Json, field: str
) -> None:
    """B33. A typing error in the allowed subset would silently widen or narrow the choice."""
    campaign_id = create(api, make())
    before = stored(api, campaign_id)
    decision_id = new_id("refused")
    request = {"campaign_id": campaign_id, "decision_id": decision_id, **fields, **restriction}
    problem(api.post("/select", json=request), 422, field)
    assert stored(api, campaign_id) == before
    assert select(api, campaign_id, decision_id=decision_id, **fields)["decision_id"] == decision_id


@MODELS
def test_external_choice(api: httpx.Client, make: Callable[[], Json], fields: Json) -> None:
    """An override would be learned for the arm that we would have chosen, and its propensity made up."""
    campaign_id = taught(api, make(), "b", **fields)
    usual = select(api, campaign_id, explain=True, explore=False, **fields)
    body = select(api, campaign_id, chosen_arm_id="a", explore=False, **fields)
    assert set(body) == FIELDS | {"recommended_arm_id"}
    assert (body["arm_id"], body["reason"], body["propensity"]) == ("a", "external", None)
    assert (body["recommended_arm_id"], body["greedy_arm_id"], body["exploring"]) == ("b", "b", True)
    scored = {one["arm_id"]: one for one in usual["arms"]}["a"]
    assert {name: body[name] for name in SCORES[:2]} == pytest.approx({name: scored[name] for name in SCORES[:2]})
    assert reward(api, body["decision_id"], 0)["arm_id"] == "a"
    agreed = select(api, campaign_id, chosen_arm_id="b", explore=False, **fields)
    assert (agreed["reason"], agreed["recommended_arm_id"], agreed["exploring"]) == ("external", "b", False)
    # an override may be an arm that we would not have been allowed to recommend
    outside = select(api, campaign_id, chosen_arm_id="a", eligible=["b"], **fields)
    assert (outside["arm_id"], outside["reason"], outside["recommended_arm_id"]) == ("a", "external", "b")


def test_external_choice_counts_towards_warmup(api: httpx.Client) -> None:
    """Arms that people have tried already would be tried again."""
    campaign_id = create(api, multi_armed(algorithm={"warmup": 1}))
    for name in "ab":
        select(api, campaign_id, chosen_arm_id=name)
    body = select(api, campaign_id)
    assert (body["arm_id"], body["reason"], body["propensity"]) == ("c", "warmup", 1)
    assert select(api, campaign_id)["reason"] == "index"


def test_order_of_reasons(api: httpx.Client) -> None:
    """An analyst who splits decisions by reason would put them into the wrong group."""
    campaign_id = create(api, multi_armed(algorithm={"warmup": 1}))
    one = ["a"]
    external = select(api, campaign_id, chosen_arm_id="a", eligible=one, explore=False)
    only = select(api, campaign_id, eligible=one, explore=False)
    greedy = select(api, campaign_id, explore=False)
    warmup = select(api, campaign_id, eligible=["b", "c"])
    assert [each["reason"] for each in (external, only, greedy, warmup)] == [
        "external",
        "only-arm",
        "greedy",
        "warmup",
    ]
    reasons = [select(api, campaign_id)["reason"] for _ in range(3)]
    assert reasons[-1] == "index"
    assert set(reasons) <= {"warmup", "index"}


def test_warmup_order(api: httpx.Client) -> None:
    """Some arms would get all of the warm-up's plays, or decisions that are still pending would not count."""
    campaign_id = create(api, multi_armed(algorithm={"warmup": 2}))
    chosen = [select(api, campaign_id) for _ in range(7)]
    assert [one["reason"] for one in chosen] == ["warmup"] * 6 + ["index"]
    assert sorted(one["arm_id"] for one in chosen[:3]) == ["a", "b", "c"]
    assert sorted(one["arm_id"] for one in chosen[3:6]) == ["a", "b", "c"]
    assert [one["propensity"] for one in chosen[:6]] == pytest.approx([1 / 3, 1 / 2, 1] * 2)
    assert {one["seen"] for one in chosen} == {0}


def test_warmup_of_the_eligible_arms(api: httpx.Client) -> None:
    """An arm that is rarely eligible would keep every other request in its warm-up."""
    campaign_id = create(api, multi_armed(algorithm={"warmup": 1}))
    reasons = [select(api, campaign_id, eligible=["a", "b"])["reason"] for _ in range(3)]
    assert reasons == ["warmup", "warmup", "index"]
    body = select(api, campaign_id)
    assert (body["arm_id"], body["reason"]) == ("c", "warmup")


def test_ties_are_broken_by_the_seed(api: httpx.Client) -> None:
    """Ties would go to the first arm, or a run with ids of its own could not be reproduced."""
    first, again, other = (create(api, multi_armed(seed=seed)) for seed in (1, 1, 2))
    ids = [new_id("tie") for _ in range(60)]
    chosen: list[list[str]] = []
    for campaign_id in (first, again, other):
        items = [{"campaign_id": campaign_id, "decision_id": decision_id} for decision_id in ids]
        answers = ok(api.post("/select/batch", json={"items": items}))["items"]
        assert [one["propensity"] for one in answers] == pytest.approx([1 / 3] * 60)
        chosen.append([one["arm_id"] for one in answers])
        # the same ids in another campaign are conflicts: delete in between
        assert api.delete(f"/campaigns/{campaign_id}", params={"confirm": campaign_id}).status_code == 204
    assert chosen[0] == chosen[1] != chosen[2]
    assert all(min(run.count(name) for name in "abc") >= 8 for run in chosen), chosen


def test_registered_features_may_be_left_out(api: httpx.Client) -> None:
    """A client would have to repeat the features of every arm in every request."""
    campaign_id = taught(api, shared(algorithm={"warmup": 0, "exploration_rule": "optimistic"}), "b")
    spelled_out = [{"arm_id": "a", "features": [1, 0]}, {"arm_id": "b", "features": [0, 1]}]
    expected = select(api, campaign_id, explain=True, arms=spelled_out)["arms"]
    assert select(api, campaign_id, explain=True)["arms"] == expected
    assert select(api, campaign_id, explain=True, arms=[{"arm_id": "a"}, {"arm_id": "b"}])["arms"] == expected
    mixed = [{"arm_id": "a", "features": [0, 1]}, {"arm_id": "b"}]
    both = select(api, campaign_id, explain=True, arms=mixed)["arms"]
    assert both[0]["estimate"] == pytest.approx(both[1]["estimate"])  # the features sent are the ones used


def test_unregistered_arms(api: httpx.Client) -> None:
    """A catalogue that changes by the hour would have to be registered before it can be ranked."""
    campaign_id = taught(api, shared(algorithm={"warmup": 3}), "b")
    arms = [{"arm_id": f"item-{number}", "features": [1 - number / 4, number / 4]} for number in range(5)]
    body = select(api, campaign_id, arms=arms, explain=True)
    assert (body["reason"], body["greedy_arm_id"]) == ("index", "item-4")
    assert {one["arm_id"] for one in body["arms"]} == {arm["arm_id"] for arm in arms}
    assert select(api, campaign_id, arms=arms, eligible=["item-2"])["arm_id"] == "item-2"
    before = model(api, campaign_id)
    assert reward(api, body["decision_id"], 1)["arm_id"] == body["arm_id"]
    after = model(api, campaign_id)
    assert after["theta"] != before["theta"]
    assert [arm["arm_id"] for arm in after["arms"]] == ["a", "b"]
    # a registered arm that is below its warm-up goes first, an unregistered one has none
    mixed = [*arms, {"arm_id": "c", "features": [0, 0.5]}]
    ok(api.post(f"/campaigns/{campaign_id}/arms", json={"arm_id": "c"}), 201)
    body = select(api, campaign_id, arms=mixed)
    assert (body["arm_id"], body["reason"], body["propensity"]) == ("c", "warmup", 1)


def test_arm_without_features(api: httpx.Client) -> None:
    """An arm of which nothing is known would be scored as if its features were zero."""
    campaign_id = create(api, shared(arms=[*shared()["arms"], {"arm_id": "bare"}]))
    problem(api.post("/select", json={"campaign_id": campaign_id}), 422, "arms.2.features")
    listed = {"campaign_id": campaign_id, "arms": [{"arm_id": "a"}, {"arm_id": "stranger"}]}
    problem(api.post("/select", json=listed), 422, "arms.1.features")
    problem(api.post("/select", json={"campaign_id": create(api, shared(arms=[]))}), 422, "arms")


def test_dimension(api: httpx.Client) -> None:
    """B26. A wrong number of features would be a server error, or be cut or filled up in silence."""
    request = shared(model={"type": "shared", "dimension": 3}, arms=[])
    campaign_id = create(api, request)
    before = stored(api, campaign_id)
    for received in (2, 4):
        arms = [{"arm_id": "a", "features": [1, 2, 3]}, {"arm_id": "b", "features": [1] * received}]
        body = problem(api.post("/select", json={"campaign_id": campaign_id, "arms": arms}), 422, "arms.1.features")
        assert f"expected 3 features, received {received}" in body["detail"]
    assert stored(api, campaign_id) == before
    campaign_id = create(api, disjoint(model={"type": "disjoint", "dimension": 3, "intercept": False}))
    for received in (2, 4):
        request = {"campaign_id": campaign_id, "context": [1] * received}
        body = problem(api.post("/select", json=request), 422, "context")
        assert f"expected 3 features, received {received}" in body["detail"]


@pytest.mark.parametrize(
    ("make", "fields", "field"),
    [
        (shared, {"context": [1, 0]}, "context"),
        (shared, {"arms": []}, "arms"),
        (shared, {"arms": [*LISTED, LISTED[0]]}, "arms.2.arm_id"),
        (disjoint, {}, "context"),
        (disjoint, {"context": []}, "context"),
        (disjoint, {"context": [1, 2], "arms": LISTED}, "arms"),
        (multi_armed, {"context": [1]}, "context"),
        (multi_armed, {"arms": LISTED}, "arms"),
    ],
)
@on_sqlite
def test_request_that_does_not_fit_the_model(
    api: httpx.Client, make: Callable[[], Json], fields: Json, field: str
) -> None:
    """A client that mistakes the kind of campaign would get decisions that ignore what it sent."""
    campaign_id = create(api, make())
    problem(api.post("/select", json={"campaign_id": campaign_id, **fields}), 422, field)


def test_unknown_campaign(api: httpx.Client) -> None:
    """A mistyped campaign would be a server error."""
    problem(api.post("/select", json={"campaign_id": new_id("none")}), 404)


def test_centred_and_scaled_features(api: httpx.Client) -> None:
    """Ages and incomes as they are would drown the other features, whatever the campaign declares."""
    declared = [{"name": "age", "center": 50, "scale": 17}, {"name": "weight", "center": -1, "scale": 0.5}]
    plain = {"type": "shared", "dimension": 2, "intercept": False}
    raw = create(api, shared(model=plain | {"features": declared}, arms=[]))
    scaled = create(api, shared(model=plain, arms=[]))
    arms = {"a": ([67, -1], [1, 0]), "b": ([50, 0], [0, 2])}
    for name, value in (("a", 3), ("b", -2), ("a", 1)):
        for campaign_id, side in ((raw, 0), (scaled, 1)):
            arm = {"arm_id": name, "features": arms[name][side]}
            reward(api, select(api, campaign_id, arms=[arm])["decision_id"], value)
    seen = [
        select(
            api,
            campaign_id,
            arms=[{"arm_id": name, "features": both[side]} for name, both in arms.items()],
            explain=True,
        )["arms"]
        for campaign_id, side in ((raw, 0), (scaled, 1))
    ]
    for one, other in zip(*seen, strict=True):
        assert one["arm_id"] == other["arm_id"]
        assert [one[name] for name in SCORES[:2]] == pytest.approx([other[name] for name in SCORES[:2]])
        parts = [[part["contribution"] for part in each["contributions"]] for each in (one, other)]
        assert parts[0] == pytest.approx(parts[1])
    assert model(api, raw)["theta"] == pytest.approx(model(api, scaled)["theta"])


def test_values_at_the_edge_of_their_range(api: httpx.Client) -> None:
    """B32. The largest values that the documentation allows would be refused, or overflow."""
    request = shared(seed=2**53 - 1, reward={"minimum": -1e9, "maximum": 1e9}, description="x" * 2_000)
    campaign_id = create(api, request)
    for value in (1e9, -1e9):
        arms = [{"arm_id": "x" * 128, "features": [1e6, -1e6]}, {"arm_id": "y", "features": [5e-324, 1e-300]}]
        decision = select(api, campaign_id, arms=arms, explain=True)
        assert all(isinstance(one["index"], float) for one in decision["arms"])
        ok(api.post("/reward", json={"decision_id": decision["decision_id"], "reward": value}))
    assert read(api, campaign_id)["observations"] == 2
