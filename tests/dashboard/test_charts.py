"""The charts say what the numbers are: read back from the SVG by the axis that a reader has."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from xml.etree import ElementTree as ET

import numpy as np
import pytest

from prudent.campaigns import CampaignConfiguration
from prudent.core.measures import Expectile, Mean
from prudent.dashboard.arms import ArmLine
from prudent.dashboard.charts import Theta, parameters, rewards, shares, worth
from prudent.dashboard.drawing import Axis, Chart, tick_text
from prudent.dashboard.overview import Overview
from prudent.dashboard.regions import estimates, groups
from prudent.dashboard.trend import COMPARED_FROM, STRETCHES_MAX, stretches, trend
from prudent.reporting.groups import FeatureGroups, Group
from prudent.reporting.policies import EstimateAt, PolicyArm, PolicyReport
from prudent.store.log import Counts
from prudent.store.reports import PlayRow

MINUS = "\N{MINUS SIGN}"
LINES = [
    ArmLine("b", "active", None, estimate=-0.5, bonus=0.4, index=-0.1),
    ArmLine("a", "active", 1, estimate=0.5, bonus=0.2, index=0.7, estimate_interval=(0.4, 0.6)),
]
HOSTILE = "<script>alert(1)</script>&\"'"


class Drawing:
    """A chart as a reader sees it: the ticks say where the numbers are."""

    def __init__(self, chart: Chart | None) -> None:
        assert chart is not None
        self.root = ET.fromstring(str(chart.svg))  # noqa: S314  # our own
        ticks = [(float(one.attrib["x"][:-1]), one.text or "") for one in self.all("tick")]
        self.ticks = {float(text.replace(MINUS, "-").replace(",", "")): x for x, text in ticks if ":" not in text}

    def all(self, kind: str) -> list[ET.Element]:
        """Elements of a class."""
        return [one for one in self.root.iter() if kind in one.get("class", "").split()]

    def titles(self) -> list[str]:
        """What is said where one points."""
        return [one.text or "" for one in self.root.iter("title")]

    def value(self, x: str) -> float:
        """The number at a place, by the first and the last tick."""
        (low, left), (high, right) = min(self.ticks.items()), max(self.ticks.items())
        return low + (float(x.rstrip("%")) - left) * (high - low) / (right - left)


def test_an_arms_dot_bar_and_interval_are_where_its_numbers_are() -> None:
    """A chart that contradicts its table; and the arm to be chosen next would not be on top."""
    drawing = Drawing(worth(LINES, "reward"))
    assert [drawing.value(dot.attrib["cx"]) for dot in drawing.all("dot")] == pytest.approx([0.5, -0.5], abs=1e-3)
    for bar, (estimate, index) in zip(drawing.all("bonus"), ((0.5, 0.7), (-0.5, -0.1)), strict=True):
        start, width = (float(bar.attrib[name].rstrip("%")) for name in ("x", "width"))
        assert drawing.value(f"{start}%") == pytest.approx(estimate, abs=1e-3)
        assert drawing.value(f"{start + width}%") == pytest.approx(index, abs=1e-3)
    line, *_ = drawing.all("whisker")
    assert [drawing.value(line.attrib[end]) for end in ("x1", "x2")] == pytest.approx([0.4, 0.6], abs=1e-3)
    assert len(drawing.all("whisker")) == 3  # of one arm; the other has no interval
    assert drawing.titles() == [
        "a\nestimate 0.500, 95% interval 0.400 to 0.600\nbonus 0.200\nindex 0.700",
        f"b\nestimate {MINUS}0.500\nbonus 0.400\nindex {MINUS}0.100",
    ]
    assert [one.get("class") for one in drawing.root.iter("g")] == ["arm-1", "others"]


def test_a_parameters_dot_and_interval_are_where_its_numbers_are() -> None:
    """An effect would be read off at the wrong size, or of the wrong arm; zero must be on the axis."""
    thetas = [Theta("a", 1, [1.0, 2.0], [[0.5, 1.5], None]), Theta("b", 2, [0.25, 1.0], [])]
    chart = parameters(["x", "y"], thetas)
    drawing = Drawing(chart)
    assert 0.0 in drawing.ticks
    assert [drawing.value(dot.attrib["cx"]) for dot in drawing.all("dot")] == pytest.approx([1, 0.25, 2, 1], abs=1e-3)
    assert [key.label for key in chart.keys] == ["a", "b"]
    assert drawing.titles() == [
        "x, a\n1.00, 95% interval 0.500 to 1.50",
        "x, b\n0.250",
        "y, a\n2.00",
        "y, b\n1.00",
    ]
    assert parameters(["x"], thetas[:1]).keys == []
    assert "named" in drawing.root.attrib["class"]
    long = Drawing(parameters(["a name that does not fit beside its dots"], thetas))
    assert "named" not in long.root.attrib["class"]
    name, *dots = long.all("name") + long.all("dot")
    assert float(name.attrib["y"]) < min(float(dot.attrib["cy"]) for dot in dots)


def campaign(played: Sequence[str], rewarded: dict[str, list[float]]) -> Overview:
    """A campaign with so many decisions, oldest first, and rewards."""
    plays = [PlayRow(n * 1_000_000, str(n), arm_id, None, None, None) for n, arm_id in enumerate(played)][::-1]
    values = {arm_id: np.array(values) for arm_id, values in rewarded.items()}
    none = Counts(0, 0)
    return Overview(None, None, [], len(plays), plays, [], values, 0, 1, none, none, None)  # type: ignore[arg-type]  # charts read no more


def test_a_histogram_counts_every_reward_and_marks_mean_and_risk() -> None:
    """Rewards that are missing, or a line at the wrong place: the picture of the risk is what the page is for."""
    values = {"a": [0.0, 0.0, 0.0, 10.0], "b": [float(n) for n in range(1_000)]}
    lines = [
        ArmLine("a", "active", 1, rewards=4, mean=2.5, risk=1.0),
        ArmLine("b", "active", 2, rewards=1_000, mean=499.5, risk=300.0),
        ArmLine("c", "active", 3),
    ]
    drawing = Drawing(rewards(campaign("", values), lines, Expectile(0.1)))
    counted = [re.search(r": ([\d,]+) rewards?$", text) for text in drawing.titles()]
    assert sum(int(found[1].replace(",", "")) for found in counted if found) == 1_004
    for kind, expected in (("mean", [2.5, 499.5]), ("risk", [1.0, 300.0])):
        lines_drawn = [one for one in drawing.all(kind) if one.tag == "line"]
        assert [drawing.value(one.attrib["x1"]) for one in lines_drawn] == pytest.approx(expected, abs=0.1)
    assert "a: expectile 1.00" in drawing.titles()
    names = [one.text for one in drawing.all("name")]
    assert names == ["a, 4 rewards", "b, 1,000 rewards"]
    only_mean = rewards(campaign("", values), lines, Mean())
    assert only_mean is not None
    assert [key.label for key in only_mean.keys] == ["mean"]
    assert Drawing(only_mean).all("risk") == []


def test_areas_are_as_high_as_their_shares() -> None:
    """An arm that took half of the decisions would fill a third of the chart."""
    chart = shares(campaign("a" * 10 + "ab" * 45, {}))
    drawing = Drawing(chart)
    bottom = next(one for one in drawing.all("area") if "arm-1" in one.attrib["class"])
    heights = [1000 - float(y) for y in re.findall(r"L[\d.]+ ([\d.]+)", bottom.attrib["d"])][:-1]
    assert heights[:10] == [1000] * 10
    assert heights[-1] == 500
    top = next(one for one in drawing.all("area") if "arm-2" in one.attrib["class"])
    assert set(re.findall(r"L[\d.]+ ([\d.]+)", top.attrib["d"])[:-1]) == {"0"}
    assert drawing.titles()[-1] == "decision 100, 00:01:39 UTC\na 50%\nb 50%"
    assert drawing.titles()[0] == "decision 1, 00:00:00 UTC\na 100%"
    many = shares(campaign("abcdefghij" * 3, {}))
    assert many is not None
    assert len(many.keys) == 9
    assert many.keys[-1].label == "other arms"


@pytest.mark.parametrize("count", [1, 2, 3, 10_000])
def test_few_and_many_decisions_have_a_chart(count: int) -> None:
    """A page that breaks on a campaign's first decision, or draws ten thousand points."""
    chart = shares(campaign("ab" * (count // 2) + "a" * (count % 2), {}))
    drawing = Drawing(chart)
    strips = [one.attrib["d"] for one in drawing.all("strip")]
    assert len(strips) == min(count, 100)
    assert strips[0].startswith("M0 ")
    assert "H1000V" in strips[-1]
    assert len(str(chart.svg if chart else "")) < 20_000
    assert shares(campaign("", {})) is None


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 1), (-1, 1), (0.45, 0.7), (-1e9, 1e9), (1e9, 1e9), (0, 0), (-3, -3), (1e-12, 3e-12), (1e9, 1e9 + 1), (7, 9e8)],
)
def test_an_axis_has_a_few_round_numbers(low: float, high: float) -> None:
    """An axis without a number, with dozens, or twice the same; or a dot outside the chart."""
    axis = Axis([low, high])
    texts = [tick_text(value, axis.step) for value in axis.ticks]
    assert 3 <= len(texts) <= 8
    assert len(set(texts)) == len(texts)
    for value, text in zip(axis.ticks, texts, strict=True):
        assert float(text.replace(MINUS, "-").replace(",", "")) == pytest.approx(value, rel=1e-9, abs=1e-30)
        assert -1e-6 <= axis.at(value) <= 100
        assert len(text) <= 16
    assert 0 <= axis.at(low) <= axis.at(high) <= 100
    digits = {f"{value / 10 ** math.floor(math.log10(axis.step) + 1e-9):.3f}" for value in axis.ticks}
    assert all(text.endswith(".000") for text in digits)


