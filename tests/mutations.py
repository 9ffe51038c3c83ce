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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table

from tests.servers import ROOT, clean_environment

TEST_SECONDS_MAX = 300
PACKAGES = ("service", "simulator", "client")
FOLDERS = (*PACKAGES, "migrations", "tests", "docs")
FILES = ("pyproject.toml", "README.md", "CHANGELOG.md")
GREEN, RED = 0, 1
Edit = Callable[[ast.AST], ast.AST | None]
"""What takes the place of a node; None leaves it as it is."""


def drop_call(name: str) -> Edit:
    """Leave out a statement that does nothing but make this call."""

    def edit(node: ast.AST) -> ast.AST | None:
        return ast.Pass() if isinstance(node, ast.Expr) and _called(node.value) == name else None

    return edit


def drop_raise(name: str) -> Edit:
    """Carry on where this exception would be raised."""

    def edit(node: ast.AST) -> ast.AST | None:
        return ast.Pass() if isinstance(node, ast.Raise) and node.exc and _called(node.exc) == name else None

    return edit


def drop_element(holds: str) -> Edit:
    """Leave out the one element of a tuple, or argument of a call, that is this expression."""

    def edit(node: ast.AST) -> ast.AST | None:
        elements = node.args if isinstance(node, ast.Call) else node.elts if isinstance(node, ast.Tuple) else []
        kept = [element for element in elements if ast.unparse(element) != holds]
        if len(kept) == len(elements):
            return None
        if isinstance(node, ast.Call):
            return ast.Call(node.func, kept, node.keywords)
        return ast.Tuple(kept, ast.Load())

    return edit


def skip_branch(test: str) -> Edit:
    """Never enter the `if` whose condition is this expression."""

    def edit(node: ast.AST) -> ast.AST | None:
        if isinstance(node, ast.If) and ast.unparse(node.test) == test:
            return ast.If(ast.Constant(value=False), node.body, node.orelse)
        return None

    return edit


def drop_condition(part: str) -> Edit:
    """Hold one part of an `and` for true."""

    def edit(node: ast.AST) -> ast.AST | None:
        if not isinstance(node, ast.BoolOp) or not isinstance(node.op, ast.And):
            return None
        kept = [value for value in node.values if ast.unparse(value) != part]
        return None if len(kept) == len(node.values) else ast.BoolOp(node.op, [*kept, ast.Constant(value=True)])

    return edit


def unwrap(method: str) -> Edit:
    """Leave out the call of a method that returns a variant of its object."""

    def edit(node: ast.AST) -> ast.AST | None:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != method:
            return None
        return node.func.value

    return edit


def call_instead(old: str, new: str) -> Edit:
    """Call another function with the same arguments."""

    def edit(node: ast.AST) -> ast.AST | None:
        if not isinstance(node, ast.Call) or _called(node) != old:
            return None
        return ast.Call(ast.parse(new, mode="eval").body, node.args, node.keywords)

    return edit


def change_argument(first: str, keyword: str, *, value: bool) -> Edit:
    """Pass another value for a keyword in the call whose first argument is this constant."""

    def edit(node: ast.AST) -> ast.AST | None:
        if not isinstance(node, ast.Call) or not node.args or ast.unparse(node.args[0]) != repr(first):
            return None
        kept = [one for one in node.keywords if one.arg != keyword]
        return ast.Call(node.func, node.args, [*kept, ast.keyword(keyword, ast.Constant(value=value))])

    return edit


def replace(old: str, new: str) -> Edit:
    """Put one expression in the place of another."""

    def edit(node: ast.AST) -> ast.AST | None:
        is_old = isinstance(node, ast.expr) and ast.unparse(node) == old
        return ast.parse(new, mode="eval").body if is_old else None

    return edit


@dataclass(frozen=True)
class Mutation:
    """A fault, and the test that must notice it. place: a module and a function, method or variable in it."""

    name: str
    place: str
    edit: Edit
    test: str


