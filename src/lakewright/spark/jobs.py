"""Jobs: a function over the partitions of a frame in, one payload per task home.

The function runs on an executor, once for every partition, and what it returns goes home as rows of bytes. A job is
over when `run_job` returns: the frame behind it never leaves this module, because a second action on it would run every
task again.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from lakewright.commit.message import CommitMessage
from lakewright.errors import InvalidMessageError, LakewrightError
from lakewright.spark.session import settings

_LENGTH = struct.Struct(">I")
_SCHEMA = "task int, attempt long, payload binary"


@dataclass(frozen=True, slots=True)
class TaskId:
    """One attempt at one task."""

    number: int  # of the partition
    attempt: int  # Spark's own id, which no other attempt of the application has


@dataclass(frozen=True, slots=True)
class Done:
    """What one task brought home."""

    task: TaskId
    payload: bytes


Task: TypeAlias = Callable[[TaskId, Iterator[pa.RecordBatch]], bytes]


def run_job(  # noqa: PLR0913 - what a job is called, and what holds while it runs
    df: DataFrame,
    task: Task,
    *,
    group: str,
    description: str,
    progress: object = None,
    settings: Mapping[str, str] | None = None,
) -> list[Done]:
    """Run a function over the partitions of a frame and return what every task brought home, by task number."""
    with _set(df, settings or {}):
        rows = df.mapInArrow(_on_executor(task), _SCHEMA).collect()
    done = [Done(TaskId(row.task, row.attempt), bytes(row.payload)) for row in rows]
    return _complete(done, description)


def pack(messages: Iterable[CommitMessage]) -> bytes:
    """Return commit messages as one run of bytes."""
    frames = (message.serialize() for message in messages)
    return b"".join(part for frame in frames for part in (_LENGTH.pack(len(frame)), frame))


def unpack(payload: bytes) -> list[CommitMessage]:
    """Read what `pack` made."""
    messages, at = [], 0
    while at < len(payload):
        if at + _LENGTH.size > len(payload):
            raise InvalidMessageError("the commit messages of a task were cut on their way; write the data again")
        (length,) = _LENGTH.unpack_from(payload, at)
        at += _LENGTH.size
        messages.append(CommitMessage.deserialize(payload[at : at + length]))
        at += length
    return messages


def _set(df: DataFrame, values: Mapping[str, str]):  # noqa: ANN202
    return settings(df.sparkSession, values)


def _on_executor(task: Task) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        this = TaskId(context.partitionId(), context.taskAttemptId())
        payload = task(this, batches)
        yield pa.record_batch(
            [
                pa.array([this.number], pa.int32()),
                pa.array([this.attempt], pa.int64()),
                pa.array([payload], pa.binary()),
            ],
            names=["task", "attempt", "payload"],
        )

    return run


def _complete(done: Sequence[Done], description: str) -> list[Done]:
    """Return what came home in the order of the tasks, if every task's answer is there once."""
    ordered = sorted(done, key=lambda one: one.task.number)
    if [one.task.number for one in ordered] != list(range(len(ordered))):
        raise LakewrightError(f"{description}: Spark brought the results of some tasks twice or not at all")
    return ordered
