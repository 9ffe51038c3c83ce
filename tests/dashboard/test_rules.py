"""A campaign's rules in words."""

from prudent.campaigns import CampaignConfiguration, resolve
from prudent.dashboard.rules import rules


def test_every_dial_that_is_turned_is_named() -> None:
    """Who clones a campaign would take over what its page has never said."""
    towns = {"name": "town", "kind": "category", "categories": ["Bern", "Ulm"]}
    configuration = CampaignConfiguration.model_validate(
        {
            "campaign_id": "c",
            "risk": {"measure": "mean"},
            "model": {"type": "disjoint", "features": [towns]},
            "arms": [{"arm_id": "a"}, {"arm_id": "control"}],
            "algorithm": {
                "exploration": 0.5,
                "budget": 0.1,
                "baseline": {"arm_id": "control", "tolerance": 0.2},
                "forgetting": {"half_life": 1000},
            },
            "retention_days": 30,
        }
    )
    said = dict(rules(resolve(configuration)))
    assert said["Features"] == "town (2 categories); of the request, a model per arm"
    assert said["Exploration"] == "0.500"
    assert said["Budget"] == "at most 10% of the decisions explore"
    assert said["Baseline"] == "worth at most 20% less than control alone"
    assert said["Forgets"] == "half of a weight after 1,000 later observations"
    assert said["Keeps"] == "its decisions for 30 days"
