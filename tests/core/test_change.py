"""The alarm that the world changed: found, dated and sized in any unit, silent where nothing changes, a pure fold."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from prudent.campaigns import CampaignConfiguration, build_policy, resolve
from prudent.core.change import Change, ChangeWatch
from prudent.core.policy import Policy

EXPECTILE, CVAR = {"measure": "expectile", "level": 0.2}, {"measure": "cvar", "level": 0.25}
ALGORITHMS = [
    ("linucb", {"measure": "mean"}),
    ("linucb-cr", EXPECTILE),
    ("linucb-onepass-cr", EXPECTILE),
    ("linucb-ogd-cr", EXPECTILE),
    ("linucb-cr", CVAR),
    ("linucb-onepass-cr", CVAR),
]
MODELS: list[dict[str, Any]] = [
    {"type": "multi-armed"},
    {"type": "disjoint", "dimension": 2},
    {"type": "shared", "dimension": 2},
]
Row = tuple[np.ndarray[Any, Any], float, int]


def make_policy(
    model: dict[str, Any] = MODELS[0], name: str = "linucb", risk: dict[str, Any] | None = None, **algorithm: Any
) -> Policy:
    body = {
        "campaign_id": "c",
        "risk": risk or {"measure": "mean"},
        "model": model,
        "arms": [{"arm_id": "a"}, {"arm_id": "b"}],
        "algorithm": {"name": name} | algorithm,
    }
    configuration = resolve(CampaignConfiguration.model_validate(body))
    return build_policy(configuration, configuration, arms=2)


def world(count: int, shift: float, begins: int, dimension: int = 0, seed: int = 4) -> list[Row]:
    """Features, reward and arm of each round, the arms in turn; from a round on the first arm's rewards are shifted."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        x, arm = rng.normal(size=dimension), number % 2
        reward = 1.0 + 0.5 * x.sum() + rng.normal() + (shift if arm == 0 and number >= begins else 0.0)
        rows.append((x, float(reward), arm))
    return rows


def learn(policy: Policy, rows: Iterable[Row], *, first: int = 1, scale: float = 1.0, offset: float = 0.0) -> None:
    has_blocks = len(policy.estimator.theta) > 1
    for sequence, (x, reward, arm) in enumerate(rows, first):
        policy.observe(arm if has_blocks else 0, x, scale * reward + offset, arm, sequence)


@pytest.mark.parametrize(("name", "risk"), ALGORITHMS, ids=lambda value: str(value))
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model["type"])
def test_a_change_is_found_dated_and_sized(model: dict[str, Any], name: str, risk: dict[str, Any]) -> None:
    """A team must learn of it, for whichever arm and estimator, and from where to start again."""
    policy = make_policy(model, name, risk)
    learn(policy, world(1_000, -2.0, 600, model.get("dimension", 0)))
    changes = policy.change_watch.changes()
    change = changes[0]
    assert change.stands
    assert 560 <= change.since <= 640
    assert change.since < change.raised <= 700
    assert change.size == pytest.approx(-2.0, abs=0.7)
    assert change.spread == pytest.approx(1.0, abs=0.5)
    if model["type"] != "shared":  # where arms share a fit, it is wrong about both of them
        assert set(changes) == {0}


@pytest.mark.parametrize(("name", "risk"), ALGORITHMS, ids=lambda value: str(value))
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model["type"])
def test_where_nothing_changes_nothing_is_found(model: dict[str, Any], name: str, risk: dict[str, Any]) -> None:
    """An alarm that learning itself raises would soon be ignored."""
    policy = make_policy(model, name, risk)
    learn(policy, world(800, 0.0, 0, model.get("dimension", 0)))
    assert not policy.change_watch.changes()
    assert not policy.change_watch.stands


@pytest.mark.parametrize(("scale", "offset"), [(1.0, 1e6), (1.0, -1e3), (1e-6, 0.0), (1e6, 3.0)])
def test_unit_and_zero_of_rewards_change_no_alarm(scale: float, offset: float) -> None:
    """Minutes instead of seconds, or ratings about four, are the same world."""
    rows, policy, other = world(900, 1.5, 500), make_policy(), make_policy()
    learn(policy, rows)
    learn(other, rows, scale=scale, offset=offset)
    one, found = policy.change_watch.changes()[0], other.change_watch.changes()[0]
    assert (found.since, found.raised) == (one.since, one.raised)
    assert found.size == pytest.approx(scale * one.size, rel=1e-4)


def test_learning_a_change_is_not_another_one() -> None:
    """The estimate catches up for thousands of observations, and its residuals with it."""
    watch, theta = ChangeWatch(1, 1), 0.0
    rng, x = np.random.default_rng(1), np.ones(1)
    raised = set()
    for sequence in range(1, 6_001):
        reward = float(rng.normal()) + (3.0 if sequence > 500 else 0.0)
        is_due = watch.observe(0, x, reward, 0, sequence)
        theta += (reward - theta) / (sequence + 1)
        if is_due:
            watch.renew(0, np.array([theta]), 0.0)
        raised |= {change.raised for change in watch.changes().values()}
    assert len(raised) == 1
    assert not watch.stands


def test_a_second_change_is_found_too() -> None:
    """An alarm that is raised once and never again would miss that the world came back."""
    policy = make_policy()
    learn(policy, world(800, 3.0, 400))
    first = policy.change_watch.changes()[0]
    learn(policy, world(600, -3.0, 0, seed=5), first=801)
    second = policy.change_watch.changes()[0]
    assert first.size > 0.0 > second.size
    assert second.stands
    assert second.since > 790


