"""Settings: read once from the environment and the command line, frozen, passed in."""

import re
from os import environ
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from prudent.environment import NOT_SETTINGS, PREFIX
from prudent.identifiers import is_id

_ORIGIN = re.compile(r"https?://([a-z0-9-]+(\.[a-z0-9-]+)*|\[[0-9a-f:]+\])(:[0-9]{1,5})?")
"""As browsers send it: in lower case, and without a slash at the end."""
KEY_LENGTH_MIN = 32
"""Of a key or a secret that the operator makes up."""
NAMED_MAX = 20
"""Campaigns whose alarms are metrics."""
CONFIGURATION = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, frozen=True)


IN_FILES = ("admin_key", "session_secret", "database_url", "read_database_url")
"""Settings that may stand in a file named by PRUDENT_<NAME>_FILE, where PRUDENT_<NAME> is not set: they are secrets."""


class InvalidSettingError(ValueError):
    """An environment variable has a value that its setting does not allow, or names no setting."""


def _check_secret(text: str) -> str:
    if text and (len(text) < KEY_LENGTH_MIN or not re.fullmatch(r"[!-~]+", text)):
        raise ValueError(f"must have at least {KEY_LENGTH_MIN} characters: printable ASCII, no spaces")
    return text


def _as_prefix(text: str) -> str:
    steps = text.strip("/")
    if not re.fullmatch(r"[A-Za-z0-9._~/-]*", steps) or "//" in steps:
        raise ValueError("must be a path such as /prudent: letters, digits and . _ ~ - between slashes")
    return f"/{steps}" if steps else ""


def _names(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    names = tuple(name for name in map(str.strip, value.split(",")) if name)
    wrong = next((name for name in names if not is_id(name)), None)
    if wrong is not None:
        raise ValueError(f"must be ids of campaigns, separated by commas: {wrong!r} cannot be one")
    if len(names) > NAMED_MAX:
        raise ValueError(f"may name at most {NAMED_MAX} campaigns, as each is looked at in every scrape")
    return names


def _origins(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    origins = tuple(origin for origin in map(str.strip, value.split(",")) if origin)
    wrong = next((origin for origin in origins if not _ORIGIN.fullmatch(origin)), None)
    if wrong is not None:
        raise ValueError(f"must be origins such as https://shop.example, separated by commas: {wrong!r} is none")
    return origins


Positive = Annotated[int, Field(ge=1)]
Secret = Annotated[str, Field(repr=False), AfterValidator(_check_secret)]
LogLevel = Literal["debug", "info", "warning", "error"]
_EXPECTED = {
    "int_parsing": "a whole number",
    "greater_than_equal": "at least {ge}",
    "less_than_equal": "at most {le}",
    "bool_parsing": "true or false",
    "literal_error": "one of {expected}",
}
"""What a value must be, by pydantic's type of error."""


class Limits(BaseSettings):
    """A limit on everything. Each can be set as PRUDENT_<NAME>."""

    model_config = CONFIGURATION

    body_bytes_max: Positive = 2**20
    """Of a request, except the two below."""
    batch_body_bytes_max: Positive = 4 * 2**20
    """Of a request to /batch and /observations; one item of it may be as large as another request's body."""
    batch_request_items_max: Positive = 1_000
    """Items of a request to /batch and /observations."""
    import_body_bytes_max: Positive = 256 * 2**20
    """Of a request to /import, of which only a line and a slice of rows are in memory."""
    body_fields_max: Positive = 5_000
    """Fields of a request, or of an item of a batch, that is larger than 64 KiB."""
    body_seconds_max: Positive = 30
    """Until a body has arrived; past it, 408."""
    bodies_bytes_max: Positive = 128 * 2**20
    """Of all bodies that are arriving or being parsed; past it, 503."""
    connections_max: Positive = 1_000
    """Of a process; past it, those that wait longest for their clients are closed."""
    peer_connections_percent: Annotated[int, Field(ge=1, le=100)] = 75
    """Of connections_max, for one address, so that others find some."""
    unread_seconds_max: Positive = 10
    """For 64 KiB of an answer, or all of it, to be read; past it, the connection is closed."""
    unread_bytes_max: Positive = 64 * 2**20
    """Of answers that have not been read yet; past it, the slowest readers' connections are closed."""
    head_bytes_max: Positive = 64 * 2**10
    """Of a request line with its headers; past it, 431."""
    head_seconds_max: Positive = 10
    """Until a request's head has arrived; past it, 408."""
    idle_seconds_max: Positive = 65
    """That a connection stays open between requests."""
    queue_items_max: Positive = 10_000
    """Commands waiting for the ledger; past it, 503."""
    queue_bytes_max: Positive = 64 * 2**20
    """Bytes of their features; past it, 503."""
    batch_items_max: Positive = 512
    """Commands in a transaction."""
    states_bytes_max: Positive = 2**30
    """Memory for campaigns' states; the least recently used go first."""
    answer_seconds_max: Positive = 15
    """For a command from the queue to its outcome; past it, 503 and the outcome is unknown."""
    snapshot_observations: Positive = 1_000
    """A snapshot is written after this many observations."""


class Settings(BaseSettings):
    """All that a process needs to know. The constructor takes what is not given from the environment."""

    model_config = CONFIGURATION

    database_url: str = "sqlite:///prudent.db"
    read_database_url: str = ""
    """A standby of the database, for reports, the dashboard and exports; without one they read the database itself."""
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8000
    root_path: Annotated[str, AfterValidator(_as_prefix)] = ""
    """The path that a proxy serves all of this under, such as /prudent; it may take it away or leave it."""
    workers: Positive = 1
    demo: bool = False
    auth: bool = True
    """Require API keys. Without any, and on a loopback address only, everybody on this machine may do everything."""
    admin_key: Secret = ""
    """A key with the role admin besides the stored ones."""
    session_secret: Secret = ""
    """Signs the dashboard's sessions; by default derived from the admin key, else new at every start."""
    keys_refresh_seconds: Positive = 2
    """Every worker knows of a key that is created or revoked after this time."""
    flag_origins: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_origins)] = ()
    """Web pages of these origins may evaluate flags; separated by commas."""
    metrics_campaigns: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_names)] = ()
    """Campaigns whose alarms are metrics with the campaign's id as a label; separated by commas."""
    log_level: Annotated[LogLevel, BeforeValidator(str.lower)] = "info"
    """At debug, every request is logged."""
    tracing: bool = False
    """Send a span for each request to an OpenTelemetry collector. Needs the extra `telemetry`."""
    limits: Limits = Field(default_factory=Limits)


