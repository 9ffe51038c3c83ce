"""The named features of a campaign: as requested, checked, with defaults filled in, and as the core encodes them."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, StringConstraints, Tag

from prudent.campaigns.values import DIMENSION_MAX, InvalidConfigurationError, Schema
from prudent.core.encoding import Basis, Encoder, Feature, encoder
from prudent.spelling import hint

NUMBER_MAX = 1e15
"""Largest size of a number whose center or scale is learned, of a center, and of a knot."""
SCALED_MAX = 1e6
"""Largest size of a number after centring and scaling, where both are given."""
CATEGORY_LENGTH_MAX = 128
KNOTS_MAX = 50
CONTEXT, ARM = "context.", "arm."
"""What may precede a name in an interaction of a shared model that has features of the request as well."""
_SHOWN_TERMS = 12

FeatureName = Annotated[str, StringConstraints(min_length=1, max_length=128)]
Number = Annotated[float, Field(ge=-NUMBER_MAX, le=NUMBER_MAX)]
Missing = Annotated[
    Literal["error", "center", "indicator"],
    Field(description="What a value that is not sent means: a 422, the center, or the center and a column of its own."),
]


def _is_text(value: str) -> str:
    if any(ord(character) < 32 for character in value):
        raise ValueError("must not contain control characters")
    return value


CategoryValue = Annotated[
    str, StringConstraints(min_length=1, max_length=CATEGORY_LENGTH_MAX), AfterValidator(_is_text)
]


class SplineBasis(Schema):
    """A natural cubic spline: a line outside of the outer knots."""

    type: Literal["spline"]
    knots: Annotated[list[Number], Field(min_length=3, max_length=KNOTS_MAX, description="In the feature's unit.")]


class LinearBasis(Schema):
    """A piecewise linear function, with a bend at each knot."""

    type: Literal["piecewise-linear"]
    knots: Annotated[list[Number], Field(min_length=1, max_length=KNOTS_MAX, description="In the feature's unit.")]


class NumberFeature(Schema):
    """A number. The model sees (value - center) / scale."""

    name: FeatureName
    kind: Literal["number"] = "number"
    center: Annotated[
        Number | Literal["learned"] | None,
        Field(description="learned: the median of the first observations. Default: learned if scale is, otherwise 0."),
    ] = None
    scale: Annotated[
        Annotated[float, Field(ge=1e-12, le=NUMBER_MAX)] | Literal["learned"] | None,
        Field(
            description="learned: the spread of the first observations. Default: learned where neither it nor center "
            "is given and noise_scale is null, otherwise 1."
        ),
    ] = None
    missing: Missing = "error"
    basis: Annotated[
        SplineBasis | LinearBasis | None,
        Field(description="For an effect that is not a line, such as one that rises and falls.", discriminator="type"),
    ] = None


class BooleanFeature(Schema):
    """true or false."""

    name: FeatureName
    kind: Literal["boolean"]
    missing: Missing = "error"


class CategoryFeature(Schema):
    """One of some texts."""

    name: FeatureName
    kind: Literal["category"]
    categories: Annotated[
        list[CategoryValue], Field(max_length=DIMENSION_MAX, description="Known from the start.")
    ] = []
    capacity: Annotated[
        Annotated[int, Field(ge=1, le=DIMENSION_MAX)] | None,
        Field(description="How many it may have; those beyond categories are learned in order of first appearance."),
    ] = None
    unknown: Annotated[
        Literal["other", "error"],
        Field(description="What another text means, once there is no room to learn it: a column of its own, or a 422."),
    ] = "other"
    missing: Missing = "error"

    @property
    def positions(self) -> int:
        """How many categories it can have."""
        return len(self.categories) if self.capacity is None else self.capacity


class CyclicFeature(Schema):
    """A point of a cycle, such as the hour of a day with a period of 24: the end is next to the start."""

    name: FeatureName
    kind: Literal["cyclic"]
    period: Annotated[float, Field(ge=1e-12, le=NUMBER_MAX)]
    missing: Missing = "error"


def _kind_of(value: Any) -> Any:
    """The tag of a union member: number where no kind is given."""
    return value.get("kind", "number") if isinstance(value, dict) else getattr(value, "kind", None)


FeatureDescription = Annotated[
    Annotated[NumberFeature, Tag("number")]
    | Annotated[BooleanFeature, Tag("boolean")]
    | Annotated[CategoryFeature, Tag("category")]
    | Annotated[CyclicFeature, Tag("cyclic")],
    Discriminator(
        _kind_of,
        custom_error_type="feature_kind",
        custom_error_message="must be an object with a name and a kind: number, boolean, category or cyclic",
    ),
]
KINDS = frozenset({"number", "boolean", "category", "cyclic"})
Features = NumberFeature | BooleanFeature | CategoryFeature | CyclicFeature
FeatureDescriptions = Annotated[list[FeatureDescription], Field(min_length=1, max_length=DIMENSION_MAX)]
Interactions = Annotated[
    list[Annotated[list[FeatureName], Field(min_length=2, max_length=2)]],
    Field(max_length=DIMENSION_MAX, description="Pairs of names: products of all columns of both."),
]


def is_plain(features: Sequence[Features] | None) -> bool:
    """Whether an array says the same as an object: all are numbers that have to be sent."""
    return features is None or all(one.kind == "number" and one.missing == "error" for one in features)


def with_defaults(features: Sequence[Features], *, learned: bool) -> list[Features]:
    """The features with every center and scale filled in. learned: whether that is the default."""
    return [_number_with_defaults(one, learned) if isinstance(one, NumberFeature) else one for one in features]


def _number_with_defaults(feature: NumberFeature, learned: bool) -> NumberFeature:
    center, scale = feature.center, feature.scale
    if center is None and scale is None:
        center, scale = ("learned", "learned") if learned else (0.0, 1.0)
    if scale is None:
        scale = "learned" if center == "learned" else 1.0
    if center is None:
        center = "learned" if scale == "learned" else 0.0
    return feature.model_copy(update={"center": center, "scale": scale})


def check_features(features: Sequence[Features], field: str) -> None:
    """Raise InvalidConfigurationError for features that make no sense."""
    seen: set[str] = set()
    for place, one in enumerate(features):
        if one.name in seen:
            raise InvalidConfigurationError(field, "feature names must be unique")
        seen.add(one.name)
        if "\x00" in one.name:  # the database has it beside each category that is learned
            raise InvalidConfigurationError(f"{field}.{place}.name", "must not contain NUL")
        if isinstance(one, NumberFeature) and one.basis is not None:
            knots = one.basis.knots
            if any(low >= high for low, high in pairwise(knots)):
                raise InvalidConfigurationError(f"{field}.{place}.basis.knots", "must increase from each to the next")
        if isinstance(one, CategoryFeature):
            _check_category(one, f"{field}.{place}")


def _check_category(feature: CategoryFeature, field: str) -> None:
    if len(set(feature.categories)) != len(feature.categories):
        raise InvalidConfigurationError(f"{field}.categories", "categories must be unique")
    if not feature.positions:
        raise InvalidConfigurationError(
            field, "a category needs categories, a list of texts, or capacity, the number of texts to learn"
        )
    if feature.positions < len(feature.categories):
        raise InvalidConfigurationError(
            f"{field}.capacity",
            f"must be at least {len(feature.categories)}, the number of its categories, not {feature.positions}",
        )


def places_of(
    interactions: Sequence[Sequence[str]], arm: Sequence[Features], context: Sequence[Features], field: str
) -> list[tuple[int, int]]:
    """The interactions as pairs of places in a row: features first, those of the request after them.

    arm: the features of an arm, or of the only kind that there is; context: those of a request in a shared model.
    Raises InvalidConfigurationError for names that do not exist, and for a pair that is listed twice.
    """
    places = {one.name: place for place, one in enumerate(arm)}
    if context:
        places = {f"{ARM}{name}": place for name, place in places.items()}
        places |= {f"{CONTEXT}{one.name}": len(arm) + place for place, one in enumerate(context)}
    pairs: list[tuple[int, int]] = []
    for order, (left, right) in enumerate(interactions):
        for name in (left, right):
            if name not in places:
                raise InvalidConfigurationError(
                    f"{field}.{order}", f"{name!r} is unknown: {hint(name, places, 'features')}"
                )
        pair = places[left], places[right]
        if pair[0] == pair[1]:
            raise InvalidConfigurationError(f"{field}.{order}", "must name two different features")
        if pair in pairs or pair[::-1] in pairs:
            raise InvalidConfigurationError(f"{field}.{order}", "is listed twice")
        pairs.append(pair)
    used = {place for pair in pairs for place in pair}
    for place, one in enumerate(context):
        if len(arm) + place not in used:
            raise InvalidConfigurationError(
                f"model.context_features.{place}",
                f"{one.name}: a context feature without an interaction cannot change a choice; list it in "
                f'interactions, for example ["{CONTEXT}{one.name}", "{ARM}{arm[0].name if arm else "name"}"]',
            )
    return pairs


def encode(
    arm: Sequence[Features], context: Sequence[Features], pairs: Sequence[tuple[int, int]], *, intercept: bool
) -> Encoder:
    """How the core sees these features, the context's after the arm's."""
    features = [_encoded(one, one.name) for one in arm] + [_encoded(one, CONTEXT + one.name) for one in context]
    return encoder(features, pairs, intercept=intercept)


def _encoded(one: Features, name: str) -> Feature:
    indicator = one.missing == "indicator"
    if isinstance(one, NumberFeature):
        basis = None if one.basis is None else Basis(one.basis.type, tuple(one.basis.knots))
        center = None if isinstance(one.center, str) else one.center or 0.0
        scale = None if isinstance(one.scale, str) else one.scale or 1.0
        return Feature(name, "number", center, scale, basis=basis, indicator=indicator)
    if isinstance(one, CategoryFeature):
        # where another text is an error, there is no other
        has_other = one.unknown == "other"
        return Feature(name, "category", positions=one.positions, has_other=has_other, indicator=indicator)
    if isinstance(one, CyclicFeature):
        return Feature(name, "cyclic", period=one.period, indicator=indicator)
    return Feature(name, "boolean", indicator=indicator)


def check_width(encoded: Encoder, dimension: int | None, field: str) -> None:
    """Raise InvalidConfigurationError, with the sum in words, for too many columns or another number of them."""
    if encoded.width > DIMENSION_MAX:
        raise InvalidConfigurationError(field, f"too many columns: {_sum(encoded)}, at most {DIMENSION_MAX}")
    if dimension is not None and dimension != encoded.width:
        raise InvalidConfigurationError(
            "model.dimension", f"must be left out or be the number of columns: {_sum(encoded)}, not {dimension}"
        )


def _sum(encoded: Encoder) -> str:
    names, widths = encoded.part_names, encoded.part_widths
    terms = [f"{name} {width}" for name, width in zip(names, widths, strict=False)]
    shown = terms if len(terms) <= _SHOWN_TERMS else [*terms[:_SHOWN_TERMS], "..."]
    return f"{' + '.join(shown)} = {encoded.width}"
