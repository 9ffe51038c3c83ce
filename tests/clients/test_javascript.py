"""The JavaScript client: built and packed as it is published, and tested against a running service."""

import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route

from prudent_client import Client
from tests.conftest import migrate_empty
from tests.dashboard.conftest import browser  # noqa: F401  # a fixture
from tests.node import install, run
from tests.pages import PRINTED_URL, Block, blocks_of, pages
from tests.promises import Promise, length
from tests.servers import ROOT, Server

pytestmark = pytest.mark.slow

SOURCE = ROOT / "clients/javascript"
KEY = "a-key-of-more-than-32-characters-for-tests"
DEFAULTS = length("DEFAULTS", 20)
LATE_MS_MAX = 100
SERVICES_MIN = 6


def programs_of(page: Path) -> list[Block]:
    """What a page has others copy."""
    return [block for block in blocks_of(page) if block.language == "javascript" and block.reason is None]


PAGES = [page for page in (SOURCE / "README.md", *pages()) if programs_of(page)]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service with a key and the demo campaign."""
    directory = tmp_path_factory.mktemp("service")
    url = f"sqlite:///{directory}/prudent.db"
    migrate_empty(url)
    server = Server(url, directory / "log", environment={"PRUDENT_ADMIN_KEY": KEY}, arguments=["--demo"])
    server.start()
    yield server
    server.kill()
    print(server.log())  # noqa: T201


@dataclass(frozen=True)
class Package:
    """A built copy of the package, and a program's folder in which it is installed from what is published."""

    source: Path
    program: Path


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    """The package, from nothing but its sources and its lock."""
    directory = tmp_path_factory.mktemp("javascript")
    source, program = directory / "source", directory / "program"
    shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns("node_modules", "dist", "built"))
    install(source)
    run(["npm", "pack", "--pack-destination", directory], source)  # which builds it
    run(["npm", "run", "pretest"], source)
    (packed,) = directory.glob("*.tgz")
    program.mkdir()
    (program / "package.json").write_text('{"private": true, "type": "module"}', encoding="utf-8")
    # as an application without OpenFeature: nothing but the package itself
    run(["npm", "install", "--offline", "--no-audit", "--no-fund", packed], program)
    for name in ("server-sdk", "core"):
        shutil.copytree(source / "node_modules/@openfeature" / name, directory / "node_modules/@openfeature" / name)
    return Package(source, program)


def test_its_own_tests_pass(package: Package, service: Server) -> None:
    """The rest of the client's behaviour is tested in its language."""
    environment = {"PRUDENT_URL": service.url, "PRUDENT_API_KEY": KEY}
    told = run(["npm", "test", "--ignore-scripts"], package.source, environment)
    written = "".join(path.read_text(encoding="utf-8") for path in SOURCE.glob("test/*.test.ts"))
    (passed,) = re.findall(r"^\W*pass (\d+)$", told, re.MULTILINE)
    assert int(passed) == len(re.findall(r'^test\("', written, re.MULTILINE)) > 0, told


def test_its_types_are_those_of_the_service(package: Package, service: Server) -> None:
    """A field that the service has would be an error to the compiler of whoever uses it.

    If the change is meant: `npm run generate` in clients/javascript, with `make run` in another terminal.
    """
    before = (package.source / "src/schema.ts").read_text(encoding="utf-8")
    run(["npm", "run", "generate", "--", service.url], package.source)
    assert (package.source / "src/schema.ts").read_text(encoding="utf-8") == before


