"""The command `prudent evaluate`: from a file, a database and a server, in tables and as JSON, and what it refuses."""

import json
from pathlib import Path

import httpx
import pytest
from click.testing import Result
from typer.testing import CliRunner

from prudent.__main__ import app
from tests.api.contract import Json, ok
from tests.servers import Server

ROUNDS = 240


def prudent(*arguments: str | Path) -> Result:
    """Run a command in this process, where it takes no second to start."""
    return CliRunner().invoke(app, [str(one) for one in arguments], env={"COLUMNS": "200"})


def answer(*arguments: str | Path) -> Json:
    done = prudent("evaluate", *arguments, "--json")
    assert done.exit_code == 0, done.stderr
    content = json.loads(done.stdout)
    assert isinstance(content, dict)
    return content


def play(http: httpx.Client, name: str, model: Json, **algorithm: object) -> None:
    """Two arms, the second of which pays more where the context is 1; every tenth decision is left without a reward."""
    arms = [{"arm_id": arm} for arm in ("safe", "bold")] if model["type"] != "shared" else []
    body = {
        "campaign_id": name,
        "risk": {"measure": "expectile", "level": 0.2},
        "model": model,
        "arms": arms,
        "algorithm": {"exploration_rule": "randomized", "uniform_share": 0.4} | algorithm,
    }
    ok(http.post("/campaigns", json=body), 201)
    for start in range(0, ROUNDS, 20):
        items: list[Json] = []
        for number in range(start, start + 20):
            item: Json = {"campaign_id": name, "decision_id": f"{name}.{number}"}
            if model["type"] == "disjoint":
                item["context"] = [float(number % 2)]
            if model["type"] == "shared":
                item["arms"] = [{"arm_id": arm, "features": [n, number % 3]} for n, arm in enumerate(("safe", "bold"))]
            items.append(item)
        made = ok(http.post("/select/batch", json={"items": items}))["items"]
        rewards = [
            {
                "decision_id": one["decision_id"],
                "reward": 1.0 + 0.01 * (n % 7) + (2.0 * (n % 2) - 0.5 if one["arm_id"] == "bold" else 0.0),
            }
            for n, one in enumerate(made, start=start)
            if n % 10
        ]
        ok(http.post("/reward/batch", json={"items": rewards}))


