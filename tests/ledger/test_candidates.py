"""The candidates of decisions are held against the campaign by `prudent verify`."""

import numpy as np
import pytest
from sqlalchemy import update

from prudent.ledger.commands import Select
from prudent.store.candidates import LoggedCandidates, pack
from prudent.store.tables import decisions
from tests.ledger.conftest import Worker
from tests.ledger.replays import faults

MODEL = {"type": "shared", "features": [{"name": "brand", "kind": "category", "capacity": 2}, {"name": "price"}]}


@pytest.mark.parametrize(
    ("candidates", "words"),
    [
        (b"nonsense", "the candidates of a decision are damaged"),
        (pack(LoggedCandidates(["x"], [1.0], [None])), "a candidate has no features"),
        (pack(LoggedCandidates(["x"], [1.0], [np.array([7.0, 1.0]).tobytes()])), "brand has position 7"),
        (pack(LoggedCandidates(["x"], [1.0], [np.array([1.0, np.nan]).tobytes()])), "price is missing"),
    ],
)
def test_verify_finds_candidates_that_were_changed(worker: Worker, candidates: bytes, words: str) -> None:
    """An estimate would rest on arms that were never there."""
    worker.create("c", model=MODEL, arms=[], log_candidates=True)
    arms = [("x", {"brand": "acme", "price": 1.0}), ("y", {"brand": "bolt", "price": 2.0})]
    worker.one(Select("c", "one", arms=arms, is_named=True))
    assert faults(worker) == []
    with worker.write.begin() as connection:
        connection.execute(update(decisions).values(candidates=candidates))
    (fault,) = faults(worker)
    assert fault.startswith("the decision one: ")
    assert words in fault


def test_a_campaign_without_log_candidates_keeps_none(worker: Worker) -> None:
    """A log would grow by what nobody asked for."""
    worker.create("c", model=MODEL, arms=[])
    made = worker.one(Select("c", "one", arms=[("x", {"brand": "acme", "price": 1.0})], is_named=True))
    assert made.row.candidates is None
