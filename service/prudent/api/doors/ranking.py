"""A rank request as a select, and a decision as a ranking."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Literal, NamedTuple

from prudent.api.doors.rank_requests import Event, MultiSlotRankRequest, as_id, named_values
from prudent.campaigns import stored
from prudent.errors import InvalidCommandError
from prudent.ledger.commands import Select
from prudent.ledger.outcomes import Decision

Kinds = Mapping[str, str]
"""Of features, by their names."""


class Shape(NamedTuple):
    """What requests to a campaign hold: features of an arm, and of the context. None where they have no names."""

    model: Literal["shared", "disjoint", "multi-armed"]
    arm: Kinds | None
    context: Kinds | None


class Loop(NamedTuple):
    """A campaign as rank requests meet it. statuses: of its arms, where only these can be chosen."""

    campaign_id: str
    shape: Shape
    statuses: Mapping[str, str]


def shape_of(creation: str) -> Shape:
    """The shape of a campaign, which cannot change. creation: its configuration, as it is stored."""
    model = stored(creation).model
    if model.type == "multi-armed":
        return Shape(model.type, {}, {})
    named = None if model.features is None else {one.name: one.kind for one in model.features}
    if model.type == "disjoint":
        return Shape(model.type, {}, named)
    return Shape(model.type, named, {one.name: one.kind for one in model.context_features or ()})


def select_of(
    loop: Loop,
    event: Event,
    context: Mapping[str, Any],
    *,
    decision_id: str,
    exclude: frozenset[str],
    explain: bool = False,
) -> tuple[Select, int]:
    """An event as a command, and how many of its values are of no feature that the campaign has.

    context: values by name; exclude: arms. Raises InvalidCommandError.
    """
    ids, shape = list(event.names), loop.shape
    known, ignored = _fit(context, shape.context)
    eligible, arms = None, None
    if shape.model == "shared":
        arms = []
        for place, (arm_id, action) in enumerate(zip(ids, event.actions, strict=True)):
            features, unknown = _fit(named_values(action.features, f"actions.{place}.features"), shape.arm)
            # where features have no names, an action without any is meant with those that its arm was registered with
            arms.append((arm_id, features if features or shape.arm is not None else None))
            ignored += unknown
    else:
        _check_arms(loop, ids)
        eligible = frozenset(arm_id for arm_id in ids if loop.statuses[arm_id] == "active")
    command = Select(
        loop.campaign_id,
        decision_id,
        arms=arms,
        context=None if shape.context == {} else known,
        eligible=eligible,
        exclude=exclude,
        explain=explain,
        is_named=True,
        is_deferred=event.defer_activation or False,
    )
    return command, ignored


def _fit(values: Mapping[str, Any], known: Kinds | None) -> tuple[dict[str, Any], int]:
    """The values of known features, a boolean that is absent as false; and how many others there are."""
    if known is None:
        return dict(islice(values.items(), 1)), 0  # it refuses whatever has a name
    kept = {name: value for name, value in values.items() if name in known}
    absent = {name: False for name, kind in known.items() if kind == "boolean" and name not in kept}
    return kept | absent, len(values) - len(kept)


def _check_arms(loop: Loop, ids: Sequence[str]) -> None:
    for place, arm_id in enumerate(ids):
        if arm_id not in loop.statuses:
            raise InvalidCommandError(
                f"the campaign has no arm for this action, and its model is {loop.shape.model}: add the arm, or use a "
                "campaign with a shared model, which takes any action with its features",
                field=f"actions.{place}.id",
            )


def ranking_of(event: Event, decision: Decision) -> list[dict[str, Any]]:
    """All actions, the chosen one first, then from the best to the worst. What was excluded keeps its place."""
    scored = sorted(decision.arms or (), key=lambda arm: arm.arm_id != decision.row.arm_id)
    ranking = [{"id": event.name_of(arm.arm_id), "probability": arm.propensity} for arm in scored]
    could_be_chosen = {arm.arm_id for arm in scored}
    for place, (arm_id, name) in enumerate(event.names.items()):
        if arm_id not in could_be_chosen:
            ranking.insert(place, {"id": name, "probability": 0.0})
    return ranking


def allowed_in(asked: MultiSlotRankRequest) -> dict[str, set[str]]:
    """The arms that each slot may have. Raises InvalidCommandError where its baseline is not one of its own."""
    actions = set(asked.names)
    allowed: dict[str, set[str]] = {}
    baselines: set[str] = set()
    for place, slot in enumerate(asked.slots):
        own = actions - set(map(as_id, slot.excluded_actions or ()))
        baseline = as_id(slot.baseline_action)
        if slot.id in allowed:
            raise InvalidCommandError("comes twice: each slot has an id of its own", field=f"slots.{place}.id")
        if baseline not in own or baseline in baselines:
            raise InvalidCommandError(
                "must be one of the actions, not excluded from this slot, and no other slot's baseline",
                field=f"slots.{place}.baselineAction",
            )
        allowed[slot.id] = own
        baselines.add(baseline)
    return allowed
