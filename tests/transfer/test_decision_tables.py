"""A campaign's decisions as CSV, JSON lines, Parquet and dsjson: what was sent, what came of it, and nothing else."""

import csv
import io
import sys
from pathlib import Path
from typing import Any

import httpx
import orjson
import pandas as pd
import pyarrow.parquet as pq
import pytest

from prudent.errors import InvalidCommandError
from prudent.transfer import table_formats
from prudent.transfer.table_formats import CsvWriter, ParquetWriter
from tests.api.contract import Json, ok, problem
from tests.end_to_end.test_command_line import run
from tests.servers import Server

FEATURES: list[Json] = [
    {"name": "plan", "kind": "category", "capacity": 3},
    {"name": "age", "missing": "indicator"},
    {"name": "_mobile", "kind": "boolean", "missing": "center"},
]
CONTEXTS: list[Json] = [
    {"plan": "=1+1", "age": -31.5, "_mobile": True},
    {"plan": 'a "quoted", text', "_mobile": False},
    {"plan": "'+x", "age": 0.1 + 0.2},
    {"plan": "beyond the capacity", "age": 7},
]
SENT = {"plan": ["=1+1", 'a "quoted", text', "'+x", "(other)"], "age": [-31.5, None, 0.1 + 0.2, 7.0]}
ARMS = ["-a", "b"]
MANY = 1201
"""Decisions: two whole pages, and a last one with a single row."""


def play(http: httpx.Client, name: str, number: int, body: Json) -> None:
    """A decision and, mostly, its reward."""
    decision_id = f"{name}-{number}"
    ok(http.post("/select", json={"campaign_id": name, "decision_id": decision_id} | body))
    if number % 5 != 4:
        ok(http.post("/reward", json={"decision_id": decision_id, "reward": number / 10}))


@pytest.fixture(scope="module")
def tables(server: Server) -> Server:
    """The shared server, with campaigns that have a past."""
    arms = [{"arm_id": arm} for arm in ARMS]
    brand = {"name": "brand", "kind": "category", "capacity": 2}
    models: dict[str, tuple[Json, list[Json]]] = {
        "t-named": ({"type": "disjoint", "features": FEATURES}, arms),
        "t-arrays": ({"type": "disjoint", "dimension": 2}, arms),
        "t-brands": ({"type": "shared", "features": [{"name": "price"}, brand]}, []),
        "t-plain-shared": ({"type": "shared", "dimension": 1}, []),
        "t-slots": ({"type": "multi-armed"}, arms),
    }
    with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as http:
        for name, (model, registered) in models.items():
            body = {"campaign_id": name, "risk": {"measure": "mean"}, "model": model, "arms": registered}
            ok(http.post("/campaigns", json=body), 201)
        for n in range(12):
            play(http, "t-named", n, {"context": CONTEXTS[n % 4], "explain": n < 6})
        play(http, "t-named", 12, {"context": CONTEXTS[0], "chosen_arm_id": "b"})
        for start in range(0, MANY, 500):
            items = [
                {"campaign_id": "t-arrays", "decision_id": f"many-{n:04d}", "context": [n / 7, -0.25]}
                for n in range(start, min(start + 500, MANY))
            ]
            assert {one["status"] for one in ok(http.post("/select/batch", json={"items": items}))["items"]} == {200}
        for n in range(4):
            listed = [{"arm_id": arm, "features": {"price": k + n / 4, "brand": arm}} for k, arm in enumerate(ARMS)]
            play(http, "t-brands", n, {"arms": listed, "explain": n > 0})
        play(http, "t-slots", 1, {})
    return server


def exported(server: Server, name: str, form: str) -> bytes:
    """The file, as a client receives it."""
    reply = httpx.get(f"{server.url}/campaigns/{name}/export", params={"format": form}, trust_env=False)
    assert reply.status_code == httpx.codes.OK, reply.text
    assert f'filename="{name}-decisions.{form}"' in reply.headers["content-disposition"]
    return reply.content


def objects(content: bytes) -> list[Json]:
    """Of a file with one per line."""
    return [orjson.loads(line) for line in content.splitlines()]


def test_rows_say_what_the_decision_log_says(tables: Server) -> None:
    """A feature would stand under another's name, a reward with another decision, or a missing value be a number."""
    rows = objects(exported(tables, "t-named", "ndjson"))
    with httpx.Client(base_url=tables.url, trust_env=False) as http:
        logged = ok(http.get("/campaigns/t-named/decisions"))["items"][::-1]
    assert [row["decision_id"] for row in rows] == [f"t-named-{n}" for n in range(13)]
    for n, (row, one) in enumerate(zip(rows, logged, strict=True)):
        values = {name: row[f"context.{name}"] for name in ("plan", "age", "_mobile")}
        assert values == one["context"], n
        assert (row["context.plan"], row["context.age"]) == (SENT["plan"][n % 4], SENT["age"][n % 4])
        assert [row[name] for name in ("arm", "greedy_arm", "propensity", "reason", "observations")] == [
            one[name] for name in ("arm_id", "greedy_arm_id", "propensity", "reason", "seen")
        ]
        assert row["reward"] == (None if n % 5 == 4 else n / 10)
        assert (row["rewarded_arm"], row["rewarded_at"] is None) == (
            (None, True) if n % 5 == 4 else (row["arm"], False)
        )
        assert row["decided_at"] == one["created_at"]
        assert (row["propensities"] is not None) == (n < 6)
    assert sum(rows[0]["propensities"].values()) == pytest.approx(1)
    assert (rows[12]["reason"], rows[12]["arm"], rows[12]["propensity"]) == ("external", "b", None)


