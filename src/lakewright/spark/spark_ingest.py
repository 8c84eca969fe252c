"""Ingest on Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from itertools import chain, islice
from operator import add

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own habit
from pyspark.sql import types as sql

from lakewright.catalog.catalog import Catalog
from lakewright.compact.compaction_job import TaskRunner
from lakewright.engine.job_progress import ProgressCallback
from lakewright.errors import InvalidInputError, LakewrightError, UnsupportedError
from lakewright.ingestion import source_files
from lakewright.ingestion.bad_rows import BadRecord, BadRow, BadRowSink, Conversion
from lakewright.ingestion.ingest_plan import IngestCall, IngestResult, IngestTarget
from lakewright.ingestion.ingest_run import EngineResult, OpenedSource, run_call
from lakewright.ingestion.ingest_sources import FRAME, IngestSource, SourceInput
from lakewright.ingestion.local_ingest import LOCAL_BYTES_MAX
from lakewright.ingestion.source_files import TextFormat
from lakewright.ingestion.text_values import STRING, Guess, ParseSettings, as_text, guess
from lakewright.spark.bucket_shuffle import cluster
from lakewright.spark.frame_read import read_table
from lakewright.spark.spark_engine import compacting_on
from lakewright.spark.spark_session import require_spark_executors, settings
from lakewright.spark.spark_types import fields_of, spark_schema, to_spark_batch
from lakewright.spark.spark_verbs import write_table
from lakewright.spec.argument_checks import Distribution, PathLike, SchemaMode, WriteMode
from lakewright.spec.identifier import quote_identifier
from lakewright.spec.types import ArrayType, AtomicType, DataField, DataType, RowType, with_nullable
from lakewright.table.file_store_table import FileStoreTable
from lakewright.write.table_writer import WriteJob

# ---- Sources as frames -----------------------------------------------------------------------------------------------
# Spark splits files into records; `lakewright.ingestion.rows` converts them to rows, on the workers, so that both
# engines refuse the same texts for the same reasons. A record that Spark cannot split has its text in a column of its
# own.

RECORD, FILE = "_lakewright_record", "_lakewright_file"
_EMPTY = "\ue000empty\ue000"  # stands for a quoted empty text, which Spark would take for null
_BROKEN = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": RECORD}
_CSV = {
    **_BROKEN,
    "escape": '"',  # a quote inside quotes is doubled, as other writers do
    "emptyValue": _EMPTY,
    "columnPruning": "false",  # rows are checked whole
}
_ONE_TASK_BYTES = 128 << 20  # a file up to this size is read by one task anyway, so its records may span lines
_BAD = re.compile(r"\[LAKEWRIGHT_BAD_ROW\] (\{.*?\}) \[END\]")
_REASONS = (
    r"MALFORMED_CSV_RECORD",
    r"MALFORMED_RECORD_IN_PARSING[A-Z_.]*",
    r"PATH_NOT_FOUND",
    r"UNABLE_TO_INFER_SCHEMA",
    r"CANNOT_MERGE_SCHEMAS",
    r"CONFLICTING_DIRECTORY_STRUCTURES",
    r"FAILED_READ_FILE[A-Z_.]*",
)
_FILE = re.compile(r"Encountered error while reading file (\S+?)\.\s")
_HEADER = re.compile(r"CSV header does not conform to the schema.*?CSV file: (\S+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SparkSource:
    """One source as a frame, with its columns."""

    source: IngestSource
    frame: DataFrame
    fields: tuple[DataField, ...]
    parse_settings: ParseSettings
    text: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()
    options: Mapping[str, str] | None = None  # of the reader
    untyped: frozenset[str] = frozenset()

    def guess_types(self, names: Collection[str]) -> Mapping[str, DataType]:
        """Return the types of some columns; csv and json files are read for this."""
        types: dict[str, DataType] = {f.name: f.type for f in self.fields if f.name in names}
        texts = [name for name in types if name in self.text and name not in self.source.partition_columns]
        if not texts or self.source.format not in {"csv", "json"}:
            return types
        with reading(self.source.name):
            if self.source.format == "csv":
                good = self.frame.where(
                    column(RECORD).isNull()
                )  # records with other fields are bad, and decide no type
                return types | _guesses(good.select(*map(column, texts)))
            schema = _reader(self.frame.sparkSession, self.options or {}).json(list(self.source.paths)).schema
        guesses = {f.name: _json_type(f.type) for f in fields_of(schema)}
        return types | {name: guesses[name] for name in texts if name in guesses}

    def with_column_names(self, names: Sequence[str]) -> SparkSource:
        """Return the source with other names for its columns."""
        own = [f.name for f in self.fields if f.name not in self.source.partition_columns]
        directories = [f for f in self.fields if f.name in self.source.partition_columns]
        frame = self.frame.withColumnsRenamed(dict(zip(own, names, strict=True)))
        fields = (*(DataField(0, name, STRING) for name in names), *directories)
        return replace(self, frame=frame, fields=fields, text=frozenset(f.name for f in fields))


def column(name: str) -> Column:
    """Return a column by its exact name, whatever characters it has."""
    return F.col(quote_identifier(name))


def open_source(spark: SparkSession, source: IngestSource, call: IngestCall) -> list[SparkSource]:
    """Open a source and read its columns; one whose files differ in their columns becomes several."""
    options = {**source.reader_options, **call.reader_options}
    zone = str(spark.conf.get("spark.sql.session.timeZone"))
    parse_settings = ParseSettings.of_options(options, zone=zone, binary=source.format != "json")
    text_format = TextFormat.of_options(options, header=call.header)
    if source.format in {"csv", "json"}:
        require_spark_executors(spark, f"{source.name}: ingest of text files", "use lw.ingest, which needs no Spark")
    match source.format:
        case "csv" if source.local:
            return [
                _open_csv(spark, part, names, options, parse_settings, header=call.header)
                for part, names in source_files.parts_of(source, text_format)
            ]
        case "csv":
            first = _reader(spark, {"header": str(call.header).lower(), **_CSV, **options}).csv(list(source.paths))
            names = [name for name in first.columns if name not in _from_directories(source, first)]
            source_files.check_header(names, source.name, text_format)
            return [_open_csv(spark, source, names, options, parse_settings, header=call.header)]
        case "arrow":
            raise UnsupportedError(
                f"{source.name}: Spark does not read Arrow files: ingest them in this process (--engine local, "
                "lakewright.ingest)"
            )
        case "json":
            return [_open_json(spark, source, options, parse_settings, text_format)]
        case "parquet" | "orc":
            parts = [part for part, _ in source_files.parts_of(source, text_format)] if source.local else [source]
            return [_open_typed(spark, part, options, parse_settings) for part in parts]
        case _:
            frame = _frame_of(spark, source)
            return [SparkSource(source, frame, tuple(fields_of(frame.schema)), parse_settings)]


def _frame_of(spark: SparkSession, source: IngestSource) -> DataFrame:
    if source.table is not None:
        return read_table(spark, source.table)
    if not isinstance(source.frame, DataFrame):
        raise InvalidInputError(f"the source {source.name!r} is neither files, a table nor a frame", source=source.name)
    return source.frame


def _reader(spark: SparkSession, options: Mapping[str, str]) -> DataFrameReader:
    return spark.read.options(**options)


def _with_base_path(source: IngestSource, options: Mapping[str, str]) -> dict[str, str]:
    """Return the options with the directory below which directories are named column=value."""
    if not source.partition_columns or not source.local:
        return dict(options)
    depth = len(source.partition_columns) + 1
    return {"basePath": source.local[0].path.rsplit("/", depth)[0], **options}


def _open_csv(
    spark: SparkSession,
    source: IngestSource,
    names: Sequence[str],
    given: Mapping[str, str],
    parse_settings: ParseSettings,
    *,
    header: bool,
) -> SparkSource:
    if not names:
        raise InvalidInputError(f"the csv source {source.name!r} has no header line: it is empty", source=source.name)
    small = bool(source.local) and all(file.bytes <= _ONE_TASK_BYTES for file in source.local)
    options = {
        "header": str(header).lower(),
        "enforceSchema": str(bool(source.local)).lower(),  # headers of files elsewhere are compared by Spark
        "multiLine": str(small).lower(),
        **_CSV,
        **_with_base_path(source, given),
    }
    schema = _texts([*names, RECORD])
    frame = _with_text_directories(source, _reader(spark, options).schema(schema).format("csv"))
    own = [F.when(column(name) == _EMPTY, "").otherwise(column(name)).alias(name) for name in names]
    directories = [name for name in frame.columns if name not in {*names, RECORD}]
    frame = frame.select(*own, *map(column, directories), column(RECORD), F.input_file_name().alias(FILE))
    fields = tuple(DataField(0, name, STRING) for name in (*names, *directories))
    warnings = source_files.header_warnings(names, given) if header else ()
    return SparkSource(source, frame, fields, parse_settings, frozenset(f.name for f in fields), warnings, options)


def _texts(names: Iterable[str]) -> sql.StructType:
    return sql.StructType([sql.StructField(name, sql.StringType()) for name in names])


def _open_json(
    spark: SparkSession,
    source: IngestSource,
    given: Mapping[str, str],
    parse_settings: ParseSettings,
    text_format: TextFormat,
) -> SparkSource:
    options = _BROKEN | dict(given)
    options.setdefault("multiLine", "true" if _is_document(spark, source) else "false")
    with reading(source.name):
        reader = _reader(spark, options | {"primitivesAsString": "true"}).format("json")
        frame = _with_text_directories(source, reader)
    first = source_files.first_keys(source.local[0].path, text_format) if source.local else []
    known = {f.name: f for f in fields_of(frame.schema) if f.name != RECORD}
    order = [name for name in first if name in known]
    fields = tuple(known[name] for name in (*order, *(name for name in known if name not in order)))
    return SparkSource(source, frame, fields, parse_settings, frozenset(known), (), options)


def _is_document(spark: SparkSession, source: IngestSource) -> bool:
    """Return whether json files are documents over several lines rather than one record per line."""
    lines = spark.read.text(source.paths[0]).where("trim(value) != ''").head(1)
    return bool(lines) and str(lines[0][0]).strip()[:1] + str(lines[0][0]).strip()[-1:] != "{}"


def _open_typed(
    spark: SparkSession, source: IngestSource, given: Mapping[str, str], parse_settings: ParseSettings
) -> SparkSource:
    # Files elsewhere may differ in their columns: without this, Spark takes the columns of one file and drops others.
    options = {"mergeSchema": "false" if source.local else "true", **_with_base_path(source, given)}
    with reading(source.name):
        frame = _with_text_directories(source, _reader(spark, options).format(source.format))
    columns = source_files.arrow_schema(source.local[0].path, source.format) if source.local else pa.schema([])
    untyped = frozenset(f.name for f in columns if pa.types.is_null(f.type))  # Spark reads them as INT
    frame = frame.withColumns({name: F.lit(None).cast("string") for name in untyped}) if untyped else frame
    text = _from_directories(source, frame) | untyped
    return SparkSource(source, frame, tuple(fields_of(frame.schema)), parse_settings, text, (), options, untyped)


def _with_text_directories(source: IngestSource, reader: DataFrameReader) -> DataFrame:
    """Read files, and leave names of directories text: Spark's guess would turn 007 into 7."""
    frame = reader.load(list(source.paths))
    directories = _from_directories(source, frame)
    columns = [sql.StructField(f.name, sql.StringType()) if f.name in directories else f for f in frame.schema.fields]
    if columns == frame.schema.fields:
        return frame
    return reader.schema(sql.StructType(columns)).load(list(source.paths))


