"""A server that hostile clients have to themselves."""

from collections.abc import Iterator

import httpx
import pytest

from tests.servers import Server


@pytest.fixture(scope="module")
def hardened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service of its own: what others do in between would show in the memory."""
    folder = tmp_path_factory.mktemp("hostile")
    server = Server(f"sqlite:///{folder}/prudent.db", folder / "server.log")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def api(hardened: Server) -> Iterator[httpx.Client]:
    """Its client."""
    with httpx.Client(base_url=hardened.url, timeout=30, trust_env=False) as opened:
        yield opened
