"""How many rewards a campaign has refused, one after the other."""

from dataclasses import dataclass


@dataclass(slots=True)
class Refusals:
    """Rewards refused since the log's last row, by this worker. Costs nothing where none is refused."""

    _head: int = 0
    _count: int = 0

    def add(self, head: int) -> None:
        """Count one. head: the log's last row."""
        self._count = self.since(head) + 1
        self._head = head

    def since(self, head: int) -> int:
        """How many there were since this became the log's last row."""
        return self._count if self._head == head else 0
