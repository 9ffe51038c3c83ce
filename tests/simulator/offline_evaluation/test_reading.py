"""Logs: what is wrong in them is named by line, and what is right is read the same from both formats."""

from pathlib import Path

import pytest

from prudent_simulator.offline_evaluation.reading import Columns, Log, LogError, read_log


def written(tmp_path: Path, content: str | bytes) -> Path:
    path = tmp_path / "log.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def failure(tmp_path: Path, content: str | bytes, columns: Columns | None = None) -> str:
    path = written(tmp_path, content)
    with pytest.raises(LogError) as failed:
        read_log(path, columns or Columns())
    message = str(failed.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message.removeprefix(f"{path}: ")


def same(log: Log) -> list[tuple[object, ...]]:
    return [(row.arm, row.reward, row.propensity, row.context, row.features) for row in log.rows]


def test_both_formats_say_the_same(tmp_path: Path) -> None:
    """A byte order mark, Windows line ends, blank lines, and numbers in any spelling, as spreadsheets write them."""
    table = b"\xef\xbb\xbfarm,when,reward,propensity,context.x,context.y\r\na,mon,1,0.5,1e1,-2\r\n\r\n"
    table += b"b,tue,-0.5,.25,0,3\r\n"
    lines = (
        '{"arm": "a", "reward": 1, "propensity": 0.5, "context": {"x": 10, "y": -2}, "when": "mon"}\n\n'
        '{"arm": "b", "reward": -0.5, "propensity": 0.25, "context": {"y": 3, "x": 0}}'
    )
    logs = [read_log(written(tmp_path, content)) for content in (table, lines)]
    expected = [("a", 1.0, 0.5, (10.0, -2.0), None), ("b", -0.5, 0.25, (0.0, 3.0), None)]
    assert [same(log) for log in logs] == [expected, expected]
    assert [log.context_names for log in logs] == [("x", "y"), ("x", "y")]
    assert [[row.line for row in log.rows] for log in logs] == [[2, 4], [1, 3]]
    assert logs[0].arms == ["a", "b"]


def test_features_of_candidates_in_both_formats(tmp_path: Path) -> None:
    """A candidate that was not there has empty cells; an arm's id may hold dots."""
    table = "arm,reward,features.a.x,features.a.y,features.v1.2.x,features.v1.2.y\na,1,1,2,3,4\nv1.2,2,,,5,6\n"
    lines = (
        '{"arm": "a", "reward": 1, "features": {"a": [1, 2], "v1.2": [3, 4]}}\n'
        '{"arm": "v1.2", "reward": 2, "features": {"v1.2": [5, 6]}}\n'
    )
    read = [read_log(written(tmp_path, content)) for content in (table, lines)]
    assert same(read[0]) == same(read[1])
    assert read[0].rows[1].features == {"v1.2": (5.0, 6.0)}
    assert read[0].arms == ["a", "v1.2"]


def test_one_row_does_not_make_a_table_of_r(tmp_path: Path) -> None:
    """A stray field in the first row was taken for a row's name, and all the other rows were called wrong."""
    rows = "b,2\na,3\nb,4\n"
    assert failure(tmp_path, f"arm,reward\na,1,x\n{rows}") == "line 2: has 3 fields, and the header has 2"
    named = "".join(f"{number},{row}\n" for number, row in enumerate(rows.split(), start=1))
    said = failure(tmp_path, f"arm,reward\na,1\n{named}")
    assert said == "line 2: has 2 fields, and a row has its name and 2"
    assert [row.arm for row in read_log(written(tmp_path, f"arm,reward\n{named}")).rows] == ["b", "a", "b"]


@pytest.mark.parametrize("name", ["undefined", "hex", "no-such-name"])
def test_what_is_no_encoding_is_said(name: str, tmp_path: Path) -> None:
    """One that Python knows and that decodes nothing ended in a traceback."""
    with pytest.raises(LogError, match=f"there is no encoding {name}"):
        read_log(written(tmp_path, "arm,reward\na,1\n"), Columns(encoding=name))


def test_own_names_of_fields(tmp_path: Path) -> None:
    """A team's log need not be rewritten."""
    columns = Columns("variant", "profit", "p", ("age", "rain"))
    log = read_log(written(tmp_path, "rain,variant,age,profit,p,note\n1,7,2,3,1,x\n"), columns)
    assert same(log) == [("7", 3.0, 1.0, (2.0, 1.0), None)]
    line = '{"rain": 1, "variant": 7, "age": 2, "profit": 3, "p": 1}'
    assert same(read_log(written(tmp_path, line), columns)) == same(log)


HEAD = "arm,reward,propensity,context.x\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        (b"arm,reward\n\xff,1\n", "is not UTF-8 text (byte 11)"),
        ("arm,reward\na,1\n".encode("utf-16"), "is not UTF-8 text (byte 0): give --encoding, such as utf-16"),
        ("arm,reward\n", "has no rows"),
        ('[{"arm": "a", "reward": 1}]', "is one JSON array, but a log in JSON has one object per line: jq -c '.[]' "),
        (' [\n  {"arm": "a", "reward": 1},\n]', "is one JSON array"),
        ('[["a", 1]]', "is one JSON array"),
        ('{"kind":"header","format":"prudent-campaign","version":2}\n', "the export of a campaign: prudent evaluate"),
        ('{\n"arm": "a", "reward": 1}', "each line is a whole object"),
        ("arm,profit\na,1\n", "line 1: there is no column reward; found: arm, profit"),
        ("arm;reward\na;1\n", "line 1: there is no column arm; found: arm;reward; is the separator a comma?"),
        ("arm,reward,arm\na,1,b\n", "line 1: duplicate column arm"),
        (HEAD + "a,1,0.5\n", "line 2: has 3 fields, and the header has 4"),
        (HEAD + ",1,0.5,1\n", "line 2: arm: is missing"),
        (HEAD + "a,,0.5,1\n", "line 2: reward: is missing"),
        (HEAD + "a,nan,0.5,1\n", "line 2: reward: must lie between -1e+09 and 1e+09, not nan"),
        (HEAD + "a,1e400,0.5,1\n", "line 2: reward: must lie between"),
        (HEAD + "a,much,0.5,1\n", "line 2: reward: must be a number, not 'much'"),
        (HEAD + "a,1,0,1\n", "line 2: propensity: must be above 0 and at most 1, not 0"),
        (HEAD + "a,1,1.5,1\n", "line 2: propensity: must be above 0 and at most 1, not 1.5"),
        (HEAD + "a,1,nan,1\n", "line 2: propensity: must lie between"),
        (HEAD + "a,1,0.5,1\nb,1,,1\n", "line 3: propensity: is missing, unlike in line 2"),
        (HEAD + "a,1,0.5,1\na,1,0.5,much\n", "line 3: context.x: must be a number, not 'much'"),
        (HEAD + "a,1,0.5,2e15\n", "line 2: context.x: must lie between -1e+15 and 1e+15, not 2000000000000000.0"),
        (HEAD + 'a,1,0.5,"1\n', "line 2: is not CSV"),
        ("arm,reward,context.x,features.a.x\na,1,1,1\n", "line 2: has both a context and features"),
        ("arm,reward,features.a.x,features.b.x\na,1,,2\n", "line 2: features: has none for a, the arm that was chosen"),
        ('{"arm": "a", "reward": 1}\n{"arm": "a"\n', "line 2: is not JSON"),
        ('{"arm": "a", "reward": NaN}', "line 1: is not JSON"),
        ('{"arm": "a", "reward": 1}\n[1]', "line 2: must be an object"),
        ('{"arm": "a:b", "reward": 1}\n{"arm": "a", "reward": 1, "reward": 0}', "line 2: has the name 'reward' twice"),
        ('{"arm": "a", "reward": 1, "context": {"x": 1, "x": 2}}', "line 1: has the name 'x' twice"),
        ('{"arm": "a", "reward": true}', "line 1: reward: must be a number"),
        ('{"arm": ["a"], "reward": 1}', "line 1: arm: must be a text"),
        ('{"arm": "a", "reward": 1, "context": 3}', "line 1: context: must be a list of numbers or an object"),
        ('{"arm": "a", "reward": 1, "features": [1]}', "line 1: features: must give the numbers of every candidate"),
        ('{"arm": "a", "reward": 1, "features": {"a": 1}}', "line 1: features.a: must be a list of numbers"),
        (
            '{"arm": "a", "reward": 1, "context": [1]}\n{"arm": "a", "reward": 1, "features": {"a": [1]}}',
            "line 2: context: is missing, unlike in line 1",
        ),
        (
            '{"arm": "a", "reward": 1, "context": [1]}\n{"arm": "a", "reward": 1, "context": [1, 2]}',
            "line 2: context: has 2 numbers, and line 1 has 1",
        ),
        (
            '{"arm": "a", "reward": 1, "context": {"x": 1}}\n{"arm": "a", "reward": 1, "context": {"y": 1}}',
            "line 2: context: must have x; has y",
        ),
        (
            '{"arm": "a", "reward": 1, "features": {"a": [1], "b": [1, 2]}}',
            "line 1: features.b: has 2 numbers, and a has 1",
        ),
        (
            '{"arm": "a", "reward": 1, "features": {"a": [1]}}\n{"arm": "b", "reward": 1, "features": {"b": [1, 2]}}',
            "line 2: features.b: has 2 numbers, and line 1 has 1",
        ),
    ],
)
def test_what_is_wrong_is_named_by_line(tmp_path: Path, content: str | bytes, message: str) -> None:
    """A bad row that was skipped or guessed at would bend every value."""
    assert message in failure(tmp_path, content)


def test_many_errors_are_listed_up_to_a_limit(tmp_path: Path) -> None:
    """All of them at once would fill the screen, one by one would take all day."""
    message = failure(tmp_path, "arm,reward\n" + "a,x\n" * 50)
    assert message.count("reward: must be a number") == 10
    assert message.endswith("and perhaps more")


def test_risk_needs_arm_and_reward_only(tmp_path: Path) -> None:
    """Propensities and contexts that are wrong do not matter to a table of rewards."""
    log = read_log(written(tmp_path, HEAD + "a,1,7,?\nb,2,,\n"), rewards_only=True)
    assert same(log) == [("a", 1.0, None, None, None), ("b", 2.0, None, None, None)]
