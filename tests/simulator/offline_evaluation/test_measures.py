"""Risks of weighted samples, by scipy, by hand and by their definitions; and that the weights do what they promise."""

import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from prudent_simulator.offline_evaluation.measures import MEAN, Measure, bootstrap, effective_sample_size, interval
from prudent_simulator.risks import discrete_entropic, gaussian_expectile

GENERATOR_SEED = 20231128
LEVELS = (0.05, 0.1, 0.5, 0.8)


def sample(size: int = 60) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(GENERATOR_SEED)
    return generator.normal(1.0, 2.0, size).round(1), generator.integers(0, 5, size).astype(float)


def balance(rewards: np.ndarray, masses: np.ndarray, level: float) -> float:
    """The definition, with the total mass taken to be 1; solved another way than in the module."""
    mean = masses @ rewards

    def low(value: float) -> float:
        shortfall = masses @ np.maximum(value - rewards, 0.0)
        return float(level * (mean - value + shortfall) - (1.0 - level) * shortfall)

    def high(value: float) -> float:
        surplus = masses @ np.maximum(rewards - value, 0.0)
        return float(level * surplus - (1.0 - level) * (value - mean + surplus))

    return float(brentq(low if level <= 0.5 else high, -100.0, 100.0, xtol=1e-12))


@pytest.mark.parametrize("level", LEVELS)
def test_normalised_expectiles_are_scipys_weighted_ones(level: float) -> None:
    """SNIPS: the risk of the self-normalised weighted sample."""
    rewards, weights = sample()
    expected = stats.expectile(rewards, alpha=level, weights=weights)
    assert Measure("expectile", level).of_masses(rewards, weights / weights.sum()) == pytest.approx(expected, abs=1e-9)
    repeated = np.repeat(rewards, weights.astype(int))
    assert Measure("expectile", level).of_sample(repeated) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("total", [0.02, 0.7, 1.0, 1.6])
def test_expectiles_of_masses_that_do_not_sum_to_1_solve_their_equation(level: float, total: float) -> None:
    """IPS: wherever the root lies, also outside the rewards."""
    rewards, weights = sample()
    masses = total * weights / weights.sum()
    found = Measure("expectile", level).of_masses(rewards, masses)
    assert found == pytest.approx(balance(rewards, masses, level), abs=1e-9)


def test_values_by_hand() -> None:
    """Small enough to check on paper."""
    rewards = np.array([0.0, 1.0])
    coin, rare = np.array([0.5, 0.5]), np.array([0.25, 0.75])
    assert Measure("expectile", 0.1).of_masses(rewards, coin) == pytest.approx(0.1)
    assert Measure("expectile", 0.1).of_masses(rewards, rare) == pytest.approx(0.075 / 0.3)
    assert Measure("entropic", -2.0).of_masses(rewards, rare) == pytest.approx(
        discrete_entropic(-2.0, [0.0, 1.0], [0.25, 0.75])
    )
    # masses of sum 2: m = 1.5, then v = 1.5 - 8 (0.5 v) below 1, and the entropic risk moves by log(2) / gamma
    assert Measure("expectile", 0.1).of_masses(rewards, 2.0 * rare) == pytest.approx(0.3)
    assert Measure("entropic", -2.0).of_masses(rewards, 2.0 * rare) == pytest.approx(
        discrete_entropic(-2.0, [0.0, 1.0], [0.25, 0.75]) - math.log(2.0) / 2.0
    )
    assert MEAN.of_masses(rewards, 2.0 * rare) == pytest.approx(1.5)
    assert math.isnan(MEAN.of_masses(rewards, np.zeros(2)))
    assert effective_sample_size(np.array([1.0, 1.0, 2.0, 0.0])) == pytest.approx(16.0 / 6.0)
    assert effective_sample_size(np.zeros(3)) == 0.0


def test_shifted_rewards_shift_normalised_risks() -> None:
    """Whether a team counts from 0 or from its costs must not matter."""
    rewards, weights = sample()
    masses = weights / weights.sum()
    for measure in (MEAN, Measure("expectile", 0.1), Measure("expectile", 0.9), Measure("entropic", -0.5)):
        shifted = measure.of_masses(rewards + 7.0, masses)
        assert shifted == pytest.approx(measure.of_masses(rewards, masses) + 7.0, abs=1e-9)


def test_weights_recover_a_policy_that_the_log_rarely_followed() -> None:
    """Logs with known truth: IPS is unbiased for the mean, and both come close to the risk, within four errors."""
    generator = np.random.default_rng(GENERATOR_SEED)
    logs, rows = 400, 400
    means, risks, normalised, misled = [], [], [], []
    expectile, truth = Measure("expectile", 0.1), 2.0 + 1.5 * gaussian_expectile(0.1)
    for _ in range(logs):
        easy = generator.random(rows) < 0.5
        propensity = np.where(easy, 0.2, 0.6)  # of the policy's arm, which is worth 1 more in the cases not easy
        followed = generator.random(rows) < propensity
        rewards = np.where(easy, 1.5, 2.5) + 1.5 * generator.standard_normal(rows)
        weights = followed / propensity
        means.append(MEAN.of_masses(rewards, weights / rows))
        normalised.append(MEAN.of_masses(rewards, weights / weights.sum()))
        risks.append(expectile.of_masses(rewards, weights / weights.sum()))
        misled.append(rewards[followed].mean())
    error = np.std(means) / math.sqrt(logs)
    assert abs(np.mean(means) - 2.0) < 4.0 * error
    assert abs(np.mean(normalised) - 2.0) < 4.0 * np.std(normalised) / math.sqrt(logs) + 1.0 / rows
    spread = math.sqrt(1.5**2 + 0.25)
    assert abs(np.mean(risks) - truth) < 0.1 * spread
    assert np.mean(misled) - 2.0 > 20.0 * np.std(misled) / math.sqrt(logs)


