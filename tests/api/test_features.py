"""Contexts by name: categories, missing values, cycles and interactions, and what is refused."""

from typing import Any

import httpx
import numpy as np
import pytest
from sqlalchemy import text

from prudent.store.engines import create_read_engine, parse_database_url
from tests.api.contract import Json, create, model, new_id, ok, on_sqlite, problem, select
from tests.servers import Server

FEATURES: list[Json] = [
    {"name": "country", "kind": "category", "categories": ["de", "fr"], "unknown": "other"},
    {"name": "plan", "kind": "category", "capacity": 3},
    {"name": "age", "kind": "number", "center": 45, "scale": 15, "missing": "indicator"},
    {"name": "basket", "kind": "number", "scale": "learned"},
    {"name": "mobile", "kind": "boolean"},
    {"name": "hour", "kind": "cyclic", "period": 24},
    {"name": "dose", "kind": "number", "basis": {"type": "spline", "knots": [10, 20, 40]}},
]
CONTEXT: Json = {
    "country": "de",
    "plan": "pro",
    "age": 33,
    "basket": 12.5,
    "mobile": True,
    "hour": 9,
    "dose": 12,
}
WIDTH = 3 + 4 + 2 + 1 + 1 + 2 + 2 + 3


def named(**changes: Any) -> Json:
    """A request to create a campaign with features of every kind."""
    return {
        "campaign_id": new_id("named"),
        "risk": {"measure": "mean"},
        "model": {"type": "disjoint", "features": FEATURES, "interactions": [["country", "mobile"]]},
        "arms": [{"arm_id": name} for name in "ab"],
        "algorithm": {"warmup": 0},
    } | changes


def of_arms(**changes: Any) -> Json:
    """A request to create a shared campaign whose arms and requests have features by name."""
    return {
        "campaign_id": new_id("arms"),
        "risk": {"measure": "mean"},
        "model": {
            "type": "shared",
            "features": [{"name": "brand", "kind": "category", "capacity": 4}, {"name": "price", "scale": 10}],
            "context_features": [{"name": "country", "kind": "category", "categories": ["de", "fr"]}],
            "interactions": [["context.country", "arm.brand"]],
        },
        "arms": [{"arm_id": "x", "features": {"price": 20, "brand": "acme"}}],
        "algorithm": {"warmup": 0},
    } | changes


def test_a_context_by_name_is_answered_and_explained(api: httpx.Client) -> None:
    """The first thing that a new user sends would be refused, or explained by numbers."""
    campaign_id = create(api, named())
    decision = select(api, campaign_id, context=CONTEXT, explain=True, decision_id=new_id("d"))
    shown = {one["feature"]: one.get("value") for one in decision["arms"][0]["contributions"]}
    assert {name: shown[name] for name in CONTEXT} == CONTEXT
    assert list(shown) == [*CONTEXT, "country x mobile", "intercept"]
    ok(api.post("/reward", json={"decision_id": decision["decision_id"], "reward": 1}))
    assert ok(api.get(f"/campaigns/{campaign_id}/decisions"))["items"][0]["context"] == CONTEXT
    learned = model(api, campaign_id)
    assert {"country=de", "country=(other)", "plan=pro", "plan=2", "age missing"} <= set(learned["feature_names"])
    assert len(learned["feature_names"]) == len(learned["arms"][0]["theta"]) == WIDTH + 1
    by_name = {one["name"]: one for one in learned["features"]}
    assert by_name["plan"] | {"kind": None} == {
        "name": "plan",
        "kind": None,
        "missing": 0,
        "other": 0,
        "categories": ["pro"],
    }
    assert by_name["age"]["center"] == 45
    assert (by_name["basket"]["scale"], by_name["basket"]["minimum"]) == (None, 12.5)


def test_the_dimension_follows_from_the_features(api: httpx.Client) -> None:
    """A user would have to count columns."""
    reply = ok(api.post("/campaigns", json=named()), 201)
    assert reply["model"]["dimension"] == WIDTH
    given = named()
    given["model"] = given["model"] | {"dimension": WIDTH}
    assert ok(api.post("/campaigns", json=given), 201)["model"]["dimension"] == WIDTH


def test_names_and_positions_are_the_same_request(api: httpx.Client) -> None:
    """A retry in the other form, or with its names in another order, would be a conflict."""
    request = named(
        model={"type": "disjoint", "features": [{"name": "kilometres", "center": 0}, {"name": "rain", "scale": 1}]}
    )
    campaign_id = create(api, request)
    decision_id = new_id("d")
    first = select(api, campaign_id, context={"kilometres": 4, "rain": 1}, decision_id=decision_id)
    assert select(api, campaign_id, context=[4, 1], decision_id=decision_id) == first
    assert select(api, campaign_id, context={"rain": 1.0, "kilometres": 4.0}, decision_id=decision_id) == first
    problem(api.post("/select", json={"campaign_id": campaign_id, "decision_id": decision_id, "context": [4, 2]}), 409)


