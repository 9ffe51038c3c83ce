"""The contexts by the values of one feature: who is in which group, and which feature says most."""

import numpy as np
import pytest

from prudent.campaigns import CampaignConfiguration, RowReader, resolve
from prudent.campaigns.rows import OTHER
from prudent.campaigns.vocabulary import Learned
from prudent.reporting.groups import FEATURES_MAX, GROUPS_MAX, MISSING, Values, group, values_of

FEATURES = [
    {"name": "member", "kind": "boolean", "missing": "center"},
    {"name": "day", "kind": "category", "categories": ["mon"], "capacity": 3},
    {"name": "age", "missing": "center"},
    {"name": "stops"},
]
ROWS = np.array(
    [
        [1.0, 1.0, 20.0, 1.0],
        [0.0, 2.0, np.nan, 2.0],
        [np.nan, 0.0, 30.0, 1.0],
        [1.0, 1.0, 40.0, 2.0],
        [0.0, 2.0, 50.0, 1.0],
        [1.0, 1.0, 60.0, 2.0],
        [0.0, 1.0, 70.0, 1.0],
        [0.0, 1.0, 80.0, 2.0],
        [0.0, 1.0, 90.0, 1.0],
    ]
)


def read(rows: np.ndarray, features: list[dict[str, object]] = FEATURES) -> tuple[list[str], list[Values]]:
    """The names and the values of rows of a campaign that has learned the day tue."""
    body = {
        "campaign_id": "c",
        "risk": {"measure": "mean"},
        "model": {"type": "disjoint", "features": features},
        "arms": [{"arm_id": "a"}, {"arm_id": "b"}],
    }
    reader = RowReader(resolve(CampaignConfiguration.model_validate(body)).model)
    names = [column.key for column in reader.columns]
    return names, values_of(
        rows, names, reader, reader.vocabulary([Learned("day", 2, "tue")] if "day" in names else [])
    )


def in_words(values: Values) -> list[str]:
    """Of each row."""
    return [values.labels[place] for place in values.places.tolist()]


def test_each_row_is_in_the_group_of_its_value() -> None:
    """A reader would be told of other people than those who came."""
    _, (member, day, age, stops) = read(ROWS)
    assert member.labels == ["no", "yes", MISSING]
    assert in_words(member) == ["yes", "no", MISSING, "yes", "no", "yes", "no", "no", "no"]
    assert day.labels == ["mon", "tue", OTHER]
    assert in_words(day) == ["mon", "tue", OTHER, "mon", "tue", "mon", "mon", "mon", "mon"]
    assert age.labels == ["20 to 30", "40 to 50", "60 to 70", "80 to 90", MISSING]
    assert in_words(age)[:4] == ["20 to 30", MISSING, "20 to 30", "40 to 50"]
    assert stops.labels == ["1", "2"]


def test_the_feature_that_decides_is_told_first() -> None:
    """With twenty features the reader would have to look for the one that matters."""
    names, values = read(ROWS)
    best = (ROWS[:, 3] == 2.0).astype(np.intp)
    found = group(names, values, best, ["a", "b"])
    assert found[0].feature == "stops"
    assert found[0].told == pytest.approx(1)
    assert [(one.value, one.contexts, one.shares) for one in found[0].groups] == [
        ("1", 5, {"a": 1}),
        ("2", 4, {"b": 1}),
    ]
    assert [one.told for one in found] == sorted((one.told for one in found), reverse=True)
    for feature in found:
        assert sum(one.contexts for one in feature.groups) == len(ROWS)
    # (H(X) + H(Y) - H(X, Y)) / H(Y), by hand: days mon, mon, mon, ... with a, b
    day = next(one for one in found if one.feature == "day")
    joint = np.array([3, 3, 1, 1, 1]) / 9
    own, both = np.array([6, 2, 1]) / 9, np.array([5, 4]) / 9
    entropy = [-float(p @ np.log(p)) for p in (own, both, joint)]
    assert day.told == pytest.approx((entropy[0] + entropy[1] - entropy[2]) / entropy[1])


def test_where_one_arm_is_always_the_best_no_feature_says_more() -> None:
    """A chart of one colour would take a screen to say nothing."""
    names, values = read(ROWS)
    assert group(names, values, np.zeros(len(ROWS), dtype=np.intp), ["a", "b"]) == []


def test_many_features_and_many_categories_stay_few() -> None:
    """A page of nine features with fifty categories each would have 450 bars."""
    random = np.random.default_rng(3)
    features: list[dict[str, object]] = [
        {"name": f"x{n}", "kind": "category", "categories": [f"v{one}" for one in range(50)]} for n in range(9)
    ]
    rows = random.integers(1, 51, size=(1_000, 9)).astype(float)
    names, values = read(rows, features)
    found = group(names, values, random.integers(2, size=1_000), ["a", "b"])
    assert len(found) == FEATURES_MAX
    for feature in found:
        assert len(feature.groups) == GROUPS_MAX + 1
        assert feature.groups[-1].value == OTHER
        assert sum(one.contexts for one in feature.groups) == 1_000


def test_the_values_of_most_rows() -> None:
    """A sentence would say that an arm is for those who are hardly there."""
    _, (member, *_) = read(ROWS)
    assert member.most(np.array([True, False, False, True, False, True, False, False, False])) == ["yes"]
    assert member.most(np.ones(9, dtype=bool)) == ["no", "yes"]
