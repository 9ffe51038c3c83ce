"""The server that a command works on, with --url."""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from prudent.cli.console import fail

SERVER_SECONDS_MAX = 60.0
"""Per request."""


@contextmanager
def opened_server(url: str, api_key: str | None) -> Iterator[httpx.Client]:
    """A client of a server; ends the program with a one-line message if it cannot be reached."""
    headers = {} if api_key is None else {"X-API-Key": api_key}
    try:
        with httpx.Client(base_url=url, headers=headers, timeout=SERVER_SECONDS_MAX) as client:
            yield client
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        fail(f"the server at {url} does not answer: {error}")


def refuse_problem(reply: httpx.Response) -> None:
    """End the program with the server's explanation if the reply is an error."""
    if reply.is_success:
        return
    reply.read()
    try:
        explained = str(reply.json()["detail"])
    except (ValueError, KeyError, TypeError):
        explained = "not a reply of Prudent; check --url"
    fail(f"the server answered {reply.status_code}: {explained}")
