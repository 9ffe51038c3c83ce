"""The documentation as the running service shows it: all of it, without a network, a key or a script."""

import re
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx
import pytest
import yaml

from prudent.guide.library import Library, folder_of_pages
from prudent.guide.markdown import render
from tests.api.contract import problem
from tests.api.keys import ADMIN_KEY
from tests.conftest import MakeServer
from tests.pages import pages
from tests.servers import ROOT

LIBRARY = Library(folder_of_pages())


class Seen(HTMLParser):
    """Collects where a page leads, what it loads, and the anchors that it has."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.add(tag)
        self.anchors |= {given["id"] or ""} if "id" in given else set()
        self.links += [given[name] or "" for name in ("href", "src") if name in given]


def seen_on(reply: httpx.Response) -> Seen:
    assert reply.status_code == 200, reply.url
    found = Seen()
    found.feed(reply.text)
    return found


def test_every_link_of_every_page_leads_somewhere(client: httpx.Client) -> None:
    """The guide is read where no other copy can be reached."""
    read = {f"/guide/{name}": seen_on(client.get(f"/guide/{name}")) for name in LIBRARY.names}
    assert len(read) == len(pages()) - 1 > 40  # all but the README
    followed: set[str] = set()
    for path, found in read.items():
        for link in found.links:
            target = urlsplit(urljoin(path, link))
            if target.netloc:
                continue
            where = f"{target.path}?{target.query}" if target.query else target.path
            if where not in read and where not in followed:
                assert client.get(where).status_code in {200, 307}, f"{path}: {link}"
                followed.add(where)
            if target.fragment and target.path in read:
                assert target.fragment in read[target.path].anchors, f"{path}: {link}"


def test_a_page_loads_nothing_from_elsewhere_and_runs_nothing(client: httpx.Client) -> None:
    """A page of the service may not tell others that it is read."""
    for name in LIBRARY.names:
        reply = client.get(f"/guide/{name}")
        found = seen_on(reply)
        assert not found.tags & {"script", "iframe", "style", "object"}, name
        assert " style=" not in reply.text, name  # the policy below would not apply it
        assert "default-src 'none'" in reply.headers["content-security-policy"]


def test_the_navigation_is_that_of_the_site(client: httpx.Client) -> None:
    """A page that is in none of them is found by nobody."""
    text = re.sub(r"!!\S+", "", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    nav: list[dict[str, list[dict[str, str]]]] = yaml.safe_load(text)["nav"]
    wanted: Any = [
        (title, [(page.removesuffix(".md"), name) for entry in entries for name, page in entry.items()])
        for chapter in nav
        for title, entries in chapter.items()
    ]
    assert [tuple(chapter) for chapter in LIBRARY.chapters] == wanted
    links = seen_on(client.get("/guide/tutorial")).links
    assert {f"/guide/{page}" for chapter in LIBRARY.chapters for page, _ in chapter.pages} <= set(links)
    assert client.get("/guide").headers["location"] == "/guide/index"


@pytest.mark.parametrize(
    ("query", "page"),
    [
        ("categorical", "features"),
        ("delayed rewards", "faq"),
        ("nginx", "operations"),
        ("Backups", "operations"),
        ("risk tolerance", "risk-measures"),
        ("holdout lift", "reports"),
    ],
)
def test_the_search_finds_what_people_call_it(client: httpx.Client, query: str, page: str) -> None:
    """They do not know yet what we call it."""
    reply = client.get("/guide/search", params={"q": query})
    found = [link for link in seen_on(reply).links if "#" in link and link.startswith("/guide/")]
    assert found[0].startswith(f"/guide/{page}#")
    assert "<mark>" in reply.text
    path, anchor = found[0].split("#")
    assert anchor in seen_on(client.get(path)).anchors


@pytest.mark.parametrize("query", ["", "   ", "xyzzy", "<script>alert(1)</script>", "x" * 5_000, "%00 .*( ["])
def test_a_search_for_anything_is_a_page(client: httpx.Client, query: str) -> None:
    """What was typed is shown again, and must stay text."""
    reply = client.get("/guide/search", params={"q": query})
    assert "script" not in seen_on(reply).tags


def test_formulas_are_mathml(client: httpx.Client) -> None:
    """Without a script, and without another host's, a browser shows no LaTeX."""
    text = client.get("/guide/mathematics").text
    assert text.count("<math ") > 300
    assert "$" not in text
    assert "\\" not in "".join(re.findall(r"<math .*?</math>", text, re.DOTALL))


@pytest.mark.parametrize("name", ["none", "../pyproject", "measurements/steps", "measurements/steps.py", "mkdocs.yml"])
def test_what_is_no_page_is_not_shown(client: httpx.Client, name: str) -> None:
    """The folder has more than pages."""
    problem(client.get(f"/guide/{name}"), 404)


def test_pages_are_kept_by_browsers(client: httpx.Client) -> None:
    """A page of 200 KB goes over a phone's network once, and compressed."""
    first = client.get("/guide/mathematics")
    assert first.headers["content-encoding"] == "gzip"
    again = client.get("/guide/mathematics", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get("/guide/pictures/bonus.svg").headers["content-type"] == "image/svg+xml"
    picture = client.get("/guide/pictures/states/new-phone-light.webp")
    assert picture.headers["content-type"] == "image/webp"


def test_the_guide_needs_no_key(make_server: MakeServer, sqlite_database: str) -> None:
    """Whoever has no key yet reads there how to get one."""
    server = make_server(sqlite_database, environment={"PRUDENT_ADMIN_KEY": ADMIN_KEY})
    with httpx.Client(base_url=server.url, trust_env=False) as http:
        assert http.get("/guide/security").status_code == 200
        assert http.get("/guide/search", params={"q": "keys"}).status_code == 200
        problem(http.get("/campaigns"), 401)


def test_markdown_is_read_as_the_pages_use_it() -> None:
    """Two readers of the same text, this one and that of the site, must agree."""
    page = render(
        "# A `code` and $x^2$\n\nSee [there](b.md#c), [out](https://example.org/x.md).\n\n## Same\n\n## Same\n\n"
        "$$a\n+b$$\n\n| n | m |\n|---|---:|\n| 1 | $5 and $6 |\n\n```bash\necho $HOME $PWD\n```\n"
    )
    assert page.title == "A code and x^2"
    assert page.headings == [("same", "Same"), ("same_1", "Same")]
    for expected in (
        '<h1 id="a-code-and-x2">',
        'href="b#c"',
        'href="https://example.org/x.md"',
        '<div class="scroll formula" tabindex="0"><math',
        '<td class="right">$5 and $6</td>',
        "echo $HOME $PWD",
    ):
        assert expected in page.html
