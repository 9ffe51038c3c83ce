"""A select and a reward with the generated Python client. Type-checked, then run: python_story.py URL."""

import json
import sys

from generated.api.campaigns import create_campaign, get_campaign
from generated.api.decisions import reward, select
from generated.client import AuthenticatedClient
from generated.models.arm_configuration import ArmConfiguration
from generated.models.campaign_configuration import CampaignConfiguration
from generated.models.campaign_reply import CampaignReply
from generated.models.expectile_risk import ExpectileRisk
from generated.models.problem import Problem
from generated.models.reward_reply import RewardReply
from generated.models.reward_request import RewardRequest
from generated.models.select_reply import SelectReply
from generated.models.select_request import SelectRequest
from generated.models.shared_model import SharedModel


def main(url: str) -> None:
    """Create, decide, reward, and meet an error."""
    client = AuthenticatedClient(base_url=url, token="a-key-where-keys-are-in-use")  # noqa: S106
    campaign = CampaignConfiguration(
        campaign_id="python-story",
        risk=ExpectileRisk(measure="expectile", level=0.1),
        model=SharedModel(type_="shared", dimension=2),
        arms=[ArmConfiguration(arm_id="a", features=[1, 0]), ArmConfiguration(arm_id="b", features=[0, 1])],
    )
    created = create_campaign.sync(client=client, body=campaign)
    assert isinstance(created, CampaignReply), created
    assert isinstance(created.risk, ExpectileRisk)  # the union of risks is told apart by its tag

    asked = SelectRequest(campaign_id="python-story", decision_id="python-1", explain=True)
    selected = select.sync(client=client, body=asked)
    assert isinstance(selected, SelectReply), selected

    receipt = reward.sync(client=client, body=RewardRequest(decision_id=selected.decision_id, reward=1.25))
    assert isinstance(receipt, RewardReply), receipt

    refused = get_campaign.sync("nobody", client=client)
    assert isinstance(refused, Problem), refused
    told = {
        "level": created.risk.level,
        "arm": receipt.arm_id,
        "reward": receipt.reward,
        "arms": len(selected.arms or []),
        "title": refused.title,
    }
    print(json.dumps(told))


main(sys.argv[1])
