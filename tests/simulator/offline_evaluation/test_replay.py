"""Logs played through the real service: what is estimated is what it is said to be."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from prudent_simulator.client import Client
from prudent_simulator.offline_evaluation.campaign import CampaignOptions, campaign_of
from prudent_simulator.offline_evaluation.estimates import Session
from prudent_simulator.offline_evaluation.frozen import freeze
from prudent_simulator.offline_evaluation.measures import Measure
from prudent_simulator.offline_evaluation.reading import Log, LogError, Row, read_log
from prudent_simulator.offline_evaluation.shadow import look_in_shadow
from prudent_simulator.offline_evaluation.uniform import is_uniform, replay_uniform
from prudent_simulator.offline_evaluation.weighted import evaluate_weighted
from prudent_simulator.risks import gaussian_expectile

CAUTIOUS = CampaignOptions(downside_weight=9.0)


@pytest.fixture
def prudent(server_url: str) -> Iterator[Client]:
    with Client(server_url) as opened:
        yield opened


def log_of(tmp_path: Path, rows: Sequence[dict[str, Any]]) -> Log:
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return read_log(path)


def session_of(client: Client, log: Log, name: str, **changes: Any) -> tuple[Session, dict[str, Any]]:
    campaign_id = f"test-replay.{name}"
    body = campaign_of(log, CAUTIOUS, campaign_id) | changes
    created = client.create_campaign(body)
    measure = Measure.of_campaign(created["risk"])
    return Session(client, log, campaign_id, measure, campaign_id, resamples=200, seed=3), created


def test_a_replay_plays_what_a_live_campaign_plays(prudent: Client, tmp_path: Path) -> None:
    """Rewards that depend on the arm alone: the M matched rows are then exactly the first M rounds, live."""
    worth = {"a": 0.2, "b": 1.0, "c": 0.7}
    generator = np.random.default_rng(5)
    chosen = generator.choice(list(worth), size=400)
    log = log_of(tmp_path, [{"arm": arm, "reward": worth[arm], "propensity": 1 / 3} for arm in chosen])
    dials = {"algorithm": {"name": "linucb-cr", "noise_scale": 0.3, "warmup": 4}}
    session, created = session_of(prudent, log, "live-or-not", **dials)
    found = replay_uniform(session, [arm["arm_id"] for arm in created["arms"]], created["algorithm"]["warmup"])
    assert found.warmup_matched == 12
    assert 90 < found.matched < 180
    live = campaign_of(log, CAUTIOUS, "test-replay.live") | dials
    prudent.create_campaign(live)
    plays = dict.fromkeys(log.arms, 0)
    for number in range(found.matched):
        asked = {"campaign_id": "test-replay.live", "decision_id": f"test-replay.live.{number}"}
        (decision,) = prudent.select_parsed([asked])
        plays[decision.arm_id] += 1
        prudent.reward(decision.decision_id, worth[decision.arm_id])
    assert found.plays == plays
    earned = np.repeat([worth[arm] for arm in plays], list(plays.values()))
    assert found.policy.mean == pytest.approx(earned.mean())
    assert found.policy.risk == pytest.approx(stats.expectile(earned, alpha=0.1))
    assert prudent.model("test-replay.live-or-not")["observations"] == found.matched


def test_a_replay_learns_only_what_matches(prudent: Client, tmp_path: Path) -> None:
    """Rows that do not match are as if they had never been, with candidates that come and go."""
    generator = np.random.default_rng(6)
    rows = []
    for number in range(300):
        pair = [["a", "b"], ["b", "c"]][number % 2]
        features = {arm: generator.normal(size=2).round(3).tolist() for arm in pair}
        arm = str(generator.choice(pair))
        rows.append({"arm": arm, "reward": features[arm][0], "features": features, "propensity": 0.5})
    log = log_of(tmp_path, rows)
    session, created = session_of(prudent, log, "candidates")
    assert created["model"]["type"] == "shared"
    assert is_uniform(log.rows, 3)
    found = replay_uniform(session, [arm["arm_id"] for arm in created["arms"]], created["algorithm"]["warmup"])
    assert prudent.model("test-replay.candidates")["observations"] == found.matched
    assert sum(found.plays.values()) == found.matched
    assert 100 < found.matched < 200
    assert found.policy.mean > found.log.mean + 0.2  # the better of two draws


def test_only_uniform_choices_are_replayed() -> None:
    """Replaying any other log would be biased: equal propensities of 0.9 are no uniform choice between two."""
    assert is_uniform([Row(1, "a", 0.0, 0.5), Row(2, "b", 0.0, 0.5)], 2)
    assert not is_uniform([Row(1, "a", 0.0, 0.9), Row(2, "b", 0.0, 0.9)], 2)
    assert not is_uniform([Row(1, "a", 0.0, 0.5), Row(2, "b", 0.0, 0.4)], 2)
    assert not is_uniform([Row(1, "a", 0.0, None)], 1)
    assert not is_uniform([Row(1, "a", 0.0, 0.5), Row(2, "b", 0.0, 0.5)], 3)
    two, three = {"a": (0.0,), "b": (0.0,)}, {"a": (0.0,), "b": (0.0,), "c": (0.0,)}
    mixed = [Row(1, "a", 0.0, 0.5, None, two), Row(2, "a", 0.0, 1 / 3, None, three)]
    assert not is_uniform(mixed, 3)


@pytest.mark.parametrize(
    ("printed", "arms"),
    [([0.333] * 3, 3), ([0.33, 0.33], 3), ([0.333, 0.333, 0.334], 3), ([0.0294], 34), ([0.03], 34), ([1 / 34], 28)],
)
def test_rounded_propensities_are_equal_ones(printed: list[float], arms: int) -> None:
    """A log prints three digits, and may lack some of the arms: another estimator would be used without need."""
    assert is_uniform([Row(k, "a", 0.0, chance) for k, chance in enumerate(printed)], arms)
    listed = {str(k): (0.0,) for k in range(arms)}
    rows = [Row(k, "0", 0.0, chance, None, listed) for k, chance in enumerate(printed)]
    assert is_uniform(rows, arms) == (arms != 28)  # where all candidates are listed, none can be missing


def test_weights_and_values_by_hand(prudent: Client, tmp_path: Path) -> None:
    """The frozen campaign chooses b; the last five rows are weighed by hand."""
    fitted = [
        {"arm": arm, "reward": float(arm == "b") + 0.01 * k, "propensity": 0.5} for k in range(10) for arm in "ab"
    ]
    rest = [("a", 0.0, 0.6), ("b", 1.0, 0.4), ("b", 2.0, 0.5), ("a", 0.3, 0.6), ("b", -1.0, 0.25)]
    held_out = [{"arm": arm, "reward": reward, "propensity": chance} for arm, reward, chance in rest]
    session, _ = session_of(prudent, log_of(tmp_path, fitted + held_out), "by-hand")
    found = evaluate_weighted(session, 0.8)
    weights = np.array([0.0, 2.5, 2.0, 0.0, 4.0])
    rewards = np.array([reward for _, reward, _ in rest])
    assert (found.fitted, found.held_out, found.matched) == (20, 5, 3)
    assert found.effective_sample_size == pytest.approx(8.5**2 / (2.5**2 + 2.0**2 + 4.0**2))
    assert (found.mean_weight, found.weight_max) == (pytest.approx(1.7), 4.0)
    assert found.ips.mean == pytest.approx((2.5 + 4.0 - 4.0) / 5.0)
    assert found.snips.mean == pytest.approx(2.5 / 8.5)
    assert found.snips.risk == pytest.approx(stats.expectile(rewards, alpha=0.1, weights=weights))
    assert found.log.risk == pytest.approx(stats.expectile(rewards, alpha=0.1))
    assert found.gain == pytest.approx(found.snips.risk - found.log.risk)
    # IPS: v = 0.5 - 8 B(v); with B(v) = 0.8 (v + 1) below 1: v = (0.5 - 6.4) / 7.4
    assert found.ips.risk == pytest.approx(-5.9 / 7.4)


def test_a_frozen_campaign_does_not_learn_from_what_judges_it(prudent: Client, tmp_path: Path) -> None:
    """Learning from the rows that judge would judge too well."""
    rows = [{"arm": arm, "reward": 1.0, "context": [k / 10]} for k in range(30) for arm in "ab"]
    session, _ = session_of(prudent, log_of(tmp_path, rows), "frozen")
    frozen = freeze(session, 0.8)
    assert prudent.model("test-replay.frozen")["observations"] == len(frozen.fitted) == 48
    assert {reply.seen for reply in frozen.replies} == {48}
    assert {reply.reason for reply in frozen.replies} == {"greedy"}


def test_the_true_value_of_a_frozen_policy_is_in_the_interval(prudent: Client, tmp_path: Path) -> None:
    """A log that mostly chose the worse arm, more so in the bad cases; the better arm's law is known."""
    generator = np.random.default_rng(8)
    rows = []
    for _ in range(3000):
        bad = generator.random() < 0.5
        chance = 0.1 if bad else 0.5
        arm = "safe" if generator.random() < chance else "bold"
        noise = generator.standard_normal() * (0.5 if arm == "safe" else 3.0)
        reward = (1.0 if arm == "safe" else 1.5) + noise - (2.0 if bad else 0.0)
        rows.append({"arm": arm, "reward": reward, "propensity": chance if arm == "safe" else 1.0 - chance})
    session, _ = session_of(prudent, log_of(tmp_path, rows), "truth")
    frozen = evaluate_weighted(session, 0.2)
    law = np.concatenate([m + 0.5 * stats.norm.ppf((np.arange(50_000) + 0.5) / 50_000) for m in (1.0, -1.0)])
    truth = {"mean": 0.0, "risk": stats.expectile(law, alpha=0.1)}
    for value in (frozen.ips, frozen.snips):
        assert value.mean_interval is not None
        assert value.risk_interval is not None
        assert value.mean_interval[0] < truth["mean"] < value.mean_interval[1]
        assert value.risk_interval[0] < truth["risk"] < value.risk_interval[1]
    matched = np.array([row.reward for row in session.log.rows if row.arm == "safe"])
    assert matched.mean() > 0.4  # what would be found without the weights
    assert not frozen.unsupported
    assert frozen.gain_interval is not None
    assert frozen.gain_interval[0] > 0.0


