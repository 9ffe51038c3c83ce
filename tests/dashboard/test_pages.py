"""The dashboard's pages as HTTP sees them: who may look, what a browser may run, what is cached."""

import re
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from prudent.security.sessions import COOKIE, SECONDS, Sessions
from prudent.settings import Settings
from tests.api.test_keys import make_key, prudent
from tests.servers import Server

ADMIN_KEY = "an-admin-key-that-an-operator-chose"
CAMPAIGN = {
    "campaign_id": "c",
    "description": "<i>which?</i>",
    "risk": {"measure": "expectile", "level": 0.2},
    "model": {"type": "disjoint", "dimension": 1, "features": [{"name": "<u>hour</u>"}]},
    "arms": [{"arm_id": "a"}, {"arm_id": "b"}],
}
PAGES = (
    "/",
    "/dashboard/campaigns/c",
    "/dashboard/campaigns/c/try",
    "/dashboard/campaigns/c/decisions/d",
    "/dashboard/campaigns/c/decisions/d/correction",
    "/dashboard/manage/campaigns",
    "/dashboard/manage/campaigns/c/clone",
    "/dashboard/manage/campaigns/c/arms",
    "/dashboard/manage/campaigns/c/status/archived",
    "/dashboard/manage/campaigns/c/arms/a/status/paused",
    "/dashboard/manage/keys",
    "/dashboard/manage/keys/new",
    "/dashboard/manage/trail",
)
Keys = dict[str, str]


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Keys]]:
    """A service with keys and a campaign that has a rewarded decision."""
    folder = tmp_path_factory.mktemp("closed")
    url = f"sqlite:///{folder}/prudent.db"
    server = Server(url, folder / "server.log", environment={"PRUDENT_ADMIN_KEY": ADMIN_KEY})
    server.start()
    keys = {role: make_key(url, role, role) for role in ("evaluator", "reader", "writer")} | {"admin": ADMIN_KEY}
    calls: list[tuple[str, Any]] = [
        ("/campaigns", CAMPAIGN),
        ("/select", {"campaign_id": "c", "decision_id": "d", "context": [3]}),
        ("/reward", {"decision_id": "d", "reward": 1}),
    ]
    for path, body in calls:
        sent = httpx.post(server.url + path, json=body, headers={"X-API-Key": ADMIN_KEY}, trust_env=False)
        sent.raise_for_status()
    yield server, keys
    server.kill()


@pytest.fixture
def http(closed: tuple[Server, Keys]) -> Iterator[httpx.Client]:
    """A browser that runs no script, not signed in."""
    with httpx.Client(base_url=closed[0].url, timeout=60, trust_env=False) as opened:
        yield opened


def sign_in(http: httpx.Client, closed: tuple[Server, Keys], role: str) -> None:
    """Sign in with the role's key. A key that was just made may not be known yet."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        reply = http.post("/dashboard/login", data={"key": closed[1][role]}, headers=own(http))
        if reply.status_code == 303:
            return
        time.sleep(0.1)
    raise AssertionError(reply.text)


def own(http: httpx.Client) -> dict[str, str]:
    """What a browser says of a form on our own page."""
    return {"Origin": str(http.base_url).rstrip("/"), "Sec-Fetch-Site": "same-origin"}


def attempt(http: httpx.Client, headers: dict[str, str]) -> httpx.Response:
    """Decide by the try page's form."""
    form = {"asked": "1", "explore": "on", "x.0.0": "3"}
    return http.post("/dashboard/campaigns/c/try", data=form, headers=headers)


def plays(http: httpx.Client) -> int:
    """How many decisions are recorded."""
    found: int = http.get("/campaigns/c/report", headers={"X-API-Key": ADMIN_KEY}).json()["plays"]
    return found