def test_a_chart_is_safe_accessible_and_has_no_style_of_its_own() -> None:
    """A name could run a script; a screen reader would read every number; the policy would refuse a style."""
    lines = [ArmLine(HOSTILE, "active", 1, estimate=0.1, bonus=0.1, index=0.2, rewards=1, mean=1.0, risk=1.0)]
    drawn = [
        worth(lines, HOSTILE),
        rewards(campaign("", {HOSTILE: [1.0]}), lines, Mean()),
        shares(campaign([HOSTILE], {})),
        parameters([HOSTILE], [Theta(HOSTILE, 1, [1.0], [])]),
    ]
    for chart in drawn:
        drawing = Drawing(chart)
        assert drawing.root.get("role") == "img"
        assert drawing.root.get("aria-label")
        assert drawing.root.find("desc") is not None
        assert not [one.tag for one in drawing.root.iter() if one.tag == "script" or "style" in one.attrib]
        assert HOSTILE in "".join(drawing.root.itertext())
    assert worth([ArmLine("a", "active", 1)], "reward") is None
    assert rewards(campaign("", {}), lines[:0], Mean()) is None


def test_regions_have_their_own_estimates() -> None:
    """Where one arm is the best, another one's numbers would be drawn; arms that are best nowhere have no place."""
    first = PolicyArm(
        "a", 0.75, 1.5, [0.0], [[0.0, 0.5]], [EstimateAt("a", 2.0, [1.5, 2.5]), EstimateAt("b", 1.0, None)]
    )
    second = PolicyArm("b", 0.25, 1.0, [1.0], [[1.0, 1.0]], [EstimateAt("b", 1.25, None)])
    never = PolicyArm("c", 0.0, 0.5, None, None, [])
    chart = estimates(PolicyReport(8, ["x"], 1.8, [first, second, never], [], "."), {"a": 1, "b": 2, "c": 3}, "reward")
    drawing = Drawing(chart)
    assert [drawing.value(dot.attrib["cx"]) for dot in drawing.all("dot")] == pytest.approx([2, 1, 1.25], abs=1e-3)
    line, *_ = drawing.all("whisker")
    assert [drawing.value(line.attrib[end]) for end in ("x1", "x2")] == pytest.approx([1.5, 2.5], abs=1e-3)
    assert drawing.titles() == [
        "a, where a is best\n2.00, 95% interval 1.50 to 2.50",
        "b, where a is best\n1.00",
        "b, where b is best\n1.25",
    ]
    assert [one.text for one in drawing.all("name")] == ["a in 75%", "b in 25%"]
    assert chart is not None
    assert [key.label for key in chart.keys] == ["a", "b"]
    assert estimates(PolicyReport(0, ["x"], None, [never], [], "."), {}, "reward") is None


