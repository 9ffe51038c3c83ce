"""The regret benchmark: what it plays is what its table says."""

import numpy as np
import pytest

from benchmarks.regret import Job, cases, claims_table, parsed_options, request_of, row, run
from prudent_simulator.environments import environment_of
from prudent_simulator.settings import Bonus

ALL = cases(list(Bonus))


@pytest.mark.parametrize(("experiment", "is_disjoint"), [(1, False), (2, False), (2, True), (3, False)])
def test_every_case_runs_and_repeats_itself(experiment: int, is_disjoint: bool) -> None:
    """A figure that cannot be reproduced is none; with 5 plays per arm the warm-up costs a known regret."""
    for case in cases([Bonus.LOCAL]):
        job = Job(case, experiment, is_disjoint, 25, 3, range(4, 6))
        found, results = run(job)
        assert found is case
        assert run(job)[1] == results
        assert len(results) == 2
        for regret, _ in results:
            if experiment == 1:
                assert 5.0 <= regret <= 20.0  # arm 2 costs 1, and 5 of 25 rounds at least are arm 1's
            assert 0.0 < regret < 25.0


def test_replications_do_not_depend_on_how_the_work_is_cut() -> None:
    """All cases must meet the same noise, or medians of a few hundred replications say nothing."""
    case = ALL[0]
    together = run(Job(case, 2, False, 30, 0, range(3)))[1]
    assert together == [run(Job(case, 2, False, 30, 0, range(n, n + 1)))[1][0] for n in range(3)]


def test_the_names_say_what_is_requested() -> None:
    """A row would be attributed to another learner."""
    assert len({case.name for case in ALL}) == len(ALL) == 29
    for case in ALL:
        body = request_of(Job(case, 1, False, 1, 0, range(1)), environment_of(1), 0)["algorithm"]
        newcomer = "data-driven" in case.name
        assert (body["noise_scale"] is None) is (body["parameter_bound"] is None) is newcomer
        assert newcomer or case.name.endswith(f", {body['bonus']}")
        kind = {"exact": "linucb-cr", "one pa": "linucb-onepass-cr"}
        assert body["name"] == kind.get(case.name.split(",")[0][:6].strip(), "linucb-ogd-cr")
        if case.name.startswith("OGD 1/n"):
            assert (body["step_schedule"], body["step_size"]) == ("harmonic", 1.0)


def test_the_ratios_are_those_of_the_medians() -> None:
    """The claims are read off this table."""
    rows = [row("exact, local", [(3.0, True), (4.0, True), (9.0, False)]), row("one pass, local", [(5.0, True)])]
    assert (rows[0].median, rows[0].coverage) == (4.0, pytest.approx(2 / 3))
    (cells,) = [list(column.cells) for column in claims_table(rows).columns if column.header == "is"]
    assert cells == ["1.250"]
    assert np.isclose(rows[0].percentiles[-1], 8.5)


def test_options() -> None:
    """A name misspelt would run everything for an hour."""
    assert parsed_options(["--experiment", "2", "--disjoint", "--bonuses", "global"]).bonuses == [Bonus.GLOBAL]
    with pytest.raises(SystemExit):
        parsed_options(["--bonuses", "locl"])