def _from_directories(source: IngestSource, frame: DataFrame) -> frozenset[str]:
    """Return the columns whose values are names of directories."""
    if source.files is not None:
        return frozenset(source.partition_columns)
    parts = [part for path in frame.inputFiles()[:1] for part in path.split("/")[:-1] if "=" in part]
    return frozenset(part.split("=", 1)[0] for part in parts) & frozenset(frame.columns)


# ---- types -----------------------------------------------------------------------------------------------------------


def _guesses(frame: DataFrame) -> dict[str, DataType]:
    """Read all texts of a frame, and return the types of its columns."""
    names = frame.columns

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        guesses = [Guess()] * len(names)
        for batch in batches:
            guesses = [one + guess(batch.column(at)) for at, one in enumerate(guesses)]
        texts = [one.to_text() for one in guesses]
        yield pa.RecordBatch.from_pydict({"at": list(range(len(names))), "guess": texts})

    rows = frame.mapInArrow(task, "at long, guess string").collect()
    return {
        name: reduce(add, (Guess.of_text(row["guess"]) for row in rows if row["at"] == at), Guess()).type
        for at, name in enumerate(names)
    }


def _json_type(dtype: DataType) -> DataType:
    """Return the type of a column for the type that Spark infers from json: numbers too long for BIGINT stay text."""
    match dtype:
        case ArrayType():
            return ArrayType(dtype.nullable, _json_type(dtype.element))
        case RowType():
            return RowType(dtype.nullable, [replace(f, type=_json_type(f.type)) for f in dtype.fields])
        case AtomicType(root="BIGINT" | "DOUBLE" | "BOOLEAN"):
            return dtype
        case _:
            return STRING


