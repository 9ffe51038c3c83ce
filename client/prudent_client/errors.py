"""What can go wrong with a call.

ClientError
├── UnreachableError         nothing answered, after every attempt
├── UnexpectedReplyError     something answered that does not speak the contract
└── RejectedError            the service answered with an error
    ├── AuthenticationError      401: no valid key
    ├── PermissionDeniedError    403: the key's role is too weak
    ├── NotFoundError            404: no such campaign, arm or decision
    ├── ConflictError            409: it contradicts what is recorded
    ├── InvalidRequestError      400, 413, 415, 422, 431: the request is wrong, and will be wrong again
    └── UnavailableError         408, 429, 502, 503, 504: not now, after every attempt
"""

from collections.abc import Sequence
from typing import Any

import httpx

from prudent_client.encoding import decode

AGAIN = frozenset({408, 429, 502, 503, 504})
"""Statuses that say nothing against the request: it is sent again."""


class ClientError(Exception):
    """A call to the service failed."""


class UnreachableError(ClientError):
    """Nothing answered, even after every attempt. What was sent may have been recorded: send it again, same ids."""


class UnexpectedReplyError(ClientError):
    """Something answered that does not speak the contract."""


class RejectedError(ClientError):
    """The service answered with an error.

    status: HTTP status; title, detail: from the problem+json body; errors: (field, message) pairs; item: the id of
    the decision it is about, when a batch answered for each item; request_id: under which the service logged it.
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
        fields = "; ".join(f"{field}: {message}" for field, message in self.errors[:5])
        text = ". ".join(part for part in (title, detail, fields) if part)
        super().__init__(" ".join(f"the service answered {status}{about}: {text}".split()))


class AuthenticationError(RejectedError):
    """There is no key, or it is not valid."""


class PermissionDeniedError(RejectedError):
    """The key's role may not do this."""


class NotFoundError(RejectedError):
    """There is no such campaign, arm or decision."""


class ConflictError(RejectedError):
    """It contradicts what is recorded: the same id with another request, another reward, an archived campaign."""


class InvalidRequestError(RejectedError):
    """The request is wrong; `errors` names its fields. Sent again, it would be refused again."""


class UnavailableError(RejectedError):
    """Not now, even after every attempt. It is safe to send the same request again later."""


_KINDS: dict[int, type[RejectedError]] = {
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    409: ConflictError,
    **dict.fromkeys((400, 413, 415, 422, 431), InvalidRequestError),
    **dict.fromkeys(AGAIN, UnavailableError),
}


def rejection(status: int, problem: Any, *, item: str | None = None, request_id: str | None = None) -> RejectedError:
    """The error that belongs to a status and a problem+json body, or to whatever a proxy wrote in its place."""
    kind = _KINDS.get(status, RejectedError)
    if not isinstance(problem, dict):
        title = httpx.codes.get_reason_phrase(status) or "error"
        return kind(status, title, item=item, request_id=request_id)
    listed = problem.get("errors")
    rows = [row for row in listed if isinstance(row, dict)] if isinstance(listed, list) else []
    errors = [(str(row.get("field", "")), str(row.get("message", ""))) for row in rows]
    title, detail = str(problem.get("title") or ""), str(problem.get("detail") or "")
    return kind(status, title, detail, errors, item=item, request_id=request_id)


def rejection_of(response: httpx.Response) -> RejectedError:
    """The error that belongs to a response."""
    try:
        problem = decode(response.content)
    except ValueError:
        problem = None
    return rejection(response.status_code, problem, request_id=response.headers.get("x-request-id"))
