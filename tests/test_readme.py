"""The README's tour and its figures: what a newcomer types first must work as printed."""

import json
import re
import shutil
import subprocess
from typing import Any, get_args

import pytest

from service.campaigns import CampaignConfiguration, resolve
from service.campaigns.configuration import AlgorithmName
from tests.conftest import MakeServer
from tests.servers import ROOT, clean_environment

README = (ROOT / "README.md").read_text(encoding="utf-8")
PRINTED_URL = "http://127.0.0.1:8000"
RUN_SECONDS_MAX = 60
PRINTED_DIGITS = 1e-3


def section(title: str) -> str:
    """The text under a heading of the second level."""
    (found,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", README, re.MULTILINE | re.DOTALL)
    return str(found)


def documents(text: str) -> list[Any]:
    """JSON values that follow each other."""
    found, place, decoder = [], 0, json.JSONDecoder()
    while text[place:].strip():
        place += len(text[place:]) - len(text[place:].lstrip())
        value, place = decoder.raw_decode(text, place)
        found.append(value)
    return found


def assert_shown(printed: Any, answered: Any, where: str) -> None:
    """All that is printed is in the answer; numbers to the digits printed."""
    if isinstance(printed, dict):
        for name, value in printed.items():
            assert name in answered, f"{where}.{name} is not answered"
            assert_shown(value, answered[name], f"{where}.{name}")
    elif isinstance(printed, list):
        assert len(printed) == len(answered), where
        for position, (one, other) in enumerate(zip(printed, answered, strict=True)):
            assert_shown(one, other, f"{where}.{position}")
    elif isinstance(printed, float):
        assert answered == pytest.approx(printed, abs=PRINTED_DIGITS), where
    else:
        assert answered == printed, where


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_tour_works_as_printed(make_server: MakeServer, sqlite_database: str) -> None:
    """A newcomer pastes every call in order on a new server, and compares what it answers."""
    server = make_server(sqlite_database, arguments=["--demo"])
    steps = re.findall(r"```bash\n(.*?)```\n\n```json\n(.*?)```", section("A tour in five minutes"), re.DOTALL)
    assert len(steps) == section("A tour in five minutes").count("```bash")
    assert len(steps) >= 7
    for typed, printed in steps:
        assert PRINTED_URL in typed
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", typed.replace(PRINTED_URL, server.url)],  # noqa: S607
            env={**clean_environment(), "no_proxy": "*"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=RUN_SECONDS_MAX,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        answers, expected = documents(done.stdout), documents(printed)
        assert len(answers) == len(expected), done.stdout
        for answer, shown in zip(answers, expected, strict=True):
            assert_shown(shown, answer, typed.split("-H")[0].strip())


def test_the_value_of_the_bold_courier_is_what_its_balance_says() -> None:
    """The two-line example is the reason to use the service: it must be right."""
    outcomes, weight = ((0.9, 0.9), (0.1, -1.0)), 9
    assert "average  0.71" in README
    assert sum(share * reward for share, reward in outcomes) == pytest.approx(0.71)
    assert "For bold it is -0.05" in README
    value = -0.05
    shortfall = sum(share * max(value - reward, 0) for share, reward in outcomes)
    surplus = sum(share * max(reward - value, 0) for share, reward in outcomes)
    assert weight * shortfall == pytest.approx(surplus)


def test_the_table_of_weights_and_levels_is_right() -> None:
    """Whoever picks a weight from the table gets the level beside it."""
    rows = re.findall(r"^\| ([\d.]+)[^|]*\| ([\d.]+) \| ([\d.]+) \|$", README, re.MULTILINE)
    assert len(rows) >= 5
    for coin, weight, level in rows:
        assert coin == weight
        given = {"measure": "expectile", "downside_weight": float(weight)}
        campaign = {"campaign_id": "a", "risk": given, "model": {"type": "multi-armed"}}
        resolved = resolve(CampaignConfiguration.model_validate(campaign))
        assert resolved.risk.model_dump()["level"] == pytest.approx(float(level), abs=1e-12)


def test_every_algorithm_has_a_row() -> None:
    """An algorithm that the README does not name will not be found; one that it only names cannot be used."""
    named = re.findall(r"^\| `([a-z-]+)`", section("Which algorithm"), re.MULTILINE)
    assert sorted(named) == sorted(get_args(AlgorithmName))


def test_what_the_readme_links_to_is_there() -> None:
    """A dead link on the first page."""
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    for link in links:
        assert (ROOT / link).exists(), link