def stored_rows(server: Server, table: str, campaign_id: str) -> list[dict[str, Any]]:
    """A campaign's rows as they are in the database, without what tells two equal ones apart."""
    engine = create_read_engine(parse_database_url(server.database_url))
    with engine.begin() as connection:
        key = connection.scalar(text("SELECT key FROM campaigns WHERE campaign_id = :id"), {"id": campaign_id})
        rows = connection.execute(text(f"SELECT * FROM {table} WHERE key = :key"), {"key": key}).mappings().all()  # noqa: S608
    engine.dispose()
    own = {"decision_id", "observation_id", "created_at", "due_at", "observed_at", "sequence", "digest"}
    return [{name: value for name, value in row.items() if name not in own} for row in rows]


def test_names_and_positions_leave_the_same_bytes(api: httpx.Client, api_server: Server) -> None:
    """Exports and replays would depend on how a client wrote its requests."""
    features = [{"name": "kilometres", "center": 2}, {"name": "rain", "scale": 3}]
    # without draws, which are each decision's own
    rule = {"exploration_rule": "optimistic", "warmup": 0}
    campaign_id = create(api, named(model={"type": "disjoint", "features": features}, algorithm=rule))
    forms: list[Any] = [{"kilometres": 4, "rain": 1}, [4, 1], {"rain": 1.0, "kilometres": 4.0}]
    items = [{"arm_id": "a", "context": context, "reward": 2, "observation_id": new_id("o")} for context in forms]
    assert ok(api.post(f"/campaigns/{campaign_id}/observations", json={"items": items}))["accepted"] == 3
    asked: Json = {"campaign_id": campaign_id, "explain": True}
    answers = [  # before any reward: all of the same state
        ok(api.post("/select", json=asked | {"context": context, "decision_id": new_id("d")})) for context in forms
    ]
    for answer in answers:
        ok(api.post("/reward", json={"decision_id": answer["decision_id"], "reward": 1}))
    told = [{name: value for name, value in one.items() if name != "decision_id"} for one in answers]
    decisions = stored_rows(api_server, "decisions", campaign_id)
    learned = stored_rows(api_server, "observations", campaign_id)
    assert told[0] == told[1] == told[2]
    assert [len(rows) for rows in (decisions, learned)] == [3, 6]
    assert decisions[0] == decisions[1] == decisions[2]
    assert decisions[0]["features"] == np.array([4.0, 1.0]).tobytes()
    assert len(decisions[0]["request_digest"]) == 16
    assert learned[0] == learned[1] == learned[2]
    assert learned[3] == learned[4] == learned[5]
    assert {row["features"] for row in learned} == {np.array([4.0, 1.0]).tobytes()}


def test_a_retry_finds_its_category_again(api: httpx.Client) -> None:
    """The first decision with a category would be the only one that could not be sent again."""
    campaign_id = create(api, named())
    decision_id = new_id("d")
    first = select(api, campaign_id, context=CONTEXT | {"plan": "new"}, decision_id=decision_id)
    assert select(api, campaign_id, context=CONTEXT | {"plan": "new"}, decision_id=decision_id) == first
    body = {"campaign_id": campaign_id, "decision_id": decision_id, "context": CONTEXT | {"plan": "newer"}}
    problem(api.post("/select", json=body), 409)
    assert categories_of(api, campaign_id, "plan") == ["new"], "what was refused has added nothing"


def categories_of(api: httpx.Client, campaign_id: str, feature: str) -> list[str]:
    """The categories of a feature, in the order of their positions."""
    found: list[str] = next(one for one in model(api, campaign_id)["features"] if one["name"] == feature)["categories"]
    return found


def test_categories_are_learned_until_there_is_no_room(api: httpx.Client) -> None:
    """A model would grow with every misspelt text."""
    campaign_id = create(api, named())
    for plan in ("a", "b", "a", "c", "d", "e"):
        decision = select(api, campaign_id, context=CONTEXT | {"plan": plan}, decision_id=new_id("d"))
        ok(api.post("/reward", json={"decision_id": decision["decision_id"], "reward": 1}))
    assert categories_of(api, campaign_id, "plan") == ["a", "b", "c"]
    assert next(one for one in model(api, campaign_id)["features"] if one["name"] == "plan")["other"] == 2


def test_what_is_missing_may_be_left_out(api: httpx.Client) -> None:
    """An unknown age would have to be invented."""
    campaign_id = create(api, named())
    without = {name: value for name, value in CONTEXT.items() if name != "age"}
    decision_id = new_id("d")
    first = select(api, campaign_id, context=without, decision_id=decision_id, explain=True)
    assert select(api, campaign_id, context=without | {"age": None}, decision_id=decision_id) == first
    shown = {one["feature"]: one.get("value") for one in first["arms"][0]["contributions"]}
    assert shown["age"] is None


