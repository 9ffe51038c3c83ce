"""Evaluations of feature flags: a request that knows nothing of the campaign, as the campaign can take it."""

from dataclasses import replace

from sqlalchemy import Connection

from prudent.errors import InvalidCommandError
from prudent.ledger.commands import Evaluate
from prudent.ledger.outcomes import SwitchedOff
from prudent.ledger.state import CampaignState
from prudent.store.campaigns import find_client_side

CLIENT_SIDE_MAX = 100
"""Campaigns that are flags of web pages and apps: each of these evaluates all of them when it starts."""


def check_room(connection: Connection) -> None:
    """Raise InvalidCommandError if there may be no other campaign that is a flag of web pages and apps."""
    if len(find_client_side(connection, CLIENT_SIDE_MAX)) == CLIENT_SIDE_MAX:
        raise InvalidCommandError(
            f"there are {CLIENT_SIDE_MAX} such campaigns already, as many as a page evaluates at once: change one of "
            "them to false first",
            field="client_side",
        )


def fitted(state: CampaignState, request: Evaluate) -> tuple[Evaluate, int]:
    """The request with the campaign's own features only, and how many other attributes its context has.

    Raises InvalidCommandError where a subject is missing.
    """
    if request.subject is None and state.configuration.assignment.sticky_seconds is not None:
        raise InvalidCommandError("required, as a decision of this campaign stands for its subject", field="subject")
    given, names = request.context, state.reader.names_in_context
    if not isinstance(given, dict) or (not names and state.creation.model.type == "disjoint"):
        return request, 0  # of features without names, what is wrong is the select's to say
    known = {name: value for name, value in given.items() if name in names}
    return replace(request, context=known if names else None, is_named=bool(names)), len(given) - len(known)


def switch_off(state: CampaignState) -> SwitchedOff:
    """What a flag is while its campaign is not active: what its holdout gets or, without one, the first arm in use."""
    holdout = state.configuration.holdout
    control = None if holdout is None else state.by_id.get(holdout.arm_id or "")
    in_use = [arm for arm in state.arms if arm.arm_id not in state.inactive] or state.arms
    if not in_use:
        raise InvalidCommandError("the campaign has no registered arms, so its flag has no values", field="arms")
    arm_id = (control or in_use[0]).arm_id
    return SwitchedOff(arm_id, state.values.get(arm_id, arm_id), state.sequence)
