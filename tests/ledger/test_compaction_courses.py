"""What happens to a campaign in any order, with and without its oldest rows: it learns the same."""

from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest

from prudent.campaigns import AlgorithmChange
from prudent.errors import NotFoundError
from prudent.ledger.commands import ChangeCampaign, Correct, RestartCampaign
from prudent.settings import Limits
from tests.ledger.compacted import KEPT, KINDS, age, assert_sound, beginning, log_head
from tests.ledger.conftest import Worker
from tests.ledger.test_amendments import learned, play
from tests.promises import Promise, length
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("small_rounds")


@pytest.mark.parametrize("seed", range(length("COMPACTIONS", 2)))
def test_whatever_happens_in_between(make_worker: Callable[..., Worker], seed: int, promise: Promise) -> None:
    """Corrections, restarts, other half-lives and pauses, in any order, before and after rows are replaced."""
    rng = np.random.default_rng(seed)
    kind = ["ridge", "stages", "forgetting", "gradient"][seed % 4]
    worker = make_worker(Limits(snapshot_observations=30))
    for name in ("short", "whole"):
        worker.create(name, **KINDS[kind], **(KEPT if name == "short" else {}))
    made, replaced, heads = 0, 0, {"short": 0, "whole": 0}
    for _ in range(12):
        act = str(rng.choice(["play", "play", "correct", "restart", "half-life", "pause", "compact", "compact"]))
        if act == "play" or made == 0:
            rewards = rng.normal(size=int(rng.integers(5, 60))).round(3).tolist()
            for name in heads:
                play(worker, name, rewards, first=made)
            made += len(rewards)
        elif act == "correct":
            which, value = int(rng.integers(0, made)), float(rng.normal())
            for name in heads:
                with suppress(NotFoundError):  # once it has been replaced, the other one keeps its reward, too
                    worker.administer(Correct(f"{name}-{which}", value, "typing error", campaign_id=name))
                    continue
                break
        elif act == "restart" and log_head(worker, "short") > replaced:
            first = int(rng.integers(replaced + 1, log_head(worker, "short") + 1))
            for name in heads:
                worker.administer(RestartCampaign(name, first))
        elif act == "half-life" and kind == "forgetting":
            half_life = int(rng.integers(20, 200))
            for name in heads:
                forgetting = AlgorithmChange.model_validate({"forgetting": {"half_life": half_life}})
                worker.administer(ChangeCampaign(name, algorithm=forgetting))
        elif act == "pause":
            for name in heads:
                worker.administer(ChangeCampaign(name, status="paused"))
                play(worker, name, [0.5, -0.5], first=made)
                worker.administer(ChangeCampaign(name, status="active"))
            made += 2
        elif act == "compact":
            until = int(rng.integers(replaced, log_head(worker, "short") + 1))
            worker.stop()
            age(worker, "short", until)
            worker = make_worker(Limits(snapshot_observations=30))
            wait_for(lambda worker=worker, until=until: beginning(worker, "short") == until)  # type: ignore[misc]
            replaced = until
        np.testing.assert_array_equal(learned(worker, "short"), learned(worker, "whole"), err_msg=act)
    assert_sound(worker)
    database = worker.write.dialect.name
    promise("compaction", f"{database}, course {seed}, {kind}: {replaced} of {log_head(worker, 'short')} rows replaced")
