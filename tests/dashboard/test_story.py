"""The user story of the dashboard, in a real browser, from the list of campaigns to a reward that is counted.

`make pictures` runs it and writes docs/pictures/dashboard-*.png; docs/dashboard.md shows them.
"""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.conftest import PHONE, WAIT_MS, OpenPage, count_charts, couriers, keep_picture, play, tile, trips
from tests.servers import Server, clean_environment

pytestmark = pytest.mark.slow

expect.set_options(timeout=WAIT_MS)
SHOP_WINDOW = (1280, 860)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service that has run for a while."""
    folder = tmp_path_factory.mktemp("demo")
    server = Server(f"sqlite:///{folder}/prudent.db", folder / "server.log", arguments=["--demo"])
    server.start(WAIT_MS / 1000)
    try:
        for seed in range(24):
            play(server, "demo", 10, couriers(seed))
        trips(server, 300, 5, "Bike or van, given the distance and whether it rains?", "rain")
        yield server
    finally:
        server.kill()
        print(server.log())  # noqa: T201


@pytest.fixture
def picture() -> Callable[[Page, str], None]:
    """Take a picture of the whole page, where asked to."""
    folder = os.environ.get("DASHBOARD_PICTURES")

    def take(page: Page, name: str) -> None:
        if folder:
            keep_picture(page, Path(folder) / f"dashboard-{name}.png")

    return take


def test_the_story(demo: Server, open_page: OpenPage, picture: Callable[[Page, str], None]) -> None:
    """Open the dashboard, see the demo campaign, try a select, send its reward by curl, see the counts change."""
    page = open_page(demo.url + "/", size=SHOP_WINDOW)
    expect(page.get_by_role("link", name="demo")).to_be_visible()
    page.get_by_role("link", name="demo").click()
    expect(page.get_by_role("heading", level=1, name="demo")).to_be_visible()
    picture(page, "campaign")
    decisions, rewards = (int(tile(page, name).inner_text().replace(",", "")) for name in ("Decisions", "Rewards"))

    page.get_by_role("link", name="Try a select").click()
    expect(page.locator("#preview .big")).to_have_text("steady")
    page.get_by_role("button", name="Decide and record").click()
    expect(page.locator("#decision")).to_contain_text("Decision recorded")
    picture(page, "try")

    command = page.locator("#reward pre").inner_text()
    assert command.startswith(f"curl -s {demo.url}/reward")
    done = subprocess.run(
        ["bash", "-c", command],  # noqa: S607
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert f'"sequence":{rewards + 1}' in done.stdout
    expect(page.locator("#reward")).to_contain_text(f"sequence {rewards + 1:,} of the campaign's log")

    page.get_by_role("navigation", name="Path").get_by_role("link", name="demo").click()
    expect(tile(page, "Decisions")).to_have_text(f"{decisions + 1:,}")
    expect(tile(page, "Rewards")).to_have_text(f"{rewards + 1:,}")
    page.locator("#recent a").first.click()
    expect(page.get_by_role("heading", name="Decision")).to_be_visible()
    expect(page.locator("#reward")).to_contain_text("Reward")


@pytest.mark.parametrize(
    ("name", "path", "size", "scheme"),
    [
        ("list", "/", SHOP_WINDOW, "light"),
        ("features", "/dashboard/campaigns/vehicles", SHOP_WINDOW, "light"),
        ("dark", "/dashboard/campaigns/demo", SHOP_WINDOW, "dark"),
        ("phone", "/dashboard/campaigns/demo", PHONE, "light"),
    ],
)
def test_the_other_pictures(
    demo: Server,
    open_page: OpenPage,
    picture: Callable[[Page, str], None],
    name: str,
    path: str,
    size: tuple[int, int],
    scheme: str,
) -> None:
    """What docs/dashboard.md shows besides the story: the list, features, darkness, a phone."""
    page = open_page(demo.url + path, size=size, scheme=scheme)
    assert count_charts(page) == {"list": 0, "features": 7}.get(name, 4)
    picture(page, name)
