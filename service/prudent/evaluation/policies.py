"""Other configurations of a campaign, from the few fields in which they differ."""

from typing import Any

from prudent.campaigns import CampaignConfiguration, InvalidConfigurationError, chosen_settings, resolve
from prudent.errors import InvalidCommandError

CHANGES = ("risk", "algorithm", "reward")
"""What another configuration may change. The model must stay: the log has only the features that this one sees."""


def reconfigured(base: CampaignConfiguration, changes: dict[str, Any]) -> CampaignConfiguration:
    """The same campaign with another `risk`, and with the named fields of `algorithm` and `reward` replaced.

    base: resolved. What it left to defaults is resolved anew. Raises InvalidCommandError, and pydantic's
    ValidationError for values that no campaign can have.
    """
    for name in changes:
        if name not in CHANGES:
            raise InvalidCommandError(f"only {', '.join(CHANGES)} can be changed for an evaluation", field=name)
    body = base.model_dump(mode="json")
    algorithm = chosen_settings(base)
    changed = changes.get("algorithm") or {}
    if algorithm.get("name") == "linucb" and "risk" in changes and "name" not in changed:
        algorithm["name"] = "linucb-cr"  # linucb learns the mean only
    body["algorithm"] = algorithm | changed
    body["reward"] |= changes.get("reward") or {}
    body["risk"] = changes.get("risk") or body["risk"]
    try:
        return resolve(CampaignConfiguration.model_validate(body))
    except InvalidConfigurationError as error:
        raise InvalidCommandError(error.message, field=error.field) from None
