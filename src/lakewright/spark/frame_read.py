"""A read as a frame.

The core plans. Files that Spark's own scan reads exactly as the core would go through it (`parquet_scan`), also files
that must be merged if their outdated rows are known (`outdated`); the rest goes through the core's reader in Spark's
tasks (`core_reader`). The frame is the union of both. Filters and projections mean what they mean embedded, however a
row is read; the order of rows is not promised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakewright.errors import InvalidInputError
from lakewright.read.data_split import DataSplit
from lakewright.read.read_builder import Columns, ReadBuilder, ReadRequest, SnapshotRange
from lakewright.read.split_reader import check_places_are_known
from lakewright.read.table_read import TableRead
from lakewright.spark.column_filters import to_column
from lakewright.spark.computed_vectors import DividedSplits, MergeWay, divide_splits
from lakewright.spark.core_scan import merged_scan
from lakewright.spark.frame_operations import from_arrow, union_all
from lakewright.spark.native_scan import native_scan, native_splits
from lakewright.spark.spark_session import has_spark_executors, heal_workers, in_session_zone
from lakewright.spark.spark_types import spark_schema, to_spark_batch
from lakewright.spec.argument_checks import IncrementalMode, PathLike, TimestampLike
from lakewright.spec.filters import Filter
from lakewright.spec.types import DataField
from lakewright.table.open_table import read_builder, readable
from lakewright.table.table_views import ReadableTable, RowView, SystemReadBuilder, SystemTable


def read_table(  # noqa: PLR0913 - each argument is one way to say what to read
    spark: SparkSession,
    table: ReadableTable | PathLike,
    *,
    filter: Filter | None = None,  # noqa: A002 - the word every reader of tables uses
    columns: Columns | None = None,
    limit: int | None = None,
    snapshot_id: int | None = None,
    tag: str | None = None,
    timestamp: TimestampLike | None = None,
    incremental: SnapshotRange | None = None,
    incremental_mode: IncrementalMode | None = None,
    row_kinds: bool = False,
) -> DataFrame:
    """Read a table, or a path, as a frame; the newest snapshot unless an id, a tag or a time is given.

    The arguments are those of `lakewright.read_table`. The snapshot is chosen now, not when the frame runs. A filter
    keeps the rows that `.where` of the same text would: times without a zone are of the session's time zone.
    """
    request = ReadRequest(
        filter=filter,
        columns=columns,
        limit=limit,
        snapshot_id=snapshot_id,
        tag=tag,
        timestamp=timestamp,
        incremental=incremental,
        incremental_mode=incremental_mode,
        row_kinds=row_kinds,
    )
    builder = read_builder(_in_session_zone(spark, readable(table)), request)
    return frame_of(spark, builder)


def frame_of(
    spark: SparkSession, builder: ReadBuilder | SystemReadBuilder, *, filters_again: bool = False
) -> DataFrame:
    """Return what a builder reads as a frame.

    With `filters_again`, the frame may hold rows that the filter of the builder leaves out: Spark hands its own
    filter to its scan, and two of them take more time than one.
    """
    if isinstance(builder, SystemReadBuilder):
        rows = builder.new_read().to_arrow()
        known = {field.name: field for field in builder.source.fields}
        return local_frame(spark, rows, [known[name] for name in rows.column_names])
    return _read_splits(spark, builder.new_read(), None, filters_again=filters_again)


def to_spark(
    read: TableRead,
    splits: Sequence[DataSplit] | None = None,
    override_num_partitions: int | None = None,
    *,
    spark: SparkSession | None = None,
) -> DataFrame:
    """Read splits, all of a fresh plan where none are given, as a frame of the active session or the one given.

    `override_num_partitions` says how many partitions the frame has.
    """
    session = _session(spark)
    if override_num_partitions is not None and override_num_partitions < 1:
        raise InvalidInputError(f"a frame has at least 1 partition, not {override_num_partitions}")
    return _read_splits(session, read, splits, override_num_partitions)


def _read_splits(
    spark: SparkSession,
    read: TableRead,
    splits: Sequence[DataSplit] | None,
    partitions: int | None = None,
    *,
    filters_again: bool = False,
) -> DataFrame:
    """Return the rows of splits, or of a fresh plan, as a frame."""
    heal_workers(spark)
    planned = read.new_plan().splits() if splits is None else list(splits)
    frames = []
    for one, some in read.by_branch(planned):
        for split in some:
            check_places_are_known(one.store, one.projection, split)
        scanned = one.without_filter() if filters_again else one
        divided = _divide_splits(spark, scanned, some)
        if not divided.by_bits:
            frames.append(merged_scan(spark, one, divided.merged, partitions=partitions))
            continue
        frame = native_scan(spark, scanned, divided.by_bits, divided.outdated)
        frame = frame.union(merged_scan(spark, one, divided.merged)) if divided.merged else frame
        frames.append(frame if partitions is None else frame.repartition(partitions))
    frame = union_all(frames)
    if len(frames) > 1 and partitions is not None:
        frame = frame.repartition(partitions)
    return frame if read.limit is None else frame.limit(read.limit)


def _divide_splits(spark: SparkSession, read: TableRead, splits: Sequence[DataSplit]) -> DividedSplits:
    """Divide splits into those for Spark's own scan, with their outdated rows, and the others."""
    if not has_spark_executors(spark):
        reason = "the server is not Spark's, so its scans may read files in another way"
        return DividedSplits((), {}, tuple(splits), MergeWay(by_bits=False, reason=reason))
    if read.projection.rows is not None:
        reason = "the old and the new row of an update become one"
        return DividedSplits((), {}, tuple(splits), MergeWay(by_bits=False, reason=reason))
    if to_column(read.predicate, read.projection.read_fields) is None:
        return DividedSplits(
            (), {}, tuple(splits), MergeWay(by_bits=False, reason="Spark has no exact form of the filter")
        )
    native, rest = native_splits(read.store, splits, read.projection)
    divided = divide_splits(spark, read, rest)
    return replace(divided, by_bits=(*native, *divided.by_bits))


def _session(spark: SparkSession | None) -> SparkSession:
    session = spark or SparkSession.getActiveSession()
    if session is None:
        raise InvalidInputError(
            "there is no active Spark session: start one, for example with lakewright.spark.local_session(), or use "
            "lakewright.spark.read_table(spark, table)"
        )
    return session


def _in_session_zone(spark: SparkSession, table: ReadableTable) -> ReadableTable:
    """Return a table whose filters take a time without a zone as one of the session's zone; system tables have none."""
    match table:
        case SystemTable():
            return table
        case RowView():
            return type(table)(in_session_zone(spark, table.table))
        case _:
            return in_session_zone(spark, table.refreshed())


def local_frame(spark: SparkSession, rows: pa.Table, fields: Sequence[DataField]) -> DataFrame:
    """Return a few rows with the columns of these fields as a frame."""
    batches = [to_spark_batch(batch, fields) for batch in rows.to_batches() if batch.num_rows]
    if not batches:
        return spark.createDataFrame([], spark_schema(fields))
    return from_arrow(spark, pa.Table.from_batches(batches), spark_schema(fields))
