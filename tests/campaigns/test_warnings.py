"""What the reply to a creation warns of."""

from typing import Any

import pytest

from prudent.campaigns import configuration_warnings, resolve
from tests.campaigns.configurations import BOUNDS, requested


def said(**changes: Any) -> str:
    """All warnings of the campaign."""
    return " ".join(configuration_warnings(resolve(requested(**changes))))


def arms(*features: list[float]) -> list[dict[str, Any]]:
    """Arms registered with these features."""
    return [{"arm_id": f"arm-{number}", "features": list(row)} for number, row in enumerate(features)]


EXPECTILE = {"measure": "expectile", "level": 0.1}
ENTROPIC = {"measure": "entropic", "gamma": -3}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"risk": EXPECTILE},
        {"risk": ENTROPIC, "reward": BOUNDS},
        {"algorithm": {"regularization": 0.01}},
        {"risk": EXPECTILE, "algorithm": {"regularization": 0.018}},
        {"algorithm": {"feature_bound": 10}},
        {"arms": arms([6, 8])},
        {"model": {"type": "disjoint", "dimension": 2}},
        {"model": {"type": "multi-armed"}},
        {
            "model": {"type": "shared", "dimension": 1, "features": [{"name": "age", "center": 50, "scale": 20}]},
            "arms": arms([50], [90]),
        },
    ],
    ids=str,
)
def test_ordinary_campaigns_are_not_warned(changes: dict[str, Any]) -> None:
    """A warning that everybody gets is one that nobody reads."""
    assert not said(**changes)


@pytest.mark.parametrize(
    ("changes", "size", "count", "wanted"),
    [
        ({"algorithm": {"regularization": 0.009}}, "up to 1:", "9e+05", "0.01"),
        ({"risk": EXPECTILE, "algorithm": {"regularization": 0.0175}}, "up to 1:", "9.72e+05", "0.018"),
        ({"algorithm": {"feature_bound": 20}}, "up to 20:", "2.5e+05", "4"),
        ({"arms": arms([0, 1], [30, 40])}, "up to 50:", "4e+04", "25"),
        ({"risk": ENTROPIC, "reward": BOUNDS, "algorithm": {"regularization": 0.003}}, "up to 1:", "1e+05", "0.03"),
        (
            {
                "model": {"type": "shared", "dimension": 1, "features": [{"name": "age", "center": 50, "scale": 0.1}]},
                "arms": arms([45], [52]),
            },
            "up to 50:",
            "4e+04",
            "25",
        ),
    ],
    ids=str,
)
def test_ridge_too_small_for_the_features(changes: dict[str, Any], size: str, count: str, wanted: str) -> None:
    """Someone who sends incomes in cents would not learn that the ridge is lost in their rounding."""
    text = said(**changes)
    assert size in text
    assert f"from about {count} observations" in text
    assert f"at least {wanted}, which" in text
    # what the text advises is enough
    algorithm = changes.get("algorithm", {}) | {"regularization": float(wanted)}
    assert not said(**changes | {"algorithm": algorithm})


@pytest.mark.parametrize(("budget", "share", "warns"), [(0.05, 0.1, True), (0.1, 0.1, True), (0.2, 0.1, False)])
def test_a_budget_that_the_holdout_spends(*, budget: float, share: float, warns: bool) -> None:
    """A campaign would hardly learn, and nobody would know why."""
    holdout = {"share": share, "policy": "uniform"}
    assert ("budget should be larger" in said(algorithm={"budget": budget}, holdout=holdout)) == warns
    assert not said(algorithm={"budget": budget})
    assert not said(holdout=holdout)
