"""The sink behind `writeStream.format("lakewright")`: the rows of a micro-batch in, at most one snapshot out.

Spark makes one writer per batch for the tasks, and another one that commits, in a process of its own. A stream commits
under the name of its query and the number of the batch. The query's id lives in its checkpoint, so a restarted query
goes on under the same name, and a query whose checkpoint was deleted begins again under another name.

Always holds: a batch is published once, however often Spark writes it. The files of a batch that was published before
are removed, and nothing is removed of a batch that somebody began to publish.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.types import StructType

from lakewright.commit.committer import Committer
from lakewright.commit.message.message import CommitMessage
from lakewright.compact.job import after_commit
from lakewright.distributed.job import JobEnd, publish_made
from lakewright.distributed.write import holds
from lakewright.distributed.write_job import ONE_WRITER, sharing_buckets
from lakewright.errors import LakewrightError, UnsupportedError
from lakewright.spark.datasource.options import SourceOptions
from lakewright.spark.datasource.sink import TaskWritten, changes_in, task_context, write_rows, written_in
from lakewright.spark.jobs.classes import DataSourceStreamArrowWriter, WriterCommitMessage
from lakewright.spark.jobs.types import arrow_schema_of
from lakewright.spec.snapshot import SeenSnapshot, Snapshot
from lakewright.table.table import FileStoreTable
from lakewright.write.job_run import recorded_batch
from lakewright.write.leftovers import remove_leftovers
from lakewright.write.writer import WriteJob

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
        self._job = sharing_buckets(WriteJob.new(table.store, overwrite=overwrite))
        self._job.check_input(arrow_schema_of(schema))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        """Write the rows of one task into files that no snapshot names yet."""
        context = task_context(self._store.name)
        query_id = context.getLocalProperty(_QUERY_ID)
        if not query_id:
            raise LakewrightError(f"{self._store.name}: Spark does not say which streaming query this task belongs to")
        return replace(write_rows(self._job, context, iterator), query_id=query_id)

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
            after_commit(self._store, snapshot, places)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Remove what the tasks of a failed batch wrote, unless somebody began to publish it."""
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
    if table.schema.bucket_mode in ONE_WRITER:
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
