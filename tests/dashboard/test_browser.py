"""The dashboard in a real browser: what a person sees, clicks and types."""

import math
import re
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, expect

from tests.conftest import MakeServer
from tests.dashboard.conftest import (
    HOSTILE,
    WAIT_MS,
    OpenPage,
    count_charts,
    couriers,
    focused,
    play,
    post,
    run,
    tile,
)
from tests.servers import Server

pytestmark = pytest.mark.slow

ADMIN_KEY = "an-admin-key-that-an-operator-chose"
expect.set_options(timeout=WAIT_MS)


def test_the_list_leads_to_a_campaign_by_keyboard_alone(site: Server, open_page: OpenPage) -> None:
    """Whoever uses no mouse would not get in, or lose the way."""
    page = open_page(site.url + "/")
    expect(page.get_by_role("heading", name="Campaigns")).to_be_visible()
    order = []
    for _ in range(9):
        page.keyboard.press("Tab")
        order.append(focused(page))
    assert order[:8] == ["Skip to content", "Prudent", "Campaigns", "API", "Guide", "Keys", "Live", "New campaign"]
    assert order[8] == "demo"
    assert page.evaluate("() => getComputedStyle(document.activeElement, '::after').outlineStyle") == "solid"
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="demo")).to_be_visible()
    page.keyboard.press("Tab")
    assert focused(page) == "Skip to content"
    page.keyboard.press("Enter")
    assert page.evaluate("() => document.activeElement.id") == "main"


def test_a_campaign_shows_its_numbers_and_charts(site: Server, open_page: OpenPage) -> None:
    """The page would be an empty frame: charts blocked by the policy, or numbers that are not the service's."""
    page = open_page(f"{site.url}/dashboard/campaigns/demo")
    assert count_charts(page) == 4
    report = httpx.get(f"{site.url}/campaigns/demo/report", trust_env=False).json()
    assert tile(page, "Decisions").inner_text() == f"{report['plays']:,}"
    assert tile(page, "Rewards").inner_text() == f"{report['head']:,}"
    assert tile(page, "Awaiting reward").inner_text() == f"{report['pending']:,}"
    for arm in report["arms"]:
        cells = page.locator("#arms tbody tr").filter(has_text=arm["arm_id"]).locator("td").all_inner_texts()
        share = arm["share"]
        assert cells[0] == ("<1%" if 0 < share < 0.01 else ">99%" if 0.99 < share < 1 else f"{100 * share:.0f}%")
        assert cells[1] == f"{arm['rewards']['n']:,}"
        assert float(cells[2].replace("\N{MINUS SIGN}", "-")) == pytest.approx(arm["rewards"]["mean"], abs=5e-3)
        assert float(cells[4].replace("\N{MINUS SIGN}", "-")) == pytest.approx(arm["rewards"]["risk"], abs=5e-3)
    assert page.locator("#rewards-chart .bin").count() > 10
    expect(page.locator("#found")).to_contain_text("By the mean alone, bold would be chosen")


def test_the_taxi_is_told_for_whom(site: Server, open_page: OpenPage) -> None:
    """The page crowned the motorway, which is the worst way in the rush hour: with a boolean it knew no features."""
    page = open_page(f"{site.url}/dashboard/campaigns/taxi")
    expect(page.get_by_role("heading", name="Which arm for whom")).to_be_visible()
    chart = page.locator("#groups-chart")
    expect(chart.locator("text", has_text="yes: main-road")).to_be_visible()
    expect(chart.locator("text", has_text="no: motorway")).to_be_visible()
    found = page.locator("#found").inner_text()
    assert re.search(r"motorway in \d+% \(rush_hour no\)", found)
    assert re.search(r"main-road in \d+% \(rush_hour yes\)", found)
    assert " leads" not in page.inner_text("main")
    chart.locator(".part").first.hover()
    expect(page.locator(".tip")).to_contain_text("is the best in")
    page.locator("#policy-table summary").click()
    expect(page.locator("#groups tbody tr")).to_have_count(2)


def test_fifty_arms_can_all_be_reached(site: Server, browser: Browser) -> None:
    """Of fifty arms eight are in the charts, and the others were nowhere. Without a script, too."""
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"{site.url}/dashboard/campaigns/fifty", timeout=WAIT_MS)
        expect(page.get_by_text("8 of 50 arms shown").first).to_be_visible()
        rows = page.locator("#arms tbody tr")
        expect(rows).to_have_count(50)
        page.get_by_role("link", name="mean", exact=True).click()
        expect(page.locator("#arms th[aria-sort=descending]")).to_have_text("mean")
        expect(rows.first).to_contain_text("headline-49")
        page.get_by_label("Name contains").fill("LINE-3")
        page.get_by_role("button", name="Search").click()
        expect(rows).to_have_count(10)
        expect(page.locator("#arms-shown")).to_contain_text("1 to 10 of 10 that contain “LINE-3”, of 50 arms")
        expect(rows.first).to_contain_text("headline-39")  # still by the mean
        page.get_by_role("link", name="All 50 arms").click()
        expect(rows).to_have_count(50)


