"""The comparison of medians with what was expected of them."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np

from prudent_simulator.paper.cells import Costs, Grid
from prudent_simulator.paper.checks import EXPECTATIONS, checks_of
from prudent_simulator.paper.page import write_report
from prudent_simulator.paper.results import Results, RowResult
from prudent_simulator.paper.rows import ROWS

GRID = Grid(seed=0, rounds=1_500, replications=3, block=3)
COSTS = Costs(1.0, 1.0, 1.0, 1.0, 1.0, 1)
MEDIANS = {
    "1-linucb": 1_495.0,
    "1-linucb-cr": 110.0,
    "1-linucb-cr-tight": 40.1,
    "1-linucb-ogd-cr": 127.0,
    "2-shared-linucb-cr": 95.9,
    "2-shared-linucb-ogd-cr": 110.0,
    "3-linucb": 334.9,
    "3-linucb-cr": 92.0,
}
OUTSIDE = {"1-linucb-cr-tight", "1-linucb-ogd-cr", "2-shared-linucb-cr", "3-linucb"}


def results() -> Results:
    """Three replications a row, whose median is neither their mean nor the first of them."""
    rows = {}
    for row in ROWS:
        if row.key in MEDIANS:
            final = np.array([0.1, MEDIANS[row.key], 9e3])
            regret = np.linspace(0.0, final, 2, axis=1)
            rows[row.key] = RowResult(row, regret, [COSTS])
    return Results(GRID, rows, [])


def test_verdicts() -> None:
    """Someone who trusts a "within" must be able to: bounds belong to it, and a ratio is one of medians."""
    checks = {check.row: check for check in checks_of(results())}
    # 110 is the upper bound itself, 97 + 13; 127/110 = 1.1545 is above 1.15, 110/95.9 = 1.147 is not.
    assert {row for row, check in checks.items() if not check.is_within} == OUTSIDE
    assert set(checks) == set(MEDIANS)
    assert checks["1-linucb-ogd-cr"].found == 127.0 / 110.0
    assert checks["1-linucb-cr"].expectation.wanted == "97 ± 13"


def test_every_expectation_is_of_a_row() -> None:
    """An expectation of a row that does not exist would never be checked, and nobody would know."""
    rows = {(row.problem, row.algorithm, row.variant) for row in ROWS}
    assert all((one.problem, one.algorithm, one.variant) in rows for one in EXPECTATIONS)


def test_no_verdict_on_other_lengths() -> None:
    """Regret grows with the rounds."""
    assert checks_of(replace(results(), grid=replace(GRID, rounds=1_000))) == []


def test_the_page_names_what_is_outside(tmp_path: Path) -> None:
    """A miss must stand where it is read, not only in a column."""
    for path in write_report(results(), None, [], tmp_path):
        text = path.read_text(encoding="utf-8")
        assert "4 of 8 checks are within; 8 more could not be made" in text
        (told,) = re.findall(r"Outside, and not explained by anything on this page: (.*?\d)\. ", text)
        assert {one.split(",")[0] for one in told.split("; ")} == OUTSIDE
        assert "1-linucb-ogd-cr, 1.155 times linucb-cr, expected at most 1.15" in told  # 1.15 would look within
