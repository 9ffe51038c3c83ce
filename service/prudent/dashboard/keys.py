"""API keys in the browser: list, create and revoke them."""

from collections.abc import Sequence

from fastapi import APIRouter, Request, Response

from prudent.api.server.authentication import KEY_NAME, author_of, load_keys
from prudent.dashboard.confirmation import Confirmations, Question, Step
from prudent.dashboard.forms import Field, Values
from prudent.dashboard.rendering import Pages, address, page, see
from prudent.errors import InvalidCommandError, NotFoundError
from prudent.ledger.access import LedgerAccess
from prudent.ledger.commands import CreateKey, RevokeKey
from prudent.ledger.keys import check_key
from prudent.security.keys import ADMIN_KEY_NAME, ROLES, KeyRing, Role, digest_of, ending_of, new_key
from prudent.security.sessions import Sessions
from prudent.store.keys import KeyRow, list_keys
from prudent.store.read_pool import Reader

MAY: dict[Role, str] = {
    "evaluator": "evaluator: evaluates feature flags, and nothing else",
    "reader": "reader: sees everything",
    "writer": "writer: also selects, rewards and sends observations",
    "admin": "admin: also creates, changes and deletes campaigns, and keys",
}
FIRST_KEY = (
    "the first key must be an admin's: from then on every request needs a key, so nobody could make another one here"
)


def key_routes(ledger: LedgerAccess, read: Reader, pages: Pages, ring: KeyRing, sessions: Sessions) -> APIRouter:
    """``/dashboard/manage/keys``."""
    router = APIRouter(include_in_schema=False)
    confirmations = Confirmations(router, pages, sessions)

    @page(router, pages, "/dashboard/manage/keys")
    async def show_keys(request: Request) -> Response:
        return await listing(request, None)

    async def listing(request: Request, made: tuple[str, str] | None) -> Response:
        rows = (await read(list_keys))[::-1]
        own = request.scope.get(KEY_NAME)
        return pages.render(request, "keys.html", keys=rows, own=own, made=made, is_open=ring.is_open)

    @confirmations.add("/dashboard/manage/keys/new")
    async def create(request: Request) -> Step:
        is_first = ring.is_open

        def asked(values: Values) -> tuple[str, Role, str]:
            name, note = values.get("name", "").strip(), values.get("note", "").strip()
            check_key(name, note)
            role = next((one for one in ROLES if one == values.get("role")), None)
            if role is None:
                raise InvalidCommandError(f"must be one of {', '.join(ROLES)}", field="role")
            if is_first and role != "admin":
                raise InvalidCommandError(FIRST_KEY, field="role")
            return name, role, note

        def ask(values: Values) -> Question:
            name, role, _ = asked(values)
            text = ["The key is shown once, on the next page. Only its digest is stored."]
            if is_first:
                text.append("It is the first one: from then on every request needs a key, also those of programs.")
            return Question(f"Make a key for {name}?", text, "Make the key", [("May do", MAY[role])])

        async def do(values: Values) -> Response:
            name, role, note = asked(values)
            key = new_key()
            command = CreateKey(name, role, note, digest_of(key.encode()), ending_of(key))
            await ledger.administer(command, author_of(request, "dashboard"))
            await load_keys(ring, sessions, read)
            # no other page: the key must be in no address, and a reload is refused because the name is taken
            return await listing(request, (name, key))

        roles = ROLES[::-1] if is_first else ROLES
        fields = [
            Field("name", "Name", help="Who uses it: letters, digits and . _ ~ -"),
            Field("role", "Role", "choice", options=[(role, MAY[role]) for role in roles]),
            Field("note", "Note", help="Free text, shown in the list.", is_required=False),
        ]
        return Step(address(request, "manage", "keys"), ask, do, "New API key", (), fields)

    @confirmations.add("/dashboard/manage/keys/{name}/revoke")
    async def revoke(request: Request, name: str) -> Step:
        valid = [row for row in await read(list_keys) if row.revoked_at is None]
        if name not in (row.name for row in valid):
            raise NotFoundError(f"there is no valid key named {name}")
        back = address(request, "manage", "keys")

        async def do(_values: Values) -> Response:
            await ledger.administer(RevokeKey(name), author_of(request, "dashboard"))
            await load_keys(ring, sessions, read)
            return see(back)

        text = ["Programs and browsers that use it are refused within seconds. This cannot be taken back."]
        text += _warnings(name, valid, request.scope.get(KEY_NAME))
        return Step(back, lambda _: Question(f"Revoke the key of {name}?", text, "Revoke the key", is_grave=True), do)

    return router


def _warnings(name: str, valid: Sequence[KeyRow], own: str | None) -> list[str]:
    """What somebody should know before a key is revoked. own: the name of the key that is in use."""
    warnings = []
    if name == own:
        warnings.append("You are signed in with this very key: your session ends with it.")
    if own != ADMIN_KEY_NAME and [row.name for row in valid if row.role == "admin"] == [name]:
        warnings.append("It is the last admin's key: from then on only prudent keys, beside the database, makes keys.")
    return warnings
