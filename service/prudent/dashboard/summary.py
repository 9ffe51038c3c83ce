"""From what was read to what is shown: a line an arm, and sentences about the whole."""

from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from prudent.campaigns import configuration_warnings, loss_of
from prudent.dashboard.figures import ArmLine
from prudent.dashboard.formatting import measure, measure_in_full, number
from prudent.dashboard.overview import Overview
from prudent.ledger.commands import ModelReport, Prospect, ScoredArm
from prudent.reporting.arms import ArmReport, describe_arm
from prudent.reporting.collection import ArmTally
from prudent.reporting.comparison import Learning, describe_learning, price_of_caution
from prudent.store.reports import ChoiceRow

REWARDS_MIN = 20
"""Of an arm, before its average is compared in words."""


def arm_reports(seen: Overview) -> list[ArmReport]:
    """What the newest decisions and the rewards that were read say of each arm."""
    loss = loss_of(seen.configuration)
    statuses = {arm.arm_id: arm.status for arm in seen.arms}
    plays = Counter(play.arm_id for play in seen.plays)
    reports = []
    for arm_id in seen.arm_ids:
        tally = ArmTally(rewards=array("d", seen.rewards.get(arm_id, ())), plays=plays[arm_id])
        reports.append(describe_arm(arm_id, statuses.get(arm_id), tally, len(seen.plays), loss))
    return reports


def arm_lines(seen: Overview, reports: Sequence[ArmReport], prospect: Prospect | None) -> list[ArmLine]:
    """A line an arm, the best index first, then those without one in the order of their registration."""
    coloured = seen.coloured
    scored = {} if prospect is None else {arm.arm_id: arm for arm in prospect.arms}
    lines = []
    for one in reports:
        line = ArmLine(
            arm_id=one.arm_id,
            status=one.status or "unregistered",
            colour=coloured.get(one.arm_id),
            share=one.share,
            rewards=one.rewards.n,
            mean=one.rewards.mean,
            deviation=one.rewards.standard_deviation,
            risk=one.rewards.risk,
            interval=one.rewards.interval,
        )
        score = scored.get(one.arm_id)
        lines.append(line if score is None else with_score(line, score))
    return sorted(lines, key=lambda line: float("-inf") if line.index is None else line.index, reverse=True)


def with_score(line: ArmLine, score: ScoredArm) -> ArmLine:
    """The line with what the model says of its arm."""
    return replace(
        line,
        estimate=score.estimate,
        bonus=score.bonus,
        index=score.index,
        estimate_interval=None if score.interval is None else (score.interval[0], score.interval[1]),
    )


def learning(seen: Overview, reports: Sequence[ArmReport]) -> Learning:
    """Whether the campaign learns, as its report has it, from what was read."""
    recent = [ChoiceRow(one.arm_id, one.greedy_arm_id, one.recommended_arm_id) for one in seen.recent]
    return describe_learning(_in_the_race(reports, 1), recent, seen.row)


def caution(seen: Overview, reports: Sequence[ArmReport]) -> str | None:
    """What choosing by the average alone would do instead; None where it says nothing, or not enough is known."""
    known = _in_the_race(reports, REWARDS_MIN)
    if seen.configuration.risk.measure == "mean" or len(known) < 2:
        return None
    price = price_of_caution(known, measure_in_full(seen.configuration))
    by_id = {one.arm_id: one.rewards for one in known}
    if price.best_by_mean is None or price.best_by_risk is None or price.best_by_mean == price.best_by_risk:
        return price.sentence
    bold, careful = by_id[price.best_by_mean], by_id[price.best_by_risk]
    return (
        f"By the average alone, {price.best_by_mean} would lead: {number(bold.mean)} against {number(careful.mean)}. "
        f"By the {measure(seen.configuration)} it is {price.best_by_risk}: "
        f"{number(careful.risk)} against {number(bold.risk)}. That caution costs "
        f"{number(price.mean_difference)} a decision on average."
    )


def _in_the_race(reports: Sequence[ArmReport], rewards_min: int) -> list[ArmReport]:
    return [one for one in reports if one.status in {None, "active"} and one.rewards.n >= rewards_min]


def most_chosen(seen: Overview) -> tuple[str, float] | None:
    """The arm that most of the newest decisions chose, and its share of them; None before the first."""
    counted = Counter(one.arm_id for one in seen.recent).most_common(1)
    return (counted[0][0], counted[0][1] / len(seen.recent)) if counted else None


@dataclass(frozen=True)
class Finding:
    """Something about a campaign's health. level: ok, note or warning."""

    level: str
    title: str
    text: str


def health(seen: Overview, model: ModelReport | None, fault: str | None) -> list[Finding]:
    """What works and what does not, warnings first."""
    found = []
    if fault is not None:
        found.append(Finding("warning", "Nothing can be recorded", fault))
    if model is None:
        found.append(
            Finding("warning", "The model does not answer", "Its numbers are missing; look again in a moment.")
        )
    else:
        found += [Finding("warning", "The model warns", warning) for warning in model.warnings]
        found.append(_learning(seen, model))
        certified = model.convergence.get("certified")
        if certified is not None:
            right = "The last fit is exact: it met its certificate of optimality."
            wrong = "The last fit did not meet its certificate of optimality; the one before it is in use."
            found.append(Finding("ok", "Fit", right) if certified else Finding("warning", "Fit", wrong))
        found.append(Finding("note", "Guaranteed" if model.guaranteed else "No guarantee", model.guarantee_note))
    found += [Finding("note", "Configuration", one) for one in configuration_warnings(seen.configuration)]
    if fault is None:
        found.append(Finding("ok", "Service", "Decisions and rewards are recorded, and the database answers."))
    order = ("warning", "ok", "note")
    return sorted(found, key=lambda one: order.index(one.level))


def _learning(seen: Overview, model: ModelReport) -> Finding:
    if seen.row.learn_limit is not None:
        return Finding("note", "Learning paused", f"{seen.unlearned:,} rewards are stored and wait to be learned.")
    behind = max(0, seen.row.head - model.observations)
    if behind:
        return Finding("note", "Learning", f"The model is {behind:,} rewards behind the log, and catches up.")
    return Finding("ok", "Learning", f"All {model.observations:,} rewards are learned.")
