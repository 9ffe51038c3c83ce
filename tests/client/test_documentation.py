"""What docs/clients.md shows works as printed."""

import contextlib
import io
import re

import prudent_client
from prudent_client import Client
from tests.conftest import MakeServer
from tests.servers import ROOT

PAGE = (ROOT / "docs/clients.md").read_text(encoding="utf-8")


def test_the_snippets_run(make_server: MakeServer, sqlite_database: str) -> None:
    """The first thing that a user copies would fail."""
    server = make_server(sqlite_database)
    snippets = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(snippets) == 6
    for snippet in snippets:
        program = snippet.replace("http://127.0.0.1:8000", server.url)
        assert program != snippet
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(program, "docs/clients.md", "exec"), {})  # noqa: S102  # our own page


def test_the_page_lists_every_call_and_every_error() -> None:
    """What is not listed is not found."""
    calls = {name for name in vars(Client) if not name.startswith("_")} - {"close", "request_batch"}
    assert {name for name in calls if f"`{name}(" not in PAGE and f"`{name}`" not in PAGE} == set()
    errors = {name for name in prudent_client.__all__ if name.endswith("Error")}
    assert {name for name in errors if f"`{name}`" not in PAGE} == set()
