"""Writes the export of a campaign for docs/logged-data.md: `python -m docs.measurements.own_log FILE`.

A campaign with five arms and the expectile at level 0.1, played for 2,000 decisions with `uniform_share` 0.05: the
problem "gaussian" of `benchmarks.off_policy`, whose arms have the means 1, 1.6, 2.2, 3.2 and 1.2.
"""

import sys
from hashlib import blake2b
from pathlib import Path
from typing import Any

import orjson

from benchmarks.off_policy import PROBLEMS, played
from prudent.campaigns import RowReader
from prudent.evaluation.log import CampaignLog
from prudent.store.statements import features_from_bytes
from prudent.transfer import lines

SEED, ROUNDS, SHARE = 1, 2_000, 0.05


def exported(log: CampaignLog) -> bytes:
    """The lines of a log's export."""
    reader = RowReader(log.creation.model)
    vocabulary = reader.vocabulary()

    def show(features: bytes) -> list[float] | dict[str, Any]:
        return reader.write(features_from_bytes(features), vocabulary)

    configuration = orjson.Fragment(log.creation.model_dump_json())
    counts = {"arms": len(log.arms), "head": len(log.rows), "decisions": len(log.decisions)}
    header = {
        "format": lines.FORMAT,
        "version": lines.VERSION,
        "exported_at": lines.instant(ROUNDS),
        "campaign_id": log.creation.campaign_id,
        "status": "active",
        "revision": 1,
        "learn_limit": None,
        **counts,
        "created_at": lines.instant(0),
        "creation": configuration,
        "configuration": configuration,
    }
    body = lines.write("header", header) + b"".join(
        [
            *(lines.write_arm(arm, show) for arm in log.arms),
            *(lines.write_observation(row, show) for row in log.rows),
            *(lines.write_decision(row, None, show) for row in log.decisions),
        ]
    )
    digest = blake2b(body, digest_size=lines.DIGEST_BYTES).hexdigest()
    return body + lines.write("trailer", counts | {"digest": digest})


def main() -> None:
    """Write the file."""
    Path(sys.argv[1]).write_bytes(exported(played(PROBLEMS[0], SEED, ROUNDS, SHARE)))


if __name__ == "__main__":
    main()