def test_a_log_that_never_tried_the_choice_is_not_believed(prudent: Client, tmp_path: Path) -> None:
    """The campaign wants b in the last rows, where the log had stopped choosing it."""
    early = [{"arm": arm, "reward": float(arm == "b"), "propensity": 0.5} for _ in range(100) for arm in "ab"]
    late = [{"arm": "b" if k % 20 == 0 else "a", "reward": 0.5, "propensity": 0.5} for k in range(60)]
    session, _ = session_of(prudent, log_of(tmp_path, early + late), "unsupported")
    found = evaluate_weighted(session, 200 / 260)
    assert found.mean_weight == pytest.approx(0.1)
    assert found.unsupported


def test_nothing_to_judge_is_said(prudent: Client, tmp_path: Path) -> None:
    """A value of nan would be no answer."""
    early = [{"arm": arm, "reward": float(arm == "b"), "propensity": 0.5} for _ in range(10) for arm in "ab"]
    late = [{"arm": "a", "reward": 0.5, "propensity": 0.4} for _ in range(5)]
    session, _ = session_of(prudent, log_of(tmp_path, early + late), "nothing")
    with pytest.raises(LogError, match="in none of the last 5 rows"):
        evaluate_weighted(session, 0.8)
    short, _ = session_of(prudent, log_of(tmp_path, early[:9]), "short")
    with pytest.raises(LogError, match="has 9 rows; at least 10 are needed"):
        freeze(short, 0.8)


