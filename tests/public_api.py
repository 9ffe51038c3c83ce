"""The public names of a package with their signatures, read from its source: what others' code can depend on.

A listing in the tests is compared with this one. Whoever changes the interface on purpose writes the new listing:
`python -m tests.public_api client > tests/client/public_api.txt`, and the same with `core`.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.servers import ROOT

PACKAGES = {"client": ROOT / "client/prudent_client", "core": ROOT / "service/prudent/core"}
Definition = ast.FunctionDef | ast.AsyncFunctionDef


def listing(name: str) -> str:
    """The interface of one of PACKAGES, a line for each name: what a package exports, and the modules beside packages.

    Modules of a package whose __init__ exports some names are listed with these names only.
    """
    folder = PACKAGES[name]
    lines: list[str] = []
    for path in sorted(folder.rglob("*.py")):
        module = ".".join(path.relative_to(folder.parent).with_suffix("").parts).removesuffix(".__init__")
        beside = path.parent == folder and name == "core"
        names = None if beside else exported(path.with_name("__init__.py"))
        found = public(ast.parse(path.read_text(encoding="utf-8")))
        kept = [f"  {line}" for owner, line in found if names is None or owner in names]
        if kept:
            lines += [f"{module}:", *kept]
    return "\n".join(lines) + "\n"


def exported(path: Path) -> list[str]:
    """What a module's __all__ lists."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    return []


def public(module: ast.Module) -> Iterator[tuple[str, str]]:
    """A line for each public function, class, method, field and constant of a module, with the top-level name."""
    for node in module.body:
        if isinstance(node, Definition):
            found = [(node.name, function(node))]
        elif isinstance(node, ast.ClassDef):
            bases = ", ".join(ast.unparse(base) for base in node.bases)
            found = [(node.name, f"{decorators(node)}class {node.name}({bases})")]
            found += [(node.name, f"{node.name}.{line}") for line in members(node)]
        else:
            found = list(value(node))
        yield from ((name, line) for name, line in found if not name.startswith("_"))


def members(node: ast.ClassDef) -> Iterator[str]:
    """A line for each public method and field of a class, and for how it is made."""
    for member in node.body:
        if isinstance(member, Definition):
            if member.name == "__init__" or not member.name.startswith("_"):
                yield function(member)
        else:
            yield from (line for name, line in value(member) if not name.startswith(("_", "model_config")))


def value(node: ast.stmt) -> Iterator[tuple[str, str]]:
    """The name and the line of a constant or a field."""
    if isinstance(node, ast.AnnAssign):
        name, default = ast.unparse(node.target), "" if node.value is None else f" = {ast.unparse(node.value)}"
        yield name, f"{name}: {ast.unparse(node.annotation)}{default}"
    elif isinstance(node, ast.Assign):
        name = ast.unparse(node.targets[0])
        yield name, f"{name} = {ast.unparse(node.value)}"


def function(node: Definition) -> str:
    """A function with its decorators, arguments, annotations and defaults."""
    asynchronous = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    returned = "" if node.returns is None else f" -> {ast.unparse(node.returns)}"
    return f"{decorators(node)}{asynchronous}{node.name}({ast.unparse(node.args)}){returned}"


def decorators(node: Definition | ast.ClassDef) -> str:
    """Among them what a caller notices: a property, a frozen data class."""
    return "".join(f"@{ast.unparse(one)} " for one in node.decorator_list)


if __name__ == "__main__":
    sys.stdout.write(listing(sys.argv[1]))
