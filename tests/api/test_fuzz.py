"""Requests made up from the API's own description: none may be a server error or an undocumented answer."""

import json
import math
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.api.contract import create, disjoint, multi_armed, select, shared
from tests.promises import Promise, length
from tests.servers import Server

EXAMPLES_MAX = 6
"""Of an operation, for each database, with good and with bad data; more of them where TRUST_EXAMPLES asks for more."""
CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    allow_header_conformance,
]


@schemathesis.serializer("application/x-ndjson")
def as_file(_context: Any, value: Any) -> bytes:
    """A text as it is; anything else as one line of JSON."""
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else json.dumps(value).encode()


@pytest.fixture(scope="module")
def schema(api_server: Server) -> Any:
    """The description that the server gives of itself, valid OpenAPI 3.1."""
    loaded = schemathesis.openapi.from_url(f"{api_server.url}/openapi.json")
    loaded.validate()
    return loaded


@pytest.fixture(scope="module")
def known(api: httpx.Client) -> dict[str, list[str]]:
    """Ids that exist, for requests to meet something."""
    ids = [create(api, make()) for make in (shared, disjoint, multi_armed)]
    decisions = [select(api, ids[0])["decision_id"], select(api, ids[1], context=[1, 2])["decision_id"]]
    return {"campaign_id": ids, "decision_id": decisions, "arm_id": ["a", "b", "c"]}


def put_known_ids(value: Any, known: dict[str, list[str]], draw: Any) -> Any:
    """The same value, with ids that exist where ids belong."""
    if isinstance(value, list):
        return [put_known_ids(one, known, draw) for one in value]
    if isinstance(value, dict):
        return {
            name: draw(st.sampled_from(known[name])) if name in known else put_known_ids(one, known, draw)
            for name, one in value.items()
        }
    return value


def why(server: Server, reply: Any) -> str:
    """The reply, and what the service logged of it."""
    request_id = json.loads(reply.text)["request_id"]
    lines = [line for line in server.log().splitlines() if request_id in line]
    return "\n".join([reply.text, *lines])


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["good", "bad"])
def test_made_up_requests(
    api_server: Server, schema: Any, known: dict[str, list[str]], mode: Any, promise: Promise
) -> None:
    """R18. Some input would be answered with a 500, or in a form that the documentation does not know."""
    called: dict[str, int] = {}
    operations = list(schema.get_all_operations())
    examples = max(EXAMPLES_MAX, math.ceil(length("EXAMPLES", 0) / 2 / len(operations)))
    with requests.Session() as session:
        session.trust_env = False
        for found in operations:
            operation = found.ok()
            if mode is GenerationMode.NEGATIVE and not (operation.body or list(operation.iter_parameters())):
                continue  # nothing to get wrong

            @settings(
                max_examples=examples,
                derandomize=True,  # the same examples in every run
                database=None,
                deadline=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy(generation_mode=mode), data=st.data(), meet=st.booleans())
            def call(case: Any, data: Any, meet: bool) -> None:
                if meet:
                    case.path_parameters = put_known_ids(case.path_parameters, known, data.draw)
                    case.body = put_known_ids(case.body, known, data.draw)
                reply = case.call(base_url=api_server.url, session=session, timeout=10)
                assert reply.status_code < 500, why(api_server, reply)
                case.validate_response(reply, checks=CHECKS)
                called[case.operation.label] = called.get(case.operation.label, 0) + 1

            call()
    name = api_server.database_url.partition(":")[0]
    promise("R18", f"{name}, {mode.value} data: {sum(called.values()):,} requests, 5xx 0")
    bodies = {label for label in called if label.split()[0] in {"POST", "PATCH"}}
    assert len(bodies) == 17
    assert all(called[label] >= EXAMPLES_MAX // 2 for label in bodies), called
