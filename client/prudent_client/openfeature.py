"""A provider for OpenFeature's SDK: a flag is a campaign, its variants are arms, a targeting key is a subject.

It needs the extra `openfeature` of this package.
"""

import asyncio
from logging import getLogger
from typing import Any

from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.flag_evaluation import FlagResolutionDetails
from openfeature.provider import AbstractProvider, Metadata
from openfeature.track import TrackingEventDetails

from prudent_client.errors import ClientError, RejectedError
from prudent_client.synchronous import Client

logger = getLogger("prudent_client")


class PrudentProvider(AbstractProvider):
    """Evaluates flags and tracks events within the client's deadline. The client is the caller's to close.

    A flag that cannot be evaluated has its default, with the error code of OpenFeature. An event that cannot be sent is
    a warning in the log. The asynchronous calls wait in a thread.
    """

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client

    def get_metadata(self) -> Metadata:
        """What the provider is called."""
        return Metadata(name="Prudent")

    def track(
        self,
        tracking_event_name: str,
        evaluation_context: EvaluationContext | None = None,
        tracking_event_details: TrackingEventDetails | None = None,
    ) -> None:
        """Report an event of the targeting key: a reward in the campaigns that name it, made of the details' value."""
        subject = None if evaluation_context is None else evaluation_context.targeting_key
        if not subject:
            logger.warning("event %s: not sent, as it has no targeting key", tracking_event_name)
            return
        value = None if tracking_event_details is None else tracking_event_details.value
        try:
            self._client.send_event(tracking_event_name, subject, value)
        except Exception as error:  # noqa: BLE001  # statistics break no page
            logger.warning("event %s: %s", tracking_event_name, error)

    def _resolve(
        self,
        flag_key: str,
        default_value: Any,  # noqa: ARG002  # the SDK returns it in place of an error
        evaluation_context: EvaluationContext | None = None,
    ) -> FlagResolutionDetails[Any]:
        attributes: dict[str, Any] = {}
        if evaluation_context is not None:
            attributes |= evaluation_context.attributes
            if evaluation_context.targeting_key:
                attributes["targetingKey"] = evaluation_context.targeting_key
        try:
            flag = self._client.evaluate_flag(flag_key, attributes)
        except ClientError as error:
            raise ErrorCode.to_exception(_code_of(error), str(error)) from error
        return FlagResolutionDetails(flag.value, reason=flag.reason, variant=flag.variant, flag_metadata=flag.metadata)

    async def _resolve_in_a_thread(
        self, flag_key: str, default_value: Any, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[Any]:
        return await asyncio.to_thread(self._resolve, flag_key, default_value, evaluation_context)

    # the SDK checks the type of what comes
    resolve_boolean_details = _resolve
    resolve_string_details = _resolve
    resolve_integer_details = _resolve
    resolve_float_details = _resolve
    resolve_object_details = _resolve
    resolve_boolean_details_async = _resolve_in_a_thread
    resolve_string_details_async = _resolve_in_a_thread
    resolve_integer_details_async = _resolve_in_a_thread
    resolve_float_details_async = _resolve_in_a_thread
    resolve_object_details_async = _resolve_in_a_thread


def _code_of(error: ClientError) -> ErrorCode:
    if isinstance(error, RejectedError) and error.title in set(ErrorCode):
        return ErrorCode(error.title)
    return ErrorCode.GENERAL
