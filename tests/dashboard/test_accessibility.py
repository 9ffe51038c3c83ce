"""The dashboard for whoever reads it differently: axe's rules, large text, a slow line, another zone."""

import pytest
from playwright.sync_api import Browser, Response, expect

from tests.dashboard.conftest import PAGES, WAIT_MS, OpenPage, open_all, require_axe
from tests.servers import Server

expect.set_options(timeout=WAIT_MS)
TWICE_AS_LARGE = (640, 450)
"""A window of 1280 by 900 at 200% zoom, in CSS pixels."""
FIRST_LOAD_BYTES_MAX = 150_000


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_axe_finds_nothing(site: Server, open_page: OpenPage, path: str, scheme: str) -> None:
    """Text too pale to read, fields without names, a structure that a screen reader cannot follow."""
    axe = require_axe()
    page = open_page(site.url + path, scheme=scheme, expected="404")
    open_all(page)
    found = axe.run(page).response["violations"]
    told = [(one["id"], [node["html"][:120] for node in one["nodes"][:3]]) for one in found]
    assert not told


@pytest.mark.parametrize("path", PAGES)
def test_nothing_is_cut_off_at_twice_the_size(site: Server, open_page: OpenPage, path: str) -> None:
    """Whoever needs large text would have to push every line to and fro."""
    page = open_page(site.url + path, size=TWICE_AS_LARGE, expected="404")
    open_all(page)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= TWICE_AS_LARGE[0]


@pytest.mark.parametrize("path", [path for path in PAGES if "nowhere" not in path])
def test_the_first_load_is_small(site: Server, browser: Browser, path: str) -> None:
    """On a train the page would take a minute, as it did when it brought a library of 5 MB for its charts."""
    received: list[Response] = []
    with browser.new_context() as context:
        page = context.new_page()
        page.on("response", lambda one: received.append(one))  # a method of a list has no owner to ask
        page.goto(site.url + path, wait_until="load", timeout=WAIT_MS)
        sizes = {one.url: len(one.body()) for one in received}
    assert len(sizes) >= 3
    assert sum(sizes.values()) < FIRST_LOAD_BYTES_MAX, sizes


def test_times_are_in_the_readers_zone(site: Server, browser: Browser) -> None:
    """Somebody in Kolkata would take a decision of now for one of the morning."""
    with browser.new_context(timezone_id="Asia/Kolkata") as context:
        page = context.new_page()
        page.goto(f"{site.url}/dashboard/campaigns/demo", timeout=WAIT_MS)
        expect(page.locator("#shares-chart .title")).to_contain_text("GMT+5:30")
        instant = page.locator("#shares-chart text[data-instant]").first
        shown = instant.evaluate("one => new Date(Number(one.dataset.instant)).toISOString()")
        hours, minutes = int(shown[11:13]) + 5, int(shown[14:16]) + 30
        expected = f"{(hours + minutes // 60) % 24:02}:{minutes % 60:02}"
        expect(instant).to_contain_text(expected)
        assert "GMT+5:30" in (page.locator("#recent time").first.get_attribute("title") or "")


def test_without_script_times_are_in_utc_and_say_so(site: Server, browser: Browser) -> None:
    """A time without a zone is any time."""
    with browser.new_context(java_script_enabled=False, timezone_id="Asia/Kolkata") as context:
        page = context.new_page()
        page.goto(f"{site.url}/dashboard/campaigns/demo", timeout=WAIT_MS)
        expect(page.locator("#shares-chart .title")).to_contain_text("UTC")
        expect(page.locator("#recent time").first).to_contain_text("UTC")
