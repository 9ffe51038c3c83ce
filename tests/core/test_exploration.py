"""What is played, and with what probability: a log's propensities are what every later evaluation rests on."""

import os
from math import erfc, inf, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import halfnorm, kstest

from prudent.core.exploration import (
    FLOOR_SHARE,
    ExplorationRule,
    Scores,
    Standing,
    choose,
    draw,
    multiplier_scale,
    propensities,
)

DECISIONS = int(os.environ.get("SOAK_DECISIONS", "5000"))
RANDOMIZED = ExplorationRule(randomized=True)
STANDARD_ERRORS_MAX = 4.0


def scores_of(estimates: list[float], widths: list[float]) -> Scores:
    """Scores with `exploration` 1."""
    return Scores(np.array(estimates), np.array(widths), np.array(widths))


def frequencies(scores: Scores, rule: ExplorationRule, standing: Standing) -> tuple[np.ndarray, np.ndarray]:
    """How often each candidate is chosen, and whether each choice's propensity is the one that all arms' have."""
    stated = np.array(propensities(scores, rule, standing, explore=True))
    counts = np.zeros(len(stated))
    for number in range(DECISIONS):
        choice = choose(scores, rule, standing, explore=True, seed=(7, f"d{number}"))
        counts[choice.position] += 1
        assert choice.propensity == pytest.approx(stated[choice.position], rel=1e-9)
    return counts / DECISIONS, stated


@pytest.mark.parametrize("uniform_share", [0.0, 0.05])
@pytest.mark.parametrize("floor", [0.0, 6.0])
@pytest.mark.parametrize("count", [2, 5, 50])
def test_arms_are_played_as_often_as_is_said(count: int, floor: float, uniform_share: float) -> None:
    """A propensity that is off by a little biases every estimate that divides by it."""
    generator = np.random.default_rng(count)
    estimates, widths = generator.normal(size=count), 3.0 * np.abs(generator.normal(size=count))
    estimates[1], widths[1] = estimates[0], widths[0]  # one line for two arms
    rule = ExplorationRule(randomized=True, floor=floor, uniform_share=uniform_share)
    standing = Standing(learned=700, observations=[40] * (count - 1) + [3])
    seen, stated = frequencies(scores_of(estimates.tolist(), widths.tolist()), rule, standing)
    assert sum(stated) == pytest.approx(1.0, abs=1e-12)
    errors = np.sqrt(stated * (1.0 - stated) / DECISIONS)
    assert (np.abs(seen - stated) <= STANDARD_ERRORS_MAX * (errors + 1.0 / DECISIONS)).all()


def test_two_arms_by_hand() -> None:
    """Arm b overtakes where z = (e_a - e_b) / (w_b - w_a); beyond it lies the mass of the half normal law."""
    crossing = 0.3 / 1.5
    expected = erfc(crossing / (multiplier_scale(700) * sqrt(2.0)))
    found = propensities(scores_of([1.0, 0.7], [0.5, 2.0]), RANDOMIZED, Standing(learned=700), explore=True)
    assert found == pytest.approx([1.0 - expected, expected], abs=1e-15)


def test_an_arm_below_the_envelope_is_never_played() -> None:
    """Neither the best estimate nor ever the best index: log users must see that it has no support."""
    found = propensities(scores_of([1.0, 0.5, 0.0], [0.0, 0.4, 1.0]), RANDOMIZED, Standing(), explore=True)
    assert found[1] == 0.0
    assert sum(found) == pytest.approx(1.0, abs=1e-15)


def test_draws_are_uniform_and_half_normal() -> None:
    """All exactness above rests on the draws having the laws that are claimed."""
    draws = [draw(3, f"decision-{number}") for number in range(20_000)]
    assert kstest([one.share for one in draws], "uniform").pvalue > 1e-4
    assert kstest([one.floor for one in draws], "uniform").pvalue > 1e-4
    assert kstest([one.lot / 2.0**64 for one in draws], "uniform").pvalue > 1e-4
    assert kstest([one.size for one in draws], halfnorm.cdf).pvalue > 1e-4
    pairs = np.corrcoef([[one.share, one.floor, one.size, one.lot / 2.0**64] for one in draws], rowvar=False)
    assert np.abs(pairs - np.eye(4)).max() < 0.04


def test_a_decision_draws_the_same_everywhere_and_another_one_something_else() -> None:
    """Workers and replays must agree; campaigns of one seed are told apart by their decisions' ids."""
    assert draw(3, "a") == draw(3, "a")
    assert len({draw(3, "a"), draw(3, "b"), draw(4, "a")}) == 3


def test_below_the_floor_the_least_observed_arm_has_a_tenth() -> None:
    """An arm that had bad luck early must be found again: its propensity never falls below the floor's share."""
    scores = scores_of([1.0, -9.0, -9.0], [0.1, 0.1, 0.1])
    rule = ExplorationRule(randomized=True, floor=6.0)
    found = propensities(scores, rule, Standing(learned=508, observations=[500, 4, 4]), explore=True)
    assert found == pytest.approx([1.0 - FLOOR_SHARE, FLOOR_SHARE / 2, FLOOR_SHARE / 2])
    above = propensities(scores, rule, Standing(learned=580, observations=[500, 40, 40]), explore=True)
    assert above == pytest.approx([1.0, 0.0, 0.0])