def test_a_spreadsheet_computes_nothing_and_csv_reads_back(tables: Server) -> None:
    """A category that a stranger sent would run as a formula; a negative number with a mark would be a text."""
    content = exported(tables, "t-named", "csv").decode()
    rows = list(csv.DictReader(io.StringIO(content, newline="")))
    lines = objects(exported(tables, "t-named", "ndjson"))
    assert len(rows) == len(lines) == 13
    texts = {"decision_id", "arm", "reason", "greedy_arm", "recommended_arm", "rewarded_arm", "context.plan"}
    for row, line in zip(rows, lines, strict=True):
        assert list(row) == list(line)
        for name, cell in row.items():
            if name in texts:
                assert not cell.startswith(("=", "+", "-", "@", "\t")), cell
                assert cell.removeprefix("'") == (line[name] or "")
    assert {row["context.plan"] for row in rows} == {"'=1+1", 'a "quoted", text', "''+x", "(other)"}
    assert [row["context.age"] for row in rows[:4]] == ["-31.5", "", repr(0.1 + 0.2), "7.0"]
    assert [row["context._mobile"] for row in rows[:3]] == ["true", "false", ""]
    frame = pd.read_csv(io.StringIO(content))
    assert frame["context.age"].dtype == frame["reward"].dtype == float
    assert frame["context.age"].isna().sum() == 3


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20", "'"])
def test_a_text_that_may_be_a_formula_is_marked_as_a_text(start: str) -> None:
    """Each of these begins a formula in some spreadsheet, or would be taken for our mark."""
    writer = CsvWriter({"text": "text", "number": "number"})
    cells = next(csv.reader(io.StringIO(writer.write([{"text": f"{start}1", "number": -1e-9}]).decode(), newline="")))
    assert cells == [f"'{start}1", "-1e-09"]


@pytest.mark.parametrize("name", ["t-named", "t-arrays", "t-brands", "t-slots"])
def test_parquet_holds_the_same_rows_with_types(tables: Server, name: str) -> None:
    """A type that depends on the page would change between files, and times would be texts."""
    file = pq.ParquetFile(io.BytesIO(exported(tables, name, "parquet")))
    lines = objects(exported(tables, name, "ndjson"))
    frame = file.read().to_pandas()
    assert file.schema_arrow.names == list(lines[0])
    assert str(file.schema_arrow.field("decided_at").type) == "timestamp[us, tz=UTC]"
    assert len(frame) == len(lines) == {"t-named": 13, "t-arrays": MANY, "t-brands": 4, "t-slots": 1}[name]
    for row, line in zip(file.read().to_pylist(), lines, strict=True):
        for column, value in line.items():
            if column in {"decided_at", "rewarded_at"}:
                found: Any = None if row[column] is None else f"{row[column]:%Y-%m-%dT%H:%M:%S.%f}Z"
            elif column == "propensities":
                found = None if row[column] is None else orjson.loads(row[column])
            else:
                found = row[column]
            assert found == value, column


def test_features_without_names_are_called_by_their_place(tables: Server) -> None:
    """Pages would be lost or come twice, or values be exchanged."""
    rows = objects(exported(tables, "t-arrays", "ndjson"))
    assert [row["decision_id"] for row in rows] == sorted(f"many-{n:04d}" for n in range(MANY))
    assert [(row["context.0"], row["context.1"]) for row in rows] == [(n / 7, -0.25) for n in range(MANY)]
    assert "context.0" not in objects(exported(tables, "t-slots", "ndjson"))[0]
    brands = objects(exported(tables, "t-brands", "ndjson"))
    assert [row["arm.brand"] for row in brands] == [row["arm"] for row in brands]


