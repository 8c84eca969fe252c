"""What a job of Spark leaves behind, and its removal: an id of a write in, files gone.

Killed workers clean up nothing, and attempts that failed or lost send no message. Always holds: nothing is removed that
a snapshot names or that a message at hand names, and a failed removal hides no other error: what stays is an orphan.

Who removes what: an attempt that Spark gave up before it was done removes its files itself (`tidy`). One that was done
before has its files in place when the driver sees that no task runs any more, and then sweeps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import pyarrow as pa
from pyspark.sql import SparkSession

from lakewright.commit.message.message import CommitMessage
from lakewright.distributed.protocol import remove_all_but, sweep
from lakewright.errors import LakewrightError
from lakewright.metadata.store import TableStore
from lakewright.spark.jobs.run import Done, Task, TaskId, has_losers, is_heard, ran_again, wait_until_idle
from lakewright.spark.jobs.session import is_connect
from lakewright.write.leftovers import remove_leftovers

# A worker whose task was killed may close one more file: Spark gives it two seconds. Connect does not even show when
# the task is over.
_QUIET_SECONDS, _QUIET_SECONDS_CONNECT = 0.5, 3.0
_LOSERS_SECONDS_MAX = 10.0
# Added to an attempt in the names of files with new rows, since the attempt may also write files of rows that move.
INSERTING = 1 << 40
_GIVEN_UP = "Spark has ended this attempt, so its files were removed"


def tidy(store: TableStore, write_id: str, task: Task) -> Task:
    """Return a task of a write whose attempts remove their files where nobody takes the answer any more."""

    def run(this: TaskId, batches: Iterator[pa.RecordBatch]) -> bytes:
        payload = task(this, whole(batches))
        drop_if_unheard(store, write_id, this)
        return payload

    return run


def whole(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task, and fail at their end if they end because Spark gave the attempt up."""
    yield from batches
    if not is_heard():
        raise ConnectionAbortedError(_GIVEN_UP)


def drop_if_unheard(store: TableStore, write_id: str, this: TaskId) -> None:
    """Remove the files of an attempt that is done, and fail, if Spark has given it up."""
    if is_heard():
        return
    with suppress(LakewrightError, OSError):  # what stays is an orphan
        for attempt in (this.attempt, this.attempt + INSERTING):
            remove_leftovers(store, f"{write_id}-{this.number}-{attempt}")
    raise ConnectionAbortedError(_GIVEN_UP)


def clean_up(spark: SparkSession, store: TableStore, write_id: str) -> None:
    """Remove the files of a write that failed, until no new ones appear."""
    sweep(store, write_id, quiet=_QUIET_SECONDS_CONNECT if is_connect(spark) else _QUIET_SECONDS)


def remove_losers(
    spark: SparkSession, store: TableStore, write_id: str, done: Sequence[Done], messages: Sequence[CommitMessage]
) -> None:
    """Remove the files of attempts that others overtook, where there may be any."""
    speculates = spark.conf.get("spark.speculation", "false") == "true"
    if not (speculates or has_losers(done) or ran_again(spark, write_id)):
        return
    wait_until_idle(spark, write_id, seconds_max=_LOSERS_SECONDS_MAX)
    remove_all_but(store, write_id, messages)
