"""Every page in every state that a team meets, on a desktop and a phone, light and dark: axe's rules, and pictures.

`make pictures` writes them to docs/pictures/states; `make test` looks at a few of them on a dark phone.
"""

import os
import random
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page

from tests.dashboard.conftest import (
    PHONE,
    WAIT_MS,
    OpenPage,
    couriers,
    keep_picture,
    play,
    post,
    require_axe,
    taxi,
    trips,
)
from tests.servers import Server

pytestmark = pytest.mark.slow

DESKTOP = (1280, 900)
SIZES = {"desktop": DESKTOP, "phone": PHONE}
PICTURES = os.environ.get("DASHBOARD_PICTURES")
LOOKS = list(product(SIZES, ("light", "dark"))) if PICTURES else [("phone", "dark")]
PLAIN: dict[str, Any] = {"risk": {"measure": "expectile", "downside_weight": 4}, "model": {"type": "multi-armed"}}
CAREFUL: dict[str, Any] = PLAIN | {"risk": {"measure": "expectile", "downside_weight": 9}}
COURIERS = [{"arm_id": "steady"}, {"arm_id": "bold"}, {"arm_id": "slow"}]
PARCELS = "Which courier should take the parcel?"
MANAGE = "/dashboard/manage"
STATES = {
    "new": "/dashboard/campaigns/new",
    "learning": "/dashboard/campaigns/learning",
    "settled": "/dashboard/campaigns/settled",
    "features": "/dashboard/campaigns/taxi",
    "fifty-arms": "/dashboard/campaigns/fifty-arms",
    "long-names": "/dashboard/campaigns/long-names",
    "stalled": "/dashboard/campaigns/stalled",
    "changed-world": "/dashboard/campaigns/changed-world",
    "archived": "/dashboard/campaigns/archived",
    "error": "/dashboard/campaigns/setled",
    "list": "/",
    "try": "/dashboard/campaigns/taxi/try",
    "try-error": "/dashboard/campaigns/vehicles/try?asked=1&x.0.0=far&x.0.1=1",
    "decision": "/dashboard/campaigns/settled/decisions/settled-decision",
    "reward": "/dashboard/campaigns/learning/decisions/waiting-decision/reward",
    "form": f"{MANAGE}/campaigns",
    "clone": f"{MANAGE}/campaigns/taxi/clone",
    "arm": f"{MANAGE}/campaigns/settled/arms",
    "confirm": f"{MANAGE}/campaigns/settled/arms/slow/status/retired",
    "keys": f"{MANAGE}/keys",
    "trail": f"{MANAGE}/trail",
    "login": "/dashboard/login",
}
"""Pages by the name of their picture: a campaign in ten states, and the other pages."""
LOOKED_AT = list(STATES) if PICTURES else ["new", "long-names", "stalled", "changed-world", "reward"]


def make(server: Server, campaign_id: str, kind: dict[str, Any], arms: list[dict[str, Any]], **changes: Any) -> None:
    """A campaign."""
    post(server, "/campaigns", kind | {"campaign_id": campaign_id, "arms": arms} | changes)


def settle(server: Server) -> None:
    """Three couriers for long enough; a tenth of the decisions goes to the slow one."""
    make(server, "settled", CAREFUL, COURIERS, description=PARCELS, holdout={"share": 0.1, "arm_id": "slow"})
    for seed in range(30):
        play(server, "settled", 20, couriers(seed))
    post(server, "/select", {"campaign_id": "settled", "decision_id": "settled-decision", "explain": True})
    post(server, "/reward", {"decision_id": "settled-decision", "reward": 0.61})


