"""Sessions of the dashboard: a signed cookie that stands for a key, without the key in it.

The cookie holds the key's digest and the time of its issue, signed by itsdangerous with HMAC-SHA256. The digest is
looked up at every request, so a revoked key ends its sessions. The digest alone, from a stolen backup, opens nothing:
the secret of the signature is not in the database.
"""

import hashlib
import re
import secrets
from collections.abc import Callable, Iterable

from itsdangerous import BadData, TimestampSigner

from prudent.security.keys import digest_of
from prudent.settings import Settings

COOKIE = "prudent_session"
SECONDS = 7 * 86_400
"""Lifetime of a session."""

_PAGES = re.compile(r"/|/dashboard(/.*)?", re.DOTALL)


def is_page(path: str) -> bool:
    """Whether this is a path of the dashboard: only there does a session count as a key."""
    return _PAGES.fullmatch(path) is not None


class _Signer(TimestampSigner):
    """clock: seconds since 1970."""

    def __init__(self, secret: str, clock: Callable[[], float]) -> None:
        super().__init__(secret, salt=b"prudent sessions", digest_method=hashlib.sha256)
        self._clock = clock

    def get_timestamp(self) -> int:
        return int(self._clock())


class Sessions:
    """Issues and reads cookies. clock: seconds since 1970."""

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        # all workers need the same secret; several servers without a setting have the admin key in common, if any
        self._signer = _Signer(settings.session_secret or settings.admin_key or secrets.token_hex(32), clock)

    def issue(self, key: bytes) -> str:
        """A cookie's value for the holder of this key."""
        return self._signer.sign(digest_of(key).hex()).decode()

    def digest_of(self, cookie: str) -> bytes | None:
        """The digest of the key that a cookie stands for; None if it was not issued here or has ended."""
        try:
            return bytes.fromhex(self._signer.unsign(cookie, max_age=SECONDS - 1).decode())
        except BadData:
            return None

    def presented(self, headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
        """The digest that the request's cookie stands for; None without exactly one that is valid."""
        values = {
            value.strip()
            for name, line in headers
            if name == b"cookie"
            for part in line.decode("latin-1").split(";")
            for label, _, value in [part.partition("=")]
            if label.strip() == COOKIE
        }
        return self.digest_of(values.pop()) if len(values) == 1 else None
