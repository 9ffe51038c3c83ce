"""Which combinations make a campaign, and what is filled in."""

import json
import math

import pytest

from prudent.campaigns import (
    AlgorithmChange,
    InvalidConfigurationError,
    repeats_creation,
    resolve,
    resolve_change,
    stored,
)
from tests.campaigns.configurations import BOUNDS, Json, refused, requested, resolved

CAUTIOUS = {"measure": "entropic", "gamma": -1}


# Rewards


@pytest.mark.parametrize(
    ("reward", "missing"), [({}, "minimum"), ({"minimum": 0}, "maximum"), ({"maximum": 1}, "minimum")]
)
def test_entropic_needs_reward_bounds(reward: Json, missing: str) -> None:
    """Without bounds one outlier would overflow the exponential and end the learning."""
    assert refused(risk=CAUTIOUS, reward=reward).field == f"reward.{missing}"


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("gamma", "reward", "algorithm", "accepted"),
    [
        (3, BOUNDS, {}, True),
        (3.001, BOUNDS, {}, False),
        (0.015, {"minimum": -1000, "maximum": 1000}, {}, True),
        (0.01501, {"minimum": -1000, "maximum": 1000}, {}, False),
        (2, BOUNDS, {"parameter_bound": 5}, True),  # max(hi + L S, L S - lo) = 15
        (2, BOUNDS, {"parameter_bound": 5.01}, False),
        (2, BOUNDS, {"parameter_bound": 2.5, "feature_bound": 2}, True),
        (2, BOUNDS, {"parameter_bound": 2.5, "feature_bound": 2.01}, False),
        (2, {"minimum": -10, "maximum": 0}, {"parameter_bound": 5}, True),
        (2, {"minimum": -10, "maximum": 0}, {"parameter_bound": 5.01}, False),
        (1e6, {"minimum": -1e9, "maximum": 1e9}, {}, False),
        (1, BOUNDS, {"parameter_bound": 1e12, "feature_bound": 1e12}, False),
    ],
)
def test_exponent_is_bounded(sign: int, gamma: float, reward: Json, algorithm: Json, accepted: bool) -> None:
    """The loss's curvatures would differ by more than a float can hold, and no arm would ever be learned."""
    request = {"risk": {"measure": "entropic", "gamma": sign * gamma}, "reward": reward, "algorithm": algorithm}
    if accepted:
        resolved(**request)
        return
    error = refused(**request)
    assert error.field == "risk.gamma"
    assert "30" in error.message


@pytest.mark.parametrize(
    ("reward", "field"),
    [
        ({"minimum": 1, "maximum": 1}, "reward.maximum"),
        ({"minimum": 2, "maximum": 1}, "reward.maximum"),
        ({"default": 0}, "reward.timeout_seconds"),
        ({"default": -1, "timeout_seconds": 1, "minimum": 0}, "reward.default"),
        ({"default": 2, "timeout_seconds": 1, "maximum": 1}, "reward.default"),
    ],
    ids=str,
)
def test_reward_rules_that_contradict_each_other(reward: Json, field: str) -> None:
    """A default outside the bounds would be learned where the same reward is refused."""
    assert refused(reward=reward).field == field


def test_reward_rules_that_agree() -> None:
    """A deadline without a default, or one bound alone, would be refused."""
    for reward in ({"timeout_seconds": 5}, {"timeout_seconds": 5, "default": 0, "minimum": 0}, {"maximum": 3}):
        given = resolved(reward=reward).reward.model_dump(exclude_unset=True)
        assert given == reward


# Algorithm


def test_linucb_is_for_the_mean() -> None:
    """A cautious campaign would run the one method that cannot be cautious."""
    assert resolved(algorithm={"name": "linucb"}).algorithm.name == "linucb"
    for risk in ({"measure": "expectile", "level": 0.1}, CAUTIOUS, {"measure": "expectile", "level": 0.5}):
        error = refused(risk=risk, reward=BOUNDS, algorithm={"name": "linucb"})
        assert error.field == "algorithm.name"
        assert "linucb-cr" in error.message


@pytest.mark.parametrize(
    ("name", "value"), [("episode_length", 5), ("step_size", 0.1), ("step_schedule", "theory"), ("ogd_bonus", 0.5)]
)
@pytest.mark.parametrize("algorithm", ["linucb", "linucb-cr", "linucb-onepass-cr"])
def test_settings_of_gradient_descent(algorithm: str, name: str, value: object) -> None:
    """A setting would be accepted by a method that does not have it, and do nothing."""
    assert refused(algorithm={"name": algorithm, name: value}).field == f"algorithm.{name}"
    assert getattr(resolved(algorithm={"name": "linucb-ogd-cr", name: value}).algorithm, name) == value


