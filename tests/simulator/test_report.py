"""Table, JSON and figure of a run that is made up, so that every number is known."""

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from prudent_simulator.environments import Theta, environment_of
from prudent_simulator.figure import regret_figure, write_figure
from prudent_simulator.report import as_json, file_stem, print_table, summary, write_json
from prudent_simulator.runner import Outcome, RunPlan, RunResult, Timings
from prudent_simulator.settings import AlgorithmName, Layout, paper_settings


def result_of(rounds: int = 1_500, *, coverage: bool = False, theta: Theta = Theta.NORMALISED) -> RunResult:
    environment = environment_of(2, theta)
    layout = Layout.DISJOINT
    algorithms = (AlgorithmName.LINUCB, AlgorithmName.LINUCB_CR)
    plan = RunPlan(
        environment, layout, algorithms, paper_settings(environment, layout), 5, rounds, 0, "made-up", coverage
    )
    regret = np.linspace(0.0, 1.0, rounds) * np.array([[100.0], [200.0], [300.0], [400.0], [500.0]])
    arms = np.zeros((5, rounds), dtype=np.int64)
    covered = np.array([True, True, True, True, False]) if coverage else None
    outcomes = {
        algorithms[0]: Outcome(3.0 * regret, arms, None, {}),
        algorithms[1]: Outcome(regret, arms, covered, {}),
    }
    return RunResult(plan, outcomes, Timings(1.0, 2.0, 4.0, 10 * rounds))


def printed(result: RunResult, width: int = 160) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    print_table(console, result)
    text = console.file.getvalue()
    assert isinstance(text, str)
    return text


def test_summary_has_median_tails_and_mean() -> None:
    """Tails matter as much as medians."""
    regret = np.array([[1.0, 10.0], [1.0, 20.0], [1.0, 30.0], [1.0, 40.0], [1.0, 100.0]])
    figures = {"mean": 40.0, "median": 30.0}
    figures |= {"percentile_5": 12.0, "percentile_25": 20.0, "percentile_75": 40.0, "percentile_95": 88.0}
    assert summary(regret) == pytest.approx(figures)


def test_the_table_puts_results_beside_what_to_expect() -> None:
    """Median and tails, and the references that belong to these settings."""
    text = printed(result_of())
    row = next(line for line in text.splitlines() if "linucb-cr" in line)
    assert "300 [120, 200, 400, 480]" in row
    assert "229 (ball per arm)" in row
    assert "about 200" in row
    assert "15000 decisions and rewards in 4.0 s (3750 per second)" in text
    assert "Coverage" not in text


def test_the_table_shows_coverage_when_asked() -> None:
    """The share of replications that stayed within their bonus."""
    text = printed(result_of(coverage=True))
    assert "0.80" in next(line for line in text.splitlines() if "linucb-cr" in line)


@pytest.mark.parametrize("result", [result_of(100), result_of(theta=Theta.PRINTED)])
def test_no_reference_is_shown_for_another_run(result: RunResult) -> None:
    """The values hold for 1,500 rounds and the normalised parameter."""
    text = printed(result)
    assert "229" not in text
    assert "about 200" not in text


def test_json_holds_every_curve_and_keeps_time_apart(tmp_path: Path) -> None:
    """Equal runs give equal files but for their timings."""
    result = result_of(100)
    path = write_json(result, tmp_path)
    assert path.name == "experiment-2-disjoint.json"
    content = json.loads(path.read_bytes())
    exact = content["algorithms"]["linucb-cr"]
    np.testing.assert_array_equal(exact["regret"], result.outcomes[AlgorithmName.LINUCB_CR].regret)
    assert np.shape(exact["arms"]) == (5, 100)
    assert exact["request"]["algorithm"]["regularization"] == 0.1
    assert content["settings"]["conditioning"] == "theory"
    other = json.loads(as_json(replace(result, timings=Timings(9.0, 9.0, 9.0, 9))))
    assert other.pop("timings") != content.pop("timings")
    assert other == content


def test_file_names_tell_variants_apart() -> None:
    """The figure of one variant must not overwrite that of another."""
    assert file_stem(result_of(10, theta=Theta.PRINTED).plan) == "experiment-2-disjoint-printed"


def test_the_figure_is_in_the_papers_style() -> None:
    """Log axis; for each algorithm a thick median, two dotted quartiles and a shade."""
    axes = regret_figure(result_of(100)).axes[0]
    assert axes.get_yscale() == "log"
    assert [line.get_linestyle() for line in axes.lines] == [":", ":", "-"] * 2
    median = axes.lines[5]
    assert median.get_linewidth() > 2 * axes.lines[3].get_linewidth()
    assert np.asarray(median.get_ydata())[-1] == pytest.approx(300.0)
    assert len(axes.collections) == 2


def test_figures_are_saved_the_same_every_time(tmp_path: Path) -> None:
    """Files that change without a reason clutter a repository."""
    result = result_of(50)
    (tmp_path / "again").mkdir()
    first, second = write_figure(result, tmp_path), write_figure(result, tmp_path / "again")
    assert [path.suffix for path in first] == [".png", ".svg"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_a_run_without_regret_can_be_drawn(tmp_path: Path) -> None:
    """A log axis has no 0."""
    result = result_of(1)
    flat = {name: replace(outcome, regret=outcome.regret * 0.0) for name, outcome in result.outcomes.items()}
    assert all(path.stat().st_size > 1_000 for path in write_figure(replace(result, outcomes=flat), tmp_path))
