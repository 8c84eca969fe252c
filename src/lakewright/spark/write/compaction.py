"""Compaction tasks on Spark's workers: tasks of a snapshot in, one commit message each out. Nothing is committed here.

The tasks travel as rows of bytes, one partition each. If the job fails, or an attempt of it lost, the files of the
attempts that sent no message are removed by the id that all their names carry.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from lakewright.catalog.open import opened
from lakewright.commit.message.message import CommitMessage
from lakewright.compact.job import RunTasks, compact_table
from lakewright.compact.rewrite import run_task
from lakewright.compact.rounds import CompactResult
from lakewright.compact.task import CompactTask
from lakewright.distributed.protocol import pack, unpack
from lakewright.errors import naming
from lakewright.metadata.store import TableStore
from lakewright.spark.jobs.cleanup import clean_up, remove_losers, tidy
from lakewright.spark.jobs.run import Task, TaskId, run_job
from lakewright.spark.jobs.session import check_session
from lakewright.table.table import FileStoreTable


def compact(
    spark: SparkSession,
    table: FileStoreTable | str,
    *,
    full: bool = False,
    partitions: Sequence[Mapping[str, object]] | None = None,
) -> CompactResult:
    """Merge files where it is worth it, on Spark's workers; with `full`, all that can be: see `table.compact`."""
    check_session(spark)
    store = opened(table).store
    with naming(store.name):
        return compact_table(store, full=full, partitions=partitions, run=compacting_on(spark))


def compacting_on(spark: SparkSession) -> RunTasks:
    """Return how compaction tasks are run by the workers of a session."""
    return partial(_run, spark)


def _run(spark: SparkSession, store: TableStore, tasks: Sequence[CompactTask]) -> list[CommitMessage]:
    write_id = str(uuid.uuid4())
    rows = [(number, bytearray(task.serialize())) for number, task in enumerate(tasks)]
    frame = spark.createDataFrame(rows, "number int, task binary").repartitionById(len(tasks), sql.col("number"))
    what = f"compact {len(tasks)} bucket{'s' if len(tasks) > 1 else ''} of {store.name}"
    try:
        done = run_job(frame, tidy(store, write_id, _task(store, write_id)), group=write_id, description=what)
        messages = [message for one in done for message in unpack(one.payload)]
    except BaseException:
        clean_up(spark, store, write_id)
        raise
    remove_losers(spark, store, write_id, done, messages)
    return messages


def _task(store: TableStore, write_id: str) -> Task:
    def run(this: TaskId, batches: Iterator[pa.RecordBatch]) -> bytes:
        stem = f"{write_id}-{this.number}-{this.attempt}"
        blobs = (blob.as_py() for batch in batches for blob in batch.column("task"))
        names = (f"{stem}-{number}" for number in range(1 << 31))
        tasks = (CompactTask.deserialize(blob) for blob in blobs)
        return pack(run_task(store, task, new_uuid=partial(str, next(names))) for task in tasks)

    return run
