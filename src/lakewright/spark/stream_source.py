"""The stream source.

On the driver Spark asks how far a batch goes and which partitions it has; on executors each partition is read by the
core's own reader. Every partition holds neighbouring splits of the stream, in order, so that rows of one key come in
the order of their snapshots where rows are taken partition by partition.

The columns are those that the stream began with. A column that a later schema adds is not read before a restart, one
that it drops reads as null, and one that it renames is still read. Rate limits need PySpark 4.2, which is the first to
ask for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.types import StructType

from lakewright.errors import InvalidInputError, NotFoundError
from lakewright.read.data_split import DataSplit
from lakewright.read.projection import ROW_KIND
from lakewright.read.read_builder import ReadBuilder, ReadRequest
from lakewright.read.split_planning import Packing, pack
from lakewright.read.stream_read import Limits, Offset, Steps
from lakewright.read.table_read import TableRead
from lakewright.read.time_travel import has_time_travel, with_snapshot_schema
from lakewright.spark.source_options import SourceOptions, check_zone_said
from lakewright.spark.spark_features import (
    DataSourceStreamReader,
    Feature,
    InputPartition,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
    has,
    require,
)
from lakewright.spark.spark_types import spark_schema, to_spark_batch
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.table_views import AuditLog

LIMITS = {"maxfilespertrigger": "files", "maxrowspertrigger": "rows", "maxbytespertrigger": "bytes"}
STREAM_READ = frozenset({"columns", "filter", "row_kinds", *LIMITS})
_BATCH_ROWS = 65536  # what Spark takes fastest
_TASKS = 16  # a batch is spread over so many tasks where it is large enough


def stream_reader(given: SourceOptions, schema: StructType) -> DataSourceStreamReader:
    """Return the reader of a stream, as `readStream` options describe it."""
    shown = given.open_any()
    table = shown if isinstance(shown, AuditLog) else given.open()
    limits = {word: given.number(word) for word in LIMITS if word in given.words}
    for word, limit in limits.items():
        if limit is None or limit < 1:
            raise InvalidInputError(f"{table.name}: the option {word!r} is 1 or more, not {limit}", option=word)
    if limits:
        word = next(iter(limits))
        require(Feature.RATE_LIMITS, f"{table.name}: the option {word!r}", option=word)
    check_zone_said(table.table if isinstance(table, AuditLog) else table, given.words.get("filter"))
    table = _as_promised(table, schema)
    read = stream_read(table, schema.names, given.words.get("filter"))
    _check_types(read, schema, table.name)
    kind = _LimitedReader if has(Feature.RATE_LIMITS) else _PlainReader
    return kind(read, schema.names, Limits(**{LIMITS[word]: limit for word, limit in limits.items()}))


def stream_read(table: FileStoreTable | AuditLog, columns: Sequence[str] | None, condition: str | None) -> TableRead:
    """Return what reads the rows of a stream; it gives the column `_row_kind` if the columns name it."""
    if isinstance(table, AuditLog):
        log = table.builder_of(table.table.store)
        return ReadRequest(filter=condition, columns=columns).apply_to(log).new_read()
    kinds = columns is not None and ROW_KIND in columns and ROW_KIND not in table.field_names
    names = None if columns is None else [name for name in columns if not kinds or name != ROW_KIND]
    request = ReadRequest(filter=condition, columns=names, row_kinds=kinds)
    return request.apply_to(ReadBuilder(table.store)).new_read()


class StreamSource(DataSourceStreamReader):
    """Reads a table as it grows."""

    def __init__(self, read: TableRead, names: Sequence[str], limits: Limits) -> None:
        self._read = read
        by_name = {field.name: field for field in read.projection.fields}
        self._fields = [by_name[name] for name in names]
        self._limits = limits
        self._last: int | None = None  # the newest snapshot to read, where the stream is to end
        self._begin: Offset | None = None
        self._at: Offset | None = None  # how far batches were planned
        self._made: Steps | None = None

    @property
    def _steps(self) -> Steps:
        if self._made is None:  # executors need none
            store = self._read.store
            self._made = Steps(store, self._read.predicate, store.options.consumer_id)
        return self._made

    def initialOffset(self) -> dict[str, object]:  # noqa: N802 - Spark's name
        """Return where the stream begins."""
        if self._begin is None:
            self._begin = self._steps.begin()
        return self._begin.to_json()

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> list[InputPartition]:
        """Return the partitions of one batch."""
        self._at = Offset.from_json(end)
        splits = self._steps.between(Offset.from_json(start), self._at)
        return [InputPartition(tuple(share)) for share in _shares(self._read, splits)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one partition, on an executor."""
        for batch in self._read.to_arrow_batch_reader(partition.value, parallelism=1):
            for start in range(0, batch.num_rows, _BATCH_ROWS):
                yield to_spark_batch(batch.slice(start, _BATCH_ROWS), self._fields)

    def commit(self, end: dict[str, object]) -> None:
        """Record that a batch is done, for the consumer of the stream."""
        self._steps.record(Offset.from_json(end))


