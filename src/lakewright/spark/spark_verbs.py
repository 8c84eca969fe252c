"""Verbs of `lakewright.spark`, each one call into the core with the Spark engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql.types import IntegerType

from lakewright.catalog.catalog import Catalog
from lakewright.catalog.database_compaction import DatabaseCompaction, DatabaseRequest
from lakewright.commit.job_ids import JobRun
from lakewright.commit.table_commit import WriteResult
from lakewright.compact import distributed_compaction
from lakewright.compact.compaction_job import CompactRequest, Strategy, compact_request
from lakewright.compact.compaction_rounds import CompactResult
from lakewright.dml import delete_update
from lakewright.dml.change_runner import (
    GROUP,
    POSITION,
    SnapshotGroups,
    run_change,
)
from lakewright.dml.change_tasks import MergeTask, guarded_merge
from lakewright.dml.delete_update import upsert_by_lookup
from lakewright.dml.distributed_write import CommitTarget, earlier_write_result, new_job, new_publication
from lakewright.dml.incremental_jobs import IncrementalJob, TransformResult, run_incremental_job
from lakewright.dml.merge import MergeBuilder
from lakewright.dml.merge_clauses import On
from lakewright.dml.row_changes import Prepare, PreparedChange, UpdateResult
from lakewright.dml.row_ids import (
    ID,
    NAMED_MAX,
    GroupRanges,
    NewValues,
    RowIdChange,
    check_all_found,
    has_id_column,
    to_ids,
    value_name,
)
from lakewright.dml.row_location import select_groups
from lakewright.dml.upsert import needs_lookup, plan_upsert, upsert_keys
from lakewright.engine.job_progress import ProgressCallback
from lakewright.errors import with_table_name
from lakewright.maintenance.table_analysis import AnalyzeResult, Columns, analyze_table, counting_on
from lakewright.maintenance.verify_findings import VerifyResult
from lakewright.maintenance.verify_table import check_depth, checking_on, verify_table
from lakewright.metadata.table_store import TableStore
from lakewright.read.data_split import DataSplit
from lakewright.read.table_read import TableRead
from lakewright.spark.bucket_shuffle import check_distribution
from lakewright.spark.frame_columns import table_names, with_table_names
from lakewright.spark.frame_operations import with_column
from lakewright.spark.frame_read import to_spark
from lakewright.spark.frame_write import SparkWriteSettings, check_frame, nullable_schema, write_frame
from lakewright.spark.row_matching import (
    TASK,
    MergeSides,
    changed_groups,
    column_name,
    located_rows,
    prepare_lookup,
    prepare_merge,
    prepare_upsert,
    shuffle_by_group,
    source_schema,
    task_count,
)
from lakewright.spark.spark_engine import SparkEngine, compacting_on, size_of
from lakewright.spark.spark_session import check_session, in_session_zone
from lakewright.spark.spark_types import arrow_schema_of
from lakewright.spec import argument_checks
from lakewright.spec.argument_checks import Distribution, DurationLike, PathLike, Properties, SchemaMode, WriteMode
from lakewright.spec.filters import Filter
from lakewright.spec.predicate import TRUE
from lakewright.spec.snapshot import Snapshot
from lakewright.spec.system_columns import ROW_ID
from lakewright.table.file_store_table import FileStoreTable, Partitions
from lakewright.table.open_table import to_table
from lakewright.table.verbs import add_missing_columns, check_call
from lakewright.write.table_writer import WriteJob

# ---- compact ---------------------------------------------------------------------------------------------------------


def compact(  # noqa: PLR0913 - each argument is one choice of the caller
    spark: SparkSession,
    table: FileStoreTable | PathLike,
    *,
    full: bool = False,
    partitions: Partitions | None = None,
    where: Filter | None = None,
    order_by: str | Sequence[str] | None = None,
    strategy: Strategy | None = None,
    idle: DurationLike | None = None,
    dry_run: bool = False,
    snapshot_properties: Properties | None = None,
) -> CompactResult:
    """Merge files where it is worth it, on Spark's workers; with `full`, all that can be: see `table.compact`."""
    check_session(spark)
    request = CompactRequest(full, partitions, where, order_by, strategy, idle, dry_run)
    return _compact(spark, to_table(table, snapshot_properties), request)


