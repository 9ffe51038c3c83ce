"""Imports point one way, and the core and the client stay small: `make check` turns red where one does not."""

import ast
import importlib.metadata
import re
import shutil
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.servers import ROOT, clean_environment

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONTRACTS: dict[str, Any] = {one["name"]: one for one in PROJECT["tool"]["importlinter"]["contracts"]}
LAYERS: list[list[str]] = [
    [name.strip() for name in layer.split("|")] for layer in CONTRACTS["Imports point one way"]["layers"]
]
OURS = {"prudent", "prudent_client", "prudent_simulator"}
EXTRAS = {"openfeature", "pandas"}
"""Of the client, imported where they are asked for: tests/client/test_public_api.py."""
ALLOWED = {
    "prudent/core": {"numpy", "scipy"},
    "prudent_client": {"httpcore", "httpx", "pydantic", "pydantic_core"} | EXTRAS,
}
SECONDS_MAX = 120


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    """`lint-imports` on a copy of the sources."""
    paths = ":".join(str(folder / top) for top in ("service", "simulator", "client"))
    return subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--config", folder / "pyproject.toml", "--no-cache"],
        cwd=folder,
        env=clean_environment({"PYTHONPATH": paths, "COLUMNS": "200"}),
        capture_output=True,
        timeout=SECONDS_MAX,
        text=True,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The sources, to be spoilt."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for top in ("service", "simulator", "client"):
        shutil.copytree(ROOT / top, tmp_path / top, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    return tmp_path


def spoil(folder: Path, module: str, statement: str) -> None:
    """Add an import to a module of the copy."""
    path = folder / "service" / module.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    path.write_text(f"{path.read_text(encoding='utf-8')}\n{statement}\n", encoding="utf-8")


def test_an_import_against_the_arrows_is_found_in_each_module(copy: Path) -> None:
    """A circle would close, and nobody could read, test or replace a part by itself any more."""
    against = [
        (f"prudent.{name}", f"prudent.{above}")
        for upper, lower in pairwise(LAYERS)
        for name in lower
        for above in upper
    ]
    beside = [(f"prudent.{a}", f"prudent.{b}") for layer in LAYERS for a in layer for b in layer if a != b]
    for module, imported in (*against, *beside):
        spoil(copy, module, f"import {imported}")
    done = lint(copy)
    assert done.returncode == 1
    for module, imported in (*against, *beside):
        assert re.search(rf"{re.escape(module)} -> {re.escape(imported)} \(l\.\d+\)", done.stdout), (module, imported)


def test_a_new_module_needs_a_place(copy: Path) -> None:
    """One without a layer could import what it likes."""
    (copy / "service/prudent/helpers.py").write_text("", encoding="utf-8")
    done = lint(copy)
    assert (done.returncode, "helpers" in done.stdout) == (1, True)


@pytest.mark.parametrize(
    ("module", "statement", "contract"),
    [
        ("prudent.core.theory", "import fastapi", "The core needs numpy and scipy only"),
        ("prudent.core.measures", "from pydantic import BaseModel", "The core needs numpy and scipy only"),
        ("prudent.core.policy", "from prudent.errors import CommandError", "The core needs numpy and scipy only"),
        ("../client/prudent_client.calls", "import numpy", "The client needs httpx, httpcore and pydantic only"),
        ("prudent.api.decisions", "import prudent_simulator.runner", "The simulator is an independent oracle"),
    ],
)
def test_an_import_that_a_part_should_not_have_is_found(copy: Path, module: str, statement: str, contract: str) -> None:
    """A statistician can read the core without knowing a web framework, and run it where none is installed."""
    folder, _, name = module.rpartition("/")
    target = copy / "client" if folder else copy / "service"
    path = target / name.replace(".", "/")
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    path.write_text(f"{path.read_text(encoding='utf-8')}\n{statement}\n", encoding="utf-8")
    done = lint(copy)
    assert done.returncode == 1
    assert f"{contract} BROKEN" in done.stdout


@pytest.mark.parametrize("package", ALLOWED)
def test_only_what_is_allowed_is_imported(package: str) -> None:
    """The contracts name what is forbidden; this names what is allowed, wherever the import stands."""
    top = ROOT / ("client" if package == "prudent_client" else "service")
    own = package.replace("/", ".")
    for path in (top / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path}: a relative import"
                names = [node.module or ""]
            else:
                continue
            for name in names:
                first = name.partition(".")[0]
                fine = first in sys.stdlib_module_names | ALLOWED[package] or f"{name}.".startswith(f"{own}.")
                assert fine, f"{path}: {name}"


def dependencies() -> set[str]:
    """The top-level modules of everything that the project names as a dependency, with or without an extra."""
    extras = PROJECT["project"]["optional-dependencies"].values()
    texts = [*PROJECT["project"]["dependencies"], *(text for extra in extras for text in extra)]
    named = {canonicalize_name(Requirement(text).name) for text in texts} - {"prudent-client"}
    modules = importlib.metadata.packages_distributions()
    found = {
        module
        for module, owners in modules.items()
        if named & {canonicalize_name(owner) for owner in owners} and module.isidentifier()
    }
    found = {module for module in found if not module.startswith("_")} - {"pylab", "mpl_toolkits"}
    return found | {"starlette", "pydantic_core", "dotenv"}  # which come with others, and are imported


@pytest.mark.parametrize("package", ALLOWED)
def test_the_contracts_name_every_dependency(package: str) -> None:
    """A dependency that comes later would be allowed everywhere."""
    (contract,) = (one for one in CONTRACTS.values() if one.get("source_modules") == [package.replace("/", ".")])
    external = {name for name in contract["forbidden_modules"] if name.partition(".")[0] not in OURS}
    assert dependencies() - ALLOWED[package] - external == set()
    assert not external & ALLOWED[package]
    ours = {name for name in contract["forbidden_modules"] if name.partition(".")[0] in OURS}
    if package == "prudent/core":
        others = {name for layer in LAYERS for name in layer} - {"core"}
        assert ours == {f"prudent.{name}" for name in others} | {"prudent_client", "prudent_simulator"}
    else:
        assert ours == OURS - {"prudent_client"}
