"""The table of arms: every arm can be found, whatever the query asks for."""

import pytest

from prudent.dashboard.arms import COLUMNS, SHOWN_MAX, ArmLine, added, arm_table

LINES = [ArmLine(f"arm-{n:03}", "active", None, rewards=n % 7, mean=None if n % 2 else -float(n)) for n in range(120)]


def names(found: list[ArmLine]) -> list[str]:
    """Of the lines."""
    return [line.arm_id for line in found]


def test_page_after_page_shows_every_arm() -> None:
    """Of 120 arms, 70 could be seen nowhere."""
    seen: list[str] = []
    first = 0
    while True:
        table = arm_table(LINES, "", "name", first)
        seen += names(table.lines)
        if table.later is None:
            break
        first += SHOWN_MAX
    assert seen == names(LINES)
    assert (table.found, table.total) == (120, 120)
    assert table.earlier == "arm=&order=name&first=50"
    assert arm_table(LINES, "", "name", 0).earlier is None


@pytest.mark.parametrize("column", COLUMNS)
def test_numbers_are_ordered_from_the_largest_and_unknown_ones_come_last(column: str) -> None:
    """An arm without rewards would be the best by the mean."""
    values = [COLUMNS[column](line) for line in arm_table(LINES, "", column, 0).lines]
    known = [value for value in values if value is not None]
    assert known == sorted(known, reverse=True)
    assert values[: len(known)] == known


def test_a_search_looks_for_a_part_of_the_name() -> None:
    """One would have to know the beginning, or how it is written."""
    table = arm_table(LINES, " ARM-01", "mean", 0)
    assert sorted(names(table.lines)) == [f"arm-01{n}" for n in range(10)]
    assert (table.found, table.total, table.later) == (10, 120, None)
    assert table.query("name") == "arm=ARM-01&order=name&first=0"


@pytest.mark.parametrize(("column", "first"), [("nonsense", 0), ("", 10_000), ("__class__", -1)])
def test_what_cannot_be_asked_for_is_left_out(column: str, first: int) -> None:
    """An old link would show an error, or nothing."""
    table = arm_table(LINES, "", column, first)
    assert (table.column, table.first, len(table.lines)) == ("index", 0, SHOWN_MAX)


def test_the_bonus_is_what_makes_the_index() -> None:
    """With an exploration of 3 the numbers of a line did not add up."""
    assert added(1.0, 4.0) == 3.0
    assert added(1.0, None) is None
