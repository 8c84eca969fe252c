"""What both sinks of Spark share: the rows of one task in, a message for the one who commits out.

Spark plans a write in one process, sends the sink to the tasks, and lets a third process commit. The process that
commits knows of the tasks only what is in their messages. Every task writes the rows it has, into files of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext

from lakewright.commit.message.message import CommitMessage
from lakewright.distributed.job import TaskId
from lakewright.distributed.messages import pack, unpack
from lakewright.errors import LakewrightError
from lakewright.spark.jobs.classes import WriterCommitMessage
from lakewright.spark.jobs.cleanup import complete_batches, remove_if_given_up
from lakewright.spark.jobs.run import TaskAnswer
from lakewright.write.writer import WriteJob


@dataclass
class TaskWritten(WriterCommitMessage):
    """What one task sends to the one who commits."""

    write_id: str
    answer: TaskAnswer
    query_id: str = ""  # of a stream


def task_context(table: str) -> TaskContext:
    """Return the context of the Spark task that this runs in."""
    context = TaskContext.get()
    if context is None:
        raise LakewrightError(f'{table}: format("lakewright") writes in tasks of Spark, not elsewhere')
    return context


def write_rows(job: WriteJob, context: TaskContext, batches: Iterator[pa.RecordBatch]) -> TaskWritten:
    """Write the rows of one task into files that no snapshot names yet."""
    this = TaskId(context.partitionId(), context.taskAttemptId())
    with job.open_writer(this.number, this.attempt) as writer:
        for batch in complete_batches(batches):
            writer.write(batch)
        payload = pack(writer.prepare())
    remove_if_given_up(job.store, job.write_id, this)
    return TaskWritten(job.write_id, TaskAnswer(this, payload))


def written_in(messages: Sequence[WriterCommitMessage | None]) -> list[TaskWritten]:
    """Return the messages of the tasks that sent one."""
    return [message for message in messages if isinstance(message, TaskWritten)]


def changes_in(written: Iterable[TaskWritten]) -> list[CommitMessage]:
    """Return what the tasks wrote, as it is committed."""
    return [message for task in written for message in unpack(task.answer.payload)]
