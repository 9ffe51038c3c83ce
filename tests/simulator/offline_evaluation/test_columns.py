"""What the columns of a log are taken for, and public tables as they come out of their packages."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import statsmodels
from sklearn.datasets import load_wine

from prudent_simulator.offline_evaluation.reading import Columns, LogError, read_log
from tests.commands import simulator
from tests.simulator.offline_evaluation.test_commands import answer

PACKAGE = Path(statsmodels.__file__).parent
TABLES: dict[str, tuple[str, list[str], int, str]] = {
    "an experiment with four letters about immigration": (
        "stats/tests/results/framing.csv",
        ["--uniform", "--mean", "--arm-column", "cond", "--reward-column", "cong_mesg"]
        + [
            part
            for name in ("treat", "tone", "eth", "emo", "p_harm", "immigr", "english", "anti_info", "anx")
            for part in ("--ignore", name)
        ],
        4,
        "uniform",
    ),
    "births and smoking": (
        "treatment/tests/results/cataneo2.csv",
        ["--downside-weight", "4", "--arm-column", "mbsmoke", "--reward-column", "bweight"]
        + [
            part
            for name in ("msmoke", "lbweight", "mbsmoke_", "mmarried_", "fbaby_", "prenatal1_", "mage2")
            for part in ("--ignore", name)
        ],
        19,
        "shadow",
    ),
    "diets of pigs, written by R": (
        "regression/tests/results/dietox.csv",
        ["--mean", "--arm-column", "Cu", "--reward-column", "Weight", "--ignore", "Pig"],
        4,
        "shadow",
    ),
    "cars and their fuel": (
        "gam/tests/results/autos.csv",
        ["--mean", "--arm-column", "fuel", "--reward-column", "city_mpg", "--ignore", "hw_mpg", "--ignore", "fuel.sys"],
        22,
        "shadow",
    ),
    "low birth weights": (
        "genmod/tests/results/stata_lbw_glm.csv",
        ["--mean", "--arm-column", "smoke", "--reward-column", "bwt", "--ignore", "id", "--ignore", "low"],
        7,
        "shadow",
    ),
}
"""File, options, number of features, and how it is judged."""


@pytest.mark.parametrize("name", TABLES)
def test_a_public_table_is_replayed_in_one_command(server_url: str, name: str) -> None:
    """A table that has categories, missing cells or names of rows would first have to be made into another one."""
    file, options, features, judged = TABLES[name]
    found = answer("replay", PACKAGE / file, "--url", server_url, "--all-columns", *options, "--resamples", "20")
    assert found["judged"] == judged
    assert len(found["campaign"]["model"]["features"]) == features
    kinds = {one["kind"] for one in found["campaign"]["model"]["features"]}
    assert "category" in kinds or name == "diets of pigs, written by R"


def test_a_data_frame_with_numbers_only_is_replayed(server_url: str, tmp_path: Path) -> None:
    """Measurements of a thousand and of a tenth in one context."""
    frame = load_wine(as_frame=True).frame
    frame["target"] = frame["target"].map({0: "barolo", 1: "grignolino", 2: "barbera"})
    frame.to_csv(tmp_path / "wine.csv")
    options = ("--mean", "--arm-column", "target", "--reward-column", "proline", "--all-columns", "--resamples", "20")
    found = answer("replay", tmp_path / "wine.csv", "--url", server_url, *options)
    assert found["campaign"]["model"]["dimension"] == 12


def written(tmp_path: Path, text: str, **columns: Any) -> Any:
    path = tmp_path / "log.csv"
    path.write_bytes(text.encode(columns.get("encoding", "utf-8")))
    return read_log(path, Columns("arm", "reward", is_all_context=True, **columns))


def test_kinds_follow_from_the_cells(tmp_path: Path) -> None:
    """A code with an empty cell would be read as 0, or true as a text."""
    log = written(
        tmp_path, ',arm,reward,town,age,paid,x\n1,a,1,Ulm,NA,true,1\n2,b,2,,31,FALSE,2\n3,a,1,"A, B",40,true,3\n'
    )
    assert log.schema == [
        {"name": "town", "kind": "category", "capacity": 2, "missing": "indicator"},
        {"name": "age", "kind": "number", "missing": "indicator"},
        {"name": "paid", "kind": "boolean"},
        {"name": "x", "kind": "number"},
    ]
    assert [row.context for row in log.rows] == [
        {"town": "Ulm", "age": None, "paid": True, "x": 1.0},
        {"town": None, "age": 31.0, "paid": False, "x": 2.0},
        {"town": "A, B", "age": 40.0, "paid": True, "x": 3.0},
    ]


def test_numbers_stay_an_array(tmp_path: Path) -> None:
    """A log that could be replayed before is replayed as before."""
    log = written(tmp_path, "arm,reward,x,y\na,1,2,3\nb,2,3,4\n")
    assert log.schema is None
    assert [row.context for row in log.rows] == [(2.0, 3.0), (3.0, 4.0)]


def test_the_campaigns_features_decide(tmp_path: Path) -> None:
    """A postcode is no number, whatever it looks like; and what is not described is not needed."""
    described = {"zip": {"name": "zip", "kind": "category", "capacity": 3}, "age": {"name": "age"}}
    log = written(tmp_path, "arm,reward,age,zip,note\na,1,30,89073,x\nb,2,31,01099,y\n", described=described)
    assert [row.context for row in log.rows] == [{"zip": "89073", "age": 30.0}, {"zip": "01099", "age": 31.0}]
    with pytest.raises(LogError, match=r"line 3: context\.age: is missing"):
        written(tmp_path, "arm,reward,age,zip\na,1,30,1\nb,2,,2\n", described=described)
    with pytest.raises(LogError, match="line 2: the context is zip, and the campaign's features are zip, age"):
        written(tmp_path, "arm,reward,zip\na,1,30\n", described=described)
    described = {"on": {"name": "on", "kind": "boolean"}}
    with pytest.raises(LogError, match=r"context\.on: must be true or false, not 'maybe'"):
        written(tmp_path, "arm,reward,on\na,1,yes\nb,2,maybe\n", described=described)


def test_other_signs_separators_and_encodings_are_read(tmp_path: Path) -> None:
    """As a spreadsheet on the continent writes it."""
    text = "arm;reward;größe;ort\na;1,5;-2,5e1;Köln, Süd\nb;,5;3;x\n"
    log = written(tmp_path, text, delimiter=";", decimal=",", encoding="cp1252")
    assert [row.reward for row in log.rows] == [1.5, 0.5]
    assert [row.context for row in log.rows] == [{"größe": -25.0, "ort": "Köln, Süd"}, {"größe": 3.0, "ort": "x"}]
    with pytest.raises(LogError, match=r"is not UTF-8 text \(byte .*give --encoding"):
        read_log(tmp_path / "log.csv", Columns(delimiter=";"))
    with pytest.raises(LogError, match="the delimiter must be one character"):
        written(tmp_path, text, delimiter=";;")
    with pytest.raises(LogError, match="there is no encoding klingon"):
        read_log(tmp_path / "log.csv", Columns(encoding="klingon"))


def test_an_index_and_missing_values_of_parquet_are_seen(tmp_path: Path) -> None:
    """A data frame's index is no feature, and NaN no number."""
    frame = pd.DataFrame({"arm": ["a", "b"], "reward": [1, 2], "age": [None, 3.5], "town": ["x", None]}, index=[7, 9])
    frame.to_parquet(tmp_path / "log.parquet")
    log = read_log(tmp_path / "log.parquet", Columns(is_all_context=True))
    assert [row.context for row in log.rows] == [{"age": None, "town": "x"}, {"age": 3.5, "town": None}]


def test_uniform_is_for_logs_without_probabilities(server_url: str, tmp_path: Path) -> None:
    """Two answers to one question."""
    (tmp_path / "log.csv").write_text("arm,reward,propensity\n" + "a,1,0.5\nb,2,0.5\n" * 10)
    done = simulator("replay", tmp_path / "log.csv", "--url", server_url, "--mean", "--uniform")
    assert done.returncode != 0
    assert "has the column propensity: leave out --uniform" in done.stderr
