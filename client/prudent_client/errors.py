"""The errors that a call can raise.

ClientError
├── UnreachableError         nothing answered, after every attempt
├── UnexpectedReplyError     the reply does not follow the API's contract
└── RejectedError            the service answered with an error
    ├── AuthenticationError      401: no valid key
    ├── PermissionDeniedError    403: the key's role does not permit the call
    ├── NotFoundError            404: no such campaign, arm or decision
    ├── ConflictError            409: the request conflicts with what is recorded
    ├── InvalidRequestError      400, 413, 415, 422, 431: the request is invalid; retrying will not help
    └── UnavailableError         408, 429, 502, 503, 504, after every attempt
"""

from collections.abc import Sequence
from typing import Any

import httpx

from prudent_client.encoding import decode

AGAIN = frozenset({408, 429, 502, 503, 504})
"""Statuses that do not mean that the request is invalid: it is retried."""


class ClientError(Exception):
    """A call to the service failed."""


class UnreachableError(ClientError):
    """Nothing answered, after every attempt. The request may have been recorded: send it again with the same ids."""


class UnexpectedReplyError(ClientError):
    """The reply does not follow the API's contract: something other than Prudent may have answered."""


class RejectedError(ClientError):
    """The service answered with an error.

    status: HTTP status; title, detail: from the problem+json body; errors: (field, message) pairs; item: the id of
    the decision it is about, for items of a batch; request_id: under which the service logged it.
    """

    def __init__(
        self,
        status: int,
        title: str,
        detail: str = "",
        errors: Sequence[tuple[str, str]] = (),
        *,
        item: str | None = None,
        request_id: str | None = None,
    ) -> None:
        self.status, self.title, self.detail = status, title, detail
        self.errors, self.item, self.request_id = tuple(errors), item, request_id
        about = f" for decision {item}" if item else ""
        listed = (f"{field}: {message}" for field, message in self.errors[:5])
        fields = "; ".join(text for text in listed if text not in detail)
        text = ". ".join(part for part in (title, detail, fields) if part)
        super().__init__(" ".join(f"the service answered {status}{about}: {text}".split()))

    def __reduce__(self) -> tuple[Any, ...]:
        """As it was made: what Exception has for it knows of the message alone."""
        return _again, (type(self), self.status, self.title, self.detail, self.errors, self.item, self.request_id)


def _again(kind: type[RejectedError], *made_of: Any) -> RejectedError:
    *given, item, request_id = made_of
    return kind(*given, item=item, request_id=request_id)


class AuthenticationError(RejectedError):
    """The key is missing or not valid."""


class PermissionDeniedError(RejectedError):
    """The key's role does not permit the call."""


class NotFoundError(RejectedError):
    """There is no such campaign, arm or decision."""


class ConflictError(RejectedError):
    """The request conflicts with what is recorded: id taken, different reward, campaign archived."""


class InvalidRequestError(RejectedError):
    """The request is invalid; `errors` names the fields. Retrying will not help."""


class UnavailableError(RejectedError):
    """The service was unavailable, after every attempt. It is safe to send the same request again later."""


_KINDS: dict[int, type[RejectedError]] = {
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    **dict.fromkeys((400, 413, 415, 422, 431), InvalidRequestError),
    **dict.fromkeys(AGAIN, UnavailableError),
}


_WORDS = (("title", "errorCode"), ("detail", "errorDetails"))
"""Of problem+json, and of OFREP."""


def rejection(status: int, problem: Any, *, item: str | None = None, request_id: str | None = None) -> RejectedError:
    """The error that belongs to a status and a problem+json body, or to what a proxy wrote instead."""
    kind = _KINDS.get(status, RejectedError)
    if not isinstance(problem, dict):
        title = httpx.codes.get_reason_phrase(status) or "error"
        return kind(status, title, item=item, request_id=request_id)
    listed = problem.get("errors")
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    errors = [(str(row.get("field", "")), str(row.get("message", ""))) for row in rows]
    title, detail = (str(problem.get(one) or problem.get(other) or "") for one, other in _WORDS)
    return kind(status, title, detail, errors, item=item, request_id=request_id)


def rejection_of(response: httpx.Response) -> RejectedError:
    """The error that belongs to a response."""
    try:
        problem = decode(response.content)
    except ValueError:
        problem = None
    return rejection(response.status_code, problem, request_id=response.headers.get("x-request-id"))
