"""The rows that a source of a change matches, as frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import chain, groupby
from operator import and_, itemgetter
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from lakewright.dml.assignments import MergeSide
from lakewright.dml.bucket_merge import BucketMerge, BucketReceivers, BucketRoute, BucketRows
from lakewright.dml.change_plan import ChangePlan
from lakewright.dml.change_runner import (
    GROUP,
    POSITION,
    Changes,
    GroupTask,
    MatchedRows,
    SnapshotGroups,
    description,
    verify_change,
)
from lakewright.dml.change_tasks import (
    CHANGES,
    KeyedMergeTask,
    RankedGroups,
    guarded_keyed_merge,
    source_name,
)
from lakewright.dml.keyed_strategy import (
    distribute_postponed,
    keyed_job,
    locate_merged,
    plan_merged_splits,
)
from lakewright.dml.merge import check_keyed_merge
from lakewright.dml.merge_clauses import read_source
from lakewright.dml.row_changes import Prepare, PreparedChange
from lakewright.dml.row_location import locate_rows, system_fields
from lakewright.dml.upsert import checked_lookup, needs_lookup, sequence_order
from lakewright.engine.engine import Job, TaskId, TaskResult
from lakewright.engine.engine_job import run_tasks
from lakewright.errors import UnsupportedError
from lakewright.lsm.key_order import SortColumn
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_split import DataSplit
from lakewright.read.manifest_scan import FileSchemas
from lakewright.read.projection import plan_projection
from lakewright.read.split_planning import Packing
from lakewright.read.split_sharing import cut_split, share_splits
from lakewright.read.table_read import TableRead
from lakewright.read.table_scan import TableScan
from lakewright.spark.bucket_shuffle import (
    BLOCKS_ORDER,
    ClusteredFrame,
    GroupMaker,
    blocks_of,
    blocks_of_values,
    by_place,
    cluster,
    cluster_made,
    receivers_of,
)
from lakewright.spark.column_filters import is_exact, to_column, translate_predicate
from lakewright.spark.core_scan import over_shares
from lakewright.spark.frame_operations import from_arrow, persist_frame, repartition_by_task, split_runs, to_arrow
from lakewright.spark.native_scan import native_scan, native_splits
from lakewright.spark.spark_engine import SparkEngine, SparkWork, parallelism, size_of
from lakewright.spark.spark_session import has_spark_executors
from lakewright.spark.spark_types import arrow_schema_of, spark_batches, spark_schema, spark_type
from lakewright.spec.arrow_types import from_arrow_type
from lakewright.spec.comparison import check_comparable, common_type
from lakewright.spec.predicate import FALSE, TRUE, Predicate, PredicateBuilder, and_predicates
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.table_schema import BucketMode
from lakewright.spec.types import BINARY_ROOTS, FLOAT_ROOTS, AtomicType, DataField, DataType
from lakewright.write.bucket_routing import RowGroup
from lakewright.write.dynamic_buckets import HashFiles
from lakewright.write.row_shuffle import STAGE_BYTES, ShuffleTargets, join_batches
from lakewright.write.table_writer import WriteJob

# ---- Groups of files as frames ---------------------------------------------------------------------------------------
# The reverse (`shuffle_by_group`, `split_by_group`) takes rows with a group number, and gives each task its groups
# one after the other, each with its rows.
#
# Files that Spark's own scan reads exactly as the core does are read by it, with row positions; all others by the
# core's reader, on the workers. Rows of a primary-key table are merged first, and a position is a row's number in
# that order. Invariant: only live rows are returned; columns are named by their index (`t0`, `t1`, ...), so
# that no name of the table can clash.

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
    known = {field.name: field for field in (*store.schema.fields, *system_fields(store))}
    fields = tuple(known[name] for name in columns)
    numbers = {part.file_paths[0]: number for number, part in parts.items()}
    native, rest = _split_by_reader(spark, store, list(parts.values()), columns, predicate)
    frames = []
    if native:
        projection = plan_projection(store.schema.fields, list(columns), predicate)
        read = TableRead(store, projection, predicate, None, TableScan(store, predicate, None))
        frames.append(native_scan(spark, read, native, numbers=numbers).toDF(*names))
    if rest or not frames:
        left = {part.file_paths[0]: numbers[part.file_paths[0]] for part in rest}
        work = _LocateTask(store, tuple(columns), predicate, fields, left)
        found = share_splits(store, rest, at_least=parallelism(spark)) if rest else []
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
    return repartition_by_task(frame, tasks, TASK, GROUP, order).drop(TASK)


def split_by_group(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[DataSplit | None, Iterator[pa.RecordBatch]]]:
    """Yield the groups of a task, each with its rows, which must be consumed before the next group.

    Rows without a group come first, with None.
    """
    for number, runs in groupby(split_runs(batches, GROUP), key=itemgetter(0)):
        rows = (run for _, run in runs)
        if number is None:
            yield None, rows
            continue
        first = next(rows)
        part = DataSplit.deserialize(first.column(PART)[0].as_py())
        yield part, chain([first.slice(1)], rows)


def changed_groups(
    frame: DataFrame, groups: SnapshotGroups, changes: Callable[[TableStore], Callable[[MatchedRows], Changes]]
) -> PreparedChange:
    """Change groups in the tasks of a shuffled frame; without a snapshot, insert the rows of the frame."""
    name = groups.store.name
    what = f"insert rows into {name}" if groups.base is None else description(groups.store)

    def work(task: GroupTask[MatchedRows]) -> SparkWork:
        return SparkWork(frame, lambda this, batches: task(this, split_by_group(batches)), what)

    return groups.change(SparkEngine(frame.sparkSession), changes, work)


def task_count(spark: SparkSession, store: TableStore, parts: Sequence[DataSplit], size: int | None) -> int:
    """Return how many tasks change groups: as many as can run at once, or more if files or rows are large.

    `size` is the size of the rows in bytes, if it is known.
    """
    packing = Packing.of(store.options)
    files = min(len(parts), sum(packing.weight(part.files) for part in parts) // packing.target_bytes)
    return max(parallelism(spark), files, (size or 0) // _TASK_BYTES)


def _split_by_reader(
    spark: SparkSession, store: TableStore, parts: Sequence[DataSplit], columns: Sequence[str], predicate: Predicate
) -> tuple[list[DataSplit], list[DataSplit]]:
    """Split groups into those that Spark's own scan reads, and the others."""
    hidden = {field.name for field in system_fields(store)}
    asked = {*columns, *predicate.columns()}
    if store.schema.primary_keys or asked & hidden or not has_spark_executors(spark):
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
        find, fields = locate_merged if merged else partial(locate_rows, schemas=FileSchemas(self.store)), self.fields
        for part in parts:
            number = self.numbers[part.file_paths[0]]
            for rows in find(self.store, part, self.columns, self.predicate):
                groups = pa.array(np.full(len(rows.positions), number, np.int32))
                columns = [groups, pa.array(rows.positions), *rows.rows.columns]
                batch = pa.RecordBatch.from_arrays(columns, names=[field.name for field in fields])
                yield from spark_batches(batch, fields)


