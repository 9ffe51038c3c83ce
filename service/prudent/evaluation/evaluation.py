"""The value of policies on a campaign's own log: of each arm alone, and of other configurations.

Each decision that was drawn and has a reward is replayed under the campaign's own configuration, which gives the
propensities of all arms; the recorded one of the chosen arm shows that the replay is right. What is left out, and why,
is counted. The other configurations learn from what the campaign has collected, decision by decision, and say with
what probability they would have chosen what was chosen.
"""

import math
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, product

import numpy as np
from numpy.typing import NDArray

from prudent.campaigns import CampaignConfiguration
from prudent.core.budget import WINDOW, limit_of
from prudent.core.exploration import PROPENSITY_MIN
from prudent.core.measures import Mean, Measure
from prudent.core.off_policy import UNSUPPORTED_SHARE_MAX, Estimate, Weighted, gain, ips, snips, weight_max
from prudent.errors import InvalidCommandError
from prudent.evaluation.log import CampaignLog
from prudent.evaluation.replay import Chances, Replay, reproduces
from prudent.store.reports import explores
from prudent.store.tables import NOT_ACTIVATED, DecisionRow, LogRow

DECISIONS_MIN = 50
"""Below which nothing is estimated: a weight could be 5 at most."""
REPLAYED_SHARE_MIN = 0.5
OWN, OTHERS = "the campaign, as it was played", "(arms that are not registered)"
LEFT_OUT = {
    "external": "were chosen by the application, without a propensity",
    "greedy": "were made with explore: false or beyond the budget, so nothing was drawn",
    "only-arm": "had one candidate only",
    "warmup": "belong to the warm-up, in which nothing is drawn but ties",
    "no-reward": "have no reward",
    "other-arm": "were rewarded for another arm than the one decided on",
    "not-replayed": "could not be replayed: the request restricted the candidates or brought its own, which are not "
    "stored without log_candidates, a setting was changed more than once, or decisions or rewards before them were "
    "erased or deleted since",
}
"""Why decisions are left out, as their number and these words."""


class EvaluationError(InvalidCommandError):
    """A log from which nothing can be estimated."""


@dataclass(frozen=True)
class OtherPolicy:
    """A configuration to be judged. explore: whether as it would explore, or by its best estimates."""

    name: str
    configuration: CampaignConfiguration
    explore: bool = True


@dataclass(frozen=True)
class Refusal:
    """Why a policy gets no value. share: of the decisions that lack support; arms: the part of each arm in it."""

    share: float
    arms: dict[str, float]


@dataclass(frozen=True)
class PolicyValue:
    """What a policy would have earned. Without numbers where it is refused.

    rows: decisions of positive weight; effective: as many equally weighted ones would say as much; weight_max: the
    largest, largest_share: its part of all; mean_weight: 1 but for chance, with its standard error. mean: by IPS;
    values: by SNIPS, under each measure; gains: by how much these exceed what the campaign did.
    """

    name: str
    rows: int
    effective: float
    weight_max: float
    largest_share: float
    mean_weight: float
    mean_weight_error: float
    refusal: Refusal | None = None
    mean: Estimate | None = None
    values: dict[str, Estimate] = field(default_factory=dict)
    gains: dict[str, Estimate] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluation:
    """decisions: all in the log; judged: those that the values rest on; defaults: of these, default rewards.

    left_out: how many others there are, by the keys of LEFT_OUT; measures: titles, the mean first; rewarded: the share
    of each arm's drawn decisions that have a reward, if any lacks one.
    """

    decisions: int
    judged: int
    defaults: int
    left_out: dict[str, int]
    rewarded: dict[str, float]
    weight_limit: float
    measures: list[str]
    policies: list[PolicyValue]


