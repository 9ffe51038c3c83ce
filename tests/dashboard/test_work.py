"""Work in the browser as HTTP sees it: forms that make and change, who may send them, and what is wrong with them."""

import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import httpx
import pytest

from prudent.dashboard.formatting import NONE
from tests.api.keys import ADMIN_KEY, make_key, prudent
from tests.conftest import MakeServer
from tests.servers import Server

MANAGE = "/dashboard/manage"
CAMPAIGN = {
    "campaign_id": "c",
    "risk": {"measure": "mean"},
    "model": {"type": "multi-armed"},
    "arms": [{"arm_id": "a"}, {"arm_id": "b"}],
}
Values = dict[str, str]


class Browser(AbstractContextManager["Browser"]):
    """One that runs no script: it gets pages, and sends the forms on them."""

    def __init__(self, server: Server, key: str = "") -> None:
        origin = {"Origin": server.url, "Sec-Fetch-Site": "same-origin"}
        self.http = httpx.Client(base_url=server.url, timeout=60, trust_env=False, headers=origin)
        if key:
            self.sign_in(key)

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def sign_in(self, key: str) -> None:
        """Sign in. A key that was just made may not be known yet."""
        deadline = time.monotonic() + 60
        while self.http.post("/dashboard/login", data={"key": key}).status_code != 303:
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def token(self, path: str) -> str:
        """Of the form on this page."""
        found = re.search(r'name="token" value="([^"]+)"', self.http.get(path).text)
        assert found is not None
        return found[1]

    def send(self, path: str, **values: str) -> httpx.Response:
        """Fill in the form on a page, and send it."""
        return self.http.post(path, data={"token": self.token(path)} | values)

    def confirm(self, path: str, **values: str) -> httpx.Response:
        """The same, and press the button of the page that confirms it."""
        return self.send(path, confirmed="yes", **values)

    def text(self, path: str) -> str:
        """What a page says."""
        return words(self.http.get(path))


def words(page: httpx.Response) -> str:
    """The words of a page."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page.text))


def error_of(page: httpx.Response, field: str) -> str:
    """What stands beside a field."""
    found = re.search(rf'id="{re.escape(field)}\.error">([^<]*)<', page.text)
    assert found is not None, page.text
    assert re.search(rf'id="{re.escape(field)}" name="[^"]*"[^>]* aria-invalid="true"', page.text)
    return found[1]


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service with keys, one of each role, and a campaign."""
    folder = tmp_path_factory.mktemp("work")
    url = f"sqlite:///{folder}/prudent.db"
    server = Server(url, folder / "server.log", environment={"PRUDENT_ADMIN_KEY": ADMIN_KEY})
    server.start(120)
    yield server
    server.kill()


@pytest.fixture(scope="module")
def keys(closed: Server) -> Values:
    """A key of each role, under the role's name."""
    return {role: make_key(closed.database_url, role, role) for role in ("reader", "writer", "admin")}


@pytest.fixture
def browser(closed: Server, keys: Values) -> Iterator[Browser]:
    """An admin's."""
    with Browser(closed, keys["admin"]) as opened:
        yield opened


def call(server: Server, method: str, path: str, body: Any = None) -> Any:
    """Use the API, with the operator's key."""
    sent = httpx.request(
        method, server.url + path, json=body, headers={"X-API-Key": ADMIN_KEY}, timeout=60, trust_env=False
    )
    sent.raise_for_status()
    return sent.json() if sent.content else None


def make(server: Server, campaign_id: str, **changes: Any) -> None:
    """A campaign made by the API."""
    call(server, "POST", "/campaigns", CAMPAIGN | {"campaign_id": campaign_id} | changes)


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
        "holdout": {"share": 0.2, "arm_id": "big"},
    }
    headers = {"X-API-Key": ADMIN_KEY}
    repeated = browser.http.post("/campaigns", json=body, headers=headers)
    assert repeated.status_code == 200  # not 201: the same request was made before
    again = browser.confirm(path, **NEW)
    assert again.status_code == 409
    assert "exists already" in error_of(again, "campaign_id")


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
        ({"reward.minimum": "-1e12"}, "reward.minimum", "must be at least"),
        ({"holdout.share": "2"}, "holdout.share", "must be at most 0.5"),
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
    assert f"writer dashboard Reward sent by hand: {decision_id}" in trail
    assert f"writer dashboard Reward corrected: {decision_id}" in trail


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


def test_keys_are_made_shown_once_and_revoked(closed: Server, browser: Browser) -> None:
    """An operator would have to be asked for each key."""
    path = f"{MANAGE}/keys/new"
    assert "is not a name" in error_of(browser.send(path, name="a b", role="reader"), "name")
    assert "must be one of" in error_of(browser.send(path, name="app", role="owner"), "role")
    assert "printable" in error_of(browser.send(path, name="app", role="reader", note="\x07"), "note")
    made = browser.confirm(path, name="app", role="reader", note="the shop")
    assert made.status_code == 200
    (key,) = re.findall(r"prudent_[\w-]{43}", made.text)
    listed = browser.http.get(f"{MANAGE}/keys").text
    assert key not in listed
    assert key[-4:] in listed
    assert httpx.get(f"{closed.url}/campaigns", headers={"X-API-Key": key}, trust_env=False).status_code == 200
    assert "exists already" in error_of(browser.confirm(path, name="app", role="reader"), "name")  # as a reload does
    assert browser.confirm(f"{MANAGE}/keys/app/revoke").status_code == 303
    assert httpx.get(f"{closed.url}/campaigns", headers={"X-API-Key": key}, trust_env=False).status_code == 401
    assert browser.http.get(f"{MANAGE}/keys/app/revoke").status_code == 404
    trail = browser.text(f"{MANAGE}/trail")
    assert "admin dashboard Key created: app, role reader" in trail
    assert "admin dashboard Key revoked: app" in trail
    assert "command line Key created: admin, role admin" in trail
    assert "your session ends with it" in browser.text(f"{MANAGE}/keys/admin/revoke")


