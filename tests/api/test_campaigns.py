"""Create, read, list, change and delete campaigns."""

from collections.abc import Callable

import httpx
import pytest

from tests.api.contract import (
    CONFIGURATION,
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
)

DEFAULT_ALGORITHM = {
    "name": "linucb-cr",
    "regularization": 1.0,
    "delta": 0.05,
    "noise_scale": None,
    "exploration": 1.0,
    "parameter_bound": None,
    "projection": True,
    "feature_bound": 1.0,
    "bonus": "local-tight",
    "conditioning": None,
    "warmup": 2,
}
DEFAULT_REWARD = {"minimum": None, "maximum": None, "timeout_seconds": None, "default": None, "events": {}}


def configuration_of(body: Json) -> Json:
    """The configuration in a reply, as a request: what a reply adds to it (the arms' status) left out."""
    kept = {name: body[name] for name in CONFIGURATION}
    kept["arms"] = [{name: arm[name] for name in ("arm_id", "features")} for arm in body["arms"]]
    return kept


def test_created_with_the_contracts_defaults(api: httpx.Client) -> None:
    """A newcomer who gives the three required fields would get other dials than the documentation says."""
    request = {"campaign_id": new_id("least"), "risk": {"measure": "mean"}, "model": {"type": "multi-armed"}}
    body = ok(api.post("/campaigns", json=request), 201)
    assert {name: body["algorithm"][name] for name in DEFAULT_ALGORITHM} == DEFAULT_ALGORITHM
    assert body["reward"] == DEFAULT_REWARD
    assert (body["description"], body["arms"], body["seed"], body["status"]) == ("", [], 0, "active")
    assert (body["risk"], body["model"], body["observations"]) == ({"measure": "mean"}, {"type": "multi-armed"}, 0)
    assert body["created_at"].endswith("Z")
    assert body["warnings"] == []
    assert read(api, body["campaign_id"]) == body


def test_ridge_too_small_for_the_features_is_said(api: httpx.Client) -> None:
    """Estimates would lose their digits in a campaign whose features are incomes in cents, and nobody would know."""
    request = shared(arms=[{"arm_id": "a", "features": [900_000, 0]}, {"arm_id": "b", "features": [0, 1]}])
    body = ok(api.post("/campaigns", json=request), 201)
    (warning,) = body["warnings"]
    assert "algorithm.regularization" in warning
    assert "9e+05" in warning
    assert ok(api.post("/campaigns", json=request)) == body == read(api, body["campaign_id"])


@pytest.mark.parametrize("kind", ["shared", "disjoint"])
def test_default_intercept(api: httpx.Client, kind: str) -> None:
    """A campaign with constant or centred features could not learn a level, nor rewards relative to a centre."""
    request = shared(model={"type": kind, "dimension": 1}, arms=[])
    assert ok(api.post("/campaigns", json=request), 201)["model"]["intercept"] is True


