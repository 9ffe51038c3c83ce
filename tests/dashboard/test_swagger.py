"""The interactive page of the API, tried as a newcomer tries it."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.dashboard.conftest import WAIT_MS, OpenPage
from tests.servers import Server

pytestmark = pytest.mark.slow

expect.set_options(timeout=WAIT_MS)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The demo, without keys."""
    folder = tmp_path_factory.mktemp("demo")
    server = Server(f"sqlite:///{folder}/prudent.db", folder / "server.log", arguments=["--demo"])
    server.start(WAIT_MS / 1000)
    yield server
    server.kill()
    print(server.log())  # noqa: T201


def test_the_first_execute_works(demo: Server, open_page: OpenPage) -> None:
    """The first thing that a newcomer presses would answer with an error."""
    page = open_page(f"{demo.url}/docs")
    first = page.locator(".opblock").first
    first.locator(".opblock-summary-control").click()
    first.get_by_role("button", name="Try it out").click()
    first.get_by_role("button", name="Execute").click()
    status = first.locator(".live-responses-table .response .response-col_status")
    expect(status).to_contain_text(re.compile("^20[01]"))
