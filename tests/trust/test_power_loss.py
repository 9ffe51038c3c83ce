"""R2: the power goes. What SQLite has written is replayed in the orders that a disk may have kept it in."""

import random
import shutil
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import httpx
import orjson
import psutil

from prudent.ledger.verification import verify
from prudent.store.engines import create_read_engine, parse_database_url
from tests.conftest import MakeServer, migrate_empty
from tests.machine import missing
from tests.promises import Promise, length
from tests.trust import power
from tests.trust.load import create_campaigns

SEED = 2
PAIRS = 60
"""With 8 KiB of explanations each, enough for SQLite to copy its log into the file several times."""
VERIFIED_EVERY = 10


def traced(make_server: MakeServer, folder: Path, trace: Path) -> dict[str, bytes]:
    """Use a server under strace; the files as they were before it began."""
    url = f"sqlite:///{folder}/prudent.db"
    migrate_empty(url)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    command = (*power.COMMAND, "-o", str(trace), sys.executable, "-m", "prudent")
    server = make_server(url, start=False, command=command)
    server.start(120)
    create_campaigns(server.url)
    with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as http:
        for number in range(PAIRS):
            name = ("ridge", "exact", "streamed", "one-pass")[number % 4]
            items = [{"campaign_id": name, "decision_id": f"d{number}-{n}", "explain": True} for n in range(8)]
            http.post("/select/batch", json={"items": items}).raise_for_status()
            for item in items[::3]:
                body = {"decision_id": item["decision_id"], "reward": number * 0.37 % 1}
                http.post("/reward", json=body).raise_for_status()
    assert server.process is not None
    (program,) = psutil.Process(server.process.pid).children()  # strace does not hand signals on
    program.terminate()
    server.process.wait(120)
    return before


def acknowledged(sent: bytes) -> list[tuple[str, str]]:
    """Table and decision id of each success in a part of an answer. Its head and its body are sent one by one."""
    start = sent.find(b"{")
    if start < 0:
        return []
    reply = orjson.loads(sent[start:])
    items = reply.get("items", [reply])
    done = [one for one in items if one.get("status", 200) == 200 and "decision_id" in one]
    return [("observations" if "sequence" in one else "decisions", one["decision_id"]) for one in done]


def lost(folder: Path, told: list[tuple[str, str]]) -> list[str]:
    """What is missing from the database that a start finds there, or wrong with it."""
    with closing(sqlite3.connect(folder / "prudent.db")) as database:
        problems = [row[0] for row in database.execute("PRAGMA integrity_check") if row[0] != "ok"]
        for table in ("decisions", "observations"):
            there = {row[0] for row in database.execute(f"SELECT decision_id FROM {table}")}  # noqa: S608
            problems += [f"{table}: {name}" for kind, name in told if kind == table and name not in there]
    return problems


def faults(folder: Path) -> list[str]:
    """What verify --deep finds."""
    engine = create_read_engine(parse_database_url(f"sqlite:///{folder}/prudent.db"))
    found = [fault for verdict in verify(engine, deep=True) for fault in verdict.faults]
    engine.dispose()
    return found


def test_the_power_goes_at_any_moment(make_server: MakeServer, tmp_path: Path, promise: Promise) -> None:
    """R2. A reply that is sent before its bytes are safe is a lie that only a power cut finds out."""
    if shutil.which("strace") is None:
        missing("strace, which sees the order of writes and syncs, is not installed")
    states, draw = length("CRASH_STATES", 40), random.Random(SEED)  # noqa: S311  # a simulation
    folder, trace = tmp_path / "served", tmp_path / "trace"
    folder.mkdir()
    disk = power.Disk(traced(make_server, folder, trace))
    with trace.open(encoding="latin-1") as lines:
        events = list(power.read_events(lines, folder))
    cuts = sorted(draw.choices(range(len(events)), k=states))
    told: list[tuple[str, str]] = []
    wrong: list[tuple[int, list[str]]] = []
    done = verified = torn = 0
    for number, cut in enumerate(cuts):
        for event in events[done:cut]:
            disk.apply(event)
            told += acknowledged(event.data) if event.kind == "send" else []
        done = cut
        found = disk.after_a_cut(draw)
        torn += any(writes for name, writes in disk.pending.items() if name.endswith((".db", "-wal")))
        again = tmp_path / "again"
        again.mkdir()
        for name, content in found.items():
            if not name.endswith((".lock", "-shm")):  # the index is made anew by whoever opens the file first
                (again / name).write_bytes(content)
        problems = lost(again, told)
        if number % VERIFIED_EVERY == 0:
            problems += faults(again)
            verified += 1
        wrong += [(cut, problems)] if problems else []
        shutil.rmtree(again)
    copied = sum(event.kind == "sync" and event.file == "prudent.db" for event in events)
    promise(
        "R2",
        f"seed {SEED}: {len(events):,} writes, syncs and replies, {copied} copies of the log into the file; "
        f"{states} power cuts, {torn} between a write and its sync, {len(told):,} acknowledged before the last: "
        f"{len(wrong)} with something lost or broken; {verified} verified",
    )
    assert wrong == []
    assert len(told) > PAIRS * 8
    assert copied >= 2
    assert torn > 0
