"""Finds environment files, by path or by the name of a shipped one, and says clearly what is wrong with them."""

import json
from importlib import resources
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from prudent_simulator.custom_environments.environment import OwnEnvironment, OwnEnvironmentError
from prudent_simulator.custom_environments.laws import Law
from prudent_simulator.custom_environments.schema import EnvironmentFile, Risk
from prudent_simulator.extras import MissingExtraError, needed_for

SUFFIX = ".yaml"
BYTES_MAX = 1_000_000
_ERRORS_MAX = 10
_SHIPPED = resources.files("prudent_simulator.custom_environments") / "files"
_VARIANTS = ("number", "context", "law")


def _tags(union: Any) -> frozenset[str]:
    """The values of a union's discriminator, as its members declare them."""
    members, field = get_args(union)
    kinds = get_args(members)
    return frozenset(tag for kind in kinds for tag in get_args(kind.model_fields[field.discriminator].annotation))


_LAWS, _MEASURES = _tags(Law), _tags(Risk)


class EnvironmentFileError(Exception):
    """An environment file cannot be used; the message names the file and what is wrong in it."""


def shipped_names() -> list[str]:
    """Name the environments that come with the package."""
    return sorted(entry.name.removesuffix(SUFFIX) for entry in _SHIPPED.iterdir() if entry.name.endswith(SUFFIX))


def read_text(given: str) -> str:
    """Give the text of a shipped environment or of a file. Raises EnvironmentFileError."""
    if given in shipped_names():
        return (_SHIPPED / f"{given}{SUFFIX}").read_text(encoding="utf-8")
    if not Path(given).is_file():
        raise EnvironmentFileError(f"{given}: no such file, and none of the shipped ones: {', '.join(shipped_names())}")
    return read_file(given)


def read_file(given: str) -> str:
    """Give the text of a YAML file. Raises EnvironmentFileError, and OSError where it cannot be opened."""
    path = Path(given)
    if path.stat().st_size > BYTES_MAX:
        raise EnvironmentFileError(f"{given}: has more than {BYTES_MAX:,} bytes")
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise EnvironmentFileError(f"{given}: is not UTF-8 text (byte {error.start})") from error


def parse_mapping(shown: str, text: str) -> dict[str, Any]:
    """Read YAML or JSON that holds one mapping. JSON needs no extra. Raises EnvironmentFileError, MissingExtraError."""
    try:
        with needed_for(f"reading {shown}", "simulator"):
            from prudent_simulator.custom_environments.yaml_text import NotYamlError, parse_yaml
    except MissingExtraError:
        content = _json(text)
        if content is None:
            raise
    else:
        try:
            content = parse_yaml(text)
        except NotYamlError as error:
            raise EnvironmentFileError(f"{shown}:{error}") from error
    if not isinstance(content, dict):
        raise EnvironmentFileError(f"{shown}: must be a mapping of fields, not {type(content).__name__}")
    return content


def _json(text: str) -> Any:
    """The content of a JSON document; None if it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def _path(steps: tuple[int | str, ...]) -> str:
    """Write pydantic's path without the tags of unions, which are not fields of the file."""
    kept: list[str] = []
    for step in steps:
        parent = kept[-1] if kept else ""
        of_law = step in _LAWS and parent in ("reward", "of")
        of_feature = step in (*_VARIANTS, *_LAWS) and kept[-2:-1] == ["features"]
        of_risk = step in _MEASURES and parent == "risk"
        if not (of_law or of_feature or of_risk):
            kept.append(str(step))
    return ".".join(kept)


def _line(error: ErrorDetails) -> str:
    message, given = error["msg"].removeprefix("Value error, "), error["input"]
    if error["type"] in ("float_type", "int_type") and isinstance(given, str):
        message += f", not the text '{given[:40]}' (YAML wants 1.0e-3 where others write 1e-3)"
    where = _path(error["loc"])
    return f"{where}: {message}" if where else message


def load_environment(given: str) -> OwnEnvironment:
    """Read, check and prepare an environment: a path, or the name of a shipped one. Raises EnvironmentFileError."""
    content = parse_mapping(given, read_text(given))
    try:
        return OwnEnvironment.of(EnvironmentFile.model_validate(content))
    except ValidationError as error:
        lines = [_line(detail) for detail in error.errors()]
        more = [f"and {len(lines) - _ERRORS_MAX} more"] if len(lines) > _ERRORS_MAX else []
        raise EnvironmentFileError(f"{given}: {'; '.join([*lines[:_ERRORS_MAX], *more])}") from error
    except OwnEnvironmentError as error:
        raise EnvironmentFileError(f"{given}: {error}") from error