def test_steps_of_gradient_descent_under_the_entropic_loss() -> None:
    """The steps would be so short that nothing is learned, or depend on the unit of the rewards."""
    ask: Json = {"name": "linucb-ogd-cr", "feature_bound": 2}
    for gamma in (-0.5, 0.002):
        risk = {"measure": "entropic", "gamma": gamma}
        algorithm = resolved(risk=risk, reward=BOUNDS, algorithm=ask).algorithm
        assert algorithm.step_schedule == "harmonic"
        assert algorithm.step_size == pytest.approx(0.1 / (abs(gamma) * 4), rel=1e-12)
        given = ask | {"step_schedule": "theory", "step_size": 7}
        algorithm = resolved(risk=risk, reward=BOUNDS, algorithm=given).algorithm
        assert (algorithm.step_schedule, algorithm.step_size) == ("theory", 7)
    tiny, small = {"measure": "entropic", "gamma": 1e-9}, ask | {"feature_bound": 1e-9}
    assert resolved(risk=tiny, reward=BOUNDS, algorithm=small).algorithm.step_size == 1e12


def test_defaults_that_depend_on_the_rest() -> None:
    """A campaign would show null where a number is used, or use another number than it shows."""
    plain = resolved().algorithm
    assert (plain.regularization, plain.radius, plain.episode_length) == (1, None, None)
    assert resolved(risk={"measure": "entropic", "gamma": -0.5}, reward=BOUNDS).algorithm.regularization == 0.05
    assert resolved(risk=CAUTIOUS, reward=BOUNDS, algorithm={"regularization": 2}).algorithm.regularization == 2
    descent = resolved(algorithm={"name": "linucb-ogd-cr"}).algorithm
    assert (descent.episode_length, descent.step_size, descent.step_schedule) == (5, 0.1, "theory")
    assert (descent.ogd_bonus, plain.ogd_bonus) == (0, None)
    for model in ({"type": "disjoint", "dimension": 2}, {"type": "multi-armed"}):
        assert resolved(model=model).algorithm.radius == "per-arm"
        assert resolved(model=model, algorithm={"radius": "joint"}).algorithm.radius == "joint"
    assert refused(algorithm={"radius": "joint"}).field == "algorithm.radius"
    for name in ("noise_scale", "conditioning", "parameter_bound"):
        assert getattr(plain, name) is None  # these depend on the data


@pytest.mark.parametrize(
    ("accepted", "request_"),
    [
        (True, {"algorithm": {"conditioning": "theory"}}),
        (True, {"algorithm": {"conditioning": 7.5}}),
        (True, {"algorithm": {"name": "linucb", "conditioning": 1}}),
        (True, {"algorithm": {"name": "linucb", "conditioning": "theory"}}),
        (False, {"algorithm": {"name": "linucb", "conditioning": 2}}),
        (False, {"algorithm": {"name": "linucb", "conditioning": "self-concordant", "parameter_bound": 1}}),
        (False, {"algorithm": {"conditioning": "self-concordant", "parameter_bound": 1}}),
        (False, {"risk": {"measure": "expectile", "level": 0.1}, "algorithm": {"conditioning": "self-concordant"}}),
        (False, {"risk": CAUTIOUS, "reward": BOUNDS, "algorithm": {"conditioning": "self-concordant"}}),
        (
            True,
            {
                "risk": CAUTIOUS,
                "reward": BOUNDS,
                "algorithm": {"conditioning": "self-concordant", "parameter_bound": 1},
            },
        ),
    ],
    ids=str,
)
def test_conditioning(accepted: bool, request_: Json) -> None:
    """A constant that holds for one loss alone would be used with another."""
    if accepted:
        assert resolved(**request_).algorithm.conditioning == request_["algorithm"]["conditioning"]
    else:
        assert refused(**request_).field == "algorithm.conditioning"


# Model and arms


