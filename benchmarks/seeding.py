"""Long logs, written straight into the database: through the API a million observations would take an hour."""

import sqlite3
from pathlib import Path

import numpy as np

ARMS = 10


def append_observations(path: Path, campaign_ids: list[str], count: int, dimension: int) -> None:
    """Give each campaign of a SQLite database that nobody serves a log of `count` observations.

    The first one's log is made; the others' are copies of it.
    """
    rng = np.random.default_rng(3)
    features = rng.normal(size=(count, dimension))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    rewards = features @ rng.normal(size=dimension) + 0.5 * rng.normal(size=count)
    with sqlite3.connect(path) as connection:
        keys = [_key(connection, campaign_id) for campaign_id in campaign_ids]
        connection.executemany(
            "INSERT INTO observations (key, sequence, kind, arm_id, features, reward, source, observed_at)"
            " VALUES (?, ?, 'observation', ?, ?, ?, 'warm-start', 0)",
            (
                (keys[0], number + 1, f"arm-{number % ARMS}", features[number].tobytes(), float(rewards[number]))
                for number in range(count)
            ),
        )
        for key in keys[1:]:
            connection.execute(
                "INSERT INTO observations (key, sequence, kind, arm_id, features, reward, source, observed_at)"
                " SELECT ?, sequence, kind, arm_id, features, reward, source, observed_at FROM observations"
                " WHERE key = ? ORDER BY sequence",
                (key, keys[0]),
            )
        connection.executemany("UPDATE heads SET head = ? WHERE key = ?", [(count, key) for key in keys])
    connection.close()


def _key(connection: sqlite3.Connection, campaign_id: str) -> int:
    row = connection.execute("SELECT key FROM campaigns WHERE campaign_id = ?", (campaign_id,)).fetchone()
    return int(row[0])
