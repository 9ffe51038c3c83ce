"""What a campaign with features has learned: not which arm is the best, but in which contexts which arm is.

The features are those of the newest decisions. With a context per request the model says which arm has the best
estimate in each of them, as of now. With features per arm (the shared model) a decision stores those of the chosen arm
only, beside the request's own, so each decision's own best estimate counts, as of then.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from prudent.campaigns import CampaignConfiguration, RowReader, Vocabulary, stored
from prudent.campaigns.features import CONTEXT
from prudent.campaigns.rows import Shown
from prudent.core.comparison import Comparison, Region
from prudent.errors import CommandError, UnavailableError
from prudent.ledger.access import LedgerAccess
from prudent.ledger.commands import Compare, Preview, Select
from prudent.ledger.outcomes import Interval, Prospect
from prudent.reporting.groups import SAID_MAX, FeatureGroups, Values, group, span, values_of
from prudent.store import campaigns, categories, reports
from prudent.store.campaigns import CampaignRow
from prudent.store.reports import SeenRow
from prudent.store.statements import features_from_bytes
from prudent.store.tables import ArmRow, CategoryRow

SEEN_MAX = 1_000
"""Newest decisions whose features are looked at."""
ARMS_MAX = 200
"""Arms of a shared model whose estimates are computed."""
NAMED_ARMS, NAMED_FEATURES = 4, 3
"""How many a sentence names."""
UNAVAILABLE = "Which arm is best depends on the features, and the model cannot be asked at the moment."
NOTHING = "Which arm is best depends on the features. No rewards or no features have been seen yet."


class Seen(NamedTuple):
    """What features a campaign has seen, newest first."""

    configuration: CampaignConfiguration
    reader: RowReader
    vocabulary: Vocabulary
    arms: list[ArmRow]
    rows: list[SeenRow]
    observations: int

    @property
    def names(self) -> list[str]:
        """Of the features in a row."""
        return self.configuration.feature_names()

    @property
    def features(self) -> NDArray[np.float64]:
        """(n, d) of the rows."""
        return np.array([features_from_bytes(row.features) for row in self.rows])

    @property
    def is_shared(self) -> bool:
        """Whether each arm has features of its own."""
        return self.configuration.model.type == "shared"

    @property
    def active(self) -> list[ArmRow]:
        """The arms that may be chosen."""
        return [arm for arm in self.arms if arm.status == "active"]


@dataclass(frozen=True, slots=True)
class EstimateAt:
    """The model's estimate of an arm's risk at certain features, in reward units. interval: asymptotic, 95%."""

    arm_id: str
    estimate: float
    interval: Interval | None


@dataclass(frozen=True, slots=True)
class PolicyArm:
    """Where an arm has the best estimate.

    share: of the contexts seen. average_estimate: over all of these contexts; None in a shared model. typical: the
    context closest to the middle of those in which it is the best, or the arm's features, as sent; ranges: from the 10%
    to the 90% quantile of each feature there that is a number, None of the others; None for arms that are not
    described. estimates: at `typical`, best first.
    """

    arm_id: str
    share: float
    average_estimate: float | None
    typical: Shown | None
    ranges: list[Interval | None] | None
    estimates: list[EstimateAt]


@dataclass(frozen=True, slots=True)
class PolicyReport:
    """The greedy policy.

    contexts: how many of the newest were looked at; average_estimate: of each one's best arm. by_feature: for whom
    which arm is the best, by the features of requests that say most about it.
    """

    contexts: int
    feature_names: list[str]
    average_estimate: float | None
    arms: list[PolicyArm]
    by_feature: list[FeatureGroups]
    sentence: str


def read_seen(connection: Connection, campaign_id: str) -> Seen | None:
    """The features that a campaign has seen; None if there is no such campaign, or if it has no features."""
    row = campaigns.find_campaign(connection, campaign_id)
    if row is None:
        return None
    arms = campaigns.read_arms(connection, [row.key])[row.key]
    learned = categories.read_categories(connection, [row.key])[row.key]
    return seen_of(connection, row, stored(row.configuration), arms, learned)


def seen_of(
    connection: Connection,
    row: CampaignRow,
    configuration: CampaignConfiguration,
    arms: list[ArmRow],
    learned: Sequence[CategoryRow],
) -> Seen | None:
    """As `read_seen`, of a campaign that has been read."""
    if configuration.model.type == "multi-armed":
        return None
    reader = RowReader(configuration.model)
    rows = reports.read_seen(connection, row.key, SEEN_MAX)
    return Seen(configuration, reader, reader.vocabulary(learned), arms, rows, row.observations)


async def policy_of(ledger: LedgerAccess, seen: Seen) -> PolicyReport:
    """What the campaign's model makes of what was seen, as far as it can be asked."""
    asked = question(seen)
    try:
        answer = None if asked is None else await ledger.submit(asked)
    except (CommandError, UnavailableError):
        answer = None  # the report says so
    return await asyncio.to_thread(describe_policy, seen, asked, answer)


