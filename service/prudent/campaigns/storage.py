"""Configurations as the database has them."""

from pydantic import ValidationError

from prudent.campaigns.configuration import CampaignConfiguration
from prudent.campaigns.resolution import with_rule
from prudent.errors import UnreadableSettingsError


def stored(text: str) -> CampaignConfiguration:
    """A configuration as it was stored, resolved. Raises UnreadableSettingsError: nothing is wrong with the request."""
    try:
        return with_rule(CampaignConfiguration.model_validate_json(text))
    except ValidationError as error:
        raise UnreadableSettingsError(
            "the campaign is out of service: its settings cannot be read; other campaigns are served"
        ) from error
