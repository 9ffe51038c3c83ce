"""Campaigns that are made from others by the form: what a clone takes over, and what it does not."""

import json
import re
from typing import Any

import pytest

from tests.dashboard.work.conftest import MANAGE, Browser, call, make, words
from tests.servers import Server


def test_a_clone_has_everything_but_the_weight_and_what_was_learned(closed: Server, browser: Browser) -> None:
    """More caution could be tried only by writing the whole campaign down again."""
    model = {"type": "disjoint", "features": [{"name": "km", "center": 5, "scale": 2}], "interactions": []}
    arms = [{"arm_id": "a", "value": {"n": 1}}, {"arm_id": "b", "value": {"n": 2}}, {"arm_id": "old", "value": {}}]
    rules = {"reward": {"minimum": -3, "maximum": 3}, "algorithm": {"exploration": 2, "warmup": 3}, "seed": 7}
    make(closed, "first", risk={"measure": "expectile", "downside_weight": 4}, model=model, arms=arms, **rules)
    call(closed, "PATCH", "/campaigns/first/arms/old", {"status": "retired"})
    call(closed, "PATCH", "/campaigns/first", {"algorithm": {"exploration": 0.5}})
    path = f"{MANAGE}/campaigns/first/clone"
    assert 'value="4"' in browser.http.get(path).text
    values = {"campaign_id": "second", "description": "with care", "risk.downside_weight": "19"}
    assert browser.confirm(path, **values).status_code == 303
    first, second = (call(closed, "GET", f"/campaigns/{name}") for name in ("first", "second"))
    assert second["risk"]["downside_weight"] == 19
    assert (second["description"], second["observations"]) == ("with care", 0)
    for name in ("model", "algorithm", "reward", "seed", "assignment", "holdout"):
        assert second[name] == first[name], name
    assert second["arms"] == first["arms"][:2]


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("holdout", {"holdout": {"share": 0.1, "arm_id": "c"}}),
        ("baseline", {"algorithm": {"baseline": {"arm_id": "c", "tolerance": 0.1}}}),
    ],
)
def test_a_clone_goes_without_what_is_about_a_retired_arm(
    closed: Server, browser: Browser, name: str, rules: dict[str, Any]
) -> None:
    """A campaign whose control has been retired could not be cloned at all."""
    source, copy = f"with-{name}", f"without-{name}"
    make(closed, source, arms=[{"arm_id": "a"}, {"arm_id": "b"}, {"arm_id": "c"}], **rules)
    path = f"{MANAGE}/campaigns/{source}/clone"
    note = f"The {name} is left out, as its arm c is retired."
    assert note not in browser.text(path)
    call(closed, "PATCH", f"/campaigns/{source}/arms/c", {"status": "retired"})
    assert note in browser.text(path)
    values = {"campaign_id": copy, "risk.downside_weight": "1"}
    asked = browser.send(path, **values)
    assert asked.status_code == 200
    assert note in words(asked)
    assert browser.confirm(path, **values).status_code == 303
    made = call(closed, "GET", f"/campaigns/{copy}")
    assert [arm["arm_id"] for arm in made["arms"]] == ["a", "b"]
    assert (made["holdout"], made["algorithm"]["baseline"]) == (None, None)


@pytest.mark.parametrize(
    "risk",
    [
        {"measure": "cvar", "level": 0.1},
        {"measure": "entropic", "risk_tolerance": 2.0},
        {"measure": "moment", "of": "capped", "lower": -1.0, "upper": 1.0},
    ],
)
def test_a_clone_may_have_another_measure(closed: Server, browser: Browser, risk: dict[str, Any]) -> None:
    """The form knows one measure by its question; with the others its reader would be stuck."""
    name = risk["measure"]
    make(closed, name, risk=risk, reward={"minimum": -1, "maximum": 1})
    path = f"{MANAGE}/campaigns/{name}/clone"
    filled = browser.http.get(path).text.replace("&#34;", '"')
    text = re.search(r'name="risk"[^>]*>([^<]*)<', filled)
    assert text is not None
    assert browser.confirm(path, campaign_id=f"{name}-2", risk=text[1]).status_code == 303
    assert call(closed, "GET", f"/campaigns/{name}-2")["risk"] == call(closed, "GET", f"/campaigns/{name}")["risk"]


@pytest.mark.parametrize(
    ("before", "after", "rules"),
    [
        ({"measure": "expectile", "level": 0.2}, {"measure": "cvar", "level": 0.1}, {"warmup": 3}),
        ({"measure": "cvar", "level": 0.1}, {"measure": "mean"}, {}),
        ({"measure": "entropic", "risk_tolerance": 2}, {"measure": "quantile", "level": 0.5}, {"regularization": 3}),
        ({"measure": "entropic", "risk_tolerance": 2}, {"measure": "mean"}, {"name": "linucb-ogd-cr"}),
    ],
)
def test_a_clone_with_another_measure_has_its_defaults(
    closed: Server, browser: Browser, before: dict[str, Any], after: dict[str, Any], rules: dict[str, Any]
) -> None:
    """It would be refused for a setting that its form does not show, or learn by what suits another measure."""
    names = [f"{before['measure']}-{after['measure']}-{kind}" for kind in ("source", "clone", "same")]
    shared = {"reward": {"minimum": -1, "maximum": 1}, "algorithm": rules}
    make(closed, names[0], risk=before, **shared)
    make(closed, names[2], risk=after, **shared)
    values = {"campaign_id": names[1], "risk": json.dumps(after)}
    assert browser.confirm(f"{MANAGE}/campaigns/{names[0]}/clone", **values).status_code == 303
    clone, same = (call(closed, "GET", f"/campaigns/{name}") for name in names[1:])
    assert clone["algorithm"] == same["algorithm"]


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("linucb", {"measure": "mean"}, {"measure": "expectile", "level": 0.2}),
        ("linucb-ogd-cr", {"measure": "expectile", "level": 0.2}, {"measure": "cvar", "level": 0.1}),
    ],
)
def test_a_clone_whose_measure_its_algorithm_cannot_learn_has_the_default(
    closed: Server, browser: Browser, name: str, before: dict[str, Any], after: dict[str, Any]
) -> None:
    """Who wants to be careful with a campaign that was not could not clone it: the form has no field for this."""
    make(closed, f"{name}-source", risk=before, algorithm={"name": name, "delta": 0.1})
    path = f"{MANAGE}/campaigns/{name}-source/clone"
    assert f"With a risk measure that {name} cannot learn, it has the default algorithm." in browser.text(path)
    for risk, learned_by in ((before, name), (after, "linucb-cr")):
        copy = f"{name}-{risk['measure']}"
        assert browser.confirm(path, campaign_id=copy, risk=json.dumps(risk)).status_code == 303
        algorithm = call(closed, "GET", f"/campaigns/{copy}")["algorithm"]
        assert (algorithm["name"], algorithm["delta"]) == (learned_by, 0.1)


def test_a_clone_has_the_weight_to_its_last_digit(closed: Server, browser: Browser) -> None:
    """Two campaigns that should be alike would differ in what they are careful about."""
    make(closed, "precise", risk={"measure": "expectile", "level": 0.15})
    path = f"{MANAGE}/campaigns/precise/clone"
    found = re.search(r'name="risk.downside_weight"[^>]*value="([^"]*)"', browser.http.get(path).text)
    assert found is not None
    assert browser.confirm(path, **{"campaign_id": "precise-2", "risk.downside_weight": found[1]}).status_code == 303
    assert call(closed, "GET", "/campaigns/precise-2")["risk"] == call(closed, "GET", "/campaigns/precise")["risk"]
