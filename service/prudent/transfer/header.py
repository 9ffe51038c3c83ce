"""What of an export is checked without its other lines: its header, and what is said of a line that is no line."""

from pydantic import ValidationError

from prudent.campaigns import (
    CHANGEABLE,
    AlgorithmChange,
    CampaignConfiguration,
    InvalidConfigurationError,
    resolve,
    with_rule,
)
from prudent.campaigns.values import RepeatedNameError, refuse_repeated_names
from prudent.errors import InvalidCommandError
from prudent.transfer import lines
from prudent.transfer.lines import Header, Opening


class DamagedFileError(InvalidCommandError):
    """A line is invalid or missing, so the file cannot be imported."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message, field=f"line {line}")


def parse_header(text: bytes) -> Header:
    """The first line. Raises DamagedFileError."""
    try:
        opening = Opening.model_validate_json(text)
    except ValidationError:
        raise DamagedFileError(1, "is not the header of an exported campaign") from None
    if opening.format != lines.FORMAT:
        raise DamagedFileError(1, "is not the header of an exported campaign")
    if not 1 <= opening.version <= lines.VERSION:
        raise DamagedFileError(
            1,
            f"version: this service reads 1 to {lines.VERSION}, received {opening.version}",
        )
    try:
        header = Header.model_validate_json(text)
        refuse_repeated_names(text, header)
    except ValidationError as error:
        raise DamagedFileError(1, describe_line(error)) from None
    except RepeatedNameError:
        raise DamagedFileError(1, "has a field twice in one object") from None
    rules = {"creation": with_rule(header.creation), "configuration": with_rule(header.configuration)}
    return header.model_copy(update=rules)


def describe_line(error: ValidationError) -> str:
    """What is wrong with a line: the first error, without the input."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    if first["type"] == "json_invalid":
        return "is not valid JSON, or is incomplete"
    if first["type"] in {"extra_forbidden", "unexpected_keyword_argument"}:
        return "has a field that is unknown to this version"
    if first["type"] == "union_tag_invalid":
        return "kind: must be category, arm, observation, correction, erasure, configuration, decision or trailer"
    place = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    return f"{place}: {message}" if place else message


def check_header(header: Header) -> None:
    """Raise DamagedFileError for a header whose parts contradict each other."""
    creation, configuration = header.creation, header.configuration
    if not header.campaign_id == creation.campaign_id == configuration.campaign_id:
        raise DamagedFileError(1, "campaign_id: must be the same throughout the header")
    if (header.status == "paused") != (header.learn_limit is not None) or (header.learn_limit or 0) > header.head:
        raise DamagedFileError(
            1, "learn_limit: required for a paused campaign, and at most its head; not allowed otherwise"
        )
    try:
        same = resolve(creation) == creation and configuration == _as_changed(creation, configuration)
    except InvalidConfigurationError as error:
        raise DamagedFileError(1, f"{error.field}: {error.message}") from None
    if not same:
        raise DamagedFileError(1, "configuration: cannot result from the campaign's creation")


def _as_changed(creation: CampaignConfiguration, configuration: CampaignConfiguration) -> CampaignConfiguration:
    """The creation with the changes that a campaign allows, as far as the configuration has them."""
    dials = {name: getattr(configuration.algorithm, name) for name in AlgorithmChange.model_fields}
    changes = {name: getattr(configuration, name) for name in CHANGEABLE}
    return resolve(creation.model_copy(update=changes | {"algorithm": creation.algorithm.model_copy(update=dials)}))
