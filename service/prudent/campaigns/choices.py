"""What was chosen of a campaign's algorithm, and what only follows from the rest of its configuration."""

from typing import Any

from prudent.campaigns.configuration import Algorithm, CampaignConfiguration
from prudent.campaigns.resolution import resolve
from prudent.campaigns.values import InvalidConfigurationError


def chosen_settings(base: CampaignConfiguration) -> dict[str, Any]:
    """The algorithm's settings, without those that would be the same by default. base: resolved.

    With another measure, what is left out has the default of that one.
    """
    kept: dict[str, Any] = base.algorithm.model_dump(mode="json")
    for name in tuple(kept):
        fewer = {other: value for other, value in kept.items() if other != name}
        try:
            resolved = resolve(base.model_copy(update={"algorithm": Algorithm.model_validate(fewer)}))
        except InvalidConfigurationError:
            continue
        kept = fewer if resolved.algorithm == base.algorithm else kept
    return kept
