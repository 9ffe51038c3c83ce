"""Risks of known laws and of samples, against forty-digit references."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from prudent.core.distributions import TwoPieceNormal, gaussian_entropic_risk, gaussian_expectile, risk_of_density
from prudent.core.losses import EntropicLoss, ExpectileLoss, SquaredLoss
from prudent.core.risks import entropic_risk, expectile

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


@pytest.mark.parametrize("case", REFERENCE["entropic"], ids=str)
def test_entropic_risk(case):
    """Exponents below -745 would vanish and above 709 overflow without the shift."""
    found = entropic_risk(case["values"], case["gamma"], case["probabilities"])
    assert found == pytest.approx(case["entropic_risk"], rel=1e-14)


@pytest.mark.parametrize("case", REFERENCE["discrete_expectile"], ids=str)
def test_discrete_expectile(case):
    """The report's risks of each arm come from this."""
    found = expectile(case["values"], case["level"], case["probabilities"])
    assert found == pytest.approx(case["expectile"], rel=1e-14)
    shuffled = expectile(case["values"][::-1], case["level"], [10 * p for p in case["probabilities"][::-1]])
    assert shuffled == pytest.approx(case["expectile"], rel=1e-14)


def test_sample_expectile_agrees_with_scipy_and_with_a_weighted_sample(rng):
    """Two independent solvers must agree on heavy-tailed samples too."""
    for size in (1, 2, 3, 10, 101):
        sample = rng.standard_t(2, size)
        sample[size // 2 :] = np.round(sample[size // 2 :])
        for level in (0.001, 0.1, 0.5, 0.9, 0.999):
            found = expectile(sample, level)
            assert found == pytest.approx(stats.expectile(sample, level), rel=1e-8, abs=1e-8)
            repeats = rng.integers(0, 3, size)
            repeats[0] = 1
            by_weight = expectile(sample, level, repeats)
            assert by_weight == pytest.approx(expectile(np.repeat(sample, repeats), level), abs=1e-12)


def test_expectile_mirrors_moves_and_scales_with_the_rewards(rng):
    """e_p(-Y) = -e_{1-p}(Y): a cautious campaign on costs is a bold one on gains."""
    sample = rng.standard_normal(50)
    for level in (0.01, 0.3, 0.9):
        found = expectile(sample, level)
        assert expectile(-sample, level) == pytest.approx(-expectile(sample, 1 - level), rel=1e-12)
        assert expectile(1e9 + sample, level) - 1e9 == pytest.approx(found, abs=5e-7)
        assert expectile(1e-6 * sample, level) == pytest.approx(1e-6 * found, rel=1e-12)
    assert expectile(sample, 0.9) > sample.mean() > expectile(sample, 0.1)


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
        lambda: expectile([], 0.5),
        lambda: expectile([1.0, math.nan], 0.5),
        lambda: expectile([1.0], 1.0),
        lambda: expectile([1.0, 2.0], 0.5, [1.0]),
        lambda: expectile([1.0, 2.0], 0.5, [1.0, -1.0]),
        lambda: expectile([1.0, 2.0], 0.5, [0.0, 0.0]),
        lambda: entropic_risk([1.0], 0.0),
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