def test_without_a_key_a_page_shows_nothing_and_leads_to_the_login(http: httpx.Client) -> None:
    """Ids and numbers would be open to everybody who finds the address."""
    for path in (*PAGES, "/dashboard/campaigns/nowhere", "/dashboard/anything"):
        reply = http.get(path)
        assert reply.status_code == 303, path
        assert reply.headers["location"].startswith("/dashboard/login?next=%2F")
        assert reply.text == ""
        with_header = http.get(path, headers={"X-API-Key": "prudent_wrong"})
        assert with_header.status_code == 303
    assert attempt(http, own(http)).status_code == 401
    assert "no API key required" not in http.get("/dashboard/login").text
    login = http.get("/dashboard/login?next=%2Fdashboard%2Fcampaigns%2Fc")
    assert login.status_code == 200
    assert 'value="/dashboard/campaigns/c"' in login.text


def test_a_session_opens_the_pages_and_nothing_else(closed: tuple[Server, Keys], http: httpx.Client) -> None:
    """A page of another site could call the API with the reader's cookie."""
    sign_in(http, closed, "admin")
    for path in PAGES:
        assert http.get(path).status_code == 200, path
    for path in ("/campaigns", "/campaigns/c", "/metrics", "/campaigns/c/report"):
        assert http.get(path).status_code == 401, path
    assert http.post("/select", json={"campaign_id": "c", "context": [1]}).status_code == 401
    assert http.delete("/campaigns/c?confirm=c").status_code == 401


def test_a_reader_looks_and_a_writer_decides(closed: tuple[Server, Keys], http: httpx.Client) -> None:
    """Trying a select writes: with a reader's key it must not, and its button says why."""
    before = plays(http)
    sign_in(http, closed, "reader")
    page = http.get("/dashboard/campaigns/c/try")
    assert re.search(r"<button[^>]*disabled[^>]*>Decide and record", page.text)
    assert "you are signed in as a reader" in page.text
    assert attempt(http, own(http)).status_code == 403
    assert plays(http) == before
    http.cookies.clear()
    sign_in(http, closed, "writer")
    reply = attempt(http, own(http))
    assert reply.status_code == 303
    assert plays(http) == before + 1
    assert "Decision recorded" in http.get(reply.headers["location"]).text


def test_the_form_asks_for_the_arms_as_they_are(closed: tuple[Server, Keys], http: httpx.Client) -> None:
    """A price of 12345.67 was previewed, and recorded, as 12350."""
    key = {"X-API-Key": ADMIN_KEY}
    model = {"type": "shared", "features": [{"name": "price"}]}
    arms = [{"arm_id": "a", "features": {"price": 12345.67}}, {"arm_id": "b", "features": {"price": 3}}]
    body = {"campaign_id": "priced", "risk": {"measure": "mean"}, "model": model, "arms": arms}
    assert http.post("/campaigns", json=body, headers=key).status_code == 201
    page = http.get("/dashboard/campaigns/priced/try", headers=key).text
    shown = [re.search(r'value="([^"]*)"', tag) for tag in re.findall(r'<input[^>]*name="x\.\d\.0"[^>]*>', page)]
    assert [one[1] for one in shown if one] == ["12345.67", "3"]


def test_an_evaluator_is_not_let_in(closed: tuple[Server, Keys], http: httpx.Client) -> None:
    """Its key is in web pages, for everybody to read."""
    sign_in(http, closed, "reader")  # by now all keys are known
    http.cookies.clear()
    reply = http.post("/dashboard/login", data={"key": closed[1]["evaluator"]}, headers=own(http))
    assert (reply.status_code, reply.cookies) == (403, {})
    assert "may not look at campaigns" in reply.text


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "https://elsewhere.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Origin": "{own}", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "{own}.elsewhere.example"},
    ],
)
def test_a_form_of_another_site_is_refused(
    closed: tuple[Server, Keys], http: httpx.Client, headers: dict[str, str]
) -> None:
    """A page elsewhere could decide, or sign its reader in as somebody else."""
    base = own(http)["Origin"]
    sent = {name: value.replace("{own}", base) for name, value in headers.items()}
    refused = http.post("/dashboard/login", data={"key": ADMIN_KEY}, headers=sent)
    assert refused.status_code == 403
    assert "set-cookie" not in refused.headers
    sign_in(http, closed, "writer")
    before = plays(http)
    assert attempt(http, sent).status_code == 403
    assert plays(http) == before
    assert http.post("/dashboard/logout", headers=sent).status_code == 403
    assert http.get("/").status_code == 200


