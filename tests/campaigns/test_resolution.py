"""Which combinations make a campaign, and what is filled in."""

import json
import math
import random
from typing import Any

import pytest

from prudent.campaigns import AlgorithmChange, CampaignConfiguration, InvalidConfigurationError, resolve, resolve_change

Json = dict[str, Any]
BOUNDS = {"minimum": 0, "maximum": 10}
CAUTIOUS = {"measure": "entropic", "gamma": -1}


def requested(**changes: Any) -> CampaignConfiguration:
    """A request as it comes in: JSON text, read strictly."""
    body = {"campaign_id": "test", "risk": {"measure": "mean"}, "model": {"type": "shared", "dimension": 2}} | changes
    return CampaignConfiguration.model_validate_json(json.dumps(body))


def resolved(**changes: Any) -> CampaignConfiguration:
    """The resolved request, which must be a resolved request itself, unchanged by resolving it and by JSON."""
    once = resolve(requested(**changes))
    text = once.model_dump_json()
    again = resolve(CampaignConfiguration.model_validate_json(text))
    assert again == once
    assert again.model_dump_json() == text
    return once


def refused(**changes: Any) -> InvalidConfigurationError:
    """Why the request, which fits the schema, makes no campaign."""
    with pytest.raises(InvalidConfigurationError) as caught:
        resolve(requested(**changes))
    assert caught.value.message == str(caught.value)
    return caught.value


# Risk


@pytest.mark.parametrize(
    ("risk", "level", "weight"),
    [
        ({"level": 0.1}, 0.1, 9),
        ({"downside_weight": 9}, 0.1, 9),
        ({"level": 0.5}, 0.5, 1),
        ({"downside_weight": 0.25}, 0.8, 0.25),
        ({"level": 0.1, "downside_weight": 9}, 0.1, 9),
        ({"level": 1e-6}, 1e-6, 999_999),
        ({"level": 1 - 1e-6}, 1 - 1e-6, 1.000001e-6),
        ({"downside_weight": 999_999}, 1e-6, 999_999),
    ],
)
def test_both_forms_of_a_level(risk: Json, level: float, weight: float) -> None:
    """A shortfall would count for more, or less, than was asked for."""
    found = resolved(risk={"measure": "expectile", **risk}).risk
    assert found.model_dump() == {
        "measure": "expectile",
        "level": pytest.approx(level, rel=1e-12),
        "downside_weight": pytest.approx(weight, rel=1e-9),
    }
    for name, value in risk.items():
        assert getattr(found, name) == value  # what was given is kept to the last bit


@pytest.mark.parametrize(
    ("risk", "gamma", "tolerance"),
    [
        ({"gamma": -0.5}, -0.5, 2),
        ({"risk_tolerance": 2}, -0.5, 2),
        ({"gamma": 0.25}, 0.25, -4),
        ({"risk_tolerance": -4}, 0.25, -4),
        ({"gamma": -0.5, "risk_tolerance": 2}, -0.5, 2),
        ({"gamma": 1e-9}, 1e-9, -1e9),
        ({"risk_tolerance": 1e9}, -1e-9, 1e9),
    ],
)
def test_both_forms_of_an_aversion(risk: Json, gamma: float, tolerance: float) -> None:
    """A risk tolerance would have the wrong sign: a cautious campaign would seek risk."""
    found = resolved(risk={"measure": "entropic", **risk}, reward=BOUNDS).risk
    assert found.model_dump() == {
        "measure": "entropic",
        "gamma": pytest.approx(gamma, rel=1e-12),
        "risk_tolerance": pytest.approx(tolerance, rel=1e-12),
    }


@pytest.mark.parametrize(
    ("risk", "field"),
    [
        ({"measure": "expectile"}, "risk.level"),
        ({"measure": "entropic"}, "risk.gamma"),
        ({"measure": "expectile", "level": 0.1, "downside_weight": 8}, "risk.downside_weight"),
        ({"measure": "entropic", "gamma": -0.5, "risk_tolerance": -2}, "risk.risk_tolerance"),
        ({"measure": "entropic", "gamma": 0}, "risk.gamma"),
        ({"measure": "entropic", "gamma": 1e-10}, "risk.gamma"),
        ({"measure": "entropic", "gamma": 5e-324}, "risk.gamma"),
        ({"measure": "entropic", "risk_tolerance": 0}, "risk.risk_tolerance"),
        ({"measure": "entropic", "risk_tolerance": -1e-7}, "risk.risk_tolerance"),
        ({"measure": "expectile", "downside_weight": 1e6}, "risk.downside_weight"),
        ({"measure": "expectile", "downside_weight": 1e-6}, "risk.downside_weight"),
    ],
    ids=str,
)
def test_risk_that_is_none(risk: Json, field: str) -> None:
    """Half a risk measure, or two that disagree, would be guessed at."""
    assert refused(risk=risk, reward=BOUNDS).field == field