def test_the_numbers_of_an_arm_add_up(site: Server, open_page: OpenPage) -> None:
    """With exploration 3, estimate and bonus did not make the index that stood beside them."""
    for path, table, first in (
        ("", "#arms", 5),
        ("/try", "#indexes", 0),
    ):
        page = open_page(f"{site.url}/dashboard/campaigns/fifty{path}")
        row = page.locator(f"{table} tbody tr").first.locator("td").all_inner_texts()[first : first + 3]
        estimate, bonus, index = (float(cell.replace("\N{MINUS SIGN}", "-")) for cell in row)
        assert estimate + bonus == pytest.approx(index, abs=0.02 * max(1.0, abs(index)))


def test_a_campaign_without_rewards_says_what_to_do(site: Server, open_page: OpenPage) -> None:
    """Sixty decisions whose outcomes nobody sends: the page said that all is well."""
    page = open_page(f"{site.url}/dashboard/campaigns/waiting")
    card = page.locator("#unrewarded")
    expect(card).to_contain_text("60 decisions, no reward yet")
    expect(card).to_contain_text("does your program send them?")
    warning = page.locator("#health li.warning")
    expect(warning).to_contain_text("60 decisions, no reward yet")
    expect(page.locator("#attention")).to_contain_text("No rewards yet")
    assert '"duplicate":false' in run(card.locator("pre"))
    expect(card).to_have_count(0)
    expect(page.locator("#attention")).to_be_empty()
    expect(warning).to_have_count(0)


def test_the_dashboards_old_address_leads_to_it(site: Server, open_page: OpenPage) -> None:
    """Whoever types /dashboard would be told that there is no such path."""
    for path in ("/dashboard", "/dashboard/"):
        page = open_page(site.url + path)
        expect(page.get_by_role("heading", name="Campaigns")).to_be_visible()
        assert page.url == f"{site.url}/"


def test_a_change_of_the_world_is_said_in_health(site: Server, open_page: OpenPage) -> None:
    """Whoever looks at the page must see which arm has changed, since when, and what to do, as the report says it."""
    page = open_page(f"{site.url}/dashboard/campaigns/demo")
    health = page.locator("#health li")
    expect(health.first).to_be_visible()
    expect(health.filter(has_text="The world has changed")).to_have_count(0)
    arms = [{"arm_id": "steady"}, {"arm_id": "bold"}]
    model = {"risk": {"measure": "mean"}, "model": {"type": "multi-armed"}, "arms": arms}
    post(site, "/campaigns", {"campaign_id": "changed"} | model)
    rewards = [round(math.sin(number) - (3.0 if number >= 150 else 0.0), 3) for number in range(200)]
    items = [{"arm_id": "steady", "reward": reward} for reward in rewards]
    post(site, "/campaigns/changed/observations", {"items": items})
    page = open_page(f"{site.url}/dashboard/campaigns/changed")
    found = page.locator("#health li").first
    expect(found).to_have_class("warning")
    expect(found).to_contain_text("The world has changed The rewards of steady have fallen by")
    report = httpx.get(f"{site.url}/campaigns/changed/report", trust_env=False).json()
    expect(found).to_contain_text(report["changes"][0]["sentence"])
    restart = {"from": report["changes"][0]["since"]}
    post(site, "/campaigns/changed/restart", restart)
    expect(page.locator("#health li").filter(has_text="The world has changed")).to_have_count(0)


def test_a_chart_says_what_one_points_at(site: Server, open_page: OpenPage) -> None:
    """A picture that says no number where one points at it; and an arm that is lost among the others."""
    page = open_page(f"{site.url}/dashboard/campaigns/demo")
    tip = page.locator(".tip")
    page.locator("#shares-chart .strip").nth(20).hover()
    expect(tip).to_contain_text("decision")
    expect(tip).to_contain_text("steady")
    page.locator("#worth-chart .hit").first.hover()  # the only one with enough rewards for an interval
    expect(tip).to_contain_text("95% interval")
    page.locator("h1").hover()
    expect(tip).to_be_hidden()
    key = page.locator("#shares-chart").get_by_role("button", name="steady")
    key.click()
    expect(key).to_have_attribute("aria-pressed", "true")
    dimmed = page.locator("#shares-chart .area.dim")
    assert dimmed.count() == page.locator("#shares-chart .area").count() - 1
    play(site, "demo", 2, couriers(4))
    expect(tile(page, "Decisions")).not_to_have_text(tile(page, "Decisions").inner_text())
    expect(key).to_have_attribute("aria-pressed", "true")  # also after the chart has changed
    key.press("Enter")
    expect(dimmed).to_have_count(0)