def question(seen: Seen) -> Compare | Preview | None:
    """What to ask the ledger for; None before there is anything to ask about."""
    campaign_id, active = seen.configuration.campaign_id, seen.active
    if not seen.rows or not seen.observations:
        return None
    if not seen.is_shared:
        return Compare(campaign_id, seen.features, [arm.arm_id for arm in active]) if active else None
    split = seen.reader.split
    listed = {arm.arm_id: features_from_bytes(arm.features) for arm in active if arm.features is not None}
    inactive = {arm.arm_id for arm in seen.arms if arm.status != "active"}
    for row in seen.rows:
        if row.arm_id not in inactive:
            listed.setdefault(row.arm_id, split(features_from_bytes(row.features))[0])
    arms = list(listed.items())[:ARMS_MAX]
    context = split(features_from_bytes(seen.rows[0].features))[1] if seen.reader.has_context else None
    return Preview(Select(campaign_id, arms=arms, context=context, has_rows=True)) if arms else None


def describe_policy(seen: Seen, asked: Compare | Preview | None, answer: Comparison | Prospect | None) -> PolicyReport:
    """The report of what was seen and what the ledger answered; without an answer it says that there is none."""
    if isinstance(asked, Compare) and isinstance(answer, Comparison):
        values = values_of(asked.contexts, seen.names, seen.reader, seen.vocabulary)
        arms = _arms_by_context(seen, asked.arms, answer)
        told = group(seen.names, values, answer.best, asked.arms)
        sentence = _by_context(_Words(seen.names, values, answer, asked.arms), arms, answer)
        return PolicyReport(answer.contexts, seen.names, answer.average, arms, told, sentence)
    if isinstance(asked, Preview) and isinstance(answer, Prospect):
        arms = _arms_by_features(seen, asked, answer)
        sentence = _by_features(len(seen.rows), arms)
        return PolicyReport(len(seen.rows), seen.names, None, arms, _by_request(seen), sentence)
    return PolicyReport(0, seen.names, None, [], [], NOTHING if asked is None else UNAVAILABLE)


def _by_request(seen: Seen) -> list[FeatureGroups]:
    """Of a shared model: by the features of requests, which arm was the best at the time."""
    decided = [(row, row.greedy_arm_id) for row in seen.rows if row.greedy_arm_id is not None]
    if not seen.reader.has_context or not decided:
        return []
    arm_ids = list(dict.fromkeys(arm_id for _, arm_id in decided))
    rows = np.array([features_from_bytes(row.features) for row, _ in decided])
    best = np.array([arm_ids.index(arm_id) for _, arm_id in decided], dtype=np.intp)
    first = seen.reader.arm_length
    values = values_of(rows, seen.names, seen.reader, seen.vocabulary)[first:]
    names = [name.removeprefix(CONTEXT) for name in seen.names[first:]]
    return group(names, values, best, arm_ids)


def _arms_by_context(seen: Seen, arm_ids: Sequence[str], found: Comparison) -> list[PolicyArm]:
    """Every arm, those that are the best in most contexts first."""
    regions = {int(region.arms[0]): region for region in found.regions}
    order = np.argsort(-found.shares, kind="stable").tolist()
    return [_arm_by_context(seen, arm_ids, found, place, regions.get(place)) for place in order]


def _arm_by_context(
    seen: Seen, arm_ids: Sequence[str], found: Comparison, place: int, region: Region | None
) -> PolicyArm:
    estimates = []
    if region is not None:
        rows = zip(region.arms.tolist(), region.estimates.tolist(), region.intervals.tolist(), strict=True)
        estimates = [EstimateAt(arm_ids[arm], estimate, _interval(ends)) for arm, estimate, ends in rows]
    return PolicyArm(
        arm_id=arm_ids[place],
        share=float(found.shares[place]),
        average_estimate=float(found.averages[place]),
        typical=None if region is None else seen.reader.parts(region.typical, seen.vocabulary)[0],
        ranges=None if region is None else _ranges(seen.reader, region),
        estimates=estimates,
    )


def _ranges(reader: RowReader, region: Region) -> list[Interval | None]:
    """Of the features that are numbers, and were sent."""
    kinds = [column.feature.kind for column in reader.columns] or ["number"] * len(region.ranges)
    return [
        _interval(ends) if kind in {"number", "cyclic"} else None
        for kind, ends in zip(kinds, region.ranges.tolist(), strict=True)
    ]


def _interval(ends: list[float]) -> Interval | None:
    return ends if ends[0] <= ends[1] else None