def test_a_wrong_key_opens_no_session(http: httpx.Client) -> None:
    """Anything typed would let in."""
    for key in ("", "wrong", "prudent_" + "x" * 43, ADMIN_KEY + "x", "schlüssel"):
        reply = http.post("/dashboard/login", data={"key": key}, headers=own(http))
        assert reply.status_code == 401
        assert "set-cookie" not in reply.headers
        assert key not in reply.text or not key


@pytest.mark.parametrize(
    "wanted",
    ["https://elsewhere.example/", "//elsewhere.example/", "/\\elsewhere.example", "/docs", "/campaigns", "x", "/\n/"],
)
def test_signing_in_leads_to_no_other_site(http: httpx.Client, wanted: str) -> None:
    """A link that somebody sends would lead from the login to a copy of it."""
    reply = http.post("/dashboard/login", data={"key": ADMIN_KEY, "next": wanted}, headers=own(http))
    assert reply.status_code == 303
    assert reply.headers["location"] == "/"


def test_a_revoked_key_ends_its_sessions(closed: tuple[Server, Keys], http: httpx.Client) -> None:
    """Whoever has left would go on looking for a week."""
    server, keys = closed
    keys["leaver"] = make_key(server.database_url, "leaver", "reader")
    sign_in(http, closed, "leaver")
    assert http.get("/").status_code == 200
    assert prudent("keys", "revoke", "leaver", "--database-url", server.database_url).exit_code == 0
    deadline = time.monotonic() + 30
    while http.get("/").status_code == 200 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert http.get("/").status_code == 303


def test_a_session_cannot_be_made_up_and_ends() -> None:
    """A cookie that is written by hand, or that was stolen long ago, would open the service."""
    now = 1e9
    sessions = Sessions(Settings(admin_key=ADMIN_KEY), clock=lambda: now)
    cookie = sessions.issue(b"key")
    session = sessions.read(cookie)
    assert session is not None
    assert Sessions(Settings(admin_key=ADMIN_KEY), clock=lambda: now).read(cookie) == session
    now += 1
    name, issued_at, signature = cookie.split(".")
    later = sessions.issue(b"key").split(".")[1]
    assert later != issued_at
    for forged in (
        f"{name}.{later}.{signature}",
        f"{'0' * len(name)}.{issued_at}.{signature}",
        f"{name}.{issued_at}.{'A' * len(signature)}",
        f"{name}.{issued_at}.",
        f"{name}.{signature}",
        "",
        "..",
        "ü.ü.ü",
        cookie + "x",
        cookie[:-1],
    ):
        assert sessions.read(forged) is None, forged
    for other in (Settings(admin_key=ADMIN_KEY + "x"), Settings(), Settings(session_secret="s" * 32)):
        assert Sessions(other, clock=lambda: now).read(cookie) is None
    twice = [(b"cookie", f"{COOKIE}={cookie}; {COOKIE}=x".encode())]
    assert sessions.presented(twice) is None
    assert sessions.presented([(b"cookie", f"a=b; {COOKIE}={cookie}".encode())]) == session
    now += SECONDS - 2
    assert sessions.read(cookie) == session
    now += 1
    assert sessions.read(cookie) is None


