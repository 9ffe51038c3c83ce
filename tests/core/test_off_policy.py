"""Estimates from weighted rewards: by hand, by what must not change them, and where there is none."""

import numpy as np
import pytest
from scipy import stats

from prudent.core.measures import Entropic, Expectile, Mean, Measure
from prudent.core.off_policy import EFFECTIVE_MIN, Weighted, gain, ips, snips, weight_max

MEASURES: list[Measure] = [Mean(), Expectile(0.1), Entropic(-0.2, -20.0, 20.0)]


def weighted(rewards: list[float], weights: list[float], supported: list[float] | None = None) -> Weighted:
    shares = np.ones(len(rewards)) if supported is None else np.array(supported)
    return Weighted(np.array(rewards), np.array(weights), shares)


def drawn(seed: int, count: int = 400, chance: float = 0.2) -> Weighted:
    """A log that took the judged arm with this chance."""
    generator = np.random.default_rng(seed)
    weights = np.where(generator.random(count) < chance, 1.0 / chance, 0.0)
    return Weighted(generator.normal(1.0, 2.0, count), weights, np.ones(count))


def test_values_by_hand() -> None:
    """Weights 2 and 4 on rewards 1 and 3, in four decisions of which one is supported by half only."""
    sample = weighted([1.0, 5.0, 3.0, 7.0], [2.0, 0.0, 4.0, 0.0], [1.0, 1.0, 1.0, 0.5])
    assert ips(sample).value == pytest.approx((2.0 + 12.0) / 3.5)
    assert snips(sample, Mean()).value == pytest.approx((2.0 + 12.0) / 6.0)
    expected = stats.expectile([1.0, 3.0], alpha=0.1, weights=[2.0, 4.0])
    assert snips(sample, Expectile(0.1)).value == pytest.approx(expected)
    assert gain(sample, Mean()).value == pytest.approx(14.0 / 6.0 - 4.0)
    assert sample.effective == pytest.approx(36.0 / 20.0)


def test_few_effective_rows_have_no_interval() -> None:
    """Two rows cannot say how far the third may be."""
    sample = weighted([1.0, 5.0, 3.0, 7.0], [2.0, 0.0, 4.0, 0.0])
    assert sample.effective < EFFECTIVE_MIN
    for found in (ips(sample), snips(sample, Mean()), gain(sample, Mean())):
        assert found.low is found.high is None


def test_equal_rewards_have_no_interval() -> None:
    """They do not show how much the next one may differ."""
    assert snips(weighted([1.0] * 50, [2.0] * 50), Expectile(0.1)).low is None


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
def test_an_interval_ends_where_the_scores_say_so(measure: Measure) -> None:
    """(sum g)^2 = t^2 sum g^2 at both ends, and the estimate lies between them."""
    sample = drawn(1)
    found = snips(sample, measure)
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.value < found.high
    bound = stats.t.ppf(0.975, sample.effective - 1.0) ** 2
    for end in (found.low, found.high):
        scores = sample.weights * measure.loss.d1(sample.rewards, np.full(400, end))
        assert scores.sum() ** 2 == pytest.approx(bound * (scores @ scores))


def test_the_interval_of_ips_ends_where_its_scores_say_so() -> None:
    """Of a sample in which some decisions are supported in part."""
    sample = drawn(2)._replace(supported=np.random.default_rng(2).uniform(0.9, 1.0, 400))
    found = ips(sample)
    bound = stats.t.ppf(0.975, sample.effective - 1.0) ** 2
    for end in (found.low, found.high):
        scores = sample.weights * sample.rewards - end * sample.supported
        assert scores.sum() ** 2 == pytest.approx(bound * (scores @ scores))


@pytest.mark.parametrize("measure", MEASURES[:2], ids=lambda measure: measure.name)
def test_the_unit_and_the_zero_of_rewards_do_not_matter_to_snips(measure: Measure) -> None:
    """Cents or euros, profits or losses: the same interval in the other unit."""
    sample = drawn(3)
    moved = sample._replace(rewards=100.0 * sample.rewards - 5_000.0)
    for one, other in ((snips(sample, measure), snips(moved, measure)), (gain(sample, measure), gain(moved, measure))):
        shift = -5_000.0 if one.value == snips(sample, measure).value else 0.0
        for mine, theirs in zip(one, other, strict=True):
            assert mine is not None
            assert theirs == pytest.approx(100.0 * mine + shift, abs=1e-6)


def test_the_log_itself_gains_nothing() -> None:
    """Weights of 1 are the log: the difference is 0 and known."""
    sample = drawn(4)._replace(weights=np.ones(400))
    assert gain(sample, Expectile(0.1)) == (0.0, None, None)
    assert ips(sample).value == pytest.approx(sample.rewards.mean())


def test_intervals_cover_the_truth() -> None:
    """600 logs in which the arm was taken in one decision of five."""
    truths = [1.0, stats.expectile(stats.norm.ppf((np.arange(100_000) + 0.5) / 100_000, 1.0, 2.0), alpha=0.1)]
    covered = np.zeros((600, 3), dtype=bool)
    for seed in range(600):
        sample = drawn(seed)
        found = (ips(sample), snips(sample, Mean()), snips(sample, Expectile(0.1)))
        for place, (one, truth) in enumerate(zip(found, [truths[0], *truths], strict=True)):
            assert one.low is not None
            assert one.high is not None
            covered[seed, place] = one.low <= truth <= one.high
    assert (covered.mean(axis=0) > 0.92).all(), covered.mean(axis=0)
    assert (covered.mean(axis=0) < 0.98).all(), covered.mean(axis=0)


def test_nothing_to_estimate_from_is_refused() -> None:
    """A value of nan would be no answer."""
    nothing = weighted([1.0, 2.0], [0.0, 0.0], [0.0, 0.0])
    with pytest.raises(ValueError, match="supports nothing"):
        ips(nothing)
    with pytest.raises(ValueError, match="weight"):
        snips(nothing, Mean())


def test_a_uniform_share_is_support_in_a_log_that_is_long_enough() -> None:
    """Five hundredths among five arms are chosen 20 times in 2,000 decisions, and 5 times in 500."""
    chance = 0.05 / 5
    assert 1.0 / chance <= weight_max(2_000)
    assert 1.0 / chance <= weight_max(1_000)
    assert 1.0 / chance > weight_max(500)
