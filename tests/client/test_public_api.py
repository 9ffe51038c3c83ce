"""What others' code depends on: the client's exported names with their signatures, and what an installation brings."""

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from packaging.markers import Marker

import prudent_client
from prudent_client import Select
from prudent_client.encoding import decode, encode
from tests.client.conftest import Player
from tests.public_api import PACKAGES, exported, listing
from tests.scripted import Answer, Script
from tests.servers import clean_environment

PACKAGES_MAX = 12
BYTES_MAX = 30 * 10**6
OK: Answer = (200, {"content-type": "application/json"}, b"{}")


def test_the_interface_changes_on_purpose_only() -> None:
    """A renamed argument, or a name that is no longer exported, breaks programs that we do not see.

    If the change is meant: `python -m tests.public_api client > tests/client/public_api.txt`, and the changelog.
    """
    assert listing("client") == (Path(__file__).parent / "public_api.txt").read_text(encoding="utf-8")


def test_what_is_listed_can_be_imported() -> None:
    """A name in __all__ that is not there fails at the user's."""
    names = exported(PACKAGES["client"] / "__init__.py")
    assert names == sorted(set(names))
    assert set(names) == {name for name in prudent_client.__all__ if hasattr(prudent_client, name)}
    assert set(re.findall(r"^  (?:@.*\) )?(?:class )?(\w+)\(", listing("client"), re.MULTILINE)) == set(names)


def installed(name: str, seen: dict[str, int]) -> dict[str, int]:
    """The sizes in bytes of a distribution and all that it needs, by name."""
    name = re.sub(r"[-_.]+", "-", name).lower()
    if name not in seen:
        found = importlib.metadata.distribution(name)
        paths = (Path(str(found.locate_file(file))) for file in found.files or [])
        seen[name] = sum(path.stat().st_size for path in paths if path.is_file())
        for requirement in found.requires or []:
            needed = re.match(r"[\w.-]+", requirement)
            assert needed is not None, requirement
            if "extra ==" not in requirement and applies(requirement):
                installed(needed.group(), seen)
    return seen


def applies(requirement: str) -> bool:
    """Whether a requirement's marker, if it has one, holds here."""
    _, _, marker = requirement.partition(";")
    return not marker or Marker(marker).evaluate()


def test_an_installation_of_the_client_is_small() -> None:
    """An application that asks for decisions would carry SciPy and a web server."""
    found = installed("prudent-client", {})
    assert {"httpx", "pydantic"} <= found.keys()
    assert len(found) <= PACKAGES_MAX, sorted(found)
    assert sum(found.values()) < BYTES_MAX


def test_importing_the_client_loads_nothing_of_the_service() -> None:
    """A start would take a second, and fail where only the client is installed."""
    program = "import sys, prudent_client; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=clean_environment(),
        capture_output=True,
        timeout=60,
        text=True,
        check=True,
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "httpx" in loaded
    assert not loaded & {"prudent", "prudent_simulator", "numpy", "scipy", "orjson", "sqlalchemy", "fastapi"}
    assert not loaded & {"openfeature", "pandas"}  # the extras


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (np.array([1.5, 2.0]), b"[1.5,2.0]"),
        (np.array([[1, 2], [3, 4]]), b"[[1,2],[3,4]]"),
        (np.float64(0.1), b"0.1"),
        (np.float32(0.5), b"0.5"),
        (np.int64(3), b"3"),
        (np.bool_(True), b"true"),
        (float("nan"), b"null"),
        (np.array([1.0, np.inf]), b"[1.0,null]"),
        (0.1 + 0.2, b"0.30000000000000004"),
        ("Zürich", '"Zürich"'.encode()),
    ],
)
def test_numpys_values_are_sent_as_numbers(scripted: Script, play: Player, value: object, written: bytes) -> None:
    """Features come out of NumPy; JSON has no NaN, which the service then refuses with a reason."""
    scripted.answers = [OK]
    play(scripted.url, lambda client: client.request("POST", "/select", {"features": value}))
    assert scripted.requests[0].body == b'{"features":' + written + b"}"


class RowOfFrame:
    """What the client knows of a row of pandas: it is no mapping, and has values that stand for missing ones."""

    class NAType:
        """Neither true nor false, like pandas' own."""

        def __bool__(self) -> bool:
            raise TypeError

    def to_dict(self) -> dict[str, object]:
        return {
            "age": np.float64(33),
            "plan": "pro",
            "income": float("nan"),
            "city": self.NAType(),
            "mobile": np.bool_(1),
        }


@pytest.mark.parametrize("features", [RowOfFrame(), RowOfFrame().to_dict()], ids=["row", "mapping"])
def test_values_by_name_are_sent_with_what_is_missing(scripted: Script, play: Player, features: object) -> None:
    """A row of a frame would be sent as its names, or a missing value as a text."""
    scripted.answers = [OK]
    arms = {"a": features, "b": None, "c": [1, 2]}
    body = encode(Select(campaign_id="c", decision_id="d", context=features, arms=arms).body())
    play(scripted.url, lambda client: client.request("POST", "/select", decode(body)))
    sent = decode(scripted.requests[0].body)
    expected = {"age": 33.0, "plan": "pro", "income": None, "city": None, "mobile": True}
    assert sent["context"] == expected
    assert sent["arms"] == [
        {"arm_id": "a", "features": expected},
        {"arm_id": "b"},
        {"arm_id": "c", "features": [1.0, 2.0]},
    ]


@pytest.mark.parametrize("value", [object(), "\ud800"])
def test_what_json_cannot_express_is_refused_before_it_is_sent(value: object) -> None:
    """The service would answer 400, after seven attempts of a program that cannot work."""
    with pytest.raises(TypeError, match="cannot be written as JSON"):
        encode({"features": value})
