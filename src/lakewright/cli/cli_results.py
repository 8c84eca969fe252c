"""Results of commands as text, tables and JSON."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from datetime import time as time_of_day
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import BinaryIO

import click
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakewright.cli.cli_options import Arguments, CliOption, count, option
from lakewright.cli.cli_output import CommandOutput
from lakewright.errors import InvalidInputError, pluralize
from lakewright.spec.arrow_types import is_variant
from lakewright.variant import to_json

# ---- Formats ---------------------------------------------------------------------------------------------------------
# Values as text: NULL is an empty field of csv (an empty text is `""`) and `null` in JSON; numbers are written in
# full; decimals and times are texts in JSON, as in the other commands; binary values are hexadecimal; nested values
# and variants are JSON. Invariant: csv is that of RFC 4180 (commas, CRLF, quotes where they are needed), and a cell
# that is shown to people has no control characters.

FORMATS = ("table", "csv", "json", "jsonl", "parquet", "arrow")
BINARY = ("parquet", "arrow")
_CELL_MIN, _CELL_MAX = 8, 60  # characters of a cell on a terminal
_NEEDS_QUOTES = re.compile(r'[",\r\n]')
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


# ---- files -----------------------------------------------------------------------------------------------------------


def write_rows(table: pa.Table, form: str, out: BinaryIO) -> None:
    """Write rows in a format other than `table`."""
    write_batches(table.schema, table.to_batches(), form, out)


def write_batches(schema: pa.Schema, batches: Iterable[pa.RecordBatch], form: str, out: BinaryIO) -> None:
    """Write rows in a format other than `table`, a batch at a time."""
    if form != "csv":
        _check_names(schema, form)
    if form in BINARY:
        with pq.ParquetWriter(out, schema) if form == "parquet" else pa.ipc.new_file(out, schema) as file:
            for batch in batches:
                file.write_batch(batch)
        return
    tables = (pa.Table.from_batches([batch], schema) for batch in batches)
    match form:
        case "csv":
            _write_texts(chain([_csv_head(schema)], (line for table in tables for line in _csv_rows(table))), out)
        case "jsonl":
            rows = (row for table in tables for row in json_rows(table))
            _write_texts((f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), out)
        case "json":
            _write_texts(_json_list(row for table in tables for row in json_rows(table)), out)


def _write_texts(texts: Iterable[str], out: BinaryIO) -> None:
    out.writelines(text.encode("utf-8", "surrogatepass") for text in texts)


def _check_names(schema: pa.Schema, form: str) -> None:
    twice = next((name for name in schema.names if schema.names.count(name) > 1), None)
    if twice is not None:
        raise InvalidInputError(
            f"the result has two columns {twice!r}, which {form} cannot hold: name them with AS, or use --format csv"
        )


def _json_list(rows: Iterable[object]) -> Iterator[str]:
    r"""Yield the text of a list, value by value.

    >>> "".join(_json_list([{"a": 1}, {"a": 2}])) == json.dumps([{"a": 1}, {"a": 2}], indent=2) + "\n"
    True
    """
    before = "["
    for row in rows:
        text = json.dumps(row, indent=2, ensure_ascii=False).replace("\n", "\n  ")
        yield f"{before}\n  {text}"
        before = ","
    yield "[]\n" if before == "[" else "\n]\n"


def csv_lines(table: pa.Table) -> Iterator[str]:
    r"""Yield the rows of a table as lines of csv, the names of the columns first.

    >>> list(csv_lines(pa.table({"a": [1, None], "b": ["x, y", ""]})))
    ['a,b\r\n', '1,"x, y"\r\n', ',""\r\n']
    """
    if table.num_columns:
        yield _csv_head(table.schema)
        yield from _csv_rows(table)


def _csv_head(schema: pa.Schema) -> str:
    return ",".join(map(_csv_field, schema.names)) + "\r\n" if schema.names else ""


def _csv_rows(table: pa.Table) -> Iterator[str]:
    for row in _rows(table):
        yield ",".join("" if value is None else _csv_field(text_of(value)) for value in row) + "\r\n"


def _csv_field(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if not text or _NEEDS_QUOTES.search(text) else text


def json_rows(table: pa.Table) -> Iterator[dict[str, object]]:
    """Yield the rows of a table as objects of JSON.

    >>> list(json_rows(pa.table({"a": [Decimal("1.50")], "b": [bytes([1])], "c": [float("nan")]})))
    [{'a': '1.50', 'b': '01', 'c': 'NaN'}]
    """
    names = table.column_names
    for row in _rows(table):
        yield {name: _json_value(value) for name, value in zip(names, row, strict=True)}


def _rows(table: pa.Table) -> Iterator[tuple[object, ...]]:
    """Yield the rows as values of Python; maps are dicts, and times of nanoseconds are texts."""
    for batch in table.to_batches(max_chunksize=8192):
        columns = [_values(batch.column(at), field.type) for at, field in enumerate(batch.schema)]
        yield from zip(*columns, strict=True) if columns else ()


def _values(column: pa.Array, kind: pa.DataType) -> list[object]:
    if is_variant(kind):
        return [None if text is None else json.loads(text) for text in to_json(column).to_pylist()]
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        texts = pc.cast(column.cast(pa.timestamp("ns")), pa.string()).to_pylist()
        zone = "" if kind.tz is None else "+00:00"
        return [None if text is None else text.rstrip("0").rstrip(".") + zone for text in texts]
    values: list[object] = column.to_pylist(maps_as_pydicts="lossy") if _has_maps(kind) else column.to_pylist()
    return values


def _has_maps(kind: pa.DataType) -> bool:
    return pa.types.is_map(kind) or any(_has_maps(kind.field(at).type) for at in range(kind.num_fields))


def _json_value(value: object) -> object:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else text_of(value)
        case dict():
            return {text_of(key): _json_value(one) for key, one in value.items()}
        case list() | tuple():
            return [_json_value(one) for one in value]
        case _:
            return text_of(value)


def text_of(value: object) -> str:
    """Return a value that is not NULL as text.

    >>> text_of(True), text_of(Decimal("1E+3")), text_of([1, None]), text_of(float("inf"))
    ('true', '1000', '[1, null]', 'Infinity')
    """
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case float():
            special = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
            return repr(value) if math.isfinite(value) else special
        case Decimal():
            return format(value, "f")
        case bytes():
            return value.hex()
        case datetime():
            return value.isoformat(" ")
        case date() | time_of_day():
            return value.isoformat()
        case dict() | list() | tuple():
            return json.dumps(_json_value(value), ensure_ascii=False)
        case timedelta():
            return str(value)
        case _:
            return str(value)


# ---- for people ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shown:
    """A table for people: its lines, the names of the columns first, and what was left out."""

    lines: list[str]
    left_out: list[str]  # in words


def render_table(table: pa.Table, *, limit: int | None = None, width: int | None = None, is_cut: bool = False) -> Shown:
    """Return the first rows of a table as aligned lines that fit into a width; `is_cut` says that there are more rows.

    >>> for line in render_table(pa.table({"id": [1, 20], "name": ["Ada", None]})).lines:
    ...     print(line)
    id  name
     1  Ada
    20  NULL
    """
    first = table if limit is None else table.slice(0, limit)
    rows = [["NULL" if value is None else _printable(text_of(value)) for value in row] for row in _rows(first)]
    names = [_printable(name) for name in table.column_names]
    natural = [max(map(_width, (name, *(row[at] for row in rows)))) for at, name in enumerate(names)]
    widths = natural if width is None else _fit_widths(natural, width)
    put = [_right if _is_number(field.type) else _pad_right for field in table.schema]
    lines = [
        "  ".join(put[at](_cut(row[at], wide), wide) for at, wide in enumerate(widths)).rstrip()
        for row in (names, *rows)
    ]
    left_out = []
    if table.num_rows > first.num_rows:
        left_out.append(f"... {pluralize(table.num_rows - first.num_rows, 'more row')}")
    elif is_cut:
        left_out.append("... more rows")
    if len(widths) < len(names):
        left_out.append(f"... {pluralize(len(names) - len(widths), 'more column')}: {', '.join(names[len(widths) :])}")
    return Shown(lines if names else [], left_out)


def _fit_widths(natural: Sequence[int], width: int) -> list[int]:
    """Return the widths of the columns that fit: the widest are cut first, then columns at the end are left out.

    >>> _fit_widths([5, 70, 30], 60), _fit_widths([20, 20, 20], 21)
    ([5, 25, 26], [9, 10])
    """
    widths = [min(wide, _CELL_MAX) for wide in natural]
    least = [min(wide, _CELL_MIN) for wide in widths]
    while len(least) > 1 and sum(least) + 2 * (len(least) - 1) > width:
        least.pop()
    widths = widths[: len(least)]
    room = max(width - 2 * (len(widths) - 1), 1)
    while sum(widths) > room:
        widest = max(range(len(widths)), key=lambda at: widths[at])
        widths[widest] -= 1
    return [max(wide, 1) for wide in widths]


def _cut(text: str, width: int) -> str:
    if _width(text) <= width:
        return text
    while text and _width(text) > width - 1:
        text = text[:-1]
    return f"{text}…"


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(one) else 1 + (unicodedata.east_asian_width(one) in "WF") for one in text)


def _pad_right(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def _right(text: str, width: int) -> str:
    return " " * (width - _width(text)) + text


def _is_number(kind: pa.DataType) -> bool:
    tests: tuple[Callable[[pa.DataType], bool], ...] = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return any(test(kind) for test in tests)


def _printable(text: str) -> str:
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


# ---- Output of rows --------------------------------------------------------------------------------------------------

ROWS_MAX = 1000  # of the format `table`
STDOUT = "-"  # as the name of a file
_EXPORT_SUFFIXES = {
    "csv": "csv",
    "json": "json",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "parquet": "parquet",
    "arrow": "arrow",
}
_EXPORT_SUFFIXES |= {"txt": "table"}


def result_options() -> tuple[CliOption, ...]:
    """Return `--format`, `--output` and `--limit`."""
    return (
        option(
            "--format",
            type=click.Choice(FORMATS),
            help="table, or what --json or the name of the output file says",
        ),
        option(
            "--output",
            "-o",
            metavar="F",
            type=click.Path(),
            help="write the rows to this file, whose ending may say the format; - is stdout",
        ),
        option("--limit", "-n", type=count, metavar="N", help=f"at most so many rows (table: {ROWS_MAX})"),
    )


def format_of(args: Arguments) -> str:
    """Return the format of the rows; raise a usage error if they cannot go where they should."""
    if args.output == STDOUT:
        args.output = None
    _check_output(args.output)
    suffix = "" if args.output is None else Path(args.output).suffix.lstrip(".").lower()
    form = args.format or ("json" if args.json else _EXPORT_SUFFIXES.get(suffix))
    if form is None and args.output is not None:
        raise click.UsageError(
            f"the name {args.output} says no format: end it with .{', .'.join(_EXPORT_SUFFIXES)}, or give --format"
        )
    if form in BINARY and args.output is None and sys.stdout.isatty():
        raise click.UsageError(f"{form} is no text: give --output, or send stdout elsewhere")
    return str(form or "table")


def _check_output(path: str | None) -> None:
    """Raise a usage error if there is no directory for a file, or if the file is a directory."""
    if path is None:
        return
    if not Path(path).absolute().parent.is_dir():
        raise click.UsageError(f"there is no directory for {path}: make it first")
    if Path(path).is_dir():
        raise click.UsageError(f"{path} is a directory: name a file in it")


def rows_asked(args: Arguments, form: str) -> int | None:
    """Return how many rows to read: for people one more than they see, to know whether there are more."""
    if form != "table":
        return None if args.limit is None else int(args.limit)
    return (ROWS_MAX if args.limit is None else int(args.limit)) + (args.limit is None)


def write_result(reader: pa.RecordBatchReader, args: Arguments, form: str, output: CommandOutput) -> int:
    """Write rows as they come; return how many. A file appears when all of them are written."""
    counter = _Counter()
    with open_output(args.output) as out:
        if form == "table":
            counter.rows = _write_table(reader, args, out, output)
        else:
            write_batches(reader.schema, counter.count_rows(reader), form, out)
        out.flush()
    return counter.rows


def width_of(args: Arguments) -> int | None:
    """Return how wide a table may be; None: as wide as it is."""
    return shutil.get_terminal_size().columns if args.output is None and sys.stdout.isatty() else None


class _Counter:
    """Counts the rows of batches that pass."""

    def __init__(self) -> None:
        self.rows = 0

    def count_rows(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        for batch in reader:
            self.rows += batch.num_rows
            yield batch


def _write_table(reader: pa.RecordBatchReader, args: Arguments, out: BinaryIO, output: CommandOutput) -> int:
    rows = reader.read_all()
    limit = ROWS_MAX if args.limit is None else args.limit
    width = width_of(args)
    found = render_table(rows.slice(0, limit), width=width, is_cut=rows.num_rows > limit)
    out.writelines(f"{line}\n".encode("utf-8", "replace") for line in found.lines)
    out.flush()
    for line in found.left_out:
        output.say(line)
    return int(min(rows.num_rows, limit))


@contextmanager
def open_output(path: str | None) -> Iterator[BinaryIO]:
    """Open stdout, or a file that takes its name when it is whole; a run that fails leaves an older file as it was.

    A link is followed, and what is no regular file, such as /dev/null or a pipe, is written to: a file in its place
    would destroy it.
    """
    if path is None:
        yield sys.stdout.buffer
        return
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            yield file
        return
    part = target.with_name(f"{target.name}.part-{os.getpid()}")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
