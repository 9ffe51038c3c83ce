"""Intervals from few rows: what they cover, and that they are said to be of few rows."""

import json
from pathlib import Path

import numpy as np
import pytest

from docs.measurements.few_rows import coverage, loss_of
from prudent_simulator.offline_evaluation.bounds import lower_bound, upper_bound
from prudent_simulator.offline_evaluation.measures import MEAN, Measure, bootstrap, interval, studentized
from tests.commands import simulator
from tests.simulator.offline_evaluation.test_commands import answer, table

CAUTIOUS = Measure("expectile", 0.2)
MEASURES = [MEAN, CAUTIOUS, Measure("expectile", 0.8), Measure("entropic", -0.5)]


def test_bounds_cover_a_loss_that_was_not_seen() -> None:
    """Three in ten samples of 60 lack a loss in 1 of 50: the interval of the bootstrap lies above the truth."""
    law = loss_of(0.02)
    covered = 0
    for seed in range(300):
        generator = np.random.default_rng(seed)
        rewards = np.where(generator.random(60) < 0.02, -50.0, generator.normal(2.0, 1.0, 60))
        covered += lower_bound(MEAN, rewards, -50.0) <= law.mean <= upper_bound(MEAN, rewards, 10.0)
    assert covered >= 0.95 * 300


@pytest.mark.parametrize("measure", MEASURES, ids=str)
def test_bounds_lie_around_the_sample_and_within_the_range(measure: Measure) -> None:
    """Of any measure; and they close in as rows are added."""
    rewards = np.random.default_rng(1).normal(2.0, 1.0, 150)
    widths = []
    for count in (10, 40, 150):
        low, high = (bound(measure, rewards[:count], end) for bound, end in ((lower_bound, -8), (upper_bound, 8)))
        assert -8.0 < low < measure.of_sample(rewards[:count]) < high < 8.0
        widths.append(high - low)
    assert widths == sorted(widths, reverse=True)


def test_mean_variance_has_no_bounds_from_the_range(tmp_path: Path) -> None:
    """A mass at the maximum spreads rewards: the upper bound of a normal law would lie below the truth."""
    log, campaign = table(tmp_path / "log.csv", propensity=True), tmp_path / "campaign.json"
    answers = []
    for reward in ({}, {"reward": {"minimum": -5.0, "maximum": 5.0}}):
        campaign.write_text(json.dumps({"risk": {"measure": "mean-variance", "aversion": 1.5}, **reward}))
        options = ("--server", "sqlite", "--campaign", campaign, "--resamples", "50")
        answers.append(answer("replay", log, *options)["policy"])
    plain, ranged = answers
    assert ranged["risk_interval"] == plain["risk_interval"]
    assert ranged["mean_interval"][1] > plain["mean_interval"][1]
    shown = " ".join(simulator("replay", log, *options).stdout.split())
    assert "gives bounds of the mean that allow for such outcomes" in shown


def test_one_row_leaves_nearly_everything_open() -> None:
    """With 97.5% the row is not above the law's 0.975-quantile: the rest may be the minimum."""
    assert lower_bound(MEAN, np.array([1.0]), 0.0) == pytest.approx(0.025, abs=0.005)
    assert upper_bound(MEAN, np.array([0.0]), 1.0) == pytest.approx(0.975, abs=0.005)


@pytest.mark.parametrize("measure", MEASURES, ids=str)
def test_the_standard_error_is_that_of_resamples(measure: Measure) -> None:
    """Also of weighted rows: the formula must be the spread that resampling shows."""
    generator = np.random.default_rng(2)
    rewards, weights = generator.normal(0.0, 1.0, 400), generator.choice([1.0, 3.0], 400)

    def of_counts(counts: np.ndarray) -> np.ndarray:
        masses = counts * weights / float(counts @ weights)
        return np.array([measure.of_masses(rewards, masses)])

    ones = np.ones(400)
    masses = weights / weights.sum()
    found = measure.error_of(rewards, masses, ones, measure.of_masses(rewards, masses))
    drawn = bootstrap(of_counts, 400, 300, np.random.default_rng(3))
    assert found == pytest.approx(float(drawn.std()), rel=0.15)


def test_percentile_t_is_wider_for_few_rows() -> None:
    """By the quantiles of the studentised resamples; those without a spread of their own are left out."""
    statistics, errors = np.array([0.0, 1.0, 2.0, 5.0]), np.array([1.0, 0.5, 1.0, 0.0])
    low, high = studentized(1.0, 2.0, statistics, errors) or (0.0, 0.0)
    ends = np.quantile([-1.0, 0.0, 1.0], [0.025, 0.975])
    assert (low, high) == pytest.approx((1.0 - 2.0 * ends[1], 1.0 - 2.0 * ends[0]))
    assert studentized(1.0, 0.0, statistics, errors) is None
    assert studentized(1.0, 2.0, statistics, np.zeros(4)) is None
    assert interval(statistics) is not None


def test_coverage_before_and_after() -> None:
    """A short form of the measurement in the documentation: bounds cover what percentiles do not."""
    covered, widths = coverage(loss_of(0.02), 60, MEAN, -50.0, 10.0, samples=60, resamples=60)
    assert covered[0] < 0.85 <= covered[2]
    assert widths[2] > widths[0]


def test_a_replay_says_that_its_rows_are_few(tmp_path: Path) -> None:
    """And gives bounds where the range of rewards is known."""
    log = table(tmp_path / "log.csv", propensity=True)
    options = ("--server", "sqlite", "--mean", "--resamples", "50")
    shown = simulator("replay", log, *options).stdout.replace("\n", " ")
    assert "rows match: an outcome rarer than 1 in" in shown
    ranged = ("--minimum", "-5", "--maximum", "5")
    plain, bounded = answer("replay", log, *options), answer("replay", log, *options, *ranged)
    assert plain["policy"]["mean"] == bounded["policy"]["mean"]
    low, high = bounded["policy"]["mean_interval"]
    assert -5.0 < low < plain["policy"]["mean_interval"][0]
    assert plain["policy"]["mean_interval"][1] < high < 5.0
