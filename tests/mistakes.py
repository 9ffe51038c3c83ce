"""Mistakes that newcomers make, each sent to a real server, and the page that shows what it answers.

A test compares docs/mistakes.md with the answers of today; `python -m tests.mistakes` writes the page anew.
"""

import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.api.keys import ADMIN_KEY, make_key
from tests.conftest import migrate_empty
from tests.servers import ROOT, Server

PAGE = ROOT / "docs/mistakes.md"
JSON = {"Content-Type": "application/json"}
ADMIN = {"X-API-Key": ADMIN_KEY}
CAMPAIGNS: list[dict[str, Any]] = [
    {
        "campaign_id": "couriers",
        "risk": {"measure": "mean"},
        "model": {"type": "multi-armed"},
        "arms": [{"arm_id": "bold"}, {"arm_id": "slow"}, {"arm_id": "steady"}],
        "reward": {"minimum": -1, "maximum": 1},
    },
    {
        "campaign_id": "delivery",
        "risk": {"measure": "expectile", "downside_weight": 4},
        "model": {
            "type": "disjoint",
            "features": [
                {"name": "kilometres"},
                {"name": "rain", "kind": "boolean"},
                {"name": "town", "kind": "category", "categories": ["Bonn", "Kiel"], "unknown": "error"},
            ],
        },
        "arms": [{"arm_id": "bike"}, {"arm_id": "van"}],
    },
    {
        "campaign_id": "doses",
        "risk": {"measure": "mean"},
        "model": {"type": "shared", "dimension": 2},
        "arms": [{"arm_id": "low"}, {"arm_id": "high"}],
    },
]
HEAD = """# Mistakes, and what the service says of them

Every error says in `detail` what is wrong, which value it was, what was expected and, where a name is misspelt, the
nearest one that exists. These are the mistakes that newcomers make, with the answers as a running service gives them:
a test sends each of them and compares. The service has three campaigns: `couriers` without features and with the arms
bold, slow and steady; `delivery`, disjoint, with the features kilometres, rain and town; `doses`, shared, with two
numbers for each arm. Of couriers, whose
rewards are between -1 and 1, the decision `parcel-1` has had its reward, 0.6, and `parcel-2` has not.

[The API, call by call](api.md#errors) explains the statuses and the fields of an error.
"""


@dataclass(frozen=True)
class Mistake:
    """A request with something wrong.

    request: method and path. body: as JSON or, if it is a text, as it is sent. headers: besides the admin's key.
    """

    request: str
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


def _new(**changes: Any) -> Mistake:
    """A request to create a campaign, with these fields beside or instead of good ones."""
    good = {"campaign_id": "new", "risk": {"measure": "mean"}, "model": {"type": "multi-armed"}}
    return Mistake("POST /campaigns", good | changes)


def _select(**fields: Any) -> Mistake:
    return Mistake("POST /select", fields)


def _context(**changes: Any) -> Mistake:
    good = {"kilometres": 4, "rain": True, "town": "Bonn"}
    return _select(campaign_id="delivery", context={name: value for name, value in (good | changes).items() if value})


MISTAKES: dict[str, list[Mistake]] = {
    "Paths and methods": [
        Mistake("POST /select/", {"campaign_id": "couriers"}),
        Mistake("POST /v1/select", {"campaign_id": "couriers"}),
        Mistake("POST /rewards", {"decision_id": "parcel-1", "reward": 1}),
        Mistake("GET /campaigns/couriers/reports"),
        Mistake("GET /select?campaign_id=couriers"),
        Mistake("PUT /campaigns/couriers", {"description": "Which courier?"}),
    ],
    "Keys": [
        Mistake("GET /campaigns", headers={"X-API-Key": ""}),
        Mistake("GET /campaigns", headers={"X-API-Key": "prudent_mistyped"}),
        Mistake("GET /campaigns", headers={"Authorization": "Bearer prudent_another"}),
        Mistake("POST /campaigns", {"campaign_id": "new"}, headers={"X-API-Key": "WRITER"}),
    ],
    "Bodies": [
        Mistake("POST /select", "campaign_id=couriers", {"Content-Type": "application/x-www-form-urlencoded"}),
        Mistake("POST /select", "{'campaign_id': 'couriers'}"),
        Mistake("POST /select", ""),
        Mistake("POST /reward", '{"decision_id": "parcel-1", "reward": NaN}'),
        Mistake("POST /reward", '{"decision_id": "parcel-1", "reward": 1, "reward": 2}'),
        Mistake("POST /select/batch", [{"campaign_id": "couriers"}]),
        Mistake("POST /select/batch", {"campaign_id": "couriers"}),
        Mistake("GET /campaigns?limit=ten"),
        Mistake("GET /campaigns?page=2"),
    ],
    "Names and ids": [
        _select(campaign="couriers"),
        _select(campaign_id="courier"),
        _select(campaign_id="two words"),
        _select(campaign_id=7),
        _select(campaign_id="couriers", decision_id="parcel-1", explore=False),
        Mistake("POST /reward", {"decision_id": "parcel-9", "reward": 0.6}),
        Mistake("POST /reward", {"arm_id": "bold", "reward": 0.6}),
    ],
    "Arms": [
        _select(campaign_id="couriers", chosen_arm_id="stedy"),
        _select(campaign_id="couriers", arms=["bold", "slow"]),
        _select(campaign_id="couriers", exclude=["bold", "slow", "steady"]),
        Mistake("PATCH /campaigns/couriers/arms/blod", {"status": "paused"}),
        Mistake("PATCH /campaigns/couriers/arms/bold", {"status": "stopped"}),
        _new(arms=["bold", "slow"]),
    ],
    "Features": [
        _select(campaign_id="couriers", context=[4, 1]),
        _select(campaign_id="delivery"),
        _select(campaign_id="delivery", context=[4, 1, 0]),
        _context(kilometres=None, kilometers=4),
        _context(kilometres="4"),
        _context(town="Kil"),
        _select(
            campaign_id="doses",
            arms=[{"arm_id": "low", "features": [1, 2, 3]}, {"arm_id": "high", "features": [1, 2]}],
        ),
        _new(model={"type": "disjoint", "features": [{"name": "town", "kind": "categorical"}]}),
    ],
    "Rewards": [
        Mistake("POST /reward", {"decision_id": "parcel-1", "reward": "0.6"}),
        Mistake("POST /reward", {"decision_id": "parcel-2", "reward": 60}),
        Mistake("POST /reward", {"decision_id": "parcel-1", "reward": 0.7}),
        _new(reward={"timeout_seconds": "1h"}),
        Mistake(
            "POST /campaigns/couriers/observations",
            {"items": [{"arm_id": "bold", "reward": 0.6, "observed_at": 1767225600}]},
        ),
    ],
    "Settings of a campaign": [
        _new(risk={"measure": "expectil", "level": 0.1}),
        _new(risk={"measure": "expectile", "level": 10}),
        _new(risk={"measure": "entropic", "risk_tolerance": 0.5}, reward={"minimum": 0, "maximum": 100}),
        _new(level=0.1),
        _new(model={"type": "linear"}),
        _new(algorithm={"name": "linucb_cr"}),
        _new(algorithm={"delta": 95}),
        Mistake("PATCH /campaigns/couriers", {"risk": {"measure": "expectile", "level": 0.1}}),
        Mistake("DELETE /campaigns/couriers"),
    ],
}