def compact_database(  # noqa: PLR0913 - each argument is one choice of the caller
    spark: SparkSession,
    catalog: Catalog,
    database: str | None = None,
    *,
    including: str | None = None,
    excluding: str | None = None,
    full: bool = False,
    idle: DurationLike | None = None,
    dry_run: bool = False,
) -> DatabaseCompaction:
    """Compact the tables of a database, or of all, on Spark's workers: see `lakewright.compact_database`."""
    check_session(spark)
    request = DatabaseRequest(database, including, excluding, full, idle, dry_run)
    return request.run(catalog, partial(_compact, spark))


def _compact(spark: SparkSession, table: FileStoreTable, request: CompactRequest) -> CompactResult:
    store = table.refreshed().store
    return compact_request(store, request.check_arguments(store), distributed_compaction.sorting_on(SparkEngine(spark)))


# ---- write_table -----------------------------------------------------------------------------------------------------


def write_table(  # noqa: PLR0913 - each argument is one choice of the caller
    df: DataFrame,
    table: FileStoreTable | PathLike,
    mode: WriteMode = "append",
    *,
    partitions: Mapping[str, object] | None = None,
    schema_mode: SchemaMode | None = None,
    concurrency: int | None = None,
    job_id: str | None = None,
    snapshot_properties: Properties | None = None,
    progress: bool | ProgressCallback | None = None,
    distribution: Distribution | None = None,
) -> WriteResult:
    """Write a frame with Spark's workers and commit it in one snapshot.

    `mode` is append, upsert, overwrite or delete, as in `lakewright.write_table`: on a table with a primary key a row
    replaces the row with its key, and of two rows of one frame the later one wins; `delete` takes the keys of rows to
    delete. An overwrite replaces the partitions of the rows, or those that `partitions` names, or the whole
    unpartitioned table. `schema_mode="merge"` first adds the columns, and widens the types, that the table lacks.

    A write with a `job_id` is committed once: if it is run again, after a crash or by another driver, it finds its
    snapshot, writes nothing, and says so (`earlier_write_result`). The id is remembered for
    `lakewright.job-id.retention` (90 days).

    `concurrency` is the largest number of tasks that write, `distribution` how rows are brought together for them, and
    `progress` a callback, or False for no bar.
    """
    check_frame(df)
    target = to_table(table, snapshot_properties)
    check_call(target, mode, partitions=partitions, schema_mode=schema_mode, concurrency=concurrency, progress=progress)
    check_distribution(new_job(target.store, mode, partitions=partitions), distribution)
    run = None if job_id is None else JobRun.begin(target.store, job_id)
    if run is not None and run.earlier is not None:
        return earlier_write_result(target.store, run.earlier, run=compacting_on(df.sparkSession))
    publication = new_publication(mode, partitions=partitions, run=run)
    df = with_table_names(df, target.store)
    if schema_mode == "merge":
        target = add_missing_columns(target, nullable_schema(arrow_schema_of(df.schema)))
    settings = SparkWriteSettings(concurrency, distribution, progress)
    if mode == "upsert" and needs_lookup(target.store, arrow_schema_of(df.schema).names):
        prepare = prepare_lookup(df, target.store, concurrency)
        return upsert_by_lookup(SparkEngine(df.sparkSession), target.store, prepare, run, progress)
    return write_frame(df, new_job(target.store, mode, partitions=partitions), publication, settings)


# ---- transform -------------------------------------------------------------------------------------------------------


def transform(  # noqa: PLR0913 - each argument is one choice of the caller
    spark: SparkSession,
    source: FileStoreTable | PathLike,
    fn: Callable[[DataFrame], DataFrame],
    target: FileStoreTable | PathLike,
    *,
    job_id: str,
    full_refresh: bool = False,
    commit_every: int | None = None,
) -> TransformResult:
    """Bring what changed in a table since the last run of a job into another table, each change once.

    `fn` gets a frame of the changed rows and returns a frame of rows for the target; it is called once for each commit,
    on the driver. All else is as in `lakewright.transform`.
    """
    check_session(spark)
    job = IncrementalJob.of(to_table(source).store, to_table(target).store, job_id)
    argument_checks.check_callable("fn", fn)
    return run_incremental_job(_OnSpark(spark), job, fn, full_refresh=full_refresh, commit_every=commit_every)