def test_the_policy_lets_pages_run_our_own_files_alone(closed: tuple[Server, Keys], http: httpx.Client) -> None:
    """One hole in the escaping, and somebody else's script would run."""
    sign_in(http, closed, "admin")
    for path in (*PAGES, "/dashboard/login", "/dashboard/campaigns/nowhere"):
        reply = http.get(path)
        policy = dict(part.strip().split(" ", 1) for part in reply.headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == "'self'"
        assert policy["style-src"] == "'self'"
        assert "unsafe" not in reply.headers["content-security-policy"]
        assert policy["frame-ancestors"] == "'none'"
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["cache-control"] == "no-store"
        assert not re.search(r"<[^>]+\s(on\w+|style)=", reply.text), path
        assert not re.search(r"<script(?![^>]* src=)", reply.text), path
        assert "<i>" not in reply.text
        assert "<u>" not in reply.text
        for address in re.findall(r'(?:src|href|action)="([^"]*)"', reply.text):
            assert address.startswith(("/", "#")), address


def test_files_are_kept_for_a_year_and_change_their_address(http: httpx.Client) -> None:
    """Every look would load them again; or an update would meet the old script in the cache."""
    addresses = set()
    for path in ("/dashboard/login", "/dashboard/campaigns/c"):
        page = http.get(path, headers={"X-API-Key": ADMIN_KEY}).text
        addresses |= set(re.findall(r'(?:src|href)="(/dashboard/static/[^"]+)"', page))
    assert {address.partition("?")[0].rpartition("/")[2] for address in addresses} == {
        "style.css",
        "icon.svg",
        "live.js",
        "charts.js",
    }
    for address in addresses:
        reply = http.get(address)
        assert reply.status_code == 200
        assert reply.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert reply.headers["content-encoding"] == "gzip"
        again = http.get(address, headers={"If-None-Match": reply.headers["etag"]})
        assert again.status_code == 304
        assert again.content == b""
        plain = http.get(address, headers={"Accept-Encoding": "identity"})
        assert plain.content == reply.content
        assert plain.headers["etag"] != reply.headers["etag"]
        assert http.get(address.partition("?")[0]).headers["cache-control"] == "no-cache"
    for name in ("nothing.js", "..%2Fpages.py", "%2e%2e/pages.py", "style.css%00"):
        assert http.get(f"/dashboard/static/{name}").status_code in {303, 404}, name


def test_what_is_wrong_is_said_on_a_page(closed: tuple[Server, Keys], http: httpx.Client) -> None:
    """A person would get JSON, or a stack of calls."""
    sign_in(http, closed, "writer")
    for path in (
        "/dashboard/campaigns/nowhere",
        "/dashboard/campaigns/c/decisions/nowhere",
        "/dashboard/campaigns/%00",
    ):
        reply = http.get(path)
        assert reply.status_code == 404, path
        assert reply.headers["content-type"].startswith("text/html")
        assert "Not found" in reply.text
    address = "/dashboard/campaigns/c/try"
    kind = {"Content-Type": "application/x-www-form-urlencoded"} | own(http)
    assert http.post(address, content=b"x" * 300_000, headers=kind).status_code == 413
    assert http.post(address, content=b"\xff\xfe", headers=kind).status_code == 422
    assert http.post(address, json={"x.0.0": 1}, headers=own(http)).status_code == 415
    for value in ("", "many", "nan", "inf", "1e400", "<script>"):
        reply = http.post(address, data={"asked": "1", "x.0.0": value}, headers=own(http))
        assert reply.status_code == 422, value
        assert "This request is not valid" in reply.text
        assert "<script>" not in reply.text


def test_the_table_of_coefficients_is_the_models(closed: tuple[Server, Keys], http: httpx.Client) -> None:
    """Whoever cannot see the chart would read other numbers, or none."""
    key = {"X-API-Key": ADMIN_KEY}
    model = http.get("/campaigns/c/model", headers=key).json()
    theta = [max(column, key=abs) for column in zip(*(arm["theta"] for arm in model["arms"]), strict=True)]
    table = re.search(r'<table id="coefficients".*?</table>', http.get(PAGES[1], headers=key).text, re.DOTALL)
    assert table is not None
    rows = dict(re.findall(r'<th scope="row">(.*?)</th>(.*)', table[0]))
    assert list(rows) == ["&lt;u&gt;hour&lt;/u&gt;", "intercept"][: len(theta)]
    for cells, value in zip(rows.values(), theta, strict=True):
        shown = [float(text.replace("\N{MINUS SIGN}", "-")) for text in re.findall(r"<td>([^ <]+)", cells)]
        assert max(shown, key=abs) == pytest.approx(value, rel=6e-3)
