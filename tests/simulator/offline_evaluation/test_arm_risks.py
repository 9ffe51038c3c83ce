"""The table of arms: the README's couriers, whose values are known."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from prudent_simulator.offline_evaluation.arm_risks import DIALS, arm_risks, in_words
from prudent_simulator.offline_evaluation.reading import read_log


def couriers(tmp_path: Path, times: int) -> Path:
    path = tmp_path / "couriers.csv"
    rows = [*["steady,0.6"] * 10, *["bold,0.9"] * 9, "bold,-1"] * times
    path.write_text("\n".join(["arm,reward", *rows]))
    return path


def test_the_couriers(tmp_path: Path) -> None:
    """By the mean bold; from where w 0.1 (v + 1) = 0.9 (0.9 - v) at v = 0.6 on, that is w = 1.6875, steady."""
    result = arm_risks(read_log(couriers(tmp_path, 40)), resamples=50, seed=0)
    assert (result.arms, result.counts) == (["steady", "bold"], [400, 400])
    bold = np.repeat([0.9, -1.0], [9, 1])
    expected = [[0.6] * 5, [stats.expectile(bold, alpha=1.0 / (1.0 + weight)) for weight in DIALS["expectile"].values]]
    np.testing.assert_allclose(result.risks, expected, atol=1e-9)
    assert result.risks[1, 3] == pytest.approx(-0.05)
    assert result.best == ["bold", "steady", "steady", "steady", "steady"]
    (change,) = result.changes
    assert (change.before, change.after) == ("bold", "steady")
    assert change.at == pytest.approx(1.6875, abs=1e-6)
    assert in_words(result) == [
        "By the mean, bold is best.",
        "From a downside weight of 1.69 on, steady is better than bold.",
    ] + [word for word in in_words(result) if "does not settle" in word]


def test_few_rewards_and_close_arms_are_said(tmp_path: Path) -> None:
    """Ten rewards cannot show what happens once in a hundred."""
    result = arm_risks(read_log(couriers(tmp_path, 1)), resamples=200, seed=1)
    words = " ".join(in_words(result))
    assert "does not settle which arm is best at downside weight 1 (bold, in" in words
    assert "Fewer than 200 rewards: steady, bold." in words
    assert result.best_share.sum(axis=0) == pytest.approx(1.0)


def test_no_winner_is_named_among_equal_arms(tmp_path: Path) -> None:
    """The order of the rows decided who was best."""
    path = tmp_path / "log.csv"
    path.write_text("arm,reward\n" + "a,1\nb,1\n" * 50)
    result = arm_risks(read_log(path), 20, 0)
    assert in_words(result)[0] == "a and b are equal by the mean and at every downside weight up to 19."
    assert result.best == [None] * 5
    assert result.best_share == pytest.approx(np.full((2, 5), 0.5))
    path.write_text("arm,reward\n" + "a,0.1\na,0.2\na,0.3\nb,0.3\nb,0.1\nb,0.2\nc,0\n" * 50)
    assert in_words(arm_risks(read_log(path), 20, 0))[0].startswith("a and b are equal, and best by the mean")


@pytest.mark.parametrize("measure", DIALS)
@pytest.mark.parametrize("offset", [0.0, 9e8, -9e8])
def test_where_zero_lies_makes_no_arms_equal(tmp_path: Path, measure: str, offset: float) -> None:
    """Rewards around a billion with a spread of one: the better arm was said to be equal to the worse one."""
    drawn = np.random.default_rng(1).normal(0.0, 1.0, 200).round(2)
    rows = [f"{arm},{offset + value + gap!r}" for arm, gap in (("a", 0.0), ("b", 0.5)) for value in drawn.tolist()]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["arm,reward", *rows]))
    result = arm_risks(read_log(path), 5, 0, measure)
    assert in_words(result)[0].startswith("b is best by the me")
    np.testing.assert_allclose(result.risks[1] - result.risks[0], 0.5, atol=1e-6)
    path.write_text("\n".join(["arm,reward", *(f"{arm},{offset + 0.1 * k!r}" for arm in "ab" for k in range(30))]))
    assert arm_risks(read_log(path), 5, 0, measure).leaders == [["a", "b"]] * len(DIALS[measure].values)


def test_arms_that_are_equal_at_one_weight_only(tmp_path: Path) -> None:
    """The same mean, and a spread that only caution sees."""
    path = tmp_path / "log.csv"
    path.write_text("arm,reward\n" + "a,0\na,2\nb,1\nb,1\n" * 100)
    result = arm_risks(read_log(path), 20, 0)
    assert in_words(result)[:2] == [
        "By the mean, a and b are equal.",
        "From a downside weight of 1 on, b is better than a.",
    ]
    assert result.best == [None, "b", "b", "b", "b"]


def test_one_arm_and_one_best_arm(tmp_path: Path) -> None:
    """Nothing to choose, or nothing that changes."""
    path = tmp_path / "log.csv"
    path.write_text("arm,reward\na,1\na,2\n")
    assert in_words(arm_risks(read_log(path), 20, 0)) == ["The log has one arm only: there is nothing to choose."]
    path.write_text("arm,reward\na,1\na,2\nb,0\n")
    first = in_words(arm_risks(read_log(path), 20, 0))[0]
    assert first == "a is best by the mean and at every downside weight up to 19."


@pytest.mark.parametrize(
    ("measure", "bold", "at", "words"),
    [
        ("cvar", [0.71, 0.52, 0.14, -1.0, -1.0], 19 / 30, "From a level of 0.633 on, steady is better than bold."),
        ("quantile", [0.9, 0.9, -1.0, -1.0], 0.1, "From a level of 0.1 on, steady is better than bold."),
        ("mean-variance", [0.71, 0.425, 0.14, -0.145, -0.43], 0.11 / 0.57, "From an aversion of 0.193 on, steady"),
    ],
)
def test_the_couriers_along_other_dials(tmp_path: Path, measure: str, bold: list[float], at: float, words: str) -> None:
    """The best tenth would be averaged for the worst, or the point of change be that of another measure."""
    result = arm_risks(read_log(couriers(tmp_path, 40)), 20, 0, measure)
    np.testing.assert_allclose(result.risks, [[0.6] * len(bold), bold], atol=1e-9)
    (change,) = result.changes
    assert change.at == pytest.approx(at, abs=1e-6)
    assert change.words.startswith(words)
    assert in_words(result)[0] == f"By {result.dial.first}, bold is best."
