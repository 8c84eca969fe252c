"""COPY INTO in one process: csv, JSON and parquet files, read and written as Spark does."""

from __future__ import annotations

import base64
import json
import math
import re
import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cached_property, partial
from itertools import chain, islice
from pathlib import Path
from typing import TypeAlias
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakewright.errors import AlreadyExistsError, InvalidInputError, LakewrightError, UnsupportedError
from lakewright.ingestion import source_files as ingested
from lakewright.ingestion.bad_rows import BadRecord, BadRowSink, Conversion
from lakewright.ingestion.ingest_sources import IngestSource, LocalFile, local_files
from lakewright.ingestion.local_ingest import LocalSource, json_rows
from lakewright.ingestion.source_files import TextFormat
from lakewright.ingestion.text_values import ParseSettings
from lakewright.spec.identifier import quote_identifier
from lakewright.spec.types import DataField
from lakewright.statements.copy_into import (
    CopySettings,
    FileVersion,
    copied_fields,
    is_overwrite,
    load_files,
    matched_columns,
    reader_options,
    writer_options,
)
from lakewright.statements.embedded.duckdb_query import ArrowRows, DuckDBEvaluation, PreparedQuery
from lakewright.statements.embedded.embedded_changes import in_zone
from lakewright.statements.statements import CopyIn, CopyOut
from lakewright.statements.store_assignment import StoreAssignment
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.verbs import write_table

# ---- Csv as Spark reads and writes it --------------------------------------------------------------------------------
# A quote inside a quoted value stands behind the escape character, which is a backslash unless the statement says
# otherwise; in values without quotes a backslash is a character as any other. Invariant: a quote that does
# not end, or text behind its end, is an error and not another value.

_RECORD_MAX = 16 << 20  # characters; a longer record is a quote that does not end


@dataclass(frozen=True)
class CsvText:
    """How values stand in lines."""

    sep: str = ","
    quote: str = '"'
    escape: str = "\\"
    null: str = ""

    # ---- reading

    @cached_property
    def _field(self) -> re.Pattern[str]:
        sep, quote, escape = map(re.escape, (self.sep, self.quote, self.escape))
        inner = (
            rf"[^{quote}]*(?:{quote}{quote}[^{quote}]*)*" if self._doubles else rf"(?:[^{quote}{escape}]+|{escape}.)*"
        )
        plain = rf"[^{sep}\r\n]*" if len(self.sep) == 1 else r"[^\r\n]*?"
        return re.compile(rf"(?:{quote}({inner}){quote}|(?!{quote})({plain}))({sep}|\r?\n\Z|\Z)", re.DOTALL)

    @property
    def _doubles(self) -> bool:
        return self.escape == self.quote

    def records(self, path: str, lines: Iterable[str]) -> Iterator[tuple[int, list[str | None]]]:
        """Yield the number of the first line and the values of each record; lines without text are left out."""
        first, pending = 1, ""
        for number, line in enumerate(lines, 1):
            first = first if pending else number
            whole = pending + line
            if not self.quote or self.quote not in whole:
                if not whole.isspace():
                    yield number, [self._plain(text) for text in whole.rstrip("\r\n").split(self.sep)]
                continue
            values = self._values(whole)
            pending = whole if values is None else ""
            if values is not None:
                yield first, values
            elif len(pending) > _RECORD_MAX:
                break
        if pending:
            message = f"{path}, line {first}: a value in quotes does not end, or text follows its end; if quotes inside"
            raise InvalidInputError(
                f"{message} of values are doubled, say ESCAPE = '{self.quote}'", source=path, line=first
            )

    def _plain(self, text: str) -> str | None:
        return None if text == self.null else text

    def _values(self, text: str) -> list[str | None] | None:
        """Return the values of a record; None: the text is no whole record."""
        out: list[str | None] = []
        at = 0
        while (found := self._field.match(text, at)) is not None:
            out.append(self._plain(found[2]) if found[1] is None else self._unescape(found[1]))
            at = found.end()
            if found[3] != self.sep:
                return out
        return None

    def _unescape(self, text: str) -> str:
        if self._doubles:
            return text.replace(self.quote * 2, self.quote)
        if self.escape not in text:
            return text
        quote, escape = re.escape(self.quote), re.escape(self.escape)
        return re.sub(rf"{escape}([{quote}{escape}])", r"\1", text)

    # ---- writing

    def lines(self, columns: list[pa.Array]) -> Iterator[str]:
        """Yield the lines of columns of texts."""
        ready = [self._quote_fields(column) for column in columns]
        yield from pc.binary_join_element_wise(*ready, self.sep).to_pylist()

    def header(self, names: Iterable[str]) -> str:
        """Return the line of the names of columns."""
        return next(self.lines([pa.array([name]) for name in names]))

    def _quote_fields(self, column: pa.Array) -> pa.Array:
        special = "".join(map(re.escape, (self.sep, self.quote)))
        needs = pc.match_substring_regex(column, rf"[{special}\r\n]|^\s*$")
        needs = pc.or_(needs, pc.equal(column, self.null))
        escaped = column
        for one in (self.quote,) if self._doubles else (self.escape, self.quote):
            escaped = pc.replace_substring(escaped, one, self.escape + one)
        in_quotes = pc.binary_join_element_wise(self.quote, escaped, self.quote, "")
        return pc.fill_null(pc.if_else(needs, in_quotes, column), self.null)


