"""Requests for campaigns, as they come in: resolved, or refused."""

import json
from typing import Any

import pytest

from prudent.campaigns import CampaignConfiguration, InvalidConfigurationError, resolve

Json = dict[str, Any]
BOUNDS = {"minimum": 0, "maximum": 10}


def requested(**changes: Any) -> CampaignConfiguration:
    """A request as it comes in: JSON text, read strictly."""
    body = {"campaign_id": "test", "risk": {"measure": "mean"}, "model": {"type": "shared", "dimension": 2}} | changes
    return CampaignConfiguration.model_validate_json(json.dumps(body))


def resolved(**changes: Any) -> CampaignConfiguration:
    """The resolved request, which must be a resolved request itself, unchanged by resolving it and by JSON."""
    once = resolve(requested(**changes))
    text = once.model_dump_json()
    again = resolve(CampaignConfiguration.model_validate_json(text))
    assert again == once
    assert again.model_dump_json() == text
    return once


def refused(**changes: Any) -> InvalidConfigurationError:
    """Why the request, which fits the schema, makes no campaign."""
    with pytest.raises(InvalidConfigurationError) as caught:
        resolve(requested(**changes))
    assert caught.value.message == str(caught.value)
    return caught.value
