"""The demo campaign: three couriers, one of which is the best on average and the worst on a bad day."""

import numpy as np

from prudent.campaigns import CampaignConfiguration
from prudent.ledger.access import LedgerAccess
from prudent.ledger.commands import CreateCampaign, Observe, WarmStart

DEMO = CampaignConfiguration.model_validate(
    {
        "campaign_id": "demo",
        "description": "Which courier? 'bold' is the fastest on average but sometimes loses the parcel.",
        "risk": {"measure": "expectile", "downside_weight": 9.0},
        "model": {"type": "multi-armed"},
        "arms": [{"arm_id": "steady"}, {"arm_id": "bold"}, {"arm_id": "slow"}],
    }
)
OBSERVATIONS = 40


async def create_demo(ledger: LedgerAccess) -> None:
    """Create the campaign with some history; does nothing if the database has it already."""
    await ledger.administer(CreateCampaign(DEMO))
    draw = np.random.default_rng(7)
    rewards = {
        "steady": 0.6 + 0.05 * draw.standard_normal(OBSERVATIONS),
        "bold": np.where(draw.random(OBSERVATIONS) < 0.1, -1.0, 0.9),
        "slow": 0.4 + 0.05 * draw.standard_normal(OBSERVATIONS),
    }
    history = [
        WarmStart(arm_id, round(float(rewards[arm_id][i]), 3), observation_id=f"{arm_id}-{i:02d}")
        for i in range(OBSERVATIONS)
        for arm_id in rewards
    ]
    await ledger.submit(Observe("demo", history))
