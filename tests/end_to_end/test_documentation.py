"""The documentation: what it shows happens, what it cannot show it says, and it builds as a site without a network."""

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest

from tests.conftest import MakeServer
from tests.machine import missing
from tests.pages import PRINTED_URL, PROGRAMS, Block, assert_as_shown, blocks_of, pages, run, steps_of
from tests.servers import ROOT, clean_environment

BUILD_SECONDS_MAX = 300
PAGES = pages()
WITH_STEPS = [page for page in PAGES if steps_of(page)]
LANGUAGES = {"bash", "ini", "javascript", "json", "python", "text", "yaml"}
RUN_ELSEWHERE = {"javascript"}
"""By tests/clients/test_javascript.py, where the packages are that these programs import."""
WRITTEN_BY_LONG_RUNS = {"coverage.md", "performance.md", "reliability.md", "results.md"}
"""Reports of measurements: their commands take from minutes to hours, and are tested where they live."""
FETCHED = ("src", "srcset", "data", "poster", "action")
"""Attributes with an address that a browser goes to without being asked."""
COMMANDS = r"(?:\.venv/bin/)?(?:prudent|prudent-simulator|python3?|pip|make|curl|docker|pg_dump|pg_restore|export) "


def name_of(page: Path) -> str:
    return os.fspath(page.relative_to(ROOT))


@pytest.mark.slow
@pytest.mark.parametrize("page", WITH_STEPS, ids=name_of)
def test_what_a_page_shows_is_what_happens(page: Path, make_server: MakeServer, tmp_path: Path) -> None:
    """A newcomer pastes every block of a page in order, with a new server running, and compares what is printed."""
    if shutil.which("curl") is None:
        missing("curl is not installed")
    steps, url, environment = steps_of(page), PRINTED_URL, {}
    if any(url in step.program.text for step in steps):
        (tmp_path / "data").mkdir()
        url = make_server(f"sqlite:///{tmp_path}/data/prudent.db", arguments=["--demo"]).url
        (tmp_path / ".env").write_text("PRUDENT_DATABASE_URL=sqlite:///data/prudent.db\n", encoding="utf-8")
        environment["PRUDENT_ENV_FILE"] = ".env"  # as `make run` writes it
    for step, printed in zip(steps, run(steps, url, tmp_path, environment), strict=True):
        assert_as_shown(step, printed)


def test_the_pages_with_snippets_are_the_ones_expected() -> None:
    """If the search for blocks broke, all pages would pass by having none."""
    tested = {page.name: len(steps_of(page)) for page in WITH_STEPS}
    for page, least in {"README.md": 7, "tutorial.md": 9, "api.md": 18, "migrating.md": 4, "operations.md": 4}.items():
        assert tested.get(page, 0) >= least, page


def test_every_block_is_run_or_says_why_not() -> None:
    """A snippet that nobody runs goes stale. Prints those that are not run (pytest -s)."""
    left_out = []
    for page in PAGES:
        blocks = blocks_of(page)
        assert page.read_text(encoding="utf-8").count("\n```") == 2 * len(blocks), f"{page}: a fence is not closed"
        for block, before in zip(blocks, [None, *blocks], strict=False):
            assert block.language in LANGUAGES, f"{block.place}: a block needs a language of {sorted(LANGUAGES)}"
            if block.reason is not None:
                assert len(block.reason) > len("it is long"), block.place
                left_out.append(f"{block.place}: {block.reason}")
            elif block.language == "json":
                assert is_shown_by(block, before), f"{block.place}: no block above it prints this"
            else:
                is_tested = block.language in PROGRAMS | RUN_ELSEWHERE | {"text"}
                assert is_tested, f"{block.place}: say how it is tested, or why not"
    print("\n".join(["", "not run:", *left_out]))  # noqa: T201


def is_shown_by(block: Block, before: Block | None) -> bool:
    return before is not None and block.follows and before.language in PROGRAMS and before.reason is None


@pytest.mark.parametrize("page", PAGES[1:], ids=name_of)
def test_commands_are_in_fenced_blocks(page: Path) -> None:
    """An indented command looks the same to a reader and is not run."""
    if page.name in WRITTEN_BY_LONG_RUNS:
        return
    assert not re.findall(rf"\n\n    +({COMMANDS}.*)", page.read_text(encoding="utf-8")), page


def test_every_call_is_described(client: httpx.Client) -> None:
    """A call that no page names will not be found."""
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    paths = client.get("/openapi.json").json()["paths"]
    assert len(paths) >= 13
    for path, methods in paths.items():
        for method in methods:
            assert f"`{method.upper()} {path}`" in text, f"{method.upper()} {path} is on no page"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. `--strict` fails for a warning: a dead link, a page of the navigation that is not there."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=clean_environment({"NO_MKDOCS_2_WARNING": "1"}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=BUILD_SECONDS_MAX,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


class Loads(HTMLParser):
    """Collects what a browser fetches to show a page: links that a reader may click are not among it."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "link" and "canonical" not in (given.get("rel") or ""):
            self.addresses.append(given.get("href") or "")
        elif tag not in {"a", "link"}:
            self.addresses += [given[name] or "" for name in FETCHED if name in given]


def test_the_site_fetches_nothing_from_elsewhere(site: Path) -> None:
    """Whoever runs this may have no network, and no page should tell others that it was read."""
    built = sorted(site.rglob("*.html"))
    assert len(built) > len([page for page in PAGES if page.parent == ROOT / "docs"])
    for page in built:
        loads = Loads()
        loads.feed(page.read_text(encoding="utf-8"))
        assert len(loads.addresses) >= 3, page  # style sheets and scripts: the parser sees them
        assert not [address for address in loads.addresses if re.match(r"(https?:)?//", address)], page
    sheets = sorted(site.rglob("*.css"))
    assert sheets
    for sheet in sheets:
        assert not re.findall(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", sheet.read_text(encoding="utf-8")), sheet


def test_formulas_are_shown_without_a_script(site: Path) -> None:
    """Otherwise the page shows raw LaTeX, or letters that browsers draw as if they were others."""
    page = (site / "mathematics.html").read_text(encoding="utf-8")
    formulas = re.findall(r"<math .*?</math>", page, re.DOTALL)
    assert len(formulas) > 300
    assert 'class="arithmatex"' not in page
    assert not [formula for formula in formulas if "\\" in formula or "double-struck" in formula]


def test_the_search_works_from_a_file(site: Path) -> None:
    """From the disk a browser fetches no index and starts no worker: both must be scripts of the page."""
    assert "downside_weight" in (site / "search" / "search_index.js").read_text(encoding="utf-8")
    assert 'src="building/iframe-worker.js"' in (site / "index.html").read_text(encoding="utf-8")
    assert (site / "building" / "iframe-worker.js").is_file()
