"""What an export holds of a campaign that goes on while its pages are read."""

from datetime import datetime, timedelta
from typing import Any

import orjson
import pytest
from sqlalchemy import text

from prudent.ledger.commands import Correct, DeleteCampaign, EraseDecisions, Reward, Select
from prudent.transfer import exporting
from prudent.transfer.exporting import Export, IncompleteExportError, begin_export
from tests.ledger.conftest import Worker, make_worker, migrated_url, worker  # noqa: F401  # fixtures

RULES = {"timeout_seconds": 3_600.0, "default": -1.0}


def begin(worker: Worker) -> Export:  # noqa: F811
    with worker.read.connect() as connection:
        export = begin_export(connection, "c", lambda: 0)
    assert export is not None
    return export


def lines_of(worker: Worker, export: Export) -> list[dict[str, Any]]:  # noqa: F811
    content = b""
    while True:
        with worker.read.connect() as connection:
            page = export.next_page(connection)
        if page is None:
            return [orjson.loads(line) for line in content.splitlines()]
        content += page


def test_what_comes_after_the_start_is_left_out(worker: Worker) -> None:  # noqa: F811
    """The file would hold a decision on a state that its log does not reach, or forget a deadline."""
    worker.create("c", reward=RULES)
    worker.run(Select("c", "d1"), Select("c", "d2"))
    worker.one(Reward("d1", 0.5))
    export = begin(worker)
    worker.one(Reward("d2", 0.75))
    worker.one(Select("c", "d3"))
    worker.one(Select("c", "d4"))
    with worker.write.begin() as connection:  # as if it had been committed late, with an early time
        connection.execute(text("UPDATE decisions SET created_at = 1 WHERE decision_id = 'd3'"))
    header, *others, trailer = lines_of(worker, export)
    assert (header["head"], header["decisions"]) == (1, 2)
    found = [line for line in others if line["kind"] == "decision"]
    assert [line["decision_id"] for line in others if line["kind"] == "observation"] == ["d1"]
    assert [line["decision_id"] for line in found] == ["d1", "d2"]
    made_at = datetime.fromisoformat(found[1]["created_at"])
    assert found[0]["due_at"] is None
    assert datetime.fromisoformat(found[1]["due_at"]) - made_at == timedelta(seconds=RULES["timeout_seconds"])
    assert (trailer["head"], trailer["decisions"]) == (1, 2)


def test_an_export_of_a_campaign_that_is_deleted_does_not_end_well(worker: Worker) -> None:  # noqa: F811
    """What was purged meanwhile would be missing from a file that looks complete."""
    worker.create("c", reward=RULES)
    worker.run(Select("c", "d1"), Reward("d1", 1))
    export = begin(worker)
    worker.administer(DeleteCampaign("c"))
    with pytest.raises(IncompleteExportError):
        lines_of(worker, export)


def test_no_reward_is_exported_without_its_correction(
    worker: Worker,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A typing error that was corrected, and erased while the file is written, would be learned from it."""
    monkeypatch.setattr(exporting, "PAGE_ROWS", 1)
    worker.create("c", assignment={"sticky_seconds": 86_400})
    made = worker.one(Select("c", subject="ada")).row.decision_id
    worker.one(Reward(made, 1_000.0))
    worker.administer(Correct(made, 1.0, "typing error"))
    export = begin(worker)
    with worker.read.connect() as connection:
        assert b'"header"' in (export.next_page(connection) or b"")
        assert b"1000.0" in (export.next_page(connection) or b"")
    worker.administer(EraseDecisions("c", [made]))
    with pytest.raises(IncompleteExportError, match="begin again"):
        lines_of(worker, export)
    assert lines_of(worker, begin(worker))[-1]["kind"] == "trailer"