def test_bootstrap_intervals_cover_and_repeat() -> None:
    """About 95 of 100 intervals hold the truth, and the same seed gives the same interval."""
    generator = np.random.default_rng(GENERATOR_SEED)
    measure, truth = Measure("expectile", 0.2), gaussian_expectile(0.2)
    hits = 0
    for trial in range(200):
        rewards = generator.standard_normal(150)

        def risk(counts: np.ndarray, rewards: np.ndarray = rewards) -> np.ndarray:
            return np.array([measure.of_masses(rewards, counts / counts.sum())])

        drawn = bootstrap(risk, 150, 200, np.random.default_rng(trial))
        ends = interval(drawn[:, 0])
        assert ends is not None
        hits += ends[0] <= truth <= ends[1]
    assert 176 <= hits <= 198, hits
    np.testing.assert_array_equal(drawn, bootstrap(risk, 150, 200, np.random.default_rng(199)))
    assert interval(np.array([1.0, math.nan])) is None


def test_the_measures_in_stages_by_hand() -> None:
    """A log would be judged by another share, or a surplus be punished as a loss."""
    rewards = np.array([4.0, 1.0, 2.0, 3.0])
    assert Measure("cvar", 0.5).of_sample(rewards) == pytest.approx(1.5)
    assert Measure("cvar", 0.375).of_sample(rewards) == pytest.approx(4 / 3)
    assert Measure("cvar", 1.0).of_sample(rewards) == pytest.approx(2.5)
    assert Measure("quantile", 0.3).of_sample(rewards) == 2.0
    assert Measure("mean-variance", 2.0, "deviation").of_sample(rewards) == pytest.approx(2.5 - 2 * math.sqrt(1.25))
    assert Measure("mean-variance", 2.0, "variance").of_sample(rewards) == pytest.approx(1.25)
    for risk, expected in (
        ({"of": "above", "threshold": 2.0}, 0.75),
        ({"of": "shortfall", "threshold": 2.0}, -0.25),
        ({"of": "capped", "lower": 1.5, "upper": 3.0}, 2.375),
        ({"of": "gain-loss", "reference": 2.0, "factor": 3.0}, 2.0),
        ({"of": "power", "exponent": 2.0}, 7.5),
        ({"of": "log"}, math.log(24) / 4),
    ):
        measure = Measure.of_campaign({"measure": "moment", "lower": None, **risk})
        assert measure.of_sample(rewards) == pytest.approx(expected)
    # of masses that sum to less than the level nothing lies below the worst case: the largest reward bounds it
    assert Measure("cvar", 0.5).of_masses(rewards, np.full(4, 0.1)) == pytest.approx(4.0 - 0.1 * 6 / 0.5)


def test_measures_say_what_they_are() -> None:
    """A report would name one measure and show another."""
    shown = {
        str(Measure.of_campaign(risk))
        for risk in (
            {"measure": "cvar", "level": 0.1},
            {"measure": "quantile", "level": 0.1},
            {"measure": "mean-variance", "aversion": 1.5, "of": "deviation"},
            {"measure": "moment", "of": "above", "threshold": 2.0},
        )
    }
    assert shown == {
        "CVaR at level 0.1",
        "quantile at level 0.1",
        "mean less 1.5 deviations",
        "moment above threshold 2",
    }


@pytest.mark.parametrize(
    "measure",
    [
        Measure("cvar", 0.25),
        Measure("mean-variance", 1.5, "deviation"),
        Measure("mean-variance", 0.8, "variance"),
        Measure("moment", 0.0, "above", (("threshold", 1.0),)),
    ],
    ids=str,
)
def test_standard_errors_of_the_measures_in_stages(measure: Measure) -> None:
    """An interval of the mean's width would be shown around the average of the worst quarter."""
    generator = np.random.default_rng(GENERATOR_SEED)
    samples = generator.normal(1.0, 2.0, (2_000, 400))
    spread = np.std([measure.of_sample(rewards) for rewards in samples])
    masses, ones = np.full(400, 1 / 400), np.ones(400)
    errors = [measure.error_of(rewards, masses, ones, measure.of_sample(rewards)) for rewards in samples[:200]]
    assert np.median(errors) == pytest.approx(spread, rel=0.1)
    assert math.isnan(Measure("quantile", 0.1).error_of(samples[0], masses, ones, 0.0))
