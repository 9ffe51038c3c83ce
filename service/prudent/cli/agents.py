"""The service as tools of agents: the Model Context Protocol over standard input and output."""

from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, ParamSpec, TypeVar
from urllib.parse import quote

import typer

from prudent.cli.console import ApiKey, fail
from prudent.cli.server import client_of

P = ParamSpec("P")
R = TypeVar("R")
INSTRUCTIONS = (
    "Prudent learns which of several options, called arms, is the best in which situation. Ask it with choose before "
    "you act, use the arm that it names, and report how that went, under the decision_id of its answer."
)


def mcp_command(
    url: Annotated[str, typer.Option(help="The server.")] = "http://127.0.0.1:8000", api_key: ApiKey = None
) -> None:
    """Let agents choose, report and read reports: a server of the Model Context Protocol on standard input and output.

    The key should be a writer's. Needs the extra `mcp`.
    """
    try:
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
    except ModuleNotFoundError:
        fail("serving agents needs mcp: pip install 'prudent[mcp]'")
    from prudent_client import ClientError

    client = client_of(url, api_key)
    server = MCPServer("prudent", instructions=INSTRUCTIONS)

    def tool(act: Callable[P, R]) -> Callable[P, R]:
        """Offer it to agents, and what the service says is wrong with a call, so that they can correct it."""

        @wraps(act)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return act(*args, **kwargs)
            except ClientError as error:
                raise ToolError(str(error)) from None

        return server.tool()(call)

    @tool
    def choose(
        campaign_id: str, context: dict[str, Any] | None = None, arms: dict[str, dict[str, Any]] | None = None
    ) -> dict[str, Any]:
        """Choose an arm of a campaign.

        context: features of the situation by name, if the campaign has any. arms: the candidates and their features by
        name, for a campaign whose model is shared; otherwise its own arms are the candidates.
        """
        decision = client.select(campaign_id, context=context, arms=arms)
        return decision.model_dump(mode="json", include={"decision_id", "arm_id", "value", "reason", "propensity"})

    @tool
    def report(decision_id: str, reward: float) -> dict[str, Any]:
        """Report the outcome of a decision as a number, where larger is better. The campaign learns it at once."""
        return client.reward(decision_id, reward).model_dump(mode="json")

    @tool
    def campaign_report(campaign_id: str) -> dict[str, Any]:
        """Read what a campaign has found out: what each arm is worth, and how sure that is."""
        return client.request("GET", f"/campaigns/{quote(campaign_id, safe='')}/report")

    with client:
        server.run()
