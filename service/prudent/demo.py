"""The demo campaign: three couriers, one of which is the best on average and the worst on a bad day."""

import numpy as np

from prudent.campaigns import CampaignConfiguration
from prudent.ledger.access import LedgerAccess
from prudent.ledger.commands import CreateCampaign, Observe, Reward, Select, WarmStart
from prudent.ledger.outcomes import Decision

DEMO = CampaignConfiguration.model_validate(
    {
        "campaign_id": "demo",
        "description": "Which courier? 'bold' is the fastest on average but sometimes loses the parcel.",
        "risk": {"measure": "expectile", "downside_weight": 9.0},
        "model": {"type": "multi-armed"},
        "arms": [{"arm_id": "steady"}, {"arm_id": "bold"}, {"arm_id": "slow"}],
    }
)
TRIAL = 20
"""Parcels that each courier was given before the campaign began."""
HISTORY, MORE = 300, 100
"""Parcels that have been sent when the demo begins, and those that the button on its page sends."""
ON_THE_WAY = 10
"""Parcels that are sent before the first of them has arrived."""


async def create_demo(ledger: LedgerAccess) -> None:
    """Create the campaign with a trial and some history; does nothing if the database has it already."""
    record = await ledger.administer(CreateCampaign(DEMO))
    if record is None or record.row.head:
        return
    trial = [
        WarmStart(arm.arm_id, delivery(parcel, arm.arm_id), observation_id=f"{arm.arm_id}-{parcel:02d}")
        for parcel in range(TRIAL)
        for arm in DEMO.arms
    ]
    await ledger.submit(Observe("demo", trial))
    await _send(ledger, range(len(trial), len(trial) + HISTORY))


async def send_more_parcels(ledger: LedgerAccess) -> None:
    """Go on from where the campaign is. Raises CommandError where it does not decide, and UnavailableError."""
    record = await ledger.administer(CreateCampaign(DEMO))
    if record is not None:
        await _send(ledger, range(record.row.head, record.row.head + MORE))


async def _send(ledger: LedgerAccess, numbers: range) -> None:
    """Decide for parcels with these numbers, and report how each was delivered.

    Its number says how every courier would deliver it: two workers that send the same parcels send them once.
    """
    for start in range(0, len(numbers), ON_THE_WAY):
        parcels = numbers[start : start + ON_THE_WAY]
        selects = [Select("demo", decision_id=f"courier-{parcel}") for parcel in parcels]
        rewards = []
        for parcel, decision in zip(parcels, await ledger.submit_all(selects), strict=True):
            if isinstance(decision, Exception):
                raise decision
            assert isinstance(decision, Decision)  # noqa: S101  # what a select results in
            rewards.append(Reward(f"courier-{parcel}", delivery(parcel, decision.row.arm_id)))
        for receipt in await ledger.submit_all(rewards):
            if isinstance(receipt, Exception):
                raise receipt


def delivery(parcel: int, courier: str) -> float:
    """The reward for a parcel: 1 at most, and -1 for one that was lost."""
    draw = np.random.default_rng((4, parcel))
    usual, luck = draw.standard_normal(), draw.random()
    rewards = {"steady": 0.6 + 0.05 * usual, "bold": -1.0 if luck < 0.1 else 0.9, "slow": 0.4 + 0.05 * usual}
    return round(rewards[courier], 3)
