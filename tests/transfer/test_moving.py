"""A campaign moves from one deployment to another, and nobody can tell."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest
from sqlalchemy import text

from prudent.ledger.verification import verify
from prudent.store.engines import create_read_engine, parse_database_url
from tests.api.contract import Json, ok
from tests.commands import migrate
from tests.conftest import MakeServer
from tests.end_to_end.test_command_line import prudent
from tests.promises import Promise, length
from tests.servers import Server
from tests.transfer.campaigns import NAMES, assert_same, assert_same_answers, bring, make, play, without_times
from tests.trust.invariants import prudent_verify

pytestmark = pytest.mark.slow

DECISIONS = length("MOVED_DECISIONS", 200)
NEXT = 100


@contextmanager
def opened(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=300, trust_env=False) as http:
        yield http


def growth_during(server: Server, action: Callable[[], Json | bytes]) -> tuple[Json | bytes, float, float, float]:
    """What the action returns; its seconds; the server's resident memory before it, and at most during it, in MiB."""
    assert server.process is not None
    process, seen, over = psutil.Process(server.process.pid), [0], threading.Event()
    before = process.memory_info().rss

    def watch() -> None:
        while not over.is_set():
            seen.append(process.memory_info().rss)
            time.sleep(0.01)

    thread = threading.Thread(target=watch)
    thread.start()
    started = time.monotonic()
    try:
        found = action()
    finally:
        seconds = time.monotonic() - started
        over.set()
        thread.join()
    return found, seconds, before / 2**20, max(seen) / 2**20