LEDGER = "prudent.ledger.ledger:Ledger"
TRUST = "tests/trust"
MUTATIONS = (
    # locks
    Mutation(
        "no lock on a campaign's head",
        "prudent.store.campaigns:_LOCK",
        unwrap("with_for_update"),
        f"{TRUST}/test_exactly_once.py::test_two_workers_teach_one_campaign",
    ),
    Mutation(
        "SQLite's lock taken late",
        "prudent.store.statements:begin_immediate",
        replace("'BEGIN IMMEDIATE'", "'BEGIN'"),
        "tests/store/test_schema.py::test_sqlite_is_durable_and_locks_before_it_reads",
    ),
    Mutation(
        "two servers on one SQLite file",
        "prudent.preflight:_lock_file",
        drop_call("fcntl.flock"),
        "tests/end_to_end/test_command_line.py::test_a_second_server_on_one_sqlite_file_is_refused",
    ),
    Mutation(
        "migrations without a lock",
        "prudent.store.schema:migrate",
        replace("'SELECT pg_advisory_xact_lock(:lock)'", "'SELECT :lock'"),
        f"{TRUST}/test_upgrades.py::test_starters_at_once_migrate_once[postgres-empty]",
    ),
    Mutation(
        "inserts in no order",
        "prudent.store.decisions:insert_decisions",
        call_instead("sorted", "list"),
        f"{TRUST}/test_exactly_once.py::test_two_workers_that_insert_the_same_ids_do_not_deadlock",
    ),
    Mutation(
        "one locked command refuses the whole batch",
        f"{LEDGER}._give_up",
        skip_branch("len(commands) > 1"),
        f"{TRUST}/test_faults.py::test_waiting_for_anothers_id_concerns_that_command_alone",
    ),
    # commits
    Mutation(
        "no UNIQUE on rewards",
        "migrations.versions.20261128_first_schema:upgrade",
        change_argument("uq_observations_decision_id", "unique", value=False),
        f"{TRUST}/test_exactly_once.py::test_the_database_itself_refuses_a_second_row",
    ),
    Mutation(
        "a reply that does not wait for its commit",
        f"{LEDGER}._attempt",
        call_instead("transaction.commit", "threading.Timer(0.05, transaction.commit).start"),
        f"{TRUST}/test_commits.py::test_a_success_is_committed",
    ),
    Mutation(
        "a failing commit acknowledged",
        f"{LEDGER}._attempt",
        drop_raise("UnknownOutcomeError"),
        f"{TRUST}/test_commits.py::test_a_success_is_committed",
    ),
    Mutation(
        "SQLite commits without a sync",
        "prudent.store.engines:_create_sqlite",
        replace("'synchronous = FULL'", "'synchronous = OFF'"),
        "tests/store/test_schema.py::test_sqlite_is_durable_and_locks_before_it_reads",
    ),
    Mutation(
        "fsync=off accepted",
        "prudent.preflight:_check_durability",
        drop_element("'fsync'"),
        f"{TRUST}/test_starting.py::test_a_database_that_does_not_sync_is_refused",
    ),
    Mutation(
        "a lost connection returned as a good one",
        "prudent.store.statements:_raise",
        skip_branch("lost"),
        "tests/store/test_statements.py::test_a_lost_connection_is_replaced",
    ),
    Mutation(
        "an import published without its rows being counted",
        "prudent.ledger.importing:_finish",
        drop_raise("ConflictError"),
        "tests/ledger/test_importing.py::test_a_client_that_takes_a_staged_id_wins_and_the_import_says_so",
    ),
    # deadlines
    Mutation(
        "the sweep decides, not the deadline",
        "prudent.ledger.rewards:reward",
        skip_branch("expire(state, decision, now, writes)"),
        f"{TRUST}/test_deadlines.py::test_the_deadline_decides_and_not_the_sweep",
    ),
    Mutation(
        "the default reward learned again by each sweep",
        "prudent.ledger.batch:Batch._expire",
        drop_condition("self._recorded_reward(command.decision_id) is None"),
        "tests/ledger/test_ledger.py::test_a_deadline_teaches_the_default_once",
    ),
    Mutation(
        "deadlines on the wall clock",
        "prudent.clock:steady_clock",
        replace("ahead + elapsed()", "wall()"),
        f"{TRUST}/test_deadlines.py::test_setting_the_wall_clock_moves_no_deadline",
    ),
    Mutation(
        "deadlines of a campaign that is being imported are swept",
        "prudent.store.decisions:_DUE",
        drop_element("campaigns.c.campaign_id.is_not(None)"),
        "tests/ledger/test_importing.py::test_a_deadline_that_passes_during_an_import_is_kept",
    ),
    Mutation(
        "no deadline for an answer",
        f"{LEDGER}._enqueue",
        replace("self._limits.answer_seconds_max", "3_600"),
        f"{TRUST}/test_faults.py::test_a_postgres_that_stalls",
    ),
)


def _called(node: ast.AST) -> str | None:
    return ast.unparse(node.func) if isinstance(node, ast.Call) else None


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
