"""Writers of files for COPY INTO a directory: batches of rows in, a csv, json or parquet file out.

Values are written as Spark writes them, but times keep all their digits and texts the space around them.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TypeAlias
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq

from lakewright.errors import InvalidInputError, UnsupportedError
from lakewright.statements.embedded.csv_text import CsvText
from lakewright.statements.model import CopyOut

Writer: TypeAlias = Callable[[Path, pa.RecordBatchReader], int]  # the path is without an ending

_WRITTEN_HERE = {
    "csv": {"sep", "header", "nullValue", "quote", "escape", "compression"},
    "json": {"compression"},
    "parquet": {"compression"},
}
_TEXT_COMPRESSIONS = {"gzip": ("gzip", ".gz"), "bzip2": ("bz2", ".bz2"), "zstd": ("zstd", ".zst"), "none": (None, "")}
_PARQUET_COMPRESSIONS = ("snappy", "gzip", "zstd", "lz4", "brotli", "none")


def file_writer(statement: CopyOut, options: Mapping[str, str], layout: CsvText, zone: str) -> Writer:
    """Return what writes a file as a statement says; an option that works only on Spark is an error."""
    kind = statement.format
    unknown = next((name for name in options if name not in _WRITTEN_HERE[kind]), None)
    if unknown is not None:
        message = f"the option {unknown!r} of {kind} files does not work in this process; lakewright.spark.SQLContext"
        raise statement.text.error(f"{message} can do it", kind=UnsupportedError)
    known = _PARQUET_COMPRESSIONS if kind == "parquet" else tuple(_TEXT_COMPRESSIONS)
    given = options.get("compression", known[0] if kind == "parquet" else "none").lower()
    compression = {"uncompressed": "none"}.get(given, given)
    if compression not in known:
        message = f"COMPRESSION = {given} does not work for {kind} files in this process; use {', '.join(known)}"
        raise statement.text.error(message, kind=UnsupportedError)
    if kind == "parquet":
        return partial(_write_parquet, compression=compression)
    if kind == "json":
        return partial(_write_lines, ending=".json", compression=compression, lines_of=partial(_json_lines, zone=zone))
    header = options.get("header", "false") == "true"
    lines_of = partial(_csv_lines, layout=layout, header=header, zone=zone)
    return partial(_write_lines, ending=".csv", compression=compression, lines_of=lines_of)


def _unique(schema: pa.Schema) -> pa.Schema:
    seen: set[str] = set()
    for name in schema.names:
        if name.lower() in seen:
            raise InvalidInputError(f"there are two columns {name!r}: give one of them another name", column=name)
        seen.add(name.lower())
    return schema


def _write_parquet(path: Path, rows: pa.RecordBatchReader, compression: str) -> int:
    count = 0
    with pq.ParquetWriter(f"{path}.{compression}.parquet", _unique(rows.schema), compression=compression) as out:
        for batch in rows:
            out.write_batch(batch)
            count += batch.num_rows
    return count


def _write_lines(
    path: Path,
    rows: pa.RecordBatchReader,
    ending: str,
    compression: str,
    lines_of: Callable[[pa.RecordBatchReader], Iterator[tuple[int, list[str]]]],
) -> int:
    codec, suffix = _TEXT_COMPRESSIONS[compression]
    count = 0
    with pa.output_stream(f"{path}{ending}{suffix}", compression=codec) as out:
        for number, lines in lines_of(rows):
            out.write("".join(f"{line}\n" for line in lines).encode())
            count += number
    return count


# ---- csv -------------------------------------------------------------------------------------------------------------


def _csv_lines(
    rows: pa.RecordBatchReader, layout: CsvText, zone: str, *, header: bool
) -> Iterator[tuple[int, list[str]]]:
    """Yield how many rows there are in some lines, and the lines."""
    for field in _unique(rows.schema):
        if pa.types.is_nested(field.type) or pa.types.is_binary(field.type):
            message = f"a csv file cannot hold the column {field.name!r} ({field.type}): cast it, or write json"
            raise InvalidInputError(message, column=field.name)
    if header:
        yield 0, [layout.header(rows.schema.names)]
    for batch in rows:
        texts = [_texts(column, zone) for column in batch.columns]
        yield batch.num_rows, list(layout.lines(texts))


def _texts(column: pa.Array, zone: str) -> pa.Array:
    if pa.types.is_string(column.type):
        return column
    if pa.types.is_integer(column.type) or pa.types.is_date(column.type):
        return column.cast(pa.string())
    values = column.to_pylist()
    return pa.array([None if value is None else _bare(value, column.type, zone) for value in values], pa.string())


def _bare(value: object, kind: pa.DataType, zone: str) -> str:
    """Return the text of a value that is no text, without quotes."""
    return _json(value, kind, zone).strip('"')


# ---- json ------------------------------------------------------------------------------------------------------------


def _json_lines(rows: pa.RecordBatchReader, zone: str) -> Iterator[tuple[int, list[str]]]:
    """Yield how many rows there are in some lines, and the lines; fields that are null are left out."""
    kind = pa.struct(list(_unique(rows.schema)))
    for batch in rows:
        yield batch.num_rows, [_json(row, kind, zone) for row in batch.to_pylist()]


def _json(value: object, kind: pa.DataType, zone: str) -> str:
    """Return a value as json, numbers with every digit."""
    match value:
        case None:
            return "null"
        case dict():
            given = [(field, value[field.name]) for field in kind if value[field.name] is not None]
            return _object((field.name, _json(inner, field.type, zone)) for field, inner in given)
        case list() if pa.types.is_map(kind):
            keys = (key if isinstance(key, str) else _bare(key, kind.key_type, zone) for key, _ in value)
            inside = (_json(inner, kind.item_type, zone) for _, inner in value)
            return _object(zip(keys, inside, strict=True))
        case list():
            return "[" + ",".join(_json(inner, kind.value_type, zone) for inner in value) + "]"
        case Decimal():
            return f"{value:f}"
        case float():
            return _number(value, kind)
        case bytes():
            return json.dumps(base64.b64encode(value).decode())
        case datetime():
            return json.dumps(_moment(value, zone))
        case bool() | int() | str():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return json.dumps(str(value))


def _number(value: float, kind: pa.DataType) -> str:
    if not math.isfinite(value):
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    return str(pa.scalar(value, kind).cast(pa.string())) if pa.types.is_float32(kind) else json.dumps(value)


def _object(pairs: Iterator[tuple[str, str]]) -> str:
    return "{" + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{text}" for name, text in pairs) + "}"


def _moment(value: datetime, zone: str) -> str:
    local = value if value.tzinfo is None else value.astimezone(ZoneInfo(zone))
    text = local.isoformat(timespec="microseconds" if value.microsecond % 1000 else "milliseconds")
    return text.removesuffix("+00:00") + "Z" if text.endswith("+00:00") else text
