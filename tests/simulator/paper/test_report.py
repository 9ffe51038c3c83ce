"""The report on results that are made up: page, Markdown and CSV say the same as the cells."""

import csv
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import orjson
import pytest
from typer.testing import CliRunner

from prudent_simulator.__main__ import app
from prudent_simulator.paper.cells import Archive, PaperError
from prudent_simulator.paper.episodes import episode_lengths
from prudent_simulator.paper.measures import read_measures
from prudent_simulator.paper.page import write_report
from prudent_simulator.paper.results import load_results
from prudent_simulator.paper.rows import ROWS, Group, select_rows
from prudent_simulator.paper.runtimes import read_runtimes
from tests.simulator.paper.conftest import GRID, fill

MARKDOWN = "documents/results.md"


class Page(HTMLParser):
    """What a browser would fetch or follow, what stands in the cells of tables, and whether all tags are closed."""

    VOID = ("meta", "img", "link", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.links: list[str] = []
        self.cells: list[list[str]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "iframe", "object", "embed", "link"):
            self.fetched.append(tag)
        if source := given.get("src"):
            self.fetched.append(source)
        if tag == "a":
            self.links.append(given["href"] or "")
        if tag == "tr":
            self.cells.append([])
        if tag in ("td", "th"):
            self.cells[-1].append("")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.cells[-1][-1] += data


def measured(name: str) -> dict[str, object]:
    """What a run of an environment writes, without its curves."""
    final = {"percentile_5": 1.5, "percentile_25": 2.5, "median": 3.5, "percentile_75": 5.5, "percentile_95": 7.5}
    return {
        "environment": {"name": name, "description": "Offers"},
        "replications": 500,
        "rounds": 1_000,
        "algorithms": {one: {"final_regret": final | {"mean": 4.5}} for one in ("linucb", "linucb-cr")},
        "timings": {"pairs": 1_000_000, "total_seconds": 120.0},
    }


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a report with everything in it, as the command writes it: drawing takes seconds."""
    archive = fill(tmp_path_factory.mktemp("written"), ROWS)
    runtime = archive.directory / "runtime.json"
    runtime.write_bytes(orjson.dumps({"rounds": 30, "runs": 3, "seconds": {row.key: 0.125 for row in ROWS}}))
    measures = archive.directory / "measures"
    measures.mkdir()
    for name in ("cvar-0.1", "quantile-0.1"):
        (measures / f"{name}.json").write_bytes(orjson.dumps(measured(name)))
    options = ["--runtime", str(runtime), "--measures", str(measures), "--markdown", str(archive.directory / MARKDOWN)]
    result = CliRunner().invoke(app, ["report", str(archive.directory), *options])
    assert result.exit_code == 0, result.output
    return archive.directory / "report"


def final_regrets(written: Path, key: str) -> np.ndarray:
    """Read final regrets from the files, apart from the code under test."""
    files = sorted(path for path in (written.parent / "cells").glob("*.npz") if path.name.split(".")[0] == key)
    return np.concatenate([np.load(path)["regret"][:, -1] for path in files])


def test_the_page_needs_no_network(written: Path) -> None:
    """It is opened from a disk, on a train: all pictures are in it, nothing is fetched, and no link is dead."""
    text = (written / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == []
    assert len(page.fetched) == 14
    assert all(source.startswith("data:image/svg+xml;base64,") for source in page.fetched)
    assert "http:" not in text
    assert "https:" not in text
    assert not re.search(r"url\(|@import", text)
    ids = set(re.findall(r'id="([a-z]+)"', text))
    for link in page.links:
        assert link[1:] in ids if link.startswith("#") else (written / link).is_file(), link


def test_every_figure_is_there_as_png_and_svg(written: Path) -> None:
    """For slides, and for print."""
    names = {"episode-lengths", "conditioning-3"}
    names |= {f"{part}-{one}" for part in ("regret", "beside", "bonus") for one in ("1", "2-disjoint", "2-shared", "3")}
    files = {path.name: path.stat().st_size for path in (written / "figures").iterdir()}
    assert set(files) == {f"{name}.{kind}" for name in names for kind in ("png", "svg")}
    assert min(files.values()) > 5_000


def test_markdown_page_and_csv_agree_with_the_cells(written: Path) -> None:
    """A number that differs between them, or from what was played, would cost all trust."""
    markdown = (written / "report.md").read_text(encoding="utf-8")
    rows = Page((written / "report.html").read_text(encoding="utf-8")).cells
    for row in ROWS:
        final = np.sort(final_regrets(written, row.key))
        assert len(final) == 5
        (line,) = [text for text in markdown.splitlines() if text.startswith(f"| {row.key} | {row.label} |")]
        (shown,) = [cells for cells in rows if cells[:2] == [row.key, row.label]]
        assert [cell.strip() for cell in line.strip("|").split("|")] == shown
        # Of five sorted values the median is the third, the quartiles are the second and the fourth.
        assert shown[3:6] == [f"{final[place]:.0f}" for place in (1, 2, 3)]
        with (written / "tables" / f"regret-{row.problem}.csv").open() as file:
            (numbers,) = [one for one in csv.DictReader(file) if one["row"] == row.key]
        assert [float(numbers[name]) for name in ("percentile_25", "median", "percentile_75")] == final[1:4].tolist()
        assert float(numbers["mean"]) == pytest.approx(final.mean())
        assert float(numbers["percentile_5"]) == pytest.approx(0.8 * final[0] + 0.2 * final[1])


def test_curves_and_settings_are_written(written: Path) -> None:
    """Whoever draws a figure of their own needs the numbers, and what they were made with."""
    with (written / "tables" / "curves-1-linucb-cr.csv").open() as file:
        curve = list(csv.DictReader(file))
    assert [int(one["round"]) for one in curve] == list(range(1, 31))
    assert float(curve[-1]["median"]) == np.median(final_regrets(written, "1-linucb-cr"))
    with (written / "tables" / "settings.csv").open() as file:
        settings = {one["row"]: one for one in csv.DictReader(file)}
    assert set(settings) == {row.key for row in ROWS}
    assert settings["2-disjoint-linucb-cr-tight"]["algorithm.bonus"] == "local-tight"
    assert settings["1-linucb-cr-dial"]["algorithm.noise_scale"] == "null"


def test_costs_are_those_of_the_cells(written: Path) -> None:
    """Two cells of 6 s for 5 runs, 3 s of processors each; 0.125 s in process."""
    with (written / "tables" / "runtime.csv").open() as file:
        first = next(csv.DictReader(file))
    assert float(first["in_process_seconds"]) == 0.125
    assert float(first["http_seconds"]) == pytest.approx(12.0 / 5)
    assert float(first["http_pair_microseconds"]) == pytest.approx(1e6 * 12.0 / 150)
    assert float(first["cpu_pair_microseconds"]) == pytest.approx(1e6 * 6.0 / 150)
    assert float(first["server_pair_microseconds"]) == pytest.approx(1e6 * 4.0 / 150)
    assert float(first["client_pair_microseconds"]) == pytest.approx(1e6 * 2.0 / 150)
    markdown = (written / "report.md").read_text(encoding="utf-8")
    assert f"came to {len(ROWS) * 6} MiB" in markdown
    assert "the largest had 3 MiB" in markdown


def test_what_is_not_finished_is_said(tmp_path: Path) -> None:
    """Half a run is worth looking at, but not without knowing."""
    archive = fill(tmp_path, ROWS[:2], blocks=1)
    page, markdown = write_report(load_results(archive), None, [], tmp_path / "elsewhere")
    for path in (page, markdown):
        text = path.read_text(encoding="utf-8")
        assert "1-linucb has 3 of 5 replications" in text
        assert "3-linucb" not in text


def test_the_commands_fit_the_directory(written: Path, tmp_path: Path) -> None:
    """A command with another block or seed would be refused by the very directory it is meant for."""
    size = "--replications 5 --rounds 30 --seed 7 --block 3"
    whole = (written / "report.html").read_text(encoding="utf-8")
    assert f"prudent-simulator paper --directory paper-results --rows all {size}" in whole
    assert "--rows ours" not in whole  # nothing is missing
    archive = fill(tmp_path, select_rows(Group.PAPER))
    for path in write_report(load_results(archive), None, [], tmp_path / "report"):
        text = path.read_text(encoding="utf-8")
        assert text.count(f"prudent-simulator paper --directory paper-results --rows ours {size}") == 2
        assert "python -m benchmarks.runtime" in text
    some = fill(tmp_path / "some", select_rows(Group.ALL, keys=frozenset({"1-linucb-cr-tight", "3-linucb"})))
    text = write_report(load_results(some), None, [], tmp_path / "report")[1].read_text(encoding="utf-8")
    assert f"--directory paper-results {size} --row 3-linucb --row 1-linucb-cr-tight\n" in text


def test_the_command_writes_where_it_is_told(written: Path) -> None:
    """Beside the cells, and the Markdown also into a folder of documents, where its pictures must be found."""
    own, markdown = written / "report.md", written.parent / MARKDOWN
    for path, ending in ((own, "png"), (markdown, "svg")):
        links = re.findall(r"!\[[^]]*]\(([^)]*)\)", path.read_text(encoding="utf-8"))
        assert len(links) == 14
        assert all(link.endswith(ending) and (path.parent / link).is_file() for link in links)
    unlinked = [
        re.sub(r"]\([a-z/]*/(.*)\.(png|svg)\)", r"](\1)", path.read_text(encoding="utf-8")) for path in (own, markdown)
    ]
    assert unlinked[0] == unlinked[1]


def test_published_values_belong_to_the_papers_length(written: Path) -> None:
    """Thirty rounds have nothing to do with a figure of 1,500."""
    assert GRID.rounds != 1_500
    assert "about 1480" not in (written / "report.md").read_text(encoding="utf-8")


def test_a_directory_without_results_is_refused(tmp_path: Path) -> None:
    """No page of nothing."""
    with pytest.raises(PaperError, match="holds no run"):
        load_results(Archive(tmp_path))
    with pytest.raises(PaperError, match="no cell"):
        load_results(fill(tmp_path, []))


def test_further_measures_are_in_the_page(written: Path) -> None:
    """What they were played for; a page without them says how to get them."""
    with (written / "tables" / "measures.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["experiment"], row["algorithm"]) for row in rows] == [
        (name, algorithm) for name in ("cvar-0.1", "quantile-0.1") for algorithm in ("linucb", "linucb-cr")
    ]
    assert [float(rows[0][name]) for name in ("percentile_5", "median", "mean")] == [1.5, 3.5, 4.5]
    for name in ("report.md", "report.html"):
        text = (written / name).read_text(encoding="utf-8")
        assert "500 replications of 1,000 rounds" in text
        assert "The 2,000,000 decisions with their rewards took 4.0 minutes" in text
        assert "further risk measures have not been run" not in text


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"algorithms": {"linucb": {"final_regret": {}}}}'])
def test_other_files_are_no_measures(tmp_path: Path, content: bytes) -> None:
    """A wrong file is named, and so is a directory without any."""
    with pytest.raises(PaperError, match="has no results"):
        read_measures(tmp_path)
    (tmp_path / "cvar.json").write_bytes(content)
    with pytest.raises(PaperError, match=r"cvar\.json is not what"):
        read_measures(tmp_path)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", orjson.dumps({"rounds": 1, "runs": 1, "seconds": {"a": "b"}})])
def test_other_files_are_no_runtimes(tmp_path: Path, content: bytes) -> None:
    """A wrong file is named, not ignored."""
    path = tmp_path / "runtime.json"
    path.write_bytes(content)
    with pytest.raises(PaperError, match=r"runtime\.json is not what"):
        read_runtimes(path)


@pytest.mark.parametrize(("dimension", "theorem", "rederived", "printed"), [(2, 119, 173, 27), (10, 2954, 4304, 649)])
def test_episode_lengths(dimension: int, theorem: int, rederived: int, printed: int) -> None:
    """Against values computed elsewhere to 40 digits."""
    lengths = episode_lengths(dimension)
    assert lengths.theorem == lengths.fixed_length == theorem
    assert (lengths.rederived_lemma, lengths.printed_lemma) == (rederived, printed)
