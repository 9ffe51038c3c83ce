"""Named features as columns of the model: a pure function of a campaign's schema and of its centres and scales.

A row is one float64 per named feature, as the log holds it: a number as sent, a boolean 0 or 1, a category its position
(0: any other), a point of a cycle as sent, NaN where nothing was sent. Its columns, feature by feature:

number      z = (x - center) / scale, then those of its basis. Missing: 0. Where center or scale is learned, z is cut
            off at 1e6: an observation from before a scale was learned can be far outside of it.
boolean     0 or 1. Missing: 1/2.
category    one per position, 1 at its own, 0 elsewhere. None is dropped: a ridge needs no reference level. Missing: 0.
cyclic      sine and cosine of 2 pi x / period. Missing: 0.

Each is followed by a column that is 1 where the value is missing, if the feature has an indicator. Then come the
interactions, products of all columns of two features, and a constant 1 if there is an intercept. Every operation is one
of IEEE 754 on single numbers, or one call of `math.sin`, so that a row gives the same bytes alone and among others.

Natural cubic splines: Hastie, Tibshirani & Friedman 2009, "The Elements of Statistical Learning", equations 5.4 and
5.5, here divided by the distance of the outer knots, so that all columns are of the order of z.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import cos, pi, sin
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Places = NDArray[np.intp]
LEARNED_MAX = 1e6
NAMES_JOINED_BY = " x "
"""In the name of an interaction."""


@dataclass(frozen=True, slots=True)
class Basis:
    """Further columns of a number. knots: in its own unit, increasing; a spline has at least three."""

    kind: Literal["spline", "piecewise-linear"]
    knots: tuple[float, ...]

    @property
    def width(self) -> int:
        """How many columns it has besides z."""
        return len(self.knots) - 2 if self.kind == "spline" else len(self.knots)

    def columns(self, z: Floats, knots: Floats) -> Floats:
        """z: (m,); knots: (k,), centred and scaled as z is. Returns (m, width)."""
        if self.kind == "piecewise-linear":
            bends: Floats = np.maximum(z[:, None] - knots, 0.0)
            return bends
        # beyond the last knot it is a line, and the difference of cubes would lose all digits there
        last, span = knots[-1], knots[-1] - knots[0]
        inside = _natural_cubic(np.minimum(z, last), knots) / span
        made: Floats = inside + np.maximum(z - last, 0.0)[:, None] * (_slopes_at_last(knots) / span)
        return made


def _natural_cubic(z: Floats, knots: Floats) -> Floats:
    cubes = np.maximum(z[:, None] - knots[:-1], 0.0)
    parts = cubes * cubes * cubes / (knots[-1] - knots[:-1])
    difference: Floats = parts[:, :-1] - parts[:, -1:]
    return difference


def _slopes_at_last(knots: Floats) -> Floats:
    slopes = 3.0 * (knots[-1] - knots[:-1])
    difference: Floats = slopes[:-1] - slopes[-1]
    return difference


@dataclass(frozen=True, slots=True)
class Feature:
    """A named feature.

    center, scale: of a number; None where they are learned. positions: of a category, how many besides 0. has_other:
    whether position 0 has a column, else it does not occur. period: of a cycle. indicator: whether a missing value has
    a column of its own.
    """

    name: str
    kind: Literal["number", "boolean", "category", "cyclic"]
    center: float | None = 0.0
    scale: float | None = 1.0
    basis: Basis | None = None
    positions: int = 0
    has_other: bool = False
    period: float = 1.0
    indicator: bool = False

    @property
    def is_learned(self) -> bool:
        """Whether its center or scale comes from the data."""
        return self.center is None or self.scale is None

    @property
    def width(self) -> int:
        """How many columns it has."""
        if self.kind == "number":
            own = 1 + (0 if self.basis is None else self.basis.width)
        elif self.kind == "category":
            own = self.positions + self.has_other
        else:
            own = 2 if self.kind == "cyclic" else 1
        return own + self.indicator

    def column_names(self, category: Callable[[int], str]) -> list[str]:
        """Of its columns, in order. category: the name of a position, for a category."""
        name = self.name
        if self.kind == "number":
            names = [name] + [f"{name} {place}" for place in range(2, self.width - self.indicator + 1)]
        elif self.kind == "category":
            names = [f"{name}={category(position)}" for position in range(not self.has_other, self.positions + 1)]
        else:
            names = [name] if self.kind == "boolean" else [f"{name} sin", f"{name} cos"]
        return [*names, f"{name} missing"] if self.indicator else names


@dataclass(frozen=True, eq=False)
class Encoder:
    """Rows of named features -> features as the model sees them.

    features: n of them. interactions: pairs of places among them. center, scale: (n,), those of numbers are used; a
    scale of infinity means that nothing is known yet, and all columns of that number are 0.
    """

    features: tuple[Feature, ...]
    interactions: tuple[tuple[int, int], ...]
    intercept: bool
    center: Floats
    scale: Floats
    _starts: list[int] = field(init=False)

    def __post_init__(self) -> None:
        widths = [feature.width for feature in self.features]
        widths += [widths[left] * widths[right] for left, right in self.interactions]
        object.__setattr__(self, "_starts", np.cumsum([0, *widths]).tolist())

    @property
    def dimension(self) -> int:
        """Number of named features: the length of a row."""
        return len(self.features)

    @property
    def width(self) -> int:
        """Number of columns without the intercept."""
        return self._starts[-1]

    @property
    def model_dimension(self) -> int:
        """Number of columns."""
        return self.width + self.intercept

    @property
    def is_affine(self) -> bool:
        """Whether every column is a number, centred and scaled."""
        return not self.interactions and all(
            one.kind == "number" and one.width == 1 and not one.is_learned for one in self.features
        )

    @property
    def is_learned(self) -> bool:
        """Whether a center or scale comes from the data."""
        return any(feature.is_learned for feature in self.features)

    def scaled_by(self, center: Floats, scale: Floats) -> "Encoder":
        """The same with other centers and scales of the features whose own are learned. center, scale: (n,)."""
        own = [(one.center is None, one.scale is None) for one in self.features]
        places = np.array(own, dtype=bool).reshape(-1, 2)
        return Encoder(
            self.features,
            self.interactions,
            self.intercept,
            np.where(places[:, 0], center, self.center),
            np.where(places[:, 1], scale, self.scale),
        )

    def __call__(self, rows: Floats) -> Floats:
        """rows: (..., n); returns (..., model_dimension). Raises ValueError for a position that a category lacks."""
        flat = np.ascontiguousarray(rows).reshape(-1, self.dimension)
        out = np.zeros((len(flat), self.model_dimension))
        missing = np.isnan(flat)
        self._write_lines(out, flat, missing)
        self._write_categories(out, flat, missing)
        self._write_cycles(out, flat, missing)
        columns, sources = self._indicators
        if len(columns):
            out[:, columns] = missing[:, sources]
        left, right = self._factors
        if len(left):
            first = self._starts[self.dimension]
            out[:, first : self.width] = out[:, left] * out[:, right]
        if self.intercept:
            out[:, -1] = 1.0
        return out.reshape(*rows.shape[:-1], self.model_dimension)

    def _write_lines(self, out: Floats, flat: Floats, missing: NDArray[np.bool_]) -> None:
        columns, sources, center, scale, absent, bound = self._lines
        if not len(center):
            return
        z = np.minimum(np.maximum((flat[:, sources] - center) / scale, -bound), bound)
        out[:, columns] = z = np.where(missing[:, sources], absent, z)
        for place, source, column, basis in self._bases:
            if np.isfinite(scale[place]):
                knots = (np.array(basis.knots) - center[place]) / scale[place]
                made = basis.columns(z[:, place], knots)
                out[:, column : column + basis.width] = np.where(missing[:, source, None], 0.0, made)

    def _write_categories(self, out: Floats, flat: Floats, missing: NDArray[np.bool_]) -> None:
        sources, firsts, lows, highs = self._categories
        if not len(sources):
            return
        absent = missing[:, sources]
        positions = np.where(absent, lows, flat[:, sources])
        if ((positions < lows) | (positions > highs) | (positions != np.floor(positions))).any():
            raise ValueError("a category's position is not one of the campaign's")
        places = firsts + positions.astype(np.intp)
        out[np.arange(len(flat))[:, None], places] = ~absent

    def _write_cycles(self, out: Floats, flat: Floats, missing: NDArray[np.bool_]) -> None:
        for place, feature in self._cycles:
            first = self._starts[place]
            for row, value in enumerate(flat[:, place].tolist()):
                if not missing[row, place]:
                    angle = 2.0 * pi * (value / feature.period)
                    out[row, first], out[row, first + 1] = sin(angle), cos(angle)

    @cached_property
    def _lines(self) -> tuple[Places | slice, Places | slice, Floats, Floats, Floats, Floats]:
        """Of numbers and booleans: first columns, places in a row, centers, scales, z of missing values, largest z."""
        sources = np.array([i for i, one in enumerate(self.features) if one.kind in {"number", "boolean"}], np.intp)
        booleans = np.array([self.features[i].kind == "boolean" for i in sources], dtype=bool)
        starts = np.array([self._starts[i] for i in sources], dtype=np.intp)
        center, scale = self.center[sources], self.scale[sources]
        learned = np.array([self.features[i].is_learned for i in sources], dtype=bool)
        absent, bound = np.where(booleans, 0.5, 0.0), np.where(learned, LEARNED_MAX, np.inf)
        return _as_slice(starts), _as_slice(sources), center, scale, absent, bound

    @cached_property
    def _bases(self) -> list[tuple[int, int, int, Basis]]:
        """Of numbers with a basis: the place among `_lines` and in a row, and the first column of the basis."""
        lines = [i for i, one in enumerate(self.features) if one.kind in {"number", "boolean"}]
        bases = [(place, i, self.features[i].basis) for place, i in enumerate(lines)]
        return [(place, i, self._starts[i] + 1, basis) for place, i, basis in bases if basis is not None]

    @cached_property
    def _categories(self) -> tuple[Places, Places, Floats, Floats]:
        """Of categories: places in a row, the column that position 0 has or would have, least and largest position."""
        found = [(i, one) for i, one in enumerate(self.features) if one.kind == "category"]
        firsts = [self._starts[i] - (not one.has_other) for i, one in found]
        lows, highs = [float(not one.has_other) for _, one in found], [float(one.positions) for _, one in found]
        return np.array([i for i, _ in found], np.intp), np.array(firsts, np.intp), np.array(lows), np.array(highs)

    @cached_property
    def _cycles(self) -> list[tuple[int, Feature]]:
        return [(i, one) for i, one in enumerate(self.features) if one.kind == "cyclic"]

    @cached_property
    def _indicators(self) -> tuple[Places, Places]:
        """Columns, and the places in a row whose missing values they show."""
        sources = [i for i, one in enumerate(self.features) if one.indicator]
        return np.array([self._starts[i + 1] - 1 for i in sources], np.intp), np.array(sources, np.intp)

    @cached_property
    def _factors(self) -> tuple[Places, Places]:
        """The columns whose products the interactions are."""
        left: list[int] = []
        right: list[int] = []
        for one, other in self.interactions:
            for column in range(self._starts[one], self._starts[one + 1]):
                for partner in range(self._starts[other], self._starts[other + 1]):
                    left.append(column)
                    right.append(partner)
        return np.array(left, np.intp), np.array(right, np.intp)

    @cached_property
    def part_names(self) -> list[str]:
        """Of what an estimate is explained by: features, interactions, and the intercept if there is one."""
        names = [feature.name for feature in self.features]
        names += [names[left] + NAMES_JOINED_BY + names[right] for left, right in self.interactions]
        return [*names, "intercept"] if self.intercept else names

    @property
    def part_widths(self) -> list[int]:
        """How many columns each feature and each interaction has."""
        return [end - start for start, end in zip(self._starts, self._starts[1:], strict=False)]

    def parts(self, columns: Floats) -> Floats:
        """Contributions of columns, (K, model_dimension), as those of `part_names`: (K, parts)."""
        starts = self._starts if self.intercept else self._starts[:-1]
        sums: Floats = np.add.reduceat(columns, starts, axis=1)
        return sums

    def column_names(self, category: Callable[[int, int], str]) -> list[str]:
        """Of each column. category: the name of a feature's position, for the features that are categories."""
        own: list[list[str]] = []
        for place, feature in enumerate(self.features):
            own.append(feature.column_names(lambda position, place=place: category(place, position)))  # type: ignore[misc]  # mypy does not see the default
        names = [name for part in own for name in part]
        for left, right in self.interactions:
            names += [one + NAMES_JOINED_BY + other for one in own[left] for other in own[right]]
        return [*names, "intercept"] if self.intercept else names


