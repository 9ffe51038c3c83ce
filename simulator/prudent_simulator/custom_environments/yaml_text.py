"""YAML, read safely; needs the extra `simulator`. Import it only where there is YAML to read."""

from collections.abc import Hashable
from typing import Any

import yaml


class NotYamlError(ValueError):
    """A text is not YAML; the message says where and why."""


class _Loader(yaml.SafeLoader):
    """Safe, and refuses duplicate keys, of which YAML readers silently keep the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        mapping = super().construct_mapping(node, deep=deep)
        if len(mapping) < len(node.value):
            seen: set[Hashable] = set()
            for key_node, _ in node.value:
                key = self.construct_object(key_node)
                if key in seen:
                    raise yaml.MarkedYAMLError(problem=f"duplicate key {key}", problem_mark=key_node.start_mark)
                seen.add(key)
        return mapping


def parse_yaml(text: str) -> Any:
    """The content of a YAML document, of which JSON is a special case. Raises NotYamlError."""
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" line {mark.line + 1}:" if mark else ""
        raise NotYamlError(f"{where} {error.problem or 'is not YAML'}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise NotYamlError(f" is not YAML: {reason}") from error
