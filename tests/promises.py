"""The promises of docs/reliability.md, and the table of figures that a run of the tests prints at its end.

A test that shows a promise asks for the fixture `promise` and gives its figure before it asserts; whether it passed
is the test's own outcome. Promises that are shown by whole files of other tests are listed in `LINKED`.
"""

import os
from collections.abc import Callable

import pytest

PROMISES = {
    "R1": "what is acknowledged survives SIGKILL",
    "R2": "what is acknowledged survives a power cut",
    "processes": "a process of the service that dies takes nothing with it",
    "R3": "exactly once",
    "R5": "no lost update",
    "R6": "2xx implies committed",
    "R7": "disconnects are harmless",
    "R8": "a database restart is survived",
    "R9": "a stalled database is survived",
    "R10": "locks of others are survived",
    "R11": "a full disk is survived",
    "R12": "clocks that are set move nothing",
    "R13": "graceful stop",
    "R14": "migrations run once and change no data",
    "R15": "a failover leaves workers that agree with the database",
    "R16": "a restore under running workers, too",
    "R17": "a damaged page is never learned from",
    "R18": "any input",
    "R19": "both databases give the same replies",
    "R20": "large and hostile bodies",
    "R21": "slow readers harm only themselves",
    "R22": "auth",
    "R23": "checking a key takes the same time, however much of it is right",
    "R26": "an hour of traffic leaks nothing",
    "R27": "metrics equal the truth",
    "R28": "numbers stay sane",
    "R29": "numbers are right",
    "R33": "reproducible",
    "faults": "503 where it concerns you and nowhere else; readiness tells",
    "read-only": "503 while the database takes no rows, and by itself afterwards",
    "poolers": "two workers through PgBouncer",
    "defaults": "default rewards are learned exactly once",
    "late": "a default of the client comes by its deadline",
    "backups": "restore, verify, serve",
    "moving": "an export imported elsewhere is the same campaign",
    "R35": "what is shipped is pinned, listed and bounded",
    "file": "SQLite's file is the one that was opened",
    "quarantine": "rows that cannot be learned concern their campaign only",
    "digest": "a row that changes after it was appended is found",
    "arms": "arms come and go, no error; a retired one is not chosen again",
    "compaction": "a log whose oldest rows were replaced teaches the same",
    "owners": "servers behind a proxy: those that end or hang are replaced",
    "upgrades": "every released schema opens, migrates and verifies",
}
LINKED = {
    "R28": ("tests/core/test_adversarial.py",),
    "R29": ("tests/core/numerics/test_newton.py", "tests/core/test_distributions.py", "tests/core/measures"),
    "R33": ("tests/end_to_end/test_reproducibility.py",),
}
FIGURE = "promise"
FAILED = "failed"
Promise = Callable[[str, str], None]


def length(name: str, short: int) -> int:
    """How often to repeat: the variable TRUST_<name> if it is set, else the short form's number."""
    return int(os.environ.get(f"TRUST_{name}", short))


def table(reports: list[pytest.TestReport]) -> list[str]:
    """A Markdown table: one row a figure, and one for each linked promise whose tests ran."""
    rows: list[tuple[str, str, bool]] = []
    for report in reports:
        if report.failed and report.nodeid.startswith("tests/trust") and not report.user_properties:
            rows.append((FAILED, report.nodeid, False))
        for name, value in report.user_properties:
            if name == FIGURE:
                number, _, figure = str(value).partition(": ")
                rows.append((number, figure, report.passed))
    for number, files in LINKED.items():
        linked = [report for report in reports if report.nodeid.startswith(files)]
        if linked:
            passed = sum(report.passed for report in linked)
            rows.append((number, f"{passed} of {len(linked)} tests of {', '.join(files)}", passed == len(linked)))
    order = [*PROMISES, FAILED]
    rows.sort(key=lambda row: order.index(row[0]))
    lines = [
        f"| {number} | {PROMISES.get(number, '')} | {figure} | {'yes' if ok else 'NO'} |" for number, figure, ok in rows
    ]
    return ["| | promise | figure | pass |", "|---|---|---|---|", *lines] if lines else []