# ---- rows ------------------------------------------------------------------------------------------------------------


def _frame_to_convert(opened: SparkSource, conversion: Conversion) -> DataFrame:
    """Return the frame to convert; json is read again, as texts in the shapes of the table's columns."""
    if opened.source.format != "json":
        return opened.frame
    known = {f.name: f for f in conversion.fields}
    shapes = dict(conversion.pairs)
    fields = [
        DataField(0, f.name, as_text(known[shapes[f.name]].type) if shapes.get(f.name) in known else f.type)
        for f in opened.fields
    ]
    schema = spark_schema(map(_nullable, fields))
    schema = sql.StructType([*schema.fields, *_texts([RECORD]).fields])
    frame = _reader(opened.frame.sparkSession, opened.options or {}).schema(schema).json(list(opened.source.paths))
    return frame.withColumn(FILE, F.input_file_name())


def _nullable(one: DataField) -> DataField:
    return replace(one, type=with_nullable(one.type, nullable=True))


def converted_rows(opened: SparkSource, conversion: Conversion, *, skip_bad: bool) -> DataFrame:
    """Return the rows of a source that fit the table; a bad row is an error, or with `skip_bad` left out."""
    known = {f.name: f for f in conversion.fields}
    names = [to for _, to in conversion.pairs] + list(conversion.constants)
    fields = [_nullable(known.get(name, DataField(0, name, STRING))) for name in names]

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows, bad = _split(batch, conversion)
            if bad and not skip_bad:
                raise RuntimeError(_mark_bad_record(bad[0]))
            yield from (to_spark_batch(one, fields) for one in rows.to_batches())

    return _inputs(opened, conversion).mapInArrow(task, spark_schema(fields))


