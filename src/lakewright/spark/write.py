"""Writes on Spark: a frame in, one snapshot out.

    look for the job's own commit -> align on the driver -> bring rows to the tasks that write their buckets
    -> run the job -> check what came home -> commit once, in this process -> compact on the workers

Always holds: nothing is visible before the commit, and tasks never commit. What fails before that leaves no file
behind; once publishing has begun and nobody knows how it ended, nothing is removed.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakewright.calls import ProgressCallback, check_mode, merged_table
from lakewright.catalog.open import open_table
from lakewright.commit.committer import Committer
from lakewright.commit.message import CommitMessage
from lakewright.commit.table_commit import BatchTableCommit, CommitResult, StreamTableCommit
from lakewright.compact.job import after_commit
from lakewright.errors import (
    CommitConflictError,
    CommitContentionError,
    InvalidInputError,
    LakewrightError,
    NotFoundError,
    UnsupportedError,
)
from lakewright.metadata.store import TableStore
from lakewright.spark.cleanup import clean_up, remove_losers
from lakewright.spark.cluster import cluster
from lakewright.spark.compaction import compacting_on
from lakewright.spark.jobs import Done, Task, TaskId, run_job, unpack
from lakewright.spark.progress import Counter, final_line, watching
from lakewright.spark.session import settings
from lakewright.spark.types import arrow_schema_of
from lakewright.spec.manifest import ADD
from lakewright.spec.options import CoreOptions
from lakewright.spec.snapshot import Snapshot
from lakewright.table import FileStoreTable
from lakewright.write.builder import BatchTableWrite, TableWrite
from lakewright.write.writer import WriteJob

_NAMESPACE = uuid.UUID("0b7c5a1e-9f43-4c06-8a52-6f1c3c8e2d94")
_NOT_PUBLISHED = (InvalidInputError, CommitConflictError, CommitContentionError)
_DYNAMIC = CoreOptions.DYNAMIC_PARTITION_OVERWRITE.key()


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
    replayed: bool = False  # an earlier run, or another driver, had committed the same job already


@dataclass(frozen=True, slots=True)
class Publication:
    """Under which name, and in which way, a write becomes a snapshot."""

    user: str | None = None  # None: one that is derived from the messages
    identifier: int | None = None  # of a batch of a stream
    replaced: Mapping[str, object] | None = None  # what an overwrite replaces, {} without a spec; None: append
    once_since: int | None = None  # user and identifier say what it is, and it is in no snapshot up to this one


@dataclass(frozen=True, slots=True)
class Manner:
    """How the rows are brought to the table."""

    concurrency: int | None = None
    distribution: str | None = None
    progress: bool | ProgressCallback | None = None
    options: Mapping[str, str] | None = None  # of Spark, for the time of the write


def write_table(  # noqa: PLR0913 - each argument is one choice of the caller
    df: DataFrame,
    table: FileStoreTable | str,
    mode: str = "append",
    *,
    partitions: Mapping[str, object] | None = None,
    schema_mode: str | None = None,
    concurrency: int | None = None,
    job_id: str | None = None,
    progress: bool | ProgressCallback | None = None,
    distribution: str | None = None,
) -> WriteResult:
    """Write a frame with Spark's workers and commit it in one snapshot.

    `mode` is append, upsert, overwrite or delete, as in `lakewright.write_table`: on a table with a primary key a row
    replaces the row with its key, and of two rows of one frame the later one wins; `delete` takes the keys of rows to
    delete. An overwrite replaces the partitions of the rows, or those that `partitions` names, or the whole
    unpartitioned table. `schema_mode="merge"` first adds the columns, and widens the types, that the table lacks.

    A write with a `job_id` is committed once: if it is run again, after a crash or by another driver, it finds its
    snapshot, writes nothing, and says so (`replayed`). The id is known for as long as that snapshot lives.

    `concurrency` is the largest number of tasks that write, `distribution` how rows are brought together for them, and
    `progress` a callback, or False for no bar.
    """
    _check_call(df, mode=mode, partitions=partitions, concurrency=concurrency)
    target = open_table(table) if isinstance(table, str) else table
    check_mode(target, mode, schema_mode)
    publication = Publication(replaced=dict(partitions or {}) if mode == "overwrite" else None)
    if job_id is not None:
        user = _user_of(target.store, job_id)
        publication = replace(publication, user=user, once_since=target.store.snapshots.latest_id() or 0)
        earlier = committed_job(df.sparkSession, target, job_id)
        if earlier is not None:
            return earlier
    if schema_mode == "merge":
        target = merged_table(target, _nullable(arrow_schema_of(df.schema)))
    if partitions is not None:
        target = target.copy({_DYNAMIC: "false"})
    job = WriteJob.new(target.store, overwrite=mode == "overwrite", keys_only=mode == "delete")
    return _write(df, job, publication, Manner(concurrency, distribution, progress))


def committed_job(spark: SparkSession, table: FileStoreTable, job_id: str) -> WriteResult | None:
    """Return what an earlier run of a job brought into the table, None where no snapshot is of it."""
    found = snapshot_of_job(table, job_id)
    return None if found is None else _replayed(spark, table.store, found)


def snapshot_of_job(table: FileStoreTable, job_id: str) -> Snapshot | None:
    """Return the snapshot that a job committed, None where there is none, or none any more."""
    return table.store.snapshots.of_user(_user_of(table.store, job_id))


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
    store = write.job.store
    if not isinstance(write, BatchTableWrite):
        raise UnsupportedError(
            f"{store.name}: a stream write has no identifier to commit a frame under; use a batch write builder, or "
            "lakewright.spark.foreach_batch for the batches of a stream",
            table=store.name,
        )
    _check_call(df, mode="overwrite" if overwrite else "append", partitions=None, concurrency=concurrency)
    replaced = write.purpose.static_partition
    if overwrite and replaced is None:
        replaced = {}
    # Files of this job must not be mistaken for those of the writer, so it gets an id of its own.
    job = replace(write.job, write_id=str(uuid.uuid4()), overwrite=replaced is not None)
    publication = Publication(user=write.purpose.commit_user, replaced=replaced)
    return _write(df, job, publication, Manner(concurrency, options=spark_options))


def write_micro_batch(
    df: DataFrame,
    table: FileStoreTable | str,
    batch_id: int,
    *,
    commit_user: str,
    mode: str = "append",
    concurrency: int | None = None,
) -> WriteResult:
    """Write one batch of a stream and commit it under the stream's name and the batch's number, once.

    A batch that the stream has committed already writes nothing. `overwrite` replaces the whole table, as a stream in
    complete mode wants it.
    """
    _check_call(df, mode=mode, partitions=None, concurrency=concurrency)
    target = open_table(table) if isinstance(table, str) else table
    check_mode(target, mode, None)
    # What is published after this look is found by the commit.
    since = target.store.snapshots.latest_id() or 0
    found = target.store.snapshots.of_user(commit_user)
    if found is not None and found.commit_identifier >= batch_id:
        return _replayed(df.sparkSession, target.store, found)
    if mode == "overwrite":
        target = target.copy({_DYNAMIC: "false"})
    publication = Publication(commit_user, batch_id, {} if mode == "overwrite" else None, since)
    job = WriteJob.new(target.store, overwrite=mode == "overwrite", keys_only=mode == "delete")
    return _write(df, job, publication, Manner(concurrency, progress=False))


# ---- one write -------------------------------------------------------------------------------------------------------


def _write(df: DataFrame, job: WriteJob, publication: Publication, manner: Manner) -> WriteResult:
    """Take a frame from its schema to a snapshot."""
    started, store, spark = time.monotonic(), job.store, df.sparkSession
    job.check_input(arrow_schema_of(df.schema))
    what = f"write to {store.name}"
    with _options(spark, manner), watching(spark, job.write_id, manner.progress, what=what) as watch:
        clustered = cluster(df, job, concurrency=manner.concurrency, distribution=manner.distribution)
        try:
            done = run_job(
                clustered.frame,
                _counted(clustered.task, watch.counter),
                group=job.write_id,
                description=what,
                progress=watch,
                settings=clustered.settings,
            )
            messages = _messages(job, done)
        except BaseException:
            clean_up(spark, store, job.write_id)
            raise
        try:
            committed = _commit(spark, store, publication, messages)
        except _NOT_PUBLISHED as error:
            if "published_id" not in error.facts:
                clean_up(spark, store, job.write_id)
            raise
        result = WriteResult(
            committed.snapshot_id,
            committed.rows,
            committed.files,
            committed.bytes,
            time.monotonic() - started,
            committed.partitions,
            len(done),
            clustered.way,
        )
        if publication.once_since is not None and (other := _overtaken(store, job, committed)) is not None:
            clean_up(spark, store, job.write_id)
            result = _replayed(spark, store, other)
        else:
            remove_losers(spark, store, job.write_id, done, messages)
        watch.done(result.rows, result.bytes)
        watch.conclude(final_line(result, store.name))
    return result


def _counted(task: Task, counter: Counter) -> Task:
    """Return a task that also tells whoever watches what it wrote."""

    def run(this: TaskId, batches: Iterator[pa.RecordBatch]) -> bytes:
        payload = task(this, batches)
        files = [file for message in unpack(payload) for file in message.new_files]
        counter.add(sum(file.row_count for file in files), sum(file.file_size for file in files))
        return payload

    return task if counter.total is None else run


def _options(spark: SparkSession, manner: Manner) -> AbstractContextManager[None]:
    options = {key: str(value) for key, value in (manner.options or {}).items()}
    return settings(spark, options) if options else nullcontext()


def _messages(job: WriteJob, done: Sequence[Done]) -> list[CommitMessage]:
    """Return the messages of all tasks, once it is clear that they are of this write and that no row was lost."""
    messages = list(chain.from_iterable(unpack(one.payload) for one in done))
    foreign = [message for message in messages if message.write_id != job.write_id]
    written = sum(file.row_count for message in messages for file in message.new_files)
    taken = sum(message.rows_in or 0 for message in messages)
    if foreign or written > taken or (written < taken and not job.store.schema.primary_keys):
        raise LakewrightError(
            f"{job.store.name}: the tasks took {taken} rows and wrote {written}, and {len(foreign)} messages are of "
            "another write; nothing was committed, write the frame again",
            table=job.store.name,
        )
    return messages


def _commit(
    spark: SparkSession, store: TableStore, publication: Publication, messages: Sequence[CommitMessage]
) -> CommitResult:
    """Publish the messages in one snapshot, and let workers compact what it touched."""
    committer = Committer(store, commit_user=publication.user, once_since=publication.once_since)
    after = partial(after_commit, store, run=compacting_on(spark)) if store.schema.primary_keys else None
    identifier, replaced = publication.identifier, publication.replaced
    if identifier is None or publication.user is None:
        batch = BatchTableCommit(store, overwrite=replaced, committer=committer, after_commit=after)
        return batch.commit(messages)
    stream = StreamTableCommit(store, commit_user=publication.user, committer=committer, after_commit=after)
    if replaced is not None:
        return stream.overwrite(messages, identifier, replaced)
    return stream.commit(messages, identifier)


def _overtaken(store: TableStore, job: WriteJob, committed: CommitResult) -> Snapshot | None:
    """Return the snapshot of another driver that did the same job while this one ran; None where it is our own."""
    if committed.snapshot_id is None or not committed.files:
        return None
    try:
        snapshot = store.snapshots.get(committed.snapshot_id)
        entries = store.manifests.delta(snapshot)
    except NotFoundError:  # it expired already, so nobody can say
        return None
    return None if any(job.write_id in entry.file.file_name for entry in entries) else snapshot


def _replayed(spark: SparkSession, store: TableStore, found: Snapshot) -> WriteResult:
    """Return what an earlier run brought into the table, and do what it may not have come to: the compaction."""
    started = time.monotonic()
    added = [entry for entry in store.manifests.delta(found) if entry.kind == ADD]
    places = frozenset((entry.partition, entry.bucket) for entry in added)
    if places and store.schema.primary_keys:
        after_commit(store, found, places, run=compacting_on(spark))
    return WriteResult(
        found.id,
        sum(entry.file.row_count for entry in added),
        len(added),
        sum(entry.file.file_size for entry in added),
        time.monotonic() - started,
        len({partition for partition, _ in places}),
        tasks=0,
        way="an earlier run had committed it",
        replayed=True,
    )


def _user_of(store: TableStore, job_id: str) -> str:
    """Return the commit user of a job: the same for every run of it, and another one for every table."""
    if not job_id:
        raise InvalidInputError(f"{store.name}: a job id cannot be empty", table=store.name)
    return str(uuid.uuid5(_NAMESPACE, f"{store.identity}\n{job_id}"))


def _nullable(schema: pa.Schema) -> pa.Schema:
    """Return the columns as a table that has rows already can take them up."""
    return pa.schema([field.with_nullable(True) for field in schema])  # noqa: FBT003 - Arrow's own argument


def _check_call(df: DataFrame, *, mode: str, partitions: Mapping[str, object] | None, concurrency: int | None) -> None:
    if not hasattr(df, "mapInArrow"):
        raise InvalidInputError(
            f"a {type(df).__name__} is no Spark frame: write pandas, polars and Arrow data with lakewright.write_table"
        )
    if df.isStreaming:
        raise InvalidInputError(
            "a streaming frame is written with lakewright.spark.write_stream, or batch by batch with "
            "lakewright.spark.foreach_batch"
        )
    if partitions is not None and mode != "overwrite":
        raise InvalidInputError(f"'partitions' says what an overwrite replaces; leave it out of mode {mode!r}")
    if concurrency is not None and concurrency < 1:
        raise InvalidInputError(f"concurrency is a number of tasks, at least 1, not {concurrency!r}")