# ---- Writing files ---------------------------------------------------------------------------------------------------
# Values are written as Spark writes them, but times keep all their digits and texts the space around them.

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


# ---- COPY INTO -------------------------------------------------------------------------------------------------------
# Texts of csv and json files become values as `lakewright.ingest` parses them; columns of parquet files are assigned
# by the rules of INSERT. Rows pass in batches. Invariant: a file with a wrong value is an error that names
# the file and the column, and loads nothing; a directory appears when all its files are written.

_RECORDS = 20_000  # of a csv file at a time
_FILE = "_lw_file"
_READ_HERE = {  # the compression follows from the name of a file
    "csv": {*ingested.CSV_OPTIONS, "compression"},
    "json": {*ingested.JSON_OPTIONS, "compression"},
    "parquet": {"compression"},
}
_ON_SPARK = "lakewright.spark.SQLContext can do it"


# ---- in --------------------------------------------------------------------------------------------------------------


def copy_in(evaluation: DuckDBEvaluation, statement: CopyIn) -> int:
    """Load files into a table, and return how many rows were loaded."""
    table = in_zone(evaluation, evaluation.session.changeable(statement.table))
    settings = CopySettings.of(statement)
    options = reader_options(statement)
    unknown = next((name for name in options if name not in _READ_HERE[statement.format]), None)
    if unknown is not None:
        message = f"the option {unknown!r} of {statement.format} files does not work in this process; {_ON_SPARK}"
        raise statement.text.error(message, kind=UnsupportedError)
    rows_of = _reader(evaluation, table, statement, options)
    found = local_files(statement.path)
    if found is None:
        message = f"{statement.path} is not on this machine's disk; {_ON_SPARK}"
        raise statement.text.error(message, kind=UnsupportedError)

    def load(paths: Sequence[str], job_id: str | None) -> int:
        opened = [rows_of(path) for path in paths]
        schema = opened[0][0]
        for path, (other, _) in zip(paths, opened, strict=True):
            if not other.equals(schema):
                message = f"{path} has other columns than {paths[0]}; load the files without FORCE"
                raise InvalidInputError(message, source=path)
        batches = chain.from_iterable(batches for _, batches in opened)
        rows = pa.RecordBatchReader.from_batches(schema, batches)
        return write_table(rows, table, job_id=job_id, progress=False).rows

    return load_files(table.store, settings, map(_version, found), load)