# ---- The sides of a merge --------------------------------------------------------------------------------------------
# Columns are named by their index, `s0`, ... of the source and `t0`, ... of the target, so that no names clash. What
# always holds: rows match exactly if they match embedded; a condition that Spark cannot evaluate so is refused before
# a row is read. A source that is much smaller than the table is persisted during an attempt: the bounds of its keys
# then prune files, and if it is small enough for a broadcast, its keys filter rows of the target where they are read.

_SMALLER = 4  # a source is persisted if the files of the table are so many times larger
BROADCAST_BYTES_MAX = 32 << 20  # the keys of a source up to this size are sent to every worker
_LISTED_MAX = 1000  # a predicate lists up to so many values of a partition column, and gives bounds for more
_UNBOUNDED = FLOAT_ROOTS | BINARY_ROOTS | {"TIMESTAMP_LTZ", "TIME"}  # types whose bounds are not used

Find: TypeAlias = Callable[[Sequence[str]], DataFrame]  # the rows of the target with these columns, as `located` does


def source_schema(df: DataFrame, table: str) -> pa.Schema:
    """Return the columns of a frame as the core reads them."""
    return read_source(arrow_schema_of(df.schema).empty_table(), table).schema


def has_plain_columns(df: DataFrame) -> bool:
    """Return whether each column has a name of its own, and texts are compared byte by byte."""
    names = [name.casefold() for name in df.columns]
    return len({*names}) == len(names) and "collate" not in df.schema.simpleString().casefold()


