"""Keys for tests, made by the commands that operators use."""

from typing import Any

import httpx
from click.testing import Result
from typer.testing import CliRunner

from prudent.__main__ import app
from tests.api.contract import problem

ADMIN_KEY = "an-admin-key-that-an-operator-chose"
CAMPAIGN = {"campaign_id": "c", "risk": {"measure": "mean"}, "model": {"type": "multi-armed"}}
ARMS = {"arms": [{"arm_id": "a"}], "algorithm": {"warmup": 0}}
CALLS: list[tuple[str, str, Any, str]] = [
    ("GET", "/campaigns", None, "reader"),
    ("GET", "/campaigns/c", None, "reader"),
    ("GET", "/campaigns/c/model", None, "reader"),
    ("GET", "/campaigns/c/features", None, "reader"),
    ("GET", "/campaigns/c/report", None, "reader"),
    ("GET", "/campaigns/c/decisions", None, "reader"),
    ("GET", "/campaigns/c/export", None, "reader"),
    ("GET", "/metrics", None, "reader"),
    ("POST", "/select", {"campaign_id": "c", "decision_id": "d"}, "writer"),
    ("GET", "/decisions/d", None, "reader"),
    ("POST", "/reward", {"decision_id": "d", "reward": 1}, "writer"),
    ("POST", "/decisions/d/activate", None, "writer"),
    ("POST", "/decisions/d/correction", {"reward": 2, "reason": "a slip"}, "writer"),
    ("POST", "/select/batch", {"items": [{"campaign_id": "c"}]}, "writer"),
    ("POST", "/reward/batch", {"items": [{"decision_id": "d", "reward": 1}]}, "writer"),
    ("POST", "/events", {"event_id": "e", "event": "bought", "subject": "u"}, "writer"),
    ("POST", "/events/batch", {"items": [{"event_id": "e", "event": "bought", "subject": "u"}]}, "writer"),
    ("POST", "/ofrep/v1/evaluate/flags", {"context": {"targetingKey": "u"}}, "evaluator"),
    ("POST", "/ofrep/v1/evaluate/flags/c", {"context": {"targetingKey": "u"}}, "evaluator"),
    ("POST", "/campaigns/c/observations", {"items": [{"arm_id": "a", "reward": 1}]}, "writer"),
    ("POST", "/campaigns", CAMPAIGN | ARMS, "admin"),
    ("PATCH", "/campaigns/c", {"description": "changed"}, "admin"),
    ("POST", "/campaigns/c/restart", {"from": 1}, "admin"),
    ("DELETE", "/campaigns/c/subjects/u", None, "admin"),
    ("POST", "/campaigns/c/arms", {"arm_id": "b"}, "admin"),
    ("PATCH", "/campaigns/c/arms/b", {"status": "paused"}, "admin"),
    ("DELETE", "/campaigns/d?confirm=d", None, "admin"),
]
"""Method, path, body and the least role that may."""
MAY = {
    "evaluator": {"evaluator"},
    "reader": {"reader"},
    "writer": {"evaluator", "reader", "writer"},
    "admin": {"evaluator", "reader", "writer", "admin"},
}
"""What each role may do: what one of these may."""


def refusal(reply: httpx.Response, path: str, status: int) -> str:
    """What a refused call is told, in the form of the path's door."""
    if path.startswith("/ofrep/"):
        assert reply.status_code == status, reply.text
        details: str = reply.json()["errorDetails"]
        return details
    detail: str = problem(reply, status)["detail"]
    return detail


def prudent(*arguments: str, environment: dict[str, str] | None = None) -> Result:
    """Run a command in this process, where it takes no second to start."""
    return CliRunner().invoke(app, arguments, env=environment)


def make_key(database_url: str, name: str, role: str) -> str:
    """A new key."""
    done = prudent("keys", "create", name, "--role", role, "--database-url", database_url)
    assert done.exit_code == 0, done.stderr
    return done.stdout.strip()
