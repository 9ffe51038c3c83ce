"""The bodies of the requests: K arms of d features each, random from a fixed seed."""

from typing import Any

import httpx
import numpy as np
import orjson

BODIES = 64
BATCH_ITEMS_MAX = 1_000
JSON = {"Content-Type": "application/json"}
LINUCB = {"risk": {"measure": "mean"}, "algorithm": {"name": "linucb"}}
"""The algorithm of the naive service, and so of every comparison with it."""


class Payload:
    """Bodies for one campaign or, in turn, for several."""

    def __init__(self, arms: int, dimension: int, campaign_ids: tuple[str, ...] = ("benchmark",)) -> None:
        self.arms = arms
        self.dimension = dimension
        self.campaign_ids = campaign_ids
        features = np.random.default_rng(20).normal(0, 1, (BODIES, arms, dimension))
        features /= np.linalg.norm(features, axis=2, keepdims=True)
        count = max(BODIES, len(campaign_ids))
        self.selects = tuple(
            self._select(features[number % BODIES], campaign_ids[number % len(campaign_ids)]) for number in range(count)
        )
        # Cheap to send, and as costly to reward as any other decision.
        self._single = self._select(features[0, :1], campaign_ids[0])

    def _select(self, features: np.ndarray[Any, np.dtype[np.float64]], campaign_id: str) -> bytes:
        arms = [{"arm_id": f"arm-{k}", "features": row.tolist()} for k, row in enumerate(features)]
        return orjson.dumps({"campaign_id": campaign_id, "arms": arms})

    def batch(self, items: int) -> tuple[bytes, ...]:
        """One body of `/select/batch`."""
        chosen = [self.selects[number % len(self.selects)] for number in range(items)]
        return (b'{"items":[%s]}' % b",".join(chosen),)

    def create(self, client: httpx.Client, settings: dict[str, Any] | None = None) -> None:
        """Create the campaigns."""
        for campaign_id in self.campaign_ids:
            model = {"type": "shared", "dimension": self.dimension}
            body = {"campaign_id": campaign_id, "model": model, **(LINUCB if settings is None else settings)}
            client.post("/campaigns", json=body).raise_for_status()

    def reply_sizes(self, client: httpx.Client) -> tuple[int, int]:
        """Bytes of a reply to select and of one to reward."""
        selected = client.post("/select", content=self.selects[0], headers=JSON)
        selected.raise_for_status()
        decision_id = selected.json()["decision_id"]
        rewarded = client.post("/reward", json={"decision_id": decision_id, "reward": 0.5})
        rewarded.raise_for_status()
        return len(selected.content), len(rewarded.content)

    def decisions(self, client: httpx.Client, count: int) -> tuple[str, ...]:
        """Make `count` decisions in batches; returns their ids."""
        ids: list[str] = []
        while len(ids) < count:
            items = b",".join([self._single] * min(BATCH_ITEMS_MAX, count - len(ids)))
            reply = client.post("/select/batch", content=b'{"items":[%s]}' % items, headers=JSON)
            reply.raise_for_status()
            ids += [item["decision_id"] for item in reply.json()["items"]]
        return tuple(ids)
