"""The files at the top agree with each other and with the project: versions, links, and what they say is where."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.servers import ROOT


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def loaded(name: str) -> Any:
    return yaml.safe_load(read(name))


def test_the_version_is_the_same_everywhere() -> None:
    """An image or a wheel would be called what it is not; the client would not be found by the service."""
    project, client = (tomllib.loads(read(f"{folder}pyproject.toml"))["project"] for folder in ("", "client/"))
    version = project["version"]
    assert client["version"] == version
    assert f"prudent-client=={version}" in project["dependencies"]
    newest, date = re.findall(r"^## \[([\d.]+)\] - (\d{4}-\d\d-\d\d)$", read("CHANGELOG.md"), re.MULTILINE)[0]
    citation = loaded("CITATION.cff")
    assert (newest, citation["version"], citation["date-released"]) == (version, version, date)
    compose = read("docker-compose.yml") + read("docker-compose.demo.yml")
    for name in ("package.json", "package-lock.json"):
        assert json.loads(read(f"clients/javascript/{name}"))["version"] == version
    tags = re.findall(r"image: prudent(?:-simulator)?:(\S+)", compose)
    assert set(tags) == {version}


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "SECURITY.md", "client/README.md", "clients/javascript/README.md"])
def test_links_and_paths_lead_somewhere(name: str) -> None:
    """Whoever follows the steps would look for a file that has moved."""
    text = read(name)
    folder = (ROOT / name).parent
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert (folder / link).exists(), link
    tops = "service|simulator|client|tests|docs|migrations|benchmarks|deploy|api|store|transfer|ledger|core|security"
    for path in re.findall(rf"`((?:{tops})/[\w./-]+)`", text):
        if "NAME" not in path:
            assert any((ROOT / top / path).exists() for top in ("", "service/prudent")), path


def test_contributing_names_what_there_is() -> None:
    """Commands and names that a newcomer copies."""
    text = read("CONTRIBUTING.md")
    targets = set(re.findall(r"^([a-z]+):", read("Makefile"), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z]+)", text, re.MULTILINE))
    assert {"check", "test", "lock"} <= named <= targets
    for module in re.findall(r"python -m ((?:docs|tests)[\w.]+)", text):
        assert (ROOT / module.replace(".", "/")).with_suffix(".py").exists(), module
    for heading in ("a risk measure", "an estimator", "a column of decisions", "a route"):
        assert f"\n## How to add {heading}\n" in text
    for word in ("MEASURES", "INSTANCES", "REVISIONS", "DecisionRow", "DecisionReply", "AlgorithmName"):
        assert any(re.search(rf"\b{word}\b", path.read_text(encoding="utf-8")) for path in sources()), word


def sources() -> list[Path]:
    return [path for top in ("service", "simulator", "tests") for path in (ROOT / top).rglob("*.py")]


def test_the_workflows_run_what_a_developer_runs() -> None:
    """A second list of steps would drift from the first."""
    assert (ROOT / ".ci/run").stat().st_mode & 0o111
    assert {"make test", "exec make slow"} <= set(read(".ci/run").splitlines())
    steps = [step.get("run", "") for step in loaded(".github/workflows/ci.yml")["jobs"]["test"]["steps"]]
    assert ".ci/run" in steps
    ((hook,),) = (repo["hooks"] for repo in loaded(".pre-commit-config.yaml")["repos"])
    assert (hook["entry"], hook["language"]) == ("make check", "system")
    release = read(".github/workflows/release.yml")
    for part in ("pip wheel", "npm pack", "docker build", "cyclonedx", 'tags: ["v*"]'):
        assert part in release


def test_the_paper_is_cited() -> None:
    """The method is not ours."""
    (paper,) = loaded("CITATION.cff")["references"]
    assert [author["family-names"] for author in paper["authors"]] == ["Saux", "Maillard"]
    assert (paper["title"], paper["year"]) == ("Risk-aware linear bandits with convex loss", 2023)


def test_internals_of_dependencies_are_bounded_and_have_a_test() -> None:
    """Any release of theirs may change what is not documented; whoever moves a bound looks here."""
    row = r"^\| `([a-z-]+)` \| .+ \| `(prudent/\S+)` \| .+ \| `(\S+)::(\w+)` \|$"
    rows = re.findall(row, read("docs/dependencies.md"), re.MULTILINE)
    assert len(rows) >= 5
    project = tomllib.loads(read("pyproject.toml"))["project"]
    texts = [*project["dependencies"], *(text for extra in project["optional-dependencies"].values() for text in extra)]
    bounded = {canonicalize_name(one.name) for one in map(Requirement, texts) if "<" in str(one.specifier)}
    assert {name for name, *_ in rows} == bounded
    for name, module, file, test in rows:
        imported = rf"^(?:from|import) {name.replace('-', '_')}\b"
        assert re.search(imported, read(f"service/{module}"), re.MULTILINE), module
        assert f"def {test}(" in read(file), test


def test_the_threats_name_tests_that_exist() -> None:
    """A page on what is prevented is worth as much as the tests that it names."""
    file, named = "", 0
    for path, name in re.findall(r"`(?:(tests/[\w/]+\.py)(?:::)?)?(test_\w+)?`", read("docs/threats.md")):
        file = path or file
        if path or name:
            assert not name or f"def {name}(" in read(file), (file, name)
            named += 1
    assert named > 30