def test_the_floor_passes_over_arms_that_are_not_registered() -> None:
    """Their features carry what is known of them; their ids may be new in every request."""
    scores = scores_of([1.0, -9.0], [0.1, 0.1])
    rule = ExplorationRule(randomized=True, floor=6.0)
    for observations in ([500, inf], [inf, inf]):
        found = propensities(scores, rule, Standing(learned=500, observations=observations), explore=True)
        assert found == pytest.approx([1.0, 0.0])


def test_the_uniform_share_reaches_every_arm_even_in_the_warm_up() -> None:
    """Whoever sets it wants support for other policies in all of the log."""
    scores = scores_of([1.0, -9.0, -9.0, -9.0], [0.1, 0.1, 0.1, 0.1])
    rule = ExplorationRule(randomized=True, uniform_share=0.2)
    assert propensities(scores, rule, Standing(), explore=True) == pytest.approx([0.85, 0.05, 0.05, 0.05])
    warm = propensities(scores, rule, Standing(plays=[0, 5, 5, 5]), explore=True)
    assert warm == pytest.approx([0.85, 0.05, 0.05, 0.05])
    reasons = {
        choose(scores, rule, Standing(plays=[0, 5, 5, 5]), explore=True, seed=(1, f"{n}")).reason for n in range(99)
    }
    assert reasons == {"uniform", "warmup"}


def test_greedy_and_a_single_candidate_draw_nothing() -> None:
    """`explore: false` is for decisions in which an experiment is not acceptable."""
    rule = ExplorationRule(randomized=True, floor=6.0, uniform_share=0.5)
    scores = scores_of([1.0, 2.0], [9.0, 0.0])
    standing = Standing(plays=[0, 0], observations=[0, 0])
    choice = choose(scores, rule, standing, explore=False, seed=(1, "a"))
    assert (choice.position, choice.reason, choice.propensity) == (1, "greedy", 1.0)
    alone = choose(scores_of([1.0], [1.0]), rule, Standing(plays=[0]), explore=True, seed=(1, "a"))
    assert (alone.reason, alone.propensity) == ("only-arm", 1.0)


@given(
    lines=st.lists(st.tuples(st.integers(-6, 6), st.integers(0, 6)), min_size=1, max_size=9),
    uniform_share=st.sampled_from([0.0, 0.1]),
    numbers=st.lists(st.integers(0, 9), min_size=9, max_size=9),
)
def test_propensities_sum_to_one_whatever_crosses(
    lines: list[tuple[int, int]], uniform_share: float, numbers: list[int]
) -> None:
    """Integer lines cross in one point, coincide and are parallel all the time."""
    scores = scores_of([float(estimate) for estimate, _ in lines], [float(width) for _, width in lines])
    rule = ExplorationRule(randomized=True, floor=6.0, uniform_share=uniform_share)
    standing = Standing(learned=sum(numbers), observations=numbers[: len(lines)])
    stated = propensities(scores, rule, standing, explore=True)
    assert sum(stated) == pytest.approx(1.0, abs=1e-12)
    choice = choose(scores, rule, standing, explore=True, seed=(1, "x"))
    assert choice.propensity == pytest.approx(stated[choice.position], rel=1e-9)
    assert choice.propensity > 0.0


@pytest.mark.parametrize("scale", [1e-150, 1.0, 1e150])
def test_propensities_do_not_depend_on_the_unit(scale: float) -> None:
    """Cents and dollars must explore alike."""
    estimates, widths = np.array([1.0, 0.7, 0.6]), np.array([0.5, 2.0, 2.1])
    plain = propensities(scores_of(estimates.tolist(), widths.tolist()), RANDOMIZED, Standing(), explore=True)
    scaled = scores_of((scale * estimates).tolist(), (scale * widths).tolist())
    assert propensities(scaled, RANDOMIZED, Standing(), explore=True) == pytest.approx(plain, rel=1e-12)


def test_optimism_takes_the_best_index_with_its_whole_bonus() -> None:
    """The paper's rule: no dice but for ties."""
    scores = scores_of([1.0, 0.7, 0.7], [0.5, 2.0, 2.0])
    chosen = {choose(scores, ExplorationRule(), Standing(), explore=True, seed=(1, f"{n}")).position for n in range(50)}
    assert chosen == {1, 2}
    assert propensities(scores, ExplorationRule(), Standing(), explore=True) == [0.0, 0.5, 0.5]


def test_of_equal_arms_none_is_an_exploration() -> None:
    """A report would say that a campaign with `exploration` 0 explores, as long as two arms are equal."""
    scores = Scores(np.array([1.0, 0.5, 1.0]), np.array([0.3, 0.3, 0.3]), np.zeros(3))
    rule = ExplorationRule(randomized=True)
    for number in range(50):
        choice = choose(scores, rule, Standing(learned=9), explore=True, seed=(1, f"d{number}"))
        assert choice.position == choice.greedy_position