def _mark_bad_record(row: BadRecord) -> str:
    """Return a bad record between marks, so that the driver finds it in the text of Spark's error."""
    return f"[LAKEWRIGHT_BAD_ROW] {json.dumps(asdict(row), default=str)} [END]"


def bad_records(opened: SparkSource, conversion: Conversion) -> Iterator[BadRecord]:
    """Yield the records of a source that do not fit the table."""
    names = ("file", "record", "column", "value", "reason")

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            _, bad = _split(batch, conversion)
            texts = {name: [_text(getattr(one, name)) for one in bad] for name in names}
            yield pa.RecordBatch.from_pydict(texts, schema=pa.schema([(name, pa.string()) for name in names]))

    for row in _inputs(opened, conversion).mapInArrow(task, _texts(names)).toLocalIterator():
        yield BadRecord(row["file"], None, row["record"], row["column"], row["value"], row["reason"])


def _text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, default=str)


def _inputs(opened: SparkSource, conversion: Conversion) -> DataFrame:
    frame = _frame_to_convert(opened, conversion)
    extra = [name for name in (RECORD, FILE) if name in frame.columns]
    frame = frame.select(*(column(name) for name, _ in conversion.pairs), *map(column, extra))
    return frame if FILE in extra else frame.withColumn(FILE, F.input_file_name())


