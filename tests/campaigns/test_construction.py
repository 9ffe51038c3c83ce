"""From a resolved configuration to a policy."""

import json
from typing import Any

import numpy as np
import pytest

from prudent.campaigns import CampaignConfiguration, build_policy, index_settings, resolve
from prudent.campaigns.configuration import UNION_TAGS
from prudent.core.estimators import ExactMinimizer, OnePass, OnlineGradient, Ridge
from prudent.core.measures import MEASURES, Entropic, Expectile, Mean


def resolved(**changes: Any) -> CampaignConfiguration:
    """A resolved campaign."""
    body = {"campaign_id": "test", "risk": {"measure": "mean"}, "model": {"type": "shared", "dimension": 2}} | changes
    return resolve(CampaignConfiguration.model_validate_json(json.dumps(body)))


@pytest.mark.parametrize(
    ("changes", "kind", "fields"),
    [
        ({}, Mean, {}),
        ({"risk": {"measure": "expectile", "downside_weight": 4}}, Expectile, {"level": 0.2}),
        (
            {"risk": {"measure": "entropic", "risk_tolerance": 2}, "reward": {"minimum": -1, "maximum": 3}},
            Entropic,
            {"gamma": -0.5, "minimum": -1, "maximum": 3},
        ),
    ],
)
def test_measure(changes: Any, kind: type, fields: dict[str, float]) -> None:
    """A campaign would learn another risk measure than it was created with."""
    configuration = resolved(**changes)
    measure = configuration.measure()
    assert type(measure) is kind
    assert measure.name == configuration.risk.measure
    assert {name: getattr(measure, name) for name in fields} == pytest.approx(fields)


def test_every_measure_has_a_configuration() -> None:
    """A measure would exist that no campaign can name, or a path of an error show a tag as if it were a field."""
    assert set(UNION_TAGS["risk"]) == {measure.name for measure in MEASURES}
    assert UNION_TAGS["model"] == ["shared", "disjoint", "multi-armed"]


@pytest.mark.parametrize("name", ["linucb", "linucb-cr", "linucb-ogd-cr", "linucb-onepass-cr"])
@pytest.mark.parametrize(
    ("model", "arms", "shape", "features"),
    [
        ({"type": "shared", "dimension": 2, "intercept": False}, 3, (1, 2), [[1.0, 2.0]]),
        ({"type": "shared", "dimension": 2}, 3, (1, 3), [[1.0, 2.0, 1.0]]),
        ({"type": "disjoint", "dimension": 2}, 3, (3, 3), [[1.0, 2.0, 1.0]]),
        ({"type": "disjoint", "dimension": 2, "intercept": False}, 3, (3, 2), [[1.0, 2.0]]),
        ({"type": "multi-armed"}, 3, (3, 1), [[1.0]]),
        ({"type": "multi-armed"}, 0, (0, 1), [[1.0]]),
    ],
)
def test_shape(name: str, model: Any, arms: int, shape: tuple[int, int], features: list[list[float]]) -> None:
    """An arm would share its parameter with another one, or the intercept be missing."""
    request = resolved(model=model, arms=[{"arm_id": str(number)} for number in range(arms)], algorithm={"name": name})
    policy = build_policy(request, request, arms=arms)
    assert policy.estimator.theta.shape == shape
    sent = np.array([[1.0, 2.0]])[:, : policy.feature_map.dimension]
    assert policy.feature_map(sent).tolist() == features


def test_features_are_centred_and_scaled() -> None:
    """Age 67 with centre 50 and scale 17 would not be 1."""
    declared = [{"name": "age", "center": 50, "scale": 17}, {"name": "dose", "scale": 1}]
    request = resolved(model={"type": "shared", "dimension": 2, "features": declared, "intercept": True})
    policy = build_policy(request, request, arms=0)
    assert policy.feature_map(np.array([67.0, 3.0])).tolist() == [1, 3, 1]


def test_each_algorithm_has_its_estimator() -> None:
    """A campaign would run another algorithm than its description says, or ignore its ball or its start."""
    kinds = {
        "linucb": Ridge,
        "linucb-cr": ExactMinimizer,
        "linucb-ogd-cr": OnlineGradient,
        "linucb-onepass-cr": OnePass,
    }
    arms = [{"arm_id": "a"}, {"arm_id": "b"}]
    for name, kind in kinds.items():
        for projection in (True, False):
            algorithm = {"name": name, "parameter_bound": 2, "projection": projection, "warmup": 3}
            request = resolved(algorithm=algorithm, arms=arms)
            estimator = build_policy(request, request, arms=2).estimator
            assert type(estimator) is kind
            if not isinstance(estimator, Ridge):
                assert estimator.bound == (2 if projection else None)
            if isinstance(estimator, OnlineGradient | OnePass):
                assert estimator.start_observations == 6


@pytest.mark.parametrize(
    ("model", "blocks"),
    [
        ({"type": "shared", "dimension": 2, "intercept": False}, None),
        ({"type": "disjoint", "dimension": 2}, [0, 1]),
    ],
)
def test_the_bonus_of_gradient_descent_gains_the_norm(model: Any, blocks: list[int] | None) -> None:
    """Somebody who knows how far descent is from the exact estimate would be ignored."""
    arms = [{"arm_id": "a"}, {"arm_id": "b"}]
    features = np.array([[3.0, 4.0], [0.0, 0.5]]) if blocks is None else np.array([3.0, 4.0])
    bonuses = []
    for weight in (0, 0.25):
        request = resolved(model=model, arms=arms, algorithm={"name": "linucb-ogd-cr", "ogd_bonus": weight})
        policy = build_policy(request, request, arms=2)
        bonuses.append(policy.score(features, None if blocks is None else np.array(blocks)).bonuses)
    norms = [5.0, 0.5] if blocks is None else [26**0.5] * 2  # the disjoint model has an intercept
    np.testing.assert_allclose(bonuses[1] - bonuses[0], 0.25 * np.array(norms), rtol=1e-12)


@pytest.mark.parametrize("name", ["linucb-ogd-cr", "linucb-onepass-cr"])
def test_change_acts_on_the_index_alone(name: str) -> None:
    """After a change, a restart would learn another model from the same log."""
    creation = resolved(algorithm={"name": name, "warmup": 3}, arms=[{"arm_id": "a"}])
    changed = {
        "warmup": 50,
        "delta": 0.5,
        "noise_scale": 3.0,
        "bonus": "global",
        "exploration": 0.0,
        "conditioning": 2.0,
    }
    current = creation.model_copy(update={"algorithm": creation.algorithm.model_copy(update=changed)})
    before, after = (build_policy(creation, now, arms=1) for now in (creation, current))
    for policy in (before, after):
        for number in range(20):
            policy.observe(0, np.array([1.0, number / 20]), float(number))
    assert before.dump() == after.dump()
    settings = index_settings(current)
    assert after.confidence.settings == settings
    assert (settings.delta, settings.noise_scale, settings.bonus, settings.conditioning) == (0.5, 3, "global", 2)
    assert (before.exploration, after.exploration) == (1, 0)
