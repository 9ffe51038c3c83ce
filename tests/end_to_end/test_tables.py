"""Tables as they come: a campaign that fits them, and sending them to it."""

import json
from pathlib import Path

import httpx
import pytest

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
    done = run("features", "infer", str(table), "--delimiter", ";", "--decimal", ",", "--encoding", "cp1252")
    assert done.exit_code == 0, done.output
    described = json.dumps(json.loads(done.stdout)["model"])
    assert '"k\\u00f6ln"' in described.lower()
    assert '"gr\\u00f6\\u00dfe", "kind": "number"' in described


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
    assert ok(httpx.get(f"{server_url}/campaigns/rows", trust_env=False))["observations"] == 0
