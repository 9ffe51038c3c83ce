"""A typed client of the service's HTTP contract.

Every call may be repeated without harm: creations repeat, deletions are idempotent, and decisions carry the
simulator's own ids. So a lost connection or a 503 is tried again, with growing pauses, before it becomes an error.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

import httpx
import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

JsonObject = dict[str, Any]


class ClientError(Exception):
    """A call to the service failed."""


class ServerUnreachable(ClientError):  # noqa: N818 - says what happened
    """Nothing answered, even after every attempt."""


class UnexpectedReply(ClientError):  # noqa: N818 - says what happened
    """Something answered that does not speak the contract."""


class ServerRejected(ClientError):  # noqa: N818 - says what happened
    """The service answered with an error.

    status: HTTP status; title, detail: from the problem+json body; errors: (field, message) pairs; item: the id of
    the decision it is about, when a batch answered for each item.
    """

    def __init__(
        self,
        status: int,
        title: str,
        detail: str = "",
        errors: Sequence[tuple[str, str]] = (),
        item: str | None = None,
    ) -> None:
        self.status, self.title, self.detail = status, title, detail
        self.errors, self.item = tuple(errors), item
        about = f" for decision {item}" if item else ""
        fields = "; ".join(f"{field}: {message}" for field, message in self.errors[:5])
        text = ". ".join(part for part in (title, detail, fields) if part)
        super().__init__(" ".join(f"the service answered {status}{about}: {text}".split()))


class ArmScore(BaseModel):
    """One arm's scores, sent when `explain` was asked for."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    arm_id: str
    estimate: float
    bonus: float


class SelectReply(BaseModel):
    """The decision made."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    decision_id: str
    arm_id: str
    estimate: float
    bonus: float
    reason: str
    observations: int
    arms: list[ArmScore] | None = None


class RewardReply(BaseModel):
    """The receipt of a reward."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    decision_id: str
    arm_id: str
    observations: int
    duplicate: bool
    learned: bool


Reply = TypeVar("Reply", bound=BaseModel)

BATCH_ITEMS_MAX = 1_000
BATCH_BYTES_MAX = 15 * 1024 * 1024
_PAUSE_SECONDS_MAX = 5.0
_OK, _UNAVAILABLE = 200, 503


def _problem(status: int, body: bytes, item: str | None = None) -> ServerRejected:
    try:
        problem = orjson.loads(body)
    except orjson.JSONDecodeError:
        problem = None
    if not isinstance(problem, dict):
        return ServerRejected(status, httpx.codes.get_reason_phrase(status) or "error", item=item)
    listed = problem.get("errors")
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    errors = [(str(row.get("field", "")), str(row.get("message", ""))) for row in rows]
    title, detail = str(problem.get("title") or ""), str(problem.get("detail") or "")
    return ServerRejected(status, title, detail, errors, item)


def _body(items: Sequence[JsonObject]) -> bytes:
    return orjson.dumps({"items": items})


def _parts(items: Sequence[JsonObject]) -> Iterator[tuple[Sequence[JsonObject], bytes]]:
    """Cut items into parts within the limits, each with its body."""
    for first in range(0, len(items), BATCH_ITEMS_MAX):
        part = items[first : first + BATCH_ITEMS_MAX]
        body = _body(part)
        if len(body) <= BATCH_BYTES_MAX:
            yield part, body
        else:
            yield from ((smaller, _body(smaller)) for smaller in _within_bytes(part))


def _within_bytes(items: Sequence[JsonObject]) -> Iterator[Sequence[JsonObject]]:
    start, size = 0, 0
    for position, item in enumerate(items):
        length = len(orjson.dumps(item)) + 1
        if position > start and size + length > BATCH_BYTES_MAX:
            yield items[start:position]
            start, size = position, 0
        size += length
    yield items[start:]


def _status(answer: object) -> int:
    status = answer.get("status") if isinstance(answer, dict) else None
    return status if isinstance(status, int) else 0


