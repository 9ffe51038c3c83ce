"""What the pages of a campaign and of a decision show: rows, sentences and charts, made of what was read.

`make_view` loops over thousands of rows, so it runs off the event loop.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from fastapi import Request
from numpy.typing import NDArray

from prudent.campaigns import configuration_warnings
from prudent.dashboard import charts, formatting, regions
from prudent.dashboard.arms import ArmLine, arm_lines, arm_reports
from prudent.dashboard.charts import ShareTable, Theta
from prudent.dashboard.drawing import Chart
from prudent.dashboard.formatting import number, plural
from prudent.dashboard.overview import Overview, usual_features
from prudent.dashboard.rendering import asks_for_keys, base_address, curl
from prudent.dashboard.trend import Stretch, stretches, trend
from prudent.ledger.outcomes import ModelReport, Prospect
from prudent.reporting.baseline import describe_baseline
from prudent.reporting.changes import ChangeReport
from prudent.reporting.holdout import HoldoutReport
from prudent.reporting.policies import PolicyReport
from prudent.reporting.report import (
    ArmReport,
    Learning,
    describe_learning,
    describe_progress,
    price_of_caution,
)
from prudent.reporting.stalls import Stall, find_stalls
from prudent.store.reports import RewardedDecision
from prudent.store.statements import features_from_bytes

PARAMETERS_MAX = 24
"""Features in the chart of the parameters."""
NAMED_MAX = 6
"""Features listed in a sentence."""
FEATURES_MAX = 60
"""Features listed on a decision's page."""
REWARDS_MIN = 20
"""Rewards of an arm before its mean is compared in words."""


class Coefficients(NamedTuple):
    """The model's coefficients as a table. columns: (arm_id, colour), arm_id "" for all arms; cells with intervals."""

    columns: list[tuple[str, int | None]]
    rows: list[tuple[str, list[tuple[float, Sequence[float] | None]]]]


@dataclass(frozen=True)
class CampaignView:
    """A campaign's page, except for the health of the service. usual: at which features the estimates are.

    values: of the arms that have one of their own.
    """

    campaign: Overview
    report: ModelReport | None
    lines: list[ArmLine]
    charts: dict[str, Chart | None]
    coefficients: Coefficients | None
    usual: str
    most_chosen: tuple[str, float] | None
    learning: Learning
    caution: str | None
    policy: PolicyReport | None
    changes: Sequence[ChangeReport]
    shares: ShareTable
    stretches: list[Stretch]
    holdout: HoldoutReport | None
    values: dict[str, Any]


def make_view(
    campaign: Overview,
    report: ModelReport | None,
    prospect: Prospect | None,
    policy: PolicyReport | None,
    changes: Sequence[ChangeReport],
    holdout: HoldoutReport | None,
) -> CampaignView:
    """Assemble the page; without a report or prospect, the model's part is missing. policy: None without features."""
    reports, measure = arm_reports(campaign), campaign.configuration.measure()
    lines = arm_lines(campaign, reports, prospect)
    names, thetas = _parameters(campaign, lines, report)
    found = stretches(campaign)
    return CampaignView(
        campaign=campaign,
        report=report,
        lines=lines,
        charts=_charts(campaign, lines)
        | {
            "trend": trend(found, measure),
            "parameters": charts.parameters(names, thetas) if thetas else None,
            "groups": None if policy is None else regions.groups(policy, campaign.coloured),
            "policy": None if policy is None else regions.estimates(policy, campaign.coloured, measure.quantity),
        },
        coefficients=_coefficients(names, thetas) if thetas else None,
        usual=_usual(campaign),
        most_chosen=most_chosen(campaign),
        learning=learning(campaign, reports, policy),
        caution=None if policy is not None else caution(campaign, reports),
        policy=policy,
        changes=changes,
        shares=charts.share_table(campaign),
        stretches=found,
        holdout=holdout,
        values={arm.arm_id: arm.parsed_value for arm in campaign.arms if arm.value is not None},
    )


def _charts(campaign: Overview, lines: Sequence[ArmLine]) -> dict[str, Chart | None]:
    coloured = [line for line in lines if line.colour is not None]
    leading = [line for line in lines[:1] if line.colour is None]  # the one that is chosen next must not be missing
    measure = campaign.configuration.measure()
    return {
        "shares": charts.shares(campaign),
        "worth": charts.worth(leading + coloured, measure.quantity),
        "rewards": charts.rewards(campaign, _in_order(lines), measure),
    }


