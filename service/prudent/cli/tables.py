"""Tables of past cases: reading them, a campaign that fits them, and sending them to one.

A table is CSV, JSON lines or Parquet, with a column for the arm, one for the reward, and others that are features.
"""

import csv
import io
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import floor, isfinite, log10
from pathlib import Path
from typing import Annotated, Any, NoReturn

import orjson
import typer

from prudent.cli.console import ApiKey, checked_id, console, fail, inform
from prudent.cli.server import client_of

ROWS_MAX = 5_000_000
CATEGORIES_MAX = 50
"""Of a column of texts; the most frequent are listed."""
ROWS_PER_WEIGHT = 10
"""A disjoint model is proposed where each weight would have as many rows."""
BATCH_ROWS = 500
_JSON_ARRAY = re.compile(r"\s*\[\s*[{\]]")
_TRUE, _FALSE = {"true", "yes", "1"}, {"false", "no", "0"}
Row = dict[str, Any]
FilePath = Annotated[Path, typer.Argument(metavar="FILE", help="CSV, JSON lines or Parquet, by its name or content.")]
ArmColumn = Annotated[str, typer.Option(help="The column that names the arm.")]
RewardColumn = Annotated[str, typer.Option(help="The column of the rewards.")]
PropensityColumn = Annotated[str, typer.Option(help="The column of the arm's probability, if there is one.")]
Ignored = Annotated[list[str] | None, typer.Option("--ignore", help="A column that is no feature; may be repeated.")]
Delimiter = Annotated[str, typer.Option(help="What separates the fields of CSV; a tab as \\t.")]
Decimal = Annotated[str, typer.Option(help="The decimal sign of numbers in CSV.")]
Encoding = Annotated[str, typer.Option(help="The encoding of CSV and JSON lines, for example cp1252.")]

app = typer.Typer(help="Features of campaigns.", no_args_is_help=True)


class Cell(float):
    """A number in CSV. As an arm or a category it is what is written there: 01 is not 1, and 1.10 is not 1.1."""

    text: str


@dataclass(frozen=True)
class Format:
    """How a text file is written."""

    delimiter: str = ","
    decimal: str = "."
    encoding: str = "utf-8"


def read_table(path: Path, form: Format) -> Iterator[tuple[int, Row]]:
    """Each row by its line, or its number in Parquet. Cells that are empty are left out. Ends the program on errors."""
    for line, row in _rows(path, form):
        for name, value in row.items():
            if isinstance(value, float) and not isfinite(value):
                fail(f"{path}: line {line}: {name}: must be a finite number")
        yield line, row


def _rows(path: Path, form: Format) -> Iterator[tuple[int, Row]]:
    try:
        data = path.read_bytes()
    except OSError as error:
        fail(f"{path}: {error.strerror}")
    if path.suffix == ".parquet" or data[:4] == b"PAR1":
        yield from _parquet(path)
        return
    try:
        text = data.decode("utf-8-sig" if form.encoding.lower() in {"utf-8", "utf8"} else form.encoding)
    except (UnicodeError, LookupError) as error:
        likely = "utf-16" if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "cp1252"
        fail(f"{path}: is not {form.encoding} text ({error}): give --encoding, for example {likely}")
    if not text.strip():
        fail(f"{path}: is empty")
    if _JSON_ARRAY.match(text):
        fail(f"{path}: is one JSON array: it needs one object per line, which jq -c '.[]' {path} writes")
    yield from _json_lines(path, text) if text.lstrip()[:1] == "{" else _csv(path, text, form)


def _json_lines(path: Path, text: str) -> Iterator[tuple[int, Row]]:
    from prudent.campaigns.values import RepeatedNameError, refuse_repeated_names

    for line, part in enumerate(text.split("\n"), start=1):
        if part.strip():
            try:
                found = orjson.loads(part)
            except orjson.JSONDecodeError as error:
                fail(f"{path}: line {line}: is not JSON: {error}")
            if not isinstance(found, dict):
                fail(f"{path}: line {line}: must be an object")
            try:
                refuse_repeated_names(part.encode(), found)
            except RepeatedNameError as error:
                fail(f"{path}: line {line}: {error.name} appears twice in one object")
            yield line, {name: value for name, value in found.items() if value is not None}


def _csv(path: Path, text: str, form: Format) -> Iterator[tuple[int, Row]]:
    delimiter = form.delimiter.replace("\\t", "\t")
    if len(delimiter) != 1:
        fail("--delimiter: must be one character, or \\t")
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter)
    header: list[str] = []
    try:
        header = [name.strip() for name in next(reader)]
        if len(header) == 1 and ";" in header[0]:
            fail(f"{path}: line 1 has one column: give --delimiter ';'")
        repeated = [name for name, count in Counter(header).items() if count > 1]
        if repeated:
            fail(f"{path}: line 1: duplicate column {repeated[0]}")
        for cells in reader:
            if cells and len(cells) != len(header):
                fail(f"{path}: line {reader.line_num}: has {len(cells)} fields, and the header has {len(header)}")
            if cells:
                stripped = zip(header, (cell.strip() for cell in cells), strict=True)
                yield reader.line_num, {name: _unquoted(cell, form) for name, cell in stripped if cell}
    except csv.Error as error:
        fail(f"{path}: line {reader.line_num}: is not CSV: {error}")


