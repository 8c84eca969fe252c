"""Jobs: a function over the partitions of a frame in, one payload per task out.

The function runs on an executor, once for every partition, and what it returns goes to the driver as rows of bytes.
Always holds: when `run_job` returns, it has exactly one answer of every task; when it raises, no task of the job runs
any more, as far as Spark can tell. The frame behind a job never leaves this module, because a second action on it would
run every task again.

An error of ours that a task raises is what the caller gets, with its type and facts. It travels as an answer and not
as a failure of the task: what is wrong with the input stays wrong at every retry. Failures of the storage, lost workers
and everything else are Spark's to retry.

A worker learns late, or never, that Spark has given its attempt up: if the stage that feeds it fails, its input ends as
if it were complete. `is_answer_awaited` finds out by the state of the connection to the JVM, and
`cleanup.self_cleaning` makes such attempts remove their files.
"""

from __future__ import annotations

import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeAlias, cast

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import types as sql

from lakewright.distributed.faults import error_from_text, error_to_text, is_transient
from lakewright.distributed.job import TaskId
from lakewright.errors import LakewrightError
from lakewright.spark.jobs.classes import TimeType
from lakewright.spark.jobs.progress import JOB_GROUP, JobProgress
from lakewright.spark.jobs.session import heal_workers, is_connect, map_in_arrow
from lakewright.spark.jobs.session import settings as held_settings

PIECE_BYTES = 48 << 20  # of a payload: one value in a row must stay well below what Arrow and Spark can carry
BATCH_BYTES = 128 << 20  # of rows on their way from the JVM to a worker
UNBOUNDED_ROWS = 4096  # in a batch of rows without a known maximal size
_BATCH_ROWS_MIN, _BATCH_ROWS_MAX = 64, 32768
_BYTES_PER_BATCH = "spark.sql.execution.arrow.maxBytesPerBatch"
ROWS_PER_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
_NO_LIMIT = str(2**31 - 1)  # switches off a check that costs more than everything else, once for every row
_LIMIT = str(64 << 20)  # Spark's own

_JOB_PROPERTIES = (JOB_GROUP, "spark.job.description", "spark.job.interruptOnCancel")
_IDLE_SECONDS_MAX = 60.0
_POLL_SECONDS = 0.05

_ANSWER = pa.schema(
    [
        pa.field("task", pa.int32(), nullable=False),
        pa.field("attempt", pa.int64(), nullable=False),
        pa.field("retry", pa.int32(), nullable=False),
        pa.field("piece", pa.int32(), nullable=False),
        pa.field("pieces", pa.int32(), nullable=False),
        pa.field("payload", pa.binary()),
        pa.field("error", pa.string()),
    ]
)
_ANSWER_SQL = "task int, attempt long, retry int, piece int, pieces int, payload binary, error string"


@dataclass(frozen=True, slots=True)
class TaskAnswer:
    """The answer of one task to the driver."""

    task: TaskId  # its number is that of the partition, its attempt is Spark's own id, unique in the application
    payload: bytes
    retry: int = 0  # how many attempts at the task failed before, in one run of its stage
    run: int = 0  # of the job: 1 where it had to be run again


Task: TypeAlias = Callable[[TaskId, Iterator[pa.RecordBatch]], bytes]


def run_job(
    df: DataFrame,
    task: Task,
    *,
    group: str,
    description: str,
    progress: JobProgress | None = None,
    settings: Mapping[str, str] | None = None,
) -> list[TaskAnswer]:
    """Run a function over the partitions of a frame and return the answers of all tasks, by task number.

    `settings` override those with which batches travel fast. A job whose batches grow beyond what Arrow can hold
    runs a second time with batches of bounded size.
    """
    spark = df.sparkSession
    heal_workers(spark)
    fast = {_BYTES_PER_BATCH: _NO_LIMIT, ROWS_PER_BATCH: str(batch_rows(df.schema)), **(settings or {})}
    answers = map_in_arrow(df, _on_executor(task), _ANSWER_SQL)
    run = 0
    with _shown_interrupts(), _plain_interrupts(), _named_jobs(spark, group, description):
        if progress is not None:
            progress.follow(spark)
        try:
            with held_settings(spark, fast):
                rows = answers.collect()
        except Exception as error:
            if "OversizedAllocationException" not in str(error):
                raise
            stop_jobs(spark, group)
            run = 1
            with held_settings(spark, {**fast, _BYTES_PER_BATCH: _LIMIT}):
                rows = answers.collect()
    return _complete(_joined(rows, run), description)


