"""Rows, columns and statistics of files by other writers.

A file is taken as it is only if every implementation of the format reads its types without a change: unsigned numbers,
times of nanoseconds in 64 bits, and types that parquet, ORC or Avro have and tables do not, are refused, all columns of
a file in one error. Bounds come from the footer of a parquet file, without those of floating-point numbers, which may
hide NaN; files of other formats have no statistics.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.orc as pa_orc
import pyarrow.parquet as pq

from lakewright.errors import InvalidInputError, LakewrightError, UnsupportedError
from lakewright.formats.avro_container import count_records, decode_header, file_schema
from lakewright.formats.parquet_columns import group_stats, leaf_count
from lakewright.spec.arrow_types import from_arrow_type, to_arrow_type
from lakewright.spec.column_stats import ColumnStats, merge_column_stats, truncate
from lakewright.spec.types import FLOAT_ROOTS, AtomicType, DataField

PARQUET, ORC, AVRO = "parquet", "orc", "avro"
_MAGIC = {b"PAR1": PARQUET, b"ORC": ORC, b"Obj\x01": AVRO}
_BOUND_LENGTH = 16  # characters of a text, as manifests record them
_LOGICAL = {  # the logical types that every reader of tables takes from a physical one
    "BOOLEAN": {"NONE"},
    "INT32": {"NONE", "INT", "DATE", "DECIMAL", "TIME"},
    "INT64": {"NONE", "INT", "DECIMAL", "TIMESTAMP"},
    "INT96": {"NONE"},
    "FLOAT": {"NONE"},
    "DOUBLE": {"NONE"},
    "BYTE_ARRAY": {"NONE", "STRING", "DECIMAL"},
    "FIXED_LEN_BYTE_ARRAY": {"DECIMAL"},
}
_UNITS = {"TIME": {"milliseconds"}, "TIMESTAMP": {"milliseconds", "microseconds"}}
_AVRO = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
}
_AVRO_LOGICAL = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "timestamp-millis": pa.timestamp("ms"),
    "timestamp-micros": pa.timestamp("us"),
}


@dataclass(frozen=True, slots=True)
class FileContent:
    """What one file holds."""

    format: str
    rows: int
    columns: Mapping[str, pa.DataType]  # canonical Arrow types, by name, in the order of the file
    stats: Mapping[str, ColumnStats]  # of the columns whose bounds or null counts are certain


class _MisfitError(Exception):
    """Why a column cannot stay as it is in its file."""


def format_of(begin: bytes) -> str | None:
    r"""Return the format of a file from its first bytes, None if it is none that tables have.

    >>> format_of(b"PAR1...."), format_of(b"id,name\n")
    ('parquet', None)
    """
    return next((name for magic, name in _MAGIC.items() if begin.startswith(magic)), None)


def read_content(source: BinaryIO, file_format: str, *, path: str) -> FileContent:
    """Read the footer of a file; raise InvalidInputError naming the file, and the column if one does not fit."""
    try:
        return _READERS[file_format](source, path)
    except (pa.ArrowException, ValueError, KeyError, EOFError) as error:
        if isinstance(error, LakewrightError):
            raise
        raise InvalidInputError(
            f"{path} is not a whole {file_format} file: {error}; restore it from a copy, or move it away", path=path
        ) from error


def _parquet(source: BinaryIO, path: str) -> FileContent:
    file = pq.ParquetFile(source)
    metadata, leaf, leaves = file.metadata, 0, {}
    columns = _Columns(path)
    for field in file.schema_arrow:
        width = leaf_count(field.type)
        with columns.collecting(field.name):
            for number in range(leaf, leaf + width):
                _check_leaf(metadata.schema.column(number))
            columns[field.name] = _canonical(field.type)
        leaves[field.name] = leaf
        leaf += width
    columns.check()
    return FileContent(PARQUET, metadata.num_rows, columns, _parquet_stats(metadata, columns, leaves))


class _Columns(dict[str, pa.DataType]):
    """The columns of a file by name, and why others cannot stay as they are."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._misfits: dict[str, str] = {}

    @contextmanager
    def collecting(self, column: str) -> Iterator[None]:
        """Remember the misfit that the block raises for a column."""
        try:
            yield
        except _MisfitError as error:
            self._misfits[column] = str(error)

    def check(self) -> None:
        """Raise UnsupportedError that names all columns which cannot stay as they are."""
        if self._misfits:
            texts = "; ".join(f"the column {column!r} is {what}" for column, what in self._misfits.items())
            raise UnsupportedError(
                f"{self._path}: {texts}: not every reader of a table reads this as it is; load such files with "
                "`lakewright ingest`, which rewrites them",
                path=self._path,
                column=next(iter(self._misfits)),
                columns=list(self._misfits),
            )