@pytest.mark.parametrize(
    ("dimension", "intercept", "arms", "accepted"),
    [
        (512, False, 15, True),
        (512, False, 16, False),
        (512, True, 15, True),
        (511, True, 15, True),
        (511, True, 16, False),
        (63, False, 1_000, True),
        (63, True, 1_000, False),
        (62, True, 1_000, True),
    ],
)
def test_size_of_a_disjoint_model(dimension: int, intercept: bool, arms: int, accepted: bool) -> None:
    """One campaign could take all the memory there is."""
    assert accepted is (arms * (dimension + intercept) ** 2 <= 4_000_000)
    request = {
        "model": {"type": "disjoint", "dimension": dimension, "intercept": intercept},
        "arms": [{"arm_id": f"arm-{number}"} for number in range(arms)],
    }
    if accepted:
        resolved(**request)
    else:
        error = refused(**request)
        assert error.field == "model.dimension"
        assert "4000000" in error.message
    resolved(**request | {"model": {"type": "shared", "dimension": dimension, "intercept": intercept}})


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        ({"arms": [{"arm_id": "a"}, {"arm_id": "b"}, {"arm_id": "a"}]}, "arms.2.arm_id"),
        ({"arms": [{"arm_id": "a", "features": [1, 2, 3]}]}, "arms.0.features"),
        ({"arms": [{"arm_id": "a"}, {"arm_id": "b", "features": [1]}]}, "arms.1.features"),
        (
            {"model": {"type": "disjoint", "dimension": 2}, "arms": [{"arm_id": "a", "features": [1, 2]}]},
            "arms.0.features",
        ),
        ({"model": {"type": "multi-armed"}, "arms": [{"arm_id": "a", "features": [1]}]}, "arms.0.features"),
        ({"model": {"type": "shared", "dimension": 2, "features": [{"name": "x"}]}}, "model.dimension"),
        (
            {"model": {"type": "disjoint", "dimension": 1, "features": [{"name": "x"}, {"name": "y"}]}},
            "model.dimension",
        ),
        ({"model": {"type": "shared", "dimension": 2, "features": [{"name": "x"}, {"name": "x"}]}}, "model.features"),
    ],
    ids=str,
)
def test_model_and_arms_that_do_not_fit(request_: Json, field: str) -> None:
    """A campaign would be made that no request fits."""
    assert refused(**request_).field == field


# Changes


@pytest.mark.parametrize(
    ("changes", "change"),
    [
        ({}, {"noise_scale": 2.5}),
        ({"algorithm": {"noise_scale": 2.5}}, {"noise_scale": None}),
        ({}, {"exploration": 0, "delta": 0.5}),
        ({}, {"bonus": "global"}),
        ({}, {"conditioning": "theory"}),
        ({"algorithm": {"conditioning": "theory"}}, {"conditioning": None}),
        ({}, {"warmup": 0}),
        ({}, {}),
    ],
    ids=str,
)
def test_change_touches_what_it_names(changes: Json, change: Json) -> None:
    """Turning one dial would reset the others to their defaults."""
    start = {"exploration": 3, "delta": 0.3, "bonus": "local", "warmup": 5, "regularization": 0.5} | changes.get(
        "algorithm", {}
    )
    current = resolved(algorithm=start)
    after = resolve_change(current, AlgorithmChange.model_validate_json(json.dumps(change)))
    expected = current.model_dump()
    expected["algorithm"] |= change
    assert after.model_dump() == expected
    assert resolve(after) == after


def test_change_that_makes_no_sense() -> None:
    """A running campaign could be changed into one that could not have been created."""
    current = resolved(risk={"measure": "expectile", "level": 0.2})
    for change in ({"conditioning": "self-concordant"},):
        with pytest.raises(InvalidConfigurationError) as caught:
            resolve_change(current, AlgorithmChange.model_validate_json(json.dumps(change)))
        assert caught.value.field == "algorithm.conditioning"
    with pytest.raises(InvalidConfigurationError):
        resolve_change(resolved(algorithm={"name": "linucb"}), AlgorithmChange(conditioning=2.0))


@pytest.mark.parametrize("algorithm", [{}, {"noise_scale": 0.5}, {"forgetting": {"half_life": 50}}])
def test_campaigns_from_before_fits_could_end_stay_exact(algorithm: Json) -> None:
    """An upgrade would end the exact fits of campaigns whose owners never heard of it."""
    request = requested(algorithm=algorithm)
    text = json.loads(resolve(request).model_dump_json())
    del text["algorithm"]["exact_until"]
    old = json.dumps(text)
    assert repeats_creation(request, old)
    assert not repeats_creation(requested(algorithm=algorithm | {"exact_until": 10_000}), old)
    kept = stored(old)
    assert kept.algorithm.exact_until is None
    assert resolve(kept) == kept
    after = resolve_change(kept, AlgorithmChange(exploration=0.5))
    assert after.algorithm.exact_until is None
    assert resolve_change(after, AlgorithmChange(exact_until=500)).algorithm.exact_until == 500
    paper = json.loads(resolve(requested(algorithm=algorithm | {"exploration_rule": "optimistic"})).model_dump_json())
    for name in ("exact_until", "exploration_rule", "floor"):
        del paper["algorithm"][name]
    assert stored(json.dumps(paper)).algorithm.exact_until is None
    assert repeats_creation(request, json.dumps(paper))


def test_resolving_leaves_the_request_alone() -> None:
    """The request kept for comparing with a retry would change under the comparison."""
    request = requested(risk={"measure": "expectile", "level": 0.3}, arms=[{"arm_id": "a"}])
    before = request.model_dump_json()
    resolve(request)
    assert request.model_dump_json() == before
    assert math.isfinite(json.loads(before)["risk"]["level"])
