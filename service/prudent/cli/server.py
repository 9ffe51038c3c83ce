"""The server that a command of the command line asks."""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from prudent.cli.console import fail

SERVER_SECONDS_MAX = 60.0
"""For one answer of a server."""


@contextmanager
def opened_server(url: str, api_key: str | None) -> Iterator[httpx.Client]:
    """A client of a server; ends the program, in one line, where it cannot be reached."""
    headers = {} if api_key is None else {"X-API-Key": api_key}
    try:
        with httpx.Client(base_url=url, headers=headers, timeout=SERVER_SECONDS_MAX) as client:
            yield client
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        fail(f"the server does not answer: {error}")


def refuse_problem(reply: httpx.Response) -> None:
    """End the program with what the server says is wrong."""
    if reply.is_success:
        return
    reply.read()
    try:
        detail = reply.json()["detail"]
    except (ValueError, KeyError, TypeError):
        detail = "this is not how Prudent answers"
    fail(f"the server answered {reply.status_code}: {detail}")
