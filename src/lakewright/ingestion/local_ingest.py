"""Ingest in this process.

Sources are read a batch at a time and written by this process.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc

from lakewright.catalog.catalog import Catalog
from lakewright.commit.table_commit import WriteResult
from lakewright.compact.compaction_job import TaskRunner
from lakewright.engine.job_progress import ProgressCallback
from lakewright.errors import UnsupportedError
from lakewright.ingestion import source_files
from lakewright.ingestion.bad_rows import BadRecord, BadRow, BadRowSink, Conversion
from lakewright.ingestion.ingest_plan import IngestCall, IngestResult, IngestTarget
from lakewright.ingestion.ingest_run import EngineResult, OpenedSource, new_fields, run_call
from lakewright.ingestion.ingest_sources import ARROW, IngestSource, LocalFile, SourceInput, find_sources
from lakewright.ingestion.source_files import JsonBlock, Skipped, TextFormat
from lakewright.ingestion.text_values import STRING, Guess, ParseSettings, as_text, guess
from lakewright.spec.argument_checks import PathLike, SchemaMode, WriteMode
from lakewright.spec.arrow_types import to_arrow_type
from lakewright.spec.types import DataField, DataType
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.verbs import write_table

_WAY = "by this process"
LOCAL_BYTES_MAX = 64 << 20  # the command line ingests sources up to this size without Spark


def ingest(  # noqa: PLR0913 - each argument is one choice of the caller
    source: SourceInput | Sequence[SourceInput],
    table: FileStoreTable | PathLike,
    *,
    mode: WriteMode = "append",
    catalog: Catalog | Mapping[str, object] | None = None,
    format: str | None = None,  # noqa: A002 - what every reader of files calls it
    reader_options: Mapping[str, object] | None = None,
    header: bool = True,
    columns: str | Sequence[str] | None = None,
    renames: Mapping[str, str] | None = None,
    ignore_extra: bool = False,
    partitions: Mapping[str, object] | None = None,
    create: bool = False,
    primary_keys: str | Sequence[str] = (),
    partition_keys: str | Sequence[str] = (),
    types: Mapping[str, str] | None = None,
    options: Mapping[str, object] | None = None,
    schema_mode: SchemaMode | None = None,
    bad_rows: str | None = None,
    job_id: str | None = None,
    dry_run: bool = False,
    progress: bool | ProgressCallback | None = None,
    say: Callable[[str], None] | None = None,
) -> IngestResult:
    r"""Load local files or tables, fit them to a table, write them in this process and commit once.

    - `source`: a path, a pattern, a directory, a table (its path, or `db.t` of the catalog), or several of these.
    - `table`: a table, its path, or `db.t` of `catalog`; with `create` a table that does not exist is made with the
      columns of the sources (`types` says otherwise of some), `primary_keys`, `partition_keys` and `options`.
    - `renames`, `columns`, `ignore_extra`, `schema_mode="merge"`: columns are matched by name, after renames.
    - `mode`, `partitions`, `job_id`: as in `write_table`; `partitions` also gives values that the sources lack.
    - `bad_rows`: a directory for rows that cannot be read; without it the first one is an error.
    - `dry_run`: write nothing; the result's `plan` says what would be done. `say` gets the report line by line.

    >>> import tempfile, pathlib, lakewright as lw
    >>> place = pathlib.Path(tempfile.mkdtemp(), "a.csv")
    >>> _ = place.write_text("id,code,price\n1,007,9.50\n2,008,3.00\n")
    >>> catalog = lw.CatalogFactory.create({"warehouse": str(place.parent)})
    >>> _ = lw.ingest(place, "d.t", catalog=catalog, create=True, primary_keys=["id"])
    >>> [str(field.type) for field in catalog.get_table("d.t").fields]
    ['BIGINT NOT NULL', 'STRING', 'DECIMAL(18, 2)']
    """
    return run_call(LocalEngine(progress), locals())


def schema_of_files(
    source: SourceInput | Sequence[SourceInput],
    *,
    format: str | None = None,  # noqa: A002 - what every reader of files calls it
    header: bool = True,
) -> tuple[DataField, ...]:
    """Return the columns that `ingest` would give a new table for files; types of texts are guessed from all values."""
    return new_fields(LocalEngine(), find_sources(source, format=format), IngestCall(header=header))


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Reads and writes in this process."""

    progress: bool | ProgressCallback | None = None
    compactions: TaskRunner | None = None

    def open(self, source: IngestSource, call: IngestCall) -> Sequence[OpenedSource]:
        """Open a source; one whose files differ in their columns becomes several."""
        options = {**source.reader_options, **call.reader_options}
        reason = source_files.why_spark_is_needed(source, options)
        if reason is not None:
            raise UnsupportedError(f"{reason}: ingest it with Spark (--engine spark, lakewright.spark.ingest)")
        text_format = TextFormat.of_options(options, header=call.header)
        parse_settings = ParseSettings.of_options(options, binary=source.format != "json")
        if source.table is not None:
            return [LocalSource(source, tuple(source.table.fields), text_format, parse_settings)]
        directories = [DataField(0, name, STRING) for name in source.partition_columns]
        if source.format == "json":
            fields = (*source_files.json_fields([f.path for f in source.local], text_format), *directories)
            return [LocalSource(source, fields, text_format, parse_settings, frozenset(f.name for f in fields))]
        out = []
        for part, names in source_files.parts_of(source, text_format):
            if source.format == "csv":
                fields = (*(DataField(0, name, STRING) for name in names), *directories)
                text = frozenset(f.name for f in fields)
                warnings = source_files.header_warnings(names, options) if call.header else ()
                out.append(LocalSource(part, fields, text_format, parse_settings, text, warnings))
                continue
            schema = source_files.arrow_schema(part.local[0].path, part.format)
            chosen = call.column_request.chosen
            typed, untyped = source_files.file_columns(schema, part.name, chosen)
            fields = (*(f for f in typed if f.name not in part.partition_columns), *directories)
            text = frozenset(part.partition_columns)
            out.append(LocalSource(part, fields, text_format, parse_settings, text, untyped=untyped))
        return out

    def describe_write(
        self, _target: IngestTarget, _parts: Sequence[tuple[OpenedSource, Conversion]], _call: IngestCall
    ) -> str:
        """Return in words how the rows would be written."""
        return _WAY

    def write(
        self, table: FileStoreTable, parts: Sequence[tuple[OpenedSource, Conversion]], call: IngestCall, bad: BadRowSink
    ) -> EngineResult:
        """Write the rows of all sources and commit them once."""
        schema = pa.unify_schemas([conversion.schema for _, conversion in parts])
        keys = KeyCounter(table.primary_keys)
        rows = chain.from_iterable(_rows(opened, conversion, bad) for opened, conversion in parts)
        batches = (batch for part in rows for batch in keys.count(_with_all_columns(part, schema)).to_batches())
        result = write_table(
            pa.RecordBatchReader.from_batches(schema, batches),
            table,
            call.mode,
            partitions=call.overwritten_partition,
            job_id=call.job_id,
            progress=self.progress,
        )
        return EngineResult(WriteResult(**asdict(result), tasks=1, method=_WAY), keys.duplicates())


