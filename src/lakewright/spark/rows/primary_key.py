"""Row-level changes of primary-key tables on Spark's workers: buckets and what becomes of their rows in, messages out.

A task takes whole buckets: it reads their merged rows with the core's own reader and writes what becomes of them into
the same buckets, since no change moves a key. So rows never travel and never leave their types, and a bucket gets one
sorted run, as from an embedded change. What comes home are messages and counts. If the job fails, everything that
carries the id of the write is removed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from lakewright.distributed.protocol import checked, pack, single_threaded
from lakewright.metadata.store import TableStore
from lakewright.read.splits.shares import Share, bucket_shares
from lakewright.read.splits.split import DataSplit
from lakewright.spark.jobs.cleanup import clean_up, remove_losers, tidy
from lakewright.spark.jobs.estimate import parallelism
from lakewright.spark.jobs.run import Task, TaskId, run_job
from lakewright.spec.options import CoreOptions
from lakewright.spec.schema.table_schema import BucketMode
from lakewright.update.primary_key import KeyedChange, RunBuckets
from lakewright.update.run import Prepared

_COUNTS = struct.Struct(">qqq")  # rows deleted, updated and inserted


def changing_buckets_on(spark: SparkSession) -> RunBuckets:
    """Return how buckets of a primary-key table are changed by the workers of a session."""
    return partial(_run, spark)


def _run(spark: SparkSession, change: KeyedChange, splits: Sequence[DataSplit]) -> list[Prepared]:
    store, write_id = change.store, change.job.write_id
    rows = [
        (number, [bytearray(split.serialize()) for split in share])
        for number, share in enumerate(_shares(spark, store, splits))
    ]
    frame = spark.createDataFrame(rows, "number int, splits array<binary>").repartitionById(len(rows), F.col("number"))
    task = tidy(store, write_id, _task(replace(change, store=_one_reader(store), job=single_threaded(change.job))))
    try:
        done = run_job(frame, task, group=write_id, description=f"change rows of {store.name}")
        messages = checked(change.job, (_body(one.payload) for one in done))
    except BaseException:
        clean_up(spark, store, write_id)
        raise
    remove_losers(spark, store, write_id, done, messages)
    deleted, updated, inserted = map(sum, zip(*(_counts(one.payload) for one in done), strict=True))
    return [Prepared(tuple(messages), deleted, updated, inserted)]


def _shares(spark: SparkSession, store: TableStore, splits: Sequence[DataSplit]) -> list[Share]:
    # Where a key may live in any partition, one writer must know about all of them.
    if store.schema.bucket_mode is BucketMode.KEY_DYNAMIC:
        return [tuple(splits)]
    return bucket_shares(store, splits, at_least=parallelism(spark))


def _task(change: KeyedChange) -> Task:
    def run(this: TaskId, batches: Iterator[pa.RecordBatch]) -> bytes:
        blobs = (blob for batch in batches for blob in batch.column("splits").values.to_pylist())
        return _packed(change.apply([DataSplit.deserialize(blob) for blob in blobs], this.number, this.attempt))

    return run


def _packed(made: Prepared) -> bytes:
    return _COUNTS.pack(made.deleted, made.updated, made.inserted) + pack(made.messages)


def _counts(payload: bytes) -> tuple[int, ...]:
    return _COUNTS.unpack_from(payload)


def _body(payload: bytes) -> bytes:
    return payload[_COUNTS.size :]


def _one_reader(store: TableStore) -> TableStore:
    """Return the table with one thread per read, unless it says otherwise: tasks share the cores already."""
    option = CoreOptions.LAKEWRIGHT_READ_THREADS.key()
    return store if option in store.schema.options else store.with_schema(store.schema.with_options({option: "1"}))
