"""Tables as they come: a campaign that fits them, and sending them to it."""

import json
import socket
from pathlib import Path

import httpx
import pytest

from prudent.cli.tables import BATCH_ROWS
from tests.api.contract import ok
from tests.end_to_end.test_command_line import run

LOG = """arm,reward,age,country,mobile,session
a,1.5,33,de,true,k1
b,0.5,,fr,false,k2
a,1,70,"de",TRUE,k3
b,0.25,51,,no,k4
"""
for _i in range(200):
    LOG += f"{'ab'[_i % 2]},{_i % 5},{20 + _i % 50},{'de' if _i % 3 else 'fr'},{'yes' if _i % 2 else 'no'},s{_i}\n"


def test_a_campaign_is_inferred_and_learns_the_table(server_url: str, tmp_path: Path) -> None:
    """Kinds, categories and missing cells would be the user's to describe, and to encode."""
    table = tmp_path / "visits to us.csv"
    table.write_text(LOG, encoding="utf-8-sig", newline="\r\n")
    done = run("features", "infer", str(table))
    assert done.exit_code == 0, done.output
    campaign = json.loads(done.stdout)
    kinds = {one["name"]: (one["kind"], one.get("missing")) for one in campaign["model"]["features"]}
    assert kinds == {"age": ("number", "indicator"), "country": ("category", "indicator"), "mobile": ("boolean", None)}
    assert campaign["model"]["type"] == "disjoint"
    assert campaign["campaign_id"] == "visits-to-us"
    with httpx.Client(base_url=server_url, trust_env=False, timeout=30) as http:
        ok(http.post("/campaigns", json=campaign), 201)
        arguments = ("observations", str(table), "--campaign", "visits-to-us", "--url", server_url)
        assert "204 observations learned, 0 known before" in run(*arguments).output
        assert "0 observations learned, 204 known before" in run(*arguments).output
        found = ok(http.get("/campaigns/visits-to-us/features"))["features"]
    assert {one["name"]: one["missing"] for one in found} == {"age": 1, "country": 1, "mobile": 0}
    assert found[1]["categories"] == ["de", "fr"]


@pytest.mark.parametrize(
    ("content", "arguments", "words"),
    [
        ("arm;reward\na;1,5\n", (), "line 1 has one column: give --delimiter ';'"),
        ("arm,reward\na,1,5\n", (), "line 2: has 3 fields, and the header has 2"),
        ("arm,arm\na,b\n", (), "line 1: duplicate column arm"),
        ("action,reward\na,1\n", (), "there is no column arm (--arm-column); found: action, reward"),
        ("", (), "is empty"),
        ('{"arm": "a"}\n[1]\n', (), "line 2: must be an object"),
        ('arm,reward\n"a,1\n', (), "is not CSV"),
        ('[{"arm": "a", "reward": 1}]', (), "is one JSON array: it needs one object per line"),
        ('{"arm": "a", "reward": 1, "arm": "b"}\n', (), "line 1: arm appears twice in one object"),
        ("arm,reward,age\na,1,30\na,1,1e999\n", (), "line 3: age: must be a finite number"),
    ],
)
def test_a_table_that_cannot_be_read_is_one_line(
    tmp_path: Path, content: str, arguments: tuple[str, ...], words: str
) -> None:
    """Whatever is wrong, the message must name the line."""
    table = tmp_path / "table.csv"
    table.write_text(content)
    done = run("features", "infer", str(table), *arguments)
    assert done.exit_code == 1
    assert words in " ".join(done.output.split())


def test_other_encodings_signs_and_separators_are_read(tmp_path: Path) -> None:
    """A table from a spreadsheet would have to be rewritten."""
    table = tmp_path / "table.csv"
    table.write_bytes("arm;reward;ort;größe\na;1,5;Köln;1,25\nb;2;Ulm;3\n".encode("cp1252"))
    done = run("features", "infer", str(table))
    assert "is not utf-8 text" in " ".join(done.output.split())
    assert "for example cp1252" in " ".join(done.output.split())
    done = run("features", "infer", str(table), "--delimiter", ";", "--decimal", ",", "--encoding", "cp1252")
    assert done.exit_code == 0, done.output
    described = json.dumps(json.loads(done.stdout)["model"])
    assert '"k\\u00f6ln"' in described.lower()
    assert '"gr\\u00f6\\u00dfe", "kind": "number"' in described


@pytest.mark.parametrize("name", ["undefined", "hex", "no-such-name"])
def test_what_is_no_encoding_is_said(name: str, tmp_path: Path) -> None:
    """One that Python knows and that decodes nothing ended in a traceback."""
    table = tmp_path / "table.csv"
    table.write_text("arm,reward\na,1\n", encoding="utf-8")
    done = run("features", "infer", str(table), "--encoding", name)
    assert (done.exit_code, f"is not {name} text" in done.stderr) == (1, True), done.output


def test_a_spreadsheets_unicode_text_is_told_from_other_encodings(tmp_path: Path) -> None:
    """With the encoding that is usually meant, it would be read as text with a zero after each letter."""
    table = tmp_path / "table.txt"
    table.write_bytes("arm\treward\tplan\r\na\t1\tgrün\r\nb\t2\trot\r\n".encode("utf-16"))
    done = run("features", "infer", str(table), "--delimiter", "\\t")
    assert "for example utf-16" in " ".join(done.output.split())
    done = run("features", "infer", str(table), "--delimiter", "\\t", "--encoding", "utf-16")
    assert json.loads(done.stdout)["model"]["features"][0]["categories"] == ["grün", "rot"]


