"""What other programs make of the exported decisions: Vowpal Wabbit trains on them, pandas and DuckDB read them."""

import io
import random
import re
import subprocess
import sys
from pathlib import Path

import duckdb
import httpx
import orjson
import pandas as pd
import pytest

from tests.api.contract import Json, ok
from tests.servers import Server
from tests.transfer.test_candidates import exported, lines_of

ROUNDS = 300
FORMULA = '=HYPERLINK("http://example.org", "x")'
PLANS = [FORMULA, "@SUM(A1)", "-2+3", "plain, with a comma"]
MODELS: dict[str, Json] = {
    "r-disjoint": {
        "type": "disjoint",
        "features": [{"name": "rain"}, {"name": "plan", "kind": "category", "categories": PLANS, "missing": "center"}],
    },
    "r-shared": {
        "type": "shared",
        "features": [{"name": "price"}, {"name": "colour", "kind": "category", "capacity": 3}],
    },
}


def request(name: str, number: int) -> Json:
    """The select of this number."""
    draw = random.Random(f"{name} {number}")  # noqa: S311  # a simulation
    body: Json = {"campaign_id": name, "decision_id": f"{name}-{number:03d}"}
    if name == "r-disjoint":
        return body | {"context": {"rain": draw.random()} | ({"plan": PLANS[number % 4]} if number % 5 else {})}
    return body | {
        "arms": [
            {"arm_id": f"offer-{number}-{k}", "features": {"price": draw.random(), "colour": draw.choice("rgb")}}
            for k in range(3)
        ]
    }


def worths(name: str, number: int) -> dict[str, float]:
    """What each candidate of that select is worth: the bike only when it is dry, and the dearest offer most."""
    sent = request(name, number)
    if name == "r-disjoint":
        return {"bike": 1.0 - sent["context"]["rain"], "van": sent["context"]["rain"]}
    return {one["arm_id"]: one["features"]["price"] for one in sent["arms"]}


@pytest.fixture(scope="module")
def played(server: Server) -> Server:
    """The shared server, with a campaign of each model, and a reward for each of its decisions."""
    with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as http:
        for name, model in MODELS.items():
            arms = [{"arm_id": arm} for arm in ("bike", "van")] if name == "r-disjoint" else []
            body = {"campaign_id": name, "risk": {"measure": "mean"}, "model": model, "arms": arms}
            ok(http.post("/campaigns", json=body | {"log_candidates": True, "algorithm": {"uniform_share": 0.5}}), 201)
            for start in range(0, ROUNDS, 100):
                numbers = range(start, start + 100)
                made = ok(http.post("/select/batch", json={"items": [request(name, n) for n in numbers]}))["items"]
                items = [
                    {"decision_id": one["decision_id"], "reward": worths(name, n)[one["arm_id"]]}
                    for n, one in zip(numbers, made, strict=True)
                ]
                ok(http.post("/reward/batch", json={"items": items}))
    return server


@pytest.mark.parametrize("name", MODELS)
def test_vowpal_wabbit_learns_the_better_arm_from_dsjson(played: Server, tmp_path: Path, name: str) -> None:
    """It may read a file without complaint and learn nothing: costs of another sign, or features that it leaves out."""
    (tmp_path / "log.dsjson").write_bytes(exported(played, name, "dsjson"))
    # as docs/logged-data.md has it; the last part has it write what it would have done
    command = [sys.executable, "-m", "vowpalwabbit", "--cb_explore_adf", "--dsjson", "--data", "log.dsjson"]
    command += ["--interactions", "ca", "--predictions", "chosen.txt"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=100)
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    assert f"number of examples = {ROUNDS}\n" in told
    found = re.search(r"average loss = (\S+)", told)
    assert found is not None, told
    at_random = [sum(one.values()) / len(one) for one in (worths(name, n) for n in range(ROUNDS))]
    assert float(found[1]) < -1.1 * sum(at_random) / ROUNDS
    lines = (tmp_path / "chosen.txt").read_text().split()
    names = [[one["_tag"] for one in line["c"]["_multi"]] for line in lines_of(exported(played, name, "dsjson"))]
    late = range(ROUNDS - 100, ROUNDS)
    chosen = [names[n][int(lines[n].partition(":")[0])] for n in late]
    assert (
        sum(worths(name, n)[arm] >= 0.9 * max(worths(name, n).values()) for n, arm in zip(late, chosen, strict=True))
        > 80
    )


@pytest.mark.parametrize("name", MODELS)
def test_pandas_reads_parquet_with_types(played: Server, name: str) -> None:
    """A column of numbers as texts, or times without their zone, would have to be repaired in every notebook."""
    frame = pd.read_parquet(io.BytesIO(exported(played, name, "parquet")))
    rows = lines_of(exported(played, name, "ndjson"))
    number = "context.rain" if name == "r-disjoint" else "arm.price"
    assert str(frame["decided_at"].dtype) == "datetime64[us, UTC]"
    assert frame["reward"].dtype == frame["propensity"].dtype == frame[number].dtype == float
    assert frame["reward"].tolist() == [row["reward"] for row in rows]
    assert frame.groupby("arm")["reward"].mean().to_dict() == pytest.approx(averages(rows))


def averages(rows: list[Json]) -> dict[str, float]:
    """Of the rewards of each arm."""
    found: dict[str, list[float]] = {}
    for row in rows:
        found.setdefault(row["arm"], []).append(row["reward"])
    return {arm: sum(rewards) / len(rewards) for arm, rewards in found.items()}


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_duckdb_asks_the_files(played: Server, tmp_path: Path, form: str) -> None:
    """A file that only its own writer reads is no way out of the service."""
    path = tmp_path / f"decisions.{form}"
    path.write_bytes(exported(played, "r-disjoint", form))
    with duckdb.connect() as database:
        table = database.from_parquet(str(path)) if form == "parquet" else database.from_csv_auto(str(path))
        assert len(table.filter('"context.plan" IS NULL')) == ROUNDS // 5
        found = table.aggregate("arm, avg(reward)").fetchall()
    assert dict(found) == pytest.approx(averages(lines_of(exported(played, "r-disjoint", "ndjson"))))


def test_csv_opens_without_a_formula(played: Server) -> None:
    """A category that a stranger sent would run in the spreadsheet of whoever opens the file."""
    frame = pd.read_csv(io.BytesIO(exported(played, "r-disjoint", "csv")))
    assert set(frame["context.plan"].dropna()) == {f"'{plan}" for plan in PLANS[:3]} | {PLANS[3]}
    for name in frame.select_dtypes(exclude="number"):
        starts = {str(cell)[0] for cell in frame[name].dropna()}
        assert not starts & set("=+-@\t\r"), name
    assert frame["reward"].dtype == frame["context.rain"].dtype == float
    shown = [None if cell != cell else orjson.loads(cell) for cell in frame["propensities"]]
    assert all(one is None or sum(one.values()) == pytest.approx(1) for one in shown)
