"""Names of users' own are printed as they are, whatever they mean to the library that draws the tables."""

from pathlib import Path

import pytest

from tests.commands import simulator

HOSTILE = ["[/nope]", "[control]", "[b]", "[red]buy", ":warning:", "[link=x]y[/link]", "\\[a]"]


@pytest.mark.parametrize("arm", HOSTILE)
def test_an_arm_that_looks_like_markup_is_shown_as_it_is(tmp_path: Path, arm: str) -> None:
    """A traceback, an empty cell or a coloured word would hide which arm is meant."""
    path = tmp_path / "log.csv"
    path.write_text(f"arm,reward\n{arm},1\nb,2\n")
    shown = simulator("risk", path)
    assert shown.returncode == 0, shown.stderr
    assert [line for line in shown.stdout.splitlines() if line.startswith(f"│ {arm} ")], shown.stdout


def test_a_replay_shows_such_arms_too(server_url: str, tmp_path: Path) -> None:
    """The words below its table name arms, and the campaign's id cannot hold a bracket: the server says so."""
    path = tmp_path / "log.csv"
    path.write_text("arm,reward\n" + "[/nope],1\nb,2\n" * 20)
    shown = simulator("replay", path, "--url", server_url, "--mean")
    assert shown.returncode == 1
    assert "line 2: arm: must be 1 to 128 characters" in shown.stderr