def test_a_center_is_as_precise_as_its_scale(tmp_path: Path) -> None:
    """A year rounded to three digits would be several scales off."""
    table = tmp_path / "table.csv"
    years = [2019, 2021, 2022, 2022, 2023, 2023, 2024]
    table.write_text("arm,reward,year,share\n" + "".join(f"a,1,{year},{year * 1e-7}\n" for year in years))
    found = json.loads(run("features", "infer", str(table)).stdout)["model"]["features"]
    assert [one["center"] for one in found] == [2022.0, 0.0002022]
    assert [one["scale"] for one in found] == [1.11, 1.11e-07]


def test_arms_and_categories_are_what_is_written(server_url: str, tmp_path: Path) -> None:
    """The rewards of version 1.10 would be learned as those of 1.1, and the postal code 01067 be another one."""
    arms = {"1.1": 1.0, "1.10": 2.0, "007": 3.0, "7": 4.0, "12345678901234567890": 5.0, "3": 6.0}
    table = tmp_path / "versions.csv"
    written = [arm if arm != "3" else "3.0" for arm in arms]  # as pandas writes whole numbers, where some are missing
    rows = [
        f"{arm},{reward},0106{place}" for place, (arm, reward) in enumerate(zip(written, arms.values(), strict=True))
    ]
    table.write_text("\n".join(["arm,reward,place", *rows]))
    inferred = json.loads(run("features", "infer", str(table), "--ignore", "place").stdout)
    assert [one["arm_id"] for one in inferred["arms"]] == list(arms)
    place = {"name": "place", "kind": "category", "categories": [f"0106{number}" for number in range(len(arms))]}
    with httpx.Client(base_url=server_url, trust_env=False, timeout=30) as http:
        ok(http.post("/campaigns", json=inferred | {"model": {"type": "disjoint", "features": [place]}}), 201)
        done = run("observations", str(table), "--campaign", "versions", "--url", server_url)
        assert "6 observations learned" in done.output
        found = ok(http.get("/campaigns/versions/report"))["arms"]
        (feature,) = ok(http.get("/campaigns/versions/features"))["features"]
    assert {one["arm_id"]: one["rewards"]["mean"] for one in found} == arms
    assert feature["other"] == 0


def test_a_row_that_does_not_fit_is_named(server_url: str, tmp_path: Path) -> None:
    """A wrong cell among thousands would have to be searched for."""
    campaign = {"campaign_id": "rows", "risk": {"measure": "mean"}, "arms": [{"arm_id": "a"}]}
    features = [{"name": "age", "scale": 10}, {"name": "mobile", "kind": "boolean"}]
    campaign["model"] = {"type": "disjoint", "features": features}
    ok(httpx.post(f"{server_url}/campaigns", json=campaign, trust_env=False), 201)
    table = tmp_path / "rows.csv"
    for row, words in (
        ("a,1,old,true", "line 3: age must be a number, not 'old'"),
        ("a,1,3,perhaps", "line 3: mobile must be true or false, not 'perhaps'"),
        ("a,one,3,true", "line 3: reward must be a number, not 'one'"),
        ("z,1,3,true", "line 3: arm_id: must be a registered arm"),
        ("a,1,,true", "line 3: context.age: is required"),
    ):
        table.write_text(f"arm,reward,age,mobile\na,1,3,1\n{row}\n")
        done = run("observations", str(table), "--campaign", "rows", "--url", server_url)
        assert done.exit_code == 1
        assert words in " ".join(done.output.split()), done.output
        assert "earlier batches" not in " ".join(done.output.split())
    assert ok(httpx.get(f"{server_url}/campaigns/rows", trust_env=False))["observations"] == 0


def test_a_row_of_a_later_batch_says_what_has_been_learned(server_url: str, tmp_path: Path) -> None:
    """Whoever mends the row would not know whether to send the others again."""
    campaign = {"campaign_id": "later", "risk": {"measure": "mean"}, "arms": [{"arm_id": "a"}]}
    ok(httpx.post(f"{server_url}/campaigns", json=campaign | {"model": {"type": "multi-armed"}}, trust_env=False), 201)
    table = tmp_path / "later.csv"
    table.write_text("arm,reward\n" + "a,1\n" * BATCH_ROWS + "z,1\n")
    done = run("observations", str(table), "--campaign", "later", "--url", server_url)
    assert done.exit_code == 1
    said = " ".join(done.output.split())
    assert f"line {BATCH_ROWS + 2}: arm_id: must be a registered arm" in said
    assert said.endswith("; rows of earlier batches have been learned")
    assert ok(httpx.get(f"{server_url}/campaigns/later", trust_env=False))["observations"] == BATCH_ROWS


def test_a_campaign_that_cannot_be_read_is_one_line(server_url: str, tmp_path: Path) -> None:
    """A mistyped campaign, or a server that does not run, would be a traceback."""
    table = tmp_path / "rows.csv"
    table.write_text("arm,reward\na,1\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    for url, words in (
        (server_url, "the service answered 404"),
        (f"http://127.0.0.1:{port}", f"no answer from http://127.0.0.1:{port}"),
    ):
        done = run("observations", str(table), "--campaign", "nope", "--url", url)
        assert done.exit_code == 1
        assert isinstance(done.exception, SystemExit), done.exception
        assert done.output.startswith("prudent: ")
        assert done.output.count("\n") == 1
        assert words in done.output