def _unquoted(cell: str, form: Format) -> str | Cell:
    """A cell as a number, if it is one."""
    text = cell.replace(form.decimal, ".") if form.decimal != "." and "." not in cell else cell
    if not re.fullmatch(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", text):
        return cell
    number = Cell(text)
    number.text = text
    return number


def _parquet(path: Path) -> Iterator[tuple[int, Row]]:
    try:
        from pyarrow import ArrowInvalid, parquet
    except ModuleNotFoundError:
        fail(f"reading {path} needs pyarrow: pip install 'prudent[parquet]'")
    try:
        number = 0
        for batch in parquet.ParquetFile(path).iter_batches():
            for row in batch.to_pylist():
                number += 1
                yield number, {name: value for name, value in row.items() if value is not None and value == value}
    except ArrowInvalid as error:
        fail(f"{path}: cannot be read as Parquet: {error}")


# A campaign that fits a table


def describe_column(name: str, values: list[Any], rows: int) -> Row | None:
    """A feature for a column, its kind from the values that are there; None if it only tells rows apart."""
    from prudent.core.scaling import center_and_scale

    missing = {"missing": "indicator"} if len(values) < rows else {}
    if not values:
        return None
    if all(_is_boolean(value) for value in values):
        return {"name": name, "kind": "boolean"} | missing
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        import numpy as np

        center, scale = center_and_scale(np.array(values, dtype=np.float64))
        if set(values) <= {0, 1}:
            center, scale = 0.0, 1.0
        # a center as precise as the scale makes it useful: a year is not one of the nearest decade
        near = round(center, 2 - floor(log10(scale)))
        return {"name": name, "kind": "number", "center": near, "scale": float(f"{scale:.3g}")} | missing
    texts = Counter(text_of(value) for value in values)
    if len(texts) > CATEGORIES_MAX and len(texts) > len(values) / 2:
        return None
    found = [text for text, _ in texts.most_common(CATEGORIES_MAX)]
    return {"name": name, "kind": "category", "categories": found} | missing


def text_of(value: Any) -> str:
    """A value as a category: a whole number without a decimal point, which some programs write for lack of integers."""
    if isinstance(value, Cell):
        return re.sub(r"(?<=\d)\.0*$", "", value.text)
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _is_boolean(value: Any) -> bool:
    return isinstance(value, bool) or (isinstance(value, str) and value.lower() in {"true", "false", "yes", "no"})


@app.command("infer")
def infer_command(
    file: FilePath,
    arm_column: ArmColumn = "arm",
    reward_column: RewardColumn = "reward",
    propensity_column: PropensityColumn = "propensity",
    ignore: Ignored = None,
    delimiter: Delimiter = ",",
    decimal: Decimal = ".",
    encoding: Encoding = "utf-8",
) -> None:
    """Print a campaign whose features fit a table: kinds, centers and scales, categories, and which model.

    In place of a table the file may be a log of Personalizer's rank requests, one JSON object per line.
    """
    numbered = list(read_table(file, Format(delimiter, decimal, encoding)))
    rows = [row for _, row in numbered]
    if not rows:
        fail(f"{file}: has no rows")
    campaign_id = re.sub(r"[^A-Za-z0-9._~-]", "-", file.stem)[:128].strip(".") or "campaign"
    if all(isinstance(row.get("actions"), list) for row in rows):
        from prudent.cli.rank_logs import fitting_campaign

        _print_campaign({"campaign_id": campaign_id} | fitting_campaign(file, numbered))
        return
    columns = list(dict.fromkeys(name for row in rows for name in row))
    if arm_column not in columns:
        fail(f"{file}: there is no column {arm_column} (--arm-column); found: {', '.join(columns[:20])}")
    apart = {arm_column, reward_column, propensity_column, *(ignore or ())}
    described = {}
    for name in columns:
        if name not in apart:
            feature = describe_column(name, [row[name] for row in rows if name in row], len(rows))
            if feature is None:
                inform(f"{name}: left out, because it has a text of its own in nearly every row")
            else:
                described[name] = feature
    arms = list(dict.fromkeys(text_of(row[arm_column]) for row in rows if arm_column in row))
    model = propose_model(rows, arm_column, described, len(arms)) if described else {"type": "multi-armed"}
    registered = [] if model["type"] == "shared" else [{"arm_id": arm} for arm in arms]
    _print_campaign({"campaign_id": campaign_id, "risk": {"measure": "mean"}, "model": model, "arms": registered})


def _print_campaign(campaign: Row) -> None:
    typer.echo(orjson.dumps(campaign, option=orjson.OPT_INDENT_2))


def propose_model(rows: list[Row], arm_column: str, described: dict[str, Row], arms: int) -> Row:
    """Disjoint where every weight has enough rows, else shared if some columns describe the arms."""
    weights = sum(len(one.get("categories", [0])) + 1 for one in described.values()) + 1
    of_arms = [name for name in described if _is_of_arm(rows, arm_column, name)]
    if len(rows) >= ROWS_PER_WEIGHT * arms * weights or not of_arms:
        return {"type": "disjoint", "features": list(described.values())}
    model: Row = {"type": "shared", "features": [described[name] for name in of_arms]}
    context = [name for name in described if name not in of_arms]
    if context:
        model["context_features"] = [described[name] for name in context]
        model["interactions"] = [[f"context.{name}", f"arm.{of_arms[0]}"] for name in context]
    return model


def _is_of_arm(rows: list[Row], arm_column: str, name: str) -> bool:
    """Whether a column says something of the arms: it is constant for each of them, and not for all."""
    known: dict[Any, Any] = {}
    arms = [text_of(row.get(arm_column)) for row in rows]
    return all(known.setdefault(arm, row.get(name)) == row.get(name) for arm, row in zip(arms, rows, strict=True)) and (
        len(set(known.values())) > 1
    )


# Sending a table


def observations_command(
    file: FilePath,
    campaign: Annotated[str, typer.Option(help="The campaign's id.")],
    url: Annotated[str, typer.Option(help="The server.")] = "http://127.0.0.1:8000",
    api_key: ApiKey = None,
    arm_column: ArmColumn = "arm",
    reward_column: RewardColumn = "reward",
    propensity_column: PropensityColumn = "propensity",
    delimiter: Delimiter = ",",
    decimal: Decimal = ".",
    encoding: Encoding = "utf-8",
) -> None:
    """Let a campaign learn a table of past cases. Columns that are none of its features are ignored.

    Each row gets an id of the file's name and its line, so that the command can be repeated.
    """
    from prudent_client import ClientError

    stem = re.sub(r"[^A-Za-z0-9._~-]", "-", file.stem)[:100]
    accepted = duplicates = 0
    batch: list[tuple[int, Any]] = []
    with client_of(url, api_key) as client:
        try:
            model = client.get_campaign(checked_id(campaign)).model
            for line, row in read_table(file, Format(delimiter, decimal, encoding)):
                columns = (arm_column, reward_column, propensity_column)
                batch.append((line, _observation(file, line, row, model, columns, f"{stem}-{line}")))
                if len(batch) == BATCH_ROWS:
                    counts = client.observe(campaign, [one for _, one in batch])
                    accepted, duplicates, batch = accepted + counts.accepted, duplicates + counts.duplicates, []
            if batch:
                counts = client.observe(campaign, [one for _, one in batch])
                accepted, duplicates = accepted + counts.accepted, duplicates + counts.duplicates
        except ClientError as error:
            _fail_at_line(file, error, [line for line, _ in batch], is_first=not accepted + duplicates)
    console.print(f"{accepted} observations learned, {duplicates} known before")


def _fail_at_line(file: Path, error: Exception, lines: list[int], *, is_first: bool) -> NoReturn:
    """End the program with the line that an error is about. lines: of the batch; is_first: whether it is the first."""
    message = str(error)
    found = re.search(r"items\.(\d+)\.?", message)
    if found is None or int(found[1]) >= len(lines):
        fail(message)
    learned = "" if is_first else "; rows of earlier batches have been learned"
    fail(f"{file}: line {lines[int(found[1])]}: {message[found.end() :]}{learned}")


def _observation(file: Path, line: int, row: Row, model: Row, columns: tuple[str, str, str], name: str) -> Any:
    from prudent_client import Observation

    arm, reward, propensity = (row.get(column) for column in columns)
    if arm is None or reward is None:
        fail(f"{file}: line {line}: {columns[0] if arm is None else columns[1]} is missing")
    if isinstance(reward, bool) or not isinstance(reward, int | float):
        fail(f"{file}: line {line}: {columns[1]} must be a number, not {str(reward)[:40]!r}")
    schema = model.get("features")
    if schema is None and model["type"] != "multi-armed":
        fail("the campaign's features have no names: create it with model.features; see prudent features infer")
    parts = {"features" if model["type"] == "shared" else "context": schema or []}
    if model.get("context_features"):
        parts["context"] = model["context_features"]
    given: dict[str, Any] = {
        part: _values(file, line, row, described) for part, described in parts.items() if described
    }
    return Observation(arm_id=text_of(arm), reward=reward, propensity=propensity, observation_id=name, **given)


def _values(file: Path, line: int, row: Row, schema: list[Row]) -> Row:
    """A row's values as the campaign's features take them; an empty cell is left out."""
    values: Row = {}
    for feature in schema:
        value = row.get(feature["name"])
        if value is None:
            continue
        if feature["kind"] == "category":
            value = text_of(value)
        elif feature["kind"] == "boolean" and not isinstance(value, bool):
            text = text_of(value).lower()
            if text not in _TRUE | _FALSE:
                fail(f"{file}: line {line}: {feature['name']} must be true or false, not {text[:40]!r}")
            value = text in _TRUE
        elif isinstance(value, str):
            fail(f"{file}: line {line}: {feature['name']} must be a number, not {value[:40]!r}")
        values[feature["name"]] = value
    return values