def test_repeated_creation(api: httpx.Client) -> None:
    """A client that retries a creation after a timeout would be told that it failed."""
    request = shared(risk={"measure": "expectile", "level": 0.1})
    first = ok(api.post("/campaigns", json=request), 201)
    assert ok(api.post("/campaigns", json=request)) == first
    reversed_order = dict(reversed(request.items()))
    assert ok(api.post("/campaigns", json=reversed_order)) == first
    spelled_out = request | {
        "algorithm": DEFAULT_ALGORITHM | {"warmup": 0, "floor": 0},
        "reward": DEFAULT_REWARD,
        "seed": 0,
        "description": "",
    }
    assert ok(api.post("/campaigns", json=spelled_out)) == first


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"description": "another"},
        {"risk": {"measure": "expectile", "level": 0.3}},
        {"model": {"type": "shared", "dimension": 2, "intercept": False}},
        {"arms": [{"arm_id": "b", "features": [0, 1]}, {"arm_id": "a", "features": [1, 0]}]},
        {"algorithm": {"warmup": 0, "delta": 0.1}},
        {"reward": {"minimum": 0}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_creation_of_the_same_id(api: httpx.Client, change: Json) -> None:
    """Two teams that take the same id would write into one campaign without knowing."""
    request = shared()
    create(api, request)
    before = stored(api, request["campaign_id"])
    problem(api.post("/campaigns", json=request | change), 409, "campaign_id")
    assert stored(api, request["campaign_id"]) == before


@pytest.mark.parametrize(
    "make",
    [
        lambda: shared(
            description="Doses: für Erwachsene 💊",
            model={
                "type": "shared",
                "dimension": 2,
                "intercept": True,
                "features": [{"name": "age", "center": 50, "scale": 17}, {"name": "weight"}],
            },
            risk={"measure": "expectile", "downside_weight": 3},
            seed=2**53 - 1,
        ),
        lambda: disjoint(algorithm={"radius": "joint", "parameter_bound": 2.5, "noise_scale": 0.1, "bonus": "global"}),
        lambda: multi_armed(
            risk={"measure": "entropic", "risk_tolerance": 3},
            reward={"minimum": -1, "maximum": 2, "timeout_seconds": 60, "default": 0},
            algorithm={"conditioning": "self-concordant", "parameter_bound": 1},
        ),
        lambda: shared(risk={"measure": "expectile", "level": 1e-6}),
        lambda: shared(risk={"measure": "expectile", "level": 1 - 1e-6}),
        lambda: shared(
            algorithm={"name": "linucb-ogd-cr", "episode_length": 7, "step_schedule": "harmonic", "step_size": 0.2}
        ),
    ],
    ids=["shared", "disjoint", "entropic", "level-min", "level-max", "ogd"],
)
def test_round_trip(api: httpx.Client, make: Callable[[], Json]) -> None:
    """B36. A campaign read from one server could not be created on another, or would be another campaign."""
    request = make()
    create(api, request)
    body = read(api, request["campaign_id"])
    assert ok(api.post("/campaigns", json=configuration_of(body))) == body
    for part in ("risk", "model", "algorithm", "reward"):  # what was asked for is what is shown
        assert {name: body[part][name] for name in request.get(part, {}) if name != "features"} == {
            name: value for name, value in request.get(part, {}).items() if name != "features"
        }
    elsewhere = configuration_of(body) | {"campaign_id": new_id("copy")}
    copy = ok(api.post("/campaigns", json=elsewhere), 201)
    assert configuration_of(copy) == elsewhere


def test_replies_show_both_forms_of_risk(api: httpx.Client) -> None:
    """A manager who thinks in downside weights could not check a campaign that was set up with a level."""
    body = read(api, create(api, shared(risk={"measure": "expectile", "level": 0.1})))
    assert body["risk"] == {"measure": "expectile", "level": 0.1, "downside_weight": pytest.approx(9)}
    rules = {"minimum": 0, "maximum": 4}
    body = read(api, create(api, shared(risk={"measure": "entropic", "risk_tolerance": 2}, reward=rules)))
    assert body["risk"] == {"measure": "entropic", "gamma": -0.5, "risk_tolerance": 2}


def test_list_in_pages(api: httpx.Client) -> None:
    """A console that pages through campaigns would miss one, show one twice, or never end."""
    prefix = new_id("~page")  # ids sort by code point, so these are the last
    mine = [f"{prefix}.{number}" for number in range(7)]
    for campaign_id in reversed(mine):
        create(api, shared(campaign_id=campaign_id))
    everything = ok(api.get("/campaigns", params={"limit": 1000}))
    assert everything["next_cursor"] is None
    ids = [one["campaign_id"] for one in everything["items"]]
    assert ids == sorted(ids)
    assert set(mine) <= set(ids)
    for limit in (1, 3, len(ids) - 1, len(ids)):
        seen: list[Json] = []
        cursor: Json = {}
        while True:
            page = ok(api.get("/campaigns", params={"limit": limit, **cursor}))
            assert len(page["items"]) <= limit
            seen += page["items"]
            if page["next_cursor"] is None:
                break
            cursor = {"cursor": page["next_cursor"]}
        assert seen == everything["items"]
    assert everything["items"][ids.index(mine[0])] == read(api, mine[0])


@pytest.mark.parametrize("cursor", ["AA", "!!!", "////", "YS9i", "%ff", "é", "Li4_", "x" * 256, "x" * 257])
@on_sqlite
def test_cursor_that_is_none(api: httpx.Client, cursor: str) -> None:
    """A mangled cursor would start the list again from the front, or (a NUL on PostgreSQL) be a 503."""
    problem(api.get("/campaigns", params={"cursor": cursor}), 422, "cursor")


@pytest.mark.parametrize("limit", ["0", "-1", "1001", str(2**63), str(2**64), "1.5", "1e2", "true", "", "NaN"])
@on_sqlite
def test_limit_outside_its_range(api: httpx.Client, limit: str) -> None:
    """W31. One request could ask for every campaign at once, or overflow the database's integer."""
    problem(api.get("/campaigns", params={"limit": limit}), 422, "limit")


def test_longer_warmup_counts_earlier_plays(api: httpx.Client) -> None:
    """Raising the warm-up of a running campaign would play every arm from zero again."""
    campaign_id = create(api, multi_armed(algorithm={"warmup": 1}))
    earlier = [select(api, campaign_id)["arm_id"] for _ in range(8)]
    assert sorted(earlier[:3]) == ["a", "b", "c"]
    ok(api.patch(f"/campaigns/{campaign_id}", json={"algorithm": {"warmup": 4}}))
    missing = {name: max(0, 4 - earlier.count(name)) for name in "abc"}
    later = [select(api, campaign_id) for _ in range(sum(missing.values()) + 1)]
    assert [one["reason"] for one in later] == ["warmup"] * (len(later) - 1) + ["index"]
    assert {name: [one["arm_id"] for one in later[:-1]].count(name) for name in "abc"} == missing


def test_change_of_description_and_status(api: httpx.Client) -> None:
    """A campaign could not be described, paused or put away; or doing one would undo another."""
    campaign_id = create(api, shared())
    before = read(api, campaign_id)
    changed = before | {"description": "new"}
    assert ok(api.patch(f"/campaigns/{campaign_id}", json={"description": "new"})) == changed
    for status in ("paused", "archived", "paused", "active", "archived", "active"):
        body = ok(api.patch(f"/campaigns/{campaign_id}", json={"status": status}))
        assert body == changed | {"status": status}
    assert ok(api.patch(f"/campaigns/{campaign_id}", json={})) == changed
    problem(api.patch(f"/campaigns/{new_id('none')}", json={"description": "new"}), 404)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"risk": {"measure": "mean"}}, "risk"),
        ({"seed": 1}, "seed"),
        ({"model": {"type": "multi-armed"}}, "model"),
        ({"arms": []}, "arms"),
        ({"reward": {"minimum": 0}}, "reward"),
        ({"campaign_id": "other"}, "campaign_id"),
        ({"algorithm": {"name": "linucb"}}, "algorithm.name"),
        ({"algorithm": {"regularization": 2}}, "algorithm.regularization"),
        ({"algorithm": {"parameter_bound": 2}}, "algorithm.parameter_bound"),
        ({"algorithm": {"projection": False}}, "algorithm.projection"),
        ({"algorithm": {"feature_bound": 2}}, "algorithm.feature_bound"),
        ({"algorithm": {"radius": "joint"}}, "algorithm.radius"),
        ({"status": "deleted"}, "status"),
        ({"description": "x" * 2_001}, "description"),
        ({"algorithm": {"delta": 1}}, "algorithm.delta"),
        ({"algorithm": {"delta": None}}, "algorithm.delta"),
        ({"algorithm": {"exploration": -1}}, "algorithm.exploration"),
        ({"algorithm": {"noise_scale": 0}}, "algorithm.noise_scale"),
        ({"algorithm": {"warmup": 1.5}}, "algorithm.warmup"),
        ({"algorithm": {"bonus": "wide"}}, "algorithm.bonus"),
        ({"algorithm": {"conditioning": "self-concordant"}}, "algorithm.conditioning"),
        ({"description": "half", "status": "paused", "algorithm": {"conditioning": 0}}, "algorithm.conditioning"),
    ],
    ids=str,
)
def test_change_that_is_not_allowed(api: httpx.Client, change: Json, field: str) -> None:
    """What a running model was fitted with would change under it, or half of a refused change would stay."""
    campaign_id = create(api, shared())
    before = stored(api, campaign_id)
    problem(api.patch(f"/campaigns/{campaign_id}", json=change), 422, field)
    assert stored(api, campaign_id) == before