def _in_order(lines: Sequence[ArmLine]) -> list[ArmLine]:
    """The arms that have a colour, in the order of the colours."""
    return sorted((line for line in lines if line.colour is not None), key=lambda line: line.colour or 0)


def _parameters(
    campaign: Overview, lines: Sequence[ArmLine], report: ModelReport | None
) -> tuple[list[str], list[Theta]]:
    """Names of the first features, and the parameters of the arms that have a colour; none before the first reward."""
    if report is None or campaign.configuration.model.type == "multi-armed" or not report.observations:
        return [], []
    thetas: list[Theta] = []
    if report.theta is not None:
        thetas.append(Theta("", None, report.theta, report.theta_intervals or []))
    else:
        by_id = {arm.arm_id: arm for arm in report.arms}
        for line in _in_order(lines):
            arm = by_id.get(line.arm_id)
            if arm is not None and arm.theta is not None:
                thetas.append(Theta(line.arm_id, line.colour, arm.theta, arm.theta_intervals or []))
    return report.feature_names[:PARAMETERS_MAX], thetas


def _coefficients(names: Sequence[str], thetas: Sequence[Theta]) -> Coefficients:
    rows = [
        (name, [(theta.values[place], theta.intervals[place] if theta.intervals else None) for theta in thetas])
        for place, name in enumerate(names)
    ]
    return Coefficients([(theta.arm_id, theta.colour) for theta in thetas], rows)


def _usual(campaign: Overview) -> str:
    """At which features the estimates on the page are."""
    kind = campaign.configuration.model.type
    if kind == "multi-armed":
        return "for the next decision"
    if kind == "shared":
        return "at each arm's registered features, or those it was last sent with"
    names = campaign.configuration.feature_names()
    values = usual_features(campaign)
    if values is None:
        return "for a context at the features' centers"
    shown = [value for _, value in _values(campaign, values)]
    return f"for a typical context of {campaign.latest} ({formatting.listed(names, shown, NAMED_MAX)})"


def learning(campaign: Overview, reports: Sequence[ArmReport], policy: PolicyReport | None) -> Learning:
    """What has been found and how much is explored, as the campaign's report has it, from what was read."""
    progress = describe_progress([one for one, _ in campaign.recent], campaign.row)
    measure = campaign.configuration.measure()
    return describe_learning(_in_the_race(reports, 1), campaign.rewards, measure, progress, policy)


def caution(campaign: Overview, reports: Sequence[ArmReport]) -> str | None:
    """What choosing by the mean would do instead; None for a campaign that does so, or with too little data."""
    known = _in_the_race(reports, REWARDS_MIN)
    measure = campaign.configuration.measure()
    if measure.is_mean or len(known) < 2:
        return None
    price = price_of_caution(known, measure)
    by_id = {one.arm_id: one.rewards for one in known}
    if price.best_by_mean is None or price.best_by_risk is None or price.best_by_mean == price.best_by_risk:
        return price.sentence
    by_mean, by_risk = price.best_by_mean, price.best_by_risk
    bold, careful = by_id[by_mean], by_id[by_risk]
    return (
        f"By the mean alone, {by_mean} would be chosen, with {number(bold.mean)} against {number(careful.mean)} of "
        f"{by_risk}. By the {measure.noun}, {by_risk} is better, with {number(careful.risk)} against "
        f"{number(bold.risk)} of {by_mean}. Choosing {by_risk} costs {number(price.mean_difference)} per decision on "
        "average."
    )


def _in_the_race(reports: Sequence[ArmReport], rewards_min: int) -> list[ArmReport]:
    return [one for one in reports if one.status in {None, "active"} and one.rewards.n >= rewards_min]


def most_chosen(campaign: Overview) -> tuple[str, float] | None:
    """The arm chosen most among the latest decisions, and its share of them; None without decisions."""
    counted = Counter(one.arm_id for one, _ in campaign.recent).most_common(1)
    return (counted[0][0], counted[0][1] / len(campaign.recent)) if counted else None


@dataclass(frozen=True)
class Finding:
    """A statement about a campaign's health. level: ok, note or warning."""

    level: str
    title: str
    text: str


STALLS = {
    "no-rewards": "No rewards",
    "rewards-refused": "Rewards refused",
    "one-arm": "One arm only",
    "exploration-ended": "Exploration has ended",
}


