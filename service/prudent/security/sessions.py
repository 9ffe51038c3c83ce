"""Sessions of the dashboard: a signed cookie that stands for a key, without the key in it.

The cookie holds the key's digest, an id of its own and the time of its issue, signed by itsdangerous with HMAC-SHA256.
The digest is looked up at every request, so a revoked key ends its sessions. The digest alone, from a stolen backup,
opens nothing: the secret of the signature is not in the database. Signing out puts the id into a table that all workers
read, so that a copy of the cookie is worth nothing afterwards, after a restart neither.
"""

import hashlib
import re
import secrets
from collections.abc import Callable, Iterable
from typing import NamedTuple

from itsdangerous import BadData, TimestampSigner

from prudent.security.keys import digest_of
from prudent.settings import Settings

COOKIE = "prudent_session"
SECONDS = 7 * 86_400
"""Lifetime of a session."""
ID_BYTES = 16

_PAGES = re.compile(r"/|/dashboard(/.*)?", re.DOTALL)


def is_page(path: str) -> bool:
    """Whether this is a path of the dashboard: only there does a session count as a key."""
    return _PAGES.fullmatch(path) is not None


class _Signer(TimestampSigner):
    """clock: seconds since 1970."""

    def __init__(self, secret: str, salt: bytes, clock: Callable[[], float]) -> None:
        super().__init__(secret, salt=salt, digest_method=hashlib.sha256)
        self._clock = clock

    def get_timestamp(self) -> int:
        return int(self._clock())


class Session(NamedTuple):
    """What a cookie stands for. key: the digest of the key; expires_at: microseconds since 1970."""

    key: bytes
    id: bytes
    expires_at: int


class Sessions:
    """Issues, reads and ends sessions. clock: seconds since 1970."""

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        # all workers need the same secret; several servers without a setting have the admin key in common, if any
        secret = settings.session_secret or settings.admin_key or secrets.token_hex(32)
        self._signer = _Signer(secret, b"prudent sessions", clock)
        self._form_signer = _Signer(secret, b"prudent forms", clock)
        self._ended: frozenset[bytes] = frozenset()
        self._ended_here: set[bytes] = set()

    def issue(self, key: bytes) -> str:
        """The cookie of a new session for the holder of this key."""
        return self._signer.sign(f"{digest_of(key).hex()}-{secrets.token_hex(ID_BYTES)}").decode()

    def read(self, cookie: str) -> Session | None:
        """The session of a cookie; None if it was not issued here, has expired, or was signed out."""
        try:
            value, issued_at = self._signer.unsign(cookie, max_age=SECONDS - 1, return_timestamp=True)
        except BadData:
            return None
        key, _, own_id = value.decode().partition("-")
        found = Session(bytes.fromhex(key), bytes.fromhex(own_id), round((issued_at.timestamp() + SECONDS) * 1e6))
        return None if not found.id or found.id in self._ended or found.id in self._ended_here else found

    def presented(self, headers: Iterable[tuple[bytes, bytes]]) -> Session | None:
        """The session of a request; None without exactly one that is valid."""
        values = {
            value.strip()
            for name, line in headers
            if name == b"cookie"
            for part in line.decode("latin-1").split(";")
            for label, _, value in [part.partition("=")]
            if label.strip() == COOKIE
        }
        return self.read(values.pop()) if len(values) == 1 else None

    def form_token(self, session: Session | None) -> str:
        """What a form of this session carries: a page that cannot read our pages cannot send it."""
        return self._form_signer.sign(_form_holder(session)).decode()

    def is_form_token(self, token: str, session: Session | None) -> bool:
        """Whether a form with this token was made for this session; None where no keys are in use."""
        try:
            return self._form_signer.unsign(token, max_age=SECONDS) == _form_holder(session)
        except BadData:
            return False

    def end(self, session: Session) -> None:
        """Accept the session no longer in this process, which need not wait until it has read the table again."""
        self._ended_here.add(session.id)

    def load(self, ended: Iterable[bytes]) -> None:
        """Replace the sessions that were signed out, on whichever worker."""
        self._ended = frozenset(ended)
        self._ended_here -= self._ended


def _form_holder(session: Session | None) -> bytes:
    return b"anybody" if session is None else session.id.hex().encode()
