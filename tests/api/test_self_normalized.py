"""The bonus self-normalized through the API, on both databases."""

from typing import Any

import httpx
import numpy as np
import orjson
import pytest

from prudent.core.measures import Expectile
from prudent.core.self_normalized import ArmLimit
from tests.api.contract import (
    Json,
    create,
    disjoint,
    multi_armed,
    new_id,
    ok,
    on_sqlite,
    pages_with_limits,
    problem,
    read,
    select,
    shared,
)

SELF_NORMALIZED: Json = {"bonus": "self-normalized"}
CAUTIOUS: Json = {"measure": "expectile", "level": 0.2}


def rewards_of(place: int, count: int, offset: float = 0.0) -> list[float]:
    """Rewards of an arm, symmetric about a centre of its own."""
    return [offset + 0.3 * place + (number * 7 % 11) / 10 for number in range(count)]


def teach(api: httpx.Client, name: str, count: int, arms: str = "abc", offset: float = 0.0) -> None:
    """Rewards for so many decisions of each arm, made elsewhere."""
    rows = [
        {"arm_id": arm, "reward": reward}
        for place, arm in enumerate(arms)
        for reward in rewards_of(place, count, offset)
    ]
    ok(api.post(f"/campaigns/{name}/observations", json={"items": rows}))


def test_upper_limits_are_published_with_their_guarantee(api: httpx.Client) -> None:
    """Whoever must prove what was claimed needs the limit, that it is one, and on what condition."""
    name = create(api, multi_armed(risk=CAUTIOUS, algorithm=SELF_NORMALIZED))
    teach(api, name, 40, offset=1000.0)
    decision = select(api, name, explain=True)
    assert decision["reason"] == "index"
    loss = Expectile(0.2).loss
    for arm in decision["arms"]:
        alone = ArmLimit(loss, loss.score_lines)  # type: ignore[arg-type]
        alone.learn(np.array(rewards_of("abc".index(arm["arm_id"]), 40, 1000.0)))
        low, high = arm["limits"]
        assert low is None
        assert high == pytest.approx(alone.limit(0.05 / 3), rel=1e-10)
        assert high == pytest.approx(arm["estimate"] + arm["bonus"], rel=1e-12)
    model = ok(api.get(f"/campaigns/{name}/model"))
    shown = {arm["arm_id"]: arm["limits"] for arm in model["arms"]}
    assert shown == {arm["arm_id"]: arm["limits"] for arm in decision["arms"]}
    assert model["guaranteed"] is True
    assert "cross once" in model["guarantee_note"]
    assert model["warnings"] == []
    assert [model[field] for field in ("conditioning", "noise_scale", "parameter_bound", "radius")] == [None] * 4
    assert model["regret_bound"] is None


def test_rewards_that_contradict_the_condition_end_the_guarantee(api: httpx.Client) -> None:
    """A guarantee that the data speak against must not be shown as one."""
    name = create(api, multi_armed(risk={"measure": "mean"}, algorithm=SELF_NORMALIZED))
    teach(api, name, 40, "ab")
    jackpots = np.random.default_rng(3).lognormal(0.0, 1.5, 400).tolist()
    rows = [{"arm_id": "c", "reward": reward} for reward in jackpots]
    ok(api.post(f"/campaigns/{name}/observations", json={"items": rows}))
    model = ok(api.get(f"/campaigns/{name}/model"))
    assert model["guaranteed"] is False
    assert "rewards of c contradict" in model["guarantee_note"]
    assert model["warnings"] == [model["guarantee_note"]]


def test_an_infinite_index_is_null_and_can_be_moved(api: httpx.Client) -> None:
    """JSON has no infinity; and an export that cannot be imported is no backup."""
    name = create(api, multi_armed(algorithm=SELF_NORMALIZED | {"warmup": 0}))
    teach(api, name, 30, "ab")
    made = select(api, name, decision_id=f"{name}-1", explain=True)
    assert (made["arm_id"], made["reason"], made["propensity"]) == ("c", "floor", 1.0)
    assert made["bonus"] is made["index"] is None
    exported = api.get(f"/campaigns/{name}/export")
    lines = [orjson.loads(line) for line in exported.content.splitlines()]
    assert [line["index"] for line in lines if line["kind"] == "decision"] == [None]
    limits = [arm["limits"] for arm in ok(api.get(f"/campaigns/{name}/model"))["arms"]]
    assert api.delete(f"/campaigns/{name}", params={"confirm": name}).status_code == 204
    ok(api.post("/import", content=exported.content, headers={"Content-Type": "application/x-ndjson"}), 201)
    assert select(api, name, decision_id=f"{name}-1", explain=True) == made
    assert [arm["limits"] for arm in ok(api.get(f"/campaigns/{name}/model"))["arms"]] == limits