def answers() -> Iterator[tuple[str, Mistake, httpx.Response]]:
    """Each mistake under its heading, and the answer of a server that was started for them."""
    with tempfile.TemporaryDirectory() as name:
        url = f"sqlite:///{name}/prudent.db"
        migrate_empty(url)
        writer = make_key(url, "app", "writer")
        server = Server(url, Path(name) / "server.log", environment={"PRUDENT_ADMIN_KEY": ADMIN_KEY})
        server.start()
        try:
            with httpx.Client(base_url=server.url, trust_env=False, timeout=30) as client:
                for campaign in CAMPAIGNS:
                    client.post("/campaigns", json=campaign, headers=ADMIN).raise_for_status()
                for decision_id in ("parcel-1", "parcel-2"):
                    decision = {"campaign_id": "couriers", "decision_id": decision_id}
                    client.post("/select", json=decision, headers=ADMIN).raise_for_status()
                learned = {"decision_id": "parcel-1", "reward": 0.6}
                client.post("/reward", json=learned, headers=ADMIN).raise_for_status()
                for heading, mistakes in MISTAKES.items():
                    for one in mistakes:
                        yield heading, one, _send(client, one, writer)
        finally:
            server.kill()


def _send(client: httpx.Client, mistake: Mistake, writer: str) -> httpx.Response:
    method, path = mistake.request.split(" ")
    headers = ADMIN | (JSON if mistake.body is not None else {}) | mistake.headers
    if not headers["X-API-Key"]:
        del headers["X-API-Key"]
    elif headers["X-API-Key"] == "WRITER":
        headers["X-API-Key"] = writer
    body = mistake.body if isinstance(mistake.body, str | None) else json.dumps(mistake.body)
    return client.request(method, path, content=body, headers=headers)


def page() -> str:
    """The page, with the answers of today."""
    lines, last = [HEAD.rstrip()], ""
    for heading, mistake, reply in answers():
        if heading != last:
            lines += ["", f"## {heading}", "", "| request | | answer |", "|---|---|---|"]
            last = heading
        lines.append(f"| {_shown(mistake)} | {reply.status_code} | {_text(reply.json()['detail'])} |")
    return "\n".join(lines) + "\n"


def _shown(mistake: Mistake) -> str:
    """The request, with the headers that matter."""
    parts = [f"`{mistake.request}`"]
    if mistake.headers.get("X-API-Key") == "":
        parts.append("without a key")
    elif "Authorization" in mistake.headers:
        parts.append("with another key in `Authorization` than in `X-API-Key`")
    elif "X-API-Key" in mistake.headers:
        parts.append("with a writer's key" if mistake.headers["X-API-Key"] == "WRITER" else "with a mistyped key")
    elif "Content-Type" in mistake.headers:
        parts.append("with curl's own `Content-Type`")
    if mistake.body == "":
        parts.append("without a body")
    elif mistake.body is not None:
        body = mistake.body if isinstance(mistake.body, str) else json.dumps(mistake.body, ensure_ascii=False)
        parts.append(f"`{body}`")
    return " ".join(parts)


def _text(detail: str) -> str:
    """A message as Markdown shows it as it is."""
    return "".join(f"\\{one}" if one in r"\`*_{}[]<>|" else one for one in detail)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
