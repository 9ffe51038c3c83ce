"""What an event of an application is worth as a reward."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from prudent.campaigns.values import REWARD_MAX, RewardValue, Schema, StoredText
from prudent.errors import InvalidCommandError

STEPS_PATTERN = r"^[^.]+(\.[^.]+)*$"
NAME_MAX = 200
EVENTS_MAX = 100
EventName = Annotated[StoredText, StringConstraints(min_length=1, max_length=NAME_MAX)]


class EventRule(Schema):
    """Needs one of value and constant."""

    value: Annotated[
        str | None,
        StringConstraints(pattern=STEPS_PATTERN, max_length=NAME_MAX),
        Field(description="Where the reward is in an event that another system sends, such as properties.revenue."),
    ] = None
    scale: Annotated[
        float, Field(ge=-1e9, le=1e9, description="The reward is this times the value, also of an event's own value.")
    ] = 1.0
    constant: Annotated[RewardValue | None, Field(description="The reward, whatever the event says.")] = None

    def reward_of(self, value: float | None, body: Mapping[str, Any] | None) -> float:
        """The reward. value: of a native event; body: of one of another system. Raises InvalidCommandError."""
        if self.constant is not None:
            return self.constant
        path = "value" if body is None or self.value is None else self.value
        found = value if body is None else _at(body, path)
        if isinstance(found, bool) or not isinstance(found, int | float):
            raise InvalidCommandError("must be a number: the campaign's reward is made of it", field=path)
        reward = self.scale * found
        if not -REWARD_MAX <= reward <= REWARD_MAX:
            raise InvalidCommandError(f"gives a reward beyond {REWARD_MAX:g}", field=path)
        return float(reward)


def _at(body: Mapping[str, Any], path: str) -> Any:
    found: Any = body
    for step in path.split("."):
        found = found.get(step) if isinstance(found, dict) else None
    return found