def test_groups_are_divided_by_their_best_arms() -> None:
    """Whose arm is which is what the page is for: a part of the wrong size, or of the wrong arm."""
    told = FeatureGroups("rush", 0.8, [Group("no", 30, {"a": 0.9, "b": 0.1}), Group(HOSTILE, 10, {"z": 1.0})])
    chart = groups(PolicyReport(40, ["rush"], 1.0, [], [told], "."), {"a": 1, "b": 2, "c": 3})
    drawing = Drawing(chart)
    parts = [(one.get("class"), one[1].attrib["x"], one[1].attrib["width"]) for one in drawing.all("part")]
    assert parts == [
        ("part arm-1", "0.0%", "90.0%"),
        ("part arm-2", "90.0%", "10.0%"),
        ("part others", "0.0%", "100.0%"),
    ]
    assert drawing.titles()[0] == "rush no, 30 contexts\na is the best in 90%"
    assert f"{HOSTILE}: z 100%" in [one.text for one in drawing.root.iter("text")]
    assert "rush no: a 90%, b 10%" in (drawing.root.findtext("desc") or "")
    assert chart is not None
    assert [key.label for key in chart.keys] == ["a", "b", "other arms"]
    assert groups(PolicyReport(0, [], None, [], [], "."), {}) is None


