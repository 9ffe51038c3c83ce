"""Campaigns whose log begins with a snapshot: settings, words, exports and imports over HTTP and the command line."""

from collections.abc import Callable
from pathlib import Path

import httpx
import orjson
import pytest

from prudent.store.engines import create_write_engine, parse_database_url
from tests.aging import age_log
from tests.api.contract import Json, ok, problem
from tests.conftest import MakeServer
from tests.end_to_end.test_command_line import prudent
from tests.servers import Server
from tests.transfer.campaigns import assert_refused, assert_same, bring, make, play
from tests.trust.invariants import prudent_verify
from tests.waiting import wait_for

NAMES = ("ridge", "streamed", "one-pass")
"""Kinds of campaigns whose states are ones from the first row on."""
KEPT = {"retention_days": 1, "log_retention_days": 2}


def opened(server: Server) -> httpx.Client:
    return httpx.Client(base_url=server.url, timeout=30, trust_env=False)


@pytest.fixture
def compacted(make_server: MakeServer, database_url: str) -> Server:
    """A server with campaigns whose oldest twenty rows have been replaced."""
    server = make_server(database_url)
    with opened(server) as http:
        for name in NAMES:
            make(http, name)
            play(http, name, range(40))
    server.stop()
    engine = create_write_engine(parse_database_url(database_url))
    for name in NAMES:
        age_log(engine, name, 20, 30)
    engine.dispose()
    server.start()
    with opened(server) as http:
        for name in NAMES:
            ok(http.patch(f"/campaigns/{name}", json=KEPT))
    wait_for(lambda: prudent_verify(database_url, server.url).count("in place of 20 rows") == len(NAMES))
    return server


@pytest.mark.slow
def test_an_export_is_the_same_campaign_elsewhere(
    compacted: Server, make_server: MakeServer, tmp_path: Path, postgres_database: str
) -> None:
    """A campaign could not be moved any more, or would begin from nothing where it arrives."""
    urls = {f"sqlite:///{tmp_path}/other.db", postgres_database} - {compacted.database_url}
    others = [make_server(url) for url in urls]
    with opened(compacted) as http:
        for other in others:
            with opened(other) as far:
                for name in NAMES:
                    bring(far, http.get(f"/campaigns/{name}/export").content)
                    assert_same(http, far, name)
        runs = []
        for server in (compacted, *others):
            with opened(server) as far:
                runs.append([play(far, name, range(40, 60), own_ids=True) for name in NAMES])
        for run in runs[1:]:
            for mine, theirs in zip(runs[0], run, strict=True):
                assert [one["arm_id"] for one in mine] == [one["arm_id"] for one in theirs]
    for server in (compacted, *others):
        assert "equal" in prudent_verify(server.database_url, server.url)


def _drop_state(line: Json) -> None:
    line["detail"] = orjson.dumps({"snapshot": {"format": 1, "exact_until": None, "state": ""}}).decode()


def _flip_bit(line: Json) -> None:
    line["detail"] = line["detail"].replace("A", "B", 1)


def _sell_as_a_correction(line: Json) -> None:
    line["reward"] = 1.0


@pytest.mark.slow
@pytest.mark.parametrize("damage", [_drop_state, _flip_bit, _sell_as_a_correction])
def test_a_damaged_snapshot_is_refused(compacted: Server, damage: Callable[[Json], None]) -> None:
    """A campaign would be imported that nobody can load."""
    with opened(compacted) as http:
        file = [orjson.loads(line) for line in http.get("/campaigns/ridge/export").content.splitlines()]
        place = next(n for n, line in enumerate(file) if line["kind"] == "configuration")
        ok_again = [dict(line) for line in file]
        damage(file[place])
        http.delete("/campaigns/ridge", params={"confirm": "ridge"}).raise_for_status()
        assert_refused(http, b"".join(orjson.dumps(line) + b"\n" for line in file), 422, f"line {place + 1}")
        ok_again.insert(place + 1, ok_again[place] | {"sequence": ok_again[place]["sequence"] + 1})
        content = b"".join(orjson.dumps(line) + b"\n" for line in ok_again)
        refused = assert_refused(http, content, 422, f"line {place + 2}")
        assert "only the first row" in refused["detail"]


def test_other_policies_are_not_evaluated_from_half_a_log(compacted: Server, tmp_path: Path) -> None:
    """They would be judged as if they had known nothing before the snapshot."""
    file = tmp_path / "ridge.ndjson"
    with opened(compacted) as http:
        file.write_bytes(http.get("/campaigns/ridge/export").content)
    done = prudent("evaluate", str(file))
    assert done.returncode != 0
    assert "the log begins with a snapshot in place of its first 20 rows" in " ".join(done.stderr.split())


def test_a_restart_cannot_begin_before_it(compacted: Server) -> None:
    """It would promise rows that are gone."""
    with opened(compacted) as http:
        refused = problem(http.post("/campaigns/ridge/restart", json={"from": 20}), 422)
        assert refused["errors"][0]["field"] == "from"
        assert "at least 21" in refused["errors"][0]["message"]
        ok(http.post("/campaigns/ridge/restart", json={"from": 21}))
        ok(http.get("/campaigns/ridge/model"))
        ok(http.get("/campaigns/ridge/report"))
    assert "equal" in prudent_verify(compacted.database_url, compacted.url)
