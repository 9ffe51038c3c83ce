"""What a batch will insert: collected while its commands run, written in one go."""

from dataclasses import dataclass, field

from prudent.ledger.state import CampaignState
from prudent.store.decisions import DecisionRow
from prudent.store.log import FoldRow, LogRow


@dataclass(slots=True)
class Writes:
    """What a batch will insert, by the ids that later commands of the same batch look up."""

    decisions: dict[str, DecisionRow] = field(default_factory=dict)
    observations: list[LogRow] = field(default_factory=list)
    rewarded: dict[str, LogRow] = field(default_factory=dict)
    plays: dict[tuple[int, int], int] = field(default_factory=dict)
    no_longer_due: set[str] = field(default_factory=set)

    def add_play(self, state: CampaignState, arm_id: str) -> None:
        """Count a play, while plays matter: above the warm-up they are not written."""
        arm = state.by_id.get(arm_id)
        if arm is None or state.plays[arm.position] >= state.configuration.algorithm.warmup:
            return
        state.plays[arm.position] += 1
        place = (state.key, arm.position)
        self.plays[place] = self.plays.get(place, 0) + 1

    def append(self, state: CampaignState, row: LogRow) -> LogRow:
        """Give a row the next sequence number, teach it unless the campaign is paused, and keep it for the log."""
        numbered = row._replace(sequence=state.advance_head())
        if state.learn_limit is None:
            state.fold(FoldRow(numbered.sequence, row.arm_id, row.features, row.reward))
        self.observations.append(numbered)
        return numbered
