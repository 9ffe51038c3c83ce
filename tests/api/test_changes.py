"""The alarm that the world changed over HTTP: model, report, client, and what a restart does to it."""

from datetime import datetime

import httpx

from prudent_client import Client
from tests.api.contract import create, multi_armed, ok
from tests.api.test_report import observe


def test_a_change_is_told_with_its_time_its_size_and_what_to_do(api: httpx.Client) -> None:
    """An alarm that does not say which arm, since when and by how much leads to nothing."""
    campaign = create(api, multi_armed())
    assert ok(api.get(f"/campaigns/{campaign}/model"))["changes"] == []
    items = []
    for number in range(600):
        arm, noise = "ab"[number % 2], (number * 7 % 11 - 5) / 5
        items.append({"arm_id": arm, "reward": noise - (2.0 if arm == "b" and number >= 400 else 0.0)})
    observe(api, campaign, items)
    (change,) = ok(api.get(f"/campaigns/{campaign}/model"))["changes"]
    assert (change["arm_id"], change["stands"]) == ("b", True)
    assert 395 <= change["since"] <= 410
    assert change["size"] < -1.5
    (told,) = ok(api.get(f"/campaigns/{campaign}/report"))["changes"]
    assert {name: told[name] for name in change} == change
    assert datetime.fromisoformat(told["since_at"]) <= datetime.fromisoformat(told["raised_at"])
    assert told["sentence"].startswith("The rewards of b have fallen by ")
    assert f"restart the campaign from row {change['since']}" in told["sentence"]
    with Client(str(api.base_url), deadline_seconds=60) as client:
        (known,) = client.model(campaign).changes
        assert (known.arm_id, known.since, known.stands) == ("b", change["since"], True)
    ok(api.post(f"/campaigns/{campaign}/restart", json={"from": change["since"]}))
    assert ok(api.get(f"/campaigns/{campaign}/report"))["changes"] == []
