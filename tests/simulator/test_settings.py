"""The requests: what the service is told about the paper's experiments."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from prudent_simulator.environments import Environment, Sampler, environment_of
from prudent_simulator.published import EXPECTED, PUBLISHED, expected_value, published_value
from prudent_simulator.settings import (
    AlgorithmName,
    Bonus,
    CampaignPlan,
    Layout,
    Settings,
    StepSchedule,
    algorithm_request,
    arm_ids,
    campaign_seed,
    paper_settings,
    select_candidates,
)

ARMS = ["arm-1", "arm-2"]


def request_of(experiment: int, name: AlgorithmName, layout: Layout = Layout.SHARED) -> dict:
    environment = environment_of(experiment)
    plan = CampaignPlan(environment, layout, name, paper_settings(environment, layout))
    return plan.request("c", 7)


def test_nothing_of_the_paper_is_left_to_the_defaults_of_the_service() -> None:
    """The service's defaults suit newcomers; a silent one would change the experiment."""
    assert request_of(1, AlgorithmName.LINUCB_OGD_CR) == {
        "campaign_id": "c",
        "description": "Simulation of experiment 1",
        "risk": {"measure": "expectile", "level": 0.1},
        "model": {"type": "shared", "dimension": 2, "intercept": False},
        "arms": [{"arm_id": "arm-1"}, {"arm_id": "arm-2"}],
        "algorithm": {
            "name": "linucb-ogd-cr",
            "regularization": 0.1,
            "delta": 0.05,
            "noise_scale": 0.1,
            "exploration_rule": "optimistic",
            "exploration": 1.0,
            "parameter_bound": 1.0,
            "projection": True,
            "feature_bound": 1.0,
            "bonus": "local",
            "conditioning": "theory",
            "warmup": 5,
            "episode_length": 5,
            "step_size": 0.1,
            "step_schedule": "harmonic",
        },
        "reward": {"minimum": None, "maximum": None, "timeout_seconds": None, "default": None},
        "seed": 7,
    }


def test_linucb_looks_at_the_mean() -> None:
    """It knows no other risk, and has no use for a bonus, a conditioning or a ball."""
    request = request_of(1, AlgorithmName.LINUCB)
    assert request["risk"] == {"measure": "mean"}
    assert request["algorithm"].keys().isdisjoint({"bonus", "conditioning", "projection", "episode_length"})


@pytest.mark.parametrize("name", list(AlgorithmName))
def test_experiment_3_declares_its_rewards(name: AlgorithmName) -> None:
    """The entropic risk needs the bounds of the rewards; conditioning 1 is what the published figure shows."""
    request = request_of(3, name)
    assert (request["reward"]["minimum"], request["reward"]["maximum"]) == (-2.0, 2.0)
    assert request["algorithm"]["noise_scale"] == 1.0
    assert request["algorithm"].get("conditioning") in (None, 1.0)


def test_the_disjoint_experiment_is_stacked() -> None:
    """The paper's disjoint learner, said through a shared model: own block of features for each arm."""
    request = request_of(2, AlgorithmName.LINUCB_CR, Layout.DISJOINT)
    assert request["model"] == {"type": "shared", "dimension": 6, "intercept": False}
    assert request["algorithm"]["parameter_bound"] == pytest.approx(math.sqrt(2.0))
    assert "radius" not in request["algorithm"]
    features = np.arange(12.0).reshape(2, 2, 3)
    first, second = select_candidates(Layout.DISJOINT, ARMS, features)
    assert first == {
        "arms": [
            {"arm_id": "arm-1", "features": [0.0, 1.0, 2.0, 0.0, 0.0, 0.0]},
            {"arm_id": "arm-2", "features": [0.0, 0.0, 0.0, 3.0, 4.0, 5.0]},
        ]
    }
    assert second["arms"][1]["features"] == [0.0, 0.0, 0.0, 9.0, 10.0, 11.0]


def test_the_common_context_holds_all_features() -> None:
    """The service's own disjoint model sees the features of both arms."""
    request = request_of(2, AlgorithmName.LINUCB_CR, Layout.COMMON_CONTEXT)
    assert request["model"] == {"type": "disjoint", "dimension": 6, "intercept": False}
    assert request["algorithm"]["radius"] == "joint"
    parts = select_candidates(Layout.COMMON_CONTEXT, ARMS, np.arange(12.0).reshape(2, 2, 3))
    assert parts == [{"context": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]}, {"context": [6.0, 7.0, 8.0, 9.0, 10.0, 11.0]}]


