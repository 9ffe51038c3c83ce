"""Who may come in before there are keys: nobody from another machine, and from this one only what is local."""

import subprocess
from traceback import format_exception

import httpx
import pytest

from prudent.preflight import NotServableError, _check_access, is_loopback
from prudent.settings import InvalidSettingError, read_settings
from prudent.store.engines import create_read_engine, parse_database_url
from tests import commands
from tests.api.contract import ok, problem
from tests.api.keys import ADMIN_KEY, CALLS, make_key, prudent, refusal
from tests.conftest import MakeServer, migrate_empty
from tests.servers import HOST, Server, free_port


def serve(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Try to serve, where it is refused."""
    return commands.prudent("serve", "--port", str(free_port()), *arguments, environment=environment)


def test_an_open_service_is_refused_to_other_machines(database_url: str) -> None:
    """R22, B37. A forgotten key would leave the data to everybody on the network."""
    migrate_empty(database_url)
    done = serve("--host", "0.0.0.0", "--database-url", database_url)  # noqa: S104
    assert done.returncode == 1
    assert "prudent keys create" in done.stderr
    assert "PRUDENT_ADMIN_KEY" in done.stderr
    everywhere = read_settings(database_url=database_url, host="0.0.0.0")  # noqa: S104
    engine = create_read_engine(parse_database_url(database_url))
    with pytest.raises(NotServableError, match="PRUDENT_AUTH is off"):
        _check_access(everywhere.model_copy(update={"auth": False, "admin_key": ADMIN_KEY}), engine)
    make_key(database_url, "app", "writer")
    _check_access(everywhere, engine)
    assert prudent("keys", "revoke", "app", "--database-url", database_url).exit_code == 0
    with pytest.raises(NotServableError, match="prudent keys create"):  # a revoked key opens nothing
        _check_access(everywhere, engine)
    engine.dispose()


def test_loopback_is_told_from_the_rest() -> None:
    """An address that looks local and is not would be served without keys."""
    assert all(is_loopback(host) for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost"))
    others = ("0.0.0.0", "::", "", "10.0.0.1", "127.0.0.1.example.org", "127.1", "localhost.", "::ffff:10.0.0.1")  # noqa: S104
    assert not any(is_loopback(host) for host in others)


def test_the_operators_key_opens_the_first_door(sqlite_database: str, make_server: MakeServer) -> None:
    """In a container there is nobody to make the first key."""
    server = make_server(sqlite_database, start=False, environment={"PRUDENT_ADMIN_KEY": ADMIN_KEY})
    server.arguments = ["--host", "0.0.0.0"]  # noqa: S104  # the last one counts
    server.start()
    with httpx.Client(base_url=f"http://{HOST}:{server.port}", trust_env=False) as client:
        said = {
            "needs an API key": {},
            "is not valid": {"X-API-Key": "prudent_wrong"},
            "several API keys": {"X-API-Key": ADMIN_KEY, "Authorization": "Bearer prudent_wrong"},
        }
        for words, headers in said.items():
            refused = client.get("/campaigns", headers=headers)
            problem(refused, 401)
            assert words in refused.json()["detail"]
        ok(client.get("/campaigns", headers={"X-API-Key": ADMIN_KEY}))


@pytest.mark.parametrize("key", ["short", "x" * 31, "x" * 31 + " x", "ü" * 40])
def test_a_weak_key_of_the_operator_is_refused_unseen(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A password of six letters could be guessed; the message goes to a log."""
    monkeypatch.setenv("PRUDENT_ADMIN_KEY", key)
    with pytest.raises(InvalidSettingError, match="PRUDENT_ADMIN_KEY") as refused:
        read_settings()
    assert key not in "".join(format_exception(refused.value))
    monkeypatch.setenv("PRUDENT_ADMIN_KEY", ADMIN_KEY)
    assert ADMIN_KEY not in repr(read_settings())


def test_without_keys_a_loopback_service_stays_open_if_it_is_told_to(
    sqlite_database: str, make_server: MakeServer
) -> None:
    """Behind a proxy that asks for passwords on the same machine."""
    migrate_empty(sqlite_database)
    make_key(sqlite_database, "app", "writer")
    server = make_server(sqlite_database, environment={"PRUDENT_AUTH": "off"})
    with httpx.Client(base_url=server.url, trust_env=False) as client:
        ok(client.get("/campaigns"))


def test_an_open_service_answers_to_localhost_only(client: httpx.Client, server: Server) -> None:
    """A page whose name was made to lead to this machine could read and reward through a visitor's browser."""
    for host in ("evil.example", f"evil.example:{server.port}", "localhost.evil.example", "127.0.0.1.evil.example", ""):
        for method, path, body, _ in CALLS:
            refusal(client.request(method, path, json=body, headers={"Host": host}), path, 403)
    for host in ("localhost", f"LocalHost:{server.port}", "127.0.0.1", f"[::1]:{server.port}"):
        ok(client.get("/campaigns", headers={"Host": host}))
    ok(client.get("/health/live", headers={"Host": "probe.example"}))
