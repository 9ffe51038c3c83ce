"""Faults put into a copy of the project on purpose; each must turn a named test red: python -m tests.mutations

A test that stays green does not protect what it claims to protect. A fault is addressed by the qualified name of the
definition that it breaks and by an edit of its syntax tree, so that it survives reformatting and neighbouring changes;
an edit that finds nothing to change, or more than one place, fails. Faults of every other kind are `make mutate`'s.
"""

import argparse
import ast
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table

from tests.mutation_database import DATABASE
from tests.mutation_edits import Edit, Mutation
from tests.mutation_faults import FAULTS
from tests.mutation_network import NETWORK
from tests.mutation_storage import STORAGE
from tests.servers import ROOT, clean_environment

TEST_SECONDS_MAX = 300
PACKAGES = ("service", "simulator", "client")
FOLDERS = (*PACKAGES, "migrations", "tests", "docs")
FILES = ("pyproject.toml", "README.md", "CHANGELOG.md")
GREEN, RED = 0, 1
MUTATIONS = (*FAULTS, *NETWORK, *STORAGE, *DATABASE)


class _Editor(ast.NodeTransformer):
    """Applies an edit wherever it fits, and counts how often it did."""

    def __init__(self, edit: Edit) -> None:
        self._edit = edit
        self.count = 0

    def visit(self, node: ast.AST) -> ast.AST:
        changed = self._edit(node)
        if changed is None:
            self.generic_visit(node)
            return node
        self.count += 1
        return ast.fix_missing_locations(ast.copy_location(changed, node))


def file_of(place: str) -> Path:
    """The file of a mutation's module, relative to the project. Raises ValueError if there is none."""
    module = place.partition(":")[0].replace(".", "/")
    for path in (Path(f"{folder}{module}.py") for folder in ("", *(f"{package}/" for package in PACKAGES))):
        if (ROOT / path).is_file():
            return path
    raise ValueError(f"there is no module of {place}")


def _definition(tree: ast.Module, qualified_name: str) -> ast.AST:
    """The function, method or assignment of this name. Raises ValueError."""
    found: ast.AST = tree
    for name in qualified_name.split("."):
        inner = [node for node in ast.iter_child_nodes(found) if name in _names(node)]
        if len(inner) != 1:
            raise ValueError(f"{qualified_name} is defined {len(inner)} times")
        (found,) = inner
    return found


def _names(node: ast.AST) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    return (
        [target.id for target in node.targets if isinstance(target, ast.Name)] if isinstance(node, ast.Assign) else []
    )


def apply(mutation: Mutation, directory: Path) -> None:
    """Change the copy of the project. Raises ValueError unless there is exactly one place to change."""
    path = directory / file_of(mutation.place)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    editor = _Editor(mutation.edit)
    editor.visit(_definition(tree, mutation.place.partition(":")[2]))
    if editor.count != 1:
        raise ValueError(f"{mutation.name}: the edit fits {editor.count} places of {mutation.place}")
    path.write_text(ast.unparse(tree), encoding="utf-8")


def copy_project(directory: Path) -> None:
    """A fresh copy of what the tests need of the project."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    for name in FOLDERS:
        shutil.copytree(ROOT / name, directory / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, directory / name)


def environment_of(directory: Path) -> dict[str, str]:
    """Environment in which a copy's packages hide the installed ones."""
    packages = os.pathsep.join(str(directory / name) for name in (*PACKAGES, "."))
    return clean_environment({"PYTHONPATH": packages, "PYTHONDONTWRITEBYTECODE": "1"})


def outcome_of(tests: list[str], directory: Path, log: Path) -> int | None:
    """pytest's exit code for these tests in the copy; None if it took too long."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    with log.open("ab") as output:
        try:
            done = subprocess.run(
                command,
                cwd=directory,
                env=environment_of(directory),
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=TEST_SECONDS_MAX * len(tests),
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None
    return done.returncode


def main() -> int:
    """Run them all, or those whose names hold a word; the number of mutants that survived."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="only mutations whose name holds this")
    parser.add_argument("--log", type=Path, default=Path(os.devnull), help="where pytest's output goes")
    parser.add_argument("--trusting", action="store_true", help="do not run the tests without a mutation first")
    given = parser.parse_args()
    chosen = [mutation for mutation in MUTATIONS if given.only in mutation.name]
    table = Table("mutation", "place", "test", "result")
    failures, progress = 0, Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="prudent-mutations-") as folder:
        directory = Path(folder) / "project"
        for mutation in chosen:  # all must still fit before the first is tried
            copy_project(directory)
            apply(mutation, directory)
        if not given.trusting:
            copy_project(directory)
            if outcome_of(sorted({mutation.test for mutation in chosen}), directory, given.log) != GREEN:
                progress.print("the tests fail without any mutation: see --log", style="bold red")
                return 1
        for mutation in track(chosen, "mutants", console=progress):
            copy_project(directory)
            apply(mutation, directory)
            code = outcome_of([mutation.test], directory, given.log)
            killed = code == RED
            failures += not killed
            result = "red" if killed else "SURVIVED" if code == GREEN else f"NOT RUN ({code})"
            progress.print(f"{mutation.name}: {result}")
            table.add_row(mutation.name, mutation.place, escape(mutation.test.removeprefix("tests/")), result)
    Console(width=200).print(table)
    Console().print(f"{len(chosen)} mutations, {failures} not noticed")
    return failures


if __name__ == "__main__":
    sys.exit(main() > 0)