def change_the_world(server: Server) -> None:
    """The best of two arms becomes the worse one."""
    draw = random.Random(11)  # noqa: S311  # no secret
    make(server, "changed-world", PLAIN, [{"arm_id": "old-road"}, {"arm_id": "new-road"}], description="Which road?")
    for jammed in (False, True):
        means = {"old-road": -1.0 if jammed else 2.0, "new-road": 1.0}
        for _ in range(12):
            play(server, "changed-world", 20, lambda arm_id, means=means: draw.gauss(means[arm_id], 0.3))  # type: ignore[misc]


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """An open service with a campaign in each state."""
    folder = tmp_path_factory.mktemp("states")
    server = Server(f"sqlite:///{folder}/prudent.db", folder / "server.log")
    server.start(WAIT_MS / 1000)
    draw = random.Random(7)  # noqa: S311  # no secret
    try:
        make(server, "new", CAREFUL, COURIERS, description=PARCELS)
        make(server, "learning", CAREFUL, COURIERS, description=PARCELS)
        play(server, "learning", 24, couriers(1))
        post(server, "/select", {"campaign_id": "learning", "decision_id": "waiting-decision"})
        settle(server)
        taxi(server, 400, 4)
        trips(server, 60, 2, "Bike or van, given the distance and whether it rains?", "rain")
        headlines = [{"arm_id": f"headline-{number:02}", "value": f"Headline {number}"} for number in range(50)]
        make(server, "fifty-arms", PLAIN, headlines, description="Which of fifty headlines?")
        play(server, "fifty-arms", 400, lambda arm_id: int(arm_id[-2:]) / 50 + draw.gauss(0, 0.2))
        long = [{"arm_id": f"the-{'very-' * 14}long-name-of-arm-{number}"} for number in range(3)]
        make(server, "long-names", PLAIN, long, description="Names without a place to break. " + "Sodium" * 40)
        play(server, "long-names", 80, lambda arm_id: 1e8 * int(arm_id[-1]) + draw.gauss(0, 1e7))
        make(server, "stalled", PLAIN, COURIERS, description="A program asks and never reports.")
        post(server, "/select/batch", {"items": [{"campaign_id": "stalled"}] * 60})
        change_the_world(server)
        make(server, "archived", CAREFUL, COURIERS, description="Last year's couriers.")
        play(server, "archived", 60, couriers(3))
        for status in ("paused", "archived"):
            changed = httpx.patch(f"{server.url}/campaigns/archived", json={"status": status}, trust_env=False)
            changed.raise_for_status()
        yield server
    finally:
        server.kill()
        print(server.log())  # noqa: T201


def look(page: Page, name: str, size: str, scheme: str) -> None:
    """Take a picture where asked to; nothing may hang over the edge, nor break a rule of axe."""
    if PICTURES:
        keep_picture(page, Path(PICTURES) / "states" / f"{name}-{size}-{scheme}.webp")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= SIZES[size][0]
    found = require_axe().run(page).response["violations"]
    assert not [(one["id"], [node["html"][:120] for node in one["nodes"][:3]]) for one in found]


@pytest.mark.parametrize(("size", "scheme"), LOOKS)
@pytest.mark.parametrize("name", LOOKED_AT)
def test_every_state_can_be_read(states: Server, open_page: OpenPage, name: str, size: str, scheme: str) -> None:
    """The pages were drawn for a campaign that goes well; most of the time one does not."""
    expected = "404" if name == "error" else None
    page = open_page(states.url + STATES[name], size=SIZES[size], scheme=scheme, expected=expected)
    look(page, name, size, scheme)


@pytest.mark.parametrize(("size", "scheme"), LOOKS)
def test_a_form_with_mistakes_can_be_read(states: Server, open_page: OpenPage, size: str, scheme: str) -> None:
    """What is wrong must be found by whoever sees little, or nothing."""
    page = open_page(f"{states.url}{MANAGE}/campaigns", size=SIZES[size], scheme=scheme, expected="422")
    page.get_by_label("Id", exact=True).fill("which courier")
    page.get_by_label("You toss it if it wins at least").fill("a lot")
    page.get_by_label("Arms, one a line").fill("steady\nbold one\nbold one")
    page.get_by_role("button", name="Continue").click()
    page.locator("#refusal").wait_for()
    look(page, "form-error", size, scheme)


def test_the_states_are_what_they_are_called(states: Server) -> None:
    """A picture of a campaign that goes well would pass for one of a stalled one."""
    said = {
        "new": "No activity yet",
        "learning": "rewards learned",
        "settled": "steady",
        "features": "rush_hour",
        "fifty-arms": "8 of 50 arms shown",
        "stalled": "Needs attention: <b>No rewards yet</b>",
        "changed-world": "The world has changed",
        "archived": "This campaign accepts no selects",
        "error": "did you mean settled?",
    }
    for name, words in said.items():
        assert words in httpx.get(states.url + STATES[name], timeout=60, trust_env=False).text, name
