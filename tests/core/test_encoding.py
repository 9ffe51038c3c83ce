"""Named features become the columns that they should, alone and among others to the same bytes."""

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, SplineTransformer, StandardScaler

from prudent.core.encoding import Basis, Encoder, Feature, encoder

ROWS = 10_000
ALL_KINDS = [
    Feature("country", "category", positions=2, has_other=True),
    Feature("plan", "category", positions=20, has_other=True, indicator=True),
    Feature("age", "number", 45.0, 15.0, indicator=True),
    Feature("basket", "number", 10.0, 3.0),
    Feature("mobile", "boolean"),
    Feature("hour", "cyclic", period=24.0),
    Feature("dose", "number", 20.0, 10.0, basis=Basis("spline", (10.0, 20.0, 40.0))),
    Feature("load", "number", 0.0, 2.0, basis=Basis("piecewise-linear", (-1.0, 3.0))),
    Feature("size", "category", positions=3),
]


def rows_of(features: list[Feature], rows: int, seed: int) -> NDArray[np.float64]:
    """Random rows, with missing values where there is an indicator."""
    random = np.random.default_rng(seed)
    columns = []
    for one in features:
        if one.kind == "category":
            column = random.integers(not one.has_other, one.positions + 1, rows).astype(np.float64)
        elif one.kind == "boolean":
            column = random.integers(0, 2, rows).astype(np.float64)
        else:
            column = random.normal(20.0, 15.0, rows)
        if one.indicator:
            column[random.random(rows) < 0.1] = np.nan
        columns.append(column)
    return np.column_stack(columns)


@pytest.fixture
def everything() -> Encoder:
    """An encoder of every kind, with interactions."""
    return encoder(ALL_KINDS, [(0, 4), (1, 2), (5, 6)])


def test_the_columns_are_those_of_scikit_learn() -> None:
    """A model trained on the columns elsewhere would not mean the same here."""
    features = [
        Feature("country", "category", positions=5, has_other=True),
        Feature("age", "number", None, None),
        Feature("mobile", "boolean"),
        Feature("income", "number", None, None),
        Feature("size", "category", positions=3),
    ]
    rows = rows_of(features, ROWS, seed=1)
    scaler = StandardScaler().fit(rows[:, [1, 3]])
    center, scale = np.zeros(5), np.ones(5)
    center[[1, 3]], scale[[1, 3]] = scaler.mean_, scaler.scale_
    theirs = ColumnTransformer(
        [
            ("country", OneHotEncoder(categories=[list(range(6))], sparse_output=False), [0]),
            ("age", StandardScaler(), [1]),
            ("mobile", "passthrough", [2]),
            ("income", StandardScaler(), [3]),
            ("size", OneHotEncoder(categories=[[1, 2, 3]], sparse_output=False), [4]),
            ("intercept", FunctionTransformer(np.ones_like), [2]),
        ]
    ).fit_transform(rows)
    ours = encoder(features).scaled_by(center, scale)(rows)
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() < 1e-12


@pytest.mark.parametrize("seed", range(5))
def test_a_row_gives_the_same_bytes_alone_and_among_others(everything: Encoder, seed: int) -> None:
    """A reward would be learned with other features than those that were scored, and a replay would differ."""
    rows = rows_of(ALL_KINDS, 1_000, seed)
    together = everything(rows)
    assert [everything(row).tobytes() for row in rows] == [row.tobytes() for row in together]
    assert everything(rows[:37]).tobytes() == together[:37].tobytes()


def test_columns_have_names_and_parts(everything: Encoder) -> None:
    """Weights and contributions would be shown beside the wrong names."""
    names = everything.column_names(lambda place, position: f"{place}.{position}")
    assert len(names) == everything.model_dimension == len(set(names))
    assert names[:3] == ["country=0.0", "country=0.1", "country=0.2"]
    assert {"plan missing", "age missing", "hour sin", "hour cos", "dose 2", "load 3", "size=8.3"} <= set(names)
    assert "country=0.2 x mobile" in names
    assert names[-1] == "intercept"
    rows = rows_of(ALL_KINDS, 3, seed=9)
    columns = everything(rows)
    parts = everything.parts(columns)
    assert len(everything.part_names) == parts.shape[1] == len(ALL_KINDS) + 3 + 1
    assert np.allclose(parts.sum(axis=1), columns.sum(axis=1))
    assert everything.part_widths[:2] == [3, 22]


