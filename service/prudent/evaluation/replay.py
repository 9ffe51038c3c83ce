"""A campaign replayed from its log: with what probability each arm would have been chosen in a decision.

The state is folded exactly as a worker folds it, so the campaign's own propensities come out as they were recorded.
With another configuration it is another policy, which learns from what the campaign has collected.
"""

from collections.abc import Sequence
from math import isfinite
from typing import NamedTuple

import numpy as np

from prudent.campaigns import CampaignConfiguration
from prudent.core.baseline import Baseline, additions
from prudent.core.exploration import Scores
from prudent.core.measures import Array
from prudent.errors import InvalidCommandError
from prudent.evaluation.log import CampaignLog
from prudent.ledger.amendments import AmendedError
from prudent.ledger.arms import Candidate
from prudent.ledger.candidates import KnownCandidates
from prudent.ledger.commands import Select
from prudent.ledger.holdout import held_chances, mixed
from prudent.ledger.loading import amend
from prudent.ledger.selection import find_candidates, weigh
from prudent.ledger.state import CampaignState, Writes
from prudent.store.campaigns import CampaignRow
from prudent.store.log import fold_row
from prudent.store.statements import features_from_bytes
from prudent.store.tables import OBSERVATION, ArmRow, DecisionRow, LogRow

CLOSE = 1e-6
"""Relative: a replay on another processor differs in the last digits."""


class Chances(NamedTuple):
    """Of the K candidates of a decision: their ids, the probabilities, (K,), and the scores.

    in_warmup: whether one of them is.
    """

    arms: list[str]
    probabilities: Array
    scores: Scores
    in_warmup: bool