def plan_columns(df: DataFrame, plan: ChangePlan, *others: Column) -> DataFrame:
    """Return the columns of a frame that a plan needs as `s0`, `s1`, ..., and others, of columns `c0`, `c1`, ..."""
    names = df.columns
    frame = df.toDF(*(f"c{at}" for at in range(len(names))))
    own = [F.col(f"c{names.index(name)}").alias(source_name(at)) for at, name in enumerate(plan.source_columns)]
    return frame.select(*own, *others)


@dataclass(frozen=True, slots=True)
class _Key:
    """A pair of columns that must be equal, and the type in which they are compared."""

    field: DataField
    dtype: AtomicType
    source: str  # the column of the source, in that type
    zeros_differ: bool  # 0.0 is not equal to -0.0

    def of_target(self, names: Sequence[str]) -> Column:
        return F.col(column_name(names.index(self.field.name))).cast(spark_type(self.dtype))

    def is_equal(self, names: Sequence[str]) -> Column:
        """Return the condition that both sides are equal."""
        equal = self.of_target(names) == F.col(self.source)
        if not self.tells_zeros:
            return equal
        return equal & (_is_negative_zero(self.of_target(names)) == _is_negative_zero(F.col(self.source)))

    @property
    def tells_zeros(self) -> bool:
        """Whether 0.0 and -0.0, which are equal to Spark, must be told apart."""
        return self.zeros_differ and self.dtype.root in FLOAT_ROOTS

    def parts(self) -> list[Column]:
        """Return columns that are equal in two rows of the source if their keys are."""
        column = F.col(self.source)
        return [column, _is_negative_zero(column)] if self.tells_zeros else [column]

    def has_bounds(self) -> bool:
        """Return whether bounds of the source column can prune by the target's column."""
        return has_bounds(self.field, self.dtype)

    def has_value(self) -> Column:
        """Return the condition that the source has a value, since null equals nothing."""
        return F.col(self.source).isNotNull()