@pytest.mark.parametrize("confirm", [None, "", "other", "*"])
def test_delete_needs_confirmation(api: httpx.Client, confirm: str | None) -> None:
    """A mistyped DELETE would destroy a campaign's data."""
    campaign_id = create(api, shared())
    before = stored(api, campaign_id)
    params = {} if confirm is None else {"confirm": confirm}
    problem(api.delete(f"/campaigns/{campaign_id}", params=params), 422, "confirm")
    assert stored(api, campaign_id) == before


def test_delete(api: httpx.Client) -> None:
    """Data that was deleted would still be there, or could still be written to."""
    campaign_id = create(api, shared())
    decision_id = select(api, campaign_id)["decision_id"]
    reply = api.delete(f"/campaigns/{campaign_id}", params={"confirm": campaign_id})
    assert (reply.status_code, reply.content) == (204, b"")
    for answer in (
        api.get(f"/campaigns/{campaign_id}"),
        api.get(f"/campaigns/{campaign_id}/model"),
        api.post("/select", json={"campaign_id": campaign_id}),
        api.post("/reward", json={"decision_id": decision_id, "reward": 1}),
        api.patch(f"/campaigns/{campaign_id}", json={"status": "paused"}),
        api.post(f"/campaigns/{campaign_id}/arms", json={"arm_id": "z"}),
        api.patch(f"/campaigns/{campaign_id}/arms/a", json={"status": "paused"}),
        api.post(f"/campaigns/{campaign_id}/observations", json={"items": [{"arm_id": "a", "reward": 1}]}),
        api.delete(f"/campaigns/{campaign_id}", params={"confirm": campaign_id}),
    ):
        problem(answer, 404)
    listed = ok(api.get("/campaigns", params={"limit": 1000}))["items"]
    assert campaign_id not in {one["campaign_id"] for one in listed}