@pytest.fixture(scope="module")
def exported(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The export of a campaign with a context, whose bonus was changed on the way, and whose arm `late` came last."""
    with httpx.Client(base_url=server.url, trust_env=False) as http:
        play(http, "own-log", {"type": "disjoint", "dimension": 1})
        ok(http.patch("/campaigns/own-log", json={"algorithm": {"exploration": 0.5}}))
        ok(http.post("/campaigns/own-log/arms", json={"arm_id": "late"}), 201)
    path = tmp_path_factory.mktemp("exports") / "own-log.ndjson"
    done = prudent("export", "own-log", "--url", server.url, "--output", path)
    assert done.exit_code == 0, done.stderr
    return path


def test_a_campaign_is_judged_from_a_file_a_server_and_a_database(server: Server, exported: Path) -> None:
    """One log, three ways to it: the same numbers, and every decision with a reward is replayed."""
    options = ("--downside-weight", "1", "--greedy")
    found = answer(exported, *options)
    assert found == answer("--campaign", "own-log", "--url", server.url, *options)
    assert found == answer("--campaign", "own-log", "--database-url", server.database_url, *options)
    assert (found["decisions"], found["judged"]) == (ROUNDS, 216)
    assert found["left_out"] == {"no-reward": 24}
    assert found["measures"] == ["mean", "expectile at level 0.2", "expectile at level 0.5"]
    named = {one["name"]: one for one in found["policies"]}
    assert list(named) == [
        "the campaign, as it was played",
        "always safe",
        "always bold",
        "always late",
        "downside weight 1",
        "the campaign, best estimates",
        "downside weight 1, best estimates",
    ]
    assert named["always late"]["refusal"] == {"share": 1.0, "arms": {"late": 1.0}}
    assert named["always safe"]["values"]["mean"]["value"] == pytest.approx(1.03, abs=0.01)
    low, high = (named["always bold"]["mean"][end] for end in ("low", "high"))
    assert low < 1.53 < high
    assert named["the campaign, best estimates"]["mean"]["value"] > named["always bold"]["mean"]["value"]


def test_tables_and_words(exported: Path) -> None:
    """What a person sees: a value or why there is none, and where the intervals stop."""
    shown = prudent("evaluate", exported, "--level", "0.1")
    assert shown.exit_code == 0, shown.stderr
    for words in (
        "216 of the 240 decisions of own-log are judged",
        "Value of each policy: expectile at level 0.1",
        "24 decisions have no reward: they are left out.",
        "always late: no value, because the log lacks support for it in 100% of the decisions (late in 100%).",
        "The intervals (95%) are no guarantee",
    ):
        assert words in " ".join(shown.stdout.split()), words


def test_candidates_that_came_with_requests_are_refused_with_words(server: Server, client: httpx.Client) -> None:
    """Their features are not stored, so nobody can say what another arm would have had."""
    play(client, "own-log-shared", {"type": "shared", "dimension": 2})
    done = prudent("evaluate", "--campaign", "own-log-shared", "--url", server.url)
    assert done.exit_code == 1
    assert "only 0 decisions can be judged" in done.stderr
    assert (
        "the request restricted the candidates or brought its own, which are not stored without log_candidates"
        in done.stderr
    )


def test_restricted_candidates_are_left_out(server: Server, client: httpx.Client) -> None:
    """Of two arms of three the propensities are others than of three: those decisions cannot be judged."""
    arms = [{"arm_id": arm} for arm in "abc"]
    body = {"campaign_id": "own-log-eligible", "risk": {"measure": "mean"}, "model": {"type": "multi-armed"}}
    body |= {"arms": arms, "algorithm": {"exploration_rule": "randomized", "uniform_share": 0.5}}
    ok(client.post("/campaigns", json=body), 201)
    for number in range(90):
        request: Json = {"campaign_id": "own-log-eligible", "decision_id": f"own-log-eligible.{number}"}
        made = ok(client.post("/select", json=request | ({"exclude": ["c"]} if number % 3 == 0 else {})))
        reward = "abc".index(made["arm_id"]) + 0.1 * (number % 5)
        ok(client.post("/reward", json={"decision_id": made["decision_id"], "reward": reward}))
    found = answer("--campaign", "own-log-eligible", "--url", server.url)
    assert found["left_out"] == {"not-replayed": 30}
    assert found["judged"] == 60


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give either a file or --campaign"),
        (["FILE", "--campaign", "x"], "give either a file or --campaign"),
        (["FILE", "--url", "http://127.0.0.1:9"], "--url and --database-url go with --campaign"),
        (["nowhere.ndjson"], "cannot read nowhere.ndjson"),
        (["CSV"], "line 1: is not the header of an exported campaign"),
        (["ARRAY"], "line 1: is not the header of an exported campaign"),
        (["CUT"], "the file ends before its trailer"),
        (["FILE", "--level", "2"], "level 2: risk.level: must be at most 0.999999, not 2"),
        (["FILE", "--configuration", "FLOOR"], "FLOOR: algorithm.flor: unknown field: did you mean floor?"),
        (["FILE", "--gamma", "-1"], "gamma -1: reward.minimum: the entropic measure needs both reward bounds"),
        (["FILE", "--configuration", "MODEL"], "MODEL: model: only risk, algorithm, reward can be changed"),
        (["FILE", "--configuration", "CSV"], "CSV: is not JSON"),
        (["FILE", "--configuration", "ARRAY"], "ARRAY: must be an object"),
    ],
)
def test_mistakes_are_one_line(exported: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    """Whatever is wrong, no traceback and no table."""
    lines = exported.read_bytes().splitlines(keepends=True)
    contents = {
        "CSV": b"arm,reward\na,1\n",
        "ARRAY": b'[{"arm": "a"}]\n',
        "CUT": b"".join(lines[:-1]),
        "FLOOR": b'{"algorithm": {"flor": 0.1}}',
        "MODEL": b'{"model": {"type": "multi-armed"}}',
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    given = [str(exported if one == "FILE" else tmp_path / one if one.isupper() else one) for one in arguments]
    done = prudent("evaluate", *given)
    assert (done.exit_code, done.stdout) == (1, "")
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("prudent: ")]
    assert message in line