@dataclass(frozen=True, slots=True)
class MergeSides:
    """The two sides of a merge: the source frame, and the table whose rows may match it."""

    store: TableStore
    plan: ChangePlan
    source: DataFrame  # the columns of the plan, and those that keys are compared by
    keys: tuple[_Key, ...]
    bytes: int | None  # size of the source, if it is known
    is_persisted: bool = False  # the source can be read several times without computing it again

    @classmethod
    def of(
        cls, store: TableStore, df: DataFrame, plan: ChangePlan, *, last_by: Sequence[SortColumn] | None = None
    ) -> MergeSides:
        """Name the columns of a source.

        With `last_by` only its last row of each key counts, in the order of these columns and then of the frame.
        """
        names, schema = df.columns, source_schema(df, store.name)
        keys, columns = [], []
        for at, (field, name) in enumerate(plan.on):
            place, dtype = names.index(name), _compared_in(store, field, schema.field(name))
            if df.schema[place].dataType == spark_type(dtype):
                keys.append(_Key(field, dtype, source_name(plan.source_columns.index(name)), plan.finds_keys))
                continue
            keys.append(_Key(field, dtype, f"k{at}", plan.finds_keys))
            columns.append(F.col(f"c{place}").cast(spark_type(dtype)).alias(f"k{at}"))
        frame = plan_columns(df, plan, *columns)
        if last_by is not None:
            order = [
                _newest_first(column, source_name(plan.source_columns.index(column.field.name))) for column in last_by
            ]
            frame = _last(frame, keys, order)
        sides = cls(store, plan, frame, tuple(keys), size_of(df))
        sides._condition(sides._target_names())
        return sides

    @property
    def columns(self) -> list[str]:
        """The columns that tasks need of source rows: group, position, and the columns of the plan."""
        return [GROUP, POSITION, *(source_name(at) for at in range(len(self.plan.source_columns)))]

    @contextmanager
    def persisted_if_small(self, target_bytes: int) -> Iterator[MergeSides]:
        """Persist the source within a `with` block, if it is much smaller than the files of the table."""
        if not is_much_smaller(self.bytes, target_bytes):
            yield self
            return
        with persist_frame(self.source) as kept:
            yield self if kept is None else replace(self, source=kept, is_persisted=True)

    def pruning(self) -> Predicate:
        """Return a predicate that every target row with a match fulfils; a query of the source finds its bounds."""
        return and_predicates((self._bounds(), self.plan.prunes))

    def without_matches(self) -> DataFrame:
        """Return the rows of the source, none of them with a match."""
        nowhere = [F.lit(None).cast("int").alias(GROUP), F.lit(None).cast("long").alias(POSITION)]
        return self.source.select("*", *nowhere)

    def join_target(self, find: Find) -> DataFrame:
        """Return the rows of the source with group and position of each row that they match, or nulls."""
        names = self._target_names()
        target = find(names)
        if not self.plan.not_matched:
            return self.source.join(target, self._condition(names))
        if self.is_persisted and (self.bytes or 0) <= BROADCAST_BYTES_MAX:
            # Target rows without a match are dropped where they are read, instead of being shuffled to the source.
            known = F.broadcast(self.source.select(*{key.source for key in self.keys}))
            target = target.join(known, reduce(and_, (key.is_equal(names) for key in self.keys)), "left_semi")
        return self.source.join(target, self._condition(names), "left")

    def task_of_row(self, tasks: int) -> Column:
        """Return the number of the task for each row of the source."""
        return F.pmod(F.hash(*(key.source for key in self.keys)), F.lit(tasks))

    def _bounds(self) -> Predicate:
        """Query the bounds of the source's keys, and the values of those that are partition columns."""
        bounded = [(key.field, key.source) for key in self.keys if key.has_bounds()]
        return key_bounds(self.source, bounded, self.store.schema.partition_keys)

    def _target_names(self) -> list[str]:
        refs = () if self.plan.residual is None else self.plan.residual.refs
        residual = sorted(ref.name for ref in refs if ref.side is MergeSide.TARGET)
        return list(dict.fromkeys([*(field.name for field, _ in self.plan.on), *residual]))

    def _condition(self, names: Sequence[str]) -> Column:
        """Return the condition that a source row matches a target row."""
        parts = [key.is_equal(names) for key in self.keys]
        if self.plan.residual is None:
            return reduce(and_, parts)
        residual = self.plan.residual.predicate
        exact = all(is_exact(leaf.dtype) or leaf.method in {"isNull", "isNotNull"} for leaf in residual.leaves())
        condition = translate_predicate(residual, partial(self._column, names)) if exact else None
        if condition is None:
            raise UnsupportedError(
                f"{self.store.name}: Spark cannot ask {residual} exactly; merge embedded, with df.toArrow(), or move "
                "it to the condition of a clause",
                table=self.store.name,
            )
        return reduce(and_, [*parts, condition])

    def _column(self, names: Sequence[str], path: tuple[str, ...]) -> Column:
        side, name, *inside = path
        own = side == MergeSide.TARGET
        column = F.col(column_name(names.index(name)) if own else source_name(self.plan.source_columns.index(name)))
        return reduce(lambda outer, inner: outer.getField(inner), inside, column)


def _is_negative_zero(column: Column) -> Column:
    """Return whether a floating-point column is -0.0, which Spark compares, joins and groups as 0.0."""
    return F.when(column == 0, column.cast("string") == "-0.0").otherwise(F.lit(False))  # noqa: FBT003 - a value


def is_much_smaller(source_bytes: int | None, target_bytes: int) -> bool:
    """Return whether a source is so much smaller than the files of the table that it is worth to persist it."""
    return source_bytes is not None and source_bytes * _SMALLER <= target_bytes


def has_bounds(field: DataField, other: DataType) -> bool:
    """Return whether bounds of a column of another type can prune by a column of the target."""
    own = field.type
    if not isinstance(own, AtomicType) or not isinstance(other, AtomicType):
        return False
    return own.type == other.type and own.root not in _UNBOUNDED


def key_bounds(source: DataFrame, keys: Sequence[tuple[DataField, str]], partition_keys: Sequence[str]) -> Predicate:
    """Query the bounds of columns of a source, and the values of those that match partition columns of the target.

    Every row of the target that a row of the source matches fulfils the predicate.
    """
    if not keys:
        return TRUE
    listed = [(field, name) for field, name in keys if field.name in partition_keys]
    aggregates = [aggregate(name) for _, name in keys for aggregate in (F.min, F.max)]
    aggregates += [F.collect_set(name) for _, name in listed]
    row = [column[0] for column in to_arrow(source.select(*aggregates)).columns]
    values = {field.name: values.values for (field, _), values in zip(listed, row[2 * len(keys) :], strict=True)}
    return and_predicates(
        _within(field, low, high, values.get(field.name))
        for (field, _), low, high in zip(keys, row[::2], row[1::2], strict=False)
    )