def test_arms_and_requests_have_features_of_their_own(api: httpx.Client) -> None:
    """What a customer likes about a brand could not be learned once for all arms."""
    campaign_id = create(api, of_arms())
    listed = [
        {"arm_id": "x"},
        {"arm_id": "y", "features": {"brand": "bolt", "price": 30}},
        {"arm_id": "z", "features": {"price": 5, "brand": "acme"}},
    ]
    decision = select(api, campaign_id, arms=listed, context={"country": "fr"}, explain=True, decision_id=new_id("d"))
    parts = [one["feature"] for one in decision["arms"][0]["contributions"]]
    assert parts == ["brand", "price", "context.country", "context.country x brand", "intercept"]
    assert categories_of(api, campaign_id, "brand") == ["acme", "bolt"]
    added = {"arm_id": "w", "features": {"brand": "cut", "price": 1}}
    assert ok(api.post(f"/campaigns/{campaign_id}/arms", json=added), 201)["features"] == added["features"]
    assert ok(api.post(f"/campaigns/{campaign_id}/arms", json=added))["arm_id"] == "w"
    assert categories_of(api, campaign_id, "brand") == ["acme", "bolt", "cut"]
    item = {"arm_id": "w", "context": {"country": "it"}, "reward": 1, "observation_id": new_id("o")}
    path = f"/campaigns/{campaign_id}/observations"
    assert ok(api.post(path, json={"items": [item]}))["accepted"] == 1
    assert ok(api.post(path, json={"items": [item]}))["duplicates"] == 1
    shown = ok(api.get(f"/campaigns/{campaign_id}"))["arms"]
    assert shown[0]["features"] == {"brand": "acme", "price": 20}


def test_observations_elsewhere_bring_categories(api: httpx.Client) -> None:
    """A warm start would be learned as other."""
    campaign_id = create(api, named())
    items = [
        {"arm_id": "a", "context": CONTEXT | {"plan": plan, "age": None}, "reward": 1, "observation_id": f"{plan}-{i}"}
        for i, plan in enumerate(("gold", "silver", "gold"))
    ]
    path = f"/campaigns/{campaign_id}/observations"
    assert ok(api.post(path, json={"items": items}))["accepted"] == 3
    assert ok(api.post(path, json={"items": items}))["duplicates"] == 3
    assert categories_of(api, campaign_id, "plan") == ["gold", "silver"]
    wrong = [items[0] | {"observation_id": "n"}, items[1] | {"context": CONTEXT | {"plan": "tin", "hour": "x"}}]
    field = problem(api.post(path, json={"items": wrong}), 422)["errors"][0]["field"]
    assert field == "items.1.context.hour"
    assert categories_of(api, campaign_id, "plan") == ["gold", "silver"]


@on_sqlite
@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"contry": "de"}, "context.contry", "did you mean country?"),
        ({"country": 3}, "context.country", "must be a text, not a number: send it in quotes"),
        ({"country": ""}, "context.country", "must be a text of 1 to 128 characters"),
        ({"age": "33"}, "context.age", "must be a number, not a text: send it without quotes"),
        ({"age": True}, "context.age", "must be a number, not true or false"),
        ({"age": 1e300}, "context.age", "must be from"),
        ({"age": [1]}, "context.age", "must be a number, not a list"),
        ({"mobile": 1}, "context.mobile", "must be true or false, not a number"),
        ({"mobile": None}, "context.mobile", 'is required: send it, or create the campaign with "missing"'),
        ({"dose": {"x": 1}}, "context.dose", "must be a number, not an object"),
        ({"<script>": 1}, "context.(unknown name)", "unknown feature"),
    ],
)
def test_a_value_that_does_not_fit_is_named(api: httpx.Client, change: Json, field: str, words: str) -> None:
    """A misspelt name would be a missing value, and a wrong one would be learned."""
    campaign_id = create(api, named())
    found = problem(api.post("/select", json={"campaign_id": campaign_id, "context": CONTEXT | change}), 422)
    assert found["errors"][0]["field"] == field
    assert words in found["errors"][0]["message"]
    assert categories_of(api, campaign_id, "plan") == []


@on_sqlite
def test_a_misspelt_name_is_found_when_the_right_one_is_missing(api: httpx.Client) -> None:
    """The message would say only that a feature is missing."""
    campaign_id = create(api, named())
    context = {("contry" if name == "country" else name): value for name, value in CONTEXT.items()}
    found = problem(api.post("/select", json={"campaign_id": campaign_id, "context": context}), 422)
    assert found["errors"][0] == {
        "field": "context.country",
        "message": "is required; the request has contry instead",
    }