def evaluate(
    log: CampaignLog,
    others: Sequence[OtherPolicy],
    measures: Sequence[Measure],
    on_decision: Callable[[], None] = lambda: None,
) -> Evaluation:
    """Judge every arm of the campaign, and the other policies, under the measures. Raises EvaluationError.

    measures: besides the mean; on_decision: called after each decision of the log.
    """
    _check_rewards(log, [*measures, *(one.configuration.measure() for one in others)])
    reasons = _reasons(log)
    counts, outcomes = _sorted_out(log, reasons)
    drawn = _Drawn(log, others, weight_max(len(outcomes)))
    by_state = sorted(log.decisions, key=lambda one: (one.seen, one.created_at))
    for (seen, _), group in groupby(by_state, key=lambda one: (one.seen, one.created_at)):
        for decision in drawn.ordered(seen, list(group)):
            drawn.take(decision, outcomes.get(decision.decision_id))
            on_decision()
    counts["not-replayed"] = drawn.missed
    counts["warmup"] += drawn.warmed
    judged = len(drawn.rewards)
    if judged < DECISIONS_MIN or judged < REPLAYED_SHARE_MIN * len(outcomes):
        raise EvaluationError(_too_few(judged, counts))
    by_mean: list[Measure] = [Mean()]
    known = {measure.title: measure for measure in [*by_mean, *measures]}
    own = Weighted(np.array(drawn.rewards), np.ones(judged), np.ones(judged))
    policies = [_value(OWN, own, known, None)]
    policies += [_value(name, sample, known, lacking) for name, sample, lacking in drawn.samples()]
    return Evaluation(
        decisions=len(log.decisions),
        judged=judged,
        defaults=drawn.defaults,
        left_out={reason: counts[reason] for reason in LEFT_OUT if counts[reason]},
        rewarded=_rewarded(log, reasons) if counts["no-reward"] else {},
        weight_limit=weight_max(len(outcomes)),
        measures=list(known),
        policies=policies,
    )


def _check_rewards(log: CampaignLog, measures: Sequence[Measure]) -> None:
    """Refuse measures that the log's rewards do not have, such as the logarithm of a loss."""
    rewards = np.array([row.reward for row in log.rows])
    for measure in measures:
        try:
            if len(rewards):
                measure.risk(rewards)
        except ValueError as error:
            raise EvaluationError(f"{measure.title}: the log has rewards without it: {error}") from None


def _sorted_out(log: CampaignLog, reasons: Mapping[str, str | None]) -> tuple[Counter[str], dict[str, LogRow]]:
    """Count what is left out, by reason, and give the rewards of all other decisions, by their ids."""
    rewards, counts = log.rewards, Counter[str]()
    outcomes: dict[str, LogRow] = {}
    for decision in log.decisions:
        reason, row = reasons[decision.decision_id], rewards.get(decision.decision_id)
        if reason is None and row is None:
            reason = "no-reward"
        elif reason is None and row is not None and row.arm_id != decision.arm_id:
            reason = "other-arm"
        if reason is None and row is not None:
            outcomes[decision.decision_id] = row
        else:
            counts[reason or ""] += 1
    return counts, outcomes


def _reason(log: CampaignLog, decision: DecisionRow) -> str | None:
    """Why nothing was drawn in a decision; None where something was."""
    shares = log.creation.algorithm.uniform_share, log.configuration.algorithm.uniform_share
    if decision.reason in {"external", "greedy", "only-arm"}:
        return decision.reason
    return "warmup" if decision.reason == "warmup" and not any(shares) else None


def _reasons(log: CampaignLog) -> dict[str, str | None]:
    """As `_reason`, by the decisions' ids. Beyond the budget nothing is drawn but a holdout.

    What was held out there must not be judged without what was not: it is there because of what it chose.
    """
    limit = limit_of(log.configuration.algorithm.budget)
    latest: deque[bool] = deque(maxlen=WINDOW - 1)
    reasons = {}
    for decision in log.decisions:
        is_spent = 0 < limit <= sum(latest)
        reasons[decision.decision_id] = _reason(log, decision) or ("greedy" if is_spent else None)
        latest.append(explores(decision))
    return reasons


