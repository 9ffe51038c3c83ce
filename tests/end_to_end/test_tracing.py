"""Spans, sent to a real receiver of OTLP over HTTP."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.conftest import MakeServer
from tests.servers import ROOT, clean_environment, free_port

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CAMPAIGN = {
    "campaign_id": "secret-campaign",
    "risk": {"measure": "mean"},
    "model": {"type": "multi-armed"},
    "arms": [{"arm_id": "a"}],
}


@dataclass
class Collector:
    """What has arrived."""

    url: str = ""
    bodies: list[bytes] = field(default_factory=list)

    def spans(self) -> list[tuple[Any, dict[str, Any]]]:
        """Each span with its service's attributes."""
        found = []
        for body in self.bodies:
            request = ExportTraceServiceRequest.FromString(body)
            for group in request.resource_spans:
                resource = {one.key: one.value.string_value for one in group.resource.attributes}
                found += [(span, resource) for scope in group.scope_spans for span in scope.spans]
        return found


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A receiver of spans on a loopback port."""
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.path == "/v1/traces":
                found.bodies.append(body)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name upstream
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield found
    server.shutdown()
    server.server_close()
    thread.join()


def test_requests_become_spans(make_server: MakeServer, sqlite_database: str, collector: Collector) -> None:
    """A trace would end at the door of the service, or hold the ids of campaigns in the names of its spans."""
    environment = {"PRUDENT_TRACING": "on", "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
    server = make_server(sqlite_database, environment=environment)
    with httpx.Client(base_url=server.url, trust_env=False) as client:
        client.post("/campaigns", json=CAMPAIGN).raise_for_status()
        client.get("/campaigns/secret-campaign").raise_for_status()
        selected = client.post(
            "/select", json={"campaign_id": "secret-campaign"}, headers={"traceparent": f"00-{TRACE}-{PARENT}-01"}
        )
        client.get("/secret-address")
    assert server.stop() == 0, server.log()  # which sends what is left

    spans = {span.name: (span, resource) for span, resource in collector.spans()}
    assert {"POST /campaigns", "GET /campaigns/{campaign_id}", "POST /select", "GET"} <= spans.keys()
    span, resource = spans["POST /select"]
    assert resource["service.name"] == "prudent"
    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
    attributes = {one.key: one.value.string_value or one.value.int_value for one in span.attributes}
    assert attributes["http.route"] == "/select"
    assert attributes["http.response.status_code"] == 200
    assert attributes["prudent.request_id"] == selected.headers["x-request-id"]
    assert not any(b"secret" in body for body in collector.bodies)


def test_a_collector_that_is_away_holds_up_nobody(make_server: MakeServer, sqlite_database: str) -> None:
    """Requests would wait for the monitoring, and a stop would be cut off by a kill."""
    environment = {"PRUDENT_TRACING": "on", "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{free_port()}"}
    server = make_server(sqlite_database, environment=environment)
    assert httpx.get(f"{server.url}/health/live", trust_env=False).status_code == 200
    assert server.stop() == 0, server.log()


def test_tracing_without_its_packages_is_refused() -> None:
    """The extra is easily forgotten; the operator would wait for spans that never come."""
    program = (
        "import sys; sys.modules['opentelemetry.sdk'] = None; sys.argv = ['prudent', 'serve'];"
        "from prudent.__main__ import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=clean_environment({"PRUDENT_TRACING": "on"}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "pip install 'prudent[telemetry]'" in done.stderr
    assert "Traceback" not in done.stderr