def test_charts_need_no_script(site: Server, browser: Browser) -> None:
    """Where scripts are blocked the page would have holes."""
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"{site.url}/dashboard/campaigns/taxi", timeout=WAIT_MS)
        assert count_charts(page) == 7
        expect(page.locator("#worth-chart .dot").first).to_be_visible()
        assert "estimate" in (page.locator("#worth-chart g > title").first.text_content() or "")


def test_the_page_follows_and_keeps_the_readers_place(site: Server, open_page: OpenPage) -> None:
    """Numbers that are stale, or a page that jumps to its top and closes what one reads every five seconds."""
    page = open_page(f"{site.url}/dashboard/campaigns/demo")
    before = int(tile(page, "Decisions").inner_text().replace(",", ""))
    words = page.locator("#words")
    words.locator("summary").click()
    link = page.locator("#recent a").first
    link.focus()
    name = link.get_attribute("id")
    place = page.evaluate("() => scrollY")
    assert place > 0
    play(site, "demo", 3, couriers(3))
    expect(tile(page, "Decisions")).to_have_text(f"{before + 3:,}")
    assert page.evaluate("() => scrollY") == place
    assert words.get_attribute("open") is not None
    assert page.evaluate("() => document.activeElement.id") == name
    button = page.get_by_role("button", name="Live")
    button.press("Space")
    expect(page.get_by_role("button", name="Stopped")).to_have_attribute("aria-pressed", "false")


def test_a_service_that_is_gone_is_said_to_be(
    make_server: MakeServer, sqlite_database: str, open_page: OpenPage
) -> None:
    """Numbers of an hour ago would look like those of now."""
    server = make_server(sqlite_database, arguments=["--demo"])
    page = open_page(f"{server.url}/dashboard/campaigns/demo", expected="ERR_CONNECTION|Failed to fetch")
    server.kill()
    expect(page.locator("#live")).to_have_text("No response, retrying")
    server.start()
    expect(page.locator("#live")).to_have_text("Live")


def test_the_dark_scheme_reaches_page_and_charts(site: Server, open_page: OpenPage) -> None:
    """At night the page would blind, or dark charts lie on dark ground."""
    colours: dict[str, Any] = {}
    script = (
        "() => [getComputedStyle(document.body).backgroundColor,"
        " getComputedStyle(document.querySelector('#worth-chart .name')).fill]"
    )
    for scheme in ("light", "dark"):
        page = open_page(f"{site.url}/dashboard/campaigns/demo", scheme=scheme)
        colours[scheme] = [sum(map(int, re.findall(r"\d+", text)[:3])) for text in page.evaluate(script)]
    assert colours["light"][0] > 600 > 200 > colours["light"][1]
    assert colours["dark"][0] < 200 < 600 < colours["dark"][1]
    was = page.evaluate(script)[1]
    page.emulate_media(color_scheme="light")  # the sun rises
    fill = "getComputedStyle(document.querySelector('#worth-chart .name')).fill"
    page.wait_for_function(f"was => {fill} !== was", arg=was)


def test_what_users_wrote_is_shown_and_not_run(site: Server, open_page: OpenPage) -> None:
    """A description could take over the session of everyone who looks."""
    for path in ("/", "/dashboard/campaigns/vehicles", "/dashboard/campaigns/vehicles/try"):
        page = open_page(site.url + path)
        assert page.locator("img[src='x']").count() == 0
        assert page.locator("main script").count() == 0
        assert (HOSTILE in page.inner_text("main")) == ("try" not in path)
    assert page.get_by_label("rain <b>").count() == 1


def test_an_empty_service_says_how_to_begin(make_server: MakeServer, sqlite_database: str, open_page: OpenPage) -> None:
    """A newcomer would see an empty page. The printed command makes a campaign, which appears by itself."""
    server = make_server(sqlite_database)
    page = open_page(server.url + "/")
    expect(page.get_by_role("heading", name="No campaigns yet")).to_be_visible()
    run(page.locator("pre").first)
    link = page.get_by_role("link", name="couriers")
    expect(link).to_be_visible()
    link.click()
    expect(page.get_by_role("heading", name="No activity yet")).to_be_visible()
    assert count_charts(page) == 0
    run(page.locator("pre").first)
    expect(tile(page, "Decisions")).to_have_text("1")
    expect(page.locator("#shares-chart .plot")).to_be_visible()


