"""The server that a command works on, with --url."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import httpx

from prudent.cli.console import fail

if TYPE_CHECKING:
    from prudent_client import Client

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
    except UnicodeEncodeError:
        fail("the API key must be printable ASCII")


def client_of(url: str, api_key: str | None) -> "Client":
    """The Python client of a server; ends the program with a one-line message for a wrong address or key."""
    from prudent_client import Client

    try:
        return Client(url, api_key=api_key)
    except ValueError as error:
        fail(str(error))


def refuse_problem(reply: httpx.Response) -> None:
    """End the program with the server's explanation if the reply is an error, or a web page."""
    if reply.is_success and not reply.headers.get("content-type", "").startswith("text/html"):
        return
    reply.read()
    try:
        explained = str(reply.json()["detail"])
    except (ValueError, KeyError, TypeError):
        explained = "not a reply of Prudent; check --url"
    fail(f"the server answered {reply.status_code}: {explained}")
