"""The README's figures. (Its tour is run with all pages: tests/end_to_end/test_documentation.py.)"""

import re
from typing import get_args

import pytest

from prudent.campaigns import CampaignConfiguration, resolve
from prudent.campaigns.configuration import AlgorithmName
from tests.servers import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """The text under a heading of the second level."""
    (found,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", README, re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.mark.parametrize(
    ("page", "printed", "outcomes", "mean", "weight", "value"),
    [
        ("README.md", ("average  0.71", "For bold it is -0.05"), ((0.9, 0.9), (0.1, -1.0)), 0.71, 9, -0.05),
        ("docs/index.md", ("| 17.5 to spare |", "worth 3.2"), ((7 / 8, 25.0), (1 / 8, -35.0)), 17.5, 4, 3.2),
    ],
)
def test_the_value_of_the_tempting_arm_is_what_its_balance_says(
    page: str,
    printed: tuple[str, str],
    outcomes: tuple[tuple[float, float], ...],
    mean: float,
    weight: float,
    value: float,
) -> None:
    """The example on the first page is the reason to use the service: it must be right."""
    text = (ROOT / page).read_text(encoding="utf-8")
    assert all(words in text for words in printed)
    assert sum(share * reward for share, reward in outcomes) == pytest.approx(mean)
    shortfall = sum(share * max(value - reward, 0) for share, reward in outcomes)
    surplus = sum(share * max(reward - value, 0) for share, reward in outcomes)
    assert weight * shortfall == pytest.approx(surplus, rel=0.01)


@pytest.mark.parametrize("page", ["README.md", "docs/risk-measures.md"])
def test_the_table_of_weights_and_levels_is_right(page: str) -> None:
    """Whoever picks a weight from the table gets the level beside it."""
    text = (ROOT / page).read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d.]+)[^|]*\| ([\d.]+) \| ([\d.]+) \|", text, re.MULTILINE)
    assert len(rows) >= 5
    for coin, weight, level in rows:
        assert coin == weight
        given = {"measure": "expectile", "downside_weight": float(weight)}
        campaign = {"campaign_id": "a", "risk": given, "model": {"type": "multi-armed"}}
        resolved = resolve(CampaignConfiguration.model_validate(campaign))
        assert resolved.risk.model_dump()["level"] == pytest.approx(float(level), abs=1e-12)


def test_every_algorithm_has_a_row() -> None:
    """An algorithm that the README does not name will not be found; one that it only names cannot be used."""
    named = re.findall(r"^\| `([a-z-]+)`", section("Which algorithm"), re.MULTILINE)
    assert sorted(named) == sorted(get_args(AlgorithmName))


def test_what_the_readme_links_to_is_there() -> None:
    """A dead link on the first page."""
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    for link in links:
        assert (ROOT / link).exists(), link
