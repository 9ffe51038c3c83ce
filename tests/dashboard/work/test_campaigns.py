"""Work in the browser as HTTP sees it: campaigns, arms and rewards by forms, and what is wrong with them."""

import re

import pytest

from tests.api.keys import ADMIN_KEY
from tests.dashboard.work.conftest import MANAGE, Browser, Values, call, error_of, make, words
from tests.servers import Server

NEW = {
    "campaign_id": "vans",
    "description": "Which van?",
    "risk.downside_weight": "9",
    "arms": "big\nsmall\n\n",
    "model.type": "disjoint",
    "model.features.1.name": "hour",
    "model.features.1.kind": "cyclic",
    "model.features.1.period": "24",
    "model.features.2.name": "rain",
    "model.features.2.kind": "boolean",
    "model.features.4.name": "town",
    "model.features.4.kind": "category",
    "model.features.4.categories": "Ulm, Bern",
    "rows": "6",
    "reward.minimum": "-1",
    "reward.timeout_seconds": "3600",
    "reward.default": "0",
    "assignment.sticky_seconds": "86400",
    "retention_days": "30",
    "holdout.share": "0.2",
    "holdout.arm_id": "big",
}


def test_a_campaign_is_made_as_the_api_makes_it(browser: Browser) -> None:
    """Two ways to make a campaign would make two kinds of them."""
    path = f"{MANAGE}/campaigns"
    asked = browser.send(path, **NEW)
    assert asked.status_code == 200
    assert "Create vans?" in words(asked)
    assert "a shortfall counts 9 times as much as a surplus" in words(asked)
    assert browser.http.get("/dashboard/campaigns/vans").status_code == 404  # nothing is made before it is confirmed
    made = browser.confirm(path, **NEW)
    assert made.status_code == 303
    page = browser.text(made.headers["location"])
    assert "Done. Campaign created." in page
    assert "the first decision for a subject stands for 1 day" in page
    features = [
        {"name": "hour", "kind": "cyclic", "period": 24},
        {"name": "rain", "kind": "boolean"},
        {"name": "town", "kind": "category", "categories": ["Ulm", "Bern"]},
    ]
    body = {
        "campaign_id": "vans",
        "description": "Which van?",
        "risk": {"measure": "expectile", "downside_weight": 9},
        "model": {"type": "disjoint", "features": features},
        "arms": [{"arm_id": "big"}, {"arm_id": "small"}],
        "reward": {"minimum": -1, "timeout_seconds": 3600, "default": 0},
        "assignment": {"sticky_seconds": 86_400},
        "retention_days": 30,
        "holdout": {"share": 0.2, "arm_id": "big"},
    }
    headers = {"X-API-Key": ADMIN_KEY}
    repeated = browser.http.post("/campaigns", json=body, headers=headers)
    assert repeated.status_code == 200  # not 201: the same request was made before
    again = browser.confirm(path, **NEW)
    assert again.status_code == 409
    assert "exists already" in error_of(again, "campaign_id")


