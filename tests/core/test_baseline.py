"""A baseline: what its allowance covers, and with what probability what is played."""

import numpy as np
import pytest

from prudent.core.baseline import LEARNED_MIN, Baseline, additions
from prudent.core.exploration import ExplorationRule, Scores, Standing, choose, propensities

RULES = {
    "randomized": ExplorationRule(randomized=True, floor=2.0),
    "uniform": ExplorationRule(randomized=True, uniform_share=0.3),
    "optimistic": ExplorationRule(),
}


def scores_of(estimates: list[float], bonuses: list[float], center: float = 0.0) -> Scores:
    widths = np.array(bonuses)
    return Scores(np.array(estimates), widths, widths, center)


def test_an_arm_adds_how_much_better_it_is_at_least() -> None:
    """The baseline earns a tenth of its worth, whatever the sign; another adds that and its lower end's lead."""
    scores = scores_of([1.0, 2.0, -1.0], [0.25, 0.5, 2.0])
    assert additions(scores, 0, 0.1, 10) == pytest.approx([0.1, 0.1 + 0.5, 0.1 - 4.0])
    assert additions(scores, 2, 0.1, 10)[2] == pytest.approx(0.1)
    moved = scores_of([1.0, 2.0, -1.0], [0.25, 0.5, 2.0], center=-11.0)
    assert additions(moved, 0, 0.1, 10) == pytest.approx([1.0, 1.0 + 0.5, 1.0 - 4.0])


def test_nothing_is_known_at_first() -> None:
    """After one reward they do not scatter at all, and every bonus would be 0."""
    scores = scores_of([1.0, 2.0], [0.0, 0.0])
    assert additions(scores, 0, 0.1, LEARNED_MIN - 1) == [0.1, -np.inf]
    assert additions(scores, 0, 0.1, LEARNED_MIN) == pytest.approx([0.1, 1.1])


def test_an_arm_without_a_limit_is_not_covered() -> None:
    """An infinite bonus must not become a number that an allowance could reach."""
    baseline = Baseline(0, additions(scores_of([1.0, 5.0], [0.1, np.inf]), 0, 0.1, 10), 1e300)
    assert not baseline.covers(1)
    assert baseline.restrict([0.2, 0.8]) == [1.0, 0.0]


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_the_propensity_is_the_frequency(rule: ExplorationRule) -> None:
    """What is learned from the log weighs by it: an arm that is held must hand its share to the baseline."""
    scores = scores_of([0.9, 1.0, 0.8, 0.95], [0.3, 0.1, 1.5, 0.4])
    standing = Standing(100, None, [30.0, 40.0, 5.0, 25.0])
    baseline = Baseline(1, additions(scores, 1, 0.1, standing.learned), 0.32)
    assert [baseline.covers(k) for k in range(4)] == [True, True, False, False]
    expected = baseline.restrict(propensities(scores, rule, standing, explore=True))
    assert sum(expected) == pytest.approx(1.0, abs=1e-12)
    draws = 20_000
    counts = np.zeros(4)
    for number in range(draws):
        made = choose(scores, rule, standing, explore=True, seed=(3, str(number)))
        settled = baseline.settle(made, expected)
        counts[settled.position] += 1
        assert settled.propensity == pytest.approx(expected[settled.position], rel=1e-9)
        assert (settled.reason == "baseline") == (made.position in {2, 3})
        assert not (settled.reason == "baseline" and settled.explores)
    errors = np.sqrt(np.array(expected) * (1.0 - np.array(expected)) / draws)
    assert (np.abs(counts / draws - expected) <= 4.0 * errors + 1e-12).all()


@pytest.mark.parametrize("center", [-7.0, 5.0])
def test_the_decisions_are_worth_what_the_tolerance_says(center: float, rng: np.random.Generator) -> None:
    """By the lower ends, at any time: (1 - tolerance) times the baseline's gains, (1 + tolerance) times its losses."""
    tolerance, allowance, worth, usual = 0.2, 0.0, 0.0, 0.0
    others = 0
    for _ in range(2_000):
        scores = scores_of(rng.normal(0.0, 0.5, 4).tolist(), rng.exponential(0.5, 4).tolist(), center)
        baseline = Baseline(2, additions(scores, 2, tolerance, 100), allowance)
        wanted = int(rng.integers(4))
        played = wanted if baseline.covers(wanted) else 2
        allowance += baseline.additions[played]
        lower = scores.estimate_of(played) - (0.0 if played == 2 else float(scores.bonuses[played]))
        worth, usual = worth + lower, usual + scores.estimate_of(2)
        others += played != 2
        assert allowance >= -1e-9
        assert worth >= usual - tolerance * abs(usual) - 1e-6
    assert others > 200
