"""The simulator's exact risks: were they wrong, every regret would be."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq

from prudent_simulator.risks import TwoPieceNormal, discrete_entropic, discrete_expectile, gaussian_expectile

# Forty-digit values, made by another program.
GOLDEN = json.loads((Path(__file__).parents[1] / "core" / "reference" / "risk.json").read_text())


@pytest.mark.parametrize(("level", "expected"), GOLDEN["gaussian_expectile_standard_normal"].items())
def test_gaussian_expectile_is_the_golden_value(level: str, expected: float) -> None:
    """A wrong fixed point (the paper prints one) would shift the arms of experiment 1."""
    assert gaussian_expectile(float(level)) == pytest.approx(expected, rel=1e-13, abs=1e-15)


@pytest.mark.parametrize("level", [0.001, 0.1, 0.5, 0.93])
def test_gaussian_expectile_balances_by_quadrature(level: float) -> None:
    """The definition itself, integrated numerically, must hold at any mean and deviation."""
    mean, deviation = -1.5, 2.25
    value = gaussian_expectile(level, mean, deviation)

    def density(y: float) -> float:
        return math.exp(-0.5 * ((y - mean) / deviation) ** 2) / (deviation * math.sqrt(2.0 * math.pi))

    above = quad(lambda y: (y - value) * density(y), value, mean + 40.0 * deviation, epsabs=1e-13)[0]
    below = quad(lambda y: (value - y) * density(y), mean - 40.0 * deviation, value, epsabs=1e-13)[0]
    assert level * above == pytest.approx((1.0 - level) * below, rel=1e-8)


@pytest.mark.parametrize("row", GOLDEN["expectile_based_asymmetric"])
def test_two_piece_normal_has_the_golden_moments(row: dict[str, float]) -> None:
    """Experiment 2's noise must have expectile 0, or the truth is not theta*."""
    noise = TwoPieceNormal(row["level"], row["scale"])
    assert noise.expectile(row["level"]) == pytest.approx(0.0, abs=1e-12)
    assert noise.mean == pytest.approx(row["mean"], rel=1e-13, abs=1e-15)
    assert noise.deviation == pytest.approx(row["std"], rel=1e-13)
    assert noise.mass_below == pytest.approx(row["mass_below"], rel=1e-13)


def test_two_piece_normal_samples_have_its_moments_and_expectiles() -> None:
    """A sampler with the pieces swapped would keep the shape and lose the risk."""
    generator = np.random.default_rng(20240611)
    noise = TwoPieceNormal(0.1, 1.5)
    drawn = noise.sample(generator.standard_normal(400_000), generator.random(400_000))
    error = noise.deviation / math.sqrt(drawn.size)
    assert drawn.mean() == pytest.approx(noise.mean, abs=5.0 * error)
    assert (drawn < 0.0).mean() == pytest.approx(noise.mass_below, abs=0.004)
    for level in (0.1, 0.5, 0.8):
        value = noise.expectile(level)
        pull = np.where(drawn >= value, level, 1.0 - level) * (drawn - value)
        assert abs(pull.mean()) < 5.0 * pull.std() / math.sqrt(drawn.size)


def test_two_piece_expectile_at_one_half_is_the_mean() -> None:
    """The middle expectile is the mean of any distribution."""
    noise = TwoPieceNormal(0.1, 0.5)
    assert noise.expectile(0.5) == pytest.approx(noise.mean, rel=1e-13)


@pytest.mark.parametrize("row", GOLDEN["entropic"])
def test_discrete_entropic_is_the_golden_value(row: dict) -> None:
    """Large exponents must not overflow, whatever the sign of gamma."""
    value = discrete_entropic(row["gamma"], row["values"], row["probabilities"])
    assert value == pytest.approx(row["entropic_risk"], rel=1e-13)


@pytest.mark.parametrize("row", GOLDEN["discrete_expectile"])
def test_discrete_expectile_is_the_golden_value(row: dict) -> None:
    """The interval the expectile lies in must be found at extreme levels too."""
    value = discrete_expectile(row["level"], row["values"], row["probabilities"])
    assert value == pytest.approx(row["expectile"], rel=1e-13)


def test_discrete_expectile_agrees_with_a_root_search() -> None:
    """Unsorted values, zero probabilities and ties must not matter."""
    generator = np.random.default_rng(5)
    for _ in range(200):
        size = int(generator.integers(1, 8))
        values = generator.integers(-5, 6, size).astype(float)
        weights = generator.integers(0, 4, size).astype(float)
        weights[0] += 1.0
        weights /= weights.sum()
        level = float(generator.uniform(0.01, 0.99))

        def balance(
            value: float, values: np.ndarray = values, weights: np.ndarray = weights, level: float = level
        ) -> float:
            return float(weights @ (np.where(values >= value, level, 1.0 - level) * (values - value)))

        assert discrete_expectile(level, values.tolist(), weights.tolist()) == pytest.approx(
            brentq(balance, -6.0, 6.0, xtol=1e-13), abs=1e-10
        )


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, math.nan])
def test_levels_outside_the_interval_are_refused(level: float) -> None:
    """A level of 0 or 1 has no expectile."""
    with pytest.raises(ValueError, match="between 0 and 1"):
        gaussian_expectile(level)
    with pytest.raises(ValueError, match="between 0 and 1"):
        discrete_expectile(level, [0.0, 1.0], [0.5, 0.5])
    with pytest.raises(ValueError, match="between 0 and 1"):
        TwoPieceNormal(level, 1.0)


def test_other_nonsense_is_refused() -> None:
    """Mistaken arguments must not give a number."""
    with pytest.raises(ValueError, match="not 0"):
        discrete_entropic(0.0, [1.0], [1.0])
    with pytest.raises(ValueError, match="sum 1"):
        discrete_entropic(1.0, [1.0, 2.0], [0.5, 0.6])
    with pytest.raises(ValueError, match="one length"):
        discrete_entropic(1.0, [1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="negative"):
        gaussian_expectile(0.1, 0.0, -1.0)
    with pytest.raises(ValueError, match="above 0"):
        TwoPieceNormal(0.1, 0.0)
