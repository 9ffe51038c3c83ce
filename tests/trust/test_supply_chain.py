"""R35: what is shipped is pinned, listed, and bounded where its internals are used."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.promises import Promise
from tests.servers import ROOT

IMAGES = ("Dockerfile", "docker-compose.yml", "docker-compose.demo.yml")
OURS = ("prudent:", "prudent-simulator:")


def sbom(lock: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "deploy/sbom.py", str(lock)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)


def base_images() -> list[str]:
    """Every image of others that is built on or run."""
    found: list[str] = []
    for name in IMAGES:
        text = (ROOT / name).read_text(encoding="utf-8")
        stages = set(re.findall(r"^FROM \S+ AS (\S+)$", text, re.MULTILINE))
        named = re.findall(r"^\s*(?:FROM|image:) (\S+)", text, re.MULTILINE)
        found += [one for one in named if one not in stages and not one.startswith(OURS)]
    return found


def test_what_is_shipped_is_pinned_and_listed(promise: Promise) -> None:
    """R35. Whoever answers for a deployment must be able to say what is in it, and get the same tomorrow."""
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", lock, re.MULTILINE))
    found = json.loads(sbom("requirements.lock").stdout)
    listed = {one["name"]: one["version"] for one in found["components"]}
    hashes = sum(len(one["hashes"]) for one in found["components"])
    images = base_images()
    by_digest = [one for one in images if re.fullmatch(r"[a-z/-]+:[\w.-]+@sha256:[0-9a-f]{64}", one)]
    promise(
        "R35",
        f"{len(listed)} of {len(pinned)} packages of the lock listed with {hashes:,} hashes; "
        f"{len(by_digest)} of {len(images)} base images pinned by digest",
    )
    assert listed == pinned
    assert hashes == lock.count("--hash=sha256:")
    assert set(images) - set(by_digest) == {"python:3.12-slim-bookworm"}  # built by tag, so that any builder can
    assert len(images) >= 6


def test_the_list_is_what_scanners_read() -> None:
    """CycloneDX 1.5: unique references, and dependencies between what is listed."""
    found = json.loads(sbom("requirements.lock").stdout)
    assert (found["bomFormat"], found["specVersion"], found["version"]) == ("CycloneDX", "1.5", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", found["serialNumber"])
    references = [one["bom-ref"] for one in found["components"]] + [found["metadata"]["component"]["bom-ref"]]
    assert len(set(references)) == len(references)
    needs = {one["ref"]: one["dependsOn"] for one in found["dependencies"]}
    assert set(needs) == set(references)
    assert {one for listed in needs.values() for one in listed} <= set(references)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = {Requirement(text).name for text in project["dependencies"]} - {"prudent-client"}
    named = {reference: reference.split("/")[1].split("@")[0] for reference in references}
    assert wanted <= {named[one] for one in needs[f"pkg:pypi/prudent@{project['version']}"]}


@pytest.mark.parametrize(("old", "new"), [(r" +--hash=\S+\n", ""), ("==", ">=")], ids=["no hash", "no version"])
def test_a_lock_that_pins_nothing_is_refused(tmp_path: Path, old: str, new: str) -> None:
    """The list would name what an installation need not be."""
    text = "a==1 \\\n    --hash=sha256:" + "0" * 64 + "\n    # via prudent (pyproject.toml)\n"
    lock = tmp_path / "lock"
    lock.write_text(text, encoding="utf-8")
    assert sbom(lock).returncode == 0
    lock.write_text(re.sub(old, new, text), encoding="utf-8")
    assert sbom(lock).returncode != 0


def test_images_are_moved_together(tmp_path: Path) -> None:
    """One that is left behind in a second file would be another program under the same name."""
    (tmp_path / "deploy").mkdir()
    for name in (*IMAGES, "deploy/pin-images.sh"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    docker = tmp_path / "docker"
    docker.write_text(f"#!/bin/sh\necho sha256:{'e' * 64}\n", encoding="utf-8")
    docker.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = ["sh", str(tmp_path / "deploy/pin-images.sh")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert "postgres:17-bookworm: sha256:" in done.stdout
    for name in IMAGES:
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert re.sub(r"@sha256:[0-9a-f]{64}", "", text) == re.sub(
            r"@sha256:[0-9a-f]{64}", "", (ROOT / name).read_text(encoding="utf-8")
        )
        assert set(re.findall(r"@sha256:([0-9a-f]{64})", text)) == (set() if name == "Dockerfile" else {"e" * 64})