@dataclass(frozen=True, slots=True)
class _OnSpark:
    """Runs an incremental job on the workers of a session."""

    spark: SparkSession

    def read(self, read: TableRead, splits: Sequence[DataSplit]) -> DataFrame:
        return to_spark(read, splits, spark=self.spark)

    def column_names(self, frame: DataFrame) -> Sequence[str]:
        check_frame(frame)
        return frame.columns

    def write(self, frame: DataFrame, job: WriteJob, publication: CommitTarget) -> WriteResult:
        return write_frame(with_table_names(frame, job.store), job, publication, SparkWriteSettings())


# ---- analyze ---------------------------------------------------------------------------------------------------------


def analyze(spark: SparkSession, table: FileStoreTable | PathLike, columns: Columns = None) -> AnalyzeResult:
    """Count the rows of a table, and the values of columns, on Spark's workers: see `table.analyze`."""
    check_session(spark)
    store = to_table(table).store
    with with_table_name(store.name):
        return analyze_table(store, columns, count=counting_on(SparkEngine(spark)))


# ---- verify ----------------------------------------------------------------------------------------------------------


def verify(
    spark: SparkSession,
    table: FileStoreTable | PathLike,
    *,
    full: bool = False,
    snapshots: Literal["latest", "all"] = "latest",
    fast: bool = False,
) -> VerifyResult:
    """Prove that the files of a table hold what its metadata says, on Spark's workers: see `table.verify`."""
    check_session(spark)
    store = to_table(table).store
    with with_table_name(store.name):
        depth, states = check_depth(full, fast=fast, snapshots=snapshots)
        return verify_table(store, depth=depth, states=states, run=checking_on(SparkEngine(spark)))


# ---- merge, upsert ---------------------------------------------------------------------------------------------------
# frame  --left join-->  rows of the table by their keys, with group and position
#            --shuffle---->  tasks: first source rows without a match, which are inserted, then one group of files after
#                            the other with the source rows that match: decided and changed by the core's own code
#
# The frame runs once in an attempt, and its rows never come to the driver; of one that is persisted (see
# `merge_sides`), the bounds of its keys do. A task needs memory for the source rows that match one group. What always
# holds: rows match exactly if they match embedded, or the call is refused before a row is read; rows that are
# inserted because they were absent are committed only if no other commit wrote meanwhile where they could have been
# written.


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameMerge(MergeBuilder):
    """A merge of a Spark frame."""

    source: DataFrame

    def execute(self, *, job_id: str | None = None, snapshot_properties: Properties | None = None) -> UpdateResult:
        """Run the merge: one snapshot in which the clauses hold for every row; a job id is committed only once."""
        store = self.store.with_snapshot_properties(snapshot_properties)
        run, job = compacting_on(self.source.sparkSession), JobRun.of(store, job_id)
        return run_change(store, replace(self, store=store).prepare(), operation="MERGE", run=run, job=job)

    def prepare(self) -> Prepare:
        """Check the merge, and return a function that prepares it on a snapshot without committing it."""
        plan = self.plan(source_schema(self.source, self.store.name))
        if self.store.schema.primary_keys:
            return prepare_merge(self.source, self.store, plan)
        return partial(_prepare_merge, MergeSides.of(self.store, self.source, plan))


def merge(df: DataFrame, table: FileStoreTable | PathLike, on: On) -> MergeBuilder:
    """Start a merge of a frame into a table: add clauses, then `execute()`.

    `on` names columns that both have, or is a condition such as `t.id = s.id AND s.day > t.day`.
    """
    check_frame(df)
    return FrameMerge(store=in_session_zone(df.sparkSession, to_table(table)).store, source=df, on=on)