def test_the_trail_has_what_programs_and_operators_do(closed: Server, browser: Browser) -> None:
    """Half of the history would be missing: what was not done in the browser."""
    make(closed, "seen")
    call(closed, "PATCH", "/campaigns/seen", {"algorithm": {"exploration": 0.25}})
    own = "/personalizer/seen/personalizer/v1.0/configurations/service"
    call(closed, "PUT", own, {"explorationPercentage": 0.2})
    done = prudent("campaigns", "pause", "seen", "--database-url", closed.database_url)
    assert done.exit_code == 0, done.stderr
    page = browser.text("/dashboard/campaigns/seen")
    assert "the setting PRUDENT_ADMIN_KEY API Campaign changed, algorithm.exploration from 1.0 to 0.25" in page
    assert "the setting PRUDENT_ADMIN_KEY API Campaign changed, algorithm.uniform_share from 0.0 to 0.2" in page
    assert f"{NONE} command line Campaign changed, status from active to paused" in page


FORMS = (
    "/campaigns",
    "/campaigns/mine/clone",
    "/campaigns/mine/status/archived",
    "/campaigns/mine/arms",
    "/campaigns/mine/arms/a/status/retired",
    "/keys/new",
    "/keys/reader/revoke",
)


@pytest.mark.parametrize("role", ["", "reader", "writer"])
def test_only_an_admin_changes_anything(closed: Server, keys: Values, role: str) -> None:
    """A reader's session would do what a reader's key may not."""
    call(closed, "POST", "/campaigns", CAMPAIGN | {"campaign_id": "mine"})
    with Browser(closed, keys.get(role, "")) as browser:
        for form in (*FORMS, "/keys", "/trail"):
            page = browser.http.get(MANAGE + form)
            assert page.status_code == 303, form
            assert "needs an admin" in browser.text(page.headers["location"])
        for form in FORMS:
            sent = browser.http.post(MANAGE + form, data={"confirmed": "yes", "campaign_id": "x"})
            assert sent.status_code == (403 if role else 401), form
        if role == "reader":
            assert browser.http.get("/dashboard/campaigns/mine/decisions/d/reward").status_code == 303
            for word in (MANAGE, "Pause"):
                assert word not in browser.http.get("/dashboard/campaigns/mine").text
    assert call(closed, "GET", "/campaigns/mine")["status"] == "active"


@pytest.mark.parametrize("form", FORMS)
def test_a_form_that_is_not_ours_changes_nothing(closed: Server, browser: Browser, keys: Values, form: str) -> None:
    """A page elsewhere, or one that shares our host, could use the session of an admin who looks at it."""
    call(closed, "POST", "/campaigns", CAMPAIGN | {"campaign_id": "mine"})
    path = MANAGE + form
    values = {"confirmed": "yes", "campaign_id": "theirs", "risk.downside_weight": "2", "arm_id": "theirs"}
    values |= {"name": "theirs", "role": "admin"}
    token = browser.token(path)
    with Browser(closed, keys["admin"]) as another:
        others = another.token(path)
    before = browser.text(f"{MANAGE}/trail")
    for sent, headers in (
        (values, {}),
        (values | {"token": "made.up.one"}, {}),
        (values | {"token": others}, {}),
        (values | {"token": token}, {"Origin": "https://elsewhere.example"}),
        (values | {"token": token}, {"Sec-Fetch-Site": "same-site"}),
    ):
        refused = browser.http.post(path, data=sent, headers=headers)
        assert refused.status_code == 403
    assert browser.text(f"{MANAGE}/trail") == before


def test_an_open_service_may_be_worked_with_until_its_first_key(make_server: MakeServer, sqlite_database: str) -> None:
    """A demo that can only be looked at; or one that any page in the browser can change."""
    with Browser(make_server(sqlite_database)) as browser:
        assert (
            browser.confirm(f"{MANAGE}/campaigns", campaign_id="c", **{"risk.downside_weight": "4"}).status_code == 303
        )
        page = browser.text("/dashboard/campaigns/c")
        assert f"{NONE} dashboard Campaign created" in page
        for headers in ({"Host": "elsewhere.example", "Origin": "http://elsewhere.example"}, {"Origin": "null"}):
            path = f"{MANAGE}/campaigns/c/status/archived"
            sent = browser.http.post(path, data={"token": browser.token(path), "confirmed": "yes"}, headers=headers)
            assert sent.status_code == 403
        assert "everybody on this machine may do everything" in browser.text(f"{MANAGE}/keys")
        path = f"{MANAGE}/keys/new"
        assert "the first key must be an admin" in error_of(browser.send(path, name="me", role="reader"), "role")
        made = browser.confirm(path, name="me", role="admin")
        assert "From now on every request needs a key" in words(made)
        assert browser.http.get("/").status_code == 303
        browser.sign_in(re.findall(r"prudent_[\w-]{43}", made.text)[0])
        assert "the last admin" in browser.text(f"{MANAGE}/keys/me/revoke")
        assert browser.confirm(f"{MANAGE}/keys/me/revoke").status_code == 303
        assert browser.http.get("/").status_code == 303  # nobody is let in again, neither without a key
