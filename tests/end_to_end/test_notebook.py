"""The notebook runs from its first cell to its last, and shows what it printed."""

import json

from tests.notebook import NOTEBOOK, TABLE, is_same, run, table, texts


def test_the_notebook_shows_what_its_cells_print() -> None:
    """An analyst runs it cell by cell and compares. `python -m tests.notebook` writes it anew."""
    stored, printed = texts(json.loads(NOTEBOOK.read_text(encoding="utf-8"))), texts(run())
    assert len(stored) == len(printed) >= 8
    for shown, now in zip(stored, printed, strict=True):
        assert len(shown) == len(now), (shown, now)
        assert all(is_same(one, other) for one, other in zip(shown, now, strict=True)), (shown, now)


def test_the_table_of_the_notebook_is_the_one_described() -> None:
    """What the notebook says of its world would be of another one."""
    assert TABLE.read_text(encoding="utf-8") == table()
