"""What is logged: one JSON object a line, with the request's id, and nothing that a request carried."""

import json
import socket
import sys
from collections import Counter
from typing import Any

import httpx
import pytest

from prudent.store.engines import create_write_engine, parse_database_url
from tests.conftest import MakeServer
from tests.servers import HOST, Server
from tests.trust.test_process_deaths import processes_of
from tests.waiting import wait_for

MARKER = "xyzzyMARKERxyzzy"
KEY = f"{MARKER}-a-key-of-more-than-32-characters"
CAMPAIGN = {
    "campaign_id": "logged",
    "description": MARKER,
    "risk": {"measure": "mean"},
    "model": {"type": "multi-armed"},
    "arms": [{"arm_id": "a"}, {"arm_id": "b"}],
}


def lines(server: Server) -> list[dict[str, Any]]:
    """The log, every line of which must be a JSON object."""
    found = [json.loads(line) for line in server.log_path.read_text(encoding="utf-8").splitlines()]
    for line in found:
        assert {"event", "level", "timestamp", "process"} <= line.keys(), line
    return found


def client_of(server: Server) -> httpx.Client:
    return httpx.Client(base_url=server.url, trust_env=False, headers={"X-API-Key": KEY}, timeout=30)


def test_a_request_is_found_by_its_id(make_server: MakeServer, sqlite_database: str) -> None:
    """Support could not tell which lines belong to the request that a customer complains about."""
    server = make_server(sqlite_database, environment={"PRUDENT_LOG_LEVEL": "debug", "PRUDENT_ADMIN_KEY": KEY})
    with client_of(server) as client:
        client.post("/campaigns", json=CAMPAIGN).raise_for_status()
        named = client.post("/select", json={"campaign_id": "logged"}, headers={"X-Request-ID": "shop/42:a"})
        refused = client.post("/reward", json={"decision_id": "unknown", "reward": 1})
        unnamed = client.get("/campaigns/logged")
    assert named.headers["x-request-id"] == "shop/42:a"
    assert refused.json()["request_id"] == refused.headers["x-request-id"]
    ids = [reply.headers["x-request-id"] for reply in (named, refused, unnamed)]
    assert len(set(ids)) == 3
    by_id = {line.get("request_id"): line for line in lines(server) if line["event"] == "request"}
    assert (by_id[ids[0]]["route"], by_id[ids[0]]["status"]) == ("/select", 200)
    assert (by_id[ids[1]]["route"], by_id[ids[1]]["status"]) == ("/reward", 404)
    assert by_id[ids[2]]["route"] == "/campaigns/{campaign_id}"


@pytest.mark.parametrize("sent", ["two words", "x" * 129, "<script>", 'quote"', "", "é".encode()])
def test_an_id_that_could_do_harm_is_replaced(server: Server, sent: str | bytes) -> None:
    """Whatever a client sends there would be written into logs, and shown by whatever reads them."""
    reply = httpx.get(f"{server.url}/health/live", headers={"X-Request-ID": sent}, trust_env=False)
    assert reply.headers.get_list("x-request-id") == [reply.headers["x-request-id"]]
    assert reply.headers["x-request-id"].encode() != (sent if isinstance(sent, bytes) else sent.encode())
    assert reply.headers["x-request-id"].isascii()


def test_nothing_that_a_request_carried_is_logged(make_server: MakeServer, database_url: str) -> None:
    """Features may be of people; a key in a log is a key in every backup of it."""
    server = make_server(database_url, environment={"PRUDENT_LOG_LEVEL": "debug", "PRUDENT_ADMIN_KEY": KEY})
    with client_of(server) as client:
        client.post("/campaigns", json=CAMPAIGN).raise_for_status()
        client.post("/select", json={"campaign_id": "logged", "decision_id": MARKER}).raise_for_status()
        client.post("/select", json={"campaign_id": MARKER})
        client.post("/select", content=f'{{"{MARKER}')
        client.get(f"/campaigns/{MARKER}", headers={"X-API-Key": f"{MARKER}wrong", "Authorization": f"Bearer {MARKER}"})
        engine = create_write_engine(parse_database_url(database_url))
        with engine.begin() as connection:
            connection.exec_driver_sql("ALTER TABLE observations RENAME TO elsewhere")
        engine.dispose()
        failed = client.post("/reward", json={"decision_id": MARKER, "reward": 1})
    assert failed.status_code >= 500
    assert server.stop() == 0
    found = lines(server)
    assert [line for line in found if line["level"] in {"error", "warning"} and line["event"] == "request failed"]
    assert MARKER not in server.log_path.read_text(encoding="utf-8")


def test_what_anybody_can_send_does_not_fill_the_log(make_server: MakeServer, sqlite_database: str) -> None:
    """A client without a key would fill the disk, a line for each request that is no HTTP."""
    server = make_server(sqlite_database)
    for request in [b"NONSENSE\r\n\r\n"] * 100 + [b"CONNECT a:1 HTTP/1.1\r\n\r\n"] * 100:
        with socket.create_connection((HOST, server.port), timeout=15) as connection:
            connection.sendall(request)
            assert connection.recv(65_536).startswith(b"HTTP/1.1 4")
    assert server.stop() == 0
    events = Counter(line["event"] for line in lines(server))
    assert 0 < events["Invalid HTTP request received."] < 100
    assert sum(events.values()) < 100


@pytest.mark.parametrize("workers", [1, 2])
def test_a_log_that_cannot_be_written_stops_nothing(
    make_server: MakeServer, sqlite_database: str, workers: int
) -> None:
    """A full disk under the log would end the service, or the thread that starts the ledger's process again."""
    full = ("/bin/sh", "-c", f'exec {sys.executable} -m prudent "$@" 2> /dev/full', "sh")
    server = make_server(sqlite_database, workers=workers, environment={"PRUDENT_ADMIN_KEY": KEY}, command=full)
    with client_of(server) as client:
        assert client.get("/campaigns", headers={"X-API-Key": "wrong"}).status_code == 401
    if workers > 1:
        ledger, _ = processes_of(server)
        ledger.kill()
        wait_for(lambda: processes_of(server)[0] != ledger)
        server.wait_until_ready()


def test_uvicorn_writes_the_same_format(make_server: MakeServer, sqlite_database: str) -> None:
    """A log pipeline would choke on the lines about starting and stopping."""
    server = make_server(sqlite_database)
    assert server.stop() == 0
    assert [line for line in lines(server) if line.get("logger") == "uvicorn.error"]


def test_the_level_is_kept(make_server: MakeServer, sqlite_database: str) -> None:
    """Whoever asks for errors alone would still pay for every line."""
    server = make_server(sqlite_database, environment={"PRUDENT_LOG_LEVEL": "error"})
    httpx.get(f"{server.url}/nowhere", trust_env=False)
    assert server.stop() == 0
    assert lines(server) == []
