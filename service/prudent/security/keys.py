"""API keys: their form and digest, the roles and what each may do, and the ring of valid keys.

A key is 256 random bits, so storing a plain SHA-256 is enough: it cannot be guessed, and need not be slow. A check
looks up the digest; its duration reveals nothing about a key, because nobody can choose digests.
"""

import hashlib
import re
import secrets
from collections.abc import Iterable, Mapping
from typing import Literal, get_args

Role = Literal["evaluator", "reader", "writer", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
_INCLUDED: dict[Role, frozenset[Role]] = {
    "evaluator": frozenset({"evaluator"}),
    "reader": frozenset({"reader"}),
    "writer": frozenset({"evaluator", "reader", "writer"}),
    "admin": frozenset(ROLES),
}
"""The roles that a role includes: it may do what they may."""
FLAGS = "/ofrep/v1/evaluate/flags"
"""Where flags are evaluated, with the flag's key behind it for one of them: the paths of OFREP."""
ADMIN_KEY_NAME = "the setting PRUDENT_ADMIN_KEY"
KEY_PREFIX = "prudent_"
"""Makes keys recognisable where they should not be: in a repository, a log, a message."""

_WRITES = re.compile(
    r"/(select|reward|events)(/batch)?|/campaigns/[^/]+/observations|/decisions/[^/]+/(correction|activate)"
)
_EVALUATIONS = re.compile(rf"{re.escape(FLAGS)}(/.*)?", re.DOTALL)
_PERSONALIZER_WRITES = re.compile(
    r"/personalizer/[^/]+/personalizer/[^/]+/(multislot/)?(rank|events/.+/(reward|activate))", re.DOTALL
)
_TRIES = re.compile(r"/dashboard/campaigns/([^/]+/try|demo/parcels)")
_BY_HAND = re.compile(r"/dashboard/campaigns/[^/]+/decisions/[^/]+/(reward|correction)")
_MANAGES = re.compile(r"/dashboard/manage(/.*)?", re.DOTALL)
_SESSIONS = re.compile(r"/dashboard/(login|logout)")
_OPEN = re.compile(
    r"/health/(live|ready)|/openapi\.json|/docs(/static/.*)?|/guide(/.*)?|/dashboard/(login|static/.*)", re.DOTALL
)


def new_key() -> str:
    """A new key. It is shown once; only its digest is stored."""
    return KEY_PREFIX + secrets.token_urlsafe(32)


def ending_of(key: str) -> str:
    """What tells keys apart without revealing them: their last four characters."""
    return key[-4:]


def digest_of(key: bytes) -> bytes:
    """The digest that is stored and looked up."""
    return hashlib.sha256(key).digest()


def role_needed(method: str, path: str) -> Role | None:
    """The weakest role that may make this request; None if no key is needed.

    Anything not listed here, such as a future route or a path that does not exist, needs `reader` for reading and
    `admin` otherwise; the forms that manage campaigns and keys need `admin` for both.
    """
    if _BY_HAND.fullmatch(path):
        return "writer"
    if method in {"GET", "HEAD"} and not _MANAGES.fullmatch(path):
        return None if _OPEN.fullmatch(path) else "reader"
    if method == "POST" and _EVALUATIONS.fullmatch(path):
        return "evaluator"
    if method == "POST" and _SESSIONS.fullmatch(path):
        return None
    if method == "POST" and any(one.fullmatch(path) for one in (_WRITES, _TRIES, _PERSONALIZER_WRITES)):
        return "writer"
    return "admin"


class KeyRing:
    """The digests of the valid keys with their roles, in memory. Replaced as a whole when the stored keys change."""

    def __init__(self, *, may_be_open: bool, admin_key: str = "") -> None:
        self._fixed: dict[bytes, Role] = {digest_of(admin_key.encode()): "admin"} if admin_key else {}
        self._roles: Mapping[bytes, Role] = self._fixed
        self._names: Mapping[bytes, str] = {}
        self._may_be_open = may_be_open and not admin_key
        self.is_loaded = False
        """Whether the stored keys have been read: until then, no key can be called invalid."""

    @property
    def is_open(self) -> bool:
        """Whether no key has been created yet, and every caller may do everything."""
        return self._may_be_open and self.is_loaded

    def load(self, stored: Iterable[tuple[bytes, Role, str]], *, was_key_made: bool) -> None:
        """Replace the stored keys, given as digest, role and name.

        Once a key was created, the process stays closed, even if all keys are revoked.
        """
        rows = list(stored)
        self._roles = {**{digest: role for digest, role, _ in rows}, **self._fixed}
        self._names = {digest: name for digest, _, name in rows}
        self._may_be_open &= not was_key_made
        self.is_loaded = True

    def role_of(self, key: bytes) -> Role | None:
        """The role of a key; None if it is not valid."""
        return self.role_of_digest(digest_of(key))

    def role_of_digest(self, digest: bytes) -> Role | None:
        """The role of the key with this digest; None if it is not valid."""
        return self._roles.get(digest)

    def name_of_digest(self, digest: bytes) -> str:
        """What the holder of the valid key with this digest is called; of the settings' key, what no other can be."""
        return self._names.get(digest, ADMIN_KEY_NAME)


def is_allowed(role: Role, needed: Role) -> bool:
    """Whether the role includes the needed one."""
    return needed in _INCLUDED[role]