def test_arms_and_requests_may_both_have_features(browser: Browser) -> None:
    """A shop that knows its articles and its visitors would have to write JSON after all."""
    values = {
        "campaign_id": "articles",
        "risk.downside_weight": "4",
        "model.type": "shared",
        "model.features.0.name": "price",
        "model.features.1.name": "new",
        "model.features.1.kind": "boolean",
        "model.context_features.2.name": "hour",
        "model.context_features.2.kind": "cyclic",
        "model.context_features.2.period": "24",
        "model.interactions": "context.hour * arm.price\n\ncontext.hour * arm.new\n",
        "algorithm.name": "linucb-onepass-cr",
        "algorithm.budget": "0.2",
        "algorithm.noise_scale": "1.5",
        "algorithm.forgetting.half_life": "500",
    }
    assert browser.confirm(f"{MANAGE}/campaigns", **values).status_code == 303
    body = {
        "campaign_id": "articles",
        "risk": {"measure": "expectile", "downside_weight": 4},
        "model": {
            "type": "shared",
            "features": [{"name": "price"}, {"name": "new", "kind": "boolean"}],
            "context_features": [{"name": "hour", "kind": "cyclic", "period": 24}],
            "interactions": [["context.hour", "arm.price"], ["context.hour", "arm.new"]],
        },
        "algorithm": {
            "name": "linucb-onepass-cr",
            "budget": 0.2,
            "noise_scale": 1.5,
            "forgetting": {"half_life": 500},
        },
    }
    assert browser.http.post("/campaigns", json=body, headers={"X-API-Key": ADMIN_KEY}).status_code == 200
    filled = browser.send(f"{MANAGE}/campaigns", again="yes", **values).text
    assert re.findall(r"<details[^>]* open><summary>([^<]*)<", filled) == [
        "Features of arms and requests, and interactions",
        "Learning and exploration",
    ]


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"campaign_id": "a b"}, "campaign_id", "must be an id"),
        ({"campaign_id": ""}, "campaign_id", "must be an id"),
        ({"risk.downside_weight": "much"}, "risk.downside_weight", "must be a number"),
        ({"risk.downside_weight": "0"}, "risk.downside_weight", "must be at least 1e-06, not 0"),
        ({"risk.downside_weight": ""}, "risk.downside_weight", "number"),
        ({"risk": "{"}, "risk", "is not valid JSON"),
        ({"risk": '{"measure": "cvar"}'}, "risk", "level: is required"),
        ({"arms": "a\na"}, "arms", "entry 2, arm_id: is listed twice"),
        ({"arms": "a\nb!"}, "arms", "entry 2, arm_id: must be an id"),
        ({"arms": "a {x"}, "arms", "line 1: what follows the id is not valid JSON"),
        ({"model.features.1.period": "0"}, "model.features.0.period", "must be at least"),
        ({"model.features.2.name": "hour"}, "model.features.0.name", "unique"),
        ({"model.features.4.categories": ""}, "model.features.2.name", "a category needs categories"),
        ({"model.context_features.1.name": "town"}, "model.context_features.0.name", "shared"),
        ({"model.interactions": "rain * wind"}, "model.interactions", "wind"),
        ({"model.interactions": "rain"}, "model.interactions", "entry 1: must have at least 2"),
        ({"algorithm.budget": "2"}, "algorithm.budget", "must be at most 1"),
        ({"algorithm.forgetting.half_life": "1"}, "algorithm.forgetting.half_life", "must be at least 10"),
        ({"algorithm.name": "best"}, "algorithm.name", "linucb"),
        ({"holdout.share": ""}, "holdout.share", "is required"),
        ({"reward.minimum": "-1e12"}, "reward.minimum", "must be at least"),
        ({"holdout.share": "2"}, "holdout.share", "must be at most 0.5"),
        ({"retention_days": "1"}, "retention_days", "must be 0 or at least 2"),
        ({"assignment.sticky_seconds": "1.5"}, "assignment.sticky_seconds", "whole number"),
    ],
)
def test_what_is_wrong_stands_beside_its_field_in_the_apis_words(
    browser: Browser, changes: Values, field: str, message: str
) -> None:
    """Whoever fills in twenty fields would have to guess which one is meant."""
    refused = browser.send(f"{MANAGE}/campaigns", **(NEW | {"campaign_id": "wrong"} | changes))
    assert refused.status_code == 422
    assert "Nothing was changed." in words(refused)
    assert message in error_of(refused, field)
    for name, value in changes.items():
        assert not value or value.split("\n")[0] in refused.text.replace("&#34;", '"'), name
    assert browser.http.get("/dashboard/campaigns/wrong").status_code == 404


