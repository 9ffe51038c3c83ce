"""Finds environment files, by path or by the name of a shipped one, and says clearly what is wrong with them."""

from collections.abc import Hashable
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from prudent_simulator.custom_environments.environment import OwnEnvironment, OwnEnvironmentError
from prudent_simulator.custom_environments.schema import EnvironmentFile

SUFFIX = ".yaml"
BYTES_MAX = 1_000_000
_ERRORS_MAX = 10
_SHIPPED = resources.files("prudent_simulator.custom_environments") / "files"
_VARIANTS = ("number", "context", "law")
_LAWS = ("normal", "two-piece-normal", "beta", "uniform", "discrete", "mixture")
_MEASURES = ("mean", "expectile", "entropic")


class EnvironmentFileError(Exception):
    """An environment file cannot be used; the message names the file and what is wrong in it."""


class _Loader(yaml.SafeLoader):
    """Safe, and refuses a key that is there twice, of which YAML readers silently keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        mapping = super().construct_mapping(node, deep=deep)
        if len(mapping) < len(node.value):
            seen: set[Hashable] = set()
            for key_node, _ in node.value:
                key = self.construct_object(key_node)
                if key in seen:
                    raise yaml.MarkedYAMLError(problem=f"{key} is there twice", problem_mark=key_node.start_mark)
                seen.add(key)
        return mapping


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
    """Read YAML, of which JSON is a part, that holds one mapping. Raises EnvironmentFileError."""
    try:
        content = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" line {mark.line + 1}:" if mark else ""
        raise EnvironmentFileError(f"{shown}:{where} {error.problem or 'is not YAML'}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise EnvironmentFileError(f"{shown}: is not YAML: {reason}") from error
    if not isinstance(content, dict):
        raise EnvironmentFileError(f"{shown}: must be a mapping of fields, not {type(content).__name__}")
    return content


def _path(steps: tuple[int | str, ...]) -> str:
    """Write pydantic's path without the tags of unions, which are no fields of the file."""
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