def _rewarded(log: CampaignLog, reasons: Mapping[str, str | None]) -> dict[str, float]:
    """The share of each arm's drawn decisions that have a reward."""
    rewards = log.rewards
    made, known = Counter[str](), Counter[str]()
    for decision in log.decisions:
        if reasons[decision.decision_id] is None:
            made[decision.arm_id] += 1
            known[decision.arm_id] += decision.decision_id in rewards
    return {arm: known[arm] / count for arm, count in made.items()}


def _too_few(judged: int, counts: Mapping[str, int]) -> str:
    reasons = "; ".join(f"{counts[key]} {words}" for key, words in LEFT_OUT.items() if counts[key])
    return (
        f"only {judged} decisions can be judged, and at least {DECISIONS_MIN} and half of those that were drawn are "
        f"needed{f': {reasons}' if reasons else ''}"
    )


class _Drawn:
    """The decisions that are judged, collected one by one.

    rewards: of each; missed: how many of those with a reward could not be replayed; warmed: how many were held out in
    the warm-up, and are left out with the rest of it.
    """

    def __init__(self, log: CampaignLog, others: Sequence[OtherPolicy], limit: float) -> None:
        self._limit = limit
        # dials may have been changed once, and arms paused: who was asked, and how, is what gives the recorded numbers
        configurations = [log.configuration]
        if log.creation.algorithm != log.configuration.algorithm:
            configurations.append(log.creation)
        self._own = [Replay(log, log.creation, one, as_known=True) for one in configurations]
        inactive = frozenset(arm.arm_id for arm in log.arms if arm.status != "active")
        self._guesses = list(product(self._own, [inactive, frozenset[str]()] if inactive else [inactive]))
        self._others = [(one, Replay(log, one.configuration, one.configuration)) for one in others]
        self._replays = [*self._own, *(replay for _, replay in self._others)]
        self._arms = {arm.arm_id: place for place, arm in enumerate(log.arms)}
        self.rewards: list[float] = []
        self.defaults = self.missed = self.warmed = 0
        shares = log.creation.algorithm.uniform_share, log.configuration.algorithm.uniform_share
        self._judges_warmup = any(shares)
        self._chosen: list[int] = []
        self._propensities: list[float] = []
        self._inverses: list[NDArray[np.float64]] = []
        self._policies: list[list[tuple[float, float, float]]] = [[] for _ in others]
        self._lacking = [np.zeros(len(self._arms) + 1) for _ in others]
        """By arm; the last is of all arms that are not registered."""

    def ordered(self, seen: int, group: list[DecisionRow]) -> Iterator[DecisionRow]:
        """Advance to a state, and give the decisions that were made on it at one time, in an order that fits.

        Within a batch their order is not recorded; in the warm-up it matters, as each decision is a play.
        """
        for replay in self._replays:
            replay.advance(seen)
        while group:
            place = 0
            if len(group) > 1 and self._own[0].state.warming:
                fitting = (k for k, one in enumerate(group) if one.propensity is None or self._found(one) is not None)
                place = next(fitting, 0)
            yield group.pop(place)

    def take(self, decision: DecisionRow, row: LogRow | None) -> None:
        """Take the next decision, in the order of `ordered`. row: its reward, None where it is left out."""
        if row is not None:
            found = self._found(decision)
            if found is None:
                self.missed += 1
            elif found[0].in_warmup and not self._judges_warmup:
                self.warmed += 1
            else:
                self._judge(decision, row, *found)
        if decision.activated_at == NOT_ACTIVATED:
            return
        for replay in self._replays:
            replay.count_play(decision.arm_id)

    def _found(self, decision: DecisionRow) -> tuple[Chances, frozenset[str]] | None:
        """The propensities that include the recorded one, and which arms were not asked."""
        for place, (replay, excluded) in enumerate(self._guesses):
            chances = replay.recorded(decision, excluded)
            if chances is not None and reproduces(chances, decision):
                self._guesses.insert(0, self._guesses.pop(place))
                return chances, excluded
        return None

    def _judge(self, decision: DecisionRow, row: LogRow, chances: Chances, excluded: frozenset[str]) -> None:
        asked = [replay.chances(decision, excluded, explore=other.explore) for other, replay in self._others]
        places = np.array([self._arms.get(arm, len(self._arms)) for arm in chances.arms])
        own = chances.arms.index(decision.arm_id)
        has_support = chances.probabilities * self._limit >= 1.0
        inverses = np.zeros(len(self._arms) + 1)  # 0 without support
        inverses[places[has_support]] = 1.0 / chances.probabilities[has_support]
        self.rewards.append(row.reward)
        self.defaults += row.source == "default"
        self._chosen.append(int(places[own]))
        self._propensities.append(decision.propensity or 1.0)
        self._inverses.append(inverses)
        for number, theirs in enumerate(asked):
            assert theirs is not None  # noqa: S101  # the same candidates as the campaign's own
            lacks = theirs.probabilities > self._limit * chances.probabilities
            missing = np.where(lacks, theirs.probabilities, 0.0)
            np.add.at(self._lacking[number], places, missing)
            weight = 0.0 if lacks[own] else theirs.probabilities[own] / self._propensities[-1]
            kept = theirs.probabilities[~lacks]
            squares = float((kept * kept / np.maximum(chances.probabilities[~lacks], PROPENSITY_MIN)).sum())
            self._policies[number].append((float(weight), 1.0 - float(missing.sum()), squares))

    def samples(self) -> Iterator[tuple[str, Weighted, dict[str, float]]]:
        """Each policy's name, its weights, and the share of the decisions that lack support, by arm."""
        rewards, chosen, inverse = np.array(self.rewards), np.array(self._chosen), 1.0 / np.array(self._propensities)
        inverses = np.array(self._inverses)
        for arm, place in self._arms.items():
            is_supported = inverses[:, place] > 0.0
            weights = np.where((chosen == place) & is_supported, inverse, 0.0)
            lacking = {arm: 1.0 - float(is_supported.mean())}
            sample = Weighted(rewards, weights, is_supported.astype(np.float64), inverses[:, place])
            yield f"always {arm}", sample, lacking
        for (other, _), pairs, missing in zip(self._others, self._policies, self._lacking, strict=True):
            weighed = np.array(pairs)
            lacking = {
                arm: float(part) / len(rewards) for arm, part in zip([*self._arms, OTHERS], missing, strict=True)
            }
            yield other.name, Weighted(rewards, weighed[:, 0], weighed[:, 1], weighed[:, 2]), lacking


def _value(
    name: str, sample: Weighted, measures: Mapping[str, Measure], lacking: Mapping[str, float] | None
) -> PolicyValue:
    """The value of a policy, or its refusal. lacking: by arm; None for the campaign itself, which lacks nothing."""
    rows = int(np.count_nonzero(sample.weights))
    share = sum((lacking or {}).values())
    total, largest = float(sample.supported.sum()), float(sample.weights.max())
    mean_weight = float(sample.weights.sum()) / max(total, 1.0)
    differences = sample.weights - mean_weight * sample.supported
    error = math.sqrt(float(differences @ differences)) / max(total, 1.0)
    part = largest / float(sample.weights.sum()) if rows else 0.0
    about = (name, rows, sample.effective, largest, part, mean_weight, error)
    if share > UNSUPPORTED_SHARE_MAX or not rows:
        most = sorted((lacking or {}).items(), key=lambda one: -one[1])
        return PolicyValue(*about, refusal=Refusal(share, {arm: part for arm, part in most if part > 0.0}))
    values = {title: snips(sample, measure) for title, measure in measures.items()}
    gains = {} if lacking is None else {title: gain(sample, measure) for title, measure in measures.items()}
    return PolicyValue(*about, mean=ips(sample), values=values, gains=gains)
