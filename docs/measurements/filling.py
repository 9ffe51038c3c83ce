"""A long campaign, written to the tables directly: through the API a million decisions would take an hour."""

import itertools
from collections.abc import Iterable

from sqlalchemy import Engine

from prudent.campaigns import CampaignConfiguration
from prudent.store import campaigns, decisions, log
from prudent.store.tables import DecisionRow, LogRow

BATCH = 5_000


def fill(write: Engine, configuration: CampaignConfiguration, pairs: Iterable[tuple[str, bytes, float]]) -> None:
    """Create a campaign, and make decisions that are rewarded: of each the arm, its features and its reward.

    Ids are in the order of time, as the server makes them; times are microseconds from 0 on.
    """
    text = configuration.model_dump_json()
    with write.begin() as connection:
        values = {"configuration": text, "creation": text, "status": "active", "revision": 1, "created_at": 0}
        key = campaigns.insert_campaign(connection, {"campaign_id": configuration.campaign_id, **values})
        arms = [campaigns.ArmRow(key, n, arm.arm_id, "active", None, 0) for n, arm in enumerate(configuration.arms)]
        campaigns.insert_arms(connection, arms)
    numbered = enumerate(pairs)
    while batch := list(itertools.islice(numbered, BATCH)):
        made, learned = [], []
        for number, (arm, features, value) in batch:
            id_ = f"0197f000-0000-7000-8000-{number:012d}"
            row = DecisionRow(id_, key, arm, features, 0, 0, 0, "index", arm, None, 1, 0, None, None, number, None)
            made.append(row)
            learned.append(LogRow(key, number + 1, "observation", id_, None, arm, features, value, "reward", 1, number))
        with write.begin() as connection:
            decisions.insert_decisions(connection, made)
            log.append(connection, learned)
            campaigns.set_heads(connection, {key: batch[-1][0] + 1})
