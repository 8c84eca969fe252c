"""Merges of Spark frames into primary-key tables bucket by bucket: source rows and splits in, messages out.

    frame  --blocks-->  tasks: each has some buckets, with their files and the source rows that may match there, and
                        merges them with the core's own code

Files travel as blocks too, before the rows of their bucket, so neither closures nor the driver hold more than the list
of files. A task needs memory for the source rows of one bucket, or for its share of the new keys of a partition with
dynamic buckets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame

from lakewright.distributed.job import Job, TaskId, prepare_job
from lakewright.distributed.rows.bucket_merge import BucketMerge, BucketRows
from lakewright.distributed.rows.bucket_route import BucketReceivers, BucketRoute
from lakewright.distributed.rows.groups import description
from lakewright.distributed.rows.merge import CHANGES, RankedGroups, verify_keyed
from lakewright.metadata.store import TableStore
from lakewright.read.splits.split import DataSplit
from lakewright.spark.jobs.estimate import parallelism, size_of
from lakewright.spark.jobs.frames import from_arrow, placed
from lakewright.spark.jobs.workers import SparkWork, SparkWorkers
from lakewright.spark.rows.group_rows import task_count
from lakewright.spark.rows.merge_sides import plan_columns
from lakewright.spark.write.blocks import BLOCKS_ORDER, blocks_of_values, by_place
from lakewright.spark.write.shuffle import blocks_of
from lakewright.spec.schema.table_schema import BucketMode
from lakewright.update.run import Prepared
from lakewright.write.buckets.dynamic import HashFiles
from lakewright.write.buckets.routing import Group
from lakewright.write.shuffle import STAGE_BYTES, joined

_BUCKET_BYTES_MAX = 512 << 20  # of source rows: a task holds those of a bucket


def fits(merge: BucketMerge, splits: Sequence[DataSplit], assigners: int, size: int | None) -> bool:
    """Return whether a source of so many bytes can be merged bucket by bucket into the files of a table."""
    store, base = merge.store, merge.job.looked_up_in
    if store.schema.bucket_mode is BucketMode.HASH_DYNAMIC:
        buckets, index = assigners, HashFiles.of_snapshot(store, base)
        if not all(index.covers(split.partition_bytes, split.bucket) for split in splits):
            return False  # a key that the index does not have may be in such a bucket
    else:
        buckets = store.options.bucket()
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
) -> Prepared:
    """Merge a frame into the buckets of a snapshot; `splits` are those with rows that it may change.

    The new keys of a partition with dynamic buckets go to `assigners` tasks.
    """
    store, spark = merge.store, df.sparkSession
    tasks = task_count(spark, store, splits, size_of(df))
    if not store.schema.partition_keys:
        tasks = min(tasks, _places(store, splits, assigners))
    tasks = tasks if concurrency is None else min(tasks, concurrency)
    receivers = BucketReceivers(max(tasks, assigners), assigners)
    shipped = merge.shipped(receivers, threads=receivers.count < parallelism(spark))
    frame, settings = blocks_of(
        plan_columns(df, merge.plan), shipped.job, receivers, partial(_by_bucket, shipped, route)
    )
    if splits:
        files = ((split.partition_bytes, split.bucket, split.serialize()) for split in splits)
        frame = frame.union(from_arrow(spark, blocks_of_values(files, receivers), frame.schema))
    frame = placed(frame, receivers.count, "target").sortWithinPartitions(*BLOCKS_ORDER)
    work = SparkWork(frame, partial(_run, shipped), description(store), settings=settings)
    return prepare_job(SparkWorkers(spark), Job(store, merge.job.write_id, work), partial(verify_keyed, merge.job))


def _places(store: TableStore, splits: Sequence[DataSplit], assigners: int) -> int:
    """Return how many buckets, or groups of new keys, a table without partitions has at most."""
    if store.schema.bucket_mode is BucketMode.HASH_DYNAMIC:
        return len({split.bucket for split in splits}) + assigners
    return store.options.bucket()


def _by_bucket(merge: BucketMerge, route: BucketRoute, batches: Iterator[pa.RecordBatch]) -> RankedGroups:
    """Yield the source rows of a task by bucket."""
    grouped = merge.grouping(route)

    def groups() -> Iterator[Group]:
        for rows in joined(batches, bytes_max=STAGE_BYTES):
            yield from grouped(merge.sent(rows))

    yield CHANGES, groups()


def _run(merge: BucketMerge, this: TaskId, batches: Iterator[pa.RecordBatch]) -> bytes:
    """Merge the buckets of a task."""
    return merge.run(this, (_opened(merge, *blocks) for blocks in by_place(batches)))


def _opened(merge: BucketMerge, bucket: int, files: Sequence[pa.Buffer], blocks: Sequence[pa.Buffer]) -> BucketRows:
    splits = [DataSplit.deserialize(blob.to_pybytes()) for blob in files]
    rows = [pa.ipc.read_record_batch(blob, merge.schema) for blob in blocks]
    return bucket, splits, [pa.Table.from_batches(rows, merge.schema)] if rows else []
