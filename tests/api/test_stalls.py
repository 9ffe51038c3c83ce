"""Alarms of a campaign that stands still, over HTTP: report, model, dashboard, and metrics of named campaigns."""

import httpx

from tests.api.contract import create, multi_armed, ok, problem, reward, select
from tests.conftest import MakeServer


def test_refused_rewards_are_told_until_one_is_taken(api: httpx.Client) -> None:
    """A unit that changed makes every reward one that is out of bounds, and nothing is learned any more."""
    campaign = create(api, multi_armed(reward={"minimum": 0, "maximum": 1}))
    decisions = [select(api, campaign)["decision_id"] for _ in range(10)]
    for decision_id in decisions:
        problem(api.post("/reward", json={"decision_id": decision_id, "reward": 50}), 422, "reward")
    assert ok(api.get(f"/campaigns/{campaign}/model"))["refused_rewards"] == 10
    (stall,) = ok(api.get(f"/campaigns/{campaign}/report"))["stalls"]
    assert stall["kind"] == "rewards-refused"
    assert stall["sentence"].startswith("The last 10 rewards were all refused")
    assert stall["sentence"] in api.get(f"/dashboard/campaigns/{campaign}").text
    reward(api, decisions[0], 0.5)
    assert ok(api.get(f"/campaigns/{campaign}/model"))["refused_rewards"] == 0
    assert ok(api.get(f"/campaigns/{campaign}/report"))["stalls"] == []


def test_named_campaigns_have_their_alarms_as_metrics(make_server: MakeServer, database_url: str) -> None:
    """An operator is woken by what Prometheus sees, and only for what was asked for."""
    server = make_server(database_url, environment={"PRUDENT_METRICS_CAMPAIGNS": "named, missing"})
    with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as api:
        for name in ("named", "other"):
            create(api, multi_armed(campaign_id=name, reward={"minimum": 0}))
            for _ in range(1_000 // 100):
                items = [{"campaign_id": name, "eligible": ["a"]}] * 100
                made = ok(api.post("/select/batch", json={"items": items}))["items"]
                rewards = [{"decision_id": one["decision_id"], "reward": number % 3} for number, one in enumerate(made)]
                ok(api.post("/reward/batch", json={"items": rewards}))
        text = api.get("/metrics").text
    raised = {line for line in text.splitlines() if line.startswith("prudent_campaign_alarm{")}
    assert raised == {
        'prudent_campaign_alarm{campaign="named",kind="change"} 0.0',
        'prudent_campaign_alarm{campaign="named",kind="no-rewards"} 0.0',
        'prudent_campaign_alarm{campaign="named",kind="rewards-refused"} 0.0',
        'prudent_campaign_alarm{campaign="named",kind="one-arm"} 1.0',
        'prudent_campaign_alarm{campaign="named",kind="exploration-ended"} 0.0',
    }
