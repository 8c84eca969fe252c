"""Splits through `mapInArrow` and our reader.

Invariant: nothing is read before an action runs, and every action reads the snapshot that the splits were
planned on; filters, projections, merges, deletion vectors, row kinds and differences mean what they mean embedded,
because the same code runs. Spark does not see behind `mapInArrow`: it prunes nothing there, so only the columns of the
read are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import StructType

from lakewright.errors import LakewrightError
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_split import DataSplit
from lakewright.read.incremental import units_of
from lakewright.read.manifest_scan import FileSchemas
from lakewright.read.projection import Projection
from lakewright.read.split_reader import SplitReader
from lakewright.read.split_sharing import Share, cut_splits, share_splits
from lakewright.read.table_read import TableRead
from lakewright.spark.spark_session import is_connect, map_in_arrow, read_setting
from lakewright.spark.spark_types import spark_batches, spark_schema
from lakewright.spec.predicate import Predicate

Work: TypeAlias = Callable[[Sequence[DataSplit]], Iterator[pa.RecordBatch]]  # on an executor; it can be pickled

_ROWS_SHOWN_MAX = 1 << 27  # a longer range would take too long to count
_TASKS = 16  # if it is not known how many can run concurrently
_CLOSURE_BYTES_MAX = 1 << 20  # a function this large still goes to every task; more travels as rows


def merged_scan(
    spark: SparkSession, read: TableRead, splits: Sequence[DataSplit], *, partitions: int | None = None
) -> DataFrame:
    """Return the rows of splits as a frame; its tasks have about equal bytes, and there are `partitions` at most."""
    tasks = _parallelism(spark)
    parts = splits if read.limit is not None else cut_splits(read.store, splits, read.predicate, partitions or tasks)
    task_shares = share_splits(read.store, parts, at_least=tasks, exactly=partitions)
    work = _Reading(read.store, read.projection, read.predicate, read.limit)
    return over_shares(spark, task_shares, work, spark_schema(read.projection.fields))


def over_shares(spark: SparkSession, task_shares: Sequence[Share], work: Work, schema: StructType | str) -> DataFrame:
    """Return a frame that has a task for each share, and what `work` makes of its splits."""
    if not task_shares:
        return spark.createDataFrame([], schema)
    payloads = tuple(tuple(split.serialize() for split in share) for share in task_shares)
    rows = sum(split.row_count for share in task_shares for split in share)
    numbered = _one_row_per_task(spark, len(payloads), rows)
    if sum(len(data) for some in payloads for data in some) <= _CLOSURE_BYTES_MAX:
        return map_in_arrow(numbered, _InClosure(work, payloads), schema)
    carried = spark.createDataFrame(list(enumerate(map(list, payloads))), "task bigint, splits array<binary>")
    return map_in_arrow(numbered.join(F.broadcast(carried), "task").select("splits"), _InRows(work), schema)


def _parallelism(spark: SparkSession) -> int:
    """Return how many tasks a scan should have at least."""
    setting = read_setting(spark, "spark.sql.leafNodeDefaultParallelism")
    if setting is not None:
        return int(setting)
    return _TASKS if is_connect(spark) else spark.sparkContext.defaultParallelism


def _one_row_per_task(spark: SparkSession, tasks: int, rows: int) -> DataFrame:
    """Return a frame with one row, its number, in each of so many partitions.

    Spark takes what a function over a frame gives to have as many rows as the frame, and would broadcast a large
    table behind four splits. So it is shown a range as long as the table, of which all but `tasks` numbers are
    filtered out when it runs; counting costs two percent of reading, at most.
    """
    step = max(1, min(rows, _ROWS_SHOWN_MAX) // tasks)
    numbers = spark.range(0, tasks * step, 1, tasks)
    return numbers.where(F.col("id") % step == 0).select(F.expr(f"id div {step}").alias("task"))


@dataclass(frozen=True, slots=True)
class _Reading:
    """Reads splits on an executor."""

    store: TableStore
    projection: Projection
    predicate: Predicate
    limit: int | None

    def __call__(self, splits: Sequence[DataSplit]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of splits in the types of Spark, in batches that it takes fast."""
        reader = SplitReader(self.store, FileSchemas(self.store), self.projection, self.predicate)
        left = self.limit
        for batch in (batch for split in splits for unit in units_of(reader, split) for batch in unit()):
            yield from spark_batches(batch if left is None else batch.slice(0, left), self.projection.fields)
            left = None if left is None else left - batch.num_rows
            if left is not None and left <= 0:
                return


@dataclass(frozen=True, slots=True)
class _InClosure:
    """The function of a frame whose splits travel with it."""

    work: Work
    payloads: tuple[tuple[bytes, ...], ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from _raising_shortly(self.work([DataSplit.deserialize(data) for data in self.payloads[number]]))


@dataclass(frozen=True, slots=True)
class _InRows:
    """The function of a frame whose splits come as rows."""

    work: Work

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for share in batch.column(0).to_pylist():
                yield from _raising_shortly(self.work([DataSplit.deserialize(data) for data in share]))


def _raising_shortly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield batches, and raise an error of this library without its traceback, which Spark would show to the user."""
    try:
        yield from batches
    except LakewrightError as error:
        raise error.with_traceback(None) from None