def batch_rows(schema: sql.StructType) -> int:
    """Return how many rows of a frame should travel to a worker together."""
    width = _width(schema)
    if width is None:
        return UNBOUNDED_ROWS
    return max(_BATCH_ROWS_MIN, min(_BATCH_ROWS_MAX, BATCH_BYTES // max(1, width)))


def has_losers(done: Sequence[TaskAnswer]) -> bool:
    """Say whether some attempts of a job may have lost: retries, copies, stages that ran again.

    Spark counts attempts up, so those of a stage that ran once follow each other; another job that runs at the same
    time looks like a stage that ran again. A speculative copy that lost cannot be seen, nor a stage of which no answer
    was kept.
    """
    attempts = [one.task.attempt for one in done]
    holes = bool(done) and max(attempts) - min(attempts) >= len(done)
    return holes or any(one.retry or one.run for one in done)


def ran_again(spark: SparkSession, group: str) -> bool:
    """Say whether a stage of a group ran more than once, or a task of it failed; Connect cannot tell."""
    if is_connect(spark):
        return False
    tracker = spark.sparkContext.statusTracker()
    infos = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group))
    stages = (tracker.getStageInfo(int(stage)) for info in infos if info is not None for stage in info.stageIds)
    return any(stage.currentAttemptId or stage.numFailedTasks for stage in stages if stage is not None)


# ---- on an executor --------------------------------------------------------------------------------------------------


