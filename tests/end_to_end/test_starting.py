"""What a server sets once it has started, and how it starts without what only some systems have."""

import asyncio
import gc
from pathlib import Path

from prudent.app import create_app
from prudent.settings import Settings
from prudent.store.engines import create_write_engine, parse_database_url
from tests.conftest import MakeServer
from tests.databases import migrate


def test_garbage_is_collected_again(sqlite_database: str) -> None:
    """The start goes without; a server that stays without grows for as long as it runs."""
    engine = create_write_engine(parse_database_url(sqlite_database))
    migrate(engine)
    engine.dispose()

    async def is_enabled_while_serving() -> bool:
        app = create_app(Settings(database_url=sqlite_database))
        async with app.router.lifespan_context(app):
            return gc.isenabled()

    thresholds = gc.get_threshold()
    gc.disable()
    try:
        assert asyncio.run(is_enabled_while_serving())
    finally:
        gc.enable()
        gc.unfreeze()
        gc.set_threshold(*thresholds)


def test_a_server_starts_without_uvloop(make_server: MakeServer, sqlite_database: str, tmp_path: Path) -> None:
    """On Windows there is none, and on a new Python not yet."""
    (tmp_path / "uvloop.py").write_text("raise ImportError('not on this system')\n", encoding="utf-8")
    server = make_server(sqlite_database, environment={"PYTHONPATH": str(tmp_path)})
    assert server.running
