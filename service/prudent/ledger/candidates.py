"""The candidates of a decision, for campaigns that log them: as its row holds them, and read back."""

from collections.abc import Sequence

import numpy as np

from prudent.campaigns import RowReader, Vocabulary
from prudent.ledger.arms import Candidate
from prudent.ledger.commands import Floats
from prudent.ledger.state import CampaignState
from prudent.store.candidates import LoggedCandidates, pack, unpack
from prudent.store.statements import features_from_bytes, features_to_bytes
from prudent.store.tables import ArmRow, DecisionRow


def log_candidates(state: CampaignState, candidates: Sequence[Candidate], chances: list[float]) -> bytes:
    """The candidates as the decision's row holds them. chances: with what probability each is chosen."""
    arms = [candidate.arm_id for candidate in candidates]
    sent: list[bytes | None] = [None] * len(arms)
    if state.shared:
        length = state.reader.arm_length
        for place, candidate in enumerate(candidates):
            row = features_to_bytes(candidate.features[:length])
            arm = state.by_id.get(candidate.arm_id)
            if arm is None or arm.features is None or features_to_bytes(arm.features) != row:
                sent[place] = row
    return pack(LoggedCandidates(arms, chances, sent))


class KnownCandidates:
    """Reads the candidates of a campaign's decisions. Of rows that are damaged it raises ValueError."""

    def __init__(self, reader: RowReader, arms: Sequence[ArmRow], *, is_shared: bool) -> None:
        self._reader = reader
        self._length = reader.arm_length if is_shared else 0
        self._registered = {arm.arm_id: arm.features for arm in arms}

    def read(self, decision: DecisionRow) -> LoggedCandidates | None:
        """Of a decision; None where it keeps none."""
        return None if decision.candidates is None else unpack(decision.candidates, self._length)

    def features_of(self, candidates: LoggedCandidates) -> dict[str, Floats | None]:
        """Each candidate's own features; None for an arm without any."""
        found: dict[str, Floats | None] = {}
        for arm_id, own in zip(candidates.arms, candidates.features, strict=True):
            row = self._registered.get(arm_id) if own is None else own
            found[arm_id] = None if row is None else features_from_bytes(row)
        return found

    def fault(self, decision: DecisionRow, vocabulary: Vocabulary) -> str | None:
        """What is wrong with a decision's candidates; None if they are some that this campaign can have had."""
        try:
            candidates = self.read(decision)
        except ValueError as error:
            return str(error)
        if candidates is None or not self._length:
            return None
        context = features_from_bytes(decision.features)[self._length :]
        for own in self.features_of(candidates).values():
            if own is None:
                return "a candidate has no features"
            fault = self._reader.fault(np.concatenate([own, context]), vocabulary)
            if fault is not None:
                return f"a candidate is none of this campaign: {fault}"
        return None
