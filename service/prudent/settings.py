"""Settings: read once from the environment and the command line, frozen, passed in."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from os import environ

PREFIX = "PRUDENT_"
API_KEY_VARIABLE = PREFIX + "API_KEY"
"""No setting of the service: where its clients look for their key."""
ENVIRONMENT_FILE_VARIABLE = PREFIX + "ENV_FILE"
"""No setting of the service: the file that the commands read variables from, by default .env in the current folder."""
PORT_MAX = 65_535
LOG_LEVELS = ("debug", "info", "warning", "error")
KEY_LENGTH_MIN = 32
"""Of a key or a secret that the operator makes up."""


class InvalidSettingError(ValueError):
    """An environment variable that is not what its setting needs."""


@dataclass(frozen=True, slots=True)
class Limits:
    """A limit on everything. Each can be set as PRUDENT_<NAME>."""

    body_bytes_max: int = 2**20
    """Of a request, except the two below."""
    batch_body_bytes_max: int = 4 * 2**20
    """Of a request to /batch and /observations; one item of it may be as large as another request's body."""
    batch_request_items_max: int = 1_000
    """Items of a request to /batch and /observations."""
    import_body_bytes_max: int = 256 * 2**20
    """Of a request to /import, of which only a line and a slice of rows are in memory."""
    body_fields_max: int = 5_000
    """Fields of a request, or of an item of a batch, that is larger than 64 KiB."""
    body_seconds_max: int = 30
    """Until a body has arrived; past it, 408."""
    bodies_bytes_max: int = 128 * 2**20
    """Of all bodies that are arriving or being parsed; past it, 503."""
    connections_max: int = 1_000
    """Of a process; past it, those that wait longest for their clients are closed."""
    head_bytes_max: int = 64 * 2**10
    """Of a request line with its headers; past it, 431."""
    head_seconds_max: int = 10
    """Until a request's head has arrived; past it, 408."""
    idle_seconds_max: int = 65
    """That a connection stays open between requests."""
    queue_items_max: int = 10_000
    """Commands waiting for the ledger; past it, 503."""
    queue_bytes_max: int = 64 * 2**20
    """Bytes of their features; past it, 503."""
    batch_items_max: int = 512
    """Commands in a transaction."""
    states_bytes_max: int = 2**30
    """Memory for campaigns' states; the longest unused go first."""
    answer_seconds_max: int = 15
    """For a command from the queue to its outcome; past it, 503 and the outcome is unknown."""
    snapshot_observations: int = 1_000
    """A snapshot is written after so many observations."""


@dataclass(frozen=True, slots=True)
class Settings:
    """All that a process needs to know."""

    database_url: str = "sqlite:///prudent.db"
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    demo: bool = False
    auth: bool = True
    """Ask for keys. Without any, and on a loopback address alone, everybody on this machine may do everything."""
    admin_key: str = field(default="", repr=False)
    """A key with the role admin besides the stored ones."""
    session_secret: str = field(default="", repr=False)
    """What the dashboard's sessions are signed with; by default of the admin key, else new at every start."""
    keys_refresh_seconds: int = 2
    """A key that is made or revoked is known to every worker after so long."""
    log_level: str = "info"
    """Of LOG_LEVELS; at debug every request is logged."""
    tracing: bool = False
    """Send a span of each request to an OpenTelemetry collector. Needs the extra `telemetry`."""
    limits: Limits = field(default_factory=Limits)


def read_settings(environment: Mapping[str, str] = environ) -> Settings:
    """Settings from PRUDENT_* variables. Raises InvalidSettingError, also for a name that is no setting."""
    known = {_variable(name) for name in (*_names(Settings), *_names(Limits)) if name != "limits"}
    known |= {API_KEY_VARIABLE, ENVIRONMENT_FILE_VARIABLE}
    for name in environment:
        if name.startswith(PREFIX) and name not in known:
            raise InvalidSettingError(f"{name} is not a setting; see docs/operations.md")
    limits = Limits(**{name: _integer(environment, name, 1) for name in _names(Limits) if _is_set(environment, name)})
    values: dict[str, str | int | bool] = {}
    for name in ("database_url", "host"):
        if _is_set(environment, name):
            values[name] = environment[_variable(name)]
    for name in ("port", "workers", "keys_refresh_seconds"):
        if _is_set(environment, name):
            values[name] = _integer(environment, name, 0 if name == "port" else 1)
    if not 0 <= int(values.get("port", 0)) <= PORT_MAX:
        raise InvalidSettingError(f"{_variable('port')} must be at most {PORT_MAX}")
    for name in ("demo", "auth", "tracing"):
        if _is_set(environment, name):
            values[name] = _boolean(environment, name)
    if _is_set(environment, "log_level"):
        values["log_level"] = _choice(environment, "log_level", LOG_LEVELS)
    for name in ("admin_key", "session_secret"):
        if _is_set(environment, name):
            values[name] = _key(environment, name)
    return Settings(**values, limits=limits)  # type: ignore[arg-type]  # each has its field's type by now


def _names(kind: type) -> list[str]:
    return [one.name for one in fields(kind)]


def _variable(name: str) -> str:
    return PREFIX + name.upper()


def _is_set(environment: Mapping[str, str], name: str) -> bool:
    return environment.get(_variable(name), "") != ""


def _integer(environment: Mapping[str, str], name: str, minimum: int) -> int:
    text = environment[_variable(name)]
    if not text.isdecimal() or int(text) < minimum:
        raise InvalidSettingError(f"{_variable(name)} must be a whole number of at least {minimum}, not {text!r}")
    return int(text)


def _key(environment: Mapping[str, str], name: str) -> str:
    """The message must not show it."""
    text = environment[_variable(name)]
    if len(text) < KEY_LENGTH_MIN or not re.fullmatch(r"[!-~]+", text):
        raise InvalidSettingError(
            f"{_variable(name)} must have at least {KEY_LENGTH_MIN} characters: printable ASCII, no spaces"
        )
    return text


def _choice(environment: Mapping[str, str], name: str, allowed: tuple[str, ...]) -> str:
    text = environment[_variable(name)].lower()
    if text not in allowed:
        raise InvalidSettingError(f"{_variable(name)} must be one of {', '.join(allowed)}, not {text!r}")
    return text


def _boolean(environment: Mapping[str, str], name: str) -> bool:
    text = environment[_variable(name)].lower()
    if text not in {"1", "true", "yes", "on", "0", "false", "no", "off"}:
        raise InvalidSettingError(f"{_variable(name)} must be true or false, not {text!r}")
    return text in {"1", "true", "yes", "on"}
