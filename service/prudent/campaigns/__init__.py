"""What a campaign is: its configuration, as requested and as resolved, and the policy that it describes."""

from prudent.campaigns.choices import chosen_settings
from prudent.campaigns.configuration import (
    CHANGEABLE,
    Algorithm,
    AlgorithmChange,
    ArmConfiguration,
    Assignment,
    CampaignConfiguration,
    Holdout,
    Model,
    RewardRules,
)
from prudent.campaigns.construction import build_policy, exploration_rule, index_settings
from prudent.campaigns.resolution import repeats_creation, resolve, resolve_change, with_rule
from prudent.campaigns.risk import Risk
from prudent.campaigns.rows import Given, RowReader
from prudent.campaigns.storage import stored
from prudent.campaigns.values import ArmId, CampaignId, DecisionId, InvalidConfigurationError, Schema
from prudent.campaigns.vocabulary import Draft, Learned, Vocabulary
from prudent.campaigns.warnings import configuration_warnings

__all__ = [
    "CHANGEABLE",
    "Algorithm",
    "AlgorithmChange",
    "ArmConfiguration",
    "ArmId",
    "Assignment",
    "CampaignConfiguration",
    "CampaignId",
    "DecisionId",
    "Draft",
    "Given",
    "Holdout",
    "InvalidConfigurationError",
    "Learned",
    "Model",
    "RewardRules",
    "Risk",
    "RowReader",
    "Schema",
    "Vocabulary",
    "build_policy",
    "chosen_settings",
    "configuration_warnings",
    "exploration_rule",
    "index_settings",
    "repeats_creation",
    "resolve",
    "resolve_change",
    "stored",
    "with_rule",
]
