"""What a campaign with features has learned: not which arm is the best, but in which contexts which arm is.

The features are those of the newest decisions. With a context per request the model says which arm has the best
estimate in each of them, as of now. With features per arm (the shared model) a decision stores those of the chosen arm
only, so each decision's own best estimate counts, as of then.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection

from prudent.campaigns import CampaignConfiguration, RowReader, stored
from prudent.core.comparison import Comparison, Region
from prudent.errors import CommandError, UnavailableError
from prudent.ledger.access import LedgerAccess
from prudent.ledger.commands import Compare, Preview, Select
from prudent.ledger.outcomes import Interval, Prospect
from prudent.store import campaigns, reports
from prudent.store.campaigns import CampaignRow
from prudent.store.reports import SeenRow
from prudent.store.statements import features_from_bytes
from prudent.store.tables import ArmRow

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
    arms: list[ArmRow]
    rows: list[SeenRow]
    observations: int

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
    context closest to the middle of those in which it is the best, or the arm's features; ranges: from the 10% to the
    90% quantile of each feature there; None for arms that are not described. estimates: at `typical`, best first.
    """

    arm_id: str
    share: float
    average_estimate: float | None
    typical: list[float] | None
    ranges: list[Interval] | None
    estimates: list[EstimateAt]


@dataclass(frozen=True, slots=True)
class PolicyReport:
    """The greedy policy: contexts: how many of the newest were looked at; average_estimate: of each one's best arm."""

    contexts: int
    feature_names: list[str]
    average_estimate: float | None
    arms: list[PolicyArm]
    sentence: str


def read_seen(connection: Connection, campaign_id: str) -> Seen | None:
    """The features that a campaign has seen; None if there is no such campaign, or if it has no features."""
    row = campaigns.find_campaign(connection, campaign_id)
    if row is None:
        return None
    return seen_of(connection, row, stored(row.configuration), campaigns.read_arms(connection, [row.key])[row.key])


def seen_of(
    connection: Connection, row: CampaignRow, configuration: CampaignConfiguration, arms: list[ArmRow]
) -> Seen | None:
    """As `read_seen`, of a campaign that has been read. What has categories or missing values has no middle."""
    if configuration.model.type == "multi-armed" or not RowReader(configuration.model).takes_arrays:
        return None
    return Seen(configuration, arms, reports.read_seen(connection, row.key, SEEN_MAX), row.observations)


async def policy_of(ledger: LedgerAccess, seen: Seen) -> PolicyReport:
    """What the campaign's model makes of what was seen, as far as it can be asked."""
    asked = question(seen)
    try:
        answer = None if asked is None else await ledger.submit(asked)
    except (CommandError, UnavailableError):
        answer = None  # the report says so
    return describe_policy(seen, asked, answer)


def question(seen: Seen) -> Compare | Preview | None:
    """What to ask the ledger for; None before there is anything to ask about."""
    campaign_id, active = seen.configuration.campaign_id, seen.active
    if not seen.rows or not seen.observations:
        return None
    if not seen.is_shared:
        contexts = np.array([features_from_bytes(row.features) for row in seen.rows])
        return Compare(campaign_id, contexts, [arm.arm_id for arm in active]) if active else None
    listed = {arm.arm_id: features_from_bytes(arm.features) for arm in active if arm.features is not None}
    inactive = {arm.arm_id for arm in seen.arms if arm.status != "active"}
    for row in seen.rows:
        if row.arm_id not in inactive:
            listed.setdefault(row.arm_id, features_from_bytes(row.features))
    arms = list(listed.items())[:ARMS_MAX]
    return Preview(Select(campaign_id, arms=arms)) if arms else None


def describe_policy(seen: Seen, asked: Compare | Preview | None, answer: Comparison | Prospect | None) -> PolicyReport:
    """The report of what was seen and what the ledger answered; without an answer it says that there is none."""
    names = seen.configuration.feature_names()
    if isinstance(asked, Compare) and isinstance(answer, Comparison):
        arms = _arms_by_context(asked.arms, answer)
        sentence = _by_context(names, arms, answer)
        return PolicyReport(answer.contexts, names, answer.average, arms, sentence)
    if isinstance(asked, Preview) and isinstance(answer, Prospect):
        arms = _arms_by_features(seen, asked, answer)
        return PolicyReport(len(seen.rows), names, None, arms, _by_features(len(seen.rows), arms))
    return PolicyReport(0, names, None, [], NOTHING if asked is None else UNAVAILABLE)


def _arms_by_context(arm_ids: Sequence[str], found: Comparison) -> list[PolicyArm]:
    """Every arm, those that are the best in most contexts first."""
    regions = {int(region.arms[0]): region for region in found.regions}
    order = np.argsort(-found.shares, kind="stable").tolist()
    return [_arm_by_context(arm_ids, found, place, regions.get(place)) for place in order]


def _arm_by_context(arm_ids: Sequence[str], found: Comparison, place: int, region: Region | None) -> PolicyArm:
    estimates = []
    if region is not None:
        rows = zip(region.arms.tolist(), region.estimates.tolist(), region.intervals.tolist(), strict=True)
        estimates = [EstimateAt(arm_ids[arm], estimate, _interval(ends)) for arm, estimate, ends in rows]
    return PolicyArm(
        arm_id=arm_ids[place],
        share=float(found.shares[place]),
        average_estimate=float(found.averages[place]),
        typical=None if region is None else region.typical.tolist(),
        ranges=None if region is None else region.ranges.tolist(),
        estimates=estimates,
    )


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
                typical=features[arm_id].tolist() if arm_id in features else None,
                ranges=None,
                estimates=[] if one is None else [EstimateAt(arm_id, one.estimate, one.interval)],
            )
        )
    return arms


def _by_context(names: Sequence[str], arms: Sequence[PolicyArm], found: Comparison) -> str:
    best = [arm for arm in arms if arm.share]
    parts = [f"{arm.arm_id} in {_percent(arm.share)}{_where(names, arm, best)}" for arm in best[:NAMED_ARMS]]
    parts += _rest(best)
    values = sorted(arms, key=lambda arm: -(arm.average_estimate or 0.0))[:2]
    always = " and ".join(f"{arm.average_estimate:.4g} with {arm.arm_id} always" for arm in values)
    return (
        f"Which arm is best depends on the features. Of the latest {_count(found.contexts, 'context')}, the model "
        f"estimates the best arm to be {_joined(parts)}. On average over them, its estimate is {found.average:.4g} "
        f"with each context's best arm, {always}. These are estimates, from the rewards so far."
    )


def _where(names: Sequence[str], arm: PolicyArm, others: Sequence[PolicyArm]) -> str:
    """Words for an arm's contexts: the features whose ranges there are narrowest, compared with all of them."""
    if arm.ranges is None:
        return ""
    own = np.array(arm.ranges)
    all_of_them = np.array([one.ranges for one in others if one.ranges is not None])
    low, high = all_of_them[:, :, 0].min(axis=0), all_of_them[:, :, 1].max(axis=0)
    width = np.where(high > low, high - low, 1.0)
    told = 1.0 - (own[:, 1] - own[:, 0]) / width
    told[high <= low] = -1.0
    chosen = [place for place in np.argsort(-told, kind="stable").tolist() if told[place] > 0.0][:NAMED_FEATURES]
    words = ", ".join(_range(names[place], *own[place].tolist()) for place in chosen)
    return f" ({words})" if words else ""


def _range(name: str, low: float, high: float) -> str:
    return f"{name} {low:.3g}" if low == high else f"{name} {low:.3g} to {high:.3g}"


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
