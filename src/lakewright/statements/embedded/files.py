"""COPY INTO in this process: local files in, snapshots out, and rows in, a directory of files out.

Texts of csv and json files become values as `lakewright.ingest` parses them; columns of parquet files are assigned by
the rules of INSERT. Rows pass in batches. What always holds: a file with a wrong value is an error that names the file
and the column, and loads nothing; a directory appears when all its files are written.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lakewright.calls import write_table
from lakewright.errors import AlreadyExistsError, InvalidInputError, LakewrightError, UnsupportedError
from lakewright.ingestion import files as ingested
from lakewright.ingestion.files import TextFormat
from lakewright.ingestion.local import LocalSource, json_rows
from lakewright.ingestion.rows import BadRecord, BadRowSink, Conversion
from lakewright.ingestion.sources import LocalFile, Source, local_files
from lakewright.ingestion.text import ParseSettings
from lakewright.spec.types import DataField
from lakewright.statements.change.assign import Storing, quoted
from lakewright.statements.change.copy import (
    CopySettings,
    FileVersion,
    copied_fields,
    is_overwrite,
    load_files,
    matched_columns,
    reader_options,
    writer_options,
)
from lakewright.statements.embedded.changes import in_zone
from lakewright.statements.embedded.csv_text import CsvText
from lakewright.statements.embedded.evaluate import Evaluation, Ready
from lakewright.statements.embedded.file_writers import file_writer
from lakewright.statements.embedded.sources import ArrowRows
from lakewright.statements.model import CopyIn, CopyOut
from lakewright.table.table import FileStoreTable

_RECORDS = 20_000  # of a csv file at a time
_FILE = "_lw_file"
_READ_HERE = {  # the compression follows from the name of a file
    "csv": {*ingested.CSV_OPTIONS, "compression"},
    "json": {*ingested.JSON_OPTIONS, "compression"},
    "parquet": {"compression"},
}
_ON_SPARK = "lakewright.spark.SQLContext can do it"


# ---- in --------------------------------------------------------------------------------------------------------------


def copy_in(evaluation: Evaluation, statement: CopyIn) -> int:
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
    evaluation: Evaluation, table: FileStoreTable, statement: CopyIn, options: dict[str, str]
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
            source = LocalSource(Source(path, "json"), fields, text_format, settings)
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


def _parquet_rows(evaluation: Evaluation, table: FileStoreTable, statement: CopyIn, path: str) -> _Rows:
    schema = ingested.arrow_schema(path, "parquet")
    columns = matched_columns(table.store, statement, schema.names, path)
    taken = [schema.field(at) for _, at in columns]

    def batches() -> Iterator[pa.RecordBatch]:
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(ingested.ROWS, columns=[one.name for one in taken])

    source = {_FILE: ArrowRows.of(pa.schema(taken), batches)}
    bound = evaluation.bind([])
    names = ", ".join(f"c{at}" for at in range(len(taken)))
    storing = Storing(table.store.name)

    def ready(chosen: str) -> Ready:
        text = f"SELECT {chosen} FROM (SELECT * FROM {_FILE}) AS _lw_rows({names})"  # noqa: S608 - names of ours
        return evaluation.ready(bound, lambda _: text, source)

    given = ready("*").columns
    assigned = [
        (field.name, f"{storing.value(f'c{at}', given[at].type, field, None)} AS {quoted(field.name)}")
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


def _failing(columns: Sequence[tuple[str, Ready]]) -> str | None:
    """Return the column whose values cannot be assigned."""
    return next((name for name, query in columns if _fails(query)), None)


def _fails(query: Ready) -> bool:
    try:
        with query.rows() as reader:
            for _ in reader:
                pass
    except LakewrightError:
        return True
    return False


# ---- out -------------------------------------------------------------------------------------------------------------


def copy_out(evaluation: Evaluation, statement: CopyOut) -> int:
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
