"""The sink behind `writeStream.format("lakewright")`: the rows of a micro-batch in, at most one snapshot out.

Spark makes one writer per batch, sends it to the tasks, and lets another one commit in a process of its own: all that
the second knows of the first is in the messages. A stream commits under the name of its query and the number of the
batch. The query's id lives in its checkpoint, so a restarted query goes on under the same name, and a query whose
checkpoint was thrown away begins anew under another.

Always holds: a batch is published once, however often Spark writes it. The files of a batch that is there already are
removed, and nothing is removed of a batch that somebody began to publish.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from lakewright.commit.committer import Committer
from lakewright.commit.message.message import CommitMessage
from lakewright.compact.job import after_commit
from lakewright.distributed.job import TaskId
from lakewright.distributed.messages import pack, unpack
from lakewright.distributed.write import holds
from lakewright.distributed.write_job import ONE_WRITER, sharing_buckets
from lakewright.errors import LakewrightError, UnsupportedError
from lakewright.spark.datasource.options import DoorOptions
from lakewright.spark.jobs.cleanup import drop_if_unheard, whole
from lakewright.spark.jobs.types import arrow_schema_of
from lakewright.spec.snapshot import Snapshot
from lakewright.table.table import FileStoreTable
from lakewright.write.leftovers import remove_leftovers
from lakewright.write.writer import WriteJob

STREAM_WRITE = frozenset({"checkpointlocation", "queryname"})  # what Spark adds to the options
_QUERY_ID = "sql.streaming.queryId"  # what Spark tells every task of a streaming query


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: FBT001 - Spark's own order
    """Return the writer of a stream, as `writeStream` options describe it."""
    return StreamSink(DoorOptions.of(options, STREAM_WRITE).open(), schema, overwrite=overwrite)


def stream_user(query_id: str, mode: str = "append") -> str:
    """Return the name under which a streaming query commits, the same over restarts from one checkpoint.

    The keys to delete are often one half of a batch and the rows to upsert the other: each half is committed once.
    """
    return f"spark-{query_id}-delete" if mode == "delete" else f"spark-{query_id}"


@dataclass
class TaskWritten(WriterCommitMessage):
    """What one task sends to the one who commits."""

    query_id: str
    write_id: str
    payload: bytes  # the packed messages of its buckets


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
        context = TaskContext.get()
        if context is None:
            raise LakewrightError("the sink of a stream writes in tasks of Spark, not elsewhere")
        query_id = context.getLocalProperty(_QUERY_ID)
        if not query_id:
            raise LakewrightError(f"{self._store.name}: Spark does not say which streaming query this task belongs to")
        this = TaskId(context.partitionId(), context.taskAttemptId())
        with self._job.open_writer(this.number, this.attempt) as writer:
            for batch in whole(iterator):
                writer.write(batch)
            payload = pack(writer.prepare())
        drop_if_unheard(self._store, self._job.write_id, this)
        return TaskWritten(query_id, self._job.write_id, payload)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Publish a batch, or clean up after it where an earlier run has published it."""
        written = _whole(messages, self._store.name, batchId)
        if not written:
            return  # a batch without partitions
        files = [message for task in written for message in unpack(task.payload)]
        user, write_id = stream_user(written[0].query_id), written[0].write_id
        since = self._store.snapshots.latest_id() or 0  # what is published after this look is found by the commit
        snapshot = self._store.snapshots.of_user(user)
        if snapshot is None or snapshot.commit_identifier < batchId:
            snapshot = self._publish(Committer(self._store, commit_user=user, once_since=since), files, batchId)
        places = frozenset((message.partition_bytes, message.bucket) for message in files)
        if snapshot is None or not places:
            return
        if not holds(self._store, snapshot, write_id):
            with suppress(OSError):  # what stays is an orphan
                remove_leftovers(self._store, write_id, places=places)
        after_commit(self._store, snapshot, places)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Remove what the tasks of a failed batch wrote, unless somebody began to publish it."""
        written = [message for message in messages if isinstance(message, TaskWritten)]
        if not written:
            return  # attempts that failed have cleaned up after themselves
        if len(written) < len(messages):  # the job failed, so nobody came to publishing
            remove_leftovers(self._store, written[0].write_id)
            return
        committer = Committer(self._store, commit_user=stream_user(written[0].query_id))
        committer.abort([message for task in written for message in unpack(task.payload)], batchId)

    def _publish(self, committer: Committer, messages: Sequence[CommitMessage], batch_id: int) -> Snapshot | None:
        if self._overwrite:
            return committer.overwrite(messages, batch_id, static_partition={}, dynamic=False)
        # An empty batch needs no snapshot: should Spark run it again, it is empty again.
        return committer.commit(messages, batch_id)


def _refuse_unclustered(table: FileStoreTable) -> None:
    if table.schema.bucket_mode in ONE_WRITER:
        raise UnsupportedError(
            f"{table.name} has dynamic buckets, which need rows of a key to meet in one task, and "
            'format("lakewright") cannot ask Spark for that: use lakewright.spark.write_stream(df, table, ...), or '
            "df.writeStream.foreachBatch(lakewright.spark.foreach_batch(table, ...))",
            table=table.name,
        )


def _whole(messages: Sequence[WriterCommitMessage | None], table: str, batch_id: int) -> list[TaskWritten]:
    """Return the messages of all tasks; a batch that is not whole is not published."""
    written = [message for message in messages if isinstance(message, TaskWritten)]
    if len(written) != len(messages):
        raise LakewrightError(
            f"{table}: {len(messages) - len(written)} of {len(messages)} tasks of batch {batch_id} sent no message",
            table=table,
        )
    return written
