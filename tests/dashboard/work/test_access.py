"""Who may change things in the browser: keys, the trail, and forms that are not ours."""

import re

import httpx
import pytest

from prudent.dashboard.formatting import NONE
from tests.api.keys import prudent
from tests.conftest import MakeServer
from tests.dashboard.work.conftest import CAMPAIGN, MANAGE, Browser, Values, call, error_of, make, words
from tests.servers import Server


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
    assert "Key created: app, role reader admin dashboard" in trail
    assert "Key revoked: app admin dashboard" in trail
    assert f"Key created: admin, role admin {NONE} command line" in trail
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
    assert "Campaign changed, algorithm.exploration from 1.0 to 0.25 the setting PRUDENT_ADMIN_KEY API" in page
    assert "Campaign changed, algorithm.uniform_share from 0.0 to 0.2 the setting PRUDENT_ADMIN_KEY API" in page
    assert f"Campaign changed, status from active to paused {NONE} command line" in page


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
        assert f"Campaign created {NONE} dashboard" in page
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
