"""The core's interface: what the rest of the service, benchmarks and statisticians' scripts use of it."""

from pathlib import Path

from tests.public_api import listing


def test_the_interface_changes_on_purpose_only() -> None:
    """A renamed argument breaks scripts that we do not see.

    If the change is meant: `python -m tests.public_api core > tests/core/public_api.txt`.
    """
    assert listing("core") == (Path(__file__).parent / "public_api.txt").read_text(encoding="utf-8")


def test_what_is_exported_is_listed() -> None:
    """A class that a package exports from elsewhere would change unseen."""
    shown = listing("core")
    for name in ("class Expectile(", "class Ridge(", "class Policy", "class Confidence", "pack(", "MEASURES"):
        assert name in shown, name
