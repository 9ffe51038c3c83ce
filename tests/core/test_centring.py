"""Rewards relative to a centre: choices must not depend on where the reward's zero lies, or on its unit."""

import os
from typing import Any

import numpy as np
import pytest

from prudent.campaigns import CampaignConfiguration, build_policy, exploration_rule, resolve
from prudent.core.centring import REWARDS_MAX, Centre
from prudent.core.exploration import Standing, choose
from prudent.core.measures import Expectile
from prudent.core.policy import Policy

ROUNDS, ARMS = int(os.environ.get("SOAK_CENTRING", "160")), 4
MODELS: list[dict[str, Any]] = [
    {"type": "multi-armed"},
    {"type": "disjoint", "dimension": 2},
    {"type": "shared", "dimension": 3},
]
MEAN, EXPECTILE = {"measure": "mean"}, {"measure": "expectile", "level": 0.2}
ALGORITHMS = [
    ("linucb", MEAN),
    ("linucb-cr", MEAN),
    ("linucb-cr", EXPECTILE),
    ("linucb-onepass-cr", EXPECTILE),
    ("linucb-ogd-cr", EXPECTILE),
    ("linucb-cr", {"measure": "cvar", "level": 0.25}),
    ("linucb-onepass-cr", {"measure": "cvar", "level": 0.25}),
    ("linucb-cr", {"measure": "mean-variance", "aversion": 0.7}),
    ("linucb-cr", {"measure": "quantile", "level": 0.25}),
]


def campaign(model: dict[str, Any], name: str, risk: dict[str, Any]) -> CampaignConfiguration:
    body = {
        "campaign_id": "c",
        "risk": risk,
        "model": model,
        "arms": [{"arm_id": f"arm-{k}"} for k in range(ARMS)],
        "algorithm": {"name": name, "exploration_rule": "randomized"},
    }
    return resolve(CampaignConfiguration.model_validate(body))


def play(configuration: CampaignConfiguration, scale: float, offset: float, kind: str) -> tuple[list[int], Policy]:
    """The arms of so many rounds of one world, its rewards in another unit and from another zero."""
    policy, rule = build_policy(configuration, configuration, arms=ARMS), exploration_rule(configuration)
    is_shared, generator = configuration.model.type == "shared", np.random.default_rng(5)
    means, arms, plays = np.array([1.0, 1.3, 0.5, 1.1]), [], [0] * ARMS
    for number in range(ROUNDS):
        features = generator.normal(size=(ARMS, 3))
        context = features[0, : policy.feature_map.dimension]
        noise, luck = generator.normal(size=ARMS), generator.random(ARMS)
        rewards = means + noise + features[:, 0] if kind == "normal" else (luck < means / 3).astype(np.float64)
        scores = policy.score(features) if is_shared else policy.score(context, np.arange(ARMS))
        standing = Standing(policy.estimator.observations, plays, policy.floor_counts.weighed)
        arm = choose(scores, rule, standing, explore=True, seed=(0, str(number))).position
        x = features[arm] if is_shared else context
        policy.observe(0 if is_shared else arm, x, float(scale * rewards[arm] + offset), arm)
        plays[arm] += 1
        arms.append(arm)
    return arms, policy


@pytest.mark.parametrize("kind", ["normal", "binary"])
@pytest.mark.parametrize(("name", "risk"), ALGORITHMS, ids=lambda value: str(value))
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model["type"])
def test_the_zero_and_the_unit_of_rewards_change_no_choice(
    model: dict[str, Any], name: str, risk: dict[str, Any], kind: str
) -> None:
    """Star ratings, minutes and prices lie far from 0, where raw rewards were learned at the price of uniform play."""
    configuration = campaign(model, name, risk)
    expected, policy = play(configuration, 1.0, 0.0, kind)
    assert len(set(expected)) > 1
    known = policy.score(np.zeros((1, 3))) if model["type"] == "shared" else None
    for scale, offset in ((1.0, 20.0), (1.0, -1000.0), (1.0, 1e6), (500.0, 0.0)):
        arms, moved = play(configuration, scale, offset, kind)
        assert arms == expected, (scale, offset)
        if known is not None:
            found = moved.score(np.zeros((1, 3)))
            at_zero = scale * known.estimate_of(0) + offset
            assert found.estimate_of(0) == pytest.approx(at_zero, rel=1e-9, abs=1e-6)


@pytest.mark.parametrize(("name", "risk"), ALGORITHMS, ids=lambda value: str(value))
def test_the_estimates_are_those_of_the_centred_rewards(name: str, risk: dict[str, Any]) -> None:
    """An estimator that keeps sums must arrive where it would be if it had known the centre from the start."""
    configuration = campaign({"type": "disjoint", "dimension": 2}, name, risk)
    policy, fresh = (build_policy(configuration, configuration, arms=1) for _ in range(2))
    generator = np.random.default_rng(2)
    rows = [(generator.normal(size=2), float(generator.normal(loc=40.0))) for _ in range(128)]
    for features, reward in rows:
        policy.observe(0, features, reward)
    fresh.estimator.recenter(policy.center)
    for features, reward in rows:
        fresh.estimator.observe(0, fresh.feature_map(features), reward)
    policy.refresh()
    fresh.estimator.refresh()
    # the streaming estimators move their estimate with the centre, exactly but for the ridge's share
    exact = name in {"linucb", "linucb-cr"}
    np.testing.assert_allclose(policy.estimator.theta, fresh.estimator.theta, atol=1e-9 if exact else 0.2)


def test_the_centre_is_the_risk_of_the_rewards_at_powers_of_two() -> None:
    """A function of the log's prefix, so that workers, databases and replays agree."""
    measure, generator = Expectile(0.2), np.random.default_rng(1)
    centre, rewards = Centre(measure.risk), generator.normal(size=40)
    for count, reward in enumerate(rewards, 1):
        centre.observe(float(reward))
        last = 2 ** (count.bit_length() - 1)
        assert centre.value == measure.risk(rewards[:last])


def test_the_centre_keeps_no_rewards_for_ever() -> None:
    """A streaming campaign's memory must not grow with its log."""
    centre = Centre(Expectile(0.2).risk)
    for number in range(REWARDS_MAX + 10):
        centre.observe(float(number % 7))
    value = centre.value
    centre.mark()
    assert centre.nbytes == 0
    assert centre.observe(1e6) == 0.0
    assert centre.value == value
    copy = Centre(Expectile(0.2).risk)
    copy.load(centre.arrays())
    assert (copy.value, copy.nbytes) == (value, 0)