ABOVE = {"measure": "moment", "of": "above", "threshold": 1}


@pytest.mark.parametrize(
    ("risk", "field"),
    [
        ({"measure": "moment", "of": "above"}, "risk.threshold"),
        ({"measure": "moment", "of": "capped", "lower": 1}, "risk.upper"),
        ({"measure": "moment", "of": "capped", "lower": 1, "upper": 1}, "risk.upper"),
        ({"measure": "moment", "of": "gain-loss", "reference": 1}, "risk.factor"),
        (ABOVE | {"exponent": 2}, "risk.exponent"),
        ({"measure": "moment", "of": "log", "threshold": 1}, "risk.threshold"),
    ],
    ids=str,
)
def test_moment_with_the_parameters_of_another(risk: Json, field: str) -> None:
    """A target that is missing would be guessed, and one that is not used would be believed to count."""
    assert refused(risk=risk, reward={"minimum": 1, "maximum": 10}).field == field


@pytest.mark.parametrize("kind", ["log", "power"])
@pytest.mark.parametrize("minimum", [None, -1, 0, 0.5])
def test_moment_that_some_rewards_do_not_have(kind: str, minimum: float | None) -> None:
    """The first reward of 0 would have no logarithm, after the campaign had learned for a year."""
    risk = {"measure": "moment", "of": kind} | ({"exponent": 0.5} if kind == "power" else {})
    if minimum is not None and (minimum > 0 or (kind == "power" and minimum == 0)):
        resolved(risk=risk, reward={"minimum": minimum})
    else:
        assert refused(risk=risk, reward={"minimum": minimum}).field == "reward.minimum"


STAGED = [
    {"measure": "cvar", "level": 0.1},
    {"measure": "quantile", "level": 0.1},
    {"measure": "mean-variance", "aversion": 1.5},
    {"measure": "mean-variance", "aversion": 1.5, "of": "variance"},
]


@pytest.mark.parametrize("risk", STAGED, ids=str)
def test_measures_in_stages_have_two_algorithms(risk: Json) -> None:
    """A campaign would be accepted whose algorithm cannot learn its measure, or claims a theory that it has not."""
    for name in ("linucb-cr", "linucb-onepass-cr"):
        assert resolved(risk=risk, algorithm={"name": name}).risk.model_dump().items() >= risk.items()
        assert resolved(risk=risk, algorithm={"name": name, "conditioning": 1}).algorithm.conditioning == 1
        for conditioning in ("theory", "self-concordant", 2):
            error = refused(risk=risk, algorithm={"name": name, "conditioning": conditioning, "parameter_bound": 1})
            assert error.field == "algorithm.conditioning"
    for name in ("linucb", "linucb-ogd-cr"):
        error = refused(risk=risk, algorithm={"name": name})
        assert error.field == "algorithm.name"
        assert "linucb-cr" in error.message
        assert "linucb-onepass-cr" in error.message


def test_moments_are_means_of_something_else() -> None:
    """A target would need an algorithm of its own, or be learned by one that knows the reward only."""
    for name in ("linucb-cr", "linucb-onepass-cr", "linucb-ogd-cr"):
        assert resolved(risk=ABOVE, algorithm={"name": name}).algorithm.regularization == 1
    assert refused(risk=ABOVE, algorithm={"name": "linucb"}).field == "algorithm.name"


def test_every_accepted_risk_survives_its_reply() -> None:
    """A campaign would be accepted whose own description no server accepts, or reads back as another one."""
    draw = random.Random(20_261_128)  # noqa: S311  # a test's seed
    for _ in range(300):
        level = 1 / (1 + 10 ** draw.uniform(-5.9, 5.9))
        gamma = 10 ** draw.uniform(-9, 6) * draw.choice((1, -1))
        reward = {"minimum": 0, "maximum": min(1e9, 29 / abs(gamma))}
        resolved(risk={"measure": "expectile", "level": level})
        resolved(risk={"measure": "expectile", "downside_weight": 1 / level - 1})
        resolved(risk={"measure": "entropic", "gamma": gamma}, reward=reward)
        resolved(risk={"measure": "entropic", "risk_tolerance": min(1e9, max(1e-6, 1 / abs(gamma)))}, reward=reward)


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


def test_resolving_leaves_the_request_alone() -> None:
    """The request kept for comparing with a retry would change under the comparison."""
    request = requested(risk={"measure": "expectile", "level": 0.3}, arms=[{"arm_id": "a"}])
    before = request.model_dump_json()
    resolve(request)
    assert request.model_dump_json() == before
    assert math.isfinite(json.loads(before)["risk"]["level"])