def test_interactions_are_products_of_all_columns(everything: Encoder) -> None:
    """An effect that depends on two features could not be learned."""
    rows = rows_of(ALL_KINDS, 50, seed=3)
    columns = everything(rows)
    names = everything.column_names(lambda place, position: f"{place}.{position}")
    for place, name in enumerate(names):
        if " x " in name:
            left, right = name.split(" x ")
            expected = columns[:, names.index(left)] * columns[:, names.index(right)]
            assert (columns[:, place] == expected).all(), name


def test_missing_values_are_the_center_or_no_category() -> None:
    """A missing age would be learned as an age of 0."""
    features = [
        Feature("age", "number", 45.0, 15.0),
        Feature("plan", "category", positions=2, has_other=True),
        Feature("mobile", "boolean"),
        Feature("hour", "cyclic", period=24.0, indicator=True),
    ]
    nothing = np.full(4, np.nan)
    assert encoder(features)(nothing).tolist() == [0, 0, 0, 0, 0.5, 0, 0, 1, 1]


def test_a_cycle_ends_where_it_begins() -> None:
    """Midnight would be a day away from itself."""
    hours = encoder([Feature("hour", "cyclic", period=24.0)], intercept=False)(np.array([[0.0], [6.0], [24.0], [30.0]]))
    assert np.allclose(hours, [[0, 1], [1, 0], [0, 1], [1, 0]])


def test_a_spline_spans_natural_cubics() -> None:
    """An effect that rises and falls would be fitted by something else than what is documented."""
    knots = (10.0, 20.0, 40.0, 45.0)
    values = np.linspace(-5.0, 80.0, 400)[:, None]
    ours = encoder([Feature("dose", "number", 20.0, 10.0, basis=Basis("spline", knots))])(values)
    outside = (values[:, 0] < knots[0]) | (values[:, 0] > knots[-1])
    second = np.diff(ours[values[:, 0] > knots[-1]], n=2, axis=0)
    assert np.abs(second).max() < 1e-10, "it is a line beyond the last knot"
    theirs = SplineTransformer(knots=np.array(knots)[:, None], degree=3, extrapolation="linear")
    inside = ~outside
    basis = np.column_stack([theirs.fit(values).transform(values)])[inside]
    fitted = basis @ np.linalg.lstsq(basis, ours[inside], rcond=None)[0]
    assert np.abs(fitted - ours[inside]).max() < 1e-9, "within the knots it is a cubic spline"


def test_far_values_keep_their_digits() -> None:
    """A difference of cubes loses all digits at a million."""
    basis = Basis("spline", (0.0, 1.0, 2.0))
    far = encoder([Feature("x", "number", 0.0, 1.0, basis=basis)])(np.array([[1e6], [1e6 + 1]]))
    assert far[1, 1] - far[0, 1] == pytest.approx(1.5, rel=1e-6)


@pytest.mark.parametrize("position", [-1.0, 3.0, 0.5, 1e300])
def test_a_position_that_is_none_is_refused(position: float) -> None:
    """A damaged log would be learned as something."""
    with pytest.raises(ValueError, match="position"):
        encoder([Feature("plan", "category", positions=2, has_other=True)])(np.array([position]))


def test_a_scale_that_is_not_known_yet_gives_nothing() -> None:
    """The first observations would be learned in a unit of their own."""
    learned = encoder([Feature("x", "number", None, None, basis=Basis("piecewise-linear", (3.0,)))])
    assert learned(np.array([[7e9]])).tolist() == [[0, 0, 1]]
    assert learned.scaled_by(np.array([1.0]), np.array([2.0]))(np.array([[7.0]])).tolist() == [[3, 2, 1]]
    assert learned.scaled_by(np.array([0.0]), np.array([1e-9]))(np.array([[7.0]]))[0, 0] == 1e6
