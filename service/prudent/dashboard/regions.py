"""Charts of campaigns with features: for whom which arm is the best, and what it is worth there."""

from collections.abc import Mapping

from markupsafe import Markup

from prudent.dashboard.drawing import (
    AXIS_HEIGHT,
    DOT,
    GROUP,
    HIT,
    LINE,
    LINE_HEIGHT,
    NAME,
    PLOT,
    Axis,
    Chart,
    Key,
    colour,
    whisker,
    with_interval,
)
from prudent.dashboard.formatting import abridged, number, percent, plural
from prudent.reporting.groups import FeatureGroups, Group
from prudent.reporting.policies import PolicyArm, PolicyReport

FEATURES_MAX = 3
"""Features in the chart; the table has all that the report tells."""
NAMED_MAX = 3
"""Arms named beside a bar."""
OTHER = "other arms"
_TITLE, _GROUP = 30, 42
_PART = Markup('<g class="part {}"><title>{}</title><rect x="{}%" width="{}%" y="{}" height="14"/></g>')


def groups(report: PolicyReport, coloured: Mapping[str, int]) -> Chart | None:
    """For whom which arm is the best: a bar for each group of contexts, divided by their best arms. None without."""
    known = report.by_feature[:FEATURES_MAX]
    if not known:
        return None
    rows, top = [], 0
    for feature in known:
        rows.append(LINE.format("rule", 0, 100, top, top))
        rows.append(NAME.format(0, "100%", top + 6, abridged(feature.feature)))
        top += _TITLE
        for one in feature.groups:
            words = f"{one.value}: {_arms_in_words(one)}"
            rows.append(Markup('<svg y="{}" width="100%" height="20"><text y="14">{}</text></svg>').format(top, words))
            rows.append(_bar(feature, one, coloured, top + 20))
            top += _GROUP
    svg = PLOT.format(
        "plot",
        top,
        "Which arm is the best for whom",
        "; ".join(
            f"{feature.feature} {one.value}: {_arms_in_words(one)}" for feature in known for one in feature.groups
        )
        + ".",
        Markup().join(rows),
    )
    named = {arm_id for feature in known for one in feature.groups for arm_id in one.shares}
    keys = [Key(arm_id, "arm", place) for arm_id, place in coloured.items() if arm_id in named]
    return Chart(svg, keys + ([Key(OTHER, "arm", None)] if named - coloured.keys() else []))


def _bar(feature: FeatureGroups, one: Group, coloured: Mapping[str, int], top: int) -> Markup:
    parts, start = [], 0.0
    for arm_id, share in one.shares.items():
        where = f"{feature.feature} {one.value}, {plural(one.contexts, 'context')}"
        said = f"{where}\n{arm_id} is the best in {percent(share)}"
        parts.append(_PART.format(colour(coloured.get(arm_id)), said, round(start, 2), round(100 * share, 2), top))
        start += 100 * share
    return Markup().join(parts)


def _arms_in_words(one: Group) -> str:
    shares = list(one.shares.items())
    rest = sum(share for _, share in shares[NAMED_MAX:])
    words = [f"{arm_id} {percent(share)}" for arm_id, share in shares[:NAMED_MAX]]
    return ", ".join(words + ([f"{OTHER} {percent(rest)}"] if rest else []))


def estimates(report: PolicyReport, coloured: Mapping[str, int], unit: str) -> Chart | None:
    """What the arms are worth in the largest regions; None without regions.

    A region is an arm's contexts: its name, its share, and below it the best arms at the context that stands for it.
    """
    known = [arm for arm in report.arms if arm.share and arm.estimates and arm.ranges is not None]
    if not known:
        return None
    axis = Axis([end for arm in known for one in arm.estimates for end in (one.estimate, *(one.interval or ()))])
    rows, top = [], 0
    for arm in known:
        rows.append(LINE.format("rule", 0, 100, top, top))
        rows.append(NAME.format(0, "100%", top + 2, f"{abridged(arm.arm_id, 28)} in {percent(arm.share)}"))
        for line, one in enumerate(arm.estimates):
            y = top + 33 + LINE_HEIGHT * line
            drawn = HIT.format(y - 8, LINE_HEIGHT) + whisker(axis, one.interval or (), y)
            kind = f"dots {colour(coloured.get(one.arm_id))}"
            said = f"{one.arm_id}, where {arm.arm_id} is best\n{with_interval(one.estimate, one.interval or ())}"
            rows.append(GROUP.format(kind, said, drawn + DOT.format(axis.at(one.estimate), y)))
        top += 29 + LINE_HEIGHT * len(arm.estimates)
    svg = PLOT.format(
        "plot",
        top + AXIS_HEIGHT,
        "The best arms in each kind of context",
        "; ".join(_region_in_words(arm) for arm in known) + ".",
        axis.grid(top, unit) + Markup().join(rows),
    )
    named = {one.arm_id for arm in known for one in arm.estimates}
    return Chart(svg, [Key(arm_id, "arm", place) for arm_id, place in coloured.items() if arm_id in named])


def _region_in_words(arm: PolicyArm) -> str:
    values = ", ".join(f"{one.arm_id} {number(one.estimate)}" for one in arm.estimates)
    return f"{arm.arm_id} is the best in {percent(arm.share)}, with estimates {values}"
