"""The experiments: the rounds the algorithms meet, and how their choices are scored."""

import numpy as np
import pytest

from prudent_simulator.environments import (
    ContextualArms,
    Environment,
    Rounds,
    Sampler,
    Theta,
    environment_of,
)
from prudent_simulator.risks import gaussian_expectile

EXPERIMENTS = [1, 2, 3]


def rounds_of(experiment: int, *, seed: int = 0, replications: tuple[int, ...] = (0, 1, 2), rounds: int = 60) -> Rounds:
    return Sampler(environment_of(experiment), seed, replications).draw(rounds)


def assert_same(left: Rounds, right: Rounds) -> None:
    for name in ("features", "risks", "rewards"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name))


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_the_same_seed_gives_the_same_rounds(experiment: int) -> None:
    """Algorithms are compared on the same noise, and a run can be repeated."""
    assert_same(rounds_of(experiment), rounds_of(experiment))


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_chunks_do_not_change_the_rounds(experiment: int) -> None:
    """How a run is cut must not decide what happens in it."""
    sampler = Sampler(environment_of(experiment), 0, (0, 1, 2))
    parts = [sampler.draw(size) for size in (1, 7, 52)]
    joined = Rounds(*(np.concatenate([getattr(p, n) for p in parts], axis=1) for n in ("features", "risks", "rewards")))
    assert_same(joined, rounds_of(experiment))


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_a_replication_does_not_depend_on_the_others(experiment: int) -> None:
    """Replication 2 of a run of 3 is replication 2 of a run of 500."""
    alone, among = rounds_of(experiment, replications=(2,)), rounds_of(experiment)
    np.testing.assert_array_equal(alone.rewards[0], among.rewards[2])
    np.testing.assert_array_equal(alone.features[0], among.features[2])


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_replications_and_seeds_differ(experiment: int) -> None:
    """Replications that repeat each other would make the quantiles a lie."""
    first, other = rounds_of(experiment), rounds_of(experiment, seed=1)
    assert not np.array_equal(first.rewards[0], first.rewards[1])
    assert not np.array_equal(first.rewards, other.rewards)


def test_replications_and_arms_are_uncorrelated() -> None:
    """Independent noise: correlations between 40 series of 2,000 rounds stay within chance."""
    drawn = rounds_of(1, replications=tuple(range(20)), rounds=2_000)
    correlations = np.corrcoef(drawn.rewards.transpose(0, 2, 1).reshape(40, -1))
    assert np.abs(correlations[~np.eye(40, dtype=bool)]).max() < 5.0 / np.sqrt(2_000)


def _pull(environment: Environment, rewards: np.ndarray, risks: np.ndarray) -> np.ndarray:
    """Derivative of the loss at the claimed risk; its mean is 0 if and only if the claim is right."""
    if environment.risk["measure"] == "expectile":
        level = environment.risk["level"]
        return np.where(rewards >= risks, level, 1.0 - level) * (rewards - risks)
    return np.expm1(environment.risk["gamma"] * (rewards - risks))


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_the_risk_of_the_rewards_is_the_one_regret_is_scored_with(experiment: int) -> None:
    """Monte Carlo: the drawn rewards must have the exact risk <theta*, x> under the experiment's measure."""
    environment = environment_of(experiment)
    drawn = rounds_of(experiment, replications=tuple(range(10)), rounds=40_000)
    pull = _pull(environment, drawn.rewards, drawn.risks).reshape(-1, 2)
    standard_error = pull.std(axis=0) / np.sqrt(len(pull))
    assert (np.abs(pull.mean(axis=0)) < 4.5 * standard_error).all()


def test_experiment_1_has_the_corrected_means() -> None:
    """The paper prints the noise means 0.44 and 2.62; exact are 0.4308 and 2.5848."""
    drawn = rounds_of(1, replications=tuple(range(10)), rounds=40_000)
    noise_means = (drawn.rewards - drawn.risks).mean(axis=(0, 1))
    assert noise_means == pytest.approx([0.4308, 2.5848], abs=0.03)
    assert -3.0 * gaussian_expectile(0.1) == pytest.approx(2.5848, abs=1e-4)
    assert drawn.risks[0, 0].tolist() == [1.0, 0.0]


def test_experiment_2_moves_unit_features_around_the_axes() -> None:
    """Features of norm 1 are what the bound L = 1 says."""
    drawn = rounds_of(2, replications=tuple(range(5)), rounds=1_000)
    assert np.linalg.norm(drawn.features, axis=-1) == pytest.approx(1.0, abs=1e-12)
    assert drawn.features.mean(axis=(0, 1))[0] == pytest.approx([1.0, 0.0, 0.0], abs=0.02)
    assert drawn.features.mean(axis=(0, 1))[1] == pytest.approx([0.0, 1.0, 0.0], abs=0.02)
    assert (drawn.rewards - drawn.risks).mean(axis=(0, 1)) == pytest.approx([0.841, 2.523], abs=0.3)


def test_experiment_2_offers_both_parameters() -> None:
    """The published figure's unit vector, and the printed one that is longer than the bound."""
    assert np.linalg.norm(ContextualArms(Theta.NORMALISED).theta) == pytest.approx(1.0)
    assert np.linalg.norm(ContextualArms(Theta.PRINTED).theta) == pytest.approx(1.3454, abs=1e-4)


def test_experiment_3_tosses_the_stated_coins() -> None:
    """Wrong stakes or odds would swap the arms."""
    drawn = rounds_of(3, replications=tuple(range(10)), rounds=10_000)
    assert set(np.unique(drawn.rewards[..., 0])) == {-1.0, 1.0}
    assert set(np.unique(drawn.rewards[..., 1])) == {-2.0, 2.0}
    assert (drawn.rewards > 0.0).mean(axis=(0, 1)) == pytest.approx([0.5, 0.25], abs=0.01)
    assert drawn.risks[0, 0] == pytest.approx([0.4337808304830272, 0.6671960885860428], rel=1e-13)


def test_regret_is_scored_on_the_rounds_own_features() -> None:
    """The published code scored the chosen arm on the next round's features."""
    drawn = rounds_of(2, rounds=30)
    chosen = np.random.default_rng(0).integers(0, 2, (3, 30))
    theta = environment_of(2).theta
    for replication in range(3):
        for number in range(30):
            risks = [float(features @ theta) for features in drawn.features[replication, number]]
            expected = max(risks) - risks[chosen[replication, number]]
            assert drawn.regret(chosen)[replication, number] == pytest.approx(expected, abs=1e-14)


def test_always_the_best_arm_has_no_regret() -> None:
    """Regret is 0 for the best arm and above 0 for the other."""
    drawn = rounds_of(2)
    best = drawn.risks.argmax(axis=-1)
    assert (drawn.regret(best) == 0.0).all()
    assert (drawn.regret(1 - best) > 0.0).all()


def test_other_experiments_are_refused() -> None:
    """There are three."""
    with pytest.raises(ValueError, match="1, 2 and 3"):
        environment_of(4)
