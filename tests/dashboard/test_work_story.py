"""A team's first week with a campaign, in a real browser and nowhere else: no terminal, no program."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.dashboard.conftest import PHONE, WAIT_MS, OpenPage, play, tile
from tests.servers import Server

pytestmark = pytest.mark.slow

expect.set_options(timeout=WAIT_MS)
ROUNDS = 4
"""Decisions that are tried and rewarded by hand."""


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service in which there is nothing yet."""
    folder = tmp_path_factory.mktemp("work")
    server = Server(f"sqlite:///{folder}/prudent.db", folder / "server.log")
    server.start(WAIT_MS / 1000)
    yield server
    server.kill()
    print(server.log())  # noqa: T201


def press(page: Page, name: str) -> None:
    """Press a button or follow a link of this name."""
    page.get_by_role("button", name=name, exact=True).or_(page.get_by_role("link", name=name, exact=True)).first.click()


def create(page: Page) -> None:
    """Create a campaign by the form; the first attempt has a mistake."""
    press(page, "New campaign")
    page.get_by_label("Id", exact=True).fill("which headline")
    page.get_by_label("Description").fill("Which headline, given the hour?")
    page.get_by_label("You toss it if it wins at least").fill("4")
    page.get_by_label("Arms, one a line").fill("calm\nloud\nodd")
    page.get_by_role("group", name="Feature 1").get_by_label("Name").fill("evening")
    page.get_by_role("group", name="Feature 1").get_by_label("Kind").select_option("boolean")
    page.get_by_text("Rewards, subjects and a holdout").click()
    page.get_by_label("Holdout", exact=True).fill("0.3")
    page.get_by_label("Holdout's arm").fill("odd")
    press(page, "Continue")
    expect(page.locator("#campaign_id\\.error")).to_contain_text("must be an id")
    page.get_by_label("Id", exact=True).fill("headline")
    press(page, "Continue")
    expect(page.get_by_role("heading", level=1)).to_have_text("Create headline?")
    expect(page.get_by_text("a shortfall counts 4 times as much as a surplus")).to_be_visible()
    press(page, "Create the campaign")
    expect(page.locator("#changed")).to_contain_text("Campaign created")


def try_and_reward(page: Page) -> None:
    """Decide by hand, and report the outcome by hand."""
    press(page, "Try a select")
    for number in range(ROUNDS):
        press(page, "Decide and record")
        expect(page.locator("#decision")).to_contain_text("Decision recorded")
        press(page, "Report it by hand")
        page.get_by_label("Reward", exact=True).fill("plenty" if number == 0 else str(number))
        press(page, "Continue")
        if number == 0:
            expect(page.locator("#reward\\.error")).to_contain_text("must be a number")
            page.get_by_label("Reward", exact=True).fill("0.5")
            press(page, "Continue")
        press(page, "Record the reward")
        expect(page.locator("#reward")).to_contain_text("received")
        page.get_by_role("navigation", name="Path").get_by_role("link", name="headline").click()
        expect(tile(page, "Rewards")).to_have_text(str(number + 1))
        press(page, "Try a select")
    page.get_by_role("navigation", name="Path").get_by_role("link", name="headline").click()


def clone(page: Page) -> None:
    """The same campaign with more caution."""
    press(page, "Clone")
    page.get_by_label("Id", exact=True).fill("headline-9")
    page.get_by_label("You toss it if it wins at least").fill("9")
    press(page, "Continue")
    press(page, "Create the campaign")
    expect(page.get_by_role("heading", level=1)).to_have_text("headline-9")
    expect(page.get_by_text("a shortfall counts 9 times as much").first).to_be_visible()
    expect(page.locator("#arms tbody tr")).to_have_count(3)


@pytest.mark.parametrize(("size", "with_script"), [((1280, 900), True), (PHONE, False)])
def test_the_story_of_a_week(
    empty: Server, open_page: OpenPage, tmp_path: Path, size: tuple[int, int], *, with_script: bool
) -> None:
    """Create, try, reward, watch, pause an arm, clone, export, read the lift; on a phone without a script as well."""
    page = open_page(empty.url + "/", size=size, script=with_script, expected="422")
    create(page)
    try_and_reward(page)

    # traffic, as a program sends it; the story goes on in the browser
    draw = random.Random(3)  # noqa: S311  # no secret
    means = {"calm": 3.0, "loud": 2.0, "odd": 1.0}
    for _ in range(12):
        play(empty, "headline", 20, lambda arm: draw.gauss(means[arm], 0.3), context={"evening": draw.random() < 0.5})
    page.goto(f"{empty.url}/dashboard/campaigns/headline")
    expect(tile(page, "Rewards")).to_have_text(f"{240 + ROUNDS}")
    expect(page.locator("#found")).to_contain_text("calm")
    expect(page.locator("#lift")).to_contain_text("higher than that of odd, with a 95% interval from")

    page.get_by_role("link", name="Pause loud").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Pause arm loud?")
    press(page, "Pause")
    expect(page.locator("#arms tbody tr").filter(has_text="loud").locator(".badge")).to_have_text("paused")
    expect(page.locator("#changes")).to_contain_text("Arm changed: loud, status from active to paused")

    with page.expect_download() as waiting:
        press(page, "Export")
    waiting.value.save_as(tmp_path / "headline.ndjson")
    lines = (tmp_path / "headline.ndjson").read_text().splitlines()
    assert len(lines) > 2 * (240 + ROUNDS)

    clone(page)
    press(page, "Archive")
    press(page, "Archive")
    expect(page.locator("#status")).to_have_text("archived")
    for name in ("headline", "headline-9"):  # the other run makes them anew
        page.request.delete(f"{empty.url}/campaigns/{name}?confirm={name}")


def test_the_work_is_done_by_keyboard_alone(empty: Server, open_page: OpenPage) -> None:
    """Enter in a field would press the wrong button, or a button be out of reach."""
    page = open_page(f"{empty.url}/dashboard/manage/campaigns")
    page.get_by_label("Id", exact=True).focus()
    page.keyboard.type("typed")
    page.get_by_label("You toss it if it wins at least").focus()
    page.keyboard.type("2")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Create typed?")
    for _ in range(12):
        page.keyboard.press("Tab")
        if page.evaluate("() => document.activeElement.name") == "confirmed":
            break
    page.keyboard.press("Enter")
    expect(page.locator("#changed")).to_contain_text("Campaign created")
    page.get_by_role("link", name="Add an arm").first.focus()
    page.keyboard.press("Enter")
    page.get_by_label("Id of the arm").focus()
    page.keyboard.type("first")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Add first to typed?")
    page.get_by_role("button", name="Add the arm").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#arms tbody tr")).to_have_count(1)
