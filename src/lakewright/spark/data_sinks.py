"""Batch and stream sinks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import types as sql
from pyspark.sql.types import StructType

from lakewright.commit.commit_message import CommitMessage
from lakewright.commit.commit_plan import select_partitions
from lakewright.commit.committer import Committer
from lakewright.commit.job_ids import recorded_batch
from lakewright.commit.table_commit import CommitResult
from lakewright.compact.compaction_job import compact_after_commit
from lakewright.dml.distributed_write import SINGLE_WRITER_MODES, holds, with_shared_buckets
from lakewright.engine.engine import TaskId, TaskResult
from lakewright.engine.engine_job import (
    JobEnd,
    publish_made,
    remove_all,
    remove_all_but,
    remove_leftovers,
)
from lakewright.errors import InvalidInputError, LakewrightError, UnsupportedError
from lakewright.spark.frame_columns import CASE_SENSITIVE, Renames, renamed_batches, renamed_schema, resolve_names
from lakewright.spark.source_options import FORMAT, READ, READ_TASKS, SourceOptions
from lakewright.spark.spark_engine import SparkTaskResult, complete_batches, has_losers, remove_if_given_up
from lakewright.spark.spark_features import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from lakewright.spark.spark_types import arrow_schema_of
from lakewright.spec.snapshot import SeenSnapshot, Snapshot
from lakewright.spec.table_options import TableOptions
from lakewright.table.file_store_table import FileStoreTable
from lakewright.table.verbs import add_missing_columns
from lakewright.write.table_writer import WriteJob

# ---- Shared by both sinks --------------------------------------------------------------------------------------------
# Spark plans a write in one process, sends the sink to the tasks, and lets a third process commit. The process that
# commits knows of the tasks only what is in their messages. Every task writes the rows it has, into files of its own.


@dataclass
class TaskWritten(WriterCommitMessage):
    """What one task sends to the one who commits."""

    write_id: str
    answer: SparkTaskResult
    query_id: str = ""  # of a stream


def task_context(table: str) -> TaskContext:
    """Return the context of the Spark task that this runs in."""
    context = TaskContext.get()
    if context is None:
        raise LakewrightError(f'{table}: format("lakewright") writes in tasks of Spark, not elsewhere')
    return context


def write_rows(job: WriteJob, context: TaskContext, batches: Iterator[pa.RecordBatch], renames: Renames) -> TaskWritten:
    """Write the rows of one task into files that no snapshot names yet."""
    # The process that plans does not see the settings of the session, but tasks do.
    if renames and str(context.getLocalProperty(CASE_SENSITIVE)).lower() == "true":
        path, name = next(iter(renames.items()))
        raise InvalidInputError(
            f"table {job.store.name}: there is no column {'.'.join(path)!r} to write (did you mean {name!r}? names are "
            f"case sensitive where {CASE_SENSITIVE} is true)",
            table=job.store.name,
            column=".".join(path),
        )
    this = TaskId(context.partitionId(), context.taskAttemptId())
    with job.open_writer(this.number, this.attempt) as writer:
        for batch in renamed_batches(complete_batches(batches), renames):
            writer.write(batch)
        payload = TaskResult(writer.prepare()).to_bytes()
    remove_if_given_up(job.store, job.write_id, this)
    return TaskWritten(job.write_id, SparkTaskResult(this, payload))


def written_in(messages: Sequence[WriterCommitMessage | None]) -> list[TaskWritten]:
    """Return the messages of the tasks that sent one."""
    return [message for message in messages if isinstance(message, TaskWritten)]


def changes_in(written: Iterable[TaskWritten]) -> list[CommitMessage]:
    """Return what the tasks wrote, as it is committed."""
    return [message for task in written for message in TaskResult.from_bytes(task.answer.payload).messages]


# ---- The stream sink -------------------------------------------------------------------------------------------------
# Spark makes one writer per batch for the tasks, and another one that commits, in a process of its own. A stream
# commits under the name of its query and the number of the batch. The query's id lives in its checkpoint, so a
# restarted query goes on under the same name, and a query whose checkpoint was deleted begins again under another
# name.
#
# Invariant: a batch is published once, however often Spark writes it. The files of a batch that was published
# before are removed, and nothing is removed of a batch that a process began to publish.

STREAM_WRITE = frozenset({"checkpointlocation", "queryname"})  # what Spark adds to the options
_QUERY_ID = "sql.streaming.queryId"  # the property of a task that holds the id of its streaming query


def stream_writer(given: SourceOptions, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: FBT001 - Spark's own order
    """Return the writer of a stream, as `writeStream` options describe it."""
    return StreamSink(given.open(), schema, overwrite=overwrite)


def stream_user(query_id: str, mode: str = "append") -> str:
    """Return the name under which a streaming query commits, the same over restarts from one checkpoint.

    The keys to delete are often one half of a batch and the rows to upsert the other: each half is committed once.
    """
    return f"spark-{query_id}-delete" if mode == "delete" else f"spark-{query_id}"


class StreamSink(DataSourceStreamArrowWriter):
    """Writes one batch of a stream: as a writer on executors, or as the one who commits on the driver."""

    def __init__(self, table: FileStoreTable, schema: StructType, *, overwrite: bool) -> None:
        _refuse_unclustered(table)
        self._store = table.store
        self._overwrite = overwrite
        self._job = with_shared_buckets(WriteJob.new(table.store, overwrite=overwrite))
        columns = arrow_schema_of(schema)
        self._renames = resolve_names(columns, table.store)
        self._job.check_input(renamed_schema(columns, self._renames))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        """Write the rows of one task into files that no snapshot names yet."""
        context = task_context(self._store.name)
        query_id = context.getLocalProperty(_QUERY_ID)
        if not query_id:
            raise LakewrightError(f"{self._store.name}: Spark does not say which streaming query this task belongs to")
        return replace(write_rows(self._job, context, iterator, self._renames), query_id=query_id)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Publish a batch, or remove its files where an earlier run has published it."""
        written = _written_by_all(messages, self._store.name, batchId)
        if not written:
            return  # a batch without partitions
        changes, write_id = changes_in(written), written[0].write_id
        places = frozenset((message.partition_bytes, message.bucket) for message in changes)

        def publish() -> JobEnd[Snapshot | None]:
            snapshot = self._publish(stream_user(written[0].query_id), changes, batchId)
            ours = snapshot is None or not places or holds(self._store, snapshot, write_id)
            return JobEnd(snapshot, None if ours else snapshot)

        def clean_up() -> None:
            with suppress(OSError):  # what stays is an orphan
                remove_leftovers(self._store, write_id, places=places)

        snapshot = publish_made(publish, clean_up=clean_up, remove_losers=lambda: None).result
        if snapshot is not None and places:
            compact_after_commit(self._store, snapshot, places)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Remove what the tasks of a failed batch wrote, unless a process began to publish it."""
        written = written_in(messages)
        if not written:
            return  # attempts that failed have cleaned up after themselves
        if len(written) < len(messages):  # the job failed before anything was published
            remove_leftovers(self._store, written[0].write_id)
            return
        Committer(self._store, commit_user=stream_user(written[0].query_id)).abort(changes_in(written), batchId)

    def _publish(self, user: str, changes: Sequence[CommitMessage], batch_id: int) -> Snapshot | None:
        """Return the snapshot in which the user committed this batch or a later one; commit it if there is none."""
        # The commit itself looks for what is published later than this.
        since = SeenSnapshot.of(self._store.snapshots.latest())
        snapshot = self._store.snapshots.of_user(user) or recorded_batch(self._store, user, batch_id)
        if snapshot is not None and snapshot.commit_identifier >= batch_id:
            return snapshot
        committer = Committer(self._store, commit_user=user, once_since=since)
        if self._overwrite:
            return committer.overwrite(changes, batch_id, static_partition={}, dynamic=False)
        # An empty batch needs no snapshot: should Spark run it again, it is empty again.
        return committer.commit(changes, batch_id)


def _refuse_unclustered(table: FileStoreTable) -> None:
    if table.schema.bucket_mode in SINGLE_WRITER_MODES:
        raise UnsupportedError(
            f"{table.name} has dynamic buckets, which need rows of a key to meet in one task, and "
            'format("lakewright") cannot ask Spark for that: use lakewright.spark.write_stream(df, table, ...), or '
            "df.writeStream.foreachBatch(lakewright.spark.foreach_batch(table, ...))",
            table=table.name,
        )


def _written_by_all(messages: Sequence[WriterCommitMessage | None], table: str, batch_id: int) -> list[TaskWritten]:
    """Return the messages of all tasks, or raise an error: a batch that lacks some is not published."""
    written = written_in(messages)
    if len(written) != len(messages):
        raise LakewrightError(
            f"{table}: {len(messages) - len(written)} of {len(messages)} tasks of batch {batch_id} sent no message",
            table=table,
        )
    return written


# ---- The batch sink --------------------------------------------------------------------------------------------------
# Every task writes the rows it has (`sink`): rows of a bucket come in files of several tasks, in disjoint ranges of
# sequence numbers, so the later row of a key wins.
#
# Invariant: a frame is published once or not at all, and after every task's messages arrived. Columns that do not
# fit are refused before any task runs. Nothing is removed once a process began to publish.

OVERWRITE_MODE, PARTITIONS, MERGE_SCHEMA = "partitionoverwritemode", "partitions", "mergeschema"
WRITE = frozenset({OVERWRITE_MODE, PARTITIONS, MERGE_SCHEMA})
SINK = WRITE | READ | {READ_TASKS}  # the words of reads are refused with a reason
_DYNAMIC = TableOptions.dynamic_partition_overwrite.key()


def table_sink(given: SourceOptions, schema: sql.StructType, *, overwrite: bool) -> SparkTableSink:
    """Return the sink of one write, or say why the frame cannot be written."""
    if given.travels:
        raise InvalidInputError(
            "a view of an older snapshot, of changes, or of some columns or rows cannot be written: write through "
            "a view without these options, or with lakewright.spark.write_table(df, table)"
        )
    table = given.open()
    given_columns = arrow_schema_of(schema)
    renames = resolve_names(given_columns, table.store)
    columns = renamed_schema(given_columns, renames)
    if PARTITIONS in given.words and not overwrite:
        raise InvalidInputError(
            "the option 'partitions' says what an overwrite replaces; leave it out of mode('append') and INSERT INTO",
            option=PARTITIONS,
        )
    replaced = _replaced_partitions(given, table) if overwrite else None
    if given.switch(MERGE_SCHEMA):
        table = add_missing_columns(table, pa.schema([field.with_nullable(True) for field in columns]))  # noqa: FBT003 - Arrow's
    if replaced is not None:
        table = table.copy({_DYNAMIC: str(replaced.dynamic).lower()})
    job = with_shared_buckets(WriteJob.new(table.store, overwrite=overwrite))
    job.check_input(columns)
    return SparkTableSink(table, job, replaced, renames)


@dataclass(frozen=True, slots=True)
class ReplacedPartitions:
    """What an overwrite replaces: the partitions that a spec names, those of the new rows, or the whole table."""

    spec: Mapping[str, object]
    dynamic: bool


class SparkTableSink(DataSourceArrowWriter):
    """Writes a frame: as a writer in tasks, and as the one who commits on the driver."""

    def __init__(
        self, table: FileStoreTable, job: WriteJob, replaced: ReplacedPartitions | None, renames: Renames
    ) -> None:
        self._table = table
        self._job = job
        self._replaced = replaced
        self._renames = renames

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        """Write the rows of one task into files that no snapshot names yet."""
        context = task_context(self._table.name)
        rows = iterator if context.partitionId() == 0 else self._refused_if_any(iterator)
        return write_rows(self._job, context, rows, self._renames)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Publish what all tasks wrote in one snapshot; where that fails, Spark calls `abort`."""
        written = written_in(messages)
        if len(written) != len(messages):
            raise LakewrightError(
                f"{self._table.name}: {len(messages) - len(written)} of {len(messages)} tasks sent no message; nothing "
                "was committed, write the frame again",
                table=self._table.name,
            )
        changes = changes_in(written)

        def remove_losers() -> None:
            if has_losers([task.answer for task in written]):
                remove_all_but(self._job.store, self._job.write_id, changes)

        clean_up = partial(remove_all, self._job.store, self._job.write_id)
        publish_made(partial(self._publish, changes), clean_up=clean_up, remove_losers=remove_losers)

    def _publish(self, changes: Sequence[CommitMessage]) -> JobEnd[CommitResult]:
        builder = self._table.new_batch_write_builder()
        if self._replaced is not None:
            builder = builder.overwrite(self._replaced.spec)
        with builder.new_commit() as commit:
            return JobEnd(commit.commit(changes))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove what the tasks wrote, unless a process began to publish it.

        Nothing is published where a message is missing, so then all files of this write are removed, also those
        of attempts that sent no message. After a commit that failed all messages are here, and files that may have been
        published stay.
        """
        written = written_in(messages)
        if len(written) < len(messages):
            remove_all(self._job.store, self._job.write_id)
            return
        with self._table.new_batch_write_builder().new_commit() as commit:
            commit.abort(changes_in(written))

    def _refused_if_any(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task that is not the first; any row is an error where one task must write all rows."""
        for batch in batches:
            self._refuse_second_writer()
            yield batch

    def _refuse_second_writer(self) -> None:
        if self._table.schema.bucket_mode not in SINGLE_WRITER_MODES:
            return
        raise UnsupportedError(
            f"{self._table.name} has dynamic buckets, which need rows of a key to meet in one task, and "
            f'format("{FORMAT}") cannot ask Spark for that: use lakewright.spark.write_table(df, table), or let one '
            "task write with df.coalesce(1), in SQL SELECT /*+ COALESCE(1) */",
            table=self._table.name,
        )