def _on_executor(task: Task) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    size = PIECE_BYTES

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        if context is None:
            message = "a task of a Spark job can run only on an executor"
            raise LakewrightError(message)
        this = TaskId(context.partitionId(), context.taskAttemptId())
        try:
            payload = task(this, batches)
        except LakewrightError as error:
            if is_transient(error):
                raise
            yield _answer(this, context.attemptNumber(), (0, 1), None, error_to_text(error))
            return
        pieces = max(1, -(-len(payload) // size))
        for piece in range(pieces):
            part = payload[piece * size : (piece + 1) * size]
            yield _answer(this, context.attemptNumber(), (piece, pieces), part, None)

    return run


def is_answer_awaited() -> bool:
    """Say whether the JVM still holds the connection on which it gets the answer of this attempt.

    The JVM closes its end when it ends the attempt, before the driver knows of that, and its sending half when the
    stage that feeds this task fails. True where the connection cannot be found or asked.
    """
    frame = sys._getframe()  # noqa: SLF001 - PySpark has no public name for it: an argument of the worker's loop
    while frame is not None and "outfile" not in frame.f_locals:
        frame = frame.f_back  # type: ignore[assignment]
    if frame is None or not hasattr(select, "POLLRDHUP"):
        return True
    poller = select.poll()
    try:
        poller.register(frame.f_locals["outfile"], select.POLLRDHUP | select.POLLHUP | select.POLLERR)
        return not poller.poll(0)
    except (OSError, TypeError, ValueError, AttributeError):
        return True


def _answer(
    this: TaskId, retry: int, piece: tuple[int, int], payload: bytes | None, error: str | None
) -> pa.RecordBatch:
    values = (this.number, this.attempt, retry, *piece, payload, error)
    arrays = [pa.array([value], field.type) for value, field in zip(values, _ANSWER, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ANSWER)


# ---- on the driver ---------------------------------------------------------------------------------------------------


def _joined(rows: Sequence[Row], run: int) -> list[TaskAnswer]:
    """Put payloads together again, or raise the error that the first of the failed tasks sent."""
    failed = [row for row in rows if row.error is not None]
    if failed:
        raise error_from_text(min(failed, key=lambda row: row.task).error)
    parts: dict[TaskId, list[Row]] = {}
    for row in rows:
        parts.setdefault(TaskId(row.task, row.attempt), []).append(row)
    done = []
    for task, task_rows in parts.items():
        pieces = sorted(task_rows, key=lambda row: row.piece)
        if [row.piece for row in pieces] != list(range(pieces[0].pieces)):
            message = f"task {task.number} sent {len(pieces)} of {pieces[0].pieces} pieces home; write the data again"
            raise LakewrightError(message, task=task.number)
        done.append(TaskAnswer(task, b"".join(row.payload for row in pieces), pieces[0].retry, run))
    return done


def _complete(done: Sequence[TaskAnswer], description: str) -> list[TaskAnswer]:
    """Return the answers in the order of the tasks; raise an error unless there is exactly one of every task."""
    ordered = sorted(done, key=lambda one: one.task.number)
    numbers = [one.task.number for one in ordered]
    if numbers != list(range(len(numbers))):
        missing = sorted(set(range(len(numbers))) - set(numbers))
        raise LakewrightError(
            f"{description}: Spark brought the answers of some tasks home twice or not at all (missing: "
            f"{missing[:5]}); nothing was committed, run it again",
            tasks=tuple(missing),
        )
    return ordered


@contextmanager
def _plain_interrupts() -> Iterator[None]:
    """Let Ctrl-C be a plain KeyboardInterrupt: PySpark's own handler calls the JVM first, over a busy connection."""
    before = signal.getsignal(signal.SIGINT)
    theirs = str(getattr(before, "__module__", "")).startswith("pyspark")
    if not theirs or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _shown_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt in place of an error of PySpark that came up while it handled that interrupt."""
    try:
        yield
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, KeyboardInterrupt):
            cause = cause.__cause__ or cause.__context__
        if cause is None:
            raise
        raise KeyboardInterrupt from error


@contextmanager
def _named_jobs(spark: SparkSession, group: str, description: str) -> Iterator[None]:
    """Name the jobs of this thread, and cancel them and wait for them if the block does not end well.

    A group that a notebook or a stream has set for this thread before stays, so that they can still cancel by it.
    """
    context = None if is_connect(spark) else spark.sparkContext
    before: dict[str, str | None] = {}  # what to put back
    if context is not None and context.getLocalProperty(JOB_GROUP) is None:
        before = {key: context.getLocalProperty(key) for key in _JOB_PROPERTIES}
        context.setJobGroup(group, description)
    spark.addTag(_tag(group)) if context is None else context.addJobTag(_tag(group))
    try:
        yield
    except BaseException:
        stop_jobs(spark, group)
        raise
    finally:
        # If the JVM died this fails too, and that must not hide the first error.
        with suppress(Exception):
            spark.removeTag(_tag(group)) if context is None else context.removeJobTag(_tag(group))
            for key, value in before.items():
                spark.sparkContext.setLocalProperty(key, cast("str", value))  # None removes a property


def stop_jobs(spark: SparkSession, group: str) -> None:
    """Cancel the jobs of a group and wait until none of its tasks runs; Connect shows no tasks to wait for."""
    # A failure in here must not hide the error that is being raised.
    with suppress(Exception):
        # A classic session keeps its own tags by thread of the JVM, and after an interrupt that is another thread.
        stop = spark.interruptTag if is_connect(spark) else spark.sparkContext.cancelJobsWithTag
        stop(_tag(group))
    with suppress(Exception):
        wait_until_idle(spark, group)


def wait_until_idle(spark: SparkSession, group: str, *, seconds_max: float = _IDLE_SECONDS_MAX) -> bool:
    """Wait until no task of a group runs and say whether that was seen; Connect shows no tasks."""
    if is_connect(spark):
        return False
    context = spark.sparkContext
    group = context.getLocalProperty(JOB_GROUP) or group
    deadline = time.monotonic() + seconds_max
    tracker = context.statusTracker()
    while time.monotonic() < deadline:
        infos = [info for job in tracker.getJobIdsForGroup(group) if (info := tracker.getJobInfo(job)) is not None]
        stages = [stage for info in infos for s in info.stageIds if (stage := tracker.getStageInfo(int(s))) is not None]
        if not any(info.status == "RUNNING" for info in infos) and not any(s.numActiveTasks for s in stages):
            return True
        time.sleep(_POLL_SECONDS)
    return False


def _tag(group: str) -> str:
    return f"lakewright-{group}"


_WIDTHS: dict[type[sql.DataType], int] = {
    sql.BooleanType: 1,
    sql.ByteType: 1,
    sql.ShortType: 2,
    sql.IntegerType: 4,
    sql.FloatType: 4,
    sql.DateType: 4,
    sql.LongType: 8,
    sql.DoubleType: 8,
    sql.TimestampType: 8,
    sql.TimestampNTZType: 8,
    sql.DayTimeIntervalType: 8,
    TimeType: 8,
    sql.DecimalType: 16,
}


def _width(dtype: sql.DataType) -> int | None:
    """Return how many bytes a value takes, None where there is no bound."""
    if isinstance(dtype, sql.StructType):
        widths = [_width(field.dataType) for field in dtype.fields]
        return None if None in widths else sum(width for width in widths if width is not None)
    return _WIDTHS.get(type(dtype))
