"""What a newcomer does first: start the demo, paste what it prints, press its button, try a call on the API's page."""

import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from prudent.__main__ import DEMO_PORTS
from prudent.demo import DEMO, HISTORY, MORE, TRIAL, delivery
from prudent.preflight import first_free_port
from tests.api.keys import ADMIN_KEY
from tests.conftest import MakeServer
from tests.machine import missing
from tests.servers import HOST, Server, clean_environment

WAIT_SECONDS = 120
AT_FIRST = TRIAL * len(DEMO.arms) + HISTORY


def observations(server: Server) -> int:
    count: int = httpx.get(f"{server.url}/campaigns/demo", trust_env=False).json()["observations"]
    return count


def press(server: Server, **headers: str) -> httpx.Response:
    """The button on the demo's page, as a browser sends its form."""
    return httpx.post(
        f"{server.url}/dashboard/campaigns/demo/parcels",
        headers={"Origin": server.url, "Content-Type": "application/x-www-form-urlencoded"} | headers,
        timeout=60,
        trust_env=False,
    )


def test_the_demo_has_a_history_and_keeps_it(make_server: MakeServer, sqlite_database: str) -> None:
    """An empty dashboard shows nothing; a history that is told again at each start would be another one."""
    server = make_server(sqlite_database, arguments=["--demo"])
    assert observations(server) == AT_FIRST
    report = httpx.get(f"{server.url}/campaigns/demo/report", trust_env=False).json()
    plays = {arm["arm_id"]: arm["plays"] for arm in report["arms"]}
    assert sum(plays.values()) == HISTORY
    assert plays["steady"] > HISTORY / 2
    server.restart()
    assert observations(server) == AT_FIRST


def test_the_button_sends_more_parcels(make_server: MakeServer, sqlite_database: str) -> None:
    """Whoever has nothing to send yet would see nothing move."""
    server = make_server(sqlite_database, arguments=["--demo"])
    page = httpx.get(f"{server.url}/dashboard/campaigns/demo", trust_env=False).text
    assert 'action="/dashboard/campaigns/demo/parcels"' in page
    assert press(server, Origin="http://elsewhere.example").status_code == 403
    assert observations(server) == AT_FIRST
    for pressed in (1, 2):
        reply = press(server)
        assert (reply.status_code, reply.headers["location"]) == (303, "/dashboard/campaigns/demo")
        assert observations(server) == AT_FIRST + pressed * MORE
    httpx.patch(f"{server.url}/campaigns/demo", json={"status": "archived"}, trust_env=False)
    assert press(server).status_code == 422
    assert observations(server) == AT_FIRST + 2 * MORE


def test_a_campaign_of_that_name_is_left_alone(client: httpx.Client) -> None:
    """Somebody's own campaign may be called demo; its parcels are real."""
    client.post(
        "/campaigns", json={"campaign_id": "demo", "risk": {"measure": "mean"}, "model": {"type": "multi-armed"}}
    )
    assert "parcels" not in client.get("/dashboard/campaigns/demo").text
    assert client.post("/dashboard/campaigns/demo/parcels").status_code == 404


def test_the_demos_couriers_are_what_is_said_of_them() -> None:
    """The page says what each of them earns."""
    rewards = {name: [delivery(parcel, name) for parcel in range(2_000)] for name in ("steady", "bold", "slow")}
    averages = {name: sum(values) / len(values) for name, values in rewards.items()}
    assert averages["steady"] == pytest.approx(0.6, abs=0.01)
    assert averages["slow"] == pytest.approx(0.4, abs=0.01)
    assert rewards["bold"].count(-1.0) == pytest.approx(200, abs=45)
    assert set(rewards["bold"]) == {0.9, -1.0}


@pytest.mark.parametrize("with_key", [False, True])
def test_what_the_demo_prints_can_be_pasted(make_server: MakeServer, sqlite_database: str, with_key: bool) -> None:
    """The first command that a newcomer pastes was answered 401."""
    if shutil.which("curl") is None:
        missing("curl is not installed")
    environment = {"PRUDENT_ADMIN_KEY": ADMIN_KEY} if with_key else {}
    server = make_server(sqlite_database, arguments=["--demo"], environment=environment)
    printed = server.log()
    commands = re.findall(r"(curl .*)$", printed, re.MULTILINE)
    assert len(commands) == 3
    assert ("PRUDENT_API_KEY" in printed) is with_key
    for command in commands:
        done = subprocess.run(
            ["bash", "-c", command],  # noqa: S607
            env=clean_environment({"PRUDENT_API_KEY": ADMIN_KEY, "no_proxy": "*"}),
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert '"status":4' not in done.stdout, done.stdout
        assert '"demo"' in done.stdout or '"duplicate":false' in done.stdout


def test_a_demo_of_its_own_begins_and_leaves_nothing(tmp_path: Path) -> None:
    """`uvx prudent demo`: one command, and nothing to clean up."""
    log = tmp_path / "log"
    environment = clean_environment({"TMPDIR": str(tmp_path)})
    with log.open("wb") as output:
        demo = subprocess.Popen(
            [sys.executable, "-m", "prudent", "demo"], cwd=tmp_path, env=environment, stdout=output, stderr=output
        )
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        while not (found := re.search(r"starting at (http://127\.0\.0\.1:\d+)", log.read_text(encoding="utf-8"))):
            assert time.monotonic() < deadline
            assert demo.poll() is None
            time.sleep(0.1)
        while True:
            try:
                reply = httpx.get(f"{found[1]}/campaigns/demo", trust_env=False)
                break
            except httpx.TransportError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        assert reply.json()["observations"] == AT_FIRST
        demo.send_signal(signal.SIGINT)
        assert demo.wait(WAIT_SECONDS) == 0
    finally:
        demo.kill()
        demo.wait()
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_the_demo_takes_the_first_free_port() -> None:
    """Port 8000 is what everything else takes, too."""
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert port < first_free_port(HOST, port, port + 20) <= port + 20
        assert first_free_port(HOST, port, port) == port  # which is then refused, with words
    assert DEMO_PORTS[0] == 8_000


def test_the_first_example_of_the_apis_page_works(make_server: MakeServer, sqlite_database: str) -> None:
    """Whoever presses "Execute" first should not be told that there is no such campaign."""
    server = make_server(sqlite_database)
    with httpx.Client(base_url=server.url, trust_env=False, timeout=30) as api:
        (path, operations), *others = api.get("/openapi.json").json()["paths"].items()
        ((method, operation),) = list(operations.items())[:1]
        example = operation["requestBody"]["content"]["application/json"]["example"]
        assert api.request(method, path, json=example).status_code == 201
        assert (method, path) == ("post", "/campaigns")
        selects = next(one["post"] for other, one in others if other == "/select")
        example = selects["requestBody"]["content"]["application/json"]["example"]
        assert api.post("/select", json=example).status_code == 200
