"""Which risk measures make a campaign, with which algorithms, and how their parameters are read."""

import random

import pytest

from tests.campaigns.configurations import BOUNDS, Json, refused, resolved


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