def _check_leaf(leaf: pq.ColumnSchema) -> None:
    """Raise _MisfitError for a parquet type that some implementation reads as something else, or not at all."""
    logical = leaf.logical_type
    details = json.loads(logical.to_json())
    fits = logical.type in _LOGICAL.get(leaf.physical_type, ())
    fits = fits and (logical.type != "INT" or details.get("isSigned") is True)
    fits = fits and details.get("timeUnit") in _UNITS.get(logical.type, {details.get("timeUnit")})
    if not fits:
        raise _MisfitError(f"{leaf.physical_type} {logical}")


def _parquet_stats(
    metadata: pq.FileMetaData, columns: Mapping[str, pa.DataType], leaves: Mapping[str, int]
) -> dict[str, ColumnStats]:
    """Return the statistics of all row groups together, of the columns that have any."""
    types = {name: from_arrow_type(arrow, column=name) for name, arrow in columns.items()}
    fields = [
        DataField(at, name, dtype)
        for at, (name, dtype) in enumerate(types.items())
        if isinstance(dtype, AtomicType) and dtype.root not in FLOAT_ROOTS
    ]
    found: dict[str, ColumnStats] = {}
    groups = [group_stats(metadata.row_group(at), fields, leaves) for at in range(metadata.num_row_groups)]
    for field in fields:
        parts = [of(field.name) for of in groups]
        whole = _merge_stats(parts)
        if whole is not None:
            found[field.name] = truncate(whole, _BOUND_LENGTH)
    return found


def _merge_stats(parts: Sequence[ColumnStats | None]) -> ColumnStats | None:
    whole: ColumnStats | None = None
    for part in parts:
        if part is None or part.null_count is None:
            return None
        whole = part if whole is None else merge_column_stats(whole, part)
    return whole


def _orc(source: BinaryIO, path: str) -> FileContent:
    file = pa_orc.ORCFile(source)
    columns = _Columns(path)
    for field in file.schema:
        with columns.collecting(field.name):
            if pa.types.is_timestamp(field.type) and field.type.tz is not None:
                raise _MisfitError("a timestamp with a zone, which ORC files move by the zone of the writer")
            columns[field.name] = _canonical(field.type)
    columns.check()
    return FileContent(ORC, file.nrows, columns, {})


def _avro(source: BinaryIO, path: str) -> FileContent:
    data = source.read()
    header = decode_header(data)
    schema = json.loads(header.schema)
    file_schema(schema)  # raises an error unless it is one record that takes bytes
    record = next(part for part in (schema if isinstance(schema, list) else [schema]) if part != "null")
    columns = _Columns(path)
    for member in record["fields"]:
        with columns.collecting(str(member["name"])):
            columns[str(member["name"])] = _canonical(_avro_type(member["type"]))
    columns.check()
    return FileContent(AVRO, count_records(data, header), columns, {})


def _avro_type(schema: object) -> pa.DataType:
    """Return the Arrow type of an Avro schema; a union with null is the other type."""
    match schema:
        case list():
            rest = [part for part in schema if part != "null"]
            if len(rest) != 1:
                raise _MisfitError("a union of several types")
            return _avro_type(rest[0])
        case str() if schema in _AVRO:
            return _AVRO[schema]
        case dict() if "logicalType" in schema:
            return _avro_logical(schema)
        case dict():
            return _avro_nested(schema)
        case _:
            raise _MisfitError(f"the type {schema}")


def _avro_nested(schema: Mapping[str, Any]) -> pa.DataType:
    match schema.get("type"):
        case "array":
            return pa.list_(_avro_type(schema["items"]))
        case "map":
            return pa.map_(pa.string(), _avro_type(schema["values"]))
        case "record":
            return pa.struct([pa.field(str(f["name"]), _avro_type(f["type"])) for f in schema["fields"]])
        case kind:
            return _avro_type(kind)


def _avro_logical(schema: Mapping[str, Any]) -> pa.DataType:
    kind, logical = schema.get("type"), schema["logicalType"]
    if logical == "decimal" and kind == "bytes":
        return pa.decimal128(int(schema["precision"]), int(schema.get("scale", 0)))
    if logical not in _AVRO_LOGICAL:
        raise _MisfitError(f"the type {kind} with the logical type {logical}")
    return _AVRO_LOGICAL[logical]


_READERS: dict[str, Callable[[BinaryIO, str], FileContent]] = {PARQUET: _parquet, ORC: _orc, AVRO: _avro}


def _canonical(arrow: pa.DataType) -> pa.DataType:
    try:
        return to_arrow_type(from_arrow_type(arrow))
    except (InvalidInputError, UnsupportedError):
        raise _MisfitError(str(arrow)) from None
