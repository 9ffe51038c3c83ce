"""Decisions that this process has committed and whose rewards are still to come."""

from collections.abc import Collection, Iterable

from prudent.store.decisions import DecisionRow

ROW_BYTES = 1_000
"""Of a row without its features and explanation, roughly."""


class RecentDecisions:
    """A bounded cache, so that a reward need not read its decision back. The oldest go first.

    A decision never changes, but it ends with its campaign, after which its id may be another one's: whoever uses a row
    from here must know that its campaign lives, and `forget` it otherwise.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._rows: dict[str, DecisionRow] = {}

    def find(self, ids: Collection[str]) -> dict[str, DecisionRow]:
        """Those of these decisions that are known here."""
        rows = self._rows
        return {decision_id: rows[decision_id] for decision_id in ids if decision_id in rows}

    def keep(self, rows: Iterable[DecisionRow]) -> None:
        """Hold decisions that have been committed."""
        for row in rows:
            self.forget((row.decision_id,))
            self._rows[row.decision_id] = row
            self._bytes += _bytes_of(row)
        while self._bytes > self._bytes_max:
            self.forget((next(iter(self._rows)),))

    def forget(self, ids: Iterable[str]) -> None:
        """Let go of decisions: they have been rewarded, or are no longer to be trusted."""
        for decision_id in ids:
            row = self._rows.pop(decision_id, None)
            if row is not None:
                self._bytes -= _bytes_of(row)

    def __len__(self) -> int:
        return len(self._rows)


def _bytes_of(row: DecisionRow) -> int:
    return ROW_BYTES + len(row.features) + len(row.explanation or "")