def _version(path: Path) -> FileVersion:
    state = path.stat()
    return FileVersion(str(path), state.st_mtime_ns // 1_000_000, state.st_size)


_Rows = tuple[pa.Schema, Iterator[pa.RecordBatch]]


def _reader(
    evaluation: DuckDBEvaluation, table: FileStoreTable, statement: CopyIn, options: dict[str, str]
) -> Callable[[str], _Rows]:
    """Return what opens a file: the columns of the table that it fills, and the rows."""
    if statement.format == "parquet":
        return lambda path: _parquet_rows(evaluation, table, statement, path)
    fields = tuple(copied_fields(table.store, statement))
    text_format = TextFormat.of_options(
        {"multiLine": "false", **options}, header=options.get("header", "false") == "true"
    )
    settings = ParseSettings.of_options(options, zone=evaluation.lookup.zone, binary=statement.format == "csv")
    if statement.format == "csv":
        layout = _layout(statement, options)
        return lambda path: _text_rows(table, fields, settings, path, _csv_rows(path, layout, text_format, fields))

    def json_file(path: str) -> _Rows:
        def rows(conversion: Conversion, bad: BadRowSink) -> Iterator[pa.Table]:
            source = LocalSource(IngestSource(path, "json"), fields, text_format, settings)
            return json_rows(LocalFile(path, 0), source, conversion, bad)

        return _text_rows(table, fields, settings, path, rows)

    return json_file


def _text_rows(
    table: FileStoreTable,
    fields: Sequence[DataField],
    settings: ParseSettings,
    path: str,
    rows: Callable[[Conversion, BadRowSink], Iterator[pa.Table]],
) -> _Rows:
    names = [field.name for field in fields]
    pairs = tuple((name, name) for name in names)
    conversion = Conversion(table.store.name, path, tuple(fields), pairs, frozenset(names), parse_settings=settings)
    converted = rows(conversion, BadRowSink(None))
    return conversion.schema, (batch for part in converted for batch in part.to_batches())


def _layout(statement: CopyIn | CopyOut, options: dict[str, str]) -> CsvText:
    """Return how values stand in lines of csv files."""
    layout = CsvText(
        options.get("sep", ",").replace("\\t", "\t"),
        options.get("quote", '"'),
        options.get("escape", "\\"),
        options.get("nullValue", ""),
    )
    if len(layout.quote) > 1 or len(layout.escape) != 1 or not layout.sep:
        message = "the QUOTE and the ESCAPE of csv files are one character each, and the separator is not empty"
        raise statement.text.error(message, kind=InvalidInputError)
    return layout


def _csv_rows(
    path: str, layout: CsvText, text_format: TextFormat, fields: Sequence[DataField]
) -> Callable[[Conversion, BadRowSink], Iterator[pa.Table]]:
    """Return what yields the rows of a csv file, whose columns are those of the table by their places."""
    schema = pa.schema([(field.name, pa.string()) for field in fields])

    def rows(conversion: Conversion, bad: BadRowSink) -> Iterator[pa.Table]:
        for records in _blocks(path, layout, text_format):
            for line, values in records:
                if len(values) != len(fields):
                    reason = f"the line has {len(values)} fields, not {len(fields)}"
                    bad.add([BadRecord(path, line, None, None, None, reason)])
            columns = list(zip(*(values for _, values in records), strict=True))
            texts = [pa.array(column, pa.string()) for column in columns]
            batch = pa.RecordBatch.from_arrays(texts, schema=schema)
            found, misfits = conversion.convert_rows(batch)
            bad.add([BadRecord(path, records[m.row][0], None, m.column, m.value, m.reason) for m in misfits])
            yield found

    return rows


def _blocks(path: str, layout: CsvText, text_format: TextFormat) -> Iterator[list[tuple[int, list[str | None]]]]:
    """Yield the records of a csv file without its header, some at a time, with their lines."""
    try:
        with ingested.text_lines(path, text_format) as lines:
            records = layout.records(path, lines)
            if text_format.header:
                next(records, None)
            while block := list(islice(records, _RECORDS)):
                yield block
    except (UnicodeError, LookupError) as error:
        message = f"{path}: the text is not {text_format.encoding} ({error}); say ENCODING = '...' in FILE_FORMAT"
        raise InvalidInputError(message, source=path) from None


def _parquet_rows(evaluation: DuckDBEvaluation, table: FileStoreTable, statement: CopyIn, path: str) -> _Rows:
    schema = ingested.arrow_schema(path, "parquet")
    columns = matched_columns(table.store, statement, schema.names, path)
    taken = [schema.field(at) for _, at in columns]

    def batches() -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(ingested.ROWS, columns=[one.name for one in taken])

    source = {_FILE: ArrowRows.of(pa.schema(taken), batches)}
    bound = evaluation.bind([])
    names = ", ".join(f"c{at}" for at in range(len(taken)))
    storing = StoreAssignment(table.store.name)

    def ready(chosen: str) -> PreparedQuery:
        text = f"SELECT {chosen} FROM (SELECT * FROM {_FILE}) AS _lw_rows({names})"  # noqa: S608 - names of ours
        return evaluation.ready(bound, lambda _: text, source)

    given = ready("*").columns
    assigned = [
        (field.name, f"{storing.value(f'c{at}', given[at].type, field, None)} AS {quote_identifier(field.name)}")
        for at, (field, _) in enumerate(columns)
    ]
    query = ready(", ".join(text for _, text in assigned))
    out = pa.schema([(column.name, column.type) for column in query.columns])

    def rows() -> Iterator[pa.RecordBatch]:
        try:
            with query.rows() as reader:
                yield from reader
        except LakewrightError as error:
            column = _failing([(name, ready(text)) for name, text in assigned])
            place = path if column is None else f"{path}: the column {column!r}"
            raise InvalidInputError(f"{place}: {error.message}", source=path, column=column) from error

    return out, rows()


def _failing(columns: Sequence[tuple[str, PreparedQuery]]) -> str | None:
    """Return the column whose values cannot be assigned."""
    return next((name for name, query in columns if _fails(query)), None)


def _fails(query: PreparedQuery) -> bool:
    try:
        with query.rows() as reader:
            for _ in reader:
                pass
    except LakewrightError:
        return True
    return False


# ---- out -------------------------------------------------------------------------------------------------------------


def copy_out(evaluation: DuckDBEvaluation, statement: CopyOut) -> int:
    """Write the rows of a query as a file in a directory, and return how many there are."""
    options = writer_options(statement)
    replaces = is_overwrite(statement)
    if "://" in statement.path.removeprefix("file://"):
        message = f"{statement.path} is not on this machine's disk; {_ON_SPARK}"
        raise statement.text.error(message, kind=UnsupportedError)
    directory = Path(statement.path.removeprefix("file://")).absolute()
    if directory.exists() and not replaces:
        message = f"{statement.path} exists already; OVERWRITE = TRUE replaces it"
        raise statement.text.error(message, kind=AlreadyExistsError, path=statement.path)
    if any((directory / "schema").glob("schema-[0-9]*")) or directory.is_file():
        message = f"{statement.path} is a {'file' if directory.is_file() else 'table'}: give another directory"
        raise statement.text.error(message, kind=InvalidInputError, path=statement.path)
    query = evaluation.query(statement.query)
    writer = file_writer(statement, options, _layout(statement, options), evaluation.lookup.zone)
    with _appearing(directory) as place, query.rows() as rows:
        count = writer(place / f"part-00000-{uuid.uuid4()}", rows)
        (place / "_SUCCESS").touch()
    return count


@contextmanager
def _appearing(directory: Path) -> Iterator[Path]:
    """Yield a directory that takes the place of another when the block ends; an error leaves the other as it was."""
    place = directory.with_name(f".{directory.name}-{uuid.uuid4()}")
    old = place.with_name(f"{place.name}-old")
    place.mkdir(parents=True)
    try:
        yield place
        if directory.exists():
            directory.rename(old)
        place.rename(directory)
    except BaseException:
        if old.exists() and not directory.exists():
            old.rename(directory)
        shutil.rmtree(place, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)