def _all_ok(answers: Sequence[Any]) -> bool:
    try:
        return [answer["status"] for answer in answers].count(_OK) == len(answers)
    except (KeyError, TypeError):
        return False


class Client:
    """Talks to one service over kept-alive connections.

    base_url: such as http://127.0.0.1:8000; transport: another httpx transport, for tests; timeout_seconds: for each
    attempt; attempts: how often a call is tried in all; sleep: how to wait between attempts; headers: sent with every
    call. Raises the ClientErrors above.
    """

    def __init__(
        self,
        base_url: str,
        *,
        transport: httpx.BaseTransport | None = None,
        timeout_seconds: float = 60.0,
        attempts: int = 7,
        sleep: Callable[[float], None] = time.sleep,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        try:
            url = httpx.URL(base_url)
        except httpx.InvalidURL as error:
            raise ServerUnreachable(f"{base_url} is not an address: {error}") from error
        if url.scheme not in ("http", "https") or not url.host:
            raise ServerUnreachable(f"{base_url} is not an http:// or https:// address")
        self.base_url = base_url
        self._attempts, self._sleep = attempts, sleep
        self._http = httpx.Client(
            base_url=url,
            transport=transport,
            timeout=httpx.Timeout(timeout_seconds, connect=min(timeout_seconds, 5.0)),
            headers=dict(headers or {}),
            # A proxy set for the outer world must not catch calls to this machine.
            trust_env=url.host not in ("127.0.0.1", "::1", "localhost"),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def health(self) -> JsonObject:
        """Ask, once, whether the service is ready for work; raises when it is not."""
        return self._json(self._send("GET", "/health/ready", attempts=1), object_needed=False)

    def create_campaign(self, campaign: Mapping[str, Any]) -> JsonObject:
        """Create a campaign; the same request again is welcome. Returns it as the service resolved it."""
        return self._json(self._send("POST", "/campaigns", orjson.dumps(dict(campaign))))

    def get_campaign(self, campaign_id: str) -> JsonObject:
        """Read a campaign as the service resolved it."""
        return self._json(self._send("GET", f"/campaigns/{quote(campaign_id, safe='')}"))

    def model(self, campaign_id: str) -> JsonObject:
        """Read what a campaign has learned."""
        return self._json(self._send("GET", f"/campaigns/{quote(campaign_id, safe='')}/model"))

    def delete_campaign(self, campaign_id: str) -> None:
        """Delete a campaign with its log; one that is already gone is no error."""
        path = f"/campaigns/{quote(campaign_id, safe='')}?confirm={quote(campaign_id, safe='')}"
        try:
            self._send("DELETE", path)
        except ServerRejected as error:
            if error.status != httpx.codes.NOT_FOUND:
                raise

    def select(self, request: Mapping[str, Any]) -> SelectReply:
        """Make one decision."""
        return self._parse(SelectReply, self._json(self._send("POST", "/select", orjson.dumps(dict(request)))))

    def reward(self, request: Mapping[str, Any]) -> RewardReply:
        """Report one reward."""
        return self._parse(RewardReply, self._json(self._send("POST", "/reward", orjson.dumps(dict(request)))))

    def select_batch(self, items: Sequence[JsonObject]) -> list[JsonObject]:
        """Make many decisions; gives the replies in order, raises for the first item that failed."""
        return self._batch("/select/batch", SelectReply, items)

    def reward_batch(self, items: Sequence[JsonObject]) -> list[JsonObject]:
        """Report many rewards; gives the replies in order, raises for the first item that failed."""
        return self._batch("/reward/batch", RewardReply, items)

    def select_parsed(self, items: Sequence[JsonObject]) -> list[SelectReply]:
        """As `select_batch`, every reply checked in full: for a few, where the time does not matter."""
        return [self._parse(SelectReply, answer) for answer in self.select_batch(items)]

    def observe(self, campaign_id: str, items: Sequence[JsonObject]) -> None:
        """Load observations made elsewhere, in order; those with an observation_id may be sent again."""
        path = f"/campaigns/{quote(campaign_id, safe='')}/observations"
        for part, body in _parts(items):
            answer = self._json(self._send("POST", path, body))
            taken = [count for count in (answer.get("accepted"), answer.get("duplicates")) if isinstance(count, int)]
            if sum(taken) != len(part):
                raise UnexpectedReply(f"{path} did not account for every item")

    def _batch(self, path: str, reply: type[Reply], items: Sequence[JsonObject]) -> list[JsonObject]:
        """Send items in as few calls as the limits allow. Of the replies only the presence of fields is checked."""
        needed = itemgetter(*(name for name, field in reply.model_fields.items() if field.is_required()))
        answers: list[JsonObject] = []
        for part, body in _parts(items):
            answers += self._answers(path, part, body)
        try:
            for answer in answers:
                needed(answer)
        except KeyError as error:
            raise UnexpectedReply(f"a {reply.__name__} came without {error.args[0]}") from error
        return answers

    def _answers(self, path: str, items: Sequence[JsonObject], body: bytes) -> list[JsonObject]:
        """Send one batch; items answered 503 are sent again, like whole calls are."""
        answers: list[JsonObject] = [{}] * len(items)
        waiting: Sequence[int] = range(len(items))
        for attempt in range(1, self._attempts + 1):
            received = self._json(self._send("POST", path, body)).get("items")
            if not isinstance(received, list) or len(received) != len(waiting):
                raise UnexpectedReply(f"{path} did not answer item for item")
            if len(received) == len(items) and _all_ok(received):
                return received
            for index, answer in zip(waiting, received, strict=True):
                answers[index] = answer
            waiting = [index for index in waiting if _status(answers[index]) == _UNAVAILABLE]
            if not waiting:
                break
            if attempt < self._attempts:
                self._sleep(self._pause_seconds(attempt))
                body = _body([items[index] for index in waiting])
        for index, answer in enumerate(answers):
            status = _status(answer)
            if status != _OK:
                raise _problem(status, orjson.dumps(answer), str(items[index].get("decision_id", index)))
        return answers

    def _send(self, method: str, path: str, body: bytes | None = None, attempts: int | None = None) -> httpx.Response:
        headers = {"content-type": "application/json"} if body is not None else {}
        last = attempts or self._attempts
        for attempt in range(1, last + 1):
            try:
                response = self._http.request(method, path, content=body, headers=headers)
            except httpx.TransportError as error:
                if attempt == last:
                    reason = str(error) or type(error).__name__
                    raise ServerUnreachable(f"no answer from {self.base_url}: {reason}") from error
                self._sleep(self._pause_seconds(attempt))
                continue
            if response.status_code != _UNAVAILABLE or attempt == last:
                break
            self._sleep(self._pause_seconds(attempt, response.headers.get("retry-after")))
        if not response.is_success:
            raise _problem(response.status_code, response.content)
        return response

    @staticmethod
    def _pause_seconds(attempt: int, retry_after: str | None = None) -> float:
        if retry_after is not None and retry_after.isascii() and retry_after.isdigit():
            return min(float(retry_after), _PAUSE_SECONDS_MAX)
        return min(0.1 * 2.0 ** (attempt - 1), _PAUSE_SECONDS_MAX)

    def _json(self, response: httpx.Response, *, object_needed: bool = True) -> JsonObject:
        try:
            content = orjson.loads(response.content)
        except orjson.JSONDecodeError:
            content = None
        if isinstance(content, dict):
            return content
        if object_needed:
            raise UnexpectedReply(f"{response.request.url} did not answer with a JSON object")
        return {}

    @staticmethod
    def _parse(reply: type[Reply], answer: JsonObject) -> Reply:
        try:
            return reply.model_validate(answer)
        except ValidationError as error:
            fields = ", ".join(".".join(map(str, row["loc"])) for row in error.errors()[:5])
            raise UnexpectedReply(f"a {reply.__name__} came without valid {fields}") from error