def test_dsjson_has_what_vowpal_wabbit_trains_on(tables: Server) -> None:
    """A cost would have the wrong sign, a probability be another arm's, or a decision without a reward cost 0."""
    lines = objects(exported(tables, "t-named", "dsjson"))
    rows = {row["decision_id"]: row for row in objects(exported(tables, "t-named", "ndjson"))}
    assert [line["EventId"] for line in lines] == [
        f"t-named-{n}" for n in range(12) if n % 5 != 4
    ]  # 12: no probability
    for line in lines:
        row = rows[line["EventId"]]
        place = ARMS.index(row["arm"])
        assert (line["_label_cost"], line["_label_probability"]) == (-row["reward"], row["propensity"])
        assert (line["_labelIndex"], line["_label_Action"], line["a"][0]) == (place, place + 1, place + 1)
        assert line["p"][0] == row["propensity"]
        assert len(line["p"]) == len(line["a"]) == (1 if row["propensities"] is None else 2)
        assert line["c"]["_multi"] == [{"_tag": arm, "arm": {"arm": arm}} for arm in ARMS]
        age, mobile = row["context.age"], row["context._mobile"]
        expected = {"plan": row["context.plan"]} | ({} if age is None else {"age": age})
        assert line["c"]["context"] == expected | ({"._mobile": 1} if mobile else {})
    assert str(lines[0]["_label_cost"]) == "0.0"


def test_dsjson_of_a_shared_model_has_the_candidates_that_are_known(tables: Server) -> None:
    """An action without its features would be trained as one whose features are all 0."""
    lines = objects(exported(tables, "t-brands", "dsjson"))
    assert [line["EventId"] for line in lines] == [f"t-brands-{n}" for n in (1, 2, 3)]  # 0 was not explained
    for n, line in enumerate(lines, start=1):
        assert line["c"] == {
            "_multi": [{"_tag": arm, "arm": {"price": k + n / 4, "brand": arm}} for k, arm in enumerate(ARMS)]
        }
    url = f"{tables.url}/campaigns/t-plain-shared/export"
    refused = problem(httpx.get(url, params={"format": "dsjson"}, trust_env=False), 422)
    assert "features of all candidates" in refused["detail"]


@pytest.mark.parametrize("query", ["?format=xlsx", "?format=", "?format=CSV", "?format=csv&format=csv"])
def test_a_format_that_there_is_not_is_refused(tables: Server, query: str) -> None:
    """A file in another format than the one asked for would be read as nonsense."""
    refused = problem(httpx.get(f"{tables.url}/campaigns/t-named/export{query}", trust_env=False), 422)
    if "&" not in query:
        assert all(name in refused["errors"][0]["message"] for name in ("csv", "dsjson", "ndjson", "parquet")), refused


def test_without_a_format_the_export_is_what_an_import_takes(tables: Server) -> None:
    """Backups would silently become tables."""
    reply = httpx.get(f"{tables.url}/campaigns/t-named/export", trust_env=False)
    kinds = [orjson.loads(line)["kind"] for line in reply.content.splitlines()]
    assert (kinds[0], kinds[-1], kinds.count("decision")) == ("header", "trailer", 13)
    problem(httpx.get(f"{tables.url}/campaigns/no-such/export", params={"format": "csv"}, trust_env=False), 404)


@pytest.mark.parametrize("form", ["csv", "ndjson", "parquet", "dsjson"])
def test_the_command_writes_what_the_server_sends(tables: Server, tmp_path: Path, form: str) -> None:
    """One of the two ways would lose the end of the file."""
    expected = exported(tables, "t-named", form)
    for number, place in enumerate((("--url", tables.url), ("--database-url", tables.database_url))):
        output = tmp_path / f"{number}.{form}"
        done = run("export", "t-named", "--format", form, "--output", str(output), *place)
        assert done.exit_code == 0, done.output
        assert output.read_bytes() == expected


def test_the_command_names_the_formats(tables: Server, tmp_path: Path) -> None:
    """A typing error would end in a traceback, or leave a file behind."""
    place = ("--database-url", tables.database_url)
    done = run("export", "t-named", "--format", "excel", "--output", str(tmp_path / "x"), *place)
    assert (done.exit_code, "csv, dsjson, ndjson, parquet" in done.output) == (1, True), done.output
    done = run("export", "t-plain-shared", "--format", "dsjson", "--output", str(tmp_path / "x"), *place)
    assert (done.exit_code, "--format: dsjson lists the features" in done.output) == (1, True), done.output
    assert list(tmp_path.iterdir()) == []


def test_a_missing_pyarrow_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A 500 says neither what to install nor why."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InvalidCommandError, match=r"pip install 'prudent\[parquet\]'") as refused:
        ParquetWriter({"a": "text"})
    assert refused.value.field == "format"


def test_parquet_is_written_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long campaign would fill the memory before the first byte is sent."""
    monkeypatch.setattr(table_formats, "GROUP_BYTES", 1_000)
    writer = ParquetWriter({"n": "count"})
    pieces = [
        writer.begin(),
        *(writer.write([{"n": n} for n in range(place, place + 100)]) for place in range(5)),
        writer.end(),
    ]
    assert [bool(piece) for piece in pieces] == [True, False, True, False, True, False, True]
    file = pq.ParquetFile(io.BytesIO(b"".join(pieces)))
    assert [file.metadata.row_group(n).num_rows for n in range(file.num_row_groups)] == [200, 200, 100]
