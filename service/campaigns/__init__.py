"""What a campaign is: its configuration, as requested and as resolved, and the policy that it describes."""

from service.campaigns.cautions import cautions
from service.campaigns.configuration import (
    Algorithm,
    AlgorithmChange,
    ArmConfiguration,
    CampaignConfiguration,
    Model,
    RewardRules,
    Risk,
)
from service.campaigns.construction import build_policy, index_settings, loss_of
from service.campaigns.resolution import InvalidConfigurationError, resolve, resolve_change
from service.campaigns.values import ArmId, CampaignId, DecisionId, Schema

__all__ = [
    "Algorithm",
    "AlgorithmChange",
    "ArmConfiguration",
    "ArmId",
    "CampaignConfiguration",
    "CampaignId",
    "DecisionId",
    "InvalidConfigurationError",
    "Model",
    "RewardRules",
    "Risk",
    "Schema",
    "build_policy",
    "cautions",
    "index_settings",
    "loss_of",
    "resolve",
    "resolve_change",
]
