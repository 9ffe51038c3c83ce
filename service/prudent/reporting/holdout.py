"""What a campaign's policy gains over its holdout, in the campaign's own risk measure."""

from array import array
from dataclasses import dataclass
from math import hypot

import numpy as np

from prudent.campaigns import CampaignConfiguration, Holdout
from prudent.core.measures import INTERVAL_COUNT_MIN, Array, Measure
from prudent.ledger.amendments import first_row
from prudent.reporting.collection import PAGE_ROWS
from prudent.store import reports
from prudent.store.campaigns import CampaignRow
from prudent.store.read_pool import Connect


@dataclass(frozen=True, slots=True)
class Group:
    """The rewards of the decisions that were held out, or of the others. interval: for the risk, 95%, asymptotic."""

    n: int
    risk: float | None
    interval: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class HoldoutReport:
    """What the policy gains. lift: its risk minus that of the holdout, in reward units; interval: for it, 95%."""

    share: float
    arm_id: str | None
    policy: str | None
    held_out: Group
    decided: Group
    lift: float | None
    interval: tuple[float, float] | None
    sentence: str


def read_groups(connect: Connect, campaign: CampaignRow) -> tuple[Array, Array]:
    """The rewards of the decisions that were held out, and of those that could have been, as far as they count."""
    groups: tuple[array[float], array[float]] = array("d"), array("d")
    with connect() as connection:
        after = first_row(connection, campaign) - 1
    while after < campaign.head:
        with connect() as connection:
            page = reports.read_held(connection, campaign.key, after, campaign.head, PAGE_ROWS)
        for row in page:
            if row.reward is not None:
                groups[0 if row.held_out else 1].append(row.reward)
        if len(page) < PAGE_ROWS:
            break
        after = page[-1].sequence
    held, decided = (np.array(values) for values in groups)
    return held, decided


def report_holdout(configuration: CampaignConfiguration, held: Array, decided: Array) -> HoldoutReport | None:
    """The report of these rewards; None for a campaign without a holdout."""
    holdout = configuration.holdout
    if holdout is None:
        return None
    measure = configuration.measure()
    baseline, own = _group(held, measure), _group(decided, measure)
    lift, interval = compare(own, baseline)
    return HoldoutReport(
        share=holdout.share,
        arm_id=holdout.arm_id,
        policy=holdout.policy,
        held_out=baseline,
        decided=own,
        lift=lift,
        interval=interval,
        sentence=_sentence(holdout, measure, lift, interval),
    )


def _group(values: Array, measure: Measure) -> Group:
    if not len(values):
        return Group(0, None, None)
    risk = measure.risk(values)
    return Group(len(values), risk, measure.interval(values, risk))


def compare(own: Group, baseline: Group) -> tuple[float | None, tuple[float, float] | None]:
    """The difference of two independent risks, and an interval for it from theirs.

    Its lower end lies below the difference by the root of the sum of squares of how far one interval reaches down and
    the other up, its upper end likewise. So it needs nothing of a measure but its interval, which may be lopsided.
    Source: Zou & Donner 2008, "Construction of confidence limits about effect measures", Statistics in Medicine 27.
    """
    if own.risk is None or baseline.risk is None:
        return None, None
    lift = own.risk - baseline.risk
    if own.interval is None or baseline.interval is None:
        return lift, None
    below = hypot(own.risk - own.interval[0], baseline.interval[1] - baseline.risk)
    above = hypot(own.interval[1] - own.risk, baseline.risk - baseline.interval[0])
    return lift, (lift - below, lift + above)


def _sentence(holdout: Holdout, measure: Measure, lift: float | None, interval: tuple[float, float] | None) -> str:
    against = "a uniform choice" if holdout.arm_id is None else holdout.arm_id
    if lift is None:
        return f"There are no rewards yet both of the policy and of {against}."
    gain = (
        f"The policy's {measure.title} is {abs(lift):.4g} {'higher' if lift >= 0 else 'lower'} than that of {against}"
    )
    if interval is None:
        return f"{gain}; too few rewards, or too equal ones, for an interval (at least {INTERVAL_COUNT_MIN} of each)."
    low, high = interval
    if low > 0 or high < 0:
        return f"{gain}, with a 95% interval from {low:.4g} to {high:.4g}."
    return f"{gain}, but the 95% interval, from {low:.4g} to {high:.4g}, contains 0: this may be due to chance."