class _PlainReader(StreamSource):
    """For PySpark before 4.2, which asks for the newest offset without saying where a batch begins."""

    def latestOffset(self) -> dict[str, object]:  # type: ignore[override]  # noqa: N802 - 4.1's signature
        """Return where the next batch ends."""
        try:
            start = self._at or Offset.from_json(self.initialOffset())
        except NotFoundError:
            # The stream goes on from a checkpoint, and the snapshot at which it once began may have expired.
            return Offset(self._steps.newest() + 1).to_json()
        return self._steps.advance(start, self._limits).to_json()


class _LimitedReader(StreamSource, SupportsTriggerAvailableNow):
    """For PySpark from 4.2 on, which says where a batch begins and how much it may hold."""

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return what a batch may hold; where there are several limits, all of them apply."""
        limits = self._limits
        return ReadAllAvailable() if limits == Limits() else ReadMaxFiles(limits.files or 1)

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> dict[str, object]:  # noqa: N802
        """Return where the next batch ends."""
        limits = Limits() if isinstance(limit, ReadAllAvailable) else self._limits
        return self._steps.advance(Offset.from_json(start), limits, self._last).to_json()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Let the stream end at the snapshot that is the newest now."""
        self._last = self._steps.newest()

    def reportLatestOffset(self) -> dict[str, object]:  # noqa: N802 - Spark's name
        """Return the offset behind the newest snapshot of the table."""
        return Offset(self._steps.newest() + 1).to_json()


def _as_promised(shown: FileStoreTable | AuditLog, schema: StructType) -> FileStoreTable | AuditLog:
    """Return the table with the columns that Spark was promised.

    These are the newest ones, except where options name the snapshot to begin at: then they are those of that snapshot,
    because Spark asks for the schema without saying that it is for a stream.
    """
    table = shown.table if isinstance(shown, AuditLog) else shown
    builder = shown.builder_of(table.store) if isinstance(shown, AuditLog) else ReadBuilder(table.store)
    newest = spark_schema(builder.read_type())
    if not has_time_travel(table.store) or all(
        field.name in newest.names and newest[field.name].dataType == field.dataType
        for field in schema.fields
        if field.name != ROW_KIND
    ):
        return shown
    travelled = replace(table, store=with_snapshot_schema(table.store) or table.store)
    return replace(shown, table=travelled) if isinstance(shown, AuditLog) else travelled


def _shares(read: TableRead, splits: Sequence[DataSplit]) -> Iterator[list[DataSplit]]:
    """Yield neighbouring splits that one task reads: of even size, none larger than a split may be by the options."""
    packing = Packing.of(read.store.options)
    weight: Callable[[DataSplit], int] = lambda split: packing.weight(split.files)  # noqa: E731
    even = sum(map(weight, splits)) // _TASKS
    return pack(splits, weight, min(packing.target_bytes, max(packing.open_file_bytes, even)))


def _check_types(read: TableRead, schema: StructType, table: str) -> None:
    """Refuse a schema of the user's own whose types are not those of the table."""
    known = {field.name: field.dataType for field in spark_schema(read.projection.fields).fields}
    for field in schema.fields:
        if known[field.name] != field.dataType:
            raise InvalidInputError(
                f"{table}: the column {field.name!r} is read as {known[field.name].simpleString()}, not as "
                f"{field.dataType.simpleString()}; cast it after reading",
                table=table,
                column=field.name,
            )
