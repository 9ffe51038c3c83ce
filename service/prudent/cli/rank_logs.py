"""A campaign that fits a log of rank requests, as Personalizer's clients send them.

What is learned is what was learned there: a weight for each feature of an action, and for each pair of a feature of the
action and one of the context; a text is a feature of its own for each of its values, and a number counts in proportion.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import sqrt
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from prudent.api.doors.rank_requests import Event, MultiSlotRankRequest, RankRequest, as_id, named_values, of_slot
from prudent.api.problems import describe_validation
from prudent.campaigns.features import ARM, CATEGORY_LENGTH_MAX, CONTEXT
from prudent.campaigns.values import ARMS_MAX, DIMENSION_MAX
from prudent.cli.console import fail, inform
from prudent.errors import InvalidCommandError

CATEGORIES_MAX = 50
"""Of a feature with texts; the most frequent are listed, and all others are one together."""
LOOP = {"minimum": -1, "maximum": 1, "timeout_seconds": 600, "default": 0}
"""Rewards of a learning loop whose settings were never changed."""
Row = dict[str, Any]
Values = Mapping[str, Any]


def fitting_campaign(path: Path, rows: Iterable[tuple[int, Row]]) -> Row:
    """The body of `POST /campaigns`, without its id. rows: with their lines. Ends the program for a wrong request."""
    contexts: list[Values] = []
    actions: list[Values] = []
    names: dict[str, str] = {}
    for line, row in rows:
        kind = MultiSlotRankRequest if "slots" in row else RankRequest
        try:
            event = kind.model_validate(row)
            contexts += _contexts_of(event)
            for action in event.actions:
                actions.append(named_values(action.features, "features"))
                names[as_id(action.id)] = action.id
        except ValidationError as error:
            fail(f"{path}: line {line}: {describe_validation(error)['detail']}")
        except InvalidCommandError as error:
            fail(f"{path}: line {line}: {error.field}: {error.message}")
    context, arm = describe(contexts, "context"), describe(actions, "actions")
    model = _model(arm, context)
    if len(names) > ARMS_MAX:
        inform(f"{len(names)} actions: none is registered, so none has a warm-up, and reports have them together")
        names = {}
    arms = [
        {"arm_id": arm_id} if arm_id == name else {"arm_id": arm_id, "value": name} for arm_id, name in names.items()
    ]
    return {"risk": {"measure": "mean"}, "model": model, "arms": arms, "reward": LOOP}


def _contexts_of(event: Event) -> Iterator[Values]:
    shared = named_values(event.context_features or (), "contextFeatures")
    if not isinstance(event, MultiSlotRankRequest):
        yield shared
        return
    for slot in event.slots:
        yield shared | of_slot(named_values(slot.features or (), "slots.features"))


def describe(rows: Sequence[Values], where: str) -> list[Row]:
    """The features that these rows have. where: to say which one is left out."""
    described = []
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row[name] for row in rows if name in row]
        feature = _describe(values, len(rows))
        if isinstance(feature, str):
            inform(f"{name} ({where}): left out, because it has {feature}")
        else:
            described.append({"name": name} | feature)
    return described


def _describe(values: Sequence[Any], rows: int) -> Row | str:
    """A feature with these values, which is absent in other rows; or why it is none."""
    kinds = {type(value) for value in values}
    if kinds == {bool}:
        return {"kind": "boolean"}
    if kinds <= {int, float}:
        size = sqrt(sum(value * value for value in values) / len(values))
        return {"kind": "number", "center": 0, "scale": float(f"{size:.3g}") or 1.0, "missing": "center"}
    if kinds != {str}:
        return "values of several kinds"
    texts = Counter(values)
    if any(not 1 <= len(text) <= CATEGORY_LENGTH_MAX or any(ord(one) < 32 for one in text) for text in texts):
        return f"texts that are empty, longer than {CATEGORY_LENGTH_MAX} characters, or have control characters"
    if len(texts) > CATEGORIES_MAX and len(texts) > rows / 2:
        return "a text of its own in nearly every request"
    found = [text for text, _ in texts.most_common(CATEGORIES_MAX)]
    return {"kind": "category", "categories": found, "missing": "center"}


def _model(arm: list[Row], context: list[Row]) -> Row:
    """Weights for features of actions and for their pairs with the context's; for each action, if they have none."""
    if not arm:
        return {"type": "disjoint", "features": context} if context else {"type": "multi-armed"}
    widths = {f"{ARM}{one['name']}": _width(one) for one in arm}
    widths |= {f"{CONTEXT}{one['name']}": _width(one) for one in context}
    pairs = {
        (outer, inner): widths[outer] * widths[inner]
        for outer in (f"{CONTEXT}{one['name']}" for one in context)
        for inner in (f"{ARM}{one['name']}" for one in arm)
    }
    while sum(widths.values()) + sum(pairs.values()) > DIMENSION_MAX and pairs:
        widest = max(pairs, key=pairs.__getitem__)
        inform(f"{' x '.join(widest)}: left out, because a model has at most {DIMENSION_MAX} columns")
        del pairs[widest]
        if not any(outer == widest[0] for outer, _ in pairs):
            inform(f"{widest[0]}: left out, because what it is not crossed with it cannot change")
            del widths[widest[0]]
    model: Row = {"type": "shared", "features": arm}
    if pairs:
        kept = [one for one in context if f"{CONTEXT}{one['name']}" in widths]
        model |= {"context_features": kept, "interactions": [list(pair) for pair in pairs]}
    return model


def _width(feature: Row) -> int:
    """How many columns it has: one for all other texts, too."""
    return len(feature["categories"]) + 1 if feature["kind"] == "category" else 1
