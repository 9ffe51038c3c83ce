"""A campaign's page with features: which arm is best in which contexts, never that one arm is best."""

import re
from collections.abc import Iterator

import httpx
import numpy as np
import pytest

from tests.api.test_report_with_features import BY_NAME, drive
from tests.servers import Server

ARMS = [f"variant-{number:02}" for number in range(50)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service with the taxi and a campaign of fifty arms, both with their history."""
    folder = tmp_path_factory.mktemp("policies")
    made = Server(f"sqlite:///{folder}/prudent.db", folder / "server.log")
    made.start()
    world = np.random.default_rng(1)
    with httpx.Client(base_url=made.url, timeout=60, trust_env=False) as http:
        drive(http, "taxi")
        drive(http, "named", campaign=BY_NAME)
        many = {"risk": {"measure": "mean"}, "model": {"type": "disjoint", "dimension": 2}}
        arms = [{"arm_id": name} for name in ARMS]
        http.post("/campaigns", json=many | {"campaign_id": "many", "arms": arms}).raise_for_status()
        observed = [
            {
                "arm_id": ARMS[number % 50],
                "context": [x, y],
                "reward": x * np.cos(number % 50) + y * np.sin(number % 50),
            }
            for number, (x, y) in enumerate(world.normal(size=(1_000, 2)).tolist())
        ]
        http.post("/campaigns/many/observations", json={"items": observed}).raise_for_status()
    yield made
    made.kill()


def page(server: Server, campaign_id: str) -> str:
    reply = httpx.get(f"{server.url}/dashboard/campaigns/{campaign_id}", timeout=60, trust_env=False)
    reply.raise_for_status()
    return reply.text


def words(html: str) -> str:
    """What a reader sees, without marks."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


def test_the_taxi(server: Server) -> None:
    """The page crowned the motorway, which is the worst route in the rush hour."""
    html = page(server, "taxi")
    found = words(html.split('id="found"')[1].split("</div>")[0])
    assert re.search(r"motorway in \d+% \(rush hour 0\)", found)
    assert re.search(r"main-road in \d+% \(rush hour 1\)", found)
    shown = words(html)
    for phrase in (" leads", "would lead", "From the rewards alone, ignoring", "This is evidence"):
        assert phrase not in shown
    assert "Which arm for whom" in shown
    rows = [words(row) for row in html.split('<table id="policy"')[1].split("</table>")[0].split("<tr>")[2:]]
    assert len(rows) == 2
    assert any("motorway" in row and "rush hour 0" in row for row in rows)
    assert any("main-road" in row and "rush hour 1.00" in row for row in rows)
    # its estimates are at a context that was seen, not at half a rush hour
    assert re.search(r"for a typical context of the latest 100 decisions \(rush hour (0|1\.00)\)", shown)
    # what rewards are learned relative to
    assert "The model learns rewards relative to it" in shown


def test_the_taxi_by_name(server: Server) -> None:
    """A campaign with a boolean and a category had the page of one without features: an arm led for everybody."""
    html = page(server, "named")
    chart = html.split('id="groups-chart"')[1].split("</svg>\n</div>")[0]
    assert re.search(r"rush hour.*no: motorway \S+%.*yes: main-road \S+%", words(chart))
    assert " leads" not in words(html)
    rows = [words(row) for row in html.split('<table id="groups"')[1].split("</table>")[0].split("<tr>")[2:]]
    assert re.search(r"rush hour yes \d+ main-road \S+%", rows[1])
    assert "weather" in words(html.split('<table id="policy"')[1].split("</table>")[0])


def test_fifty_arms(server: Server) -> None:
    """Fifty arms would make a chart as long as the street."""
    html = page(server, "many")
    chart = html.split('id="policy-chart"')[1].split("</svg>\n</div>")[0]
    assert 1 <= chart.count('class="name"') <= 8
    assert len(words(html.split('id="found"')[1].split("</div>")[0])) < 800
    assert "other arms in" in html
