"""Faults put into a copy of the project on purpose; each must turn a named test red: python -m tests.mutations

A test that stays green does not protect what it says it does. An old text that is not in its file any more fails,
too: then the mutation has to be written anew.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from tests.servers import ROOT, clean_environment

TEST_SECONDS_MAX = 300
FOLDERS = ("service", "simulator", "client", "migrations", "tests", "docs")
FILES = ("pyproject.toml", "README.md", "CHANGELOG.md")
GREEN, RED = 0, 1


@dataclass(frozen=True)
class Mutation:
    """What is changed in one file, and the test that must notice."""

    name: str
    file: str
    changes: tuple[tuple[str, str], ...]
    test: str


UNIQUE = '"uq_observations_decision_id",\n        "observations",\n        ["decision_id"],\n        unique='
LEDGER = "service/prudent/ledger/ledger.py"
TRUST = "tests/trust"
DASHBOARD = "tests/dashboard"
LATE_COMMIT = """        self._settle(entries, outcomes)
        late = self.__dict__.pop("_late", None)
        if late is not None:
            time.sleep(0.05)
            try:
                late.commit()
            except Exception:
                pass
            late.connection.close()

    def _settle"""
MUTATIONS = (
    Mutation(
        "no lock on a campaign's head",
        "service/prudent/store/campaigns.py",
        (
            (
                "_LOCK = Lookup(_HEADS.with_for_update(key_share=True), heads.c.key)",
                "_LOCK = Lookup(_HEADS, heads.c.key)",
            ),
        ),
        f"{TRUST}/test_exactly_once.py::test_two_workers_teach_one_campaign",
    ),
    Mutation(
        "SQLite's lock taken late",
        "service/prudent/store/engines.py",
        (('"BEGIN IMMEDIATE"', '"BEGIN"'),),
        "tests/store/test_schema.py::test_sqlite_is_durable_and_locks_before_it_reads",
    ),
    Mutation(
        "no UNIQUE on rewards",
        "migrations/versions/20261128_first_schema.py",
        ((UNIQUE + "True", UNIQUE + "False"),),
        f"{TRUST}/test_exactly_once.py::test_the_database_itself_refuses_a_second_row",
    ),
    Mutation(
        "an import is published without counting its rows",
        "service/prudent/ledger/importing.py",
        (("!= (step.head, step.head, step.decisions):", "== (-1, -1, -1):"),),
        "tests/ledger/test_importing.py::test_a_client_that_takes_a_staged_id_wins_and_the_import_says_so",
    ),
    Mutation(
        "deadlines of a campaign that is being imported are swept",
        "service/prudent/store/decisions.py",
        (("        campaigns.c.campaign_id.is_not(None),\n", ""),),
        "tests/ledger/test_importing.py::test_a_deadline_that_passes_during_an_import_is_kept",
    ),
    Mutation(
        "an export takes decisions of later states",
        "service/prudent/transfer/exporting.py",
        (("if row.seen <= self._row.head", "if row.seen >= 0"),),
        "tests/transfer/test_exporting.py::test_what_comes_after_the_start_is_left_out",
    ),
    Mutation(
        "reply before commit",
        LEDGER,
        (
            (
                "with self._held.use() as connection:\n            tr",
                "if connection := self._write.connect():\n            tr",
            ),
            ("                transaction.commit()\n", "                self._late = transaction\n"),
            ("        self._settle(entries, outcomes)\n\n    def _settle", LATE_COMMIT),
        ),
        f"{TRUST}/test_commits.py::test_a_success_is_committed",
    ),
    Mutation(
        "a failing commit acknowledged",
        LEDGER,
        (('raise UnknownOutcomeError("the outcome is unknown: send the same request again") from error', "pass"),),
        f"{TRUST}/test_commits.py::test_a_success_is_committed",
    ),
    Mutation(
        "inserts not sorted",
        "service/prudent/store/decisions.py",
        (("_INSERTION.execute(connection, sorted(rows))", "_INSERTION.execute(connection, list(rows))"),),
        f"{TRUST}/test_exactly_once.py::test_two_workers_that_insert_the_same_ids_do_not_deadlock",
    ),
    Mutation(
        "a lock elsewhere refuses the whole batch",
        LEDGER,
        (("if len(commands) > 1:  # find", "if len(commands) > 1 and failure is Failure.DEFECT:  # find"),),
        f"{TRUST}/test_faults.py::test_waiting_for_anothers_id_concerns_that_command_alone",
    ),
    Mutation(
        "certificate skipped",
        "service/prudent/core/estimators/exact.py",
        (("        if solution.certified:\n", "        if True:\n"),),
        "tests/core/test_estimators.py::test_exact_keeps_its_estimate_when_a_solve_has_no_certificate",
    ),
    Mutation(
        "SQLite commits without a sync",
        "service/prudent/store/engines.py",
        (('"synchronous = FULL"', '"synchronous = OFF"'),),
        "tests/store/test_schema.py::test_sqlite_is_durable_and_locks_before_it_reads",
    ),
    Mutation(
        "fsync=off accepted",
        "service/prudent/preflight.py",
        (('for setting in ("fsync", "synchronous_commit"):', 'for setting in ("synchronous_commit",):'),),
        f"{TRUST}/test_starting.py::test_a_database_that_does_not_sync_is_refused",
    ),
    Mutation(
        "a damaged file served",
        "service/prudent/preflight.py",
        (("            _check_pages(connection)\n", "            pass\n"),),
        f"{TRUST}/test_starting.py::test_a_damaged_file_is_refused[a page of the log]",
    ),
    Mutation(
        "two servers on one SQLite file",
        "service/prudent/preflight.py",
        (("        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)\n", "        fcntl.flock(lock, fcntl.LOCK_SH)\n"),),
        "tests/end_to_end/test_command_line.py::test_a_second_server_on_one_sqlite_file_is_refused",
    ),
    Mutation(
        "migrations without a lock",
        "service/prudent/store/schema.py",
        (('"SELECT pg_advisory_xact_lock(:lock)"', '"SELECT :lock"'),),
        f"{TRUST}/test_upgrades.py::test_starters_at_once_migrate_once[postgres-empty]",
    ),
    Mutation(
        "the sweep decides, not the deadline",
        "service/prudent/ledger/rewarding.py",
        (("    if expire(state, decision, now, writes):\n", "    if False:\n"),),
        f"{TRUST}/test_deadlines.py::test_the_deadline_decides_and_not_the_sweep",
    ),
    Mutation(
        "the default learned again by each sweep",
        "service/prudent/ledger/batch.py",
        (
            (
                "if decision is not None and self._recorded_reward(command.decision_id) is None:",
                "if decision is not None:",
            ),
        ),
        "tests/ledger/test_ledger.py::test_a_deadline_teaches_the_default_once",
    ),
    Mutation(
        "deadlines on the wall clock",
        "service/prudent/clock.py",
        (("return lambda: (ahead + elapsed()) // 1_000", "return lambda: wall() // 1_000"),),
        f"{TRUST}/test_deadlines.py::test_setting_the_wall_clock_moves_no_deadline",
    ),
    Mutation(
        "ready though nothing can be written",
        "service/prudent/api/operations.py",
        (("detail, remark = ledger.fault, None", "detail, remark = None, None"),),
        f"{TRUST}/test_faults.py::test_a_locked_sqlite_file",
    ),
    Mutation(
        "unready for good",
        LEDGER,
        (("        else:\n            self._refused = None\n", "        else:\n"),),
        f"{TRUST}/test_disks.py::test_an_sqlite_file_that_may_not_grow",
    ),
    Mutation(
        "503 without Retry-After",
        "service/prudent/api/problems.py",
        (('{"Retry-After": str(error.retry_after_seconds)} if isinstance(error, UnavailableError) else None', "None"),),
        f"{TRUST}/test_faults.py::test_a_postgres_that_is_gone",
    ),
    Mutation(
        "a stalled database waited for",
        LEDGER,
        (("loop.call_later(self._limits.answer_seconds_max, ", "loop.call_later(3_600, "),),
        f"{TRUST}/test_faults.py::test_a_postgres_that_stalls",
    ),
    Mutation(
        "a remembered decision believed after its campaign's end",
        "service/prudent/ledger/batch.py",
        (("        if stale or ended:", "        if stale:"), ("self._recent.forget(ended)", "pass")),
        "tests/ledger/test_recent.py::test_a_decision_is_forgotten_with_its_campaign",
    ),
    Mutation(
        "a lost connection given back as a good one",
        "service/prudent/store/statements.py",
        (("    if lost:\n        connection.invalidate(error)\n", ""),),
        "tests/store/test_statements.py::test_a_lost_connection_is_replaced",
    ),
    Mutation(
        "what the driver raises passed on as it is",
        "service/prudent/store/statements.py",
        (("    if not isinstance(error, drivers):\n", "    if error:\n"),),
        "tests/store/test_statements.py::test_errors_are_those_that_sqlalchemy_raises",
    ),
    Mutation(
        "a connection kept after an error",
        "service/prudent/store/engines.py",
        (("            self.release()\n            raise", "            raise"),),
        "tests/store/test_statements.py::test_a_held_connection_stays_and_is_given_back_after_an_error",
    ),
    Mutation(
        "a corrupt snapshot believed",
        "service/prudent/core/snapshot.py",
        ((" or checksum(body) != data[:_CHECKSUM_BYTES]", ""),),
        f"{TRUST}/test_starting.py::test_a_corrupt_snapshot_is_folded_again_and_said",
    ),
    Mutation(
        "a reward does not wait for its select",
        "service/prudent/ledger/batch.py",
        (("known.key if known is not None else self._asked.get(command.decision_id)", "known.key if known else None"),),
        "tests/ledger/test_ledger.py::test_a_reward_waits_with_its_decision_until_the_campaign_is_loaded",
    ),
    Mutation(
        "a client that leaves is an error",
        "service/prudent/api/problems.py",
        (("    app.add_exception_handler(ClientDisconnect, on_disconnect)\n", ""),),
        f"{TRUST}/test_disconnects.py::test_a_client_that_leaves_in_mid_body_causes_no_traceback",
    ),
    Mutation(
        "pages of the audit trail that end at a time alone",
        "service/prudent/reporting/decision_log.py",
        (("Position(page[-1].created_at, page[-1].decision_id)", 'Position(page[-1].created_at, "")'),),
        "tests/api/test_trail.py::test_pages_of_one_moment",
    ),
    Mutation(
        "pruned decisions not counted as plays",
        "service/prudent/reporting/collection.py",
        (("        tally.plays += tally.answered - tally.met\n", "        pass\n"),),
        "tests/api/test_report.py::test_pruned_decisions",
    ),
    Mutation(
        "a report of two moments",
        "service/prudent/store/reports.py",
        (("and_(IS_OF_DECISION, observations.c.sequence <= _AT_HEAD)", "IS_OF_DECISION"),),
        "tests/reporting/test_collection.py::test_picture_of_one_moment",
    ),
    Mutation(
        "rounding of steps that adds up",
        "service/prudent/core/estimators/recursive.py",
        (("return self._error <= _ERROR_MAX * size", "return True"),),
        "tests/core/test_wide.py::test_theta_is_right_after_every_observation_of_rewards_that_cancel_in_pairs",
    ),
    Mutation(
        "steps from wherever somebody asked",
        "service/prudent/core/estimators/ridge.py",
        (("has_steps = known is not None and not waiting", "has_steps = known is not None"),),
        "tests/core/test_recursive.py::test_what_is_known_does_not_depend_on_when_it_was_asked_for",
    ),
    Mutation(
        "certainty about features that nothing tells about",
        "service/prudent/core/intervals.py",
        (("DATA_SHARE_MIN = 0.9", "DATA_SHARE_MIN = -1.0"), ("(halves > 0.0)", "(halves >= 0.0)")),
        "tests/core/test_intervals.py::test_no_interval_for_features_that_nothing_tells_about",
    ),
    Mutation(
        "intervals of a risk as wide as the mean's",
        "service/prudent/core/samples.py",
        (("loss.d1(values, predictions), loss.d2(values, predictions)", "predictions - values, np.ones(count)"),),
        "tests/core/test_samples.py::test_coverage",
    ),
    Mutation(
        "counters of workers by process id",
        "service/prudent/observability/multiprocess.py",
        (("process_identifier=lambda: self.number", "process_identifier=os.getpid"),),
        "tests/end_to_end/test_metrics.py::test_two_workers_are_counted_as_one",
    ),
    Mutation(
        "a request counted after its answer",
        "service/prudent/api/operations.py",
        (
            (
                "                count()\n            await send(message)",
                "                pass\n            await send(message)",
            ),
        ),
        "tests/end_to_end/test_metrics.py::test_an_answer_is_counted_before_it_is_complete",
    ),
    Mutation(
        "parameters of statements in the log",
        "service/prudent/store/engines.py",
        (("        hide_parameters=True,  # errors", "        # errors"),),
        "tests/end_to_end/test_logs.py::test_nothing_that_a_request_carried_is_logged",
    ),
    Mutation(
        "dashboard: a session opens the API",
        "service/prudent/api/server/authentication.py",
        (('        if keys or not is_page(scope["path"]):\n', "        if keys:\n"),),
        f"{DASHBOARD}/test_pages.py::test_a_session_opens_the_pages_and_nothing_else",
    ),
    Mutation(
        "dashboard: forms of other sites taken",
        "service/prudent/dashboard/forms.py",
        (("    check_origin(request)\n", ""),),
        f"{DASHBOARD}/test_pages.py::test_a_form_of_another_site_is_refused",
    ),
    Mutation(
        "dashboard: sessions of anyone",
        "service/prudent/security/sessions.py",
        (("not hmac.compare_digest(mac, self._mac(ends, digest)) or ", ""),),
        f"{DASHBOARD}/test_pages.py::test_a_session_cannot_be_made_up_and_ends",
    ),
    Mutation(
        "dashboard: descriptions not escaped",
        "service/prudent/dashboard/rendering.py",
        (("autoescape=True", "autoescape=False"),),
        f"{DASHBOARD}/test_pages.py::test_the_policy_lets_pages_run_our_own_files_alone",
    ),
    Mutation(
        "dashboard: a long log read from its beginning alone",
        "service/prudent/store/overview.py",
        (("        starts = (head * block // REWARD_BLOCKS", "        starts = (rows * block"),),
        f"{DASHBOARD}/test_overview.py::test_a_long_campaign_is_read_from_all_over_its_log[sqlite]",
    ),
    Mutation(
        "dashboard: everything read again at every look",
        "service/prudent/dashboard/cache.py",
        (("kept.stamp == stamp or ", ""),),
        f"{DASHBOARD}/test_overview.py::test_what_has_not_changed_is_not_read_again",
    ),
)


def copy_project(directory: Path) -> None:
    """What the tests need of the project."""
    for name in FOLDERS:
        shutil.copytree(ROOT / name, directory / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(ROOT / name, directory / name)


def apply(mutation: Mutation, directory: Path) -> None:
    """Change the copy. Raises ValueError where an old text is not there exactly once."""
    path = directory / mutation.file
    source = path.read_text(encoding="utf-8")
    for old, new in mutation.changes:
        if source.count(old) != 1:
            raise ValueError(f"{mutation.name}: {mutation.file} has {source.count(old)} times: {old}")
        source = source.replace(old, new)
    path.write_text(source, encoding="utf-8")


def outcome_of(tests: list[str], directory: Path, log: Path) -> int | None:
    """pytest's exit code for these tests in the copy; None if it took too long."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    packages = os.pathsep.join(str(directory / name) for name in ("service", "simulator", "client", "."))
    environment = clean_environment({"PYTHONPATH": packages, "PYTHONDONTWRITEBYTECODE": "1"})
    with log.open("ab") as output:
        try:
            done = subprocess.run(
                command,
                cwd=directory,
                env=environment,
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
    table = Table("mutation", "file", "test", "result")
    failures, progress = 0, Console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="prudent-mutations-") as folder:
        for mutation in chosen:  # all must still fit before the first is tried
            apply(mutation, _fresh(Path(folder) / "check"))
        if not given.trusting:
            names = sorted({mutation.test for mutation in chosen})
            if outcome_of(names, _fresh(Path(folder) / "plain"), given.log) != GREEN:
                progress.print("the tests fail without any mutation: see --log", style="bold red")
                return 1
        for mutation in track(chosen, "mutants", console=progress):
            directory = _fresh(Path(folder) / "mutant")
            apply(mutation, directory)
            code = outcome_of([mutation.test], directory, given.log)
            killed = code == RED
            failures += not killed
            result = "red" if killed else "SURVIVED" if code == GREEN else f"NOT RUN ({code})"
            progress.print(f"{mutation.name}: {result}")
            table.add_row(mutation.name, mutation.file, mutation.test.removeprefix("tests/"), result)
    Console(width=200).print(table)
    Console().print(f"{len(chosen)} mutations, {failures} not noticed")
    return failures


def _fresh(directory: Path) -> Path:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    copy_project(directory)
    return directory


if __name__ == "__main__":
    sys.exit(main() > 0)
