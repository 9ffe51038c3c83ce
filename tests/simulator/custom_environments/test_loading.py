"""Environment files: what is wrong in them is named, with the file, the field and what is allowed."""

from pathlib import Path

import pytest

from prudent_simulator.custom_environments.loading import EnvironmentFileError, load_environment, shipped_names
from prudent_simulator.custom_environments.plan import OwnPlan

GOOD = """\
name: two
risk: {measure: expectile, level: 0.1}
model: shared
context: {x: {of: {law: uniform, minimum: 0, maximum: 1}}}
theta: {u: 1.0}
spread: {u: 0.1}
arms:
  - {arm_id: a, features: {u: 1}, reward: {law: normal, deviation: 1}}
  - {arm_id: b, features: {u: {context: x}}, reward: {law: normal, deviation: 1}}
"""


def failure(tmp_path: Path, content: str | bytes) -> str:
    path = tmp_path / "environment.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(EnvironmentFileError) as failed:
        load_environment(str(path))
    message = str(failed.value)
    assert message.startswith(f"{path}:")
    assert "\n" not in message
    return message.removeprefix(f"{path}:").strip()


def test_a_good_file_is_taken_with_the_defaults(tmp_path: Path) -> None:
    """The mutations below are of a file that works; a byte order mark does no harm."""
    path = tmp_path / "environment.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    file = load_environment(str(path)).file
    assert (file.rounds, file.replications) == (1500, 20)
    assert [block.shown_as for block in file.algorithms] == ["linucb", "linucb-cr"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("name: two", "name: two\nround: 5", "unknown: round; allowed are name, description, risk,"),
        ("deviation: 1}", "deviation: -1}", "arms.0.reward.deviation: Input should be greater than 0"),
        ("deviation: 1}", "sd: 1}", "arms.0.reward: unknown: sd; allowed are law, mean, deviation"),
        ("law: normal, ", "law: cauchy, ", "arms.0.reward: Input tag 'cauchy'"),
        ("measure: expectile, level: 0.1", "measure: expectile, level: 2", "risk.level: Input should be less than"),
        ("measure: expectile, level: 0.1", "measure: expectile", "risk: give either level or downside_weight"),
        ("measure: expectile, level: 0.1", "measure: omega", "risk: Input tag 'omega'"),
        ("measure: expectile, level: 0.1", "measure: entropic, gamma: -1", "reward_bounds: the entropic risk needs"),
        ("theta: {u: 1.0}", "theta: {u: 1e-3}", "theta.u: Input should be a valid number, not the text '1e-3'"),
        ("theta: {u: 1.0}", "theta: {u: .nan}", "theta.u: Input should be"),
        ("model: shared", "model: disjoint", "theta: the disjoint model has it in each arm"),
        ("model: shared", "model: multi-armed", "context: the multi-armed model has none"),
        ("features: {u: 1}", "features: {v: 1}", "arms.0.features: unknown: v; allowed are u"),
        ("features: {u: 1}", "features: {}", "arms.0.features: missing: u"),
        ("context: x}", "context: y}", "arms.1.features.u.context: unknown; the context has x"),
        ("context: x}", "context: x, times: 2}", "arms.1.features.u: unknown: times; allowed are context, factor"),
        ("features: {u: 1}", "features: {u: {law: uniform}}", "arms.0.features.u.minimum: Field required"),
        ("arm_id: b", "arm_id: a", "arms: arm_id: duplicate a"),
        ("arm_id: b", "arm_id: no", "arms.1.arm_id: Input should be a valid string"),
        ("spread: {u: 0.1}", "spread: {u: -0.1}", "arms.0: <spread, features> can be as low as -0.1"),
        ("name: two", "name: two\nname: three", "line 2: duplicate key name"),
        ("name: two", "name: [two", "line 2:"),
        ("name: two", "name: two\nalgorithms: [{name: ucb}]", "algorithms.0.name: Input should be 'linucb'"),
        (
            "name: two",
            "name: two\nalgorithms: [{name: linucb-cr}, {name: linucb-cr, bonus: local}]",
            "algorithms: label: duplicate linucb-cr",
        ),
        ("name: two", "name: two\nalgorithms: [{name: linucb, warmup: 1.5}]", "algorithms.0.warmup: Input should be a"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    """Whoever writes a file must be able to repair it from the message alone."""
    assert old in GOOD
    assert message in failure(tmp_path, GOOD.replace(old, new, 1))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "must be a mapping of fields, not NoneType"),
        ("- 1", "must be a mapping of fields, not list"),
        (b"\xff\xfe", "is not UTF-8 text (byte 0)"),
        ("name: !!python/object/apply:os.getcwd []", "could not determine a constructor"),
        ("#" * 1_000_001, "has more than 1,000,000 bytes"),
    ],
)
def test_what_is_no_environment_at_all(tmp_path: Path, content: str | bytes, message: str) -> None:
    """Nor may a file run code."""
    assert message in failure(tmp_path, content)


def test_a_name_that_is_not_there_lists_those_that_are() -> None:
    """A typing error in the name of a shipped one."""
    assert shipped_names() == ["ad-revenue", "couriers", "crop-advice", "dosing", "worst-tenth"]
    with pytest.raises(
        EnvironmentFileError, match=r"dosage: no such file.*ad-revenue, couriers, crop-advice, dosing, worst-tenth"
    ):
        load_environment("dosage")


def test_an_algorithm_may_have_a_risk_of_its_own(tmp_path: Path) -> None:
    """Beside the file's: it is judged by that one, and what it estimates is not compared with it."""
    path = tmp_path / "environment.yaml"
    own = "algorithms:\n  - {name: linucb}\n  - {name: linucb-cr}\n"
    path.write_text(GOOD + own + "  - {name: linucb-cr, risk: {measure: cvar, level: 0.2}, label: other}\n")
    plan = OwnPlan(load_environment(str(path)), replications=1, rounds=1, seed=0, run_id="own")
    risks = {name: plan.configuration(name)["risk"] for name in plan.algorithms}
    assert risks == {
        "linucb": {"measure": "mean"},
        "linucb-cr": {"measure": "expectile", "level": 0.1},
        "other": {"measure": "cvar", "level": 0.2},
    }
    assert [plan.judges_risk(name) for name in plan.algorithms] == [False, True, False]
    assert "risk" not in plan.configuration("other")["algorithm"]