@on_sqlite
def test_nan_is_no_number(api: httpx.Client) -> None:
    """It stands for a missing value in the log."""
    campaign_id = create(api, named())
    body = '{"campaign_id": "%s", "context": {"age": NaN}}' % campaign_id  # noqa: UP031  # braces are JSON's
    found = problem(api.post("/select", content=body, headers={"Content-Type": "application/json"}), 422)
    assert found["status"] == 422


@on_sqlite
@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"context": [1, 2]}, "must be an object with the features by name (country, plan"),
        ({"context": {}}, "context"),
        ({"context": "de"}, "must be a list of numbers or an object of values by name"),
        ({"context": ["red", 1]}, "context.0"),
    ],
)
def test_an_array_says_too_little_for_categories(api: httpx.Client, fields: Json, words: str) -> None:
    """Positions of categories would have to be known to every client."""
    campaign_id = create(api, named())
    found = problem(api.post("/select", json={"campaign_id": campaign_id, **fields}), 422)
    assert words in found["detail"] + str(found["errors"])


@on_sqlite
@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({"type": "disjoint", "dimension": 2}, "send an array of 2 numbers, or create a campaign with model.features"),
        ({"type": "multi-armed"}, "send none, since it is multi-armed, or create a campaign with model.features"),
    ],
)
def test_names_need_a_schema(api: httpx.Client, model: Json, words: str) -> None:
    """The message would not say what to do."""
    campaign_id = create(api, named(model=model))
    found = problem(api.post("/select", json={"campaign_id": campaign_id, "context": {"age": 3}}), 422)
    assert words in found["detail"]


@on_sqlite
def test_a_full_capacity_can_be_an_error(api: httpx.Client) -> None:
    """A category that nobody planned for would be learned as other."""
    strict = {"name": "plan", "kind": "category", "capacity": 1, "unknown": "error"}
    closed = {"name": "country", "kind": "category", "categories": ["de", "fr"], "unknown": "error"}
    campaign_id = create(api, named(model={"type": "disjoint", "features": [strict, closed]}))
    select(api, campaign_id, context={"plan": "pro", "country": "de"})
    for context, words in (
        ({"plan": "basic", "country": "de"}, "none of its 1 categories, and there is no room"),
        ({"plan": "pro", "country": "fra"}, "did you mean fr?"),
    ):
        found = problem(api.post("/select", json={"campaign_id": campaign_id, "context": context}), 422)
        assert words in found["detail"]


WIDE = {"name": "wide", "kind": "category", "capacity": 400}


@on_sqlite
@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        (
            {"features": [WIDE, WIDE | {"name": "other", "capacity": 200}]},
            "model.features",
            "wide 401 + other 201 = 602, at most 512",
        ),
        ({"features": [WIDE | {"name": "a\x00b"}]}, "model.features.0.name", "must not contain NUL"),
        ({"features": [WIDE, {"name": "wide"}]}, "model.features", "feature names must be unique"),
        ({"features": [{"name": "a"}], "dimension": 2}, "model.dimension", "a 1 = 1, not 2"),
        ({"features": [{"name": "a", "kind": "category"}]}, "model.features.0", "needs categories"),
        ({"features": [{"name": "a", "kind": "number", "period": 3}]}, "model.features.0.period", "unknown field"),
        (
            {"features": [{"name": "a", "kind": "colour"}]},
            "model.features.0",
            "kind: number, boolean, category or cyclic",
        ),
        ({"features": [{"name": "a", "kind": "cyclic"}]}, "model.features.0.period", "is required"),
        (
            {"features": [{"name": "a", "basis": {"type": "spline", "knots": [3, 2, 1]}}]},
            "model.features.0.basis.knots",
            "must increase",
        ),
        (
            {"features": [{"name": "a"}, {"name": "basket"}], "interactions": [["a", "baskt"]]},
            "model.interactions.0",
            "did you mean basket?",
        ),
        ({"features": [{"name": "a"}], "interactions": [["a", "a"]]}, "model.interactions.0", "two different"),
        ({"interactions": [["a", "b"]], "dimension": 2}, "model.interactions", "need model.features"),
        ({}, "model", "needs features"),
        (
            {"type": "shared", "features": [{"name": "brand"}], "context_features": [{"name": "country"}]},
            "model.context_features.0",
            "a context feature without an interaction cannot change a choice",
        ),
    ],
)
def test_a_schema_that_makes_no_sense_is_refused(api: httpx.Client, change: Json, field: str, words: str) -> None:
    """It would be found out by the first request, or never."""
    found = problem(api.post("/campaigns", json=named(model={"type": "disjoint"} | change, arms=[])), 422)
    assert found["errors"][0]["field"] == field
    assert words in found["errors"][0]["message"]
