"""The dashboard for whoever reads it differently: axe's rules, large text, a slow line, another zone."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Response, expect

from tests.dashboard.conftest import PAGES, PHONE, WAIT_MS, assert_axe_finds_nothing, open_all, opening
from tests.servers import Server

pytestmark = pytest.mark.slow

expect.set_options(timeout=WAIT_MS)
TWICE_AS_LARGE = (640, 450)
"""A window of 1280 by 900 at 200% zoom, in CSS pixels."""
FIRST_LOAD_BYTES_MAX = 150_000


def resize(page: Page, size: tuple[int, int]) -> None:
    """Give the window another size; what lies open stays so."""
    page.set_viewport_size({"width": size[0], "height": size[1]})
    open_all(page)


@pytest.fixture(scope="module", params=PAGES)
def page(request: pytest.FixtureRequest, site: Server, browser: Browser) -> Iterator[Page]:
    """Each page, loaded once, with all of it open; tests change the scheme and the size of its window."""
    with opening(browser) as open_page:
        opened = open_page(site.url + request.param, expected="404")
        open_all(opened)
        yield opened


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(page: Page, scheme: str) -> None:
    """Text too pale to read, fields without names, a structure that a screen reader cannot follow."""
    assert_axe_finds_nothing(page, scheme)


def test_nothing_is_cut_off_at_twice_the_size(page: Page) -> None:
    """Whoever needs large text would have to push every line to and fro."""
    resize(page, TWICE_AS_LARGE)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= TWICE_AS_LARGE[0]


def test_nothing_is_wider_than_a_phone(page: Page) -> None:
    """On a phone one would have to push every line to and fro."""
    resize(page, PHONE)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE[0]
    small = page.evaluate(
        "() => [...document.querySelectorAll('main p, main td, main dd, main input, main .button')]"
        ".filter(one => one.offsetParent && parseFloat(getComputedStyle(one).fontSize) < 12).length"
    )
    assert small == 0


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
