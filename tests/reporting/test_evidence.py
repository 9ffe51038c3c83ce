"""When the report speaks of evidence: a lead must survive the next bad outcome, and say what it cannot know."""

from array import array
from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from docs.measurements.honesty import catastrophes, play
from prudent.core.measures import Expectile, Mean, Measure
from prudent.reporting.collection import ArmTally
from prudent.reporting.report import Learning, Progress, cautious_end, describe_arm, describe_learning

Floats = NDArray[np.float64]
PROGRESS = Progress(paused=False, observations=0, recent_decisions=0, exploring_share=None)


def learning(rewards: Mapping[str, Floats], measure: Measure) -> Learning:
    """What the report says of these rewards."""
    tallies = {name: ArmTally(rewards=array("d", values.tolist())) for name, values in rewards.items()}
    arms = [describe_arm(name, "active", tally, 1, measure) for name, tally in tallies.items()]
    return describe_learning(arms, rewards, measure, PROGRESS, None)


def test_rare_catastrophes_are_no_evidence_for_the_wrong_arm() -> None:
    """In 30 per cent of such campaigns the report called the lead of a wrong arm evidence at some time."""
    measure, best = Expectile(0.2), "2"
    wrong = said = 0
    for seed in range(8):
        drawn = catastrophes(np.random.default_rng(seed), 1_200)
        _, chosen = play(drawn, 0.2, seed)
        received = drawn[np.arange(len(chosen)), chosen]
        for end in range(100, len(chosen) + 1, 100):
            found = learning({str(arm): received[:end][chosen[:end] == arm] for arm in range(4)}, measure)
            wrong += found.leading_arm_id != best
            said += found.leading_arm_id != best and "evidence" in found.note
    assert wrong > 20
    assert said <= 0.05 * wrong, (said, wrong)


def test_a_loss_that_the_leader_has_not_met() -> None:
    """Its interval would be narrow because nothing bad is in it: another arm of the campaign shows what can happen."""
    random, measure = np.random.default_rng(5), Expectile(0.2)
    rewards = {
        "lucky": random.normal(2, 1, 150),
        "other": random.normal(1, 1, 150),
        "unlucky": np.append(random.normal(1.5, 1, 60), -50.0),
    }
    first, second, _ = (measure.interval(values, measure.risk(values)) for values in rewards.values())
    assert first is not None
    assert second is not None
    assert first[0] > second[1]
    found = learning(rewards, measure)
    assert (found.leading_arm_id, found.runner_up_arm_id, found.separated) == ("lucky", "other", False)
    assert "evidence" not in found.note


@pytest.mark.parametrize(("measure", "count"), [(Mean(), 120), (Expectile(0.1), 250), (Expectile(0.02), 800)], ids=str)
def test_clear_leads_are_found(measure: Measure, count: int) -> None:
    """A rule that never speaks of evidence is no rule: two normal arms half a standard deviation apart."""
    random = np.random.default_rng(11)
    found = 0
    for _ in range(20):
        rewards = {"a": random.normal(0.5, 1, count), "b": random.normal(0, 1, count)}
        found += learning(rewards, measure).separated is True
    assert found >= 16


def test_what_cannot_have_been_seen_is_said() -> None:
    """A sample of 300 tells nothing of an outcome with a probability of one in a thousand."""
    random = np.random.default_rng(3)
    rewards = {"a": random.normal(5, 1, 300), "b": random.normal(0, 1, 90), "c": np.full(2, -9.0)}
    found = learning(rewards, Mean())
    assert (found.separated, found.unseen_one_in, found.undecided_arm_ids) == (True, 100, ["c"])
    assert "evidence, not a guarantee: an outcome rarer than 1 in 100 may not have been seen" in found.note
    assert learning({"a": rewards["a"], "b": rewards["a"] - 0.01}, Mean()).separated is False
    lonely = learning({"a": rewards["a"]}, Mean())
    assert (lonely.separated, lonely.unseen_one_in) == (None, None)


def test_one_more_reward_as_bad_as_the_worst() -> None:
    """A loss that another arm has met may meet the leader next."""
    rewards = {"a": np.random.default_rng(4).normal(2, 1, 100), "b": np.array([-50.0])}
    interval = Mean().interval(np.append(rewards["a"], -50.0), float(np.append(rewards["a"], -50.0).mean()))
    assert interval is not None
    assert cautious_end(rewards["a"], rewards, Mean()) == interval[0]
    assert cautious_end(np.ones(50), {"a": np.ones(50), "b": np.zeros(1)}, Mean()) is None
    assert cautious_end(rewards["a"][:20], rewards, Mean()) is None


def test_arms_that_are_worth_the_same_have_no_leader() -> None:
    """Two arms that had paid 1 each time: the report said that the first of them leads."""
    found = learning({"a": np.ones(40), "b": np.ones(3), "c": np.zeros(5)}, Mean())
    assert (found.leading_arm_id, found.runner_up_arm_id, found.separated) == (None, None, None)
    assert found.undecided_arm_ids == ["a", "b"]
    assert found.note == "No arm leads: a and b have the same mean so far, 1."
    many = learning({str(arm): np.ones(2) for arm in range(6)}, Mean())
    assert many.note == "No arm leads: 0, 1, 2 and 3 others have the same mean so far, 1."


def test_an_arm_leads_only_by_evidence() -> None:
    """One reward more, and another arm would lead."""
    random = np.random.default_rng(6)
    close = {"a": random.normal(0.1, 1, 100), "b": random.normal(0, 1, 100)}
    assert "leads" not in learning(close, Mean()).note
    assert "leads" not in learning({"a": np.array([2.0]), "b": np.array([1.0])}, Mean()).note
    clear = learning({"a": random.normal(9, 1, 100), "b": random.normal(0, 1, 100)}, Mean())
    assert clear.note.startswith("a leads: ")