def _within(field: DataField, low: pa.Scalar, high: pa.Scalar, values: pa.Array | None) -> Predicate:
    """Return a predicate that all values of a column fulfil: a list of them, or their bounds."""
    if not low.is_valid:
        return FALSE
    builder = PredicateBuilder([field])
    if values is not None and len(values) <= _LISTED_MAX:
        return builder.is_in(field.name, list(values))
    return builder.between(field.name, low, high)


def _compared_in(store: TableStore, field: DataField, given: pa.Field) -> AtomicType:
    """Return the type in which a column of the target and one of the source are compared."""
    own = check_comparable(field.type, field.name)
    other = check_comparable(from_arrow_type(given.type, column=given.name), given.name)
    common = common_type(own, other)
    if common is None or not is_exact(own) or not is_exact(common):
        raise UnsupportedError(
            f"{store.name}: Spark cannot match {field.name!r} ({own}) with {given.name!r} ({other}) exactly; merge "
            "embedded, with df.toArrow()",
            table=store.name,
            column=field.name,
        )
    return common


def _newest_first(column: SortColumn, name: str) -> Column:
    """Return the sort order of a sequence field in which the newest row comes first; nulls are the oldest."""
    sequence = F.col(name).cast(spark_type(column.field.type))
    return sequence.asc_nulls_last() if column.descending else sequence.desc_nulls_last()


def _last(frame: DataFrame, keys: Sequence[_Key], order: Sequence[Column]) -> DataFrame:
    """Return the newest, or last, row of each key, and all rows with null in their key."""
    frame = frame.withColumn("order", F.monotonically_increasing_id())
    equal = Window.partitionBy(*(part for key in keys for part in key.parts()))
    later = F.row_number().over(equal.orderBy(*order, F.col("order").desc()))
    complete = reduce(and_, (key.has_value() for key in keys))
    return frame.withColumn("later", later).where((F.col("later") == 1) | ~complete).drop("order", "later")


# ---- Merges bucket by bucket -----------------------------------------------------------------------------------------
# frame  --blocks-->  tasks: each has some buckets, with their files and the source rows that may match there, and
#                         merges them with the core's own code
#
# Files travel as blocks too, before the rows of their bucket, so neither closures nor the driver hold more than the
# list of files. A task needs memory for the source rows of one bucket, or for its share of the new keys of a
# partition with dynamic buckets.

_BUCKET_BYTES_MAX = 512 << 20  # of source rows: a task holds those of a bucket


def fits(merge: BucketMerge, splits: Sequence[DataSplit], assigners: int, size: int | None) -> bool:
    """Return whether a source of so many bytes can be merged bucket by bucket into the files of a table."""
    store, base = merge.store, merge.job.looked_up_in
    if store.schema.bucket_mode is BucketMode.HASH_DYNAMIC:
        buckets, index = assigners, HashFiles.of_snapshot(store, base)
        if not all(index.covers(split.partition_bytes, split.bucket) for split in splits):
            return False  # a key that the index does not have may be in such a bucket
    else:
        buckets = store.options.bucket
        if any(split.total_buckets != buckets for split in splits):
            return False  # the bucket count has changed since, so a key may be in another bucket than the route says
    partitions = {split.partition_bytes for split in splits}
    return size is None or size <= _BUCKET_BYTES_MAX * buckets * max(1, len(partitions))


