"""API keys: what they look like, what their digests are, which role may do what, and the ring that checks them.

A key is 256 random bits, so a plain SHA-256 is enough to store: there is nothing to guess, and no reason to be slow.
Checking is a look-up of the digest: how long it takes says nothing about a key, because nobody can choose digests.
"""

import hashlib
import re
import secrets
from collections.abc import Iterable, Mapping
from typing import Literal, get_args

Role = Literal["reader", "writer", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
"""Weakest first: each may do what those before it may."""
KEY_PREFIX = "prudent_"
"""So that a key is recognised where it should not be: in a repository, a log, a message."""

_WRITES = re.compile(r"/(select|reward)(/batch)?|/campaigns/[^/]+/observations")
_TRIES = re.compile(r"/dashboard/campaigns/[^/]+/try")
_SESSIONS = re.compile(r"/dashboard/(login|logout)")
_OPEN = re.compile(r"/health/(live|ready)|/openapi\.json|/docs(/static/.*)?|/dashboard/(login|static/.*)", re.DOTALL)


def new_key() -> str:
    """A new key. It is shown once; only its digest is stored."""
    return KEY_PREFIX + secrets.token_urlsafe(32)


def digest_of(key: bytes) -> bytes:
    """What is stored and looked up."""
    return hashlib.sha256(key).digest()


def role_needed(method: str, path: str) -> Role | None:
    """The weakest role that may call this; None for what everybody may.

    What is not listed here, a route of tomorrow or an address that does not exist, needs the strongest role that
    its method suggests.
    """
    if method in {"GET", "HEAD"}:
        return None if _OPEN.fullmatch(path) else "reader"
    if method == "POST" and _SESSIONS.fullmatch(path):
        return None
    if method == "POST" and (_WRITES.fullmatch(path) or _TRIES.fullmatch(path)):
        return "writer"
    return "admin"


class KeyRing:
    """The digests of the valid keys with their roles, in memory. Replaced as a whole when the stored keys change."""

    def __init__(self, *, may_be_open: bool, admin_key: str = "") -> None:
        self._fixed: dict[bytes, Role] = {digest_of(admin_key.encode()): "admin"} if admin_key else {}
        self._roles: Mapping[bytes, Role] = self._fixed
        self._may_be_open = may_be_open and not admin_key
        self.is_loaded = False
        """Whether the stored keys have been read: until then nobody's key can be called wrong."""

    @property
    def is_open(self) -> bool:
        """Whether nobody has made a key yet, and every caller may do everything."""
        return self._may_be_open and self.is_loaded

    def load(self, stored: Iterable[tuple[bytes, Role]], *, was_key_made: bool) -> None:
        """Take over the stored keys. Once a key was made, this process is never open again, whatever is revoked."""
        self._roles = {**dict(stored), **self._fixed}
        self._may_be_open &= not was_key_made
        self.is_loaded = True

    def role_of(self, key: bytes) -> Role | None:
        """The role of a key; None if it is not valid."""
        return self.role_of_digest(digest_of(key))

    def role_of_digest(self, digest: bytes) -> Role | None:
        """The role of the key with this digest; None if there is none."""
        return self._roles.get(digest)


def is_allowed(role: Role, needed: Role) -> bool:
    """Whether the role includes what is needed."""
    return ROLES.index(role) >= ROLES.index(needed)
