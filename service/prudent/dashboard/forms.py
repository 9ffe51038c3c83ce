"""Forms that browsers send: bounded, and from our own pages alone."""

import asyncio
import re
from urllib.parse import parse_qsl, urlsplit

from fastapi import Request

from prudent.api.problems import BadBodyError

FORM_BYTES_MAX = 2**18
FORM_SECONDS_MAX = 30
FIELDS_MAX = 2_000
_HOST = re.compile(r"[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?|\[[0-9a-fA-F:.]{2,45}\](:[0-9]{1,5})?")


def check_origin(request: Request) -> None:
    """Raise BadBodyError unless the form was sent by a page of this address.

    A browser says where a form comes from: a page of another site must not use the reader's session, nor an open
    service of the reader's machine. What says nothing is no browser, and has the API.
    """
    origin = request.headers.get("origin", "")
    site = request.headers.get("sec-fetch-site", "same-origin")
    if not origin or urlsplit(origin).netloc != request.headers.get("host") or site != "same-origin":
        raise BadBodyError(403, "this form was not sent by a page of this service")


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form; the last one of a name counts. Raises BadBodyError."""
    check_origin(request)
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise BadBodyError(415, "a form is application/x-www-form-urlencoded")
    body = bytearray()
    try:
        async with asyncio.timeout(FORM_SECONDS_MAX):
            async for chunk in request.stream():
                body += chunk
                if len(body) > FORM_BYTES_MAX:
                    raise BadBodyError(413, f"the form is larger than {FORM_BYTES_MAX} bytes")
    except TimeoutError:
        raise BadBodyError(408, f"the form did not arrive in {FORM_SECONDS_MAX} seconds") from None
    try:
        return dict(parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=FIELDS_MAX))
    except ValueError:
        raise BadBodyError(422, "the form cannot be read") from None


def is_https(request: Request) -> bool:
    """Whether the reader's browser speaks TLS, to us or to the proxy in front."""
    return "https" in (request.url.scheme, request.headers.get("x-forwarded-proto", ""))


def base_address(request: Request) -> str:
    """Where the reader reaches this service, for commands to copy."""
    host = request.headers.get("host", "")
    if not _HOST.fullmatch(host):
        host = "127.0.0.1:8000"
    return f"{'https' if is_https(request) else 'http'}://{host}{request.scope.get('root_path', '')}"
