"""What Personalizer's clients send: bodies, features of any shape, and names and ids of any text.

Names become ids by escaping: every byte of UTF-8 that is no letter, digit, `.`, `_` or `-` is `~` and two hexadecimal
digits. So `ice cream` is the arm `ice~20cream`, and no name has to be stored to be found again. What would be longer
than an id may be ends in `~-` and a digest.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from functools import cached_property
from hashlib import blake2b
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

from prudent.campaigns.values import ARMS_MAX, REWARD_MAX, WITHOUT_CONTROLS_PATTERN
from prudent.errors import InvalidCommandError

SLOTS_MAX = 50
ID_LENGTH_MAX, EVENT_LENGTH_MAX, SLOT_LENGTH_MAX = 128, 80, 46
"""Of an id, of the part of one that stands for an event, and of the part that stands for a slot of it."""
OF_EVENT, OF_SLOT = "~~", "~_"
"""What precedes these parts; no escaped name has either in it."""
_TO_ESCAPE, _ESCAPED = re.compile(rb"[^A-Za-z0-9._-]"), re.compile(rb"~([0-9A-F]{2})")
_HALF_ESCAPED = re.compile(r"~[0-9A-F]?$")
_DIGEST_BYTES = 16
NAMES_LENGTH_MAX = 2**20
"""Of all names that an event's or an action's features have: each is as long as those of all objects around it."""


class Theirs(BaseModel):
    """Base of their bodies. Fields that are not read here are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, allow_inf_nan=False, alias_generator=to_camel)


Name = Annotated[str, StringConstraints(min_length=1, max_length=256, pattern=WITHOUT_CONTROLS_PATTERN)]
FeatureObjects = Annotated[list[dict[str, Any]], Field(fail_fast=True)]
Names = Annotated[list[str], Field(max_length=ARMS_MAX, fail_fast=True)]
Value = Annotated[float, Field(ge=-REWARD_MAX, le=REWARD_MAX)]


class Action(Theirs):
    """An action that may be chosen."""

    id: Name
    features: FeatureObjects = []


class Event(Theirs):
    """What requests for one slot and for several have in common."""

    context_features: FeatureObjects | None = None
    actions: Annotated[list[Action], Field(min_length=1, max_length=ARMS_MAX, fail_fast=True)]
    event_id: Name | None = None
    defer_activation: bool | None = None

    @cached_property
    def names(self) -> dict[str, str]:
        """The action that each arm stands for, in order. Raises InvalidCommandError for one that comes twice."""
        names: dict[str, str] = {}
        for place, action in enumerate(self.actions):
            arm_id = as_id(action.id)
            if arm_id in names:
                raise InvalidCommandError("comes twice: each action has an id of its own", field=f"actions.{place}.id")
            names[arm_id] = action.id
        return names

    def name_of(self, arm_id: str) -> str:
        """The action that an arm stands for, or stood for in an earlier request for this event."""
        return self.names.get(arm_id) or as_name(arm_id)


class RankRequest(Event):
    """One action is to be chosen."""

    excluded_actions: Names | None = None

    def excluded_ids(self) -> frozenset[str]:
        """The arms that may not be chosen, of those of the actions."""
        return frozenset(map(as_id, self.excluded_actions or ())).intersection(self.names)


class Slot(Theirs):
    """A place for which an action is to be chosen. baseline_action: what it has if nothing is left to choose."""

    id: Name
    features: FeatureObjects | None = None
    excluded_actions: Names | None = None
    baseline_action: Name


class MultiSlotRankRequest(Event):
    """Each slot is to have an action of its own."""

    slots: Annotated[list[Slot], Field(min_length=1, max_length=SLOTS_MAX, fail_fast=True)]


class RewardRequest(Theirs):
    """The reward of an event."""

    value: Value


class SlotReward(Theirs):
    """The reward of a slot."""

    slot_id: Name
    value: Value


class MultiSlotRewardRequest(Theirs):
    """The rewards of an event's slots."""

    reward: Annotated[list[SlotReward], Field(min_length=1, max_length=SLOTS_MAX, fail_fast=True)]


class ServiceConfiguration(Theirs):
    """The part of a loop's configuration that means something here."""

    exploration_percentage: Annotated[float, Field(ge=0, le=1)]
    reward_wait_time: timedelta | None = None
    default_reward: float | None = None
    reward_aggregation: str | None = None
    learning_mode: str | None = None


def as_id(name: str) -> str:
    """The id of the arm that stands for an action of this name."""
    return _shortened(_escape(name), ID_LENGTH_MAX)


def as_name(arm_id: str) -> str:
    """The name of which `as_id` made an id, unless it was too long; an arm's own id otherwise."""
    text = _ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()), arm_id.encode())
    return text.decode(errors="replace")


def event_id_of(campaign_id: str, event_id: str) -> str:
    """The id of the decision that stands for an event. There, ids are those of one loop; here, of the whole service."""
    return _shortened(f"{campaign_id}{OF_EVENT}{_escape(event_id)}", EVENT_LENGTH_MAX)


def slot_id_of(campaign_id: str, event_id: str, slot_id: str) -> str:
    """The id of the decision that stands for a slot of an event."""
    return f"{event_id_of(campaign_id, event_id)}{OF_SLOT}{_shortened(_escape(slot_id), SLOT_LENGTH_MAX)}"


def _escape(name: str) -> str:
    escaped = _TO_ESCAPE.sub(lambda found: b"~%02X" % found[0][0], name.encode()).decode()
    return escaped.replace(".", "~2E") if escaped in {".", ".."} else escaped


def _shortened(text: str, length_max: int) -> str:
    if len(text) <= length_max:
        return text
    digest = blake2b(text.encode(), digest_size=_DIGEST_BYTES).hexdigest()
    kept = _HALF_ESCAPED.sub("", text[: length_max - len(digest) - 2])
    return f"{kept}~-{digest}"


def of_slot(features: Mapping[str, Any]) -> dict[str, Any]:
    """A slot's features under the names that they have beside those of the context."""
    return {f"slot.{name}": value for name, value in features.items()}


def named_values(objects: Iterable[Mapping[str, Any]], field: str) -> dict[str, Any]:
    """Their features as values by name: {"user": {"age": 30}} has `user.age`, and an array its places as names.

    What is false or null is absent, and names that begin with `_` are ignored, as there. field: of the request.
    Raises InvalidCommandError if a name has two values, and for too many and long names.
    """
    values: dict[str, Any] = {}
    length = 0
    for one in objects:
        for name, value in _flat(one, ""):
            length += len(name)
            if length > NAMES_LENGTH_MAX:
                raise InvalidCommandError("has too many values below long names", field=field)
            if values.setdefault(name, value) != value:
                raise InvalidCommandError("has two values under one name", field=field)
    return values


def _flat(one: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in one.items():
        if name.startswith("_"):
            continue
        inner = {str(place): item for place, item in enumerate(value)} if isinstance(value, list) else value
        if isinstance(inner, dict):
            yield from _flat(inner, f"{prefix}{name}.")
        elif inner is not None and inner is not False:
            yield prefix + name, inner
