"""Sweep modules with cosmic-ray: every small fault that it can make, one at a time: python -m tests.mutation_sweep

The score of a module is the share of its mutants that its tests notice. Some survivors change nothing that can be
observed (an equivalent mutant, a tolerance that is merely tighter), so that 100% is no aim; each is worth a look.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from tests.mutations import copy_project, environment_of
from tests.servers import ROOT

ROOMS = ("core", "ledger")
PACKAGE = Path("service/prudent")
MUTANT_SECONDS_MAX = 120
POLL_SECONDS = 10.0
# One replacement for each operator: the ten others of cosmic-ray's would be noticed by the same tests.
OPERATORS = (
    *(f"ReplaceBinaryOperator_{name}" for name in ("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "Pow_Mul", "Mod_Mul")),
    *(f"ReplaceComparisonOperator_{name}" for name in ("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Eq_NotEq", "NotEq_Eq")),
    *(f"ReplaceComparisonOperator_{name}" for name in ("Lt_Gt", "Gt_Lt", "Is_IsNot", "IsNot_Is")),
    *("ReplaceUnaryOperator_Delete_USub", "ReplaceUnaryOperator_Delete_Not", "AddNot", "NumberReplacer"),
    *("ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr", "ReplaceOrWithAnd"),
    *("ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ZeroIterationForLoop", "ExceptionReplacer"),
)


class ToolError(Exception):
    """cosmic-ray failed, or the tests fail without any mutant."""


@dataclass(frozen=True)
class Mutant:
    """A fault that was tried. place: file and line."""

    place: str
    change: str
    noticed: bool


def modules_of(names: list[str]) -> list[Path]:
    """Files of the modules with these names, such as core.confidence or ledger; all of both rooms without a name."""
    found: list[Path] = []
    for name in names or ROOMS:
        path = ROOT / PACKAGE / name.removeprefix("prudent.").replace(".", "/")
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
        found += [file.relative_to(ROOT) for file in files if file.name != "__init__.py"]
    missing = [file for file in found if not (ROOT / file).is_file()]
    if missing:
        raise ToolError(f"no such module: {missing[0]}")
    return found


def selected_tests(module: Path) -> str:
    """The test module of the same name, else the tests of the module's folder."""
    folder = Path("tests") / module.parent.relative_to(PACKAGE)
    named = folder / f"test_{module.stem}.py"
    while not (ROOT / folder).is_dir():
        folder = folder.parent
    return str(named if (ROOT / named).is_file() else folder)


class Sweep:
    """cosmic-ray at work on one module of a copy of the project."""

    def __init__(self, tool: Path, copy: Path, module: Path, tests: str) -> None:
        self._tool, self._copy, self._module = tool, copy, module
        # PostgreSQL would start anew for each mutant, and what the statements do is the store's matter
        pytest = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-k", "not postgres"]
        settings = {
            "module-path": [str(module)],
            "timeout": MUTANT_SECONDS_MAX,
            "test-command": " ".join([*(f"'{one}'" for one in pytest), tests]),
        }
        lines = [f"{name} = {json.dumps(value)}" for name, value in settings.items()]
        kept = "|".join(OPERATORS)
        self._configuration = copy / "cosmic-ray.toml"
        self._configuration.write_text(
            "\n".join(
                [
                    "[cosmic-ray]",
                    *lines,
                    '[cosmic-ray.distributor]\nname = "local"',
                    f"[cosmic-ray.filters.operators-filter]\nexclude-operators = ['^core/(?!({kept})$)']",
                ]
            ),
            encoding="utf-8",
        )
        self._session = copy / "session.sqlite"
        self._session.unlink(missing_ok=True)

    def prepare(self) -> int:
        """Find the mutants; how many there are. Raises ToolError if the tests fail without one."""
        self._run("cosmic-ray", "init", self._configuration, self._session)
        self._run("cr-filter-operators", self._session, self._configuration)
        self._run("cosmic-ray", "baseline", self._configuration)
        return sum(result is None for _, result in self._items())

    def execute(self) -> Iterator[int]:
        """Try all mutants; yields how many have been tried, from time to time."""
        command: list[Path | str] = [self._tool / "cosmic-ray", "exec", self._configuration, self._session]
        skipped = sum(result is not None for _, result in self._items())
        process = subprocess.Popen(
            command, cwd=self._copy, env=environment_of(self._copy), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        try:
            while process.poll() is None:
                yield sum(result is not None for _, result in self._items()) - skipped
                time.sleep(POLL_SECONDS)
        finally:
            process.terminate()
            _, error = process.communicate()
        if process.returncode != 0:
            raise ToolError(error.decode())

    def mutants(self) -> list[Mutant]:
        """What was tried."""
        found = []
        for item, result in self._items():
            if result is None or result["worker_outcome"] == "skipped":
                continue
            for mutation in item["mutations"]:
                place = f"{self._module}:{mutation['start_pos'][0]}"
                change = f"{mutation['operator_name'].removeprefix('core/')} ({mutation['occurrence']})"
                found.append(Mutant(place, change, noticed=result["test_outcome"] != "survived"))
        return found

    def _items(self) -> list[Any]:
        return [json.loads(line) for line in self._run("cosmic-ray", "dump", self._session).splitlines()]

    def _run(self, program: str, *arguments: Path | str) -> str:
        done = subprocess.run(
            [self._tool / program, *arguments],
            cwd=self._copy,
            env=environment_of(self._copy),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise ToolError(f"{program} {arguments[0]} failed:\n{done.stdout}{done.stderr}")
        return done.stdout


def main() -> int:
    """Sweep, and print survivors and scores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("modules", nargs="*", help="such as core.confidence or ledger; all of core and ledger if none")
    parser.add_argument("--tests", help="what pytest runs, instead of the tests of the module's own name or folder")
    parser.add_argument("--tool", type=Path, required=True, help="the folder of cosmic-ray's programs")
    given = parser.parse_args()
    table = Table("module", "tests", "mutants", "noticed", "score")
    progress = Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with tempfile.TemporaryDirectory(prefix="prudent-sweep-") as folder, progress:
        for module in modules_of(given.modules):
            copy = Path(folder) / "project"
            copy_project(copy)
            tests = given.tests or selected_tests(module)
            sweep = Sweep(given.tool.absolute(), copy, module, tests)
            task = progress.add_task(str(module.relative_to(PACKAGE)), total=sweep.prepare())
            for tried in sweep.execute():
                progress.update(task, completed=tried)
            mutants = sweep.mutants()
            progress.update(task, completed=len(mutants))
            noticed = sum(mutant.noticed for mutant in mutants)
            for mutant in mutants:
                if not mutant.noticed:
                    progress.print(f"survived: {mutant.place} {mutant.change}")
            score = f"{noticed / len(mutants):.0%}" if mutants else "-"
            table.add_row(str(module), tests, str(len(mutants)), str(noticed), score)
    Console(width=160).print(table)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ToolError as error:
        sys.exit(str(error))
