"""A real browser, and services with something to look at.

Chromium is not a Python package: where none is installed the tests are skipped, except on the build server (CI=true).
"""

import io
import os
import random
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from PIL import Image
from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Request, sync_playwright

from tests.machine import missing
from tests.servers import Server, clean_environment

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WAIT_MS = 120_000
"""On a busy machine. Nothing waits for a time, all for a state."""
WIDE, PHONE = (1280, 900), (360, 740)
COLOURS = 256
"""Of a picture. With fewer, what has a small area loses its hue, as an arm in a legend."""
HOSTILE = "Bike or van? <img src=x onerror=alert(1)> & <script>alert(2)</script>"
PAGES = (
    "/",
    "/dashboard/campaigns/demo",
    "/dashboard/campaigns/vehicles",
    "/dashboard/campaigns/fresh",
    "/dashboard/campaigns/held",
    "/dashboard/campaigns/long",
    "/dashboard/campaigns/long/try",
    "/dashboard/campaigns/demo/try",
    "/dashboard/campaigns/vehicles/try",
    "/dashboard/campaigns/waiting",
    "/dashboard/campaigns/fifty",
    "/dashboard/campaigns/taxi",
    "/dashboard/campaigns/taxi/try",
    "/dashboard/campaigns/over",
    "/dashboard/login",
    "/dashboard/campaigns/nowhere",
    "/dashboard/manage/campaigns",
    "/dashboard/manage/campaigns/taxi/clone",
    "/dashboard/manage/keys",
    "/dashboard/manage/trail",
)
RULES_OF_COLOURS = ("color-contrast", "link-in-text-block")
"""axe's, among those that it applies by itself."""
OpenPage = Callable[..., Page]


def post(server: Server, path: str, body: Any) -> Any:
    """Send JSON as an application would; the answer."""
    reply = httpx.post(server.url + path, json=body, timeout=60, trust_env=False)
    reply.raise_for_status()
    return reply.json()


def play(server: Server, campaign_id: str, count: int, reward: Callable[[str], float], **request: Any) -> None:
    """So many decisions, each rewarded."""
    selects = [{"campaign_id": campaign_id} | request for _ in range(count)]
    made = post(server, "/select/batch", {"items": selects})["items"]
    rewards = [{"decision_id": one["decision_id"], "reward": reward(one["arm_id"])} for one in made]
    post(server, "/reward/batch", {"items": rewards})


def couriers(seed: int) -> Callable[[str], float]:
    """The demo campaign's world: what a courier brings."""
    draw = random.Random(seed)  # noqa: S311  # no secret

    def reward(arm_id: str) -> float:
        if arm_id == "bold":
            return -1.0 if draw.random() < 0.1 else 0.9
        return round(draw.gauss({"steady": 0.6, "slow": 0.4}[arm_id], 0.05), 3)

    return reward


