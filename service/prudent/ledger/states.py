"""The states that this process holds: found by key, forgotten when unused and over the bound in bytes."""

from collections import OrderedDict

from prudent.ledger.state import CampaignState


class States:
    """A bounded cache. Dropping a state loses nothing: it is a fold of the log."""

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

    def measure(self) -> None:
        """Take the size of the states put since the last time: once a second, not once a batch."""
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