def _arms_by_features(seen: Seen, asked: Preview, answer: Prospect) -> list[PolicyArm]:
    """Every arm that was the best or whose features are known, those that were the best most often first."""
    features = {arm_id: x for arm_id, x in asked.request.arms or () if isinstance(x, np.ndarray)}
    scored = {arm.arm_id: arm for arm in answer.arms}
    counted = Counter(row.greedy_arm_id for row in seen.rows if row.greedy_arm_id is not None)
    total = counted.total() or 1
    arms = []
    for arm_id in sorted(dict.fromkeys([*counted, *scored]), key=lambda one: -counted[one]):
        one = scored.get(arm_id)
        arms.append(
            PolicyArm(
                arm_id=arm_id,
                share=counted[arm_id] / total,
                average_estimate=None,
                typical=seen.reader.parts(features[arm_id], seen.vocabulary)[0] if arm_id in features else None,
                ranges=None,
                estimates=[] if one is None else [EstimateAt(arm_id, one.estimate, one.interval)],
            )
        )
    return arms


class _Words:
    """Says in which contexts an arm is the best."""

    def __init__(
        self, names: Sequence[str], values: Sequence[Values], found: Comparison, arm_ids: Sequence[str]
    ) -> None:
        self._names, self._values, self._best = names, values, found.best
        self._place = {arm_id: place for place, arm_id in enumerate(arm_ids)}
        every = np.array([region.ranges for region in found.regions])
        known = ~np.isnan(every).any(axis=(0, 2))
        low, high = np.where(known, every[:, :, 0].min(axis=0), 0.0), np.where(known, every[:, :, 1].max(axis=0), 0.0)
        self._widths = high - low
        """(d,) of all regions together; 0 where there is nothing to compare."""

    def where(self, arm: PolicyArm) -> str:
        """The features whose ranges or values are fewest there, compared with all of them."""
        if arm.ranges is None:
            return ""
        members = self._best == self._place[arm.arm_id]
        told = [self._feature(place, ends, members) for place, ends in enumerate(arm.ranges)]
        order = sorted((one for one in told if one[0] > 0.0), key=lambda one: -one[0])
        words = ", ".join(text for _, text in order[:NAMED_FEATURES])
        return f" ({words})" if words else ""

    def _feature(self, place: int, ends: Interval | None, members: NDArray[np.bool_]) -> tuple[float, str]:
        """How much narrower a feature is there, from 0 to 1, and what it is there."""
        if ends is not None:
            width = float(self._widths[place])
            return (1.0 - (ends[1] - ends[0]) / width if width > 0.0 else 0.0), f"{self._names[place]} {span(*ends)}"
        values = self._values[place]
        most = values.most(members)
        told = 1.0 - len(most) / len(values.labels) if len(most) <= SAID_MAX else 0.0
        return told, f"{self._names[place]} {' or '.join(most)}"


def _by_context(words: _Words, arms: Sequence[PolicyArm], found: Comparison) -> str:
    best = [arm for arm in arms if arm.share]
    parts = [f"{arm.arm_id} in {_percent(arm.share)}{words.where(arm)}" for arm in best[:NAMED_ARMS]]
    parts += _rest(best)
    values = sorted(arms, key=lambda arm: -(arm.average_estimate or 0.0))[:2]
    always = " and ".join(f"{arm.average_estimate:.4g} with {arm.arm_id} always" for arm in values)
    return (
        f"Which arm is best depends on the features. Of the latest {_count(found.contexts, 'context')}, the model "
        f"estimates the best arm to be {_joined(parts)}. On average over them, its estimate is {found.average:.4g} "
        f"with each context's best arm, {always}. These are estimates, from the rewards so far."
    )


def _by_features(decisions: int, arms: Sequence[PolicyArm]) -> str:
    best = [arm for arm in arms if arm.share]
    if not best:
        return NOTHING
    parts = [f"{arm.arm_id} in {_percent(arm.share)}" for arm in best[:NAMED_ARMS]] + _rest(best)
    return (
        "Which arm is best depends on the features of the arms that a request names. In the latest "
        f"{_count(decisions, 'decision')}, the arm with the best estimate at the time was {_joined(parts)}."
    )


def _rest(best: Sequence[PolicyArm]) -> list[str]:
    """Words for the arms that a sentence does not name, as one of its parts; none if it names all."""
    rest = best[NAMED_ARMS:]
    return [f"{_count(len(rest), 'other arm')} in {_percent(sum(arm.share for arm in rest))}"] if rest else []


def _joined(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _percent(share: float) -> str:
    return "all of them" if share == 1.0 else "under 1%" if share < 0.01 else f"{min(99, round(100 * share))}%"


def _count(value: int, noun: str) -> str:
    return f"{value:,} {noun}{'' if value == 1 else 's'}"
