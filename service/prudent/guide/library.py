"""The folder of the documentation: which pages there are, in which order, and what they say about some words."""

import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from math import log1p
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from prudent.api.assets import Asset
from prudent.guide.sections import Section, sections

if TYPE_CHECKING:
    from prudent.guide.markdown import Page

FOUND_MAX = 20
WORDS_MAX = 8
FOLDERS_OF_FILES = "pictures", "notebooks"
SHOWN_BEFORE, SHOWN_AFTER = 60, 140
"""Characters around the first word found."""
TITLE_WEIGHT, HEADING_WEIGHT = 8, 5
MEDIA_TYPES = {
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".webp": "image/webp",
    ".csv": "text/csv; charset=utf-8",
    ".ipynb": "application/x-ipynb+json",
}
"""Of the files beside the pages."""
_ENTRY = re.compile(r"^ +- (?P<title>[^\n]+?):(?: (?P<page>\S+)\.md)?$", re.MULTILINE)


class Chapter(NamedTuple):
    """Pages that belong together: name and title of each."""

    title: str
    pages: list[tuple[str, str]]


class Found(NamedTuple):
    """A section with the words that were looked for. excerpt: pieces of it, every second one of them a word found."""

    section: Section
    excerpt: list[str]


def folder_of_pages() -> Path:
    """Where the pages are: in the installed package or, in a checkout, at its top."""
    package = Path(__file__).resolve().parent
    installed = package / "pages"
    return installed if installed.is_dir() else package.parents[2] / "docs"


class Library:
    """Pages, and the files beside them, by name. Each is read, and a page rendered, when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        named = {path.relative_to(folder).with_suffix("").as_posix(): path for path in sorted(folder.rglob("*.md"))}
        self.names = list(named)
        self._paths = named
        self._pages: dict[str, Page] = {}
        self._files = {
            path.relative_to(folder).as_posix(): path
            for name in FOLDERS_OF_FILES
            for path in folder.glob(f"{name}/**/*")
            if path.suffix in MEDIA_TYPES
        }
        self._assets: dict[str, Asset] = {}

    @cached_property
    def chapters(self) -> list[Chapter]:
        """The navigation of the site, as mkdocs.yml has it; none where only the packages were copied."""
        listings = (self._folder / "mkdocs.yml", self._folder.parent / "mkdocs.yml")
        text = next((one.read_text(encoding="utf-8") for one in listings if one.is_file()), "")
        found: list[Chapter] = []
        for entry in _ENTRY.finditer(text.partition("\nnav:\n")[2]):
            if entry["page"] is None:
                found.append(Chapter(entry["title"], []))
            else:
                found[-1].pages.append((entry["page"], entry["title"]))
        return found

    def page(self, name: str) -> "Page | None":
        """A page by its name, such as `tutorial`; None if there is none. The first time it takes some milliseconds."""
        if name not in self._pages and name in self._paths:
            from prudent.guide.markdown import (
                render,  # with its two libraries a tenth of a second, which no start needs
            )

            self._pages[name] = render(self._paths[name].read_text(encoding="utf-8"))
        return self._pages.get(name)

    def file(self, name: str) -> Asset | None:
        """A picture, a notebook or a table by its name, such as `pictures/bonus.svg`."""
        if name not in self._assets and name in self._files:
            path = self._files[name]
            self._assets[name] = Asset(path.read_bytes(), MEDIA_TYPES[path.suffix])
        return self._assets.get(name)

    @cached_property
    def _index(self) -> "_Index":
        return _Index(
            one for name, path in self._paths.items() for one in sections(name, path.read_text(encoding="utf-8"))
        )

    def search(self, query: str) -> list[Found]:
        """The sections that have all words of the query, or words that begin with them; the best come first."""
        wanted = list(dict.fromkeys(_words_of(query)))[:WORDS_MAX]
        return [_found(section, wanted) for section in self._index.best(wanted)]


class _Index:
    """Which sections have a word, and how much it weighs there: a search costs little, as everybody may search."""

    def __init__(self, parts: Iterable[Section]) -> None:
        self._sections = list(parts)
        weights: defaultdict[str, defaultdict[int, float]] = defaultdict(lambda: defaultdict(float))
        for place, section in enumerate(self._sections):
            for word, times in Counter(_words_of(section.text)).items():
                weights[word][place] += log1p(times)
            for text, weight in ((section.heading, HEADING_WEIGHT), (section.title, TITLE_WEIGHT)):
                for word in set(_words_of(text)):
                    weights[word][place] += weight
        self._weights = weights
        self._words = sorted(weights)

    def best(self, wanted: list[str]) -> list[Section]:
        """The sections with all of these words, or words that begin with them."""
        found = [self._with(word) for word in wanted]
        shared = set[int]().union(*found).intersection(*found)
        ranked = sorted(shared, key=lambda place: (-sum(one[place] for one in found), place))
        return [self._sections[place] for place in ranked[:FOUND_MAX]]

    def _with(self, word: str) -> dict[int, float]:
        """Each section's weight for a word; one of a single letter has to be there as it is."""
        found: defaultdict[int, float] = defaultdict(float)
        for place in range(bisect_left(self._words, word), len(self._words)):
            other = self._words[place]
            if not other.startswith(word) or (len(word) == 1 and other != word):
                break
            for section, weight in self._weights[other].items():
                found[section] += weight
        return found


def _words_of(text: str) -> list[str]:
    """Words in lower case, without an s at the end, so that one finds many."""
    return [word.removesuffix("s") or word for word in re.findall(r"[a-z0-9]+", text.lower())]


def _found(section: Section, wanted: list[str]) -> Found:
    """The section with an excerpt around the first of the words."""
    any_word = re.compile(rf"\b({'|'.join(map(re.escape, wanted))})", re.IGNORECASE)
    first = any_word.search(section.text)
    start = max(0, first.start() - SHOWN_BEFORE) if first else 0
    start = section.text.rfind(" ", 0, start) + 1
    shown = section.text[start : start + SHOWN_BEFORE + SHOWN_AFTER]
    return Found(section, list(_pieces(shown, any_word)))


def _pieces(text: str, words: re.Pattern[str]) -> Iterator[str]:
    """The text in pieces; those at odd places are the words."""
    end = 0
    for found in words.finditer(text):
        yield text[end : found.start()]
        yield found[0]
        end = found.end()
    yield text[end:]
