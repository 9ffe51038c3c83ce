"""Campaigns that stand still: each sign is told, and none where there is nothing to tell."""

from typing import Any

import pytest

from prudent.campaigns import CampaignConfiguration, resolve
from prudent.reporting.stalls import LOOKED_AT, Signs, find_stalls
from prudent.store.campaigns import CampaignRow
from prudent.store.reports import ChoiceRow

HOUR = 3_600_000_000
NOW = 1_000 * HOUR


def campaign(status: str = "active", exploration: float = 1.0) -> CampaignRow:
    body = {
        "campaign_id": "c",
        "risk": {"measure": "mean"},
        "model": {"type": "multi-armed"},
        "arms": [{"arm_id": "a"}, {"arm_id": "b"}],
        "algorithm": {"exploration": exploration},
    }
    stored = resolve(CampaignConfiguration.model_validate(body)).model_dump_json()
    known: dict[str, Any] = dict.fromkeys(CampaignRow._fields)
    return CampaignRow(**known | {"status": status, "configuration": stored})


def choices(count: int, *, since: int, greedy: str = "a") -> list[ChoiceRow]:
    """So many decisions for the arm a, newest first, the first of them at a time."""
    return [ChoiceRow("a", greedy, None, since + count - place, "index", None) for place in range(count)]


def kinds(signs: Signs, *, row: CampaignRow | None = None, separated: bool | None = None, refused: int = 0) -> set[str]:
    found = find_stalls(row or campaign(), signs, separated=separated, refused=refused, now=NOW)
    assert all(one.sentence.endswith(".") for one in found)
    return {one.kind for one in found}


def test_rewards_are_missed_after_an_hour_and_a_hundred_decisions() -> None:
    """A sender of rewards that died would be found by the campaign's results, weeks later."""
    made = choices(150, since=NOW - 2 * HOUR)
    assert kinds(Signs(made, NOW - 3 * HOUR, 2)) == {"no-rewards"}
    assert kinds(Signs(made, None, 2)) == {"no-rewards"}
    assert kinds(Signs(made, NOW, 2)) == set()
    assert kinds(Signs(made[:99], None, 2)) == set()
    assert kinds(Signs(choices(150, since=NOW - HOUR // 2), None, 2)) == set()


@pytest.mark.parametrize(("refused", "expected"), [(9, set()), (10, {"rewards-refused"})])
def test_rewards_that_are_refused_are_told(refused: int, expected: set[str]) -> None:
    """The sender may not look at its answers."""
    assert kinds(Signs([], None, 2), refused=refused) == expected


@pytest.mark.parametrize(
    ("greedy", "separated", "expected"),
    [
        ("a", False, {"one-arm", "exploration-ended"}),
        ("a", None, {"one-arm"}),
        ("a", True, set()),
        ("b", False, {"one-arm"}),
    ],
)
def test_one_arm_and_exploration_that_has_ended(greedy: str, separated: bool | None, expected: set[str]) -> None:
    """What is no longer tried cannot turn out better."""
    made = choices(LOOKED_AT, since=NOW - HOUR, greedy=greedy)
    assert kinds(Signs(made, NOW, 2), separated=separated) == expected
    assert kinds(Signs(made[1:], NOW, 2), separated=separated) == set()
    assert kinds(Signs(made, NOW, 1), separated=separated) == set()  # there is no other arm
    assert kinds(Signs(made, NOW, 2), separated=separated, row=campaign(exploration=0.0)) == set()
    other = made[0]._replace(arm_id="b", greedy_arm_id="b")
    assert "one-arm" not in kinds(Signs([*made[1:], other], NOW, 2), separated=separated)


@pytest.mark.parametrize("status", ["paused", "archived"])
def test_a_campaign_that_is_held_stands_still_on_purpose(status: str) -> None:
    """What somebody has stopped needs no alarm."""
    made = choices(LOOKED_AT, since=NOW - 2 * HOUR)
    assert kinds(Signs(made, None, 2), row=campaign(status), separated=False, refused=99) == set()
