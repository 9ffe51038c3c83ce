"""The table of arms: the README's couriers, whose values are known."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from prudent_simulator.offline_evaluation.arm_risks import WEIGHTS, arm_risks, in_words
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
    expected = [[0.6] * 5, [stats.expectile(bold, alpha=1.0 / (1.0 + weight)) for weight in WEIGHTS]]
    np.testing.assert_allclose(result.risks, expected, atol=1e-9)
    assert result.risks[1, 3] == pytest.approx(-0.05)
    assert result.best == ["bold", "steady", "steady", "steady", "steady"]
    (change,) = result.changes
    assert (change.before, change.after) == ("bold", "steady")
    assert change.downside_weight == pytest.approx(1.6875, abs=1e-6)
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
