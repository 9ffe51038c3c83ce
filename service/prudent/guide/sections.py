"""The parts of the documentation's pages, for a search: found by their headings, without rendering anything."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_HEADING = re.compile(r"(#{1,4}) +(.+?)\s*$")
_MARKS = re.compile(r"!?\[([^\]]*)\]\([^)]*\)|<!--.*?-->|[`*|$]")
"""What is not part of the words: links keep their text."""


class Section(NamedTuple):
    """A part of a page below one heading: what a search finds. text: without Markdown's marks."""

    page: str
    title: str
    heading: str
    anchor: str
    text: str


def sections(page: str, text: str) -> Iterator[Section]:
    """The parts of a page, in its order. page: its name."""
    title = heading = anchor = ""
    anchors, lines, is_code = Anchors(), list[str](), False
    for line in text.splitlines():
        is_code ^= line.lstrip().startswith("```")
        found = None if is_code else _HEADING.match(line)
        if found is None:
            lines.append(line)
            continue
        if lines and title:
            yield Section(page, title, heading, anchor, _words(lines))
        heading, lines = _words([found[2]]), []
        anchor = anchors.of(heading)
        title = title or heading
    if title:
        yield Section(page, title, heading, anchor, _words(lines))


class Anchors:
    """Names of headings in addresses, as the site of `make docs` has them, so that links fit both."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def of(self, heading: str) -> str:
        """The name of the next heading of the page."""
        letters = unicodedata.normalize("NFKD", heading).encode("ascii", "ignore").decode()
        name = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", letters).strip().lower())
        number, free = 0, name
        while free in self._taken:
            number += 1
            free = f"{name}_{number}"
        self._taken.add(free)
        return free


def _words(lines: Sequence[str]) -> str:
    return " ".join(_MARKS.sub(lambda found: found[1] or " ", " ".join(lines)).split())
