"""What of a configuration stands in its campaign's row."""

from typing import Any

from prudent.campaigns import CampaignConfiguration


def columns_of(configuration: CampaignConfiguration) -> dict[str, Any]:
    """The configuration as JSON, and beside it the settings by which campaigns are looked for."""
    return {
        "configuration": configuration.model_dump_json(),
        "client_side": int(configuration.client_side),
        "retention_days": configuration.retention_days,
        "log_retention_days": configuration.log_retention_days,
    }
