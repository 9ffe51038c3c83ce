"""Policies judged on a campaign's own log, played in process: what the log supports, and what it does not."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from benchmarks.off_policy import Problem, covers, played
from prudent.campaigns import CampaignConfiguration, Holdout
from prudent.core.measures import Mean
from prudent.errors import InvalidCommandError
from prudent.evaluation.evaluation import OWN, EvaluationError, OtherPolicy, evaluate
from prudent.evaluation.log import CampaignLog
from prudent.evaluation.policies import reconfigured
from prudent.evaluation.report import notes
from prudent_simulator.custom_environments.laws import Normal, expectile

LAWS = (Normal(law="normal", mean=1.0, deviation=0.5), Normal(law="normal", mean=1.5, deviation=2.0))
PROBLEM = Problem("two", 0.2, LAWS)
RUNS = 40


@pytest.fixture(scope="module")
def log() -> CampaignLog:
    return played(PROBLEM, 3, 600, 0.1)


def test_intervals_of_each_arm_cover_the_truth() -> None:
    """The campaign favours the safe arm; without the weights the other one would look as it did when it was tried."""
    covered = np.zeros((RUNS, 2, 2), dtype=bool)
    for seed in range(RUNS):
        logged = played(PROBLEM, seed, 400, 0.1)
        found = evaluate(logged, [], [logged.creation.measure()])
        for arm, law in enumerate(LAWS):
            value = found.policies[1 + arm]
            covered[seed, arm] = (
                covers(value.mean, law.mean),
                covers(value.values[found.measures[1]], expectile(law, 0.2)),
            )
    assert covered.mean() > 0.88, covered.mean(axis=0)
    assert covered.mean(axis=0).min() > 0.8, covered.mean(axis=0)


def test_without_a_uniform_share_the_arms_are_refused(log: CampaignLog) -> None:
    """A number would be made of the few decisions in which the arm had a chance."""
    bare = played(PROBLEM, 3, 600, 0.0)
    found = evaluate(bare, [], [bare.creation.measure()])
    assert found.left_out == {"warmup": 4}
    refused = [one for one in found.policies if one.refusal is not None]
    assert [one.name for one in refused] == ["always arm-2"]
    (worse,) = refused
    assert worse.refusal is not None
    assert worse.refusal.arms == {"arm-2": worse.refusal.share}
    assert worse.refusal.share > 0.1
    assert worse.mean is None
    assert worse.values == {}
    (said,) = [note for note in notes(found) if note.startswith("always arm-2")]
    assert "no value, because the log lacks support for it in" in said
    assert evaluate(log, [], []).policies[2].refusal is None


def test_the_campaigns_own_policy_has_weights_of_one(log: CampaignLog) -> None:
    """The replay must find the very propensities that were recorded, for every decision."""
    found = evaluate(log, [OtherPolicy("same", log.configuration)], [log.creation.measure()])
    assert found.judged == found.decisions == 600
    own, *_, same = found.policies
    assert own.name == OWN
    assert same.mean_weight == pytest.approx(1.0, abs=1e-9)
    assert same.weight_max == pytest.approx(1.0, abs=1e-6)
    assert same.mean is not None
    assert own.mean is not None
    assert same.mean.value == pytest.approx(own.mean.value)
    assert same.gains["mean"].value == pytest.approx(0.0, abs=1e-9)


def test_decisions_that_a_baseline_held_are_replayed() -> None:
    """What was kept back would otherwise count as not replayed, and the arms be judged by the rest."""
    kept = {"baseline": {"arm_id": "arm-1", "tolerance": 0.3}, "warmup": 1}
    log = played(PROBLEM, 3, 600, 0.1, **kept)
    held = sum(one.reason == "baseline" for one in log.decisions)
    assert 10 < held < 550
    found = evaluate(log, [], [log.creation.measure()])
    assert found.judged == found.decisions == 600


class HeldOut(Problem):
    """The same with a tenth held out for the first arm."""

    def configuration(self, seed: int, share: float, **dials: Any) -> CampaignConfiguration:
        """With the holdout."""
        configuration = super().configuration(seed, share, **dials)
        return configuration.model_copy(update={"holdout": Holdout(share=0.1, arm_id="arm-1")})


@pytest.mark.parametrize(("dials", "reason"), [({"budget": 0.12}, "greedy"), ({"warmup": 150}, "warmup")])
def test_what_is_held_out_is_judged_only_beside_what_was_not(dials: dict[str, Any], reason: str) -> None:
    """Beyond a budget its arm would have the weights of decisions that are left out, too: three times its worth."""
    laws = tuple(Normal(law="normal", mean=mean, deviation=0.5) for mean in (1.0, 1.5, 1.3))
    weights, values = [], []
    for seed in range(4):
        log = played(HeldOut("held-out", 0.5, laws), seed, 1_500, 0.0, **dials)
        found = evaluate(log, [], [])
        held = found.policies[1]
        assert held.mean is not None
        weights.append(held.mean_weight)
        values.append(held.mean.value)
        assert found.left_out[reason] > sum(one.reason == reason for one in log.decisions)
        assert found.judged + sum(found.left_out.values()) == found.decisions
    assert np.mean(weights) == pytest.approx(1.0, abs=0.15)
    assert np.mean(values) == pytest.approx(1.0, abs=0.2)


def test_another_risk_level_is_another_policy(log: CampaignLog) -> None:
    """By the mean the second arm is better: the policy that goes by it plays it more, and earns more on average."""
    by_mean = OtherPolicy("mean", reconfigured(log.configuration, {"risk": {"measure": "mean"}}))
    greedy = OtherPolicy("greedy", log.configuration, explore=False)
    found = evaluate(log, [by_mean, greedy], [log.creation.measure()])
    means = {one.name: one.mean.value for one in found.policies if one.mean is not None}
    assert means["mean"] > means[OWN] + 0.1
    assert means["mean"] > means["greedy"] + 0.1  # which goes by the campaign's own, cautious measure
    assert found.policies[-1].mean_weight == pytest.approx(1.0, abs=0.1)


def test_a_part_of_a_policy_that_lacks_support_is_named(log: CampaignLog) -> None:
    """A configuration that keeps to an arm that a campaign without a uniform share no longer tries."""
    bare = played(PROBLEM, 3, 600, 0.0)
    bold = OtherPolicy("bold", reconfigured(bare.configuration, {"risk": {"measure": "mean"}}), explore=False)
    found = evaluate(bare, [bold], [])
    refusal = found.policies[-1].refusal
    assert refusal is not None
    assert list(refusal.arms) == ["arm-2"]
    assert 0.01 < refusal.share < 1.0


Change = Callable[[CampaignLog], None]


def _unrewarded(log: CampaignLog) -> None:
    log.rows[-100:] = []


def _other_arm(log: CampaignLog) -> None:
    for number in range(-50, 0):
        row = log.rows[number]
        log.rows[number] = row._replace(arm_id="arm-1" if row.arm_id == "arm-2" else "arm-2")


def _of_reason(reason: str) -> Change:
    def change(log: CampaignLog) -> None:
        log.decisions[-30:] = [one._replace(reason=reason) for one in log.decisions[-30:]]

    return change


def _other_candidates(log: CampaignLog) -> None:
    log.decisions[-20:] = [one._replace(propensity=0.123) for one in log.decisions[-20:]]


@pytest.mark.parametrize(
    ("change", "reason", "count", "words"),
    [
        (_unrewarded, "no-reward", 100, "100 decisions have no reward: they are left out."),
        (_other_arm, "other-arm", 50, "50 decisions were rewarded for another arm"),
        (_of_reason("greedy"), "greedy", 30, "30 decisions were made with explore: false"),
        (_of_reason("only-arm"), "only-arm", 30, "30 decisions had one candidate only"),
        (_of_reason("external"), "external", 30, "30 decisions were chosen by the application"),
        (_other_candidates, "not-replayed", 20, "20 decisions could not be replayed"),
    ],
)
def test_what_is_left_out_is_counted_and_said(
    log: CampaignLog, change: Change, reason: str, count: int, words: str
) -> None:
    """Decisions that say nothing of other policies must not be weighed in silence."""
    changed = CampaignLog(log.creation, log.configuration, log.arms, list(log.rows), list(log.decisions))
    change(changed)
    found = evaluate(changed, [], [])
    assert found.left_out == {reason: count}
    assert found.judged == 600 - count
    assert [note for note in notes(found) if note.startswith(words)]


def test_default_rewards_count_and_are_said(log: CampaignLog) -> None:
    """The campaign learned them as rewards; so they are."""
    rows = [row._replace(source="default") for row in log.rows[:7]] + log.rows[7:]
    found = evaluate(CampaignLog(log.creation, log.configuration, log.arms, rows, log.decisions), [], [])
    assert (found.judged, found.defaults) == (600, 7)
    assert "7 rewards are the campaign's default: they count as it counts them." in notes(found)


def test_rewards_that_are_missing_for_one_arm_are_said(log: CampaignLog) -> None:
    """Clicks without their misses look like a sure thing."""
    late = [row for row in log.rows[-300:] if row.arm_id == "arm-1"]
    missing = sum(row.arm_id == "arm-2" for row in log.rows[-300:])
    found = evaluate(
        CampaignLog(log.creation, log.configuration, log.arms, log.rows[:-300] + late, log.decisions), [], []
    )
    assert found.left_out["no-reward"] == missing > 0
    assert found.rewarded["arm-1"] == 1.0 > found.rewarded["arm-2"] + 0.05
    (said,) = [note for note in notes(found) if note.startswith("Rewards are missing unevenly")]
    assert "for arm-2 have one and 100% of those for arm-1" in said


def test_a_log_that_is_too_short_is_an_error() -> None:
    """Thirty decisions support nothing."""
    short = played(PROBLEM, 1, 30, 0.1)
    with pytest.raises(EvaluationError, match="only 30 decisions can be judged, and at least 50"):
        evaluate(short, [], [Mean()])


def test_a_measure_that_rewards_do_not_have_is_refused(log: CampaignLog) -> None:
    """The logarithm of a loss."""
    changes = {"risk": {"measure": "moment", "of": "log"}, "reward": {"minimum": 0.01}}
    other = OtherPolicy("log", reconfigured(log.configuration, changes))
    with pytest.raises(EvaluationError, match="the log has rewards without it"):
        evaluate(log, [other], [])


def test_a_measure_in_stages_has_a_value_and_no_interval(log: CampaignLog) -> None:
    """The slopes of the loss by which its last stage learns are not those of the measure."""
    other = OtherPolicy("cvar", reconfigured(log.configuration, {"risk": {"measure": "cvar", "level": 0.2}}))
    found = evaluate(log, [other], [other.configuration.measure()])
    for policy in found.policies:
        estimate = policy.values[found.measures[1]]
        assert estimate.value < policy.values["mean"].value
        assert estimate.low is estimate.high is None
    assert found.policies[-1].mean_weight == pytest.approx(1.0, abs=0.2)


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"model": {"type": "multi-armed"}}, "model", "only risk, algorithm, reward can be changed"),
        ({"risk": {"measure": "entropic", "gamma": -1}}, "reward.minimum", "needs both reward bounds"),
        ({"algorithm": {"name": "linucb"}}, "algorithm.name", "learns only the mean"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(
    log: CampaignLog, changes: dict[str, Any], field: str, message: str
) -> None:
    """The field and the reason, as the server would say them."""
    with pytest.raises(InvalidCommandError, match=message) as failed:
        reconfigured(log.configuration, changes)
    assert failed.value.field == field


def test_defaults_follow_what_is_changed(log: CampaignLog) -> None:
    """A ridge weight that was a default of one measure is not a wish for another."""
    entropic = reconfigured(
        log.configuration,
        {"risk": {"measure": "entropic", "gamma": -0.5}, "reward": {"minimum": -10, "maximum": 10}},
    )
    assert entropic.algorithm.regularization == pytest.approx(0.05)
    assert entropic.algorithm.uniform_share == 0.1
    assert reconfigured(log.configuration, {}) == log.configuration
    linear = reconfigured(log.configuration, {"risk": {"measure": "mean"}, "algorithm": {"name": "linucb"}})
    assert reconfigured(linear, {"risk": {"measure": "expectile", "level": 0.1}}).algorithm.name == "linucb-cr"
