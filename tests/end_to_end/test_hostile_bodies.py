"""Large and hostile bodies: they are refused in bounded memory, and others go on being served.

The figures of R20: ``python -m pytest tests/end_to_end/test_hostile_bodies.py``.
"""

import gzip
import json
import socket
import threading
import time
from contextlib import ExitStack, suppress

import httpx
import pytest

from tests.api.contract import create, multi_armed, ok, problem, select, shared
from tests.end_to_end.hostile import (
    ANSWER_SECONDS_MAX,
    BATCH_BYTES,
    GROWTH_BYTES_MAX,
    MIB,
    Watch,
    filled,
    unknown_fields,
    upload,
)
from tests.promises import Promise
from tests.servers import HOST, Server

TRICKLERS = 200
ITEM_OF_ARMS = b'{"campaign_id":"c","arms":[%s{"arm_id":"a"}]}' % (b'{"arm_id":"a"},' * 230)
PARSED_SIZES_MAX = {"few-unknown-fields-of-a-thousand": 11, "numbers-of-four-items": 13, "arms-of-a-thousand": 25}
"""What a batch may take in memory, in sizes of its body: as many arms as fit into it take 14 parsed, 21 as commands."""
LARGE = {
    "unknown-fields-of-one-item": (lambda: b'{"items":[{%s}]}' % unknown_fields(MIB // 4), {422}),
    "unknown-fields-of-a-thousand": (
        lambda: b'{"items":[%s]}' % b",".join([b"{%s}" % unknown_fields(250)] * 999),
        {422},
    ),
    "unknown-fields-of-three-items": (
        lambda: b'{"items":[%s]}' % b",".join([b"{%s}" % unknown_fields(75_000)] * 3),
        {422},
    ),
    "few-unknown-fields-of-a-thousand": (
        lambda: b'{"items":[%s]}' % b",".join([b'{%s,"context":[%s0]}' % (unknown_fields(15), b"0," * 1_600)] * 999),
        {200},
    ),
    "small-objects": (lambda: filled(b'{"items":[', b'{"a":1},', b"{}]}"), {422}),
    "empty-lists": (lambda: filled(b'{"items":[', b"[],", b"{}]}"), {422}),
    "numbers-of-one-item": (lambda: filled(b'{"items":[{"campaign_id":"c","context":[', b"0,", b"0]}]}"), {413}),
    "numbers-of-four-items": (
        lambda: b'{"items":[%s]}' % b",".join([b'{"campaign_id":"c","context":[%s0]}' % (b"0," * 400_000)] * 4),
        {200, 422},
    ),
    "arms-of-a-thousand": (lambda: b'{"items":[%s]}' % b",".join([ITEM_OF_ARMS] * 990), {200}),
    "no-envelope": (lambda: b"{%s}" % unknown_fields(MIB // 4), {422}),
    "brackets": (lambda: b'{"items":[' + b"[" * BATCH_BYTES, {422}),
    "one-string": (lambda: filled(b'{"items":["', b"x", b'"]}'), {413}),
}


def test_bodies_of_a_hundred_megabytes(hardened: Server, api: httpx.Client, promise: Promise) -> None:
    """R20. One large body would take the memory, and make every other client wait."""
    campaign_id = create(api, multi_armed())
    select(api, campaign_id)
    bomb = gzip.compress(bytes(MIB)) * 100
    deep = b"[" * 20_000 + b"]" * 20_000
    headers = {"Content-Type": "application/json"}
    with Watch(hardened) as watch:
        statuses = {upload(hardened, "/select", 100, declared=declared) for declared in (True, False)}
        packed = api.post("/select", content=bomb, headers=headers | {"Content-Encoding": "gzip"})
        nested = api.post("/select", content=deep, headers=headers)
    promise("R20", watch.figure("100 MB, gzip bomb, 20,000 deep"))
    assert statuses <= {413, 0}
    problem(packed, 415)
    problem(nested, 422, "body")
    assert watch.growth_bytes < GROWTH_BYTES_MAX
    assert (watch.slowest_seconds < ANSWER_SECONDS_MAX, watch.failures) == (True, 0)


FILES = {
    "an endless line": lambda: [b"x" * MIB] * 100,
    "endless lines": lambda: [b"{}\n" * (MIB // 3)] * 100,
    "a header of unknown fields": lambda: [
        b'{"kind":"header","format":"prudent-campaign","version":1,' + unknown_fields(200_000) + b"}\n"
    ],
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_no_campaign(hardened: Server, api: httpx.Client, name: str, promise: Promise) -> None:
    """R20. An import reads on and on; it would fill the memory, or make every other client wait."""
    pieces = FILES[name]()
    ok(api.get("/health/live"))
    with Watch(hardened) as watch:
        reply = api.post("/import", content=iter(pieces), headers={"Content-Type": "application/x-ndjson"})
    promise("R20", watch.figure(f"a file, {name}"))
    problem(reply, 422, "line 1")
    assert watch.growth_bytes < GROWTH_BYTES_MAX
    assert (watch.slowest_seconds < ANSWER_SECONDS_MAX, watch.failures) == (True, 0)


@pytest.mark.parametrize("name", LARGE)
def test_large_batches_that_fit_no_schema(hardened: Server, api: httpx.Client, name: str, promise: Promise) -> None:
    """R20. A batch within its limit in bytes would cost two seconds and half a gigabyte of error messages.

    What could be a batch is parsed, one at a time; anything else is refused before.
    """
    make, statuses = LARGE[name]
    body = make()
    ok(api.get("/health/live"))
    with Watch(hardened) as watch:
        for path in ("/select/batch", "/reward/batch", "/campaigns/none/observations"):
            reply = api.post(path, content=body, headers={"Content-Type": "application/json"})
            assert reply.status_code in statuses | ({422} if path.startswith("/campaigns") else set()), reply.text[:300]
            assert len(reply.content) < 4 * MIB
    promise("R20", watch.figure(f"{name}, {len(body) / MIB:.0f} MiB"))
    assert watch.growth_bytes < (PARSED_SIZES_MAX[name] * len(body) if 200 in statuses else GROWTH_BYTES_MAX)
    assert (watch.slowest_seconds < ANSWER_SECONDS_MAX, watch.failures) == (True, 0)


def test_a_full_batch_does_not_stop_the_others(hardened: Server, api: httpx.Client, promise: Promise) -> None:
    """R20. While one client sends what it may, others would wait for seconds."""
    campaign_id = create(api, shared())
    arms = [{"arm_id": f"a{number}", "features": [0.5, 0.25]} for number in range(80)]
    body = json.dumps({"items": [{"campaign_id": campaign_id, "arms": arms}] * 1_000})
    assert 3 * MIB < len(body) < 4 * MIB
    with Watch(hardened) as watch:
        reply = api.post("/select/batch", content=body, headers={"Content-Type": "application/json"})
    promise("R20", watch.figure(f"a legitimate batch, {len(body) / MIB:.0f} MiB"))
    assert {item["status"] for item in ok(reply)["items"]} == {200}
    assert (watch.slowest_seconds < ANSWER_SECONDS_MAX, watch.failures) == (True, 0)


def test_unknown_fields_of_one_request(api: httpx.Client) -> None:
    """R20. A request of a megabyte would make a hundred thousand error messages."""
    body = b"{%s}" % unknown_fields(80_000)
    assert 65_536 < len(body) < MIB
    found = problem(api.post("/select", content=body, headers={"Content-Type": "application/json"}), 422, "body")
    assert "5000 fields" in found["errors"][0]["message"]


def test_hostile_clients_all_at_once(hardened: Server, api: httpx.Client, promise: Promise) -> None:
    """Two hundred slow connections and large bodies would keep everybody else out."""
    campaign_id = create(api, multi_armed())
    stop = threading.Event()

    def trickle() -> None:
        with ExitStack() as stack:
            opened: list[socket.socket] = []
            while not stop.wait(0.2):
                while len(opened) < TRICKLERS:
                    opened.append(stack.enter_context(socket.create_connection((HOST, hardened.port), timeout=5)))
                    opened[-1].sendall(b"GET /campaigns HTTP/1.1\r\nX-Slow: ")
                for one in opened:
                    with suppress(OSError):
                        one.sendall(b"x")

    def flood() -> None:
        while not stop.is_set():
            upload(hardened, "/select/batch", 100, declared=False)
            upload(hardened, "/select", 100, declared=True)

    threads = [threading.Thread(target=work) for work in (trickle, flood)]
    for thread in threads:
        thread.start()
    try:
        with Watch(hardened) as watch:
            served = 0
            until = time.monotonic() + 5
            while time.monotonic() < until:
                select(api, campaign_id)
                served += 1
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    promise("R20", watch.figure(f"{TRICKLERS} tricklers and 100 MB bodies, {served} selects in 5 s"))
    assert (watch.slowest_seconds < ANSWER_SECONDS_MAX, watch.failures) == (True, 0)
    assert served > 0
    assert "Traceback" not in hardened.log()
