"""Groups of files as frames: groups in, a frame of their rows with group number and position out; and the reverse.

The reverse (`shuffle_by_group`, `split_by_group`) takes rows with a group number, and gives each task its groups one
after the other, each with its rows.

Files that Spark's own scan reads exactly as the core does are read by it, with row positions; all others by the core's
reader, on the workers. Rows of a primary-key table are merged first, and a position is a row's number in that order.
What always holds: only live rows are returned; columns are named by their index (`t0`, `t1`, ...), so that no name of
the table can clash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby, pairwise
from operator import itemgetter

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from lakewright.distributed.job import TaskId
from lakewright.distributed.rows.groups import (
    GROUP,
    POSITION,
    Changed,
    Changes,
    GroupedRows,
    apply_changes,
    applying,
    description,
)
from lakewright.metadata.store import TableStore
from lakewright.read.builder import TableRead, TableScan
from lakewright.read.projection import plan_projection
from lakewright.read.scan import FileSchemas
from lakewright.read.splits.plan import Packing
from lakewright.read.splits.shares import shares
from lakewright.read.splits.split import DataSplit
from lakewright.spark.jobs.estimate import parallelism
from lakewright.spark.jobs.frames import from_arrow, placed
from lakewright.spark.jobs.run import Task
from lakewright.spark.jobs.types import spark_batches, spark_schema
from lakewright.spark.jobs.workers import SparkWork, SparkWorkers
from lakewright.spark.read.core_reader import over_shares
from lakewright.spark.read.filters import to_column
from lakewright.spark.read.parquet_scan import native_scan, native_splits
from lakewright.spec.predicate.predicate import TRUE, Predicate
from lakewright.spec.types import AtomicType, DataField
from lakewright.update.change import ChangeJob
from lakewright.update.find import hidden_fields, locate
from lakewright.update.primary_key import locate_merged

PART, TASK = "part", "task"

_TASK_BYTES = 64 << 20  # of the rows that change groups, worth a task of their own
_PLACE = (
    DataField(0, GROUP, AtomicType("INT", nullable=False)),
    DataField(1, POSITION, AtomicType("BIGINT", nullable=False)),
)


def located_rows(
    spark: SparkSession,
    store: TableStore,
    parts: Mapping[int, DataSplit],
    columns: Sequence[str],
    predicate: Predicate = TRUE,
) -> DataFrame:
    """Return the live rows of groups that fulfil a predicate, as `group`, `position` and the columns `t0`, `t1`, ..."""
    names = [GROUP, POSITION, *(column_name(at) for at in range(len(columns)))]
    known = {field.name: field for field in (*store.schema.fields, *hidden_fields(store))}
    fields = tuple(known[name] for name in columns)
    numbers = {part.file_paths[0]: number for number, part in parts.items()}
    native, rest = _split_by_reader(store, list(parts.values()), columns, predicate)
    frames = []
    if native:
        projection = plan_projection(store.schema.fields, list(columns), predicate)
        read = TableRead(store, projection, predicate, None, TableScan(store, predicate, None))
        frames.append(native_scan(spark, read, native, numbers=numbers).toDF(*names))
    if rest or not frames:
        left = {part.file_paths[0]: numbers[part.file_paths[0]] for part in rest}
        work = _LocateTask(store, tuple(columns), predicate, fields, left)
        found = shares(store, rest, at_least=parallelism(spark)) if rest else []
        frames.append(over_shares(spark, found, work, spark_schema(work.fields)).toDF(*names))
    return frames[0] if len(frames) == 1 else frames[0].union(frames[1])


def column_name(place: int) -> str:
    """Return the name of a column of located rows."""
    return f"t{place}"


def shuffle_by_group(frame: DataFrame, parts: Sequence[DataSplit], tasks: int, order: str) -> DataFrame:
    """Shuffle rows to the tasks of their groups, ordered by group; rows without a group come first in their task.

    The frame has `group`, `task` for rows without a group, and the column `order` for the rows of a group. The first
    row of every group is null in all columns but `part`, which holds the serialised group.
    """
    columns = [name for name in frame.columns if name != TASK]
    target = F.coalesce(F.col(GROUP) % tasks, F.col(TASK)).alias(TASK)
    frame = frame.select(target, *columns, F.lit(None).cast("binary").alias(PART))
    if parts:
        types = {field.name: field.dataType for field in frame.schema.fields}
        empty = [F.lit(None).cast(types[name]).alias(name) for name in columns if name != GROUP]
        numbers = pa.array(range(len(parts)), pa.int32())
        data = pa.array([part.serialize() for part in parts], pa.binary())
        groups = from_arrow(frame.sparkSession, pa.table({GROUP: numbers, PART: data}))
        frame = frame.unionByName(groups.select((F.col(GROUP) % tasks).alias(TASK), GROUP, *empty, PART))
    frame = placed(frame, tasks, TASK).sortWithinPartitions(GROUP, order)
    return frame.select(*columns, PART)


def split_by_group(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[DataSplit | None, Iterator[pa.RecordBatch]]]:
    """Yield the groups of a task, each with its rows, which must be consumed before the next group.

    Rows without a group come first, with None.
    """
    for number, runs in groupby(_runs(batches), key=itemgetter(0)):
        rows = (run for _, run in runs)
        if number is None:
            yield None, rows
            continue
        first = next(rows)
        part = DataSplit.deserialize(first.column(PART)[0].as_py())
        yield part, chain([first.slice(1)], rows)


def over_groups(task: Callable[[TaskId, GroupedRows], bytes]) -> Task:
    """Return a task over the batches of a partition for one that takes groups with their rows."""

    def run(this: TaskId, batches: Iterator[pa.RecordBatch]) -> bytes:
        return task(this, split_by_group(batches))

    return run


def changed_groups(
    frame: DataFrame,
    job: ChangeJob,
    changes: Callable[[GroupedRows], Changes],
    *,
    inserts: TableStore | None = None,
) -> Changed:
    """Change the groups of a shuffled frame in its tasks; `inserts` has the schema of new rows."""
    work = SparkWork(frame, over_groups(applying(job, changes, inserts=inserts)), description(job.store))
    return apply_changes(SparkWorkers(frame.sparkSession), job, work)


def _runs(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int | None, pa.RecordBatch]]:
    """Split batches where the group changes."""
    for batch in batches:
        column = batch.column(GROUP)
        if column.null_count:
            yield None, batch.slice(0, column.null_count)
        numbers = column.slice(column.null_count).to_numpy()
        bounds = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)] if len(numbers) else []
        for start, end in pairwise(bounds):
            yield int(numbers[start]), batch.slice(column.null_count + start, end - start)


def task_count(spark: SparkSession, store: TableStore, parts: Sequence[DataSplit], size: int | None) -> int:
    """Return how many tasks change groups: as many as can run at once, or more if files or rows are large.

    `size` is the size of the rows in bytes, if it is known.
    """
    packing = Packing.of(store.options)
    files = min(len(parts), sum(packing.weight(part.files) for part in parts) // packing.target_bytes)
    return max(parallelism(spark), files, (size or 0) // _TASK_BYTES)


def _split_by_reader(
    store: TableStore, parts: Sequence[DataSplit], columns: Sequence[str], predicate: Predicate
) -> tuple[list[DataSplit], list[DataSplit]]:
    """Split groups into those that Spark's own scan reads, and the others."""
    hidden = {field.name for field in hidden_fields(store)}
    asked = {*columns, *predicate.columns()}
    if store.schema.primary_keys or asked & hidden:
        return [], list(parts)
    projection = plan_projection(store.schema.fields, list(columns), predicate)
    if to_column(predicate, projection.read_fields) is None:
        return [], list(parts)
    return native_splits(store, parts, projection)


@dataclass(frozen=True, slots=True)
class _LocateTask:
    """Locates the rows of groups, on a worker."""

    store: TableStore
    columns: tuple[str, ...]
    predicate: Predicate
    read: tuple[DataField, ...]
    numbers: Mapping[str, int]

    @property
    def fields(self) -> tuple[DataField, ...]:
        """The columns of the frame: group, position, then those of the table by index."""
        named = (DataField(2 + at, column_name(at), field.type) for at, field in enumerate(self.read))
        return (*_PLACE, *named)

    def __call__(self, parts: Sequence[DataSplit]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of groups with group number and position."""
        merged = bool(self.store.schema.primary_keys)
        find, fields = locate_merged if merged else partial(locate, schemas=FileSchemas(self.store)), self.fields
        for part in parts:
            number = self.numbers[part.file_paths[0]]
            for rows in find(self.store, part, self.columns, self.predicate):
                groups = pa.array(np.full(len(rows.positions), number, np.int32))
                columns = [groups, pa.array(rows.positions), *rows.rows.columns]
                batch = pa.RecordBatch.from_arrays(columns, names=[field.name for field in fields])
                yield from spark_batches(batch, fields)
