"""`prudent mcp`, driven by the reference client of the Model Context Protocol."""

import asyncio
import importlib.util
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from prudent.__main__ import app
from tests.api.contract import Json, create, multi_armed, new_id, shared
from tests.api.keys import ADMIN_KEY
from tests.conftest import MakeServer, migrate_empty
from tests.machine import missing
from tests.servers import Server, clean_environment

pytestmark = pytest.mark.slow


def driven(url: str, story: Callable[[Any], Awaitable[None]], **environment: str) -> None:
    """Play a story with a client whose server is `prudent mcp`, a process of its own; skip it without the package."""
    try:
        from mcp import Client, StdioServerParameters
    except ModuleNotFoundError:
        missing("the package mcp is not installed")
    command = ["-m", "prudent", "mcp", "--url", url]
    parameters = StdioServerParameters(command=sys.executable, args=command, env=clean_environment(environment))

    async def play() -> None:
        async with Client(parameters) as client:
            await story(client)

    asyncio.run(play())


async def told(agent: Any, tool: str, **arguments: Any) -> Json:
    """What a tool answers, which must be a success."""
    result = await agent.call_tool(tool, arguments)
    assert not result.is_error, result.content
    answer: Json = result.structured_content
    return answer


async def refused(agent: Any, tool: str, **arguments: Any) -> str:
    """What a tool says is wrong."""
    result = await agent.call_tool(tool, arguments)
    assert result.is_error
    text: str = result.content[0].text
    return text


def test_an_agent_chooses_reports_and_reads(server: Server, client: httpx.Client) -> None:
    """An agent could not learn from what it does."""
    plain = create(client, multi_armed())
    features = [{"name": "price", "center": 0, "scale": 10}, {"name": "kind", "kind": "category", "capacity": 3}]
    named = create(client, shared(model={"type": "shared", "features": features}, arms=[]))

    async def story(agent: Any) -> None:
        tools = {tool.name: tool for tool in (await agent.list_tools()).tools}
        assert list(tools) == ["choose", "report", "campaign_report"]
        assert tools["choose"].input_schema["required"] == ["campaign_id"]
        chosen = await told(agent, "choose", campaign_id=plain)
        assert chosen["arm_id"] in {"a", "b", "c"}
        assert 0 < chosen["propensity"] <= 1
        for is_repeated in (False, True):
            receipt = await told(agent, "report", decision_id=chosen["decision_id"], reward=0.5)
            assert (receipt["reward"], receipt["duplicate"]) == (0.5, is_repeated)
        offers = {"book": {"price": 12, "kind": "paper"}, "file": {"price": 9.5, "kind": "pdf"}}
        assert (await told(agent, "choose", campaign_id=named, arms=offers))["arm_id"] in offers
        report = await told(agent, "campaign_report", campaign_id=plain)
        assert (report["campaign_id"], report["plays"]) == (plain, 1)

    driven(server.url, story)


def test_an_agent_is_told_what_is_wrong(server: Server, client: httpx.Client) -> None:
    """It would try the same again, or give up, and nobody would see why."""
    known = create(client, multi_armed())

    async def story(agent: Any) -> None:
        assert "there is no such campaign" in await refused(agent, "choose", campaign_id=new_id("nobody"))
        assert "there is no such campaign" in await refused(agent, "campaign_report", campaign_id=new_id("nobody"))
        assert "context: " in await refused(agent, "choose", campaign_id=known, context={"x": 1})
        assert "there is no such decision" in await refused(agent, "report", decision_id=new_id("d"), reward=1)
        assert "reward" in await refused(agent, "report", decision_id="d", reward="good")
        chosen = await told(agent, "choose", campaign_id=known)
        await told(agent, "report", decision_id=chosen["decision_id"], reward=1)
        assert "different reward" in await refused(agent, "report", decision_id=chosen["decision_id"], reward=0)

    driven(server.url, story)


@pytest.mark.parametrize("key", ["", ADMIN_KEY])
def test_an_agents_key_comes_from_the_environment(make_server: MakeServer, sqlite_database: str, key: str) -> None:
    """A key on the command line is seen by everybody on the machine."""
    migrate_empty(sqlite_database)
    closed = make_server(sqlite_database, environment={"PRUDENT_ADMIN_KEY": ADMIN_KEY})

    async def story(agent: Any) -> None:
        said = await refused(agent, "choose", campaign_id="nobody")
        assert ("there is no such campaign" if key else "needs an API key") in said

    driven(closed.url, story, **({"PRUDENT_API_KEY": key} if key else {}))


@pytest.mark.parametrize(
    ("url", "key", "said"), [("localhost", None, "http:// or https://"), ("http://localhost", "a key", "printable")]
)
def test_a_wrong_address_or_key_is_said_in_a_line(url: str, key: str | None, said: str) -> None:
    """A host's log would have a page of our source, with the reason at its end."""
    if importlib.util.find_spec("mcp") is None:
        missing("the package mcp is not installed")
    done = CliRunner().invoke(app, ["mcp", "--url", url], env={"PRUDENT_API_KEY": key})
    assert done.exit_code == 1
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
