"""The notebook of the documentation: its cells run one after the other, and what it shows is what they print.

`python -m tests.notebook` runs it on a server of its own and writes down what its cells print; a test compares. The
table that it begins with is made up here as well.
"""

import ast
import contextlib
import io
import json
import math
import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.conftest import migrate_empty
from tests.servers import ROOT, Server

FOLDER = ROOT / "docs/notebooks"
NOTEBOOK, TABLE = FOLDER / "from-a-table-to-a-report.ipynb", FOLDER / "deliveries.csv"
TRIPS = 400
Json = dict[str, Any]


def table() -> str:
    """Deliveries by bike or by van, one or the other by the toss of a coin: minutes that were left before the deadline.

    A bike is quicker where it is near, and slower in the rain; one van in twelve meets a jam.
    """
    draw = random.Random(21)  # noqa: S311  # no secret
    lines = ["day,kilometres,rain,vehicle,minutes_left"]
    for trip in range(TRIPS):
        kilometres, rain = round(draw.uniform(0.5, 9), 1), draw.random() < 0.3
        vehicle = draw.choice(["bike", "van"])
        if vehicle == "bike":
            minutes = 26 - 2.2 * kilometres - 7 * rain + draw.gauss(0, 3)
        else:
            minutes = 23 - 0.6 * kilometres + draw.gauss(0, 3) - (45 if draw.random() < 1 / 12 else 0)
        lines.append(f"2026-{1 + trip // 100:02}-{1 + trip % 28:02},{kilometres},{int(rain)},{vehicle},{minutes:.1f}")
    return "\n".join(lines) + "\n"


def executed(notebook: Json, url: str) -> Json:
    """The notebook with the outputs of its cells, on a service at this address."""
    names: Json = {"__name__": "__main__"}
    cells = []
    before, address = Path.cwd(), os.environ.get("PRUDENT_URL")
    os.chdir(FOLDER)
    os.environ["PRUDENT_URL"] = url
    try:
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                cell = cell | {"outputs": list(_outputs("".join(cell["source"]), names)), "execution_count": None}
            cells.append(cell)
    finally:
        if "client" in names:
            names["client"].close()  # as the end of a kernel does
        os.chdir(before)
        os.environ.pop("PRUDENT_URL")
        if address is not None:
            os.environ["PRUDENT_URL"] = address
    return notebook | {"cells": cells}


def _outputs(source: str, names: Json) -> Iterator[Json]:
    """What a cell prints, and the value of its last expression, as a notebook stores them."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "<cell>", "exec"), names)  # noqa: S102  # it is ours
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)  # noqa: S307
    if printed.getvalue():
        yield {"output_type": "stream", "name": "stdout", "text": printed.getvalue().splitlines(keepends=True)}
    if value is not None:
        shown = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_html_"):
            shown["text/html"] = value._repr_html_().splitlines(keepends=True)
        yield {"output_type": "execute_result", "execution_count": None, "metadata": {}, "data": shown}


def run() -> Json:
    """The notebook, executed on a server that was started for it."""
    notebook: Json = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as name:
        url = f"sqlite:///{name}/prudent.db"
        migrate_empty(url)
        server = Server(url, Path(name) / "server.log")
        server.start()
        try:
            return executed(notebook, server.url)
        finally:
            server.kill()


def texts(notebook: Json) -> list[list[str]]:
    """What the cells of a notebook show as plain text."""
    shown = []
    for cell in notebook["cells"]:
        for output in cell.get("outputs", []):
            lines = output.get("text") or output["data"]["text/plain"]
            shown.append("".join(lines).split())
    return shown


def is_same(one: str, other: str) -> bool:
    """Whether two words of an output are the same, numbers but for their last digits."""
    try:
        return math.isclose(float(one), float(other), rel_tol=1e-3, abs_tol=1e-3)
    except ValueError:
        return one == other


if __name__ == "__main__":
    TABLE.write_text(table(), encoding="utf-8")
    NOTEBOOK.write_text(json.dumps(run(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