def trips(server: Server, count: int, seed: int, description: str, second: str) -> None:
    """A campaign with two named features, the distance and a second one, and some history."""
    draw = random.Random(seed)  # noqa: S311  # no secret
    features = [{"name": "kilometres", "center": 5, "scale": 5}, {"name": second}]
    post(
        server,
        "/campaigns",
        {
            "campaign_id": "vehicles",
            "description": description,
            "risk": {"measure": "expectile", "downside_weight": 4},
            "model": {"type": "disjoint", "dimension": 2, "features": features},
            "arms": [{"arm_id": "bike"}, {"arm_id": "van"}],
        },
    )
    for _ in range(count // 10):
        distance, rain = round(draw.uniform(0, 10), 1), int(draw.random() < 0.3)
        means = {"bike": 1 - 0.06 * distance - 0.5 * rain, "van": 0.7 - 0.01 * distance}
        play(
            server,
            "vehicles",
            10,
            lambda arm_id, means=means: means[arm_id] + draw.gauss(0, 0.1),
            context=[distance, rain],
        )  # type: ignore[misc]


def taxi(server: Server, count: int, seed: int) -> None:
    """The taxi of docs/exploration.md: in the rush hour the motorway is jammed in one trip of three."""
    draw = random.Random(seed)  # noqa: S311  # no secret
    post(
        server,
        "/campaigns",
        {
            "campaign_id": "taxi",
            "description": "Which way to the airport?",
            "risk": {"measure": "expectile", "downside_weight": 4},
            "model": {"type": "disjoint", "features": [{"name": "rush_hour", "kind": "boolean"}]},
            "arms": [{"arm_id": "motorway"}, {"arm_id": "main-road"}, {"arm_id": "side-roads"}],
        },
    )

    def minutes(arm_id: str, *, rush: bool) -> float:
        if arm_id == "motorway":
            return -35.0 if rush and draw.random() < 1 / 3 else draw.gauss(25, 2)
        return draw.gauss(15 if arm_id == "main-road" else 10, 2)

    tried = [
        {"arm_id": arm_id, "context": {"rush_hour": rush}, "reward": minutes(arm_id, rush=rush)}
        for arm_id in ("motorway", "main-road", "side-roads") * 12
        for rush in (True, False)
    ]
    post(server, "/campaigns/taxi/observations", {"items": tried})
    for _ in range(count // 10):
        rush = draw.random() < 0.4
        play(server, "taxi", 10, lambda arm_id, rush=rush: minutes(arm_id, rush=rush), context={"rush_hour": rush})  # type: ignore[misc]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """An open service with the demo, a campaign with features, one without any decision, a paused one, and long ids."""
    folder = tmp_path_factory.mktemp("site")
    server = Server(f"sqlite:///{folder}/prudent.db", folder / "server.log", arguments=["--demo"])
    server.start(WAIT_MS / 1000)
    try:
        play(server, "demo", 60, couriers(1))
        trips(server, 60, 2, HOSTILE, "rain <b>")
        empty = {
            "risk": {"measure": "mean"},
            "model": {"type": "multi-armed"},
            "arms": [{"arm_id": "a"}, {"arm_id": "b"}],
        }
        endless = {"campaign_id": "long", "arms": [{"arm_id": f"{'W' * 60}{n}"} for n in range(2)]}
        post(server, "/campaigns", empty | endless)
        play(server, "long", 40, lambda _: 1e9)
        for name in ("fresh", "held"):
            post(server, "/campaigns", {"campaign_id": name} | empty)
        httpx.patch(f"{server.url}/campaigns/held", json={"status": "paused"}, trust_env=False).raise_for_status()
        play(server, "held", 7, lambda _: 1.0)
        selects = [{"campaign_id": "waiting"} for _ in range(60)]
        post(server, "/campaigns", {"campaign_id": "waiting"} | empty)
        post(server, "/select/batch", {"items": selects})
        many = [{"arm_id": f"headline-{n:02}"} for n in range(50)]
        post(server, "/campaigns", empty | {"campaign_id": "fifty", "arms": many, "algorithm": {"exploration": 3}})
        play(server, "fifty", 120, lambda arm_id: float(arm_id[-2:]))
        taxi(server, 120, 4)
        post(server, "/campaigns", {"campaign_id": "over"} | empty)
        play(server, "over", 20, lambda _: 1.0)
        httpx.patch(f"{server.url}/campaigns/over", json={"status": "archived"}, trust_env=False).raise_for_status()
        yield server
    finally:
        server.kill()
        print(server.log())  # noqa: T201


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, headless; of this module alone, because Playwright keeps an event loop running while it is there."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        missing("no Chromium is installed (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        # root, as in a container, has no sandbox
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        launched = playwright.chromium.launch(
            executable_path=program, args=[*arguments, "--disable-gpu"], timeout=WAIT_MS
        )
        yield launched
        launched.close()


@contextmanager
def opening(browser: Browser) -> Iterator[OpenPage]:
    """What opens pages; at the end: no error, nothing from another host."""
    complaints: list[str] = []
    contexts = []

    def watch(page: Page, host: str, expected: str | None) -> None:
        def on_console(message: ConsoleMessage) -> None:
            if message.type in {"error", "warning"} and not (expected and re.search(expected, message.text)):
                complaints.append(f"{message.type}: {message.text}")

        def on_request(request: Request) -> None:
            if urlsplit(request.url).netloc != host and not request.url.startswith("data:"):
                complaints.append(f"asked another host: {request.url}")

        page.on("console", on_console)
        page.on("request", on_request)
        page.on("pageerror", lambda error: complaints.append(f"exception: {error}"))

    def open_one(
        url: str,
        size: tuple[int, int] = WIDE,
        scheme: Any = "light",
        expected: str | None = None,
        *,
        script: bool = True,
    ) -> Page:
        """expected: what the console may say, as a pattern: a browser complains of every status above 399."""
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme=scheme,
            reduced_motion="reduce",
            java_script_enabled=script,
        )
        contexts.append(context)
        context.set_default_timeout(WAIT_MS)
        page = context.new_page()
        watch(page, urlsplit(url).netloc, expected)
        page.goto(url)
        return page

    yield open_one
    for context in contexts:
        context.close()
    assert not complaints


@pytest.fixture
def open_page(browser: Browser) -> Iterator[OpenPage]:
    """Open a page: `open_page(url, size=PHONE, scheme="dark")`."""
    with opening(browser) as open_one:
        yield open_one


def open_all(page: Page) -> None:
    """Open whatever can be opened, so that it is looked at, too."""
    page.evaluate("() => document.querySelectorAll('details').forEach(one => { one.open = true; })")


def keep_picture(page: Page, path: Path) -> None:
    """Write a picture of the whole page, with few colours: some tens of kilobytes."""
    page.evaluate("() => scrollTo(0, 0)")
    shot = Image.open(io.BytesIO(page.screenshot(full_page=True))).convert("RGB")
    few = shot.quantize(COLOURS, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".webp":
        few.convert("RGB").save(path, lossless=True, method=4, quality=80)
    else:
        few.save(path, optimize=True)


def require_axe() -> Any:
    """The rules of accessibility. The test is skipped where they are not installed, except on the build server."""
    try:
        from axe_playwright_python.sync_playwright import Axe
    except ModuleNotFoundError as error:
        missing(f"{error.name} is not installed")
    return Axe()


def assert_axe_finds_nothing(page: Page, scheme: Any) -> None:
    """No rule of accessibility is broken in this scheme. The dark one differs from the light one in colours only."""
    page.emulate_media(color_scheme=scheme)
    rules = {} if scheme == "light" else {"runOnly": {"type": "rule", "values": list(RULES_OF_COLOURS)}}
    # a formula has the colours of its text: symbol by symbol they take a minute
    context = {"include": [["html"]], "exclude": [["math > *"]]}
    options = {"resultTypes": ["violations"], **rules}
    found = require_axe().run(page, context=context, options=options).response["violations"]
    assert not [(one["id"], [node["html"][:120] for node in one["nodes"][:3]]) for one in found]


def count_charts(page: Page) -> int:
    """How many charts have something to show."""
    return page.locator(".chart > .plot").count()


def run(command: Locator) -> str:
    """Run a command as the page shows it."""
    done = subprocess.run(
        ["bash", "-c", command.inner_text()],  # noqa: S607
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


def tile(page: Page, name: str) -> Locator:
    """The large number under a name."""
    return page.locator("#tiles > div").filter(has=page.locator(f"dt:text-is('{name}')")).locator("dd").first


def focused(page: Page) -> str:
    """What the keyboard is on: its text, label or name."""
    found = page.evaluate(
        "() => { const one = document.activeElement;"
        " return (one.getAttribute('aria-label') || one.innerText || one.name || one.tagName).trim(); }"
    )
    return str(found)
