"""Attempts that Spark gave up: a task in; out, a task that removes its own files if its answer is not awaited.

An attempt that Spark ended before it was done removes its files itself (`self_cleaning`). One that was done before has
its files in place when the driver sees that no task runs any more, and the driver removes them
(`lakewright.distributed.job`). Always holds: a failed removal hides no other error; what stays is an orphan.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa

from lakewright.distributed.job import TaskId
from lakewright.distributed.rows.groups import INSERTING
from lakewright.errors import LakewrightError
from lakewright.metadata.store import TableStore
from lakewright.spark.jobs.run import Task, is_answer_awaited
from lakewright.write.leftovers import remove_leftovers

_GIVEN_UP = "Spark has ended this attempt, so its files were removed"


def self_cleaning(store: TableStore, write_id: str, task: Task) -> Task:
    """Return a task of a write whose attempts remove their files if their answer is not awaited any more."""

    def run(this: TaskId, batches: Iterator[pa.RecordBatch]) -> bytes:
        payload = task(this, complete_batches(batches))
        remove_if_given_up(store, write_id, this)
        return payload

    return run


def complete_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task, and fail at their end if they end because Spark gave the attempt up."""
    yield from batches
    if not is_answer_awaited():
        raise ConnectionAbortedError(_GIVEN_UP)


def remove_if_given_up(store: TableStore, write_id: str, this: TaskId) -> None:
    """Remove the files of an attempt that is done, and fail, if Spark has given it up."""
    if is_answer_awaited():
        return
    with suppress(LakewrightError, OSError):  # what stays is an orphan
        for attempt in (this.attempt, this.attempt + INSERTING):
            remove_leftovers(store, f"{write_id}-{this.number}-{attempt}")
    raise ConnectionAbortedError(_GIVEN_UP)
