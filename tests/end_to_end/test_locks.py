"""The lock files can be trusted: pinned names with hashes, nothing of one machine, in agreement with the project."""

import re
import tomllib

import pytest

from tests.servers import ROOT

LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-build.lock", "requirements-all.lock")


def pinned(lock: str) -> dict[str, str]:
    """The versions that a lock file pins, by package name."""
    lines = (ROOT / lock).read_text(encoding="utf-8").splitlines()
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", "\n".join(lines), flags=re.MULTILINE))


def named(requirements: list[str]) -> set[str]:
    """The package names of requirements such as `psycopg[binary]>=3.2`."""
    names = (re.match(r"[A-Za-z0-9._-]+", requirement) for requirement in requirements)
    return {re.sub(r"[._]", "-", name.group().lower()) for name in names if name is not None}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_holds_pinned_names_and_hashes_alone(lock: str) -> None:
    """An index address or a path of one machine would break, or redirect, everybody else's installation."""
    pin = r"[a-z0-9-]+==[0-9A-Za-z.+!]+( ; [^:/]+)? \\"
    digest = r" {4}--hash=sha256:[0-9a-f]{64}( \\)?"
    comment = r"( *#[^/]*)?"  # no address and no path
    for line in (ROOT / lock).read_text(encoding="utf-8").splitlines():
        assert re.fullmatch(f"{pin}|{digest}|{comment}", line), line


def test_the_locks_agree_with_the_project_and_each_other() -> None:
    """A dependency added without `make lock` would be missing on a fresh machine."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    runtime, dev, build, everything = (pinned(lock) for lock in LOCKS)
    own = {"prudent-client"}  # installed from the checkout
    dependencies = named(project["project"]["dependencies"])
    extras = {name: named(needed) for name, needed in project["project"]["optional-dependencies"].items()}
    assert own <= dependencies
    assert (dependencies - own) | extras["postgres"] <= runtime.keys()
    assert not (extras["simulator"] | extras["parquet"] | extras["mcp"]) & runtime.keys()  # the image serves
    assert (dependencies - own).union(*extras.values()) <= everything.keys()
    assert named(project["build-system"]["requires"]) <= build.keys()
    for group in project["dependency-groups"].values():
        assert named([name for name in group if isinstance(name, str)]) <= dev.keys()
    assert runtime.items() <= everything.items() <= dev.items()
    assert build.items() <= dev.items()