def merge_buckets(
    df: DataFrame,
    merge: BucketMerge,
    route: BucketRoute,
    splits: Sequence[DataSplit],
    *,
    assigners: int = 1,
    concurrency: int | None = None,
) -> PreparedChange:
    """Merge a frame into the buckets of a snapshot; `splits` are those with rows that it may change.

    The new keys of a partition with dynamic buckets go to `assigners` tasks.
    """
    store, spark = merge.store, df.sparkSession
    tasks = task_count(spark, store, splits, size_of(df))
    if not store.schema.partition_keys:
        tasks = min(tasks, _places(store, splits, assigners))
    tasks = tasks if concurrency is None else min(tasks, concurrency)
    receivers = BucketReceivers(max(tasks, assigners), assigners)
    shipped = merge.for_tasks(receivers, threads=receivers.count < parallelism(spark))
    frame, settings = blocks_of(
        plan_columns(df, merge.plan), shipped.job, receivers, partial(_by_bucket, shipped, route)
    )
    if splits:
        files = ((split.partition_bytes, split.bucket, split.serialize()) for split in splits)
        frame = frame.union(from_arrow(spark, blocks_of_values(files, receivers), frame.schema))
    frame = repartition_by_task(frame, receivers.count, "target", *BLOCKS_ORDER)
    work = SparkWork(frame, partial(_merge_buckets, shipped), description(store), settings=settings)
    return run_tasks(SparkEngine(spark), Job(store, merge.job.write_id, work), partial(verify_change, merge.job))


def _places(store: TableStore, splits: Sequence[DataSplit], assigners: int) -> int:
    """Return how many buckets, or groups of new keys, a table without partitions has at most."""
    if store.schema.bucket_mode is BucketMode.HASH_DYNAMIC:
        return len({split.bucket for split in splits}) + assigners
    return store.options.bucket


def _by_bucket(merge: BucketMerge, route: BucketRoute, batches: Iterator[pa.RecordBatch]) -> RankedGroups:
    """Yield the source rows of a task by bucket."""
    grouped = merge.grouping(route)

    def groups() -> Iterator[RowGroup]:
        for rows in join_batches(batches, bytes_max=STAGE_BYTES):
            yield from grouped(merge.to_wire_types(rows))

    yield CHANGES, groups()


def _merge_buckets(merge: BucketMerge, this: TaskId, batches: Iterator[pa.RecordBatch]) -> TaskResult:
    """Merge the buckets of a task."""
    return merge.run(this, (_open_bucket(merge, *blocks) for blocks in by_place(batches)))


def _open_bucket(
    merge: BucketMerge, bucket: int, files: Sequence[pa.Buffer], blocks: Sequence[pa.Buffer]
) -> BucketRows:
    splits = [DataSplit.deserialize(blob.to_pybytes()) for blob in files]
    rows = [pa.ipc.read_record_batch(blob, merge.schema) for blob in blocks]
    return bucket, splits, [pa.Table.from_batches(rows, merge.schema)] if rows else []


# ---- Merges of primary-key tables ------------------------------------------------------------------------------------
# frame  --left join-->  merged rows of the table by their keys, with their positions in their split
#            --shuffle---->  tasks: source rows without a match are inserted; splits are read again, with the columns
#                            that are needed, and the core decides how their rows change
#            --blocks----->  rows with row kinds, as Arrow data, to the tasks that write their buckets
#
# Rows of the table travel only as Arrow data in the table's own types, and only those that change. What always holds:
# an insert takes effect after every change, as embedded, even if its key exists; everything else is as for frames
# that are written.


def prepare_merge(
    df: DataFrame,
    store: TableStore,
    plan: ChangePlan,
    *,
    last_by: Sequence[SortColumn] | None = None,
    concurrency: int | None = None,
) -> Prepare:
    """Check a merge into a primary-key table, and return a function that prepares it without committing it."""
    check_keyed_merge(store, plan)
    # A position counts the rows that are read, so both reads must use the same predicate.
    known = replace(plan, prunes=TRUE) if plan.by_source else plan
    if BucketRoute.of(store, known, source_schema(df, store.name)) is None:
        return partial(_prepare, MergeSides.of(store, df, known, last_by=last_by), concurrency)

    def prepare(base: Snapshot | None) -> PreparedChange:
        newest = last_by is not None
        prepared = merged_by_bucket(df, store, known, base, newest=newest, concurrency=concurrency)
        if prepared is None:
            return _prepare(MergeSides.of(store, df, known, last_by=last_by), concurrency, base)
        return guarded_keyed_merge(store, known, prepared)

    return prepare


