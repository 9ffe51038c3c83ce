"""The guide in a browser: on a phone, for whoever reads it differently, and without a script."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.dashboard.conftest import PHONE, WAIT_MS, OpenPage, assert_axe_finds_nothing, opening
from tests.servers import Server

pytestmark = pytest.mark.slow

expect.set_options(timeout=WAIT_MS)
PAGES = (
    "index",
    "tutorial",
    "mathematics",
    "mistakes",
    "performance",
    "operations",
    "search?q=regret",
    "search?q=xyzzy",
)


@pytest.fixture(scope="module", params=PAGES)
def page(request: pytest.FixtureRequest, site: Server, browser: Browser) -> Iterator[Page]:
    """Each page, loaded once; tests change the scheme and the size of its window."""
    with opening(browser) as open_page:
        yield open_page(f"{site.url}/guide/{request.param}")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_the_guide(page: Page, scheme: str) -> None:
    """Text too pale to read, regions that scroll and cannot be reached, a structure that nobody can follow."""
    assert_axe_finds_nothing(page, scheme)


def test_a_page_is_no_wider_than_a_phone(page: Page) -> None:
    """A formula or a table that is wider scrolls by itself; with the page, every line would have to be pushed about."""
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE[0]


def test_a_formula_can_be_read_on_a_phone(site: Server, open_page: OpenPage) -> None:
    """The longest formula of the page, to its end."""
    page = open_page(f"{site.url}/guide/mathematics", size=PHONE)
    formulas = page.locator(".formula")
    assert formulas.count() > 10
    wider = page.evaluate(
        "() => [...document.querySelectorAll('.formula')].filter(one => one.scrollWidth > one.clientWidth).length"
    )
    heights = page.evaluate("() => [...document.querySelectorAll('.formula math')].map(one => one.clientHeight)")
    assert wider >= 1  # it scrolls where it has to
    assert min(heights) >= 15


def test_the_search_needs_no_script(site: Server, browser: Browser) -> None:
    """The page's policy allows none."""
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"{site.url}/guide", timeout=WAIT_MS)
        page.get_by_role("searchbox").fill("delayed rewards")
        page.get_by_role("button", name="Find").click()
        page.get_by_role("link", name="Can I use it when rewards take days?").click()
        expect(page.get_by_role("heading", name="Can I use it when rewards take days?")).to_be_visible()
