"""The provider with OpenFeature's own SDK, unmodified, against the service."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from openfeature import api
from openfeature.client import OpenFeatureClient
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.flag_evaluation import FlagEvaluationDetails, Reason
from openfeature.track import TrackingEventDetails

from prudent_client import Client, new_id
from prudent_client.openfeature import PrudentProvider
from tests.client.test_defaults import say_nothing, serving

STICKY = {"sticky_seconds": 366 * 86_400}


@pytest.fixture
def service(server_url: str) -> Iterator[Client]:
    with Client(server_url, deadline_seconds=60.0) as client:
        yield client


@pytest.fixture
def flags(service: Client) -> Iterator[OpenFeatureClient]:
    """The SDK's client, as an application has it."""
    api.set_provider(PrudentProvider(service))
    yield api.get_client()
    api.shutdown()


def create(service: Client, value: Any = None, **changes: Any) -> str:
    """A campaign with one arm of this value, of which the evaluation is sure."""
    name = new_id()
    arms = [{"arm_id": "only", "value": value}]
    body = {"campaign_id": name, "risk": {"measure": "mean"}, "model": {"type": "multi-armed"}, "arms": arms}
    service.create_campaign(body | {"assignment": STICKY} | changes)  # type: ignore[arg-type, operator]
    return name


def evaluate(
    flags: OpenFeatureClient, kind: str, key: str, default: Any, user: str = "u"
) -> FlagEvaluationDetails[Any]:
    details: FlagEvaluationDetails[Any] = getattr(flags, f"get_{kind}_details")(key, default, EvaluationContext("u"))
    return details


@pytest.mark.parametrize(
    ("kind", "value", "default"),
    [
        ("boolean", True, False),
        ("string", "blue", "red"),
        ("integer", 3, 0),
        ("float", 1.5, 0.0),
        ("float", 2.0, 0.0),
        ("object", {"colour": "blue", "sizes": [1, 2]}, {}),
        ("object", [1, 2], []),
    ],
)
def test_values_of_every_type(service: Client, flags: OpenFeatureClient, kind: str, value: Any, default: Any) -> None:
    """A flag would have its default for ever, and its campaign no decisions."""
    key = create(service, value)
    details = evaluate(flags, kind, key, default)
    assert (details.value, details.variant, details.reason, details.error_code) == (value, "only", Reason.STATIC, None)
    assert service.get_decision(str(details.flag_metadata["decisionId"])).arm_id == "only"
    asynchronous = getattr(flags, f"get_{kind}_value_async")(key, default, EvaluationContext("u"))
    assert asyncio.run(asynchronous) == value


def test_an_event_rewards_the_flags_decision(service: Client, flags: OpenFeatureClient) -> None:
    """The providers of others drop what is tracked without a word."""
    event = new_id()
    arms = [{"arm_id": "a", "value": "x"}, {"arm_id": "b", "value": "y"}]
    key = create(service, arms=arms, reward={"events": {event: {"value": "revenue", "scale": 0.5}}})
    context = EvaluationContext("buyer", {"country": "CH", "unheard of": [1]})
    shown = {flags.get_string_value(key, "none", context) for _ in range(20)}
    assert len(shown & {"x", "y"}) == len(shown) == 1
    flags.track(event, context, TrackingEventDetails(3.0))
    flags.track(event, context, TrackingEventDetails(3.0))  # a second sale has no decision that waits
    assert service.get_campaign(key).observations == 1
    (decision,) = service.decisions(key)
    assert decision.reward is not None
    assert decision.reward.reward == 1.5


def test_what_goes_wrong_has_openfeatures_codes(service: Client, flags: OpenFeatureClient) -> None:
    """An application that looks at the code would look in the wrong place."""
    assert evaluate(flags, "string", "no-such-flag", "d").error_code == ErrorCode.FLAG_NOT_FOUND
    key = create(service, "blue")
    details = evaluate(flags, "boolean", key, False)
    assert (details.value, details.error_code) == (False, ErrorCode.TYPE_MISMATCH)
    features = {"type": "disjoint", "features": [{"name": "age"}]}
    strict = create(service, "blue", model=features)
    details = flags.get_string_details(strict, "d", EvaluationContext("u", {"age": "old"}))
    assert (details.value, details.error_code) == ("d", ErrorCode.INVALID_CONTEXT)
    assert "age" in (details.error_message or "")


def test_a_silent_service_is_a_default_and_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """A page would hang, or fail because of its statistics."""
    with serving(say_nothing) as url, Client(url, deadline_seconds=0.05) as client:
        api.set_provider(PrudentProvider(client))
        flags = api.get_client()
        details = evaluate(flags, "string", "c", "usual")
        assert (details.value, details.reason, details.error_code) == ("usual", Reason.ERROR, ErrorCode.GENERAL)
        flags.track("sale", EvaluationContext("u"))
        flags.track("sale")
        flags.track("sale", EvaluationContext("u"), TrackingEventDetails("much"))  # type: ignore[arg-type]
        client.close()
        flags.track("sale", EvaluationContext("u"))
        api.shutdown()
    assert [message.partition(":")[0] for message in caplog.messages if message.startswith("event")] == [
        "event sale"
    ] * 4
