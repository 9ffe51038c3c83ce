"""Fits a campaign on the first part of a log, and asks it about the rest without teaching it more."""

from collections.abc import Sequence
from dataclasses import dataclass

from prudent_client import Decision
from prudent_simulator.offline_evaluation.campaign import observation, select_part
from prudent_simulator.offline_evaluation.estimates import Session
from prudent_simulator.offline_evaluation.reading import LogError, Row

ROWS_MIN = 10
_BATCH = 500


@dataclass(frozen=True)
class Frozen:
    """fitted: the rows learned; held_out: the rows asked about; replies: to these, in order."""

    fitted: Sequence[Row]
    held_out: Sequence[Row]
    replies: list[Decision]

    @property
    def agreement(self) -> float:
        """In which share of the rows asked about the campaign recommends what the log chose."""
        same = sum(reply.arm_id == row.arm for reply, row in zip(self.replies, self.held_out, strict=True))
        return same / len(self.held_out)


def freeze(session: Session, fit_share: float, *, explain: bool = False) -> Frozen:
    """Fit on the first `fit_share` of the rows, in the file's order, and ask for the greedy choice on the rest.

    explain: with the estimates of all arms. Raises LogError for a log that is too short.
    """
    rows = session.log.rows
    if len(rows) < ROWS_MIN:
        raise LogError(f"{session.log.path}: has {len(rows)} rows; at least {ROWS_MIN} are needed")
    cut = min(max(round(fit_share * len(rows)), 1), len(rows) - 1)
    for start in range(0, cut, _BATCH):
        batch = rows[start : min(start + _BATCH, cut)]
        session.client.observe(session.campaign_id, [observation(row) for row in batch])
        session.on_step(len(batch))
    replies: list[Decision] = []
    for start in range(cut, len(rows), _BATCH):
        batch = rows[start : start + _BATCH]
        replies += session.client.select_parsed(
            [
                {
                    "campaign_id": session.campaign_id,
                    "decision_id": f"{session.run_id}.{row.line}",
                    "explore": False,
                    "explain": explain,
                    **select_part(row),
                }
                for row in batch
            ]
        )
        session.on_step(len(batch))
    return Frozen(rows[:cut], rows[cut:], replies)
