"""Risks of known laws, against forty-digit references: what the measures are tested against."""

import json
import math
from pathlib import Path

import pytest

from prudent.core.measures import EntropicLoss, ExpectileLoss, SquaredLoss
from tests.core.distributions import TwoPieceNormal, gaussian_entropic_risk, gaussian_expectile, risk_of_density

REFERENCE = json.loads((Path(__file__).parent / "reference" / "risk.json").read_text())


@pytest.mark.parametrize(("level", "value"), REFERENCE["gaussian_expectile_standard_normal"].items())
def test_gaussian_expectile(level, value):
    """The paper's formula is wrong, and with it the means of its first experiment."""
    assert gaussian_expectile(float(level)) == pytest.approx(value, abs=1e-13)
    assert gaussian_expectile(float(level), 5.0, 3.0) == pytest.approx(5.0 + 3.0 * value, abs=1e-12)


def test_means_of_experiment_one():
    """The first experiment shifts its rewards so that the 0.1-expectiles are 1 and 0."""
    assert -gaussian_expectile(0.1, 0.0, 0.5) == pytest.approx(0.4308, abs=5e-5)
    assert -gaussian_expectile(0.1, 0.0, 3.0) == pytest.approx(2.5848, abs=5e-5)


@pytest.mark.parametrize("case", REFERENCE["expectile_based_asymmetric"], ids=str)
def test_two_piece_normal(case):
    """Noise with a wrong mean would favour the wrong arm in the second experiment."""
    law = TwoPieceNormal(case["level"], case["scale"])
    assert law.mean == pytest.approx(case["mean"], abs=1e-14)
    assert law.std == pytest.approx(case["std"], rel=1e-14)
    assert law.mass_below == pytest.approx(case["mass_below"], rel=1e-14)
    reach = 15 * case["scale"] / math.sqrt(min(case["level"], 1 - case["level"]))
    loss = ExpectileLoss(case["level"])
    assert risk_of_density(loss, law.density, -reach, reach, [0.0]) == pytest.approx(0.0, abs=1e-11)
    mean = risk_of_density(SquaredLoss(), law.density, -reach, reach, [0.0])
    assert mean == pytest.approx(case["mean"], abs=1e-11)


def test_risk_of_density_agrees_with_closed_forms():
    """Twenty-five nodes across a kink gave the paper's wrong means; the split must not."""

    def normal(y):
        return math.exp(-0.5 * y * y)

    for level in (0.01, 0.1, 0.75):
        found = risk_of_density(ExpectileLoss(level), normal, -14.0, 14.0)
        assert found == pytest.approx(gaussian_expectile(level), abs=1e-10)
    for gamma in (-0.7, 1.0):
        found = risk_of_density(EntropicLoss(gamma, -14.0, 14.0), normal, -14.0, 14.0)
        assert found == pytest.approx(gaussian_entropic_risk(gamma), abs=1e-10)
    assert gaussian_entropic_risk(-0.5, 3.0, 2.0) == 2.0


def test_risk_of_a_narrow_density_is_found_from_its_breaks():
    """Quadrature over a wide range steps over a narrow peak and would see no law at all."""
    law = TwoPieceNormal(0.1, 1e-4)
    found = risk_of_density(SquaredLoss(), law.density, -15.0, 15.0, [-0.005, 0.0, 0.005])
    assert found == pytest.approx(law.mean, rel=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        lambda: gaussian_expectile(0.0),
        lambda: gaussian_expectile(0.5, 0.0, -1.0),
        lambda: gaussian_expectile(0.5, math.nan),
        lambda: gaussian_entropic_risk(math.inf),
        lambda: risk_of_density(SquaredLoss(), abs, 1.0, 1.0),
        lambda: risk_of_density(SquaredLoss(), lambda y: y * math.nan, 0.0, 1.0),
        lambda: TwoPieceNormal(0.1, 0.0),
        lambda: TwoPieceNormal(1.0, 1.0),
    ],
)
def test_what_has_no_answer_is_refused(call):
    """A nan that travels into a report is worse than an error."""
    with pytest.raises(ValueError, match=r"."):
        call()