def _truth(environment: Environment, layout: Layout) -> np.ndarray:
    """Parameter under which the layout's features give the risks."""
    return environment.theta if layout is Layout.SHARED else np.tile(environment.theta, environment.arm_count)


@pytest.mark.parametrize("layout", [Layout.SHARED, Layout.DISJOINT])
def test_every_layout_is_well_specified_and_its_truth_within_the_ball(layout: Layout) -> None:
    """A learner whose truth lies outside its ball cannot find it."""
    environment = environment_of(2)
    drawn = Sampler(environment, 3, range(4)).draw(1)
    truth = _truth(environment, layout)
    parts = select_candidates(layout, arm_ids(environment), drawn.features[:, 0])
    risks = [[np.dot(arm["features"], truth) for arm in part["arms"]] for part in parts]
    np.testing.assert_allclose(risks, drawn.risks[:, 0], rtol=1e-13)
    assert np.linalg.norm(truth) <= paper_settings(environment, layout).parameter_bound + 1e-12


def test_campaign_seeds_differ_by_replication_and_fit_the_contract() -> None:
    """Equal seeds would break ties alike in all replications; integers end at 2^53 - 1."""
    environment = environment_of(1)
    seeds = {campaign_seed(environment, 0, number) for number in range(200)}
    assert len(seeds) == 200
    assert max(seeds) < 2**53
    assert campaign_seed(environment, 0, 3) == campaign_seed(environment, 0, 3)


@pytest.mark.parametrize("conditioning", ["theories", 0.5, math.nan, math.inf])
def test_conditioning_nonsense_is_refused(conditioning: str | float) -> None:
    """The mistake is told before a service is started for it."""
    with pytest.raises(ValueError, match="conditioning"):
        Settings(noise_scale=0.1, conditioning=conditioning)


def test_requests_can_be_written_as_json() -> None:
    """Enumerations must go out as plain text."""
    settings = Settings(0.1, bonus=Bonus.GLOBAL_TIGHT, step_schedule=StepSchedule.THEORY)
    request = algorithm_request(AlgorithmName.LINUCB_OGD_CR, settings, Layout.COMMON_CONTEXT)
    assert json.loads(json.dumps(request)) == request
    assert (request["bonus"], request["step_schedule"]) == ("global-tight", "theory")


@pytest.mark.parametrize("name", ["noise_scale", "exploration", "parameter_bound", "step_size"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_setting_that_is_no_number_is_refused(name: str, value: float) -> None:
    """It went out as null, so that the run was of the service's own choice and its results said otherwise."""
    with pytest.raises(ValueError, match=f"{name.replace('_', ' ')} must be a finite number"):
        replace(Settings(0.1), **{name: value})


def test_references_are_found_for_the_settings_they_hold_for() -> None:
    """A value beside the wrong settings misleads."""
    shared, exact = Layout.SHARED, AlgorithmName.LINUCB_CR
    paper = Settings(0.1)
    assert published_value(1, shared, exact) == "about 82"
    assert published_value(2, shared, exact) is None
    assert expected_value(1, shared, exact, paper) == "97 [58, 74, 130, 181]"
    assert expected_value(1, shared, exact, Settings(0.1, projection=False)) == "90 [19, 53, 121, 185]"
    assert expected_value(1, shared, exact, Settings(0.1, bonus=Bonus.LOCAL_TIGHT)) == "29 [14, 21, 49, 80]"
    assert expected_value(1, shared, exact, Settings(0.1, bonus=Bonus.GLOBAL)) is None
    gradient = AlgorithmName.LINUCB_OGD_CR
    assert expected_value(1, shared, gradient, Settings(0.1, step_size=1.0)) == "93"
    assert expected_value(3, shared, exact, Settings(1.0, conditioning=3.0)) == "143"


def test_no_reference_is_hidden_by_another() -> None:
    """Of two values for the same settings only the first would ever be shown."""
    assert len({row[:3] for row in PUBLISHED}) == len(PUBLISHED)
    keys = [
        (r.experiment, r.layout, r.algorithm, r.projection, r.bonus, r.schedule, r.step_size, r.conditioning)
        for r in EXPECTED
    ]
    assert len(set(keys)) == len(keys)