def _as_slice(places: Places) -> Places | slice:
    """The same places as a slice, which costs less than an array, if they are next to each other."""
    if not len(places) or int(places[-1]) - int(places[0]) != len(places) - 1:
        return places
    return slice(int(places[0]), int(places[-1]) + 1)


def encoder(
    features: Sequence[Feature], interactions: Sequence[tuple[int, int]] = (), *, intercept: bool = True
) -> Encoder:
    """An encoder that has learned nothing."""
    return Encoder(
        tuple(features),
        tuple(interactions),
        intercept,
        np.array([0.0 if one.center is None else one.center for one in features]),
        np.array([np.inf if one.is_learned else one.scale for one in features]),
    )


@dataclass(frozen=True, slots=True)
class FeatureMap:
    """Plain numbers as the application sends them -> features as the model sees them.

    All other schemas have an `Encoder`.

    center, scale: (d,). The model's features are (x - center)/scale, then a constant 1 if ``intercept``.
    """

    center: NDArray[np.float64]
    scale: NDArray[np.float64]
    intercept: bool
    _is_unscaled: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_is_unscaled", not self.center.any() and bool((self.scale == 1.0).all()))

    @property
    def dimension(self) -> int:
        """Dimension of the features as sent."""
        return len(self.center)

    @property
    def model_dimension(self) -> int:
        """Dimension of the features as the model sees them."""
        return len(self.center) + self.intercept

    def __call__(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """features: (..., d); returns (..., d) or (..., d + 1)."""
        scaled = features if self._is_unscaled else (features - self.center) / self.scale
        if not self.intercept:
            return scaled
        mapped = np.empty((*features.shape[:-1], self.model_dimension))
        mapped[..., :-1] = scaled
        mapped[..., -1] = 1.0
        return mapped

    def parts(self, columns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Contributions by feature: every column is one."""
        return columns


def categories_of(feature_map: FeatureMap | Encoder) -> NDArray[np.bool_]:
    """Return which features are categories, (n,)."""
    if isinstance(feature_map, FeatureMap):
        return np.zeros(feature_map.dimension, dtype=bool)
    return np.array([feature.kind == "category" for feature in feature_map.features], dtype=bool)