def _replaced_partitions(given: SourceOptions, table: FileStoreTable) -> ReplacedPartitions:
    mode = given.words.get(OVERWRITE_MODE, "static").strip().lower()
    if mode not in {"static", "dynamic"}:
        raise InvalidInputError(f"partitionOverwriteMode is static or dynamic, not {mode!r}", option=OVERWRITE_MODE)
    spec = _spec(given.words.get(PARTITIONS))
    dynamic = mode == "dynamic"
    if OVERWRITE_MODE not in given.words and _DYNAMIC in given.table:
        dynamic = table.store.options.dynamic_partition_overwrite
    if spec and dynamic:
        raise InvalidInputError(
            "the option 'partitions' names what is replaced, and partitionOverwriteMode=dynamic takes it from the "
            "rows: give one of them",
            table=table.name,
        )
    select_partitions(table.store, [spec])
    return ReplacedPartitions(spec, dynamic)


def _spec(text: str | None) -> dict[str, object]:
    """Read a partition spec: a JSON object, or `dt=2026-01-01/hour=3` with commas or slashes between."""
    if text is None or not text.strip():
        return {}
    if text.lstrip().startswith("{"):
        try:
            spec = json.loads(text)
        except json.JSONDecodeError as error:
            raise InvalidInputError(f"the option 'partitions' is no JSON object: {error}", option=PARTITIONS) from error
        return {str(key): value for key, value in spec.items()}
    pairs = [part.split("=", 1) for part in text.replace("/", ",").split(",")]
    if any(len(pair) != 2 for pair in pairs):  # noqa: PLR2004 - a name and a value
        raise InvalidInputError(
            f"the option 'partitions' is a JSON object or dt=2026-01-01/hour=3, not {text!r}", option=PARTITIONS
        )
    return {name.strip(): value.strip() for name, value in pairs}
