"""What a worker keeps in memory, within bounds: the states of campaigns, and decisions that wait for their rewards."""

from collections import OrderedDict
from collections.abc import Collection, Iterable

from prudent.ledger.state import CampaignState
from prudent.store.tables import DecisionRow

ROW_BYTES = 1_000
"""A decision's row without its features and explanation, roughly."""


class States:
    """A bounded cache, least recently used first out. Dropping a state loses nothing: it is a fold of the log."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._states: OrderedDict[int, tuple[CampaignState, int]] = OrderedDict()
        self._keys: dict[str, int] = {}
        self._unmeasured: set[int] = set()

    def get(self, key: int) -> CampaignState | None:
        """The state of a campaign, now the most recently used."""
        entry = self._states.get(key)
        if entry is None:
            return None
        self._states.move_to_end(key)
        return entry[0]

    def put(self, state: CampaignState) -> None:
        """Hold a state, now the most recently used. It is measured in `measure`."""
        key = state.key
        _, size = self._states.get(key, (None, 0))
        self._states[key] = (state, size)
        self._states.move_to_end(key)
        self._unmeasured.add(key)
        self._keys[state.campaign_id] = key

    def used(self) -> list[CampaignState]:
        """The states put since the last `measure`."""
        return [self._states[key][0] for key in self._unmeasured if key in self._states]

    def measure(self) -> None:
        """Take the size of the states put since the last time: once a second, not once per batch."""
        for key in self._unmeasured:
            entry = self._states.get(key)
            if entry is not None:
                state, before = entry
                size = state.nbytes
                self._states[key] = (state, size)
                self._bytes += size - before
        self._unmeasured.clear()

    def drop(self, key: int) -> None:
        """Forget a state; the next use loads it again."""
        entry = self._states.pop(key, None)
        if entry is not None:
            self._bytes -= entry[1]
            self.forget_name(entry[0].campaign_id)

    def evict(self) -> int:
        """Forget the longest unused states until the bound holds; how many. One always stays."""
        self.measure()
        evicted = 0
        while self._bytes > self._bytes_max and len(self._states) > 1:
            self.drop(next(iter(self._states)))
            evicted += 1
        return evicted

    def key_of(self, campaign_id: str) -> int | None:
        """The key that this public id had when last seen; the batch checks that it still has it."""
        return self._keys.get(campaign_id)

    def forget_name(self, campaign_id: str) -> None:
        """The public id may have another key by now."""
        self._keys.pop(campaign_id, None)

    def __len__(self) -> int:
        return len(self._states)

    @property
    def nbytes(self) -> int:
        """Bytes held, as of the last measuring."""
        return self._bytes


class RecentDecisions:
    """A bounded cache, so that a reward need not read its decision back. The oldest go first.

    A decision never changes, but it ends with its campaign, and its id may then be used again: a caller must check that
    the campaign of a row from here still exists, and `forget` the row otherwise.
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
        """Drop decisions that have been rewarded, or whose campaign is gone."""
        for decision_id in ids:
            row = self._rows.pop(decision_id, None)
            if row is not None:
                self._bytes -= _bytes_of(row)

    def __len__(self) -> int:
        return len(self._rows)


def _bytes_of(row: DecisionRow) -> int:
    return ROW_BYTES + len(row.features) + len(row.explanation or "")