def health(view: CampaignView, fault: str | None, now: int) -> list[Finding]:
    """What works and what does not, warnings first. now: microseconds since 1970."""
    campaign, model = view.campaign, view.report
    found = [Finding("warning", STALLS[one.kind], one.sentence) for one in _stalls(view, now)]
    if fault is not None:
        found.append(Finding("warning", "Nothing can be recorded", fault))
    if model is None:
        found.append(
            Finding("warning", "Model unavailable", "Its numbers are missing from this page; try again in a moment.")
        )
    else:
        found += [
            Finding("warning" if one.stands else "note", "The world has changed", one.sentence) for one in view.changes
        ]
        found += [Finding("warning", "Model warning", warning) for warning in model.warnings]
        found.append(_learning(campaign, model))
        certified = model.convergence.get("certified")
        if certified is not None and model.observations:
            right = "The latest fit is exact: its optimality is certified."
            wrong = "The latest fit could not be certified as optimal, so the previous one stays in use."
            found.append(Finding("ok", "Fit", right) if certified else Finding("warning", "Fit", wrong))
        elif model.one_pass:
            found.append(Finding("ok", "Fit", "Each reward is one step from the estimate before it, without a refit."))
        found.append(Finding("note", "Guaranteed" if model.guaranteed else "No guarantee", model.guarantee_note))
    baseline = describe_baseline(campaign.configuration, [one for one, _ in campaign.recent])
    if baseline is not None:
        found.append(Finding("note", "Baseline", baseline.sentence))
    found += [Finding("note", "Configuration", one) for one in configuration_warnings(campaign.configuration)]
    if fault is None:
        found.append(Finding("ok", "Service", "Decisions and rewards are being recorded, and the database responds."))
    order = ("warning", "ok", "note")
    return sorted(found, key=lambda one: order.index(one.level))


def _stalls(view: CampaignView, now: int) -> list[Stall]:
    refused = 0 if view.report is None else view.report.refused_rewards
    campaign = view.campaign
    return find_stalls(campaign.row, campaign.signs, separated=view.learning.separated, refused=refused, now=now)


def _learning(campaign: Overview, model: ModelReport) -> Finding:
    if campaign.row.learn_limit is not None:
        waiting = plural(campaign.unlearned.rewards, "reward")
        if campaign.unlearned.corrections:
            waiting += f" and {plural(campaign.unlearned.corrections, 'correction')}"
        return Finding("note", "Learning paused", f"{waiting} stored, to be learned when the campaign is active again.")
    behind = max(0, campaign.row.head - model.observations)
    if behind:
        return Finding("note", "Learning", f"The model is {plural(behind, 'row')} behind the log and catching up.")
    if not campaign.counts.rewards and not campaign.decisions:
        return Finding("note", "Learning", "No decisions and no rewards yet.")
    if not campaign.counts.rewards:
        made = plural(campaign.decisions, "decision")
        advice = "does your program send them? Each is reported with the decision_id of its decision."
        level = "warning" if campaign.is_unrewarded else "note"
        return Finding(level, "No rewards yet", f"{made}, no reward yet: {advice}")
    return Finding("ok", "Learning", f"{plural(campaign.counts.rewards, 'reward')} learned, none waiting.")


def _values(campaign: Overview, row: NDArray[np.float64]) -> list[tuple[str, Any]]:
    """A row's values by name, or by place in the request."""
    if campaign.reader.is_named:
        return list(campaign.reader.show(row, campaign.vocabulary).items())
    return list(zip(campaign.configuration.feature_names(), row.tolist(), strict=True))


@dataclass(frozen=True)
class DecisionView:
    """A decision in words. reason, meaning: in brief and in a sentence. features: of the chosen arm, or the context."""

    reason: str
    meaning: str
    features: list[tuple[str, Any]]
    reward_curl: str
    colour: int | None


def decision_view(request: Request, campaign: Overview, found: RewardedDecision) -> DecisionView:
    """Describe a decision and how to report its reward; the example is the estimate, within the reward's bounds."""
    made = found.decision
    rules = campaign.configuration.reward
    example = made.estimate
    if rules.minimum is not None:
        example = max(example, rules.minimum)
    if rules.maximum is not None:
        example = min(example, rules.maximum)
    body = {"decision_id": made.decision_id, "reward": float(f"{example:.2g}")}
    reason, meaning = formatting.REASONS[made.reason]
    return DecisionView(
        reason=reason,
        meaning=meaning,
        features=_values(campaign, features_from_bytes(made.features))[:FEATURES_MAX],
        reward_curl=curl(base_address(request), "/reward", body, with_key=asks_for_keys(request)),
        colour=campaign.coloured.get(made.arm_id),
    )
