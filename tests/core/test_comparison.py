"""In which contexts which arm has the best estimate: against the estimates, context by context."""

import numpy as np

from prudent.campaigns import CampaignConfiguration, build_policy, resolve
from prudent.core.comparison import REGIONS_MAX, RIVALS_MAX, closest_to_middle, compare
from prudent.core.policy import Policy


def taught(arms: int, dimension: int, slopes: np.ndarray, observations: int = 2_000, offset: float = 0.0) -> Policy:
    """A policy that has seen so many observations of arms that are linear in the context."""
    body = {
        "campaign_id": "c",
        "risk": {"measure": "mean"},
        "model": {"type": "disjoint", "dimension": dimension},
        "arms": [{"arm_id": f"arm-{k}"} for k in range(arms)],
        "algorithm": {"exploration_rule": "randomized"},
    }
    configuration = resolve(CampaignConfiguration.model_validate(body))
    policy = build_policy(configuration, configuration, arms=arms)
    random = np.random.default_rng(1)
    for number in range(observations):
        context = random.normal(size=dimension)
        arm = number % arms
        policy.observe(arm, context, float(offset + slopes[arm] @ context + 0.1 * random.normal()), arm)
    return policy


def test_shares_and_averages_are_those_of_the_estimates() -> None:
    """The report would name an arm where another one has the better estimate, or be off by the centre."""
    policy = taught(4, 2, np.random.default_rng(2).normal(size=(4, 2)), offset=500.0)
    contexts, blocks = np.random.default_rng(3).normal(size=(300, 2)), np.array([3, 0, 1])
    found = compare(policy, contexts, blocks)
    estimates = np.array([policy.score(row, blocks).estimates + policy.center for row in contexts])
    assert np.allclose(found.averages, estimates.mean(axis=0))
    assert np.isclose(found.average, estimates.max(axis=1).mean())
    assert found.shares.tolist() == [float((estimates.argmax(axis=1) == place).mean()) for place in range(3)]
    assert (found.contexts, len(found.regions)) == (300, int((found.shares > 0).sum()))
    for region in found.regions:
        members = contexts[estimates.argmax(axis=1) == region.arms[0]]
        assert region.typical.tolist() in members.tolist()
        own = policy.score(region.typical, blocks).estimates + policy.center
        assert region.arms.tolist() == np.argsort(-own)[:RIVALS_MAX].tolist()
        assert np.allclose(region.estimates, own[region.arms])
        low, high = region.intervals.T
        is_known = ~np.isnan(low)  # the ridge may withhold some
        assert is_known.any()
        assert (low[is_known] < region.estimates[is_known]).all()
        assert (region.estimates[is_known] < high[is_known]).all()
        inside = (members >= region.ranges[:, 0]) & (members <= region.ranges[:, 1])
        assert (np.abs(inside.mean(axis=0) - 0.8) < 0.05 + 1 / len(members)).all()


def test_fifty_arms_stay_few_regions() -> None:
    """A report of fifty arms would describe fifty regions that nobody can read."""
    angles = np.linspace(0, 2 * np.pi, 50, endpoint=False)
    policy = taught(50, 2, np.column_stack([np.cos(angles), np.sin(angles)]), observations=5_000)
    found = compare(policy, np.random.default_rng(3).normal(size=(1_000, 2)), np.arange(50))
    assert (found.shares > 0).sum() > 20
    assert len(found.regions) == REGIONS_MAX
    assert [len(region.arms) for region in found.regions] == [RIVALS_MAX] * REGIONS_MAX
    shares = [found.shares[region.arms[0]] for region in found.regions]
    assert shares == sorted(found.shares, reverse=True)[:REGIONS_MAX]


def test_what_stands_for_many_was_seen() -> None:
    """Half a rush hour is no context: what stands for the others must be one of them."""
    rows = np.array([[0.0, 10.0], [1.0, 1000.0], [1.0, 1010.0], [1.0, 990.0], [0.0, 20.0]])
    assert closest_to_middle(rows) == 3  # by spreads, not by the unit of the second feature
    assert closest_to_middle(np.full((3, 2), 7.0)) == 0
