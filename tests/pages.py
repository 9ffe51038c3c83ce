"""The documentation's fenced blocks, run as a reader would type them: in order, in one terminal, in one folder.

A page's `bash` and `python` blocks become one script, so a variable that one block sets is there in the next. A `json`
block right below one shows what it answers, in part and rounded; a `text` block shows all that it prints. A block that
cannot be run has the comment `<!-- not run: REASON -->` above it.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.servers import ROOT, clean_environment

PRINTED_URL = "http://127.0.0.1:8000"
PRINTED_DIGITS = 1e-3
PAGE_SECONDS_MAX = 600
SEPARATOR = "\x1e"
PROGRAMS = {"bash", "python"}
SHOWN = {"json", "text"}

_FENCED = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]*?) -->\n\n?)?^```(?P<language>[^\n]*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Block:
    """A fenced block. line: of its fence. reason: why it is not run. follows: it stands right below the one before."""

    page: Path
    line: int
    language: str
    text: str
    reason: str | None
    follows: bool

    @property
    def place(self) -> str:
        """Where it is, as editors take it."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True)
class Step:
    """A block that is run, and what the page says that it prints."""

    program: Block
    shown: Block | None


def pages() -> list[Path]:
    """The README and every page under docs/."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks_of(page: Path) -> list[Block]:
    """The fenced blocks of a page."""
    text = page.read_text(encoding="utf-8")
    blocks: list[Block] = []
    end = 0
    for found in _FENCED.finditer(text):
        line = text.count("\n", 0, found.start("language")) + 1
        follows = bool(blocks) and not text[end : found.start()].strip()
        blocks.append(Block(page, line, found["language"], found["text"], found["reason"], follows))
        end = found.end()
    return blocks


def steps_of(page: Path) -> list[Step]:
    """What is run of a page, in its order."""
    blocks = blocks_of(page)
    steps = []
    for block, below in zip(blocks, [*blocks[1:], None], strict=False):
        if block.language in PROGRAMS and block.reason is None:
            is_shown = below is not None and below.follows and below.language in SHOWN
            steps.append(Step(block, below if is_shown else None))
    return steps


def run(steps: list[Step], url: str, folder: Path, environment: Mapping[str, str] | None = None) -> list[str]:
    """What each step printed, on a server at this address. Fails the test at the first step that fails."""
    script = []
    for number, step in enumerate(steps):
        typed = step.program.text.replace(PRINTED_URL, url)
        script.append(f"printf '\\036'  # {step.program.place}")
        if step.program.language == "python":
            path = folder / f"block-{number}.py"
            path.write_text(typed, encoding="utf-8")
            typed = f"python {path.name}"
        script.append(typed)
    programs = os.fspath(Path(sys.executable).parent)
    own = {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": os.fspath(ROOT), "COLUMNS": "120", "no_proxy": "*"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(script)],  # noqa: S607
        cwd=folder,
        env=clean_environment({**own, **(environment or {})}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PAGE_SECONDS_MAX,
        text=True,
        check=False,
    )
    printed = done.stdout.split(SEPARATOR)[1:]
    if done.returncode != 0:
        pytest.fail(f"{steps[len(printed) - 1].program.place} failed ({done.returncode}):\n{printed[-1]}{done.stderr}")
    return printed


def assert_as_shown(step: Step, printed: str) -> None:
    """What a step printed is what the page shows below it."""
    if step.shown is None:
        return
    where = step.shown.place
    if step.shown.language == "text":
        lines, expected = ([line.rstrip() for line in text.strip().split("\n")] for text in (printed, step.shown.text))
        assert lines == expected, where
        return
    answers, shown = documents(printed), documents(step.shown.text)
    assert len(answers) == len(shown), f"{where}: {printed}"
    for answer, part in zip(answers, shown, strict=True):
        assert_part(part, answer, where)


def documents(text: str) -> list[Any]:
    """JSON values that follow each other."""
    found, place, decoder = [], 0, json.JSONDecoder()
    while text[place:].strip():
        place += len(text[place:]) - len(text[place:].lstrip())
        value, place = decoder.raw_decode(text, place)
        found.append(value)
    return found


def assert_part(printed: Any, answered: Any, where: str) -> None:
    """All that is printed is in the answer; numbers to the digits printed."""
    if isinstance(printed, dict):
        for name, value in printed.items():
            assert name in answered, f"{where}: {name} is not answered"
            assert_part(value, answered[name], f"{where}: {name}")
    elif isinstance(printed, list):
        assert len(printed) == len(answered), where
        for position, (one, other) in enumerate(zip(printed, answered, strict=True)):
            assert_part(one, other, f"{where}.{position}")
    elif isinstance(printed, float):
        assert answered == pytest.approx(printed, abs=PRINTED_DIGITS), where
    else:
        assert answered == printed, where