def test_nothing_else_is_published(package: Package) -> None:
    """An installation would bring tests and sources, or other packages."""
    installed = package.program / "node_modules/prudent-client"
    files = {str(path.relative_to(installed)) for path in installed.rglob("*") if path.is_file()}
    built = {name for name in files if re.fullmatch(r"dist/(cjs/)?[a-z]+(\.d\.ts|\.js)", name)}
    assert files - built == {"package.json", "README.md", "LICENSE", "dist/cjs/package.json"}
    names = {path.stem for path in (SOURCE / "src").iterdir()}
    assert built == {f"dist/{cjs}{name}{end}" for cjs in ("", "cjs/") for name in names for end in (".js", ".d.ts")}
    assert (installed / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert [path.name for path in installed.parent.iterdir() if path.name[0] != "."] == ["prudent-client"]
    described = json.loads((installed / "package.json").read_text(encoding="utf-8"))
    assert "dependencies" not in described
    assert described["license"] == "MIT"


def test_the_lock_names_no_registry() -> None:
    """It would be asked, although it may be reached from one network only."""
    lock = json.loads((SOURCE / "package-lock.json").read_text(encoding="utf-8"))
    packages = {name: one for name, one in lock["packages"].items() if name}
    assert len(packages) > 10
    assert all("resolved" not in one and one["integrity"].startswith("sha512-") for one in packages.values())


def test_the_pages_with_programs_are_the_ones_expected() -> None:
    """If the search for them broke, all pages would pass by having none."""
    assert {SOURCE / "README.md", ROOT / "docs/javascript.md"} <= set(PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_shows_runs(page: Path, package: Package, service: Server) -> None:
    """The first thing that a user copies would fail."""
    for block in programs_of(page):
        program = package.program / f"{page.stem}-{block.line}.js"
        program.write_text(block.text.replace(PRINTED_URL, service.url), encoding="utf-8")
        run(["node", program.name], package.program, {"PRUDENT_API_KEY": KEY})


def test_python_rewards_what_javascript_decided(package: Package, service: Server) -> None:
    """A user who decides in a web server and learns in a batch job has two languages and one subject."""
    with Client(service.url, api_key=KEY) as client:
        client.create_campaign(
            {
                "campaign_id": "both",
                "risk": {"measure": "mean"},
                "model": {"type": "multi-armed"},
                "arms": [{"arm_id": "a"}, {"arm_id": "b"}],
                "assignment": {"sticky_seconds": 31_622_400},
            }
        )
        program = package.program / "evaluate.js"
        program.write_text(EVALUATE, encoding="utf-8")
        subject = "ice cream / 世界"
        told = json.loads(run(["node", program.name, service.url, KEY, "both", subject], package.program))
        receipt = client.reward_subject("both", subject, 0.5)
        assert (receipt.decision_id, receipt.arm_id) == (told["flagMetadata"]["decisionId"], told["variant"])


EVALUATE = """
import { OpenFeature } from "@openfeature/server-sdk";
import { PrudentClient } from "prudent-client";
import { PrudentProvider } from "prudent-client/openfeature";

const [url, apiKey, flag, targetingKey] = process.argv.slice(2);
await OpenFeature.setProviderAndWait(new PrudentProvider(new PrudentClient(url, { apiKey, deadlineMs: 60_000 })));
console.log(JSON.stringify(await OpenFeature.getClient().getStringDetails(flag, "none", { targetingKey })));
"""


@pytest.mark.alone
def test_a_default_comes_by_the_deadline(package: Package, promise: Promise) -> None:
    """A page would wait for a service that has stopped."""
    told = json.loads(run(["node", "built/deadlines.js", str(DEFAULTS)], package.source))
    assert len(told) >= SERVICES_MIN
    for server, late_ms in told.items():
        late = f"{DEFAULTS:,} defaults, at most {late_ms / 1e3:+.3f} s after the deadline"
        promise("late", f"JavaScript, {server}: {late}")
    if DEFAULTS >= 1_000:  # shorter runs share the machine with other tests
        assert max(told.values()) <= LATE_MS_MAX


def test_it_runs_in_a_browser(package: Package, service: Server, browser: Browser) -> None:  # noqa: F811
    """The same files are served to pages; what only Node has would be missing there."""

    def serve(route: Route) -> None:
        name = route.request.url.rpartition("/client/")[2]
        route.fulfill(path=package.program / "node_modules/prudent-client/dist" / name, content_type="text/javascript")

    context = browser.new_context()
    page = context.new_page()
    page.route("**/client/*", serve)
    page.route("**/page", lambda route: route.fulfill(body="<!DOCTYPE html>", content_type="text/html"))
    page.goto(f"{service.url}/page")
    told = page.evaluate(IN_A_PAGE, KEY)
    context.close()
    assert told == {"duplicate": False, "title": "Not found", "default": "steady", "error": "UnreachableError"}


IN_A_PAGE = """async (apiKey) => {
  const { PrudentClient } = await import("/client/index.js");
  const client = new PrudentClient("/", { apiKey, deadlineMs: 60_000 });
  const decision = await client.select({ campaign_id: "demo" });
  const { duplicate } = await client.reward({ decision_id: decision.decision_id, reward: 1 });
  const { title } = await client.select({ campaign_id: "nobody" }).catch((error) => error);
  // a page may not ask another origin
  const stranger = new PrudentClient("http://prudent.invalid", { deadlineMs: 100 });
  const fallback = await stranger.select({ campaign_id: "demo" }, { default: "steady" });
  return { duplicate, title, default: fallback.arm_id, error: fallback.error.name };
}"""
