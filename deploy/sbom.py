"""The components of the service as a CycloneDX document, from a lock file.

    python deploy/sbom.py requirements.lock


Everything that the lock pins, with the hashes that an installation accepts and with who needs it. The document is a
function of the lock and the version: the same input gives the same bytes. It needs nothing but Python.
"""

import json
import re
import sys
import tomllib
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PIN = re.compile(r"([a-z0-9-]+)==([^ ;\\]+)(?: ; ([^\\]+?))? *\\?")
HASH = re.compile(r" +--hash=sha256:([0-9a-f]{64})")
NEEDED_BY = re.compile(r" +# +(?:via +)?(\S+)(?: \(pyproject\.toml\))?")


@dataclass
class Component:
    """A pinned package. marker: on which systems; needed_by: packages that require it."""

    name: str
    version: str
    marker: str | None
    hashes: list[str] = field(default_factory=list)
    needed_by: list[str] = field(default_factory=list)

    @property
    def purl(self) -> str:
        """Its package URL, which names it in every such document."""
        return f"pkg:pypi/{self.name}@{self.version}"


def read_lock(text: str) -> list[Component]:
    """What a lock file pins. Raises ValueError for a line that it does not know, or a package without a hash."""
    found: list[Component] = []
    for line in text.splitlines():
        if line.startswith("#") or line.strip() in {"", "# via"} or " -c " in line:
            continue
        if pin := PIN.fullmatch(line):
            found.append(Component(*pin.groups()))
        elif hashed := HASH.match(line):
            found[-1].hashes.append(hashed[1])
        elif needed := NEEDED_BY.fullmatch(line):
            found[-1].needed_by.append(needed[1])
        else:
            raise ValueError(f"not a line of a lock file: {line}")
    for one in found:
        if not one.hashes:
            raise ValueError(f"{one.name} has no hash")
    return found


def document(components: list[Component], version: str) -> dict[str, Any]:
    """The document."""
    root = f"pkg:pypi/prudent@{version}"
    names = {one.name: one.purl for one in components} | {"prudent": root}
    needs: dict[str, list[str]] = {purl: [] for purl in names.values()}
    for one in components:
        for user in one.needed_by:
            needs[names.get(user, root)].append(one.purl)
    listed = [
        {
            "type": "library",
            "bom-ref": one.purl,
            "name": one.name,
            "version": one.version,
            "purl": one.purl,
            "hashes": [{"alg": "SHA-256", "content": digest} for digest in one.hashes],
            **({"properties": [{"name": "prudent:marker", "value": one.marker}]} if one.marker else {}),
        }
        for one in components
    ]
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(listed, sort_keys=True) + version)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "bom-ref": root, "name": "prudent", "version": version, "purl": root}
        },
        "components": listed,
        "dependencies": [{"ref": purl, "dependsOn": sorted(set(needs[purl]))} for purl in sorted(needs)],
    }


def main() -> None:
    """Write the document of the named lock file to standard output."""
    components = read_lock(Path(sys.argv[1]).read_text(encoding="utf-8"))
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    sys.stdout.write(json.dumps(document(components, version), indent=2) + "\n")


if __name__ == "__main__":
    main()
