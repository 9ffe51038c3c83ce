"""The arms of a campaign as lines of a table that can be searched, ordered and paged through without a script."""

from array import array
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from prudent.dashboard.overview import Overview
from prudent.ledger.outcomes import Prospect, ScoredArm
from prudent.reporting.collection import ArmTally
from prudent.reporting.report import ArmReport, describe_arm

SHOWN_MAX = 50
"""Arms in the table at a time."""
SEARCHED_FROM = 9
"""From so many arms on there is a search: the charts have a colour for eight."""
TEXT_MAX = 200
"""Characters of a search that are looked at."""


@dataclass(frozen=True)
class ArmLine:
    """What is known of an arm. Statistics of rewards are None without rewards, those of the model without a preview.

    share: of the latest decisions; interval: of the risk of the rewards; estimate_interval: of the model's estimate;
    bonus: as it counts, the index less the estimate; limits: of a bonus that has them; the lower one None where there
    is none.
    """

    arm_id: str
    status: str
    colour: int | None
    share: float | None = None
    rewards: int = 0
    mean: float | None = None
    deviation: float | None = None
    risk: float | None = None
    interval: tuple[float, float] | None = None
    estimate: float | None = None
    bonus: float | None = None
    index: float | None = None
    estimate_interval: tuple[float, float] | None = None
    limits: tuple[float | None, float | None] | None = None


def arm_reports(campaign: Overview) -> list[ArmReport]:
    """Statistics of each arm, from the latest decisions and the rewards that were read."""
    measure = campaign.configuration.measure()
    statuses = {arm.arm_id: arm.status for arm in campaign.arms}
    plays = Counter(play.arm_id for play in campaign.plays)
    reports = []
    for arm_id in campaign.arm_ids:
        tally = ArmTally(rewards=array("d", campaign.rewards.get(arm_id, ())), plays=plays[arm_id])
        reports.append(describe_arm(arm_id, statuses.get(arm_id), tally, len(campaign.plays), measure))
    return reports


def arm_lines(campaign: Overview, reports: Sequence[ArmReport], prospect: Prospect | None) -> list[ArmLine]:
    """One line per arm, the best index first, then arms without an index in order of registration."""
    coloured = campaign.coloured
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
    return ordered(lines, "index")


def with_score(line: ArmLine, score: ScoredArm) -> ArmLine:
    """The line with the model's numbers for its arm."""
    return replace(
        line,
        estimate=score.estimate,
        bonus=added(score.estimate, score.index),
        index=score.index,
        estimate_interval=None if score.interval is None else (score.interval[0], score.interval[1]),
        limits=None if score.limits is None else (score.limits[0], score.limits[1]),
    )


def added(estimate: float, index: float | None) -> float | None:
    """The bonus as it counts: with the campaign's `exploration` and, by the randomized rule, the decision's draw."""
    return None if index is None else index - estimate


COLUMNS: Mapping[str, Callable[[ArmLine], float | None]] = {
    "share": lambda line: line.share,
    "rewards": lambda line: line.rewards,
    "mean": lambda line: line.mean,
    "deviation": lambda line: line.deviation,
    "risk": lambda line: line.risk,
    "estimate": lambda line: line.estimate,
    "bonus": lambda line: line.bonus,
    "index": lambda line: line.index,
}
"""What the table can be ordered by, besides the name."""
NAME = "name"


def ordered(lines: Sequence[ArmLine], column: str) -> list[ArmLine]:
    """The largest first, lines without a number last; by name from A to Z."""
    if column == NAME:
        return sorted(lines, key=lambda line: line.arm_id.casefold())

    def value(line: ArmLine) -> float:
        found = COLUMNS[column](line)
        return float("-inf") if found is None else found

    return sorted(lines, key=value, reverse=True)


@dataclass(frozen=True)
class ArmTable:
    """What of the arms is shown. first: place among those found, from 0; total: arms of the campaign."""

    lines: list[ArmLine]
    text: str
    column: str
    first: int
    found: int
    total: int

    @property
    def has_search(self) -> bool:
        """Whether there are enough arms to search among."""
        return self.total >= SEARCHED_FROM

    @property
    def earlier(self) -> str | None:
        """The query of the page before; None on the first one."""
        return self.query(first=max(0, self.first - SHOWN_MAX)) if self.first else None

    @property
    def later(self) -> str | None:
        """The query of the next page; None on the last one."""
        after = self.first + SHOWN_MAX
        return self.query(first=after) if after < self.found else None

    def query(self, column: str | None = None, first: int = 0) -> str:
        """The same search in another order, or further on."""
        return urlencode({"arm": self.text, "order": column or self.column, "first": first})


def arm_table(lines: Sequence[ArmLine], text: str, column: str, first: int) -> ArmTable:
    """The arms whose names contain a text, in an order, from a place on. What cannot be asked for is left out."""
    text = text.strip()[:TEXT_MAX]
    column = column if column in COLUMNS or column == NAME else "index"
    found = [line for line in ordered(lines, column) if text.casefold() in line.arm_id.casefold()]
    first = first if 0 <= first < len(found) else 0
    return ArmTable(found[first : first + SHOWN_MAX], text, column, first, len(found), len(lines))