def test_a_trend_tells_the_parts_of_the_log_apart() -> None:
    """Whether it is getting better: the first and the latest rewards would be one number, or swapped."""
    random = np.random.default_rng(3)
    values = np.concatenate([random.normal(1, 0.5, 300), random.normal(2, 0.5, 300)])
    body = {"campaign_id": "c", "risk": {"measure": "expectile", "level": 0.1}, "model": {"type": "multi-armed"}}
    configuration = CampaignConfiguration.model_validate(body)
    asked = replace(campaign("", {}), configuration=configuration, sequences=np.arange(1, 601), rewards_in_order=values)
    found = stretches(asked)
    assert (len(found), sum(one.rewards for one in found)) == (STRETCHES_MAX, 600)
    assert [(one.first, one.last) for one in found] == [(30 * n + 1, 30 * n + 30) for n in range(20)]
    measure = configuration.measure()
    assert found[3].risk == measure.risk(values[90:120])
    assert found[3].interval == measure.interval(values[90:120], found[3].risk)
    drawing = Drawing(trend(found, measure))
    assert len(drawing.titles()) == STRETCHES_MAX
    assert drawing.titles()[0].startswith("rewards 1 to 30\nexpectile ")
    line = next(one for one in drawing.all("risk") if one.tag == "path").attrib["d"]
    heights = [float(point.split()[1]) for point in line[1:].split("L")]
    risks = [one.risk for one in found]
    assert np.corrcoef(heights, risks)[0, 1] == pytest.approx(-1, abs=1e-4)  # upwards is better
    assert len(drawing.all("band")) == 1
    few = replace(asked, sequences=np.arange(1, COMPARED_FROM), rewards_in_order=values[: COMPARED_FROM - 1])
    assert trend(stretches(few), measure) is None