def test_a_form_keeps_what_was_filled_in(browser: Browser) -> None:
    """More lines, or a second thought on the page that confirms, would cost all that was typed."""
    path = f"{MANAGE}/campaigns"
    more = browser.send(path, more="9", **{**NEW, "arms": "one\ntwo"})
    assert more.status_code == 200
    assert more.text.count('aria-label="Feature ') == 9
    assert "one\ntwo</textarea>" in more.text
    again = browser.send(path, again="yes", **NEW)
    assert 'value="Ulm, Bern"' in again.text
    huge = browser.send(path, more="1000000000", **NEW)
    assert huge.text.count('aria-label="Feature ') == 60


def test_arms_come_and_go(closed: Server, browser: Browser) -> None:
    """Whoever has no terminal at night could not take a broken arm out."""
    make(closed, "headlines")
    where = f"{MANAGE}/campaigns/headlines"
    wrong = browser.send(f"{where}/arms", arm_id="c", value="{")
    assert "is not valid JSON" in error_of(wrong, "value")
    assert browser.confirm(f"{where}/arms", arm_id="c", value='"Buy now"').status_code == 303
    assert browser.confirm(f"{where}/arms", arm_id="c", value='"Buy now"').status_code == 409
    other = browser.confirm(f"{where}/arms", arm_id="a", value="3")
    assert other.status_code == 409
    assert "different value" in error_of(other, "arm_id")
    for arm_id, status in (("a", "paused"), ("b", "retired")):
        path = f"{where}/arms/{arm_id}/status/{status}"
        assert f"arm {arm_id}?" in browser.text(path)
        assert browser.confirm(path).status_code == 303
    arms = call(closed, "GET", "/campaigns/headlines")["arms"]
    assert [(arm["arm_id"], arm["status"], arm["value"]) for arm in arms] == [
        ("a", "paused", "a"),
        ("b", "retired", "b"),
        ("c", "active", "Buy now"),
    ]
    page = browser.text("/dashboard/campaigns/headlines")
    assert "Arm changed: b, status from active to retired" in page
    assert "Buy now" in page
    assert browser.confirm(f"{where}/arms/a/status/active").status_code == 303
    for path in (f"{where}/arms/none/status/paused", f"{where}/arms/a/status/gone", f"{MANAGE}/campaigns/no/arms"):
        assert browser.http.get(path).status_code == 404, path


def test_features_of_a_new_arm_are_those_of_the_campaign(closed: Server, browser: Browser) -> None:
    """An arm without its features could not be chosen."""
    model = {"type": "shared", "features": [{"name": "price"}, {"name": "new", "kind": "boolean"}]}
    make(closed, "shop", model=model, arms=[])
    path = f"{MANAGE}/campaigns/shop/arms"
    assert "price" in browser.text(path)
    wrong = browser.confirm(path, arm_id="x", features='{"prize": 3, "new": true}')
    assert wrong.status_code == 422
    assert error_of(wrong, "features") == "price: is required; the request has prize instead"
    assert browser.confirm(path, arm_id="x", features='{"price": 3, "new": true}').status_code == 303
    (arm,) = call(closed, "GET", "/campaigns/shop")["arms"]
    assert arm["features"] == {"price": 3, "new": True}


def test_a_campaign_is_paused_archived_and_made_active_again(closed: Server, browser: Browser) -> None:
    """The page would go on showing what was, and its reader press once more."""
    make(closed, "rest")
    for status, shown in (("paused", "learning paused"), ("archived", "archived"), ("active", "learning")):
        changed = browser.confirm(f"{MANAGE}/campaigns/rest/status/{status}")
        page = browser.http.get(changed.headers["location"])
        assert re.search(rf'<span id="status" data-live><span class="badge {status}">{shown}<', page.text)
        assert f"to {status}." in words(page)
        assert call(closed, "GET", "/campaigns/rest")["status"] == status
    assert "It is active already" in browser.text(f"{MANAGE}/campaigns/rest/status/active")
    assert browser.http.get(f"{MANAGE}/campaigns/rest/status/deleted").status_code == 404