def upsert(
    df: DataFrame,
    table: FileStoreTable | PathLike,
    keys: str | Sequence[str] | None = None,
    *,
    job_id: str | None = None,
    snapshot_properties: Properties | None = None,
) -> UpdateResult:
    """Update the rows whose keys the frame has, and insert the rest of it; of equal keys in the frame the last counts.

    Columns that the frame lacks stay as they are, and are null or their default in new rows. The keys of a primary-key
    table are its own; a frame with all its columns is written without looking up rows, and the counts are None.
    """
    check_frame(df)
    store = to_table(table, snapshot_properties).store
    if keys is not None:
        keys = table_names(df.sparkSession, argument_checks.check_names("keys", keys), store)
    names = upsert_keys(store, keys)
    job = JobRun.of(store, job_id)
    df = with_table_names(df, store)
    if store.schema.primary_keys:
        run = compacting_on(df.sparkSession)
        return run_change(store, prepare_upsert(df, store), operation="WRITE", run=run, job=job)
    plan = plan_upsert(store, source_schema(df, store.name), names)
    return run_change(
        store, partial(_prepare_merge, MergeSides.of(store, df, plan, last_by=())), operation="MERGE", job=job
    )


# ---- on the driver ---------------------------------------------------------------------------------------------------


def _prepare_merge(sides: MergeSides, base: Snapshot | None) -> PreparedChange:
    """Merge into a snapshot of an append table."""
    return guarded_merge(sides.store, sides.plan, _merge_matched(sides, base))


def _merge_matched(sides: MergeSides, base: Snapshot | None) -> PreparedChange:
    """Change the rows of a snapshot that match, and insert those of the source that match none."""
    store, plan, spark = sides.store, sides.plan, sides.source.sparkSession
    changes = partial(MergeTask, store, plan)
    if base is None:
        return changed_groups(sides.without_matches().select(*sides.columns), SnapshotGroups(store, None, ()), changes)
    parts = select_groups(store, base, TRUE if plan.by_source else plan.prunes)
    with sides.persisted_if_small(sum(file.file_size for part in parts for file in part.files)) as kept:
        if kept.is_persisted and not plan.by_source:
            parts = select_groups(store, base, kept.pruning())
        tasks = task_count(spark, store, parts, sides.bytes)
        find = partial(located_rows, spark, store, dict(enumerate(parts)), predicate=plan.prunes)
        frame = kept.join_target(find) if parts else kept.without_matches()
        frame = frame.select(kept.task_of_row(tasks).alias(TASK), *sides.columns)
        frame = shuffle_by_group(frame, parts, tasks, POSITION)
        return changed_groups(frame, SnapshotGroups(store, base, parts), changes)


# ---- Changes by row id -----------------------------------------------------------------------------------------------
# ids -> the group of files whose range or id column has them -> tasks -> one commit
#
# If the ids of a group follow from its first one, workers find the group by its range of ids; rows that were moved
# are found by a join with the id columns of their files. Invariant: an id that is unknown or null, or in an
# update occurs twice or is deleted, is an error, and then nothing is committed.


def delete_by_row_id(
    df: DataFrame,
    table: FileStoreTable | PathLike,
    *,
    job_id: str | None = None,
    snapshot_properties: Properties | None = None,
) -> UpdateResult:
    """Delete the rows whose ids a frame has in its column `_ROW_ID`; rows that are deleted already are ignored."""
    store, df = _prepare_source(df, table, snapshot_properties)
    schema = arrow_schema_of(df.schema)
    to_ids(store, schema.empty_table())
    return run_change(
        store, partial(_prepare_row_ids, RowIdChange(store), df), operation="DELETE", job=JobRun.of(store, job_id)
    )


def update_by_row_id(
    df: DataFrame,
    table: FileStoreTable | PathLike,
    columns: Sequence[str] | None = None,
    *,
    job_id: str | None = None,
    snapshot_properties: Properties | None = None,
) -> UpdateResult:
    """Set columns of rows by id: a frame has `_ROW_ID` and the columns to set; `columns` names them if it has more."""
    store, df = _prepare_source(df, table, snapshot_properties)
    schema = arrow_schema_of(df.schema)
    if columns is not None:
        columns = table_names(df.sparkSession, argument_checks.check_names("columns", columns), store)
    names = tuple(NewValues.of(store, schema.empty_table(), columns).values.column_names)
    return run_change(
        store,
        partial(_prepare_row_ids, RowIdChange(store, names), df),
        operation="UPDATE",
        job=JobRun.of(store, job_id),
    )