def _split(batch: pa.RecordBatch, conversion: Conversion) -> tuple[pa.Table, list[BadRecord]]:
    """Return the rows of a batch that fit the table, and the records that do not."""
    files_of = batch.column(FILE)
    bad: list[BadRecord] = []
    if RECORD in batch.schema.names:
        broken = pc.is_valid(batch.column(RECORD))
        for at in pc.indices_nonzero(broken).to_pylist():
            text = batch.column(RECORD)[at].as_py()
            bad.append(BadRecord(_path(files_of[at].as_py()), None, text.rstrip(), None, None, _BROKEN_RECORD))
        batch = batch.filter(pc.invert(broken)) if bad else batch
    rows, misfits = conversion.convert_rows(batch)
    plain = batch.drop_columns([name for name in (RECORD, FILE) if name in batch.schema.names])
    return rows, bad + [_bad_record(plain, batch.column(FILE), one, conversion) for one in misfits]


_BROKEN_RECORD = "the record cannot be read: it has too few or too many fields, or values of another shape"


def _bad_record(plain: pa.RecordBatch, names: pa.Array, one: BadRow, conversion: Conversion) -> BadRecord:
    record = plain.slice(one.row, 1).to_pylist()[0]
    file = _path(names[one.row].as_py()) or conversion.source
    return BadRecord(file, None, record, one.column, one.value, one.reason)


def _path(uri: str) -> str:
    return re.sub(r"^file:/+", "/", uri)


