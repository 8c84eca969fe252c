"""A frame to one snapshot.

compare the columns with the schema -> bring rows to the tasks that write their buckets (`shuffle`)
    -> run the tasks, verify, commit once, compact (`dml.distributed_write`)

Invariant: nothing is visible before the commit, and tasks never commit. What fails before that leaves no file
behind; once publishing has begun and it is unknown how it ended, nothing is removed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakewright.commit.job_ids import recorded_batch
from lakewright.commit.table_commit import WriteResult
from lakewright.dml.distributed_write import CommitTarget, earlier_write_result, new_job, write_once
from lakewright.engine.engine import TaskId, TaskResult
from lakewright.engine.job_progress import ProgressCallback
from lakewright.engine_registry import refuse_pandas_on_spark
from lakewright.errors import InvalidInputError
from lakewright.spark.bucket_shuffle import cluster
from lakewright.spark.frame_columns import with_table_names
from lakewright.spark.spark_engine import SparkEngine, SparkWork, Task, compacting_on
from lakewright.spark.spark_progress import Counter, final_line, following_progress
from lakewright.spark.spark_session import check_session
from lakewright.spark.spark_session import settings as held_settings
from lakewright.spark.spark_types import arrow_schema_of
from lakewright.spec.argument_checks import Distribution, SchemaMode, WriteMode
from lakewright.spec.manifest import count_rows
from lakewright.spec.snapshot import SeenSnapshot
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.open_table import to_table
from lakewright.table.verbs import add_missing_columns, check_call, check_concurrency, refuse_lookup
from lakewright.table.write_builder import TableWrite, job_of_builder
from lakewright.write.table_writer import WriteJob


@dataclass(frozen=True, slots=True)
class SparkWriteSettings:
    """What a caller chose for one write: how the rows are brought to the table."""

    concurrency: int | None = None
    distribution: Distribution | None = None
    progress: bool | ProgressCallback | None = None
    options: Mapping[str, str] | None = None  # of Spark, for the time of the write


def write_spark(
    write: TableWrite,
    df: DataFrame,
    *,
    overwrite: bool = False,
    concurrency: int | None = None,
    spark_options: Mapping[str, str] | None = None,
) -> WriteResult:
    """Write a frame in the way that a builder has chosen, and commit it: what `TableWrite.write_spark` does.

    `spark_options` are run-time settings of the session, for the time of this write.
    """
    check_frame(df)
    check_concurrency(concurrency)
    if spark_options is not None and not isinstance(spark_options, Mapping):
        raise InvalidInputError(
            f"spark_options are settings such as {{'spark.sql.ansi.enabled': 'false'}}, not {spark_options!r}"
        )
    instead = ", or lakewright.spark.foreach_batch for the batches of a stream"
    job, publication = job_of_builder(write, overwrite=overwrite, instead=instead)
    df = with_table_names(df, job.store)
    return write_frame(df, job, publication, SparkWriteSettings(concurrency, options=spark_options))


def write_micro_batch(  # noqa: PLR0913 - each argument is one choice of the caller
    df: DataFrame,
    table: FileStoreTable | str,
    batch_id: int,
    *,
    commit_user: str,
    mode: WriteMode = "append",
    concurrency: int | None = None,
    schema_mode: SchemaMode | None = None,
) -> WriteResult:
    """Write one batch of a stream and commit it under the stream's name and the batch's number, once.

    A batch that the stream has committed already writes nothing. `overwrite` replaces the whole table, as a stream in
    complete mode needs it.
    """
    check_frame(df)
    target = to_table(table)
    check_call(target, mode, schema_mode=schema_mode, concurrency=concurrency)
    # The commit itself looks for what is published later than this.
    since = SeenSnapshot.of(target.store.snapshots.latest())
    snapshot = target.store.snapshots.of_user(commit_user) or recorded_batch(target.store, commit_user, batch_id)
    if snapshot is not None and snapshot.commit_identifier >= batch_id:
        return earlier_write_result(target.store, snapshot, run=compacting_on(df.sparkSession))
    df = with_table_names(df, target.store)
    if schema_mode == "merge":
        target = add_missing_columns(target, nullable_schema(arrow_schema_of(df.schema)))
    if mode == "upsert":
        refuse_lookup(target, arrow_schema_of(df.schema).names)
    replaced: dict[str, object] | None = {} if mode == "overwrite" else None
    job = new_job(target.store, mode, partitions=replaced)
    return write_frame(
        df, job, CommitTarget(commit_user, batch_id, replaced, since), SparkWriteSettings(concurrency, progress=False)
    )


def nullable_schema(schema: pa.Schema) -> pa.Schema:
    """Return the columns of a frame as a table that has rows already can take them up."""
    return pa.schema([field.with_nullable(True) for field in schema])  # noqa: FBT003 - Arrow's own argument


# ---- one write -------------------------------------------------------------------------------------------------------


def write_frame(df: DataFrame, job: WriteJob, publication: CommitTarget, settings: SparkWriteSettings) -> WriteResult:
    """Take a frame from its schema to a snapshot."""
    started, store, spark = time.monotonic(), job.store, df.sparkSession
    job.check_input(arrow_schema_of(df.schema))
    what = f"write to {store.name}"
    with (
        _held_options(spark, settings),
        following_progress(spark, job.write_id, settings.progress, what=what) as job_progress,
    ):
        clustered = cluster(df, job, concurrency=settings.concurrency, distribution=settings.distribution)
        work = SparkWork(
            clustered.frame,
            _count_written(clustered.task, job_progress.counter),
            what,
            settings=clustered.settings,
            progress=job_progress,
            method=clustered.method,
        )
        result = write_once(SparkEngine(spark), job, work, publication, started=started)
        job_progress.add_finished(result.rows, result.bytes)
        job_progress.conclude(final_line(result, store.name))
    return result


def _count_written(task: Task, counter: Counter) -> Task:
    """Return a task that also adds the rows and bytes it wrote to the counter of the progress."""

    def run(this: TaskId, batches: Iterator[pa.RecordBatch]) -> TaskResult:
        result = task(this, batches)
        files = [file for message in result.messages for file in message.new_files]
        counter.add(count_rows(files), sum(file.file_size for file in files))
        return result

    return task if counter.total is None else run


def _held_options(spark: SparkSession, settings: SparkWriteSettings) -> AbstractContextManager[None]:
    options = {key: str(value) for key, value in (settings.options or {}).items()}
    return held_settings(spark, options) if options else nullcontext()


def check_frame(df: DataFrame) -> None:
    """Refuse what is no frame of Spark, or one without an end."""
    refuse_pandas_on_spark(df)
    if not hasattr(df, "mapInArrow"):
        raise InvalidInputError(
            f"a {type(df).__name__} is no Spark frame: write pandas, polars and Arrow data with lakewright.write_table"
        )
    check_session(df.sparkSession)
    if df.isStreaming:
        raise InvalidInputError(
            "a streaming frame is written with lakewright.spark.write_stream, or batch by batch with "
            "lakewright.spark.foreach_batch"
        )