def _prepare_source(
    df: DataFrame, table: FileStoreTable | PathLike, snapshot_properties: Properties | None = None
) -> tuple[TableStore, DataFrame]:
    check_frame(df)
    store = to_table(table, snapshot_properties).store
    return store, with_table_names(df, store)


# ---- on the driver ---------------------------------------------------------------------------------------------------


def _prepare_row_ids(work: RowIdChange, df: DataFrame, base: Snapshot | None) -> PreparedChange:
    """Change rows of a snapshot."""
    spark, store = df.sparkSession, work.store
    if base is None:
        some = _by_index(df, work.names).select(ID).limit(NAMED_MAX).collect()
        check_all_found(store, pa.array([row[0] for row in some], pa.int64()))
        return PreparedChange()
    parts = select_groups(store, base)
    frame = _with_groups(store, _by_index(df, work.names), parts)
    # Ids without a group go to one task, which raises the error for all of them.
    frame = shuffle_by_group(
        frame.select("*", F.lit(0).alias(TASK)), parts, task_count(spark, store, parts, size_of(df)), ID
    )
    return changed_groups(frame, SnapshotGroups(store, base, parts), work.writing)


def _by_index(df: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Return the ids and the new values of a frame, with columns named by their index."""
    names = df.columns
    frame = df.toDF(*(f"c{at}" for at in range(len(names))))
    values = [F.col(f"c{names.index(name)}").alias(value_name(at)) for at, name in enumerate(columns)]
    return frame.select(F.col(f"c{names.index(ROW_ID.name)}").cast("bigint").alias(ID), *values)


def _with_groups(store: TableStore, frame: DataFrame, parts: Sequence[DataSplit]) -> DataFrame:
    """Return ids with the group of each, and the position if it does not follow from the range of the group."""
    moved = {number: part for number, part in enumerate(parts) if has_id_column(part)}
    frame = with_column(frame, GROUP, IntegerType(), _group_finder(GroupRanges.of(parts)), ID)
    if not moved:
        return frame.select("*", F.lit(None).cast("bigint").alias(POSITION))
    # An updated row may be deleted in its old file, and have moved to another file with its id.
    known = located_rows(frame.sparkSession, store, moved, [ROW_ID.name])
    known = known.select(F.col(column_name(0)).alias("moved_id"), F.col(GROUP).alias("moved"), POSITION)
    frame = frame.join(known, F.col(ID) == F.col("moved_id"), "left")
    return frame.withColumn(GROUP, F.coalesce(F.col("moved"), F.col(GROUP))).drop("moved_id", "moved")


def _group_finder(ranges: GroupRanges) -> Callable[[pa.Array], pa.Array]:
    """Return a function that finds the groups of ids; Spark reads the hints of a plain function."""

    def find(ids: pa.Array) -> pa.Array:
        return ranges.find(ids)

    return find


# ---- delete, update --------------------------------------------------------------------------------------------------


def delete(
    spark: SparkSession,
    table: FileStoreTable | PathLike,
    where: Filter,
    *,
    job_id: str | None = None,
    snapshot_properties: Properties | None = None,
) -> UpdateResult:
    """Delete the rows that fulfil a condition; the text `true` means all of them. With a job id, once."""
    store = in_session_zone(spark, to_table(table, snapshot_properties)).store
    return delete_update.delete(store, where, job_id=job_id, workers=SparkEngine(spark))


def update(
    spark: SparkSession,
    table: FileStoreTable | PathLike,
    assignments: Mapping[str, object],
    where: Filter | None = None,
    *,
    job_id: str | None = None,
    snapshot_properties: Properties | None = None,
) -> UpdateResult:
    """Give columns new values in the rows that fulfil a condition; without one in all rows. With a job id, once."""
    store = in_session_zone(spark, to_table(table, snapshot_properties)).store
    return delete_update.update(store, assignments, where, job_id=job_id, workers=SparkEngine(spark))
