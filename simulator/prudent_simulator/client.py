"""The service as the simulator plays against it: `prudent_client`, where every failure ends the run.

Replies of batches stay plain objects: a run makes many thousands of decisions, and making a typed object of each
would take most of its time.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from time import sleep as real_sleep
from types import TracebackType
from typing import Any, Literal, Self

import httpx

from prudent_client import Client as ServiceClient
from prudent_client import Decision, Observation, Receipt, Retries, UnexpectedReplyError, UnreachableError
from prudent_client.calls import campaign_path
from prudent_client.errors import rejection
from prudent_client.models import valid

JsonObject = dict[str, Any]

TIMEOUT_SECONDS = 60.0


def _needed(kind: type[Decision | Receipt]) -> tuple[str, ...]:
    return tuple(name for name, described in kind.model_fields.items() if described.is_required())


_OF_DECISION, _OF_RECEIPT = _needed(Decision), _needed(Receipt)


class Client:
    """Talks to one service. Raises ClientError for whatever goes wrong, in the end and in a batch's items alike.

    base_url: such as http://127.0.0.1:8000; attempts: how often a call is tried in all; timeout_seconds: for each;
    sleep: how to wait between attempts; headers: sent with every call.
    """

    def __init__(
        self,
        base_url: str,
        *,
        attempts: int = 7,
        timeout_seconds: float = TIMEOUT_SECONDS,
        sleep: Callable[[float], None] = real_sleep,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        # nobody else comes back at the same time, so the pauses need no chance
        retries = Retries(attempts=attempts, jitter=0.0)
        try:
            self._service = ServiceClient(
                base_url,
                deadline_seconds=None,
                timeout_seconds=timeout_seconds,
                retries=retries,
                sleep=sleep,
                headers=headers,
            )
        except ValueError as error:
            raise UnreachableError(str(error)) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._service.close()

    def health(self) -> None:
        """Ask, once, whether the service is ready for work; raises when it is not."""
        self._service.health()

    def create_campaign(self, campaign: Mapping[str, Any]) -> JsonObject:
        """Create a campaign; the request can be repeated. Returns the campaign with all defaults filled in."""
        return self._service.request("POST", "/campaigns", dict(campaign))

    def get_campaign(self, campaign_id: str) -> JsonObject:
        """Read a campaign as the service resolved it."""
        return self._service.request("GET", campaign_path(campaign_id))

    def model(self, campaign_id: str) -> JsonObject:
        """Read what a campaign has learned."""
        return self._service.request("GET", f"{campaign_path(campaign_id)}/model")

    def delete_campaign(self, campaign_id: str) -> None:
        """Delete a campaign with its log; one that no longer exists is not an error."""
        self._service.delete_campaign(campaign_id)

    def reward(self, decision_id: str, reward: float) -> Receipt:
        """Report one reward."""
        return self._service.reward(decision_id, reward)

    def select_batch(self, items: Sequence[JsonObject]) -> list[JsonObject]:
        """Make many decisions; gives the replies in order, raises for the first item that failed."""
        return self._batch("/select/batch", _OF_DECISION, items)

    def reward_batch(self, items: Sequence[JsonObject]) -> list[JsonObject]:
        """Report many rewards; gives the replies in order, raises for the first item that failed."""
        return self._batch("/reward/batch", _OF_RECEIPT, items)

    def select_parsed(self, items: Sequence[JsonObject]) -> list[Decision]:
        """As `select_batch`, every reply checked in full: for a few, where the time does not matter."""
        return [valid(Decision, answer) for answer in self.select_batch(items)]

    def observe(self, campaign_id: str, observations: Sequence[Observation]) -> None:
        """Load observations made elsewhere, in order."""
        receipt = self._service.observe(campaign_id, observations)
        if receipt.accepted + receipt.duplicates != len(observations):
            raise UnexpectedReplyError("the service did not account for every observation")

    def _batch(
        self, path: Literal["/select/batch", "/reward/batch"], needed: tuple[str, ...], items: Sequence[JsonObject]
    ) -> list[JsonObject]:
        """Of the replies only the presence of fields is checked."""
        answers = self._service.request_batch(path, items)
        find = itemgetter(*needed)
        for index, answer in enumerate(answers):
            if answer["status"] != httpx.codes.OK:
                raise rejection(answer["status"], answer, item=str(items[index].get("decision_id", index)))
            try:
                find(answer)
            except KeyError as error:
                raise UnexpectedReplyError(f"an answer of {path} came without {error.args[0]}") from error
        return answers