def union_frames(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of several frames, in their order."""
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


# ---- errors ----------------------------------------------------------------------------------------------------------


@contextmanager
def reading(what: str, remedy: str = "") -> Iterator[None]:
    """Turn Spark's errors about bad files and records into InvalidInputError, one sentence long."""
    try:
        yield
    except LakewrightError:
        raise
    except Exception as error:
        text = str(error)
        bad = _BAD.search(text)
        if bad is not None:
            row = BadRecord(**json.loads(bad[1]))
            facts = {"source": row.file, "column": row.column, "value": row.value}
            raise InvalidInputError(f"{row}{remedy}", **facts) from error
        reason = _reason(text)
        if reason is None:
            raise
        raise InvalidInputError(f"{what}: {reason}", source=what) from error


def _reason(text: str) -> str | None:
    header = _HEADER.search(text)
    if header:
        lines = " ".join(header[0].split())
        return f"{lines}; give files with other headers as sources of their own"
    file = _FILE.search(text)
    where = f" (in {file[1]})" if file else ""
    for condition in _REASONS:
        match = re.search(rf"\[{condition}\] (.*?)(?:\s*SQLSTATE|\n\tat |$)", text, re.DOTALL)
        if match:
            message = " ".join(match[1].split())
            return message if where == "" or "(in " in message else f"{message}{where}"
    return None


# ---- The ingest ------------------------------------------------------------------------------------------------------
# The task that reads a bad row finds it. If the caller asks for a file of bad rows, the sources are read twice: once
# for these rows, which are sent to the driver, and once for the others, which the workers write.

# Names of columns may differ in case alone, and times of day are parsed. A session that refuses these settings refuses
# such columns as well.
_SETTINGS = {"spark.sql.caseSensitive": "true", "spark.sql.timeType.enabled": "true"}
_BAD_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class SparkIngest:
    """Reads and writes with the workers of a session."""

    spark: SparkSession
    concurrency: int | None = None
    distribution: Distribution | None = None
    progress: bool | ProgressCallback | None = None
    compactions: TaskRunner | None = field(default=None)

    def open(self, source: IngestSource, call: IngestCall) -> Sequence[OpenedSource]:
        """Open a source; one whose files differ in their columns becomes several."""
        with reading(source.name):
            return open_source(self.spark, source, call)

    def describe_write(
        self, target: IngestTarget, parts: Sequence[tuple[OpenedSource, Conversion]], call: IngestCall, /
    ) -> str:
        """Return in words how the rows would be written, without running anything."""
        # A table that does not exist has no identity yet, and a plan needs none.
        write = WriteJob(target.store, "", "", overwrite=call.mode == "overwrite", keys_only=call.mode == "delete")
        frame = _frame(parts, call)
        return cluster(frame, write, concurrency=self.concurrency, distribution=self.distribution).method

    def write(
        self, table: FileStoreTable, parts: Sequence[tuple[OpenedSource, Conversion]], call: IngestCall, bad: BadRowSink
    ) -> EngineResult:
        """Write the rows of all sources and commit them once."""
        frame = _frame(parts, call)
        with reading(" + ".join(dict.fromkeys(one.source.name for one, _ in parts)), bad.remedy):
            if not bad.raises:
                records = chain.from_iterable(bad_records(_own(opened), conversion) for opened, conversion in parts)
                while some := list(islice(records, _BAD_AT_ONCE)):
                    bad.add(some)
            result = write_table(
                frame,
                table,
                call.mode,
                partitions=call.overwritten_partition,
                concurrency=self.concurrency,
                job_id=call.job_id,
                progress=self.progress,
                distribution=self.distribution,
            )
        return EngineResult(result, _duplicates(frame, table.primary_keys, parts))


def _own(opened: OpenedSource) -> SparkSource:
    if not isinstance(opened, SparkSource):
        raise TypeError(f"{type(opened).__name__} was not opened by Spark")
    return opened


def _frame(parts: Sequence[tuple[OpenedSource, Conversion]], call: IngestCall) -> DataFrame:
    """Return the rows of all sources under the names of the table."""
    return union_frames([_convert_frame(_own(opened), conversion, call, len(parts)) for opened, conversion in parts])


def _convert_frame(opened: SparkSource, conversion: Conversion, call: IngestCall, parts: int) -> DataFrame:
    if parts > 1 or opened.text or call.bad_rows is not None or conversion.constants:
        return converted_rows(opened, conversion, skip_bad=call.bad_rows is not None)
    # No column has to be parsed, so Spark itself renames the columns, without Python workers.
    return opened.frame.select(*(column(name).alias(to) for name, to in conversion.pairs))


def _duplicates(frame: DataFrame, keys: Sequence[str], parts: Sequence[tuple[OpenedSource, Conversion]]) -> int | None:
    """Return how many rows had the key of another; None: there is no key, or counting would take too long.

    A job of its own reads the sources again for this, after the commit, which need not wait for it.
    """
    sizes = [one.source.bytes for one, _ in parts]
    if not keys or not set(keys) <= set(frame.columns) or any(s is None or s > LOCAL_BYTES_MAX for s in sizes):
        return None
    counted = frame.groupBy(*map(column, keys)).count().agg(F.sum(F.col("count") - 1)).head()
    return 0 if counted is None or counted[0] is None else int(counted[0])


def ingest(  # noqa: PLR0913 - each argument is one choice of the caller
    spark: SparkSession,
    source: SourceInput | DataFrame | Sequence[SourceInput | DataFrame],
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
    concurrency: int | None = None,
    distribution: Distribution | None = None,
    job_id: str | None = None,
    dry_run: bool = False,
    progress: bool | ProgressCallback | None = None,
    say: Callable[[str], None] | None = None,
) -> IngestResult:
    """Load files, tables or frames, fit them to a table, write them with Spark's workers and commit once.

    `source` is a path, a pattern, a directory, a table (its path, or `db.t` of the catalog), a frame, or several of
    these; `table` is a table, its path, or `db.t` of `catalog`. With `create` a table that does not exist is created
    with the columns of the sources (`types` overrides some types), `primary_keys`, `partition_keys` and `options`.
    Columns are matched by name; `renames` come first. `ignore_extra` or `schema_mode="merge"` says what to do with
    those that the table lacks; `bad_rows` names a directory for rows that cannot be read; `say` gets the report.
    """
    given = locals() | {"source": _with_frames(source)}
    with settings(spark, _SETTINGS, optional=True):
        return run_call(SparkIngest(spark, concurrency, distribution, progress, compacting_on(spark)), given)


def _with_frames(source: SourceInput | DataFrame | Sequence[SourceInput | DataFrame]) -> list[SourceInput]:
    several = source if isinstance(source, Sequence) and not isinstance(source, str) else [source]
    return [IngestSource("frame", FRAME, frame=one) if isinstance(one, DataFrame) else one for one in several]
