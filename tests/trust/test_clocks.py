"""R12: the machine's clock is set while the service runs, and before it starts again."""

import asyncio
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.conftest import MakeServer
from tests.promises import Promise
from tests.servers import Server
from tests.trust.invariants import check, prudent_verify
from tests.trust.load import Load, Record, create_campaigns, send_again
from tests.trust.shifted import OFFSET_FILE
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

DAY = 86_400
SETTINGS = (0, DAY, -DAY, 400 * DAY, 0)
SWEEP_SECONDS = 2.5
"""In which deadlines are looked for at least once."""


def set_clock(offset: Path, seconds: int) -> None:
    """Move the machine's clock by so much from what it is."""
    written = offset.with_suffix(".new")
    written.write_text(str(seconds), encoding="ascii")
    written.replace(offset)


def pending(server: Server, count: int) -> int:
    """How many decisions of a campaign with a deadline of an hour have been given up and learned."""
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as http:
        if count:
            rules = {"timeout_seconds": 3_600, "default": 0}
            body = {"campaign_id": "due", "risk": {"measure": "mean"}, "model": {"type": "multi-armed"}}
            http.post("/campaigns", json={**body, "arms": [{"arm_id": "a"}], "reward": rules}).raise_for_status()
        for number in range(count):
            http.post("/select", json={"campaign_id": "due", "decision_id": f"due{number}"}).raise_for_status()
        learned: int = http.get("/campaigns/due").raise_for_status().json()["observations"]
    return learned


def made_ids(server: Server) -> list[str]:
    """Ids that the server makes of the time."""
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as http:
        replies = [http.post("/select", json={"campaign_id": "ridge"}).raise_for_status() for _ in range(20)]
    return [reply.json()["decision_id"] for reply in replies]


def listed(server: Server) -> list[str]:
    """Every decision of a campaign, page by page."""
    found: list[str] = []
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as http:
        cursor = None
        while True:
            parameters = {"limit": 7} | ({} if cursor is None else {"cursor": cursor})
            page = http.get("/campaigns/ridge/decisions", params=parameters).raise_for_status().json()
            found += [item["decision_id"] for item in page["items"]]
            cursor = page["next_cursor"]
            if cursor is None:
                return found


def test_a_clock_that_is_set(make_server: MakeServer, database_url: str, tmp_path: Path, promise: Promise) -> None:
    """R12. Daylight saving by hand, a wrong time server, a machine that wakes up in 1970."""
    offset = tmp_path / "offset"
    set_clock(offset, 0)
    command = (sys.executable, "-m", "tests.trust.shifted")
    server = make_server(database_url, environment={OFFSET_FILE: str(offset)}, command=command)
    record, ids = Record(), []
    create_campaigns(server.url)
    pending(server, 3)
    for seconds in SETTINGS:
        set_clock(offset, seconds)
        asyncio.run(Load(server.url, record).run(0.2))
        ids += made_ids(server)
    set_clock(offset, DAY)
    time.sleep(SWEEP_SECONDS)
    given_up = pending(server, 0)
    for seconds in (-DAY, -400 * DAY):
        server.stop()
        set_clock(offset, seconds)
        server.start()
        asyncio.run(Load(server.url, record).run(0.2))
        ids += made_ids(server)
    send_again(server.url, record)
    pages = listed(server)
    given_up += pending(server, 0)
    name = database_url.partition(":")[0]
    server.stop()
    set_clock(offset, DAY)
    server.start()
    if name == "sqlite":  # whose only clock is the machine's, which a start trusts
        wait_for(lambda: pending(server, 0) == 3, "deadlines that have passed are not learned")
    found = check(database_url, record)
    prudent_verify(database_url, server.url)
    repeated = len(ids) - len(set(ids)) + len(pages) - len(set(pages))
    promise(
        "R12",
        f"{name}: clock set {len(SETTINGS)} times under load, {record.acknowledged:,} acknowledged, and 3 starts in "
        f"another year or day: {found}, ids repeated {repeated}, deadlines moved {given_up}, "
        f"other statuses {sum(record.wrong_statuses.values())}",
    )
    assert not record.wrong_statuses
    assert found.none, found.faults
    assert (repeated, given_up) == (0, 0)
    assert set(ids) <= set(pages)