def _with_all_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with the columns of all sources; those that their own source lacks are null."""
    names = set(rows.column_names)
    columns = [rows.column(f.name) if f.name in names else pa.nulls(rows.num_rows, f.type) for f in schema]
    return pa.Table.from_arrays(columns, schema=schema)


class KeyCounter:
    """Keeps the keys of rows, to count those that an earlier row had."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self._seen: list[pa.Table] = []

    def count(self, rows: pa.Table) -> pa.Table:
        """Keep the keys of some rows, and return the rows."""
        if self._names and set(self._names) <= set(rows.column_names):
            self._seen.append(rows.select(self._names))
        return rows

    def duplicates(self) -> int | None:
        """Return how many rows had a key that an earlier row had; None: the table has no key."""
        if not self._names:
            return None
        if not self._seen:
            return 0
        keys = pa.concat_tables(self._seen)
        distinct = keys.group_by(self._names).aggregate([])
        return int(keys.num_rows - distinct.num_rows)


# ---- one source ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LocalSource:
    """Local files with the same columns, or a table."""

    source: IngestSource
    fields: tuple[DataField, ...]
    text_format: TextFormat
    parse_settings: ParseSettings
    text: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()
    untyped: frozenset[str] = frozenset()

    def guess_types(self, names: Collection[str]) -> Mapping[str, DataType]:
        """Return the types of some columns; csv files are read for this."""
        types = {f.name: f.type for f in self.fields if f.name in names}
        columns = [n for n in types if n not in self.source.partition_columns] if self.source.format == "csv" else []
        guesses = dict.fromkeys(columns, Guess())
        for batch in self._texts() if columns else ():
            guesses = {name: guesses[name] + guess(batch.column(name)) for name in columns}
        return types | {name: one.type for name, one in guesses.items()}

    def _texts(self) -> Iterator[pa.RecordBatch]:
        for file in self.source.local:
            yield from source_files.csv_batches(file.path, self.csv_names, self.text_format, Skipped())

    @property
    def csv_names(self) -> list[str]:
        """The columns that stand in the files, without those of directory names."""
        return [f.name for f in self.fields if f.name not in self.source.partition_columns]

    def with_column_names(self, names: Sequence[str]) -> LocalSource:
        """Return the source with other names for its columns."""
        directories = [f for f in self.fields if f.name in self.source.partition_columns]
        fields = (*(DataField(0, name, STRING) for name in names), *directories)
        return replace(self, fields=fields, text=frozenset(f.name for f in fields))


