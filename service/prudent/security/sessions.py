"""Sessions of the dashboard: a signed cookie that stands for a key, without the key in it.

The cookie names the key's digest and when it ends, and a MAC over both. The digest is looked up at every request, so a
revoked key ends its sessions. The digest alone, out of a stolen backup, opens nothing: the MAC's secret is not in the
database.
"""

import hashlib
import hmac
import re
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterable

from prudent.security.keys import digest_of
from prudent.settings import Settings

COOKIE = "prudent_session"
SECONDS = 7 * 86_400
"""Until one has to sign in again."""

_PAGES = re.compile(r"/|/dashboard(/.*)?", re.DOTALL)
_FORM = re.compile(r"([0-9]{1,12})\.([A-Za-z0-9_-]{43})\.([A-Za-z0-9_-]{43})")


def is_page(path: str) -> bool:
    """Whether this is an address of the dashboard: there alone a session counts as a key."""
    return _PAGES.fullmatch(path) is not None


class Sessions:
    """Makes and reads cookies. clock: seconds since 1970."""

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        # All workers need the same secret. Several servers without a setting have the admin's key in common, if any.
        secret = settings.session_secret or settings.admin_key or secrets.token_hex(32)
        self._secret = hashlib.sha256(b"prudent sessions\0" + secret.encode()).digest()
        self._clock = clock

    def issue(self, key: bytes) -> str:
        """A cookie's value for the holder of this key."""
        ends, digest = str(int(self._clock()) + SECONDS), digest_of(key)
        return f"{ends}.{_encode(digest)}.{_encode(self._mac(ends, digest))}"

    def digest_of(self, cookie: str) -> bytes | None:
        """The digest of the key that a cookie stands for; None if it was not issued here or has ended."""
        found = _FORM.fullmatch(cookie)
        if found is None:
            return None
        ends, digest, mac = found[1], _decode(found[2]), _decode(found[3])
        if not hmac.compare_digest(mac, self._mac(ends, digest)) or int(ends) <= self._clock():
            return None
        return digest

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

    def _mac(self, ends: str, digest: bytes) -> bytes:
        return hmac.digest(self._secret, ends.encode() + b"." + digest, "sha256")


def _encode(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


def _decode(text: str) -> bytes:
    return urlsafe_b64decode(text + "=")
