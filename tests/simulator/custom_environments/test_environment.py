"""What an environment draws: the risks it claims are those of the rewards it gives."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from prudent_simulator.custom_environments.environment import OwnEnvironment, OwnEnvironmentError, OwnSampler
from prudent_simulator.custom_environments.loading import load_environment, shipped_names
from prudent_simulator.custom_environments.schema import EnvironmentFile

DRAWS = 200_000
COIN = {"law": "discrete", "values": [0, 2], "probabilities": [0.5, 0.5]}
SKEWED = {
    "law": "mixture",
    "parts": [
        {"probability": 0.8, "of": {"law": "normal", "mean": 1, "deviation": 0.5}},
        {"probability": 0.2, "of": {"law": "normal", "mean": -2, "deviation": 1}},
    ],
}


def disjoint(**changes: Any) -> dict[str, Any]:
    return {
        "name": "two",
        "risk": {"measure": "expectile", "downside_weight": 9},
        "model": "disjoint",
        "context": {"x": {"of": COIN, "center": 1, "scale": 2}},
        "arms": [
            {"arm_id": "a", "theta": {"intercept": 1, "x": 3}, "spread": {"intercept": 2, "x": 1}, "reward": SKEWED},
            {"arm_id": "b", "theta": {"x": -1}, "reward": {"law": "normal", "deviation": 1}},
        ],
        **changes,
    }


def shared(**changes: Any) -> dict[str, Any]:
    reward = {"law": "normal", "deviation": 1}
    return {
        "name": "two",
        "risk": {"measure": "expectile", "level": 0.1},
        "model": "shared",
        "context": {"x": {"of": COIN}},
        "theta": {"u": 2, "v": -1},
        "spread": {"v": 1},
        "arms": [
            {"arm_id": "a", "features": {"u": {"context": "x", "factor": 3, "offset": 1}, "v": 1}, "reward": reward},
            {
                "arm_id": "b",
                "features": {"u": {"law": "uniform", "minimum": 0, "maximum": 1}, "v": 2},
                "reward": reward,
            },
        ],
        **changes,
    }


def environment(content: dict[str, Any]) -> OwnEnvironment:
    return OwnEnvironment.of(EnvironmentFile.model_validate(content))


@pytest.mark.parametrize("theta_is", ["mean", "risk"])
def test_the_risk_is_that_of_the_rewards_in_each_context(theta_is: str) -> None:
    """Regret against a wrong truth would praise the wrong algorithm."""
    features, risks, rewards = environment(disjoint(theta_is=theta_is)).draw(np.random.default_rng(3), DRAWS)
    for x, standardised in ((0.0, -0.5), (2.0, 0.5)):
        rows = features[:, 0, 1] == standardised
        assert 0.49 < rows.mean() < 0.51, x
        for arm in (0, 1):
            assert np.ptp(risks[rows, arm]) < 1e-12
            assert stats.expectile(rewards[rows, arm], alpha=0.1) == pytest.approx(risks[rows, arm][0], abs=0.05)
    low = risks if theta_is == "risk" else rewards
    at_zero = features[:, 0, 1] == -0.5
    assert low[at_zero, 0].mean() == pytest.approx(1.0 + 3.0 * -0.5, abs=0.03)


def test_shared_features_follow_the_context_and_their_own_laws() -> None:
    """Each kind of feature: a number, a context variable, a law of its own."""
    features, risks, rewards = environment(shared()).draw(np.random.default_rng(4), DRAWS)
    assert set(np.unique(features[:, 0, 0])) == {1.0, 7.0}
    assert (features[:, :, 1] == [1.0, 2.0]).all()
    assert 0.0 < features[:, 1, 0].min() < features[:, 1, 0].max() < 1.0
    tilt = stats.expectile(stats.norm.ppf((np.arange(200_000) + 0.5) / 200_000), alpha=0.1)
    np.testing.assert_allclose(risks, features @ [2.0, -1.0 + tilt], atol=1e-4)
    errors = rewards - features @ [2.0, -1.0]
    assert errors.std(axis=0) == pytest.approx([1.0, 2.0], rel=0.02)


def test_entropic_risk_of_bounded_rewards() -> None:
    """The entropic risk scales in another way than the expectile: a spread of 2 is not twice the risk of 1."""
    arms = [
        {"arm_id": "a", "theta": {"x": 1}, "spread": {"intercept": 2}, "reward": COIN},
        {"arm_id": "b", "theta": {"x": -1}, "reward": COIN},
    ]
    bounds = {"minimum": -3, "maximum": 3}
    content = disjoint(arms=arms, risk={"measure": "entropic", "gamma": -1}, reward_bounds=bounds)
    features, risks, rewards = environment(content).draw(np.random.default_rng(5), DRAWS)
    rows = features[:, 0, 1] == 0.5
    expected = 0.5 - np.log(np.cosh(2.0))
    np.testing.assert_allclose(risks[rows, 0], expected)
    assert -np.log(np.exp(-rewards[rows, 0]).mean()) == pytest.approx(expected, abs=0.02)


def test_chunks_join() -> None:
    """The curves must not depend on how a run is cut."""
    whole = OwnSampler(environment(shared()), 1, range(2)).draw(12)
    parts = OwnSampler(environment(shared()), 1, range(2))
    first, second = parts.draw(7), parts.draw(5)
    for name in ("features", "risks", "rewards"):
        joined = np.concatenate([getattr(first, name), getattr(second, name)], axis=1)
        np.testing.assert_array_equal(joined, getattr(whole, name))
    assert (whole.rewards[0] != whole.rewards[1]).all()


def test_a_risk_that_is_not_linear_is_noticed() -> None:
    """Two laws in a shared model shift the arms' risks apart: no single parameter says that."""
    content = shared()
    assert environment(content).true_parameters()[1] < 1e-9
    content["arms"][1] = {**content["arms"][1], "reward": SKEWED}
    assert environment(content).true_parameters()[1] > 0.1
    assert environment({**content, "theta_is": "risk"}).true_parameters()[1] < 1e-9


@pytest.mark.parametrize("name", shipped_names())
def test_shipped_environments_deceive_the_mean_and_fit_the_model(name: str) -> None:
    """Each is there to show that the best mean need not be the best risk, to a model that could learn it."""
    shipped = load_environment(name)
    means, risks = shipped.standing(5_000, 0)
    assert means.mean(axis=0).argmax() != risks.mean(axis=0).argmax()
    by_mean = np.take_along_axis(risks, means.argmax(axis=1)[:, None], axis=1)[:, 0]
    assert (risks.max(axis=1) - by_mean > 0.0).mean() > 0.5
    assert shipped.true_parameters()[1] < 1e-9


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (disjoint(reward_bounds={"minimum": -5, "maximum": 5}), r"arms.0: rewards can lie in \[-inf, inf\]"),
        (
            disjoint(risk={"measure": "entropic", "gamma": -1}, reward_bounds={"minimum": -9, "maximum": 9}),
            "arms.0: with the entropic risk, spread must not depend on the features",
        ),
        (
            disjoint(context={"x": {"of": {"law": "normal", "deviation": 1}}}),
            "arms.0: <spread, features> can be as low as -inf",
        ),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(content: dict[str, Any], message: str) -> None:
    """Told before a run that would be wrong."""
    with pytest.raises(OwnEnvironmentError, match=message):
        environment(content)
