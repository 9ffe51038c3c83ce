"""The page about environments. (What the pages print is what happens: tests/end_to_end/test_documentation.py.)"""

import re
from pathlib import Path

from prudent_simulator.custom_environments.loading import load_environment, shipped_names
from tests.servers import ROOT

ENVIRONMENTS = (ROOT / "docs" / "environments.md").read_text(encoding="utf-8")


def test_the_file_of_the_page_works_and_deceives(tmp_path: Path) -> None:
    """The first thing to be copied."""
    (example,) = re.findall(r"```yaml\n(.*?)```", ENVIRONMENTS, re.DOTALL)
    path = tmp_path / "courier.yaml"
    path.write_text(example)
    environment = load_environment(str(path))
    assert environment.true_parameters()[1] < 1e-9
    assert [block.shown_as for block in environment.file.algorithms] == ["linucb", "linucb-cr", "paper-bonus"]


def test_every_shipped_environment_is_described() -> None:
    """What is shipped and not described will not be found."""
    rows = re.findall(r"^\| `([a-z-]+)` \| (?:multi-armed|disjoint|shared)", ENVIRONMENTS, re.MULTILINE)
    assert sorted(rows) == shipped_names()
