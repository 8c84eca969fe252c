"""Writes on Spark: a frame in, one snapshot out.

The frame is aligned on the driver as far as its schema tells, its rows are brought to the tasks that write their
buckets, every task sends its commit messages home, and the driver commits once. Nothing is visible before that, and
tasks never commit.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame

from lakewright.calls import check_mode
from lakewright.catalog.open import open_table
from lakewright.spark.cluster import cluster
from lakewright.spark.jobs import run_job, unpack
from lakewright.table import FileStoreTable
from lakewright.write.writer import WriteJob


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What a write on Spark brought into the table, and how."""

    snapshot_id: int | None  # None: there was nothing to commit
    rows: int
    files: int
    bytes: int
    seconds: float
    partitions: int
    tasks: int
    way: str  # how the rows reached the tasks that wrote them
    replayed: bool = False  # an earlier run under the same job id had committed already


def write_table(  # noqa: PLR0913 - each argument is one choice of the caller
    df: DataFrame,
    table: FileStoreTable | str,
    mode: str = "append",
    *,
    partitions: Mapping[str, object] | None = None,
    schema_mode: str | None = None,
    concurrency: int | None = None,
    job_id: str | None = None,
    progress: object = None,
    distribution: str | None = None,
) -> WriteResult:
    """Write a frame with Spark's workers and commit it in one snapshot."""
    started = time.monotonic()
    target = open_table(table) if isinstance(table, str) else table
    check_mode(target, mode, schema_mode)
    if mode == "overwrite" and partitions is not None:
        target = target.copy({"dynamic-partition-overwrite": "false"})
    job = WriteJob.new(target.store, overwrite=mode == "overwrite", keys_only=mode == "delete")
    clustered = cluster(df, job, concurrency=concurrency, distribution=distribution)
    what = f"write to {target.name}"
    done = run_job(clustered.frame, clustered.task, group=job.write_id, description=what, settings=clustered.settings)
    messages = [message for one in done for message in unpack(one.payload)]
    builder = target.new_batch_write_builder()
    if mode == "overwrite":
        builder = builder.overwrite(dict(partitions) if partitions is not None else None)
    with builder.new_commit() as commit:
        result = commit.commit(messages)
    return WriteResult(
        result.snapshot_id,
        result.rows,
        result.files,
        result.bytes,
        time.monotonic() - started,
        result.partitions,
        len(done),
        clustered.way,
    )


def write_micro_batch(
    df: DataFrame,
    table: FileStoreTable | str,
    batch_id: int,
    *,
    commit_user: str,
    mode: str = "append",
    concurrency: int | None = None,
) -> WriteResult:
    """Write one batch of a stream and commit it under the stream's name and the batch's number, once."""
    started = time.monotonic()
    target = open_table(table) if isinstance(table, str) else table
    check_mode(target, mode, None)
    builder = target.new_stream_write_builder().with_commit_user(commit_user)
    job = WriteJob.new(
        target.store, write_id=str(uuid.uuid4()), overwrite=mode == "overwrite", keys_only=mode == "delete"
    )
    clustered = cluster(df, job, concurrency=concurrency, distribution=None)
    done = run_job(
        clustered.frame,
        clustered.task,
        group=job.write_id,
        description=f"batch {batch_id} to {target.name}",
        settings=clustered.settings,
    )
    messages = [message for one in done for message in unpack(one.payload)]
    with builder.new_commit() as commit:
        result = commit.commit(messages, batch_id)
    return WriteResult(
        result.snapshot_id,
        result.rows,
        result.files,
        result.bytes,
        time.monotonic() - started,
        result.partitions,
        len(done),
        clustered.way,
    )
