"""The guide in a browser: on a phone, for whoever reads it differently, and without a script."""

import pytest
from playwright.sync_api import Browser, expect

from tests.dashboard.conftest import PHONE, WAIT_MS, WIDE, OpenPage, require_axe
from tests.servers import Server

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


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_no_wider_than_a_phone(site: Server, open_page: OpenPage, path: str) -> None:
    """A formula or a table that is wider scrolls by itself; with the page, every line would have to be pushed about."""
    page = open_page(f"{site.url}/guide/{path}", size=PHONE)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= PHONE[0]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_axe_finds_nothing_in_the_guide(site: Server, open_page: OpenPage, path: str, scheme: str) -> None:
    """Text too pale to read, regions that scroll and cannot be reached, a structure that nobody can follow."""
    axe = require_axe()
    page = open_page(f"{site.url}/guide/{path}", size=WIDE, scheme=scheme)
    found = axe.run(page).response["violations"]
    assert not [(one["id"], [node["html"][:120] for node in one["nodes"][:3]]) for one in found]


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
