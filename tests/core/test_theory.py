"""Episode lengths against references; radius and regret bounds against the service's own bonuses and runs."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from prudent.core.confidence import Confidence, ConfidenceSettings
from prudent.core.encoding import FeatureMap
from prudent.core.estimators import ExactMinimizer
from prudent.core.measures import EntropicLoss, Expectile, ExpectileLoss, SquaredLoss
from prudent.core.policy import Policy
from prudent.core.theory import (
    Constants,
    bonus_multiplier,
    confidence_radius,
    regret_bound,
)
from tests.core.theorems import EpisodeLengths, episode_lengths, streaming_regret_bound

REFERENCE = json.loads((Path(__file__).parent / "reference" / "risk.json").read_text())
BONUSES = ["local", "global", "local-tight", "global-tight"]
EXPECTILE = ExpectileLoss(0.1)


def constants(**changes):
    """Experiment 2's, at the paper's dials."""
    return replace(
        Constants(
            dimension=3,
            curvature_min=0.2,
            curvature_max=1.8,
            conditioning=9.0,
            regularization=0.1,
            delta=0.05,
            noise_scale=0.1,
            parameter_bound=1.0,
            feature_bound=1.0,
        ),
        **changes,
    )


@pytest.mark.parametrize("row", REFERENCE["episode_length"]["rows"], ids=lambda row: f"d{row['d']}")
def test_episode_lengths(row):
    """A length too short by a factor four (the public code's) leaves episodes without information."""
    assert episode_lengths(1.0 / row["d"], 1.0, 0.1, 0.05) == EpisodeLengths(
        theorem=row["theorem"],
        fixed_length=row["fixed_length_bound"],
        lemma_rederived=row["lemma_rederived"],
        lemma_in_public_code=row["lemma_in_public_code"],
    )


def test_rederived_lemma_beats_the_theorem_only_for_long_episodes():
    """Where rho eps_h / L^2 passes 37.6 at delta = .05 the better bound changes."""
    below, above = episode_lengths(0.01, 2.0, 37.3 * 400, 0.05), episode_lengths(0.01, 2.0, 37.9 * 400, 0.05)
    assert below.lemma_rederived > below.theorem
    assert above.lemma_rederived < above.theorem
    assert above.fixed_length <= above.theorem


def played(bonus, noise_scale, rounds=300, blocks=1, radius="per-arm", seed=0):
    """A campaign of the service on two-dimensional features with bounded noise: its policy, regret and bonus sums."""
    rng = np.random.default_rng(seed)
    policy = Policy(
        measure=Expectile(EXPECTILE.level),
        estimator=ExactMinimizer(EXPECTILE, blocks, 2, 0.1, 1.0),
        feature_map=FeatureMap(np.zeros(2), np.ones(2), intercept=False),
        confidence=ConfidenceSettings(0.1, noise_scale=noise_scale, parameter_bound=1.0, bonus=bonus, radius=radius),
        exploration=1.0,
        blocks_at_creation=blocks,
        arms=blocks,
        centred=False,
    )
    truth = np.array([[0.8, 0.1], [0.0, 0.9]])[:blocks]
    regret = total = 0.0
    for _ in range(rounds):
        directions = rng.standard_normal((1 if blocks > 1 else 3, 2))
        x = directions / np.linalg.norm(directions, axis=1, keepdims=True)
        risks = truth @ x[0] if blocks > 1 else x @ truth[0]
        scores = policy.score(x[0], np.arange(blocks)) if blocks > 1 else policy.score(x)
        arm = int((scores.estimates + scores.widths).argmax())
        regret += float(risks.max() - risks[arm])
        total += float(scores.bonuses[arm])
        # A fair coin's 0.1-expectile is 0.8 of the way down.
        noise = 0.5 * (float(rng.choice([-1.0, 1.0])) + 0.8)
        policy.observe(arm if blocks > 1 else 0, x[0] if blocks > 1 else x[arm], float(risks[arm]) + noise)
    policy.refresh()
    return policy, regret, total


@pytest.mark.parametrize("bonus", BONUSES)
@pytest.mark.parametrize(("blocks", "radius"), [(1, "per-arm"), (2, "per-arm"), (2, "joint")])
def test_no_run_of_the_service_passes_the_bound(bonus, blocks, radius):
    """A regret bound that a campaign exceeds, with a noise scale that is a true bound, is not one."""
    # At the truth d1 is 0.18 or -0.18 with equal odds, so R = 0.18, and sigma = R/sqrt(m).
    noise_scale = 0.18 / math.sqrt(0.2)
    policy, regret, total = played(bonus, noise_scale, blocks=blocks, radius=radius)
    known = constants(dimension=2, noise_scale=noise_scale, blocks=blocks, radius=radius)
    uncapped = replace(known, parameter_bound=1e-9)
    assert policy.confidence.radii.max() <= confidence_radius(known, 300)
    assert regret <= 2 * total
    # The bias term's S and the cap both come from S: with it gone the sum of radii alone is compared.
    factor = 1.0 if bonus.endswith("tight") else 2.0
    weight = 9.0 if bonus.startswith("local") else math.sqrt(9.0 / 0.2)
    bias = math.sqrt(0.9) if bonus.startswith("local") else math.sqrt(0.5)
    assert bonus_multiplier(uncapped, 300, bonus) == pytest.approx(factor * weight * confidence_radius(known, 300))
    stacked = math.sqrt(blocks) if radius == "joint" else 1.0
    difference = bonus_multiplier(known, 300, bonus) - bonus_multiplier(uncapped, 300, bonus)
    assert difference == pytest.approx(factor * bias * stacked, rel=1e-6)
    assert regret <= regret_bound(known, 300, bonus) <= 600.0


@pytest.mark.parametrize("bonus", BONUSES)
def test_the_bound_covers_the_bonuses_of_small_dials(bonus):
    """The potential lemma bounds the sum of the bonuses whatever the noise scale; here the cap does not hide it."""
    rounds = 2000
    _, _, total = played(bonus, 1e-3, rounds=rounds)
    bound = regret_bound(constants(dimension=2, noise_scale=1e-3), rounds, bonus)
    assert 2 * total <= bound < 2 * rounds
    assert bound <= 20 * total


def test_radius_is_reached_where_features_spread_evenly():
    """Too large a radius is no error of the service, but a bound that nothing reaches misleads."""
    evidence = ExactMinimizer(EXPECTILE, 2, 2, 0.1, None)
    for number in range(60):
        evidence.observe(number // 30, 0.7 * np.eye(2)[number % 2], 1.0)
    evidence.refresh()
    for radius, observations in (("joint", 60), ("per-arm", 30)):
        for blocks_at_creation in (2, 1):
            known = constants(
                dimension=2,
                blocks=2,
                feature_bound=0.7,
                radius=radius,
                noise_scale=0.3,
                arms_came_later=blocks_at_creation == 1,
            )
            settings = ConfidenceSettings(0.1, noise_scale=0.3, parameter_bound=1.0, radius=radius)
            confidence = Confidence(EXPECTILE, settings, 2, 2, blocks_at_creation=blocks_at_creation)
            confidence.refresh(evidence, range(2))
            assert confidence.radii.max() == pytest.approx(confidence_radius(known, observations), rel=1e-12)


def test_bounds_by_hand():
    """One feature of norm 1, one observation, all constants 1: r^2 = 2 log 20 + log 2, the sum is at most 2 log 2."""
    unit = constants(
        dimension=1, curvature_min=1.0, curvature_max=1.0, conditioning=1.0, regularization=1.0, noise_scale=1.0
    )
    r = math.sqrt(2 * math.log(20) + math.log(2))
    assert confidence_radius(unit, 1) == pytest.approx(r)
    assert confidence_radius(unit, 0) == pytest.approx(math.sqrt(2 * math.log(20)))
    for bonus in BONUSES:
        factor = 1 if bonus.endswith("tight") else 2
        assert bonus_multiplier(unit, 1, bonus) == pytest.approx(factor * (r + 1))
        assert regret_bound(unit, 1, bonus) == 2.0
        assert regret_bound(unit, 0, bonus) == 0.0
    wide = 2 * (math.sqrt(2 * math.log(20) + math.log(1001)) + 1) * math.sqrt(1000 * 2 * math.log(1001))
    assert regret_bound(unit, 1000, "local-tight") == pytest.approx(wide)
    assert regret_bound(unit, 1000, "local-tight", exploration=1.4, warmup_rounds=7) == pytest.approx(1.2 * wide + 14)
    assert regret_bound(unit, 1000, "local-tight", exploration=0.99) is None


@pytest.mark.parametrize("bonus", ["local-tight", "global-tight"])
def test_a_small_ridge_makes_the_first_round_dear(bonus):
    """With a ridge far below the features' squares the first bonus is huge; the paper's global bound leaves it out."""
    alpha, rounds = 1e-5, 100
    unit = dict.fromkeys(("curvature_min", "curvature_max", "conditioning"), 1.0)
    known = constants(dimension=1, **unit, regularization=alpha, noise_scale=1e-9)
    norms = 1 / np.sqrt(alpha + np.arange(rounds))
    summed = 2 * bonus_multiplier(known, rounds, bonus) * norms.sum()
    assert summed <= regret_bound(known, rounds, bonus) < 2 * rounds


def test_bounds_do_not_depend_on_the_unit_of_the_features():
    """Features in metres or in feet with theta to match are the same campaign, and so is its bound."""
    metres = constants(noise_scale=0.01)
    feet = constants(noise_scale=0.01, feature_bound=3.28, parameter_bound=1 / 3.28, regularization=0.1 * 3.28**2)
    for bonus in BONUSES:
        assert regret_bound(feet, 5000, bonus) == pytest.approx(regret_bound(metres, 5000, bonus), rel=1e-12)
    streamed = streaming_regret_bound(metres, 10**7, "local-tight", 0.3)
    assert streaming_regret_bound(feet, 10**7, "local-tight", 0.3) == pytest.approx(streamed, rel=1e-12)


def test_theorem_two_by_summing_its_terms():
    """The closed form bounds the sum over rounds that it stands for, and its root is never of a negative number."""
    known = constants(noise_scale=0.01)
    rho, rounds = 0.3, 200_000
    lower = 0.9 - 4 * 0.2 / rho * math.log(40) + 0.2 * rho / 2 * np.arange(rounds)
    first = int(np.argmax(lower >= 0.0)) + 1
    start = math.sqrt(first * 2 * 5 * 3 * math.log1p(0.2 * first / (3 * 0.9)))
    found = streaming_regret_bound(known, rounds, "local-tight", rho) / (
        2 * bonus_multiplier(known, rounds, "local-tight")
    )
    summed = start + (1 / np.sqrt(lower[first:])).sum()
    assert summed <= found <= 1.01 * summed
    assert found < regret_bound(known, rounds, "local-tight") / (2 * bonus_multiplier(known, rounds, "local-tight"))
    assert streaming_regret_bound(known, first, "local-tight", rho) == regret_bound(known, first, "local-tight")
    everywhere = streaming_regret_bound(known, rounds, "local-tight", rho, eigenvalue_delta=0.05 / rounds)
    assert everywhere > streaming_regret_bound(known, rounds, "local-tight", rho)


def test_theorem_two_needs_features_that_vary():
    """Fixed arms have rho = 0: no number is better than one that means nothing."""
    assert streaming_regret_bound(constants(), 1000, "local", 0.0) is None
    assert streaming_regret_bound(constants(), 1000, "global", 0.3) is None
    assert streaming_regret_bound(constants(blocks=2), 1000, "local", 0.3) is None


def test_curvature_over_the_ball():
    """A ball wider than the rewards leaves the range in which the entropic loss's own bounds hold."""
    for gamma in (0.7, -0.7):
        loss = EntropicLoss(gamma, -1.0, 2.0)
        lowest, highest = loss.curvature_within(3.0)
        reached = loss.d2(np.array([-1.0, -1.0, 2.0, 2.0]), np.array([-3.0, 3.0, -3.0, 3.0]))
        assert (lowest, highest) == pytest.approx((reached.min(), reached.max()), rel=1e-12)
    assert EXPECTILE.curvature_within(3.0) == (0.2, 1.8)
    assert SquaredLoss().curvature_within(3.0) == (1.0, 1.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: episode_lengths(0.0, 1.0, 0.1, 0.05),
        lambda: episode_lengths(0.5, 1.0, 0.1, 1.0),
        lambda: constants(delta=1.0),
        lambda: constants(noise_scale=math.nan),
        lambda: constants(parameter_bound=0.0),
        lambda: confidence_radius(constants(), -1),
        lambda: regret_bound(constants(), 10, "local", warmup_rounds=-1),
        lambda: streaming_regret_bound(constants(), 10, "local", 1.5),
        lambda: streaming_regret_bound(constants(), 10, "local", 0.5, eigenvalue_delta=0.0),
    ],
)
def test_what_has_no_answer_is_refused(call):
    """A nan that travels into a report is worse than an error."""
    with pytest.raises(ValueError, match=r"."):
        call()