def test_a_moved_campaign_is_the_same(
    make_server: MakeServer, tmp_path: Path, postgres_database: str, promise: Promise
) -> None:
    """After a move, decisions would differ, rewards be lost or learned twice, or a retry be a conflict.

    By HTTP from SQLite to SQLite and to PostgreSQL, and from there by the commands to SQLite, with all four estimators.
    """
    urls = [f"sqlite:///{tmp_path}/{number}.db" for number in range(3)]
    source, target, far = make_server(urls[0]), make_server(urls[1]), make_server(postgres_database)
    decisions: dict[str, list[Json]] = {}
    with opened(source) as http, opened(target) as near_http, opened(far) as far_http:
        for name in NAMES:
            make(http, name)
            decisions[name] = play(http, name, range(DECISIONS if name == "exact" else DECISIONS // 4))
            path = f"/campaigns/{name}/export"
            exported, seconds, before, most = growth_during(source, lambda p=path: http.get(p).content)
            figure = f"{name}, {len(exported) / 2**20:.1f} MiB: export {seconds:.2f} s, {before:.0f} to {most:.0f} MiB"
            for place, server, other in (("sqlite", target, near_http), ("postgresql", far, far_http)):
                _, seconds, before, most = growth_during(server, lambda o=other, e=exported: bring(o, e))
                figure += f"; import, {place}: {seconds:.2f} s, {before:.0f} to {most:.0f} MiB"
                assert_same(http, other, name)
            promise("moving", figure)
        migrate(urls[2])
        for name in NAMES:
            file, commands = tmp_path / f"{name}.ndjson", {}
            for command, *arguments in (
                ("export", name, "--output", str(file), "--database-url", postgres_database),
                ("import", str(file), "--database-url", urls[2]),
            ):
                started = time.monotonic()
                done = prudent(command, *arguments)
                commands[command] = time.monotonic() - started
                assert done.returncode == 0, done.stderr
            times = ", ".join(f"prudent {command} {seconds:.2f} s" for command, seconds in commands.items())
            promise("moving", f"{name}, postgresql to sqlite: {times}, with its start")
        third = make_server(urls[2])
        for url, server in ((urls[1], target), (postgres_database, far), (urls[2], third)):
            assert prudent_verify(url, server.url).count("equal") >= len(NAMES)
        with opened(third) as third_http:
            for name in NAMES:
                assert_same(http, third_http, name)
                for other in (near_http, far_http, third_http):
                    assert_same_answers(http, other, name, decisions[name])
                start = len(decisions[name])
                runs = [
                    play(one, name, range(start, start + NEXT), own_ids=True)
                    for one in (http, near_http, far_http, third_http)
                ]
                for run in runs[1:]:
                    for one, twin in zip(runs[0], run, strict=True):
                        assert (one["arm_id"], one["reason"]) == (twin["arm_id"], twin["reason"])
                        assert one["index"] == pytest.approx(twin["index"], rel=1e-9, abs=1e-12)


def test_an_import_that_is_killed_leaves_nothing_to_be_seen(
    make_server: MakeServer, database_url: str, tmp_path: Path
) -> None:
    """Half a campaign would answer, or its leftovers would refuse the second try."""
    source, target = make_server(f"sqlite:///{tmp_path}/source.db"), make_server(database_url)
    with opened(source) as http:
        make(http, "ridge")
        play(http, "ridge", range(1_200))
        exported = http.get("/campaigns/ridge/export").content
    halfway = threading.Event()

    def pieces() -> Iterator[bytes]:
        yield exported[: len(exported) * 2 // 3]
        # what was sent is being staged: kill the server when its first rows are there
        halfway.wait(30)
        yield exported[len(exported) * 2 // 3 :]

    def kill_when_staged() -> None:
        deadline = time.monotonic() + 30
        while staged(database_url) < 500 and time.monotonic() < deadline:
            time.sleep(0.02)
        target.kill()
        halfway.set()

    killer = threading.Thread(target=kill_when_staged)
    killer.start()
    with opened(target) as http, pytest.raises(httpx.TransportError):
        http.post("/import", content=pieces(), headers={"Content-Type": "application/x-ndjson"})
    killer.join()
    assert staged(database_url) >= 500
    target.start()
    with opened(target) as http:
        assert ok(http.get("/campaigns"))["items"] == []
        assert http.get("/campaigns/ridge/export").status_code == 404
        assert bring(http, exported)["campaign_id"] == "ridge"
        with opened(source) as original:
            assert_same(original, http, "ridge")
    prudent_verify(database_url, target.url)


def staged(database_url: str) -> int:
    """Log rows of campaigns that nobody sees."""
    engine = create_read_engine(parse_database_url(database_url))
    statement = "SELECT count(*) FROM observations JOIN campaigns USING (key) WHERE campaign_id IS NULL"
    with engine.connect() as connection:
        found = int(connection.execute(text(statement)).scalar_one())
    engine.dispose()
    return found


def test_an_export_under_load_can_be_imported(make_server: MakeServer, database_url: str, tmp_path: Path) -> None:
    """A file would hold rewards without their decisions, or half of what was written while it was."""
    source, target = make_server(database_url), make_server(f"sqlite:///{tmp_path}/target.db")
    stop = threading.Event()

    def work() -> None:
        with opened(source) as http:
            for start in range(300, 10**6, 50):
                if stop.is_set():
                    return
                play(http, "one-pass", range(start, start + 50))

    with opened(source) as http, opened(target) as other:
        make(http, "one-pass")
        play(http, "one-pass", range(300))
        worker = threading.Thread(target=work)
        worker.start()
        exports: dict[int, bytes] = {}
        deadline = time.monotonic() + 60
        try:
            while len(exports) < 3 and time.monotonic() < deadline:
                exported = http.get("/campaigns/one-pass/export").content
                exports[exported.count(b"\n")] = exported
        finally:
            stop.set()
            worker.join()
        assert len(exports) == 3
        for exported in exports.values():
            bring(other, exported)
            assert without_times(other.get("/campaigns/one-pass/export").content) == without_times(exported)
            assert faults(target.database_url) == []
            assert other.delete("/campaigns/one-pass?confirm=one-pass").status_code == 204


def faults(database_url: str) -> list[str]:
    engine = create_read_engine(parse_database_url(database_url))
    try:
        return [fault for verdict in verify(engine) for fault in verdict.faults]
    finally:
        engine.dispose()