def test_corrections_are_not_said_to_be_rewards(closed: Server, browser: Browser) -> None:
    """A reward that was corrected three times in a pause would be three new ones."""
    make(closed, "pause")
    decision_id = call(closed, "POST", "/select", {"campaign_id": "pause"})["decision_id"]
    call(closed, "POST", "/reward", {"decision_id": decision_id, "reward": 1})
    assert "1 reward learned, none waiting." in browser.text("/dashboard/campaigns/pause")
    call(closed, "PATCH", "/campaigns/pause", {"status": "paused"})
    for value in (2, 3, 4):
        body = {"reward": value, "reason": "mistyped"}
        call(closed, "POST", f"/decisions/{decision_id}/correction", body)
    page = browser.text("/dashboard/campaigns/pause")
    assert "Rewards 1 including" in page
    assert (
        "0 of them waiting, and will be learned in order once the campaign is active again; so will 3 corrections."
        in page
    )
    assert "0 rewards and 3 corrections stored, to be learned when the campaign is active again." in page
    assert "from a sample of" not in page
    call(closed, "PATCH", "/campaigns/pause", {"status": "active"})
    assert "1 reward learned, none waiting." in browser.text("/dashboard/campaigns/pause")


def test_a_reward_by_hand_is_recorded_once_and_corrected(closed: Server, browser: Browser, keys: Values) -> None:
    """A trial by hand would wait for its reward for ever, or a slip of the hand be learned for good."""
    make(closed, "hand", reward={"maximum": 10})
    decision_id = call(closed, "POST", "/select", {"campaign_id": "hand"})["decision_id"]
    here = f"/dashboard/campaigns/hand/decisions/{decision_id}"
    browser.http.cookies.clear()
    browser.sign_in(keys["writer"])
    assert error_of(browser.send(f"{here}/reward", reward="a lot"), "reward") == "must be a number, not a string"
    assert "at most 10" in error_of(browser.confirm(f"{here}/reward", reward="11"), "reward")
    assert "Record the reward 0.5?" in words(browser.send(f"{here}/reward", reward="0.5"))
    assert browser.confirm(f"{here}/reward", reward="0.5").headers["location"] == here
    twice = browser.confirm(f"{here}/reward", reward="0.6")
    assert twice.status_code == 409
    assert "already has a different reward" in words(twice)
    assert browser.confirm(f"{here}/correction", reward="0.7", reason="mistyped").status_code == 303
    page = browser.text(here)
    assert "Reward 0.7" in page
    assert "mistyped" in page
    browser.http.cookies.clear()
    browser.sign_in(keys["admin"])
    trail = browser.text("/dashboard/campaigns/hand")
    assert f"Reward sent by hand: {decision_id} writer dashboard" in trail
    assert f"Reward corrected: {decision_id} writer dashboard" in trail


def test_a_decision_says_whether_it_was_shown_and_until_when_its_reward_is_due(
    closed: Server, browser: Browser
) -> None:
    """A decision that was never shown would look like one whose reward is lost."""
    make(closed, "later", reward={"timeout_seconds": 3600})
    made = call(closed, "POST", "/select", {"campaign_id": "later", "activation": "deferred"})
    here = f"/dashboard/campaigns/later/decisions/{made['decision_id']}"
    assert "shown not yet" in browser.text(here)
    assert "reward due" not in browser.text(here)
    call(closed, "POST", f"/decisions/{made['decision_id']}/activate")
    assert "shown 20" in browser.text(here)
    assert "reward due" in browser.text(here)


def test_an_export_is_a_link(closed: Server, browser: Browser) -> None:
    """The session opens pages alone, so the API's address would ask for a key."""
    make(closed, "out")
    page = browser.http.get("/dashboard/campaigns/out").text
    for link, start in re.findall(r'href="(/dashboard/campaigns/out/export[^"]*)" download>(\w+)', page):
        file = browser.http.get(link)
        assert file.status_code == 200
        assert "attachment" in file.headers["content-disposition"]
        assert file.text.startswith("{" if start == "Export" else "decision_id")
    assert browser.http.get("/dashboard/campaigns/none/export").status_code == 404