def test_a_constant_that_changes() -> None:
    """Rewards without any spread have none to be measured in; what is only rounding is no change."""
    policy = make_policy()
    constant = [(np.zeros(0), 0.1, 0)] * 500
    learn(policy, constant)
    assert not policy.change_watch.changes()
    learn(policy, [(np.zeros(0), 0.2, 0)] * 60, first=501)
    assert policy.change_watch.changes()[0].since in range(501, 505)


def test_with_forgetting_an_alarm_ends() -> None:
    """Where the old world is forgotten, nothing is left to be done."""
    policy = make_policy(forgetting={"half_life": 100})
    rows = world(1_400, 2.0, 1_000)
    learn(policy, rows[:1_070])
    assert policy.change_watch.stands
    learn(policy, rows[1_070:], first=1_071)
    assert policy.change_watch.changes()
    assert not policy.change_watch.stands


@pytest.mark.parametrize("name", ["linucb", "linucb-onepass-cr"])
def test_with_forgetting_a_change_is_one_alarm_and_stands_for_a_half_life(name: str) -> None:
    """However long the campaign: the estimate's leap to the new world would be told as a second change."""
    policy = make_policy(name=name, forgetting={"half_life": 200})
    rows, raised, stood = world(9_000, 3.0, 6_000), set(), 0
    for sequence, (x, reward, arm) in enumerate(rows, 1):
        policy.observe(arm, x, reward, arm, sequence)
        raised |= {change.raised for change in policy.change_watch.changes().values()}
        stood += policy.change_watch.stands
    assert len(raised) == 1
    assert 100 < stood < 250


def test_a_state_tells_what_was_forgotten() -> None:
    """A worker that begins at a snapshot must end an alarm when the others do; older snapshots do not say it."""
    watch, other = ChangeWatch(1, 1), ChangeWatch(1, 1)
    rng, x = np.random.default_rng(1), np.ones(1)
    watch.renew(0, np.zeros(1), 0.0)
    for sequence in range(1, 200):
        watch.observe(0, x, float(rng.normal()), 0, sequence)
        assert "change_weights" not in watch.arrays()
    watch.forget(0.5, 8)
    arrays = watch.arrays()
    assert arrays["change_weights"].max() == 0.5 * arrays["change_streams"][1, 0]
    other.load(arrays)
    for sequence in range(200, 300):
        for one in (watch, other):
            one.observe(0, x, 3.0, 0, sequence)
    assert other.changes() == watch.changes()
    assert watch.changes()[0].before < 101.0  # and not all 200
    del arrays["change_weights"]
    other.load(arrays)
    assert "change_weights" not in other.arrays()


def test_arms_that_are_not_registered_are_watched_together() -> None:
    """A shared model may know no arm by name, and its world changes as well."""
    policy = make_policy(MODELS[2])
    for sequence, (x, reward, _) in enumerate(world(600, 0.0, 0, 2), 1):
        policy.observe(0, x, reward + (3.0 if sequence > 400 else 0.0), None, sequence)
    assert set(policy.change_watch.changes()) == {None}


@pytest.mark.parametrize("name", ["linucb", "linucb-onepass-cr"])
def test_a_mark_a_snapshot_and_selects_in_between_change_nothing(name: str) -> None:
    """Workers, replays and snapshots must raise the same alarm, whatever was asked for meanwhile."""
    rows = world(900, -2.0, 500, 2)
    plain, busy = make_policy(MODELS[1], name), make_policy(MODELS[1], name)
    learn(plain, rows)
    learn(busy, rows[:520])
    busy.mark()
    learn(busy, rows[:200], first=521)  # a transaction that is rolled back
    busy.restore()
    for start in range(520, 700, 20):
        learn(busy, rows[start : start + 20], first=start + 1)
        busy.refresh()
    dumped = busy.dump()
    loaded = make_policy(MODELS[1], name)
    loaded.add_arm(has_block=True)  # it came after the snapshot
    assert dumped is not None
    loaded.load(dumped)
    learn(loaded, rows[700:], first=701)
    expected = plain.change_watch.changes()
    assert loaded.change_watch.changes() == expected
    assert set(expected) == {0}


def test_what_is_no_state_is_refused() -> None:
    """A damaged snapshot must lead to a fold of the log, not to a wrong alarm."""
    watch = ChangeWatch(1, 2)
    for sequence in range(1, 100):
        if watch.observe(0, np.ones(2), float(sequence % 7), 1, sequence):
            watch.renew(0, np.full(2, 1.5), 0.0)
    arrays = watch.arrays()
    for name in arrays:
        broken = {key: value for key, value in arrays.items() if key != name}
        with pytest.raises((KeyError, ValueError)):
            ChangeWatch(1, 2).load(broken)
    with pytest.raises(ValueError, match="more arms"):
        ChangeWatch(1, 1).load(arrays)
    again = ChangeWatch(1, 2)
    again.load(arrays)
    assert all((again.arrays()[name] == value).all() for name, value in arrays.items())


def test_a_change_stands_while_most_is_from_before() -> None:
    """The gauge and the page count changes that something can still be done about."""
    change = Change(10, 20, 1.0, 1.0, 5.0, 4.0)
    assert change.stands
    assert change.echo > 0.0
    assert not change._replace(after=6.0).stands
    assert change._replace(before=0.0).echo == 0.0
