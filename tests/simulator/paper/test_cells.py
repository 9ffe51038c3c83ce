"""The directory of a grid: what is in it is whole and belongs together."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from prudent_simulator.client import Client
from prudent_simulator.paper.cells import Archive, PaperError, cells_of
from prudent_simulator.paper.rows import ROWS, Group, Variant, select_rows
from prudent_simulator.settings import AlgorithmName
from tests.simulator.paper.conftest import GRID, fill, made_up


def test_the_papers_rows_are_three_experiments_by_three_algorithms() -> None:
    """The default is the paper's grid, no less and no more."""
    rows = select_rows(Group.PAPER)
    assert Counter(row.experiment for row in rows) == {1: 3, 2: 3, 3: 3}
    assert {row.variant for row in rows} == {Variant.PAPER}
    assert len({row.key for row in ROWS}) == len(ROWS)
    chosen = select_rows(Group.ALL, frozenset({3}), frozenset({AlgorithmName.LINUCB_OGD_CR}))
    assert [row.key for row in chosen] == ["3-linucb-ogd-cr", "3-linucb-ogd-cr-harmonic"]


def test_the_service_takes_every_row(server_url: str) -> None:
    """A row that the service refuses would stop a grid after an hour."""
    with Client(server_url) as client:
        for row in ROWS:
            created = client.create_campaign({"campaign_id": f"test-cells.{row.key}", "seed": 0, **row.request()})
            sent = row.request()["algorithm"]
            assert {name: created["algorithm"][name] for name in sent} == sent
            client.delete_campaign(f"test-cells.{row.key}")


def test_cells_cover_every_replication_once() -> None:
    """A replication left out or counted twice would shift every percentile."""
    cells = cells_of(GRID, ROWS[:2])
    numbers = Counter((cell.row.key, number) for cell in cells for number in cell.plan().numbers)
    assert numbers == {(row.key, number): 1 for row in ROWS[:2] for number in range(5)}
    assert len({cell.name for cell in cells}) == len(cells)


def test_a_cell_is_read_as_it_was_written(archive: Archive) -> None:
    """What is shown later is what was played."""
    cell = cells_of(GRID, ROWS)[3]
    read, written = archive.load(cell), made_up(cell)
    assert read is not None
    np.testing.assert_array_equal(read.regret, written.regret)
    np.testing.assert_array_equal(read.arms, written.arms)
    assert read.costs == written.costs


def test_a_cell_half_written_does_not_count(tmp_path: Path) -> None:
    """A crash in the middle of a file must not leave a result."""
    archive = fill(tmp_path, ROWS[:1], blocks=1)
    cell = cells_of(GRID, ROWS[:1])[1]
    left = archive.path(cell).with_suffix(".part")
    left.write_bytes(archive.path(cells_of(GRID, ROWS[:1])[0]).read_bytes()[:500])
    with archive.opened(GRID):
        assert archive.load(cell) is None
        assert not left.exists()


@pytest.mark.parametrize("changes", [{"seed": 8}, {"rounds": 31}, {"replications": 6}, {"block": 2}])
def test_another_grid_is_refused(archive: Archive, changes: dict[str, int]) -> None:
    """Runs of different settings in one table would compare nothing."""
    ((name, value),) = changes.items()
    expected = f"{name} is {getattr(GRID, name)} there and {value} here"
    with pytest.raises(PaperError, match=expected), archive.opened(replace(GRID, **changes)):
        pass


def test_a_cell_of_other_settings_is_refused(archive: Archive) -> None:
    """A file that was copied here, or made by another version with other settings of the row, is no result."""
    first, second = cells_of(GRID, ROWS)[:2]
    archive.path(first).write_bytes(archive.path(second).read_bytes())
    with pytest.raises(PaperError, match=r"made with other settings.*row is 1-linucb-cr there and 1-linucb here"):
        archive.load(first)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 but no more", b"\x93NUMPY"])
def test_a_broken_file_is_named(archive: Archive, content: bytes) -> None:
    """The user must know which file to remove."""
    cell = cells_of(GRID, ROWS)[0]
    archive.path(cell).write_bytes(content)
    with pytest.raises(PaperError, match=re.escape(str(archive.path(cell)))):
        archive.load(cell)


def test_two_runs_in_one_directory_are_refused(archive: Archive) -> None:
    """They would play the same cells, and remove each other's databases."""
    with archive.opened(GRID), pytest.raises(PaperError, match="another run"), archive.opened(GRID):
        pass