def test_recreated_campaign_starts_anew(api: httpx.Client) -> None:
    """A campaign recreated under a deleted one's id would meet its decisions, rewards and estimates."""
    request = shared()
    campaign_id = create(api, request)
    for number in range(3):
        decision = select(api, campaign_id, decision_id=f"{campaign_id}-{number}")
        reward(api, decision["decision_id"], 5)
    fresh = model(api, create(api, request | {"campaign_id": new_id("fresh")}))
    assert api.delete(f"/campaigns/{campaign_id}", params={"confirm": campaign_id}).status_code == 204
    create(api, request | {"seed": 7})
    assert model(api, campaign_id) == fresh | {"campaign_id": campaign_id}
    problem(api.post("/reward", json={"decision_id": f"{campaign_id}-0", "reward": 5}), 404)
    again = select(api, campaign_id, decision_id=f"{campaign_id}-0")
    assert (again["seen"], again["estimate"]) == (0, 0)
    assert reward(api, again["decision_id"], -1)["sequence"] == 1


@pytest.mark.parametrize("campaign_id", ["a", ".a", "...", "~", "-", "_", "A.b_c~d-E", "0", "x" * 128, "a..b"])
def test_accepted_id_is_reachable_by_every_route(api: httpx.Client, campaign_id: str) -> None:
    """W34. A campaign would be accepted under an id that some address cannot hold, and be stuck."""
    request = shared(campaign_id=campaign_id, arms=[{"arm_id": campaign_id, "features": [1, 1]}])
    create(api, request)
    assert read(api, campaign_id)["campaign_id"] == campaign_id
    decision = select(api, campaign_id, decision_id=campaign_id, eligible=[campaign_id])
    assert reward(api, campaign_id, 1)["arm_id"] == decision["arm_id"] == campaign_id
    item = {"arm_id": campaign_id, "observation_id": campaign_id, "reward": 0}
    assert ok(api.post(f"/campaigns/{campaign_id}/observations", json={"items": [item]}))["accepted"] == 1
    assert model(api, campaign_id)["observations"] == 2
    assert ok(api.patch(f"/campaigns/{campaign_id}/arms/{campaign_id}", json={"status": "paused"}))
    assert ok(api.post(f"/campaigns/{campaign_id}/arms", json={"arm_id": "z"}), 201)
    assert ok(api.patch(f"/campaigns/{campaign_id}", json={"status": "archived"}))
    assert api.delete(f"/campaigns/{campaign_id}", params={"confirm": campaign_id}).status_code == 204
