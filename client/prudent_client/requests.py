"""Requests to the service. Features are values by name (a mapping, a row of pandas), or lists of numbers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import copysign, isinf
from numbers import Real
from sys import float_info
from typing import Any, Literal, TypeVar

from prudent_client.identifiers import new_id

JsonObject = dict[str, Any]
Features = Mapping[str, Any] | Sequence[float] | Any
"""Values by name, or numbers; `Any`, because a NumPy array is not a Sequence, and a row of pandas not a Mapping."""


def as_sent(features: Features) -> JsonObject | list[float]:
    """Features as they are sent. A missing value of pandas, and NaN among values by name, become null.

    An infinite value becomes the largest number, which the service refuses as it refuses any that is too large: null
    would be a missing value.
    """
    if not isinstance(features, Mapping) and hasattr(features, "to_dict"):
        features = features.to_dict()
    if isinstance(features, Mapping):
        return {str(name): _value(value) for name, value in features.items()}
    return [float(value) for value in features]


def _value(value: Any) -> Any:
    if _is_missing(value):
        return None
    return copysign(float_info.max, value) if isinstance(value, Real) and isinf(value) else value


def _is_missing(value: object) -> bool:
    """Whether it is NaN, or what pandas has for it in columns that are no numbers."""
    return type(value).__name__ in {"NAType", "NaTType"} or (isinstance(value, float) and value != value)


def _without_absent(body: Mapping[str, Any]) -> JsonObject:
    return {name: value for name, value in body.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Select:
    """A decision to make.

    arms: features by arm id, None for those registered with an arm; absent for all registered arms. context: for
    a disjoint model, or a shared one with context_features. eligible, exclude: which arms to choose among. explore:
    False for the best estimate. explain: True for every candidate's scores. chosen_arm_id: the arm that the application
    has already chosen. subject: whom or what the decision is for; the first one for it stands for as long as the
    campaign's assignment says. activation: "deferred" for a decision that may never be shown: it counts once it is
    activated or rewarded. decision_id: generated if both are absent, so that the request can be retried safely.
    """

    campaign_id: str
    arms: Mapping[str, Features | None] | None = None
    context: Features | None = None
    eligible: Iterable[str] | None = None
    exclude: Iterable[str] = ()
    explore: bool = True
    explain: bool = False
    chosen_arm_id: str | None = None
    subject: str | None = None
    activation: Literal["immediate", "deferred"] = "immediate"
    decision_id: str | None = None

    def __post_init__(self) -> None:
        if self.decision_id is None and self.subject is None:
            object.__setattr__(self, "decision_id", new_id())

    def body(self) -> JsonObject:
        """As it is sent."""
        arms = None
        if self.arms is not None:
            arms = [
                {"arm_id": name} if features is None else {"arm_id": name, "features": as_sent(features)}
                for name, features in self.arms.items()
            ]
        return _without_absent(
            {
                "campaign_id": self.campaign_id,
                "decision_id": self.decision_id,
                "subject": self.subject,
                "activation": None if self.activation == "immediate" else self.activation,
                "arms": arms,
                "context": None if self.context is None else as_sent(self.context),
                "eligible": None if self.eligible is None else list(self.eligible),
                "exclude": list(self.exclude) or None,
                "explore": None if self.explore else False,
                "explain": True if self.explain else None,
                "chosen_arm_id": self.chosen_arm_id,
            }
        )


@dataclass(frozen=True)
class Reward:
    """The outcome of a decision; larger is better. arm_id: the arm that was actually used, if another.

    decision_id: None where campaign_id and subject say which decision; it needs a campaign_id beside it where several
    campaigns have used it.
    """

    decision_id: str | None
    reward: float
    arm_id: str | None = None
    campaign_id: str | None = None
    subject: str | None = None

    def body(self) -> JsonObject:
        """As it is sent."""
        return _without_absent(
            {
                "decision_id": self.decision_id,
                "campaign_id": self.campaign_id,
                "subject": self.subject,
                "reward": float(self.reward),
                "arm_id": self.arm_id,
            }
        )


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something that a subject did, or that happened to it: a reward in the campaigns that name it.

    event: its name; value: what the reward is made of; at: RFC 3339 with an offset, when it happened. event_id:
    generated if absent, so that the request can be retried safely.
    """

    event: str
    subject: str
    value: float | None = None
    at: str | None = None
    event_id: str = field(default_factory=new_id)

    def body(self) -> JsonObject:
        """As it is sent."""
        return _without_absent(
            {
                "event_id": self.event_id,
                "event": self.event,
                "subject": self.subject,
                "value": None if self.value is None else float(self.value),
                "at": self.at,
            }
        )


@dataclass(frozen=True, kw_only=True)
class Observation:
    """An observation made elsewhere. observation_id: generated if absent, so that the request can be retried safely.

    observed_at: RFC 3339 with an offset; propensity: the probability with which the arm was chosen.
    """

    arm_id: str
    reward: float
    features: Features | None = None
    context: Features | None = None
    observed_at: str | None = None
    propensity: float | None = None
    observation_id: str = field(default_factory=new_id)

    def body(self) -> JsonObject:
        """As it is sent."""
        return _without_absent(
            {
                "observation_id": self.observation_id,
                "arm_id": self.arm_id,
                "reward": float(self.reward),
                "features": None if self.features is None else as_sent(self.features),
                "context": None if self.context is None else as_sent(self.context),
                "observed_at": self.observed_at,
                "propensity": self.propensity,
            }
        )


RequestT = TypeVar("RequestT", Select, Reward, Event, Observation)


def requests_of(kind: type[RequestT], given: Iterable[RequestT | Mapping[str, Any]]) -> list[RequestT]:
    """Requests of this kind, each given as one or as a mapping of its arguments. Raises TypeError for wrong ones."""
    return [kind(**one) if isinstance(one, Mapping) else one for one in given]