def test_defaults_can_be_posted_again(api: httpx.Client) -> None:
    """What a reply shows is a valid request for the same campaign."""
    request = {
        "campaign_id": new_id("self-normalized"),
        "risk": CAUTIOUS,
        "model": {"type": "multi-armed"},
        "algorithm": SELF_NORMALIZED,
    }
    made = read(api, create(api, request))
    algorithm = made["algorithm"]
    assert (algorithm["exploration_rule"], algorithm["warmup"], algorithm["floor"]) == ("optimistic", 10, 0.0)
    assert (algorithm["regularization"], algorithm["radius"], made["warnings"]) == (None, None, [])
    filled_in = {field: made[field] for field in (*request, "description", "arms", "seed", "reward")}
    assert ok(api.post("/campaigns", json=filled_in)) == made
    assert ok(api.post("/campaigns", json=request)) == made


BOUNDS: Json = {"minimum": 0.0, "maximum": 1.0}
REFUSED: list[tuple[str, Json, str, str]] = [
    ("a risk-seeking expectile", {"risk": {"measure": "expectile", "level": 0.8}}, "algorithm.bonus", "averse to risk"),
    (
        "a risk-seeking entropic risk",
        {"risk": {"measure": "entropic", "gamma": 1.0}, "reward": BOUNDS},
        "algorithm.bonus",
        "averse to risk",
    ),
    ("a measure in stages", {"risk": {"measure": "cvar", "level": 0.2}}, "algorithm.bonus", "not proved for the"),
    (
        "another estimator",
        {"algorithm": SELF_NORMALIZED | {"name": "linucb-onepass-cr"}},
        "algorithm.bonus",
        "linucb-cr",
    ),
    *[
        (f"the dial {name}", {"algorithm": SELF_NORMALIZED | {name: value}}, f"algorithm.{name}", "self-normalized")
        for name, value in (
            ("noise_scale", 1.0),
            ("parameter_bound", 1.0),
            ("regularization", 1.0),
            ("conditioning", 2.0),
            ("radius", "joint"),
            ("exploration_rule", "randomized"),
            ("floor", 2.0),
        )
    ],
]


@on_sqlite
@pytest.mark.parametrize(("changes", "field", "words"), [one[1:] for one in REFUSED], ids=[one[0] for one in REFUSED])
def test_what_is_not_proved_is_refused(api: httpx.Client, changes: dict[str, Any], field: str, words: str) -> None:
    """A guarantee that silently does not apply is worse than none, and so is a dial that does nothing."""
    request = multi_armed(**({"algorithm": SELF_NORMALIZED} | changes))
    found = problem(api.post("/campaigns", json=request), 422)["errors"][0]
    assert found["field"] == field
    assert words in found["message"]
    assert api.get(f"/campaigns/{request['campaign_id']}").status_code == 404


@on_sqlite
def test_other_models_are_refused(api: httpx.Client) -> None:
    """With features an arm's scores are not those of one law."""
    for request in (shared(algorithm=SELF_NORMALIZED), disjoint(algorithm=SELF_NORMALIZED)):
        found = problem(api.post("/campaigns", json=request), 422)["errors"][0]
        assert found["field"] == "algorithm.bonus"
        assert "multi-armed models only" in found["message"]


@on_sqlite
def test_the_bonus_is_chosen_at_creation(api: httpx.Client) -> None:
    """What is learned differs from the first reward on; delta may change."""
    plain, proved = create(api, multi_armed()), create(api, multi_armed(algorithm=SELF_NORMALIZED))
    for name, bonus in ((plain, "self-normalized"), (proved, "local-tight"), (proved, "self-scaled")):
        before = read(api, name)
        reply = api.patch(f"/campaigns/{name}", json={"algorithm": {"bonus": bonus}})
        assert problem(reply, 422)["errors"][0]["field"] == "algorithm.bonus"
        assert read(api, name) == before
    teach(api, proved, 40)
    before = [arm["limits"][1] for arm in ok(api.get(f"/campaigns/{proved}/model"))["arms"]]
    ok(api.patch(f"/campaigns/{proved}", json={"algorithm": {"delta": 0.001}}))
    after = [arm["limits"][1] for arm in ok(api.get(f"/campaigns/{proved}/model"))["arms"]]
    assert all(wider > narrower for wider, narrower in zip(after, before, strict=True))


def test_the_dashboard_shows_upper_limits(api: httpx.Client) -> None:
    """Who watches a campaign for its limits looks there."""
    name = create(api, multi_armed(algorithm=SELF_NORMALIZED))
    teach(api, name, 40)
    pages = pages_with_limits(api, name)
    shown = ok(api.get(f"/campaigns/{name}/model"))["arms"][0]["limits"]
    assert all("at most" in text for text in pages)
    overview = pages[0]
    assert f"at most {shown[1]:.3f}" in overview
    assert "holds for any scale" in overview