def incumbent_log(tmp_path: Path, shift: float) -> Log:
    """A good case gets `a`, another `b`; the last fifth of the rewards is moved by `shift`."""
    generator = np.random.default_rng(9)
    rows = []
    for number in range(2000):
        x = float(generator.uniform(-1.0, 1.0))
        arm = "a" if x > 0.0 else "b"
        noise = generator.standard_normal() - gaussian_expectile(0.1)
        reward = (2.0 * x if arm == "a" else -x) + noise + (shift if number >= 1600 else 0.0)
        rows.append({"arm": arm, "reward": reward, "context": [x]})
    return log_of(tmp_path, rows)


def test_calibration_finds_a_campaign_that_is_right_and_one_that_is_not(prudent: Client, tmp_path: Path) -> None:
    """Predictions of the logged arm are right until the world changes."""
    right, _ = session_of(prudent, incumbent_log(tmp_path, 0.0), "calibrated")
    found = look_in_shadow(right, 0.8)
    assert (found.fitted, found.held_out, found.overall.rows) == (1600, 400, 400)
    assert found.overall.calibrated
    assert abs(found.overall.off_by) < 0.25
    assert sum(group.rows for group in found.bins) == 400
    assert len(found.bins) >= 8
    assert sum(group.calibrated for group in found.bins) >= 0.7 * len(found.bins)
    ordered = [group.predicted for group in found.bins]
    assert ordered == sorted(ordered)
    wrong, _ = session_of(prudent, incumbent_log(tmp_path, -1.5), "not-calibrated")
    found = look_in_shadow(wrong, 0.8)
    assert found.overall.off_by == pytest.approx(-1.5, abs=0.3)
    assert not found.overall.calibrated


def test_recommendations_without_support_are_counted(prudent: Client, tmp_path: Path) -> None:
    """`a` was never used left of 0, nor `b` right of it: whatever is recommended there is an extrapolation."""
    log = incumbent_log(tmp_path, 0.0)
    session, _ = session_of(prudent, log, "support")
    found = look_in_shadow(session, 0.8)
    frozen = freeze(session_of(prudent, log, "support-again")[0], 0.8)
    far = [
        reply.arm_id
        for row, reply in zip(frozen.held_out, frozen.replies, strict=True)
        if row.context is not None and abs(row.context[0]) > 0.2 and reply.arm_id != row.arm
    ]
    counted = sum(found.never.values()) + sum(found.rarely.values())
    differ = round((1.0 - found.agreement) * found.held_out)
    assert len(far) <= counted <= differ
    assert found.agreement == frozen.agreement
    assert sum(found.recommended.values()) == sum(found.logged.values()) == 400
    assert found.compares_cases


def test_an_arm_that_was_never_used_has_no_support(prudent: Client, tmp_path: Path) -> None:
    """All rewards are losses, and an arm that nobody tried is estimated at 0."""
    rows = [{"arm": arm, "reward": -1.0 - 0.01 * (k % 7)} for k in range(100) for arm in "ab"]
    arms = [{"arm_id": arm} for arm in "abc"]
    optimistic = {"name": "linucb-cr", "exploration_rule": "optimistic"}  # the other rule expects what the rest had
    session, _ = session_of(prudent, log_of(tmp_path, rows), "untried", arms=arms, algorithm=optimistic)
    found = look_in_shadow(session, 0.8)
    assert found.never == {"c": 40}
    assert not found.compares_cases