def _rows(opened: OpenedSource, conversion: Conversion, bad: BadRowSink) -> Iterator[pa.Table]:
    """Yield the rows of a source that fit the table, file by file; the others go to `bad`."""
    if not isinstance(opened, LocalSource):
        return
    if opened.source.table is not None:
        read = opened.source.table.new_read_builder().with_projection([name for name, _ in conversion.pairs])
        for batch in read.new_read().to_arrow_batch_reader():
            rows, misfits = conversion.convert_rows(batch)
            bad.add([_bad_record(opened.source.name, one, batch.slice(one.row, 1)) for one in misfits])
            yield rows
        return
    reader = {"csv": _csv_rows, "json": json_rows}.get(opened.source.format, _typed_rows)
    for file in opened.source.local:
        yield from reader(file, opened, conversion, bad)


def _bad_record(name: str, one: BadRow, row: pa.RecordBatch) -> BadRecord:
    return BadRecord(name, None, row.to_pylist()[0], one.column, one.value, one.reason)


def _csv_rows(file: LocalFile, opened: LocalSource, conversion: Conversion, bad: BadRowSink) -> Iterator[pa.Table]:
    names = opened.csv_names
    skipped = Skipped()
    misfits: dict[int, BadRow] = {}  # by the number of the record
    first = 0
    for batch in source_files.csv_batches(file.path, names, opened.text_format, skipped):
        rows, bad_rows = conversion.convert_rows(_with_values(batch, file))
        misfits |= {first + one.row: one for one in bad_rows}
        first += batch.num_rows
        if bad.raises and (misfits or skipped.rows):
            break
        yield rows
    if misfits or skipped.rows:
        bad.add(_csv_bad_records(file, opened, misfits))


def _csv_bad_records(file: LocalFile, opened: LocalSource, misfits: Mapping[int, BadRow]) -> list[BadRecord]:
    """Return the bad records of a csv file with their lines; the file is read again for them."""
    width = len(opened.csv_names)
    out = []
    for record in source_files.find_csv_records(file.path, opened.text_format, width, misfits.keys()):
        if record.number is None:
            reason = f"the line has {record.width} fields, not {width}"
            out.append(BadRecord(file.path, record.line, record.text, None, None, reason))
        else:
            one = misfits[record.number]
            out.append(BadRecord(file.path, record.line, record.text, one.column, one.value, one.reason))
    return out


def json_rows(file: LocalFile, opened: LocalSource, conversion: Conversion, bad: BadRowSink) -> Iterator[pa.Table]:
    """Yield the rows of a json file that fit the table; the others go to `bad`."""
    known = {f.name: f.type for f in conversion.fields}
    shapes = {
        name: to_arrow_type(as_text(known[to])) if to in known else pa.string()
        for name, to in conversion.pairs
        if name not in dict(file.values)
    }
    skipped = Skipped()
    for read in source_files.json_blocks(file.path, opened.text_format, exact=True, skipped=skipped):
        bad.add(skipped.bad)
        skipped.bad.clear()
        block, batch, wrong_shapes = source_files.json_texts(file.path, read, shapes)
        bad.add(wrong_shapes)
        rows, misfits = conversion.convert_rows(_with_values(batch, file))
        bad.add([_json_bad_record(file.path, block, one) for one in misfits])
        yield rows
    bad.add(skipped.bad)


def _json_bad_record(path: str, block: JsonBlock, one: BadRow) -> BadRecord:
    return BadRecord(path, block.lines[one.row], block.text(one.row), one.column, one.value, one.reason)


def _typed_rows(file: LocalFile, opened: LocalSource, conversion: Conversion, bad: BadRowSink) -> Iterator[pa.Table]:
    columns = [name for name, _ in conversion.pairs if name not in dict(file.values)]
    first = 0
    for batch in _typed_batches(file.path, opened.source.format, columns):
        rows, misfits = conversion.convert_rows(_with_values(batch, file))
        bad.add([_bad_record(f"{file.path}, row {first + one.row}", one, batch.slice(one.row, 1)) for one in misfits])
        first += batch.num_rows
        yield rows


def _typed_batches(path: str, format: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:  # noqa: A002
    if format == "parquet":
        with pq.ParquetFile(path) as file:
            yield from file.iter_batches(source_files.ROWS, columns=list(columns))
        return
    if format == ARROW:
        yield from source_files.ipc_batches(path, columns)
        return
    stripes = orc.ORCFile(path)
    for number in range(stripes.nstripes):
        yield stripes.read_stripe(number, columns=list(columns))


def _with_values(batch: pa.RecordBatch, file: LocalFile) -> pa.RecordBatch:
    """Return the batch with a column for each directory of the file that is named column=value."""
    for name, text in file.values:
        batch = batch.append_column(name, pa.array([text] * batch.num_rows, pa.string()))
    return batch