def read_settings(**given: Any) -> Settings:
    """Settings from PRUDENT_* variables; what is given has precedence.

    Raises InvalidSettingError, also for a PRUDENT_* variable that is not a setting.
    """
    known = {_variable(name) for name in (*Settings.model_fields, *Limits.model_fields) if name != "limits"}
    known |= {_file_variable(name) for name in IN_FILES}
    for name in environ:
        if name.startswith(PREFIX) and name not in known | NOT_SETTINGS:
            raise InvalidSettingError(f"{name} is not a setting: remove it, or see docs/operations.md for the settings")
    try:
        return Settings(**{**_from_files(), **given})
    except ValidationError as error:
        raise InvalidSettingError(_describe(error)) from None  # it would show secrets


def _from_files() -> dict[str, str]:
    """The settings that are given as names of files. Raises InvalidSettingError for a file that has none."""
    found: dict[str, str] = {}
    for name in IN_FILES:
        path = environ.get(_file_variable(name))
        if path and not environ.get(_variable(name)):
            try:
                found[name] = Path(path).read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise InvalidSettingError(f"{_file_variable(name)} names {path}, which cannot be read") from error
            if not found[name]:
                raise InvalidSettingError(f"{_file_variable(name)} names {path}, which is empty")
    return found


def _variable(name: str) -> str:
    return PREFIX + name.upper()


def _file_variable(name: str) -> str:
    return f"{_variable(name)}_FILE"


def _describe(error: ValidationError) -> str:
    """The first thing that is wrong: which variable, what is expected, and what was found, unless it is a secret."""
    first = error.errors(include_url=False)[0]
    name = str(first["loc"][-1])
    if first["type"] == "value_error":
        return f"{_variable(name)} {first['msg'].removeprefix('Value error, ')}"
    expected = _EXPECTED.get(first["type"], first["msg"]).format(**first.get("ctx", {}))
    return f"{_variable(name)} must be {expected}, not {first['input']!r}"
