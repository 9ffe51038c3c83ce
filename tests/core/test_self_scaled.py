"""The bonus self-scaled against its formula, written down a second time, and what it promises not to depend on."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from prudent.campaigns import CampaignConfiguration, build_policy, exploration_rule, resolve
from prudent.core.confidence import ConfidenceSettings
from prudent.core.exploration import Scores, Standing, choose, propensities
from prudent.core.measures import Expectile, Measure
from prudent.core.policy import Policy
from prudent.core.snapshot import CorruptSnapshotError

LEVEL = 0.2
Observation = tuple[int, np.ndarray[Any, np.dtype[np.float64]], float]
"""An arm, features as the model sees them, a reward."""


def configuration(
    model: dict[str, Any],
    arms: int,
    risk: dict[str, Any] | None = None,
    bounds: tuple[float, float] | None = None,
    **algorithm: Any,
) -> CampaignConfiguration:
    body: dict[str, Any] = {
        "campaign_id": "c",
        "risk": risk or {"measure": "expectile", "level": LEVEL},
        "model": model,
        "arms": [{"arm_id": f"arm-{place}"} for place in range(arms)],
        "algorithm": {"bonus": "self-scaled", **algorithm},
    }
    if bounds is not None:
        body["reward"] = dict(zip(("minimum", "maximum"), bounds, strict=True))
    return resolve(CampaignConfiguration.model_validate(body))


def policy_of(made: CampaignConfiguration) -> Policy:
    return build_policy(made, made, arms=len(made.arms))


def fitted(observations: Sequence[Observation], measure: Measure) -> tuple[Any, Any]:
    """Theta by reweighted least squares and H = sum d2 x x^T there."""
    rows = np.array([x for _, x, _ in observations])
    rewards = np.array([y for _, _, y in observations])
    theta, curvatures = np.zeros(rows.shape[1]), np.ones(len(rewards))
    for _ in range(200):
        hessian = (rows * curvatures[:, None]).T @ rows
        theta = np.linalg.pinv(hessian, rcond=1e-12, hermitian=True) @ (rows.T @ (curvatures * rewards))
        residuals = rewards - rows @ theta
        residuals[np.abs(residuals) < 1e-9] = 0.0
        following = measure.loss.d2(residuals, np.zeros(len(rewards)))
        if np.array_equal(following, curvatures):
            break
        curvatures = following
    return theta, (rows * curvatures[:, None]).T @ rows


def written_down(
    observations: Sequence[Observation], candidates: Any, shared: bool, measure: Measure, delta: float = 0.05
) -> list[tuple[float, float, float]]:
    """Estimate, bonus and depth of each candidate, by the formula's text and loops.

    candidates: (K, d), of arm k, as the model sees them.
    """
    arms, dimension = candidates.shape
    n, a, h = [0] * arms, [0.0] * arms, [0.0] * arms
    above = below = 0.0
    for count in range(1, len(observations) + 1):
        arm, x, y = observations[count - 1]
        block = [one for one in observations[:count] if shared or one[0] == arm]
        slope_of = y - float(fitted(block, measure)[0] @ x)
        slope_of = 0.0 if abs(slope_of) < 1e-7 else slope_of
        slope, curvature = measure.loss.d1(slope_of, 0.0), measure.loss.d2(slope_of, 0.0)
        n[arm] += 1
        a[arm] += slope**2
        h[arm] += curvature
        above, below = max(above, -slope), max(below, slope)
    estimates, leverages, squares, own, known = [], [], [], [], []
    spent = 1 if shared else dimension
    needed = max(20.0, math.log(len(observations) + 1) ** 2 / 2)
    for arm in range(arms):
        of_block = [one for one in observations if shared or one[0] == arm]
        theta, hessian = fitted(of_block, measure)
        metric = hessian + 1e-6 * np.trace(hessian) / dimension * np.eye(dimension)
        u = float(candidates[arm] @ np.linalg.solve(metric, candidates[arm]))
        mean_curvature = (sum(h) if shared else h[arm]) / len(of_block)
        extra = (1.0 if shared else 1.5) * (dimension - 1)
        n_eff = min(1 / (mean_curvature * u), len(of_block))
        c2 = 2 * math.log(1 / delta) - 2.5 + extra + 2 * math.log(1 + n_eff / 30)
        estimates.append(float(theta @ candidates[arm]))
        leverages.append(u)
        squares.append(c2)
        own.append(a[arm] / h[arm] * n[arm] / (n[arm] - spent) if n[arm] > spent else 0.0)
        known.append(n[arm] >= needed and n[arm] > c2 and len(of_block) > dimension)

    def reach(arm: int, spread: float) -> float:
        return math.sqrt(squares[arm] * leverages[arm] / (1 - squares[arm] / n[arm])) * spread

    race = [
        arm
        for arm in range(arms)
        if not known[arm]
        or estimates[arm] + 3 * (reach(arm, math.sqrt(own[arm])) + squares[arm] * above * leverages[arm] / 3)
        >= max(estimates)
    ]
    found = []
    for arm in range(arms):
        if not known[arm]:
            found.append((estimates[arm], math.inf, math.inf))
            continue
        spread = math.sqrt(max(own[arm], *(own[other] for other in race)))
        bonus = reach(arm, spread) + squares[arm] * above * leverages[arm] / 3
        depth = 1.5 * reach(arm, spread) + squares[arm] * below * leverages[arm]
        found.append((estimates[arm], bonus, depth))
    return found


@pytest.mark.parametrize("kind", ["multi-armed", "disjoint", "shared"])
def test_the_scores_are_those_of_the_formula(kind: str) -> None:
    """A bonus that is not the one whose coverage was measured has no coverage that anybody knows."""
    generator = np.random.default_rng(3)
    arms, shared = 3, kind == "shared"
    model: dict[str, Any] = {"type": kind} if kind == "multi-armed" else {"type": kind, "dimension": 2}
    policy, measure = policy_of(configuration(model, arms)), Expectile(LEVEL)
    size = policy.feature_map.dimension
    learned: list[Observation] = []
    for number in range(150):
        arm = int(generator.choice(arms, p=[0.6, 0.25, 0.15]))
        sent = generator.standard_normal(size)
        reward = 5.0 + arm + float(sent.sum()) * 0.3 + (1 + arm) * float(generator.standard_normal())
        policy.observe(0 if shared else arm, sent, reward, arm)
        learned.append((arm, policy.feature_map(sent), reward))
        if number not in {60, 105, 149}:
            continue
        asked = generator.standard_normal((arms, size)) if shared else np.tile(generator.standard_normal(size), (3, 1))
        scores = policy.score(asked if shared else asked[0], None if shared else np.arange(arms), np.arange(arms))
        assert scores.depths is not None
        found = np.column_stack([scores.estimates + policy.center, scores.bonuses, scores.depths])
        expected = written_down(learned, policy.feature_map(asked), shared, measure)
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert np.isfinite(scores.bonuses).sum() >= 2


def chosen_arms(made: CampaignConfiguration, rounds: int, scale: float, shift: float, seed: int = 0) -> list[int]:
    """Play rounds of three arms with rewards of their own kind, times a scale plus a shift."""
    policy, rule = policy_of(made), exploration_rule(made)
    generator, arms = np.random.default_rng(seed), len(made.arms)
    shared, plays, chosen = made.model.type == "shared", [0] * arms, []
    for number in range(rounds):
        context = generator.standard_normal(policy.feature_map.dimension)
        rows = generator.standard_normal((arms, policy.feature_map.dimension))
        rewards = (0.3 + 0.2 * np.arange(arms)) * generator.standard_normal(arms) + 0.2 * np.arange(arms)
        rewards = np.clip(rewards, -2.0, 2.0) * scale + shift
        scores = policy.score(rows if shared else context, None if shared else np.arange(arms), np.arange(arms))
        standing = Standing(number, plays if min(plays) < rule.warmup else None)
        arm = choose(scores, rule, standing, explore=True, seed=(seed, str(number))).position
        chosen.append(arm)
        plays[arm] += 1
        policy.observe(0 if shared else arm, rows[arm] if shared else context, float(rewards[arm]), arm)
    return chosen


@pytest.mark.parametrize(("scale", "shift"), [(100.0, 1000.0), (0.01, -1e6)])
@pytest.mark.parametrize("model", ["multi-armed", "disjoint", "shared"])
@pytest.mark.parametrize("name", ["linucb", "linucb-cr", "linucb-onepass-cr"])
def test_the_unit_and_the_zero_of_rewards_change_no_choice(name: str, model: str, scale: float, shift: float) -> None:
    """Cents or dollars, Celsius or Kelvin: whoever converts their rewards must get the same campaign."""
    shape: dict[str, Any] = {"type": model} if model == "multi-armed" else {"type": model, "dimension": 1}
    risk = {"measure": "mean"} if name == "linucb" else None
    made = configuration(shape, 3, risk, name=name)
    assert chosen_arms(made, 180, scale, shift) == chosen_arms(made, 180, 1.0, 0.0)


@pytest.mark.parametrize("name", ["linucb-cr", "linucb-onepass-cr"])
def test_the_entropic_risk_follows_its_unit(name: str) -> None:
    """With gamma in the new unit and the bounds moved along, the entropic risk chooses the same arms."""
    plain = configuration({"type": "multi-armed"}, 3, {"measure": "entropic", "gamma": -1.0}, (-2.0, 2.0), name=name)
    moved = {"measure": "entropic", "gamma": -0.01}
    other = configuration({"type": "multi-armed"}, 3, moved, (800.0, 1200.0), name=name)
    assert chosen_arms(other, 300, 100.0, 1000.0) == chosen_arms(plain, 300, 1.0, 0.0)


def test_a_constant_among_the_features_is_enough() -> None:
    """Two indicators sum to 1: without an intercept nothing is centred, and a shift must still change nothing."""
    made = configuration({"type": "shared", "dimension": 2, "intercept": False}, 2)
    picks = []
    for shift in (0.0, 1000.0):
        policy, generator, chosen = policy_of(made), np.random.default_rng(5), []
        plays = [0, 0]
        for number in range(300):
            scores = policy.score(np.eye(2), None, np.arange(2))
            standing = Standing(number, plays if min(plays) < 20 else None)
            arm = choose(scores, exploration_rule(made), standing, explore=True, seed=(0, str(number))).position
            chosen.append(arm)
            plays[arm] += 1
            rewards = np.array([1.0, 0.8]) + np.array([0.5, 1.5]) * generator.standard_normal(2)
            policy.observe(0, np.eye(2)[arm], float(rewards[arm]) + shift, arm)
        picks.append(chosen)
    assert picks[0] == picks[1]


def test_the_state_does_not_depend_on_when_it_was_looked_at() -> None:
    """Rewards that were learned in one batch must leave what rewards learned one by one leave: replay agrees."""
    made = configuration({"type": "disjoint", "dimension": 2}, 2)
    watched, left = policy_of(made), policy_of(made)
    generator = np.random.default_rng(1)
    for number in range(200):
        x, reward = generator.standard_normal(2), float(generator.standard_normal())
        for policy in (watched, left):
            policy.observe(number % 2, x, reward, number % 2)
        watched.score(x, np.arange(2))
    scores = [policy.score(np.array([0.3, -0.5]), np.arange(2)) for policy in (watched, left)]
    for one, other in zip(scores[0][:3], scores[1][:3], strict=True):
        np.testing.assert_array_equal(one, other)
    assert np.isfinite(scores[0].bonuses).all()


@pytest.mark.parametrize("name", ["linucb", "linucb-cr", "linucb-onepass-cr"])
def test_undoing_and_resuming(name: str) -> None:
    """A transaction that fails, and a restart, must leave exactly what the log says."""
    risk = {"measure": "mean"} if name == "linucb" else None
    made = configuration({"type": "disjoint", "dimension": 1}, 3, risk, name=name)
    policy, generator = policy_of(made), np.random.default_rng(2)

    def teach(learner: Policy, count: int) -> None:
        for number in range(count):
            learner.observe(number % 3, generator.standard_normal(1), float(generator.standard_normal()), number % 3)

    def bonuses(learner: Policy) -> list[list[float]]:
        found = learner.score(np.array([0.4]), np.arange(len(learner.estimator.theta)))
        assert found.depths is not None
        return [found.estimates.tolist(), found.bonuses.tolist(), found.depths.tolist()]

    teach(policy, 90)
    before = bonuses(policy)
    assert np.isfinite(before).all()
    policy.mark()
    teach(policy, 7)
    policy.add_arm(has_block=True)
    teach(policy, 7)
    policy.restore()
    assert bonuses(policy) == before
    dumped = policy.dump()
    if name == "linucb-cr":
        assert dumped is None
        return
    assert dumped is not None
    resumed = policy_of(made)
    resumed.load(dumped)
    assert bonuses(resumed) == before
    generator = np.random.default_rng(8)
    teach(policy, 20)
    generator = np.random.default_rng(8)
    teach(resumed, 20)
    assert bonuses(resumed) == bonuses(policy)
    assert resumed.dump() == policy.dump()
    plain = made.model_copy(update={"algorithm": made.algorithm.model_copy(update={"bonus": "local-tight"})})
    with pytest.raises(CorruptSnapshotError):
        policy.load(build_policy(resolve(plain), resolve(plain), arms=3).dump() or b"")


def test_an_arm_without_an_index_is_played_first() -> None:
    """Until an arm has twenty observations nothing is known of it that could be compared."""
    made = configuration({"type": "multi-armed"}, 3, warmup=0)
    policy, rule = policy_of(made), exploration_rule(made)
    for arm, count in enumerate((25, 7, 4)):
        for number in range(count):
            policy.observe(arm, np.zeros(0), float(number % 3), arm)
    scores = policy.score(np.zeros(0), np.arange(3))
    assert scores.first == (2,)
    assert np.isinf(scores.bonuses).tolist() == [False, True, True]
    choice = choose(scores, rule, Standing(36), explore=True, seed=(0, "d"))
    assert (choice.position, choice.reason, choice.propensity) == (2, "floor", 1.0)
    assert propensities(scores, rule, Standing(36), explore=True) == [0.0, 0.0, 1.0]
    assert scores.limits_of(2) is None
    known = scores.limits_of(0)
    assert known is not None
    assert known[0] < scores.estimate_of(0) < known[1]
    greedy = choose(scores, rule, Standing(36), explore=False, seed=(0, "d"))
    assert greedy.position == int(scores.estimates.argmax())


def test_the_number_of_observations_that_an_arm_needs_grows() -> None:
    """An arm that had bad luck is looked at again: it needs 29 of 1,800 observations."""
    made = configuration({"type": "multi-armed"}, 2, {"measure": "mean"}, name="linucb")
    policy = policy_of(made)
    for number in range(27):
        policy.observe(0, np.zeros(0), float(number % 5), 0)
    for number in range(1_400):
        policy.observe(1, np.zeros(0), 9.0 + number % 3, 1)
    assert policy.score(np.zeros(0), np.arange(2)).first == ()
    for number in range(400):
        policy.observe(1, np.zeros(0), 9.0 + number % 3, 1)
    assert policy.score(np.zeros(0), np.arange(2)).first == (0,)


def test_infinite_bonuses_do_not_make_arms_tie() -> None:
    """With a tolerance relative to an infinite bonus every arm would be as good as the best."""
    scores = Scores(np.array([1.0, 5.0]), np.array([np.inf, 1.0]), np.array([np.inf, 1.0]), first=(0,))
    rule = exploration_rule(configuration({"type": "multi-armed"}, 2))
    assert choose(scores, rule, Standing(), explore=False, seed=(0, "d")).propensity == 1.0
    assert choose(scores, rule, Standing(), explore=False, seed=(0, "d")).position == 1


def test_what_cannot_be_is_refused() -> None:
    """A bonus that was switched on half-way would know nothing of the rewards before."""
    policy = policy_of(configuration({"type": "shared", "dimension": 1}, 2))
    with pytest.raises(ValueError, match="once and for all"):
        policy.set_index(ConfidenceSettings(1.0), 1.0)
    with pytest.raises(ValueError, match="delta"):
        policy.set_index(ConfidenceSettings(1.0, delta=0.5, bonus="self-scaled"), 1.0)
    with pytest.raises(ValueError, match="which arms"):
        policy.score(np.zeros((2, 1)))