class Replay:
    """One configuration of a campaign, advanced along the log. Decisions must be asked in the order of `seen`.

    as_known: learn what was known at the time, of rewards that were corrected since, too; else only what they are now.
    """

    def __init__(
        self,
        log: CampaignLog,
        creation: CampaignConfiguration,
        configuration: CampaignConfiguration,
        *,
        as_known: bool = False,
    ) -> None:
        self._rows, self._next = (log.history if as_known and log.history else log.rows), 0
        # what is paused now was active once; who was eligible in a decision is found by comparison
        self._arms = [arm._replace(plays=0, status="active") for arm in log.arms]
        self._creation, self._configuration = creation.model_dump_json(), configuration.model_dump_json()
        self.state = CampaignState(self._campaign(1), self._registered(0))
        self._known = KnownCandidates(self.state.reader, log.arms, is_shared=self.state.shared)

    def _campaign(self, revision: int) -> CampaignRow:
        head = len(self._rows)
        return CampaignRow(1, "replay", self._configuration, self._creation, "active", revision, None, 0, None, head)

    def _registered(self, seen: int) -> list[ArmRow]:
        """The arms that existed when the log had so many rows; they were registered one after the other."""
        return [arm for arm in self._arms if arm.since <= seen]

    def advance(self, seen: int) -> None:
        """Learn the rows up to a sequence, and register the arms that came by then."""
        while self._next < len(self._rows) and self._rows[self._next].sequence <= seen:
            row = self._rows[self._next]
            try:
                self._learn(row)
            except AmendedError:
                self._begin_anew(seen)
            if row.source == "warm-start":
                self.count_play(row.arm_id)
            self._next += 1
        self._join(seen)

    def _learn(self, row: LogRow) -> None:
        if row.sequence > self.state.sequence:
            self._join(row.sequence - 1)
            self.state.fold(fold_row(row))

    def _begin_anew(self, seen: int) -> None:
        """Learn the rows up to a sequence as amended by then. Plays stay as they were counted."""
        rows, plays = [row for row in self._rows if row.sequence <= seen], self.state.plays
        self.state = CampaignState(self._campaign(1), self._registered(0))
        amend(self.state, [fold_row(row) for row in rows if row.kind != OBSERVATION], seen)
        for row in rows:
            self._learn(row)
        self.state.plays[: len(plays)] = plays

    def _join(self, seen: int) -> None:
        known = self._registered(seen)
        if len(known) > len(self.state.arms):
            plays = [*self.state.plays, *[0] * (len(known) - len(self.state.plays))]
            rows = [arm._replace(plays=count) for arm, count in zip(known, plays, strict=True)]
            self.state.reconfigure(self._campaign(self.state.revision + 1), rows)

    def count_play(self, arm_id: str) -> None:
        """A play, which counts in the warm-up."""
        Writes().add_play(self.state, arm_id)

    def chances(self, decision: DecisionRow, excluded: frozenset[str], *, explore: bool = True) -> Chances | None:
        """Weigh the decision's candidates or, where it does not keep them, the registered arms but the excluded ones.

        None where the log does not have what that takes.
        """
        try:
            candidates, _ = find_candidates(self.state, self._request(decision, excluded, explore))
        except InvalidCommandError:
            return None  # candidates that came with the request, with features that are not stored
        scores, probabilities = weigh(self.state, candidates, explore=explore)
        places = [one.position for one in candidates if one.position is not None] if self.state.warming else []
        in_warmup = any(self.state.plays[place] < self.state.rule.warmup for place in places)
        return Chances(_ids(candidates), np.array(probabilities), scores, in_warmup)

    def recorded(self, decision: DecisionRow, excluded: frozenset[str]) -> Chances | None:
        """As `chances`, with the campaign's baseline and holdout: what the decision's own propensity is one of."""
        chances, holdout = self.chances(decision, excluded), self.state.configuration.holdout
        if chances is not None and decision.allowance is not None:
            chances = self._with_baseline(chances, decision, decision.allowance)
        if chances is None or holdout is None or decision.held_out is None:
            return chances
        held = held_chances(holdout, chances.arms)
        if held is None:
            return None
        return chances._replace(probabilities=np.array(mixed(holdout.share, held, chances.probabilities.tolist())))

    def _with_baseline(self, chances: Chances, decision: DecisionRow, allowance: float) -> Chances:
        """What the baseline left of them. allowance: after the decision, by which the one before is found."""
        setting, arms = self.state.configuration.algorithm.baseline, chances.arms
        if setting is None or setting.arm_id not in arms or decision.arm_id not in arms:
            return chances
        position = arms.index(setting.arm_id)
        added = additions(chances.scores, position, setting.tolerance, self.state.policy.estimator.observations)
        before = allowance if decision.held_out else allowance - added[arms.index(decision.arm_id)]
        restricted = Baseline(position, added, before).restrict(chances.probabilities.tolist())
        return chances._replace(probabilities=np.array(restricted))

    def _request(self, decision: DecisionRow, excluded: frozenset[str], explore: bool) -> Select:
        row, kept = features_from_bytes(decision.features), self._known.read(decision)
        if not self.state.shared:
            context = row if self.state.creation.model.type == "disjoint" else None
            if kept is not None:
                return Select("replay", context=context, eligible=frozenset(kept.arms), explore=explore)
            return Select("replay", context=context, exclude=excluded & self.state.by_id.keys(), explore=explore)
        if kept is None:
            return Select("replay", exclude=excluded & self.state.by_id.keys(), explore=explore)
        context = row[self.state.reader.arm_length :] if self.state.reader.has_context else None
        arms = list(self._known.features_of(kept).items())
        return Select("replay", arms=arms, context=context, explore=explore, has_rows=True)


def _ids(candidates: Sequence[Candidate]) -> list[str]:
    return [candidate.arm_id for candidate in candidates]


def reproduces(chances: Chances, decision: DecisionRow) -> bool:
    """Whether a replay has the decision's own propensity and estimate: then it had these candidates and this state."""
    if decision.arm_id not in chances.arms or decision.propensity is None:
        return False
    place = chances.arms.index(decision.arm_id)
    scale = abs(decision.estimate) + (decision.bonus if isfinite(decision.bonus) else 0.0)
    return bool(
        abs(chances.probabilities[place] - decision.propensity) <= CLOSE * decision.propensity
        and abs(chances.scores.estimate_of(place) - decision.estimate) <= CLOSE * scale
    )