def test_a_pause_is_seen_and_can_be_ended(site: Server, open_page: OpenPage) -> None:
    """A campaign that does not learn would look like one that does."""
    page = open_page(f"{site.url}/dashboard/campaigns/held")
    expect(page.locator("#status")).to_have_text("learning paused")
    banner = page.locator("#paused")
    expect(banner).to_contain_text("Learning is paused.")
    expect(banner).to_contain_text("7 of them waiting")
    banner.locator("summary").click()
    run(banner.locator("pre"))
    expect(page.locator("#status")).to_have_text("learning")
    expect(banner).to_be_empty()
    httpx.patch(f"{site.url}/campaigns/held", json={"status": "paused"}, trust_env=False).raise_for_status()


def test_a_select_by_hand_with_features(site: Server, open_page: OpenPage) -> None:
    """The first thing that a product team tries. A preview must record nothing, a decision once."""
    page = open_page(f"{site.url}/dashboard/campaigns/vehicles/try", expected="422")
    page.get_by_label("kilometres").fill("9")
    page.get_by_label("rain <b>").fill("1")
    before = httpx.get(f"{site.url}/campaigns/vehicles/report", trust_env=False).json()["plays"]
    page.get_by_role("button", name="Preview").click()
    page.wait_for_url("**x.0.0=9*")
    expect(page.locator("#preview .big")).to_have_text("van")
    assert count_charts(page) == 1
    assert httpx.get(f"{site.url}/campaigns/vehicles/report", trust_env=False).json()["plays"] == before
    page.get_by_role("button", name="Decide and record").click()
    decision = page.locator("#decision")
    expect(decision).to_contain_text("Decision recorded")
    assert page.get_by_label("kilometres").input_value() == "9"
    page.reload()
    report = httpx.get(f"{site.url}/campaigns/vehicles/report", trust_env=False).json()
    assert report["plays"] == before + 1
    answer = run(decision.locator("pre"))
    assert '"duplicate":false' in answer
    expect(page.locator("#reward")).to_contain_text("Reward 0.")
    page.get_by_label("kilometres").fill("many")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("alert")).to_contain_text("kilometres: enter a number")
    assert page.get_by_label("kilometres").get_attribute("aria-invalid") == "true"


def test_the_form_in_the_order_of_the_keyboard(site: Server, open_page: OpenPage) -> None:
    """One would type into the wrong field."""
    page = open_page(f"{site.url}/dashboard/campaigns/vehicles/try")
    page.get_by_label("kilometres").focus()
    order = []
    for _ in range(4):
        page.keyboard.press("Tab")
        order.append(focused(page))
    assert order == ["x.0.1", "explore", "Preview", "Decide and record"]


def test_copying_a_command(site: Server, open_page: OpenPage) -> None:
    """The button that everyone presses first."""
    page = open_page(f"{site.url}/dashboard/campaigns/fresh")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator(".copy").first.click()
    expect(page.locator(".copy").first).to_have_text("Copied")
    copied = page.evaluate("() => navigator.clipboard.readText()")
    assert copied == page.locator("pre").first.inner_text()
    assert copied.startswith(f"curl -s {site.url}/select")


def test_signing_in_and_out(make_server: MakeServer, sqlite_database: str, open_page: OpenPage) -> None:
    """With keys in use nobody would get in, or everybody."""
    server = make_server(sqlite_database, environment={"PRUDENT_ADMIN_KEY": ADMIN_KEY}, arguments=["--demo"])
    page = open_page(f"{server.url}/dashboard/campaigns/demo?x=1", expected="401")
    field = page.get_by_label("API key")
    expect(field).to_be_focused()
    field.fill("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("This key is not valid")
    page.get_by_label("API key").fill(ADMIN_KEY)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="demo")).to_be_visible()
    assert page.url.endswith("/dashboard/campaigns/demo?x=1")
    (cookie,) = page.context.cookies()
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"
    assert ADMIN_KEY not in cookie["value"]
    expect(page.locator("footer")).to_contain_text("signed in as admin")
    page.get_by_role("link", name="Try a select").click()
    page.get_by_role("button", name="Decide and record").click()
    expect(page.locator("#decision")).to_contain_text("$PRUDENT_API_KEY")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("API key")).to_be_visible()
    assert page.context.cookies() == []


def test_the_page_of_the_api_works_under_its_policy(site: Server, open_page: OpenPage) -> None:
    """A policy that the page's library violates would leave /docs empty. The console says what is blocked."""
    page = open_page(site.url + "/docs")
    expect(page.get_by_text("/select", exact=True).first).to_be_visible()
    page.get_by_text("/health/live", exact=True).first.click()
    page.get_by_role("button", name="Try it out").click()
    page.get_by_role("button", name="Execute").click()
    expect(page.get_by_text('"status": "ok"').first).to_be_visible()