def merged_by_bucket(
    df: DataFrame,
    store: TableStore,
    plan: ChangePlan,
    base: Snapshot | None,
    *,
    newest: bool = False,
    concurrency: int | None = None,
) -> PreparedChange | None:
    """Merge into a snapshot bucket by bucket; None: that cannot be done, because a row may match in any bucket.

    With `newest` only the newest source row of each key counts.
    """
    source = source_schema(df, store.name)
    route = BucketRoute.of(store, plan, source)
    if route is None:
        return None
    splits = [] if base is None else plan_merged_splits(store, base, plan.prunes)
    work = BucketMerge.of(store, plan, source, base, newest=newest)
    is_dynamic = store.schema.bucket_mode is BucketMode.HASH_DYNAMIC
    assigners = receivers_of(df, work.job, concurrency).assigners if is_dynamic else 1
    if not fits(work, splits, assigners, size_of(df)):
        return None
    return merge_buckets(df, work, route, splits, assigners=assigners, concurrency=concurrency)


def _prepare(sides: MergeSides, concurrency: int | None, base: Snapshot | None) -> PreparedChange:
    """Merge into a snapshot of a primary-key table whose buckets the condition of the merge does not tell."""
    store, plan, spark = sides.store, sides.plan, sides.source.sparkSession
    base = distribute_postponed(store, base)
    predicate = plan.prunes
    splits = [] if base is None else plan_merged_splits(store, base, predicate)
    with sides.persisted_if_small(sum(split.file_size for split in splits)) as kept:
        if base is not None and kept.is_persisted and not plan.by_source:
            predicate = kept.pruning()
            splits = plan_merged_splits(store, base, predicate)
        parts = [part for split in splits for part in cut_split(store, split)]
        tasks = task_count(spark, store, parts, sides.bytes)
        find = partial(located_rows, spark, store, dict(enumerate(parts)), predicate=predicate)
        frame = kept.join_target(find) if parts else kept.without_matches()
        frame = shuffle_by_group(
            frame.select(kept.task_of_row(tasks).alias(TASK), *kept.columns), parts, tasks, POSITION
        )
        task = KeyedMergeTask(store, plan, keyed_job(store), predicate)
        prepared = write_merged(frame, task, like=sides.source, concurrency=concurrency)
    return guarded_keyed_merge(store, plan, prepared)


def write_merged(
    frame: DataFrame, task: KeyedMergeTask, *, like: DataFrame, concurrency: int | None = None
) -> PreparedChange:
    """Write what a task makes of the rows of a shuffled frame; there are about as many as rows in the frame `like`."""
    clustered = cluster_made(frame, task.job, partial(_group_maker, task), like=like, concurrency=concurrency)
    return _run_keyed_writes(frame.sparkSession, task.job, clustered)


def prepare_upsert(df: DataFrame, store: TableStore) -> Prepare:
    """Check an upsert of a frame, and return a function that prepares it without committing it.

    Rows are looked up first if writing the frame would change the columns that it lacks.
    """
    columns = arrow_schema_of(df.schema)
    if needs_lookup(store, columns.names):
        return prepare_lookup(df, store)
    WriteJob.new(store).check_input(columns)

    def prepare(_base: Snapshot | None) -> PreparedChange:
        job = WriteJob.new(store)
        prepared = _run_keyed_writes(df.sparkSession, job, cluster(df, job, concurrency=None, distribution=None))
        return replace(prepared, counted=not any(message.rows_in for message in prepared.messages))

    return prepare


def prepare_lookup(df: DataFrame, store: TableStore, concurrency: int | None = None) -> Prepare:
    """Check an upsert that looks rows up, and return a function that prepares it without committing it."""
    source = source_schema(df, store.name)
    plan = checked_lookup(store, source, frame="frame", fetch="df.toArrow()")
    return prepare_merge(df, store, plan, last_by=sequence_order(store, source.names), concurrency=concurrency)


def _run_keyed_writes(spark: SparkSession, job: WriteJob, clustered: ClusteredFrame) -> PreparedChange:
    """Run the tasks that write, and return what to commit."""
    work = SparkWork(clustered.frame, clustered.task, description(job.store), settings=clustered.settings)
    return run_tasks(SparkEngine(spark), Job(job.store, job.write_id, work), partial(verify_change, job))


def _group_maker(task: KeyedMergeTask, receivers: ShuffleTargets) -> GroupMaker:
    """Return the function that a task runs on its rows, for these receivers."""

    def make(batches: Iterator[pa.RecordBatch]) -> RankedGroups:
        return task.rows_by_rank(receivers, split_by_group(batches))

    return make
