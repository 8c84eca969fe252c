"""Merges of Spark frames into primary-key tables: both sides in, messages of rows with row kinds out.

    frame  --left join-->  merged rows of the table by their keys, with their positions in their split
           --shuffle---->  tasks: source rows without a match are inserted; splits are read again, with the columns
                           that are needed, and the core decides how their rows change
           --blocks----->  rows with row kinds, as Arrow data, to the tasks that write their buckets

Rows of the table travel only as Arrow data in the table's own types, and only those that change. What always holds: an
insert takes effect after every change, as embedded, even if its key exists; everything else is as for frames that are
written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakewright.distributed.job import Job, prepare_job
from lakewright.distributed.rows.bucket_merge import BucketMerge
from lakewright.distributed.rows.bucket_route import BucketRoute
from lakewright.distributed.rows.groups import POSITION, description
from lakewright.distributed.rows.merge import (
    KeyedMergeTask,
    RankedGroups,
    checked_lookup,
    guarded_keyed_merge,
    verify_keyed,
)
from lakewright.lsm.keys import SortColumn
from lakewright.metadata.store import TableStore
from lakewright.read.splits.shares import pieces
from lakewright.spark.jobs.estimate import size_of
from lakewright.spark.jobs.types import arrow_schema_of
from lakewright.spark.jobs.workers import SparkWork, SparkWorkers
from lakewright.spark.rows.bucket_merge import fits, merge_buckets
from lakewright.spark.rows.group_rows import TASK, located_rows, shuffle_by_group, split_by_group, task_count
from lakewright.spark.rows.merge_sides import MergeSides, source_schema
from lakewright.spark.write.blocks import GroupMaker
from lakewright.spark.write.shuffle import Clustered, cluster, cluster_made, receivers_of
from lakewright.spec.predicate.predicate import TRUE
from lakewright.spec.schema.table_schema import BucketMode
from lakewright.spec.snapshot import Snapshot
from lakewright.update.merge.clauses import MergePlan
from lakewright.update.merge.merge import check_keyed_merge
from lakewright.update.merge.upsert import needs_lookup, sequence_order
from lakewright.update.primary_key import distribute_postponed, keyed_job, merged_splits
from lakewright.update.run import Prepare, Prepared
from lakewright.write.shuffle import Receivers
from lakewright.write.writer import WriteJob


def prepare_merge(
    df: DataFrame,
    store: TableStore,
    plan: MergePlan,
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

    def prepare(base: Snapshot | None) -> Prepared:
        newest = last_by is not None
        prepared = merged_by_bucket(df, store, known, base, newest=newest, concurrency=concurrency)
        if prepared is None:
            return _prepare(MergeSides.of(store, df, known, last_by=last_by), concurrency, base)
        return guarded_keyed_merge(store, known, prepared)

    return prepare


def merged_by_bucket(
    df: DataFrame,
    store: TableStore,
    plan: MergePlan,
    base: Snapshot | None,
    *,
    newest: bool = False,
    concurrency: int | None = None,
) -> Prepared | None:
    """Merge into a snapshot bucket by bucket; None: that cannot be done, because a row may match in any bucket.

    With `newest` only the newest source row of each key counts.
    """
    source = source_schema(df, store.name)
    route = BucketRoute.of(store, plan, source)
    if route is None:
        return None
    splits = [] if base is None else merged_splits(store, base, plan.prunes)
    work = BucketMerge.of(store, plan, source, base, newest=newest)
    is_dynamic = store.schema.bucket_mode is BucketMode.HASH_DYNAMIC
    assigners = receivers_of(df, work.job, concurrency).assigners if is_dynamic else 1
    if not fits(work, splits, assigners, size_of(df)):
        return None
    return merge_buckets(df, work, route, splits, assigners=assigners, concurrency=concurrency)


def _prepare(sides: MergeSides, concurrency: int | None, base: Snapshot | None) -> Prepared:
    """Merge into a snapshot of a primary-key table whose buckets the condition of the merge does not tell."""
    store, plan, spark = sides.store, sides.plan, sides.source.sparkSession
    base = distribute_postponed(store, base)
    predicate = plan.prunes
    splits = [] if base is None else merged_splits(store, base, predicate)
    with sides.persisted_if_small(sum(split.file_size for split in splits)) as kept:
        if base is not None and kept.is_persisted and not plan.by_source:
            predicate = kept.pruning()
            splits = merged_splits(store, base, predicate)
        parts = [part for split in splits for part in pieces(store, split)]
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
) -> Prepared:
    """Write what a task makes of the rows of a shuffled frame; there are about as many as rows in the frame `like`."""
    clustered = cluster_made(frame, task.job, partial(_group_maker, task), like=like, concurrency=concurrency)
    return _run(frame.sparkSession, task.job, clustered)


def prepare_upsert(df: DataFrame, store: TableStore) -> Prepare:
    """Check an upsert of a frame, and return a function that prepares it without committing it.

    Rows are looked up first if writing the frame would change the columns that it lacks.
    """
    columns = arrow_schema_of(df.schema)
    if needs_lookup(store, columns.names):
        return prepare_lookup(df, store)
    WriteJob.new(store).check_input(columns)

    def prepare(_base: Snapshot | None) -> Prepared:
        job = WriteJob.new(store)
        prepared = _run(df.sparkSession, job, cluster(df, job, concurrency=None, distribution=None), counted=False)
        return replace(prepared, counted=not any(message.rows_in for message in prepared.messages))

    return prepare


def prepare_lookup(df: DataFrame, store: TableStore, concurrency: int | None = None) -> Prepare:
    """Check an upsert that looks rows up, and return a function that prepares it without committing it."""
    source = source_schema(df, store.name)
    plan = checked_lookup(store, source, frame="frame", fetch="df.toArrow()")
    return prepare_merge(df, store, plan, last_by=sequence_order(store, source.names), concurrency=concurrency)


def _run(spark: SparkSession, job: WriteJob, clustered: Clustered, *, counted: bool = True) -> Prepared:
    """Run the tasks that write, and return what to commit."""
    work = SparkWork(clustered.frame, clustered.task, description(job.store), settings=clustered.settings)
    verify = partial(verify_keyed, job, counted=counted)
    return prepare_job(SparkWorkers(spark), Job(job.store, job.write_id, work), verify)


def _group_maker(task: KeyedMergeTask, receivers: Receivers) -> GroupMaker:
    """Return the function that a task runs on its rows, for these receivers."""

    def make(batches: Iterator[pa.RecordBatch]) -> RankedGroups:
        return task.rows_by_rank(receivers, split_by_group(batches))

    return make
